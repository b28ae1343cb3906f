//! Records of objects, which a new node needs to adopt them.
//!
//! An effect and its record are two writes. A node that is killed between them leaves an object
//! without a record, or a record without its object. The next node removes both.

use std::collections::BTreeSet;

use europa_plan::{PortId, RouterId, Step};

use crate::world::World;

/// An object that has a record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Noted {
    /// A port, with the former state of its device.
    Port(PortId),
    /// A relay, by its port.
    Relay(PortId),
    /// A router that runs.
    Router(RouterId),
    /// All hosts.
    Hosts,
    /// A slow path.
    SlowPath(RouterId),
    /// The switch.
    Switch,
}

/// The records that a step removes before its effect, and those that it writes after it.
pub(crate) struct Change {
    before: Vec<Noted>,
    after: Vec<Noted>,
}

impl Change {
    /// Whether it only removes records.
    pub(crate) fn is_removal(&self) -> bool {
        self.after.is_empty() && !self.before.is_empty()
    }
}

impl World {
    /// The change of the records by a step.
    pub(crate) fn change_of_notes(&self, step: &Step) -> Change {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        match step {
            Step::OpenPort(port) => after.push(Noted::Port(PortId::new(&*port.name.value))),
            Step::ClosePort(port) => before.push(Noted::Port(PortId::new(&*port.name.value))),
            Step::MakeRelay(relay) => after.push(Noted::Relay(relay.port.clone())),
            Step::RemoveRelay(relay) => before.push(Noted::Relay(relay.port.clone())),
            Step::AddRouter(plan) => after.push(Noted::Router(plan.name.clone())),
            Step::RemoveRouter(plan) => before.push(Noted::Router(plan.name.clone())),
            Step::TrimHosts { .. } => before.push(Noted::Hosts),
            Step::MakeHosts { .. } => after.push(Noted::Hosts),
            Step::ChangeSlowPaths { to, .. } => {
                let stays = |name: &RouterId| {
                    to.iter().any(|new| {
                        RouterId::of(new) == *name && self.slow_paths.get(name) == Some(new)
                    })
                };
                let changed = self.slow_paths.keys().filter(|name| !stays(name));
                before.extend(changed.cloned().map(Noted::SlowPath));
                after.extend(to.iter().map(|new| Noted::SlowPath(RouterId::of(new))));
            }
            Step::StartSwitch => after.push(Noted::Switch),
            Step::ChangePort { .. }
            | Step::AdaptPort { .. }
            | Step::ChangeFilters { .. }
            | Step::ImpairRelay { .. }
            | Step::UpdateRouter { .. }
            | Step::StartSlowPaths => {}
        }
        Change { before, after }
    }

    /// Notes a step that was carried out, completely or half-way.
    pub(crate) fn note(&mut self, change: Change, half: bool) {
        self.note_first(&change);
        if !half {
            self.notes.extend(change.after);
        }
    }

    /// Removes the records that a step removes before its effect.
    pub(crate) fn note_first(&mut self, change: &Change) {
        self.notes.retain(|one| !change.before.contains(one));
    }

    /// The existing objects that have records, or should have.
    fn existing(&self) -> BTreeSet<Noted> {
        let mut all: BTreeSet<Noted> = self.ports.keys().cloned().map(Noted::Port).collect();
        all.extend(self.relays.iter().map(|relay| Noted::Relay(relay.port.clone())));
        all.extend(self.routers.keys().cloned().map(Noted::Router));
        all.extend(self.slow_paths.keys().cloned().map(Noted::SlowPath));
        all.extend((!self.hosts.is_empty()).then_some(Noted::Hosts));
        all.extend(self.switch.then_some(Noted::Switch));
        all
    }

    /// Removes objects without a record, as a new node does.
    pub(crate) fn remove_unnoted(&mut self) {
        let gone: Vec<Noted> = self.existing().difference(&self.notes).cloned().collect();
        for one in gone {
            match one {
                Noted::Port(name) => drop(self.ports.remove(&name)),
                Noted::Relay(port) => self.relays.retain(|relay| relay.port != port),
                Noted::Router(name) => drop(self.routers.remove(&name)),
                Noted::Hosts => self.hosts.clear(),
                Noted::SlowPath(name) => drop(self.slow_paths.remove(&name)),
                Noted::Switch => {
                    self.switch = false;
                    self.routers.retain(|_, router| !router.plan.is_inline());
                }
            }
        }
    }

    /// Removes records without an object, as a new node does.
    pub(crate) fn forget_gone(&mut self) {
        let existing = self.existing();
        self.notes.retain(|one| existing.contains(one));
    }

    /// A record without an object, if there is one. A switch that has ended is started again, and
    /// hosts may all be gone.
    pub(crate) fn stray_note(&self) -> Option<Noted> {
        self.notes.difference(&self.existing()).find(|one| one.is_lasting()).cloned()
    }

    /// An object without a record, if there is one. Hosts and slow paths whose change has failed
    /// without an effect have none until they change again.
    pub(crate) fn unnoted(&self) -> Option<Noted> {
        let is_one = |one: &&Noted| one.is_lasting() && !matches!(one, Noted::SlowPath(_));
        self.existing().difference(&self.notes).find(is_one).cloned()
    }
}

impl Noted {
    /// Whether a record and its object come and go together.
    fn is_lasting(&self) -> bool {
        !matches!(self, Noted::Switch | Noted::Hosts)
    }
}
