//! XDP programs of routers with `run: kernel`.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use europa_api::{Choice, Documents, Programs, Router, Run, Slice};
use europa_cage::hook::Hook;
use europa_cage::kernel::{Rights, Settings};
use europa_substrate::layout::CAGE_DEVICES;

use crate::interface::InterfacePlan;

/// The program of a router, and how it is loaded.
#[derive(Clone, PartialEq, Eq)]
pub struct CagePlan {
    /// Origin of the object, for messages.
    pub file: String,
    /// The field of the document that names the object.
    pub field: &'static str,
    /// The object.
    pub object: Arc<Vec<u8>>,
    /// Its part of the document.
    pub settings: Settings,
    /// The program's rights.
    pub rights: Rights,
    /// Number of the router's interfaces on which the program runs: the first ones.
    pub interfaces: usize,
    /// Whether the router has a user part.
    pub has_user_part: bool,
    /// Whether a slow path gets what the program passes.
    pub has_slow_path: bool,
    /// The limits of the program.
    pub limits: CageLimits,
}

/// The kernel resources that a program may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CageLimits {
    /// Instructions that the verifier follows in it and the stages that it calls.
    pub instructions: u64,
    /// Thousandths of a core for each interface; `None`: its time has no limit.
    pub cpu_thousandths: Option<u32>,
    /// Bytes of the maps of all programs of its slice.
    pub slice_map_bytes: Option<u64>,
}

impl CageLimits {
    /// Most instructions unless the slice says otherwise.
    const INSTRUCTIONS: u64 = 100_000;

    /// The limits for programs of a slice.
    pub fn of(slice: Option<&Slice>) -> CageLimits {
        let limits = slice.and_then(|slice| slice.program_limits.as_ref());
        let instructions = limits.and_then(|limits| limits.instructions.as_ref());
        let cpu = limits.and_then(|limits| limits.cpu.as_ref());
        let reservation = slice.and_then(|slice| slice.reservation.as_ref());
        let memory = reservation.and_then(|reservation| reservation.memory.as_ref());
        CageLimits {
            instructions: instructions.map_or(Self::INSTRUCTIONS, |most| most.value.into()),
            cpu_thousandths: cpu.map(|cpu| cpu.value.thousandths()),
            slice_map_bytes: memory.map(|memory| memory.value.0),
        }
    }
}

impl std::fmt::Debug for CagePlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CagePlan")
            .field("file", &self.file)
            .field("bytes", &self.object.len())
            .field("settings", &self.settings)
            .field("rights", &self.rights)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// The program of a router, if it has one.
pub(crate) fn cage(router: &Router, documents: &Documents) -> Result<Option<CagePlan>, String> {
    let Some(Choice::Xdp(xdp, object)) = router.fast_path.value.choice() else { return Ok(None) };
    if router.run != Run::Kernel {
        return Ok(None);
    }
    let slice = documents.slices.iter().find(|slice| slice.name == router.slice);
    let rights = match slice.map(|slice| slice.programs).unwrap_or_default() {
        Programs::None => return Err("its slice says `programs: none`".into()),
        Programs::Tenant => Rights::Tenant,
        Programs::Operator => Rights::Operator,
    };
    let bytes = BASE64.decode(object.text.trim());
    let bytes = bytes.map_err(|error| format!("{}: its base64 is broken: {error}", object.file))?;
    let mut settings = Settings {
        program: xdp.program.as_ref().map(|name| name.value.clone()),
        ..Settings::default()
    };
    for (tc, hooks) in [(true, &xdp.tc), (false, &xdp.cgroup)] {
        let Some(hooks) = hooks else { continue };
        let (ingress, egress) = match tc {
            true => (Hook::TcIngress, Hook::TcEgress),
            false => (Hook::CgroupIngress, Hook::CgroupEgress),
        };
        for (hook, name) in [(ingress, &hooks.ingress), (egress, &hooks.egress)] {
            settings.hooks.extend(name.as_ref().map(|name| (hook, name.value.clone())));
        }
    }
    for (name, value) in &xdp.constants.0 {
        settings.constants.push((name.value.clone(), value.value.clone()));
    }
    for (map, entries) in &xdp.maps.0 {
        let all = entries.0.iter();
        let all =
            all.map(|(key, value)| (map.value.clone(), key.value.clone(), value.value.clone()));
        settings.entries.extend(all);
    }
    for (map, entries) in &xdp.tail_calls.0 {
        for (index, program) in &entries.0 {
            let number = index.value.parse().map_err(|_| {
                format!(
                    "tail_calls: an index of '{}' is a number, not '{}'",
                    map.value, index.value
                )
            })?;
            settings.tail_calls.push((map.value.clone(), number, program.value.clone()));
        }
    }
    let own = router.interfaces.0.iter().filter(|(name, _)| !name.value.is_hidden()).count();
    if own >= CAGE_DEVICES as usize {
        return Err(format!("a kernel router has at most {} interfaces", CAGE_DEVICES - 1));
    }
    Ok(Some(CagePlan {
        file: object.file.clone(),
        field: xdp.file().map_or("object", |(field, _)| field),
        object: Arc::new(bytes),
        settings,
        rights,
        interfaces: own,
        has_user_part: xdp.user.is_some(),
        has_slow_path: router.slow_path.is_some(),
        limits: CageLimits::of(slice),
    }))
}

/// Whether an interface is possible for a kernel router; otherwise the field and the reason.
/// `is_relayed`: its link has an effect on packets of the host at its other end.
pub(crate) fn check_interface(
    plan: &InterfacePlan,
    is_relayed: bool,
) -> Result<(), (&'static str, String)> {
    let isolated = "which a router with `run: isolated` may have";
    if is_relayed {
        let why = "this link does something to what its host sends, which would go by the program";
        return Err(("link", format!("{why}; a router with `run: isolated` may have it")));
    }
    if plan.tunnel.is_some() {
        return Err(("match", format!("it is in a VXLAN, {isolated}")));
    }
    Ok(())
}
