//! Steps from the actual to the desired state, in order.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use europa_api::{Filters, Host, Port, Router};

use crate::actual::{Actual, ActualPort};
use crate::desired::Desired;
use crate::ids::{PortId, RouterId, SliceId};
use crate::needs::Needs;
use crate::relays::RelayPlan;
use crate::router::{RouterChange, RouterPlan};
use crate::{hosts, slow_paths, wires};

/// One step. It contains both states of its change, so that its inverse is known.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A router ends.
    RemoveRouter(Arc<RouterPlan>),
    /// A host's packets from this port enter the router directly again.
    RemoveRelay(RelayPlan),
    /// A device is Linux's again.
    ClosePort(Port),
    /// Hosts and interfaces that do not stay are removed.
    TrimHosts {
        /// Former hosts.
        from: Vec<Host>,
        /// Desired hosts.
        to: Vec<Host>,
    },
    /// Hosts and interfaces of them begin, and change.
    MakeHosts {
        /// Hosts before the step that trimmed them.
        from: Vec<Host>,
        /// Desired hosts.
        to: Vec<Host>,
    },
    /// Slow paths end, change and begin.
    ChangeSlowPaths {
        /// Documents of routers that have one.
        from: Vec<Router>,
        /// Documents of routers that will have one.
        to: Vec<Router>,
    },
    /// A device becomes a port.
    OpenPort(Port),
    /// The settings of a port change, except its device.
    ChangePort {
        /// Its document before.
        from: Port,
        /// Its document.
        to: Port,
    },
    /// A port's device gets the abilities that interfaces need.
    AdaptPort {
        /// The port.
        port: PortId,
        /// Its abilities.
        from: Needs,
        /// The needed abilities.
        to: Needs,
    },
    /// A switch starts.
    StartSwitch,
    /// Other rules hold for routers' packets.
    ChangeFilters {
        /// Documents in force.
        from: Vec<Filters>,
        /// Desired documents.
        to: Vec<Filters>,
    },
    /// The line's effects on a host's packets change.
    ImpairRelay {
        /// The present relay.
        from: RelayPlan,
        /// The desired relay.
        to: RelayPlan,
    },
    /// A router begins.
    AddRouter(Arc<RouterPlan>),
    /// A router changes.
    UpdateRouter {
        /// Its present plan.
        from: Arc<RouterPlan>,
        /// The desired plan.
        to: Arc<RouterPlan>,
        /// The kind of change.
        change: RouterChange,
    },
    /// A host's packets by this port pass its link's queue.
    MakeRelay(RelayPlan),
    /// Programs of slow paths start, and link states are followed.
    StartSlowPaths,
}

/// Objects that steps make, and other steps need.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A router.
    Router(RouterId),
    /// A port.
    Port(PortId),
    /// All hosts.
    Hosts,
    /// All slow paths.
    SlowPaths,
}

impl Step {
    /// Whether it costs a moment of a CPU.
    pub fn starts_a_process(&self) -> bool {
        matches!(self, Step::AddRouter(_))
    }

    /// Whether it names so many objects that freeing its memory takes milliseconds.
    pub fn is_long(&self) -> bool {
        matches!(
            self,
            Step::ChangeFilters { .. }
                | Step::TrimHosts { .. }
                | Step::MakeHosts { .. }
                | Step::ChangeSlowPaths { .. }
        )
    }

    /// The objects in doubt when it fails.
    pub fn makes(&self) -> Vec<Subject> {
        match self {
            Step::RemoveRouter(plan) | Step::AddRouter(plan) => {
                vec![Subject::Router(plan.name.clone())]
            }
            Step::UpdateRouter { to, .. } => vec![Subject::Router(to.name.clone())],
            Step::RemoveRelay(relay) | Step::MakeRelay(relay) => {
                vec![Subject::Port(relay.port.clone())]
            }
            Step::ClosePort(port) | Step::OpenPort(port) | Step::ChangePort { to: port, .. } => {
                vec![Subject::Port(PortId::new(&*port.name.value))]
            }
            Step::TrimHosts { .. } | Step::MakeHosts { .. } => vec![Subject::Hosts],
            Step::ChangeSlowPaths { .. } => vec![Subject::SlowPaths],
            Step::ImpairRelay { .. }
            | Step::AdaptPort { .. }
            | Step::StartSwitch
            | Step::ChangeFilters { .. }
            | Step::StartSlowPaths => Vec::new(),
        }
    }

    /// The objects that must not be in doubt before it is taken.
    pub fn needs(&self) -> Vec<Subject> {
        let ports = |plan: &RouterPlan| plan.ports().cloned().map(Subject::Port).collect();
        match self {
            Step::AddRouter(plan) => {
                let mut all: Vec<Subject> = ports(plan);
                all.push(Subject::Router(plan.name.clone()));
                all
            }
            Step::OpenPort(port) => {
                let name = &*port.name.value;
                let made_by = match port.namespace {
                    Some(_) if slow_paths::is_hidden(name) => Some(Subject::SlowPaths),
                    Some(_) if wires::is_wire(name) => None,
                    Some(_) => Some(Subject::Hosts),
                    None => None,
                };
                self.makes().into_iter().chain(made_by).collect()
            }
            Step::TrimHosts { from, to } => {
                let mut all: Vec<Subject> =
                    hosts::cut_ports(from, to).into_iter().map(Subject::Port).collect();
                all.push(Subject::Hosts);
                all
            }
            Step::ChangeSlowPaths { from, .. } => {
                let hidden = from.iter().flat_map(|router| {
                    let name = router.full_name();
                    let all = router.interfaces.0.iter();
                    all.map(move |(interface, _)| slow_paths::port_name(&name, interface))
                });
                let hidden = hidden.map(|port| Subject::Port(PortId::new(port)));
                hidden.chain([Subject::SlowPaths]).collect()
            }
            Step::RemoveRouter(_) | Step::RemoveRelay(_) => Vec::new(),
            _ => self.makes(),
        }
    }

    /// The step that undoes it; `None` if there is nothing to undo.
    pub fn inverse(&self) -> Option<Step> {
        Some(match self.clone() {
            Step::RemoveRouter(plan) => Step::AddRouter(plan),
            Step::AddRouter(plan) => Step::RemoveRouter(plan),
            Step::RemoveRelay(plan) => Step::MakeRelay(plan),
            Step::MakeRelay(plan) => Step::RemoveRelay(plan),
            Step::ClosePort(port) => Step::OpenPort(port),
            Step::OpenPort(port) => Step::ClosePort(port),
            Step::TrimHosts { from, to } => Step::MakeHosts { from: to, to: from },
            Step::MakeHosts { from, to } => Step::TrimHosts { from: to, to: from },
            Step::ChangeSlowPaths { from, to } => Step::ChangeSlowPaths { from: to, to: from },
            Step::ChangePort { from, to } => Step::ChangePort { from: to, to: from },
            Step::AdaptPort { port, from, to } => Step::AdaptPort { port, from: to, to: from },
            Step::ChangeFilters { from, to } => Step::ChangeFilters { from: to, to: from },
            Step::ImpairRelay { from, to } => Step::ImpairRelay { from: to, to: from },
            Step::UpdateRouter { from, to, .. } => {
                // Handlers that were written are written back.
                let change = to.change(false, &from);
                Step::UpdateRouter { from: to, to: from, change }
            }
            // An idle switch costs nothing, and programs end with their slow paths.
            Step::StartSwitch | Step::StartSlowPaths => return None,
        })
    }
}

/// All steps, in order.
pub fn diff(desired: &Desired, actual: &Actual) -> Vec<Step> {
    let differ = Differ::new(desired, actual);
    let routers = differ.routers();
    let mut first: Vec<Step> =
        routers.gone.iter().map(|plan| Step::RemoveRouter(plan.clone())).collect();
    // Relays are removed before ports: their interfaces are in the tables of ports.
    let relays = differ.relays(&routers);
    first.extend(relays.gone.into_iter().map(Step::RemoveRelay));
    let gone = actual.ports.iter().filter(|port| differ.is_gone(port));
    first.extend(gone.map(|port| Step::ClosePort(port.document.clone())));
    differ.hosts(&mut first);
    let slow_paths = differ.slow_paths();
    let starts = slow_paths.is_some() || !actual.idle.is_empty();
    first.extend(slow_paths);
    differ.ports(&mut first);

    let mut last = relays.changed;
    last.extend(routers.come);
    last.extend(relays.come.into_iter().map(Step::MakeRelay));
    if starts {
        last.push(Step::StartSlowPaths);
    }
    let runs = !desired.ports.is_empty() || desired.all_feasible().next().is_some();
    if runs && !actual.switch && !(first.is_empty() && last.is_empty()) {
        first.push(Step::StartSwitch);
    }
    // Before new routers send.
    if desired.documents.filters != *actual.filters || differ.rules_move() {
        let (from, to) = (actual.filters.to_vec(), desired.documents.filters.clone());
        first.push(Step::ChangeFilters { from, to });
    }
    first.extend(last);
    first
}

/// Steps of routers.
struct Routers {
    gone: Vec<Arc<RouterPlan>>,
    come: Vec<Step>,
}

/// Steps of relays.
struct Relays {
    gone: Vec<RelayPlan>,
    changed: Vec<Step>,
    come: Vec<RelayPlan>,
}

struct Differ<'a> {
    desired: &'a Desired,
    actual: &'a Actual,
    /// Desired ports, by name.
    ports: HashMap<&'a str, &'a Port>,
    /// Open ports, by name.
    open: HashMap<&'a str, &'a ActualPort>,
    /// Documents of routers with a desired slow path, by router.
    slow_paths: HashMap<RouterId, &'a Router>,
}

impl<'a> Differ<'a> {
    fn new(desired: &'a Desired, actual: &'a Actual) -> Self {
        let routers = desired.documents.routers.iter();
        let slow = routers.filter(|router| router.slow_path.is_some());
        let open = actual.ports.iter();
        Self {
            desired,
            actual,
            ports: desired.ports.iter().map(|port| (&**port.name, port)).collect(),
            open: open.map(|port| (&**port.document.name, port)).collect(),
            slow_paths: slow.map(|router| (RouterId::of(router), router)).collect(),
        }
    }

    /// Whether numbered rules are taken out of force with their slice, or return with it.
    fn rules_move(&self) -> bool {
        let slices = &self.desired.documents.slices;
        let there = |slice: &SliceId| slices.iter().any(|other| *slice == **other.name);
        !self.actual.numbered.iter().all(there) || self.actual.parked.iter().any(there)
    }

    /// Whether a port is closed, even if it is opened again.
    fn is_gone(&self, port: &ActualPort) -> bool {
        let name = &*port.document.name.value;
        if !self.ports.get(name).is_some_and(|document| port.is(document)) {
            return true;
        }
        match slow_paths::router_of(name) {
            Some(router) => !self.slow_path_stays(router),
            None => self.desired.cut.contains(name),
        }
    }

    /// Whether a router's slow path continues with its devices.
    fn slow_path_stays(&self, router: &str) -> bool {
        let made = self.actual.slow_paths.get(router);
        let wanted = self.slow_paths.get(router);
        wanted.zip(made).is_some_and(|(wanted, made)| slow_paths::same(made, wanted))
    }

    /// Whether devices of a router's slow path are made again. Its process needs the new ones.
    fn loses_slow_path(&self, plan: &RouterPlan) -> bool {
        plan.ports()
            .filter(|port| slow_paths::is_hidden(port))
            .any(|name| self.open.get(&**name).is_some_and(|port| self.is_gone(port)))
    }

    fn routers(&self) -> Routers {
        let (mut gone, mut come) = (Vec::new(), Vec::new());
        let mut stay: HashMap<&RouterId, Step> = HashMap::new();
        let mut same = BTreeSet::new();
        for router in &self.actual.routers {
            let from = &router.plan;
            let Some(to) =
                self.desired.feasible(&from.name).filter(|_| !self.loses_slow_path(from))
            else {
                gone.push(from.clone());
                continue;
            };
            match from.change(router.astray, to) {
                _ if router.half => gone.push(from.clone()),
                RouterChange::Nothing => drop(same.insert(&from.name)),
                RouterChange::Restart => gone.push(from.clone()),
                change => {
                    let step = Step::UpdateRouter { from: from.clone(), to: to.clone(), change };
                    stay.insert(&from.name, step);
                }
            }
        }
        for plan in self.desired.all_feasible().filter(|plan| !same.contains(&plan.name)) {
            let step = stay.remove(&plan.name);
            come.push(step.unwrap_or_else(|| Step::AddRouter(plan.clone())));
        }
        Routers { gone, come }
    }

    fn relays(&self, routers: &Routers) -> Relays {
        // The router that receives from the link.
        let behind = |port: &PortId| {
            let on_it = |plan: &&Arc<RouterPlan>| plan.ports().any(|other| other == port);
            let there = self.actual.routers.iter().map(|router| &router.plan).find(on_it);
            there.is_some_and(|there| !routers.gone.iter().any(|gone| gone.name == there.name))
        };
        let mut relays = Relays { gone: Vec::new(), changed: Vec::new(), come: Vec::new() };
        for relay in &self.actual.relays {
            let wanted = self.desired.relays.iter().find(|wanted| relay.stays(wanted));
            let stays = (relay.far.is_some() || behind(&relay.port))
                && !self.desired.cut.contains(&relay.port);
            match wanted.filter(|_| stays) {
                Some(to) if to != relay => {
                    let (from, to) = (relay.clone(), to.clone());
                    relays.changed.push(Step::ImpairRelay { from, to });
                }
                Some(_) => {}
                None => relays.gone.push(relay.clone()),
            }
        }
        let there = |plan: &RelayPlan| {
            self.actual.relays.iter().any(|relay| relay.port == plan.port)
                && !relays.gone.iter().any(|relay| relay.port == plan.port)
        };
        let come: Vec<_> =
            self.desired.relays.iter().filter(|plan| !there(plan)).cloned().collect();
        relays.come = come;
        relays
    }

    fn hosts(&self, steps: &mut Vec<Step>) {
        let (from, to) = (&self.actual.hosts, &self.desired.documents.hosts);
        if **from != *to {
            steps.push(Step::TrimHosts { from: from.to_vec(), to: to.clone() });
            steps.push(Step::MakeHosts { from: from.to_vec(), to: to.clone() });
        }
    }

    fn slow_paths(&self) -> Option<Step> {
        let all = self.desired.documents.routers.iter();
        let to: Vec<Router> = all.filter(|router| router.slow_path.is_some()).cloned().collect();
        let made = |wanted: &Router| self.actual.slow_paths.get(&RouterId::of(wanted));
        let is_same =
            |wanted: &Router| made(wanted).is_some_and(|made| slow_paths::same_whole(made, wanted));
        let same = to.len() == self.actual.slow_paths.len() && to.iter().all(is_same);
        let from = self.actual.slow_paths.values().cloned().collect();
        (!same).then_some(Step::ChangeSlowPaths { from, to })
    }

    fn ports(&self, steps: &mut Vec<Step>) {
        let mut adapted = Vec::new();
        for document in &self.desired.ports {
            let name = &*document.name.value;
            if self.desired.missing.contains_key(name) {
                continue;
            }
            let open = self.open.get(name).filter(|port| !self.is_gone(port));
            match open {
                None => steps.push(Step::OpenPort(document.clone())),
                Some(port) if port.document != *document => {
                    let (from, to) = (port.document.clone(), document.clone());
                    steps.push(Step::ChangePort { from, to });
                }
                Some(_) => {}
            }
            let to = self.desired.needs(name);
            let able = open.map_or(to == Needs::default(), |port| port.can(to));
            if !able {
                let from = open.map(|port| port.needs).unwrap_or_default();
                adapted.push(Step::AdaptPort { port: PortId::new(name), from, to });
            }
        }
        steps.extend(adapted);
    }
}
