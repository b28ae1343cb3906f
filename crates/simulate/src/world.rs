//! The state that outlives a node: devices, the objects made from them, processes, and the store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use europa_api::{Filters, Host, Kept, Port, Router};
use europa_control::store::Stored;
use europa_control::{Commit, Time};
use europa_plan::slow_path_change::Tools;
use europa_plan::{
    Actual, ActualPort, ActualRouter, Needs, PortFacts, PortId, RelayPlan, RouterId, RouterPlan,
    SliceId, hosts, slow_paths, wires,
};

use crate::notes::Noted;

/// A device of the machine.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SimDevice {
    /// It is there.
    pub(crate) there: bool,
    /// Counts how often the device was removed and returned: objects made from a former device are
    /// invalid.
    pub(crate) generation: u64,
    /// Longest packet, in bytes.
    pub(crate) mtu: u32,
    /// Whether VLAN tags are visible on it.
    pub(crate) shows_tags: bool,
}

/// A port, as the kernel has it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SimPort {
    /// The document from which the port was made.
    pub(crate) document: Port,
    /// The abilities of its device.
    pub(crate) needs: Needs,
    /// The generation of the port's device; `None` if a host or a slow path made the device.
    pub(crate) generation: Option<u64>,
}

/// The state of a router's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Process {
    /// It reads its configuration.
    Starting,
    /// It runs the configuration.
    Ready,
    /// The process has ended, and will be restarted at this time.
    Ended(Time),
}

/// A router in the kernel, and its process.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SimRouter {
    /// The router's document, with the changes that the router has applied.
    pub(crate) plan: Arc<RouterPlan>,
    /// Whether its configuration is unknown.
    pub(crate) astray: bool,
    /// The router's last process has refused its configuration.
    pub(crate) refuses: bool,
    /// Its removal failed half-way.
    pub(crate) half: bool,
    /// Its process.
    pub(crate) process: Process,
    /// Counts the router's processes: orders to one do not concern the next.
    pub(crate) run: u64,
}

/// The state that outlives a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    /// Devices by name.
    pub(crate) devices: BTreeMap<String, SimDevice>,
    /// Open ports.
    pub(crate) ports: BTreeMap<PortId, SimPort>,
    /// Hosts.
    pub(crate) hosts: Vec<Host>,
    /// The documents from which slow paths were made.
    pub(crate) slow_paths: BTreeMap<RouterId, Router>,
    /// Routers whose uplinks are complete.
    pub(crate) uplinks: BTreeSet<RouterId>,
    /// The documents that the programs of slow paths have read.
    pub(crate) programs: BTreeMap<RouterId, Router>,
    /// Relays.
    pub(crate) relays: Vec<RelayPlan>,
    /// Routers.
    pub(crate) routers: BTreeMap<RouterId, SimRouter>,
    /// Rules in force.
    pub(crate) filters: Vec<Filters>,
    /// Slices with numbered rules in force.
    pub(crate) numbered: BTreeSet<SliceId>,
    /// A switch runs.
    pub(crate) switch: bool,
    /// The contents of the store.
    pub(crate) store: SimStore,
    /// Records of objects.
    pub(crate) notes: BTreeSet<Noted>,
    /// A rule of the machine that was broken: always a fault of control.
    pub(crate) broken: Option<String>,
    /// The number of starts and ends of routers' processes: each start and end gets a new number.
    pub(crate) runs: u64,
}

/// A store in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimStore {
    /// One more with each change.
    pub(crate) revision: u64,
    /// In their order.
    pub(crate) documents: Vec<Stored>,
    /// Slices with numbered rules.
    pub(crate) numbered: BTreeSet<SliceId>,
}

impl SimStore {
    /// Stores a change, if it builds on the present state.
    pub(crate) fn change(&mut self, commit: &Commit) -> Result<(), String> {
        if commit.base != self.revision {
            return Err(format!("revision {} is not {}", self.revision, commit.base));
        }
        self.revision = commit.revision;
        let goes = |stored: &Stored| {
            commit.remove.contains(&stored.key)
                || commit.put.iter().any(|put| put.key == stored.key)
        };
        self.documents.retain(|stored| !goes(stored));
        self.documents.extend(commit.put.iter().cloned());
        self.documents.sort_by_key(|stored| stored.order);
        for key in commit.remove.iter().filter(|key| key.kind == "slice") {
            self.numbered.remove(&*key.name);
        }
        Ok(())
    }

    /// The documents in the form that the checks need.
    pub(crate) fn kept(&self) -> Vec<Kept> {
        self.documents.iter().map(Stored::kept).collect()
    }
}

impl World {
    /// Begins another process of a router: events of the former process become invalid.
    pub(crate) fn next_run(&mut self) -> u64 {
        self.runs += 1;
        self.runs
    }

    /// A world with some devices.
    pub(crate) fn new() -> Self {
        let device = |number: u32| {
            let device =
                SimDevice { there: true, generation: 0, mtu: 1500, shows_tags: number != 3 };
            (format!("d{number}"), device)
        };
        Self { devices: (0..4).map(device).collect(), ..Self::default() }
    }

    /// Notes that a rule of the machine was broken.
    pub(crate) fn breaks(&mut self, rule: impl Into<String>) {
        self.broken.get_or_insert(rule.into());
    }

    /// The facts about the device of a port that a host makes.
    pub(crate) fn host_port(&self, port: &str) -> Option<PortFacts> {
        let made = hosts::interfaces(&self.hosts).find_map(|(host, key, interface)| {
            let name = host.port(&key.1, interface)?;
            (*name == *port).then(|| interface.mtu())
        })?;
        Some(PortFacts { mac: hosts::port_mac(port), mtu: made, vlan: Ok(()) })
    }

    /// Looks at the device of a port.
    pub(crate) fn look(&self, port: &Port) -> Result<PortFacts, String> {
        let name = &*port.name.value;
        if slow_paths::is_hidden(name) {
            let router = slow_paths::router_of(name).unwrap_or_default();
            let there = self.slow_paths.contains_key(router);
            return match there {
                true => Ok(PortFacts { mac: [0; 6], mtu: 1500, vlan: Ok(()) }),
                false => Err(format!("{name}: there is no slow path")),
            };
        }
        if wires::is_wire(name) {
            // It is made with its port.
            return Ok(PortFacts { mac: [0; 6], mtu: wires::MTU, vlan: Ok(()) });
        }
        if port.namespace.is_some() {
            return self.host_port(name).ok_or_else(|| format!("{name}: there is no host"));
        }
        let device = self.devices.get(&*port.device.value).filter(|device| device.there);
        let device = device.ok_or_else(|| format!("there is no device {}", port.device.value))?;
        let mtu = port.mtu.as_ref().map_or(device.mtu, |mtu| mtu.value);
        if mtu > device.mtu {
            return Err(format!("an MTU of {mtu} does not fit"));
        }
        Ok(PortFacts { mac: [2, 0, 0, 0, 0, 1], mtu, vlan: Ok(()) })
    }

    /// Whether the device of a port was removed or replaced.
    pub(crate) fn is_stale(&self, port: &SimPort) -> bool {
        let Some(generation) = port.generation else { return false };
        let device = self.devices.get(&*port.document.device.value);
        device.is_none_or(|device| !device.there || device.generation != generation)
    }

    /// A plan's facts about an open port.
    pub(crate) fn facts(&self, port: &SimPort) -> PortFacts {
        let facts = self.look(&port.document).unwrap_or(PortFacts {
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 1500,
            vlan: Ok(()),
        });
        let shows = self.devices.get(&*port.document.device.value).is_none_or(|d| d.shows_tags);
        let vlan =
            if port.needs.vlan && !shows { Err("tags are not seen".to_owned()) } else { Ok(()) };
        PortFacts { vlan, ..facts }
    }

    /// Slow paths with a program that does not run, or has not read its files.
    pub(crate) fn idle(&self) -> impl Iterator<Item = &RouterId> {
        let read = |name: &RouterId| self.programs.get(name).map(|read| &read.slow_path);
        let all = self.slow_paths.iter();
        all.filter(move |(name, made)| read(name) != Some(&made.slow_path)).map(|(name, _)| name)
    }

    /// The whole state in the form that the plan needs.
    pub(crate) fn actual(&self) -> Actual {
        let ports = self.ports.values().map(|port| ActualPort {
            document: port.document.clone(),
            facts: self.facts(port),
            needs: port.needs,
            stale: self.is_stale(port),
        });
        let routers = self.routers.values().map(|router| ActualRouter {
            plan: router.plan.clone(),
            astray: router.astray,
            half: router.half,
        });
        Actual {
            ports: ports.collect(),
            hosts: Arc::new(self.hosts.clone()),
            slow_paths: self
                .slow_paths
                .iter()
                .map(|(name, made)| {
                    let has = self.uplinks.contains(name);
                    (name.clone(), slow_paths::with_uplink(made, has))
                })
                .collect(),
            idle: self.idle().cloned().collect(),
            tools: Tools { frr_reload: true, birdc: true },
            relays: self.relays.clone(),
            routers: routers.collect(),
            filters: Arc::new(self.filters.clone()),
            numbered: self.numbered.clone(),
            parked: BTreeSet::new(),
            switch: self.switch,
        }
    }
}
