//! Programs in Linux's own path of packets, which share the maps of an XDP program: by tc on devices,
//! and on the sockets of a control group.

use crate::cage::{Cage, Caged, Program};
use crate::check::{check_hook, check_kernel};
use crate::leak::{Findings, analyse_hook};
use crate::link::{Linked, link};
use crate::object::Object;
use crate::problem::{Place, Problem, Problems};

/// The place of such a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hook {
    /// By tc, for received packets.
    TcIngress,
    /// By tc, for sent packets.
    TcEgress,
    /// Of type `cgroup_skb`, for packets that sockets receive.
    CgroupIngress,
    /// Of type `cgroup_skb`, for packets that sockets send.
    CgroupEgress,
}

impl Hook {
    /// All places.
    pub const ALL: [Hook; 4] =
        [Hook::TcIngress, Hook::TcEgress, Hook::CgroupIngress, Hook::CgroupEgress];

    /// Whether it is on devices.
    pub fn is_by_tc(self) -> bool {
        matches!(self, Hook::TcIngress | Hook::TcEgress)
    }
}

/// A linked and checked program for such a place.
#[derive(Clone, Debug)]
pub struct HookProgram {
    /// Its place.
    pub hook: Hook,
    linked: Linked,
    findings: Findings,
}

impl HookProgram {
    /// Links and checks the program `entry` of an object, by its number there. With `follow`, it may
    /// not turn an address of the kernel into a number. Adds its mistakes to `problems`.
    ///
    /// # Errors
    /// It cannot be linked.
    pub(crate) fn new(
        object: &Object,
        (hook, entry): (Hook, usize),
        follow: bool,
        problems: &mut Vec<Problem>,
    ) -> Result<HookProgram, Problems> {
        let linked = link(object, &[entry])?;
        problems.extend(check_hook(object, &linked, hook.is_by_tc()));
        problems.extend(check_kernel(object, &linked));
        let findings = analyse_hook(object, &linked);
        if follow {
            problems.extend(findings.problems.iter().cloned());
        }
        Ok(HookProgram { hook, linked, findings })
    }

    fn program<'a>(&'a self, object: &'a Object) -> Program<'a> {
        Program { object, linked: &self.linked, findings: &self.findings }
    }

    /// The loaded form.
    pub fn caged(&self, object: &Object, cage: &Cage) -> Caged {
        let entry = self.linked.entries.first().copied().unwrap_or(0);
        cage.stage(&self.program(object), entry, 0)
    }

    /// The author's line of an instruction that was loaded.
    pub fn place(&self, object: &Object, caged: &Caged, at: usize) -> Option<Place> {
        caged.place(&self.program(object), at)
    }

    /// Its function's name.
    pub fn name<'a>(&self, object: &'a Object) -> &'a str {
        let entry = self.linked.entries.first().and_then(|entry| self.linked.function_of(*entry));
        let function = entry.and_then(|of| object.functions.get(of.function));
        function.map_or("", |function| &function.name)
    }

    /// Which maps of the object it uses.
    pub(crate) fn used(&self) -> &[bool] {
        &self.linked.used
    }
}
