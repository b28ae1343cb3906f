//! All steps from the actual to the desired state, in order.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use europa_api::{Port, Router};

use crate::actual::{Actual, ActualPort};
use crate::desired::Desired;
use crate::ids::{PortId, RouterId, SliceId};
use crate::needs::Needs;
use crate::relays::RelayPlan;
use crate::router::{RouterChange, RouterPlan};
use crate::slow_paths;
use crate::steps::Step;

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
    /// Wanted ports, by name.
    ports: HashMap<&'a str, &'a Port>,
    /// Open ports, by name.
    open: HashMap<&'a str, &'a ActualPort>,
    /// Documents of routers that will have a slow path, by router.
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

    /// Whether numbered rules of a slice go out of force with the slice, or come back with it.
    fn rules_move(&self) -> bool {
        let slices = &self.desired.documents.slices;
        let there = |slice: &SliceId| slices.iter().any(|other| *slice == **other.name);
        !self.actual.numbered.iter().all(there) || self.actual.parked.iter().any(there)
    }

    /// Whether a port is closed, even if it is opened again afterwards.
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

    /// Whether a router's slow path continues, with its devices.
    fn slow_path_stays(&self, router: &str) -> bool {
        let made = self.actual.slow_paths.get(router);
        let wanted = self.slow_paths.get(router);
        wanted.zip(made).is_some_and(|(wanted, made)| slow_paths::same(made, wanted))
    }

    /// Whether devices of a router's slow path are made again. The router's process then needs the
    /// new ones.
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
