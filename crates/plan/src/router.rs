//! The plan of one router, and how a running router becomes another.

use std::net::Ipv4Addr;

use europa_elements::builtin::{Description, Update, update};
use europa_pool::Geometry;
use europa_pool::layout::InterfaceRow;
use europa_resource::Resource;
use europa_router::orders;
use europa_substrate::layout::FENCED;

use crate::cage::CagePlan;
use crate::ids::{PortId, RouterId};
use crate::interface::InterfacePlan;
use crate::slow_paths::is_hidden;

/// The place of a router's fast path.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// A process that runs a Click configuration.
    Isolated,
    /// A process that runs a Click configuration with the user's own elements: the file of their
    /// program.
    Elements(String),
    /// A process that runs the user's own program: the command.
    Program(Vec<String>),
    /// The switch, with the router's limits there.
    Inline(orders::Inline),
    /// The kernel, and a process for the packets that the program passes.
    Kernel,
}

/// A router, planned.
#[derive(Clone, Debug, PartialEq)]
pub struct RouterPlan {
    /// Its name.
    pub name: RouterId,
    /// The place of its fast path.
    pub place: Place,
    /// The program that runs in the kernel, if the router has one.
    pub cage: Option<CagePlan>,
    /// Its packet pool.
    pub geometry: Geometry,
    /// The router's interfaces, in the order of its document.
    pub interfaces: Vec<InterfacePlan>,
    /// It polls without sleeping.
    pub busy: bool,
    /// CPUs it asks for.
    pub cpus: Vec<usize>,
    /// Text of the Click configuration.
    pub configuration: String,
    /// The file that contains this configuration.
    pub file: String,
    /// The settings of `builtin: ipv4`.
    pub description: Option<Description>,
    /// The first IPv4 address of each interface.
    pub addresses: Vec<Option<Ipv4Addr>>,
    /// Files and sockets that the router's elements may use.
    pub grants: Vec<Resource>,
}

/// How a running router is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouterChange {
    /// It is in the desired state.
    Nothing,
    /// Its process continues: the switch gets changed interfaces, and handlers are written.
    InPlace(Vec<Update>),
    /// Its process takes over another configuration, with the state of the old one.
    Swap,
    /// It ends, and a new one starts.
    Restart,
}

impl RouterPlan {
    /// The ports of its interfaces.
    pub fn ports(&self) -> impl Iterator<Item = &PortId> {
        self.interfaces.iter().filter_map(|interface| interface.to.port())
    }

    /// Whether the router runs inside the switch.
    pub fn is_inline(&self) -> bool {
        matches!(self.place, Place::Inline(_))
    }

    /// The command of the router's program; empty if it runs a Click configuration.
    pub fn program(&self) -> &[String] {
        match &self.place {
            Place::Program(command) => command,
            Place::Isolated | Place::Elements(_) | Place::Inline(_) | Place::Kernel => &[],
        }
    }

    /// The program with the user's elements, if there is one.
    pub fn elements(&self) -> Option<&str> {
        match &self.place {
            Place::Elements(file) => Some(file),
            _ => None,
        }
    }

    /// Rows of the pool's interface table.
    pub fn rows(&self) -> Vec<InterfaceRow> {
        self.interfaces
            .iter()
            .map(|interface| {
                let mut name = [0; 16];
                for (to, from) in name.iter_mut().take(15).zip(interface.name.bytes()) {
                    *to = from;
                }
                InterfaceRow {
                    rx: Default::default(),
                    tx: Default::default(),
                    mtu: interface.mtu,
                    mac: interface.spec.mac,
                    reserved: [0; 6],
                    name,
                    reserved_to_end: [0; 16],
                }
            })
            .collect()
    }

    /// The settings for the router's process.
    pub fn start(&self, worker: u32) -> orders::Start {
        orders::Start {
            slots: self.geometry.slots,
            slot_bytes: self.geometry.slot_bytes,
            interfaces: self
                .interfaces
                .iter()
                .zip(&self.addresses)
                .map(|(interface, address)| orders::Interface {
                    name: interface.name.clone(),
                    mac: interface.spec.mac,
                    mtu: interface.mtu,
                    address: *address,
                })
                .collect(),
            worker,
            busy: self.busy,
            configuration: self.configuration.clone(),
            file: self.file.clone(),
            grants: self.grants.iter().map(Resource::to_string).collect(),
            inline: match self.place {
                Place::Inline(inline) => Some(inline),
                Place::Isolated | Place::Elements(_) | Place::Program(_) | Place::Kernel => None,
            },
        }
    }

    /// The fields in which a process of this plan differs from one of `new`.
    pub fn differences(&self, new: &Self) -> Vec<String> {
        let mut all = Vec::new();
        let mut note = |differs: bool, what: &str| {
            if differs {
                all.push(what.to_owned());
            }
        };
        note(!self.has_process_of(new), "where it runs");
        note(self.busy != new.busy, "how it polls");
        note(self.cpus != new.cpus, "its CPUs");
        note(self.grants != new.grants, "its grants");
        note(self.geometry != new.geometry, "its pool");
        let names = |plan: &Self| -> Vec<String> {
            plan.interfaces.iter().map(|one| one.name.clone()).collect()
        };
        if names(self) != names(new) {
            note(true, "its interfaces");
            return all;
        }
        for (old, new) in self.interfaces.iter().zip(&new.interfaces) {
            let name = &old.name;
            let moved = old.to != new.to && !old.stays(new);
            note(old.addresses != new.addresses, &format!("addresses of {name}"));
            note(old.mtu != new.mtu, &format!("MTU of {name}"));
            note(old.spec.mac != new.spec.mac, &format!("Ethernet address of {name}"));
            note(moved, &format!("attachment of {name}"));
            let matches = old.spec.matches != new.spec.matches && !old.stays(new) && !moved;
            note(matches || old.tunnel != new.tunnel, &format!("match of {name}"));
            note(old.spec.bound != new.spec.bound, &format!("bound addresses of {name}"));
            let fence = |plan: &InterfacePlan| plan.spec.flags & FENCED;
            note(fence(old) != fence(new), &format!("fence of {name}"));
        }
        all
    }

    /// Whether a process of this plan can be adopted as one of `new`. The configuration may differ,
    /// because it can be changed while the process runs.
    pub fn is_outside_as(&self, new: &Self) -> bool {
        self.geometry == new.geometry
            && self.interfaces.len() == new.interfaces.len()
            && self.interfaces.iter().zip(&new.interfaces).all(|(old, new)| old.stays(new))
            && self.addresses == new.addresses
            && self.busy == new.busy
            && self.cpus == new.cpus
            && self.grants == new.grants
            && self.has_process_of(new)
    }

    /// Whether a process of this plan can become that of `new` with another configuration. This
    /// includes a kernel router's process, which runs a Click configuration. It excludes routers
    /// with a slow path: their process would have to follow Linux from its start.
    fn has_process_of(&self, new: &Self) -> bool {
        let clicks = |plan: &Self| matches!(plan.place, Place::Isolated | Place::Kernel);
        let follows = |plan: &Self| plan.ports().any(|port| is_hidden(port));
        self.place == new.place || clicks(self) && clicks(new) && !follows(self) && !follows(new)
    }

    /// How a router of this plan becomes `new`. `astray`: its configuration is unknown.
    pub fn change(&self, astray: bool, new: &Self) -> RouterChange {
        if !self.is_outside_as(new) {
            return RouterChange::Restart;
        }
        if astray {
            return RouterChange::Swap;
        }
        if text(&self.configuration) == text(&new.configuration) {
            let mut pairs = self.interfaces.iter().zip(&new.interfaces);
            let stays = self.cage == new.cage;
            return match stays && pairs.all(|(old, new)| old.is_wired_as(new)) {
                true => RouterChange::Nothing,
                false => RouterChange::InPlace(Vec::new()),
            };
        }
        if let (Some(from), Some(to)) = (&self.description, &new.description)
            && let Ok(Some(updates)) = update(from, to)
        {
            return RouterChange::InPlace(updates);
        }
        RouterChange::Swap
    }
}

/// A configuration without the leading blank lines that stand for lines of its file.
pub fn text(configuration: &str) -> &str {
    configuration.trim_start_matches('\n')
}
