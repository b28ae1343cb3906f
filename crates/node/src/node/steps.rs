//! What turns the ports and routers that there are into those that are wanted.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::os::fd::AsFd;

use europa_api::Documents;
use europa_api::rest::{Action, Change};
use europa_elements::builtin::{Update, update};
use europa_router::orders;
use europa_switch::orders::Order;

use super::Node;
use super::apply::{Failure, Job};
use crate::checker::{Checker, Trial};
use crate::plan::{PortFacts, RouterPlan, To, plan};
use crate::ports::{Needs, Port};
use crate::relays::{self, Relay, RelayPlan};
use crate::router::{Asked, Router, text};
use crate::{NodeError, hosts};

/// One short step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A router goes.
    RemoveRouter(String),
    /// Hosts and their interfaces that do not stay go.
    TrimHosts,
    /// Hosts and their interfaces come, and change.
    MakeHosts,
    /// What comes in by this port has no way over its link.
    RemoveRelay(String),
    /// What comes in by this port has its way over its link.
    MakeRelay(String),
    /// What comes in by this port fares otherwise on its link.
    ImpairRelay(String),
    /// Slow paths that are not wanted any more go, others come.
    MakeSlowPaths,
    /// Programs of slow paths that have come are started.
    StartSlowPaths,
    /// A port goes.
    ClosePort(String),
    /// A port comes.
    OpenPort(String),
    /// What is said of a port, its device apart, changes.
    ChangePort(String),
    /// What ports must be able to do for the interfaces on them.
    AdaptPorts,
    /// The switch, if none runs.
    StartSwitch,
    /// Other rules hold for what routers send.
    ChangeFilters,
    /// A router comes.
    AddRouter(String),
    /// A router's fast path, or what its links do, changes.
    UpdateRouter(String),
}

impl Step {
    /// Whether it costs a moment of a CPU.
    pub(super) fn starts_a_process(&self) -> bool {
        matches!(self, Step::AddRouter(_))
    }
}

/// What is wanted, in terms of what there is.
pub(super) struct Target {
    documents: Documents,
    /// Ports, also those that hosts make.
    pub(super) ports: Vec<europa_api::Port>,
    pub(super) relays: Vec<RelayPlan>,
    plans: Vec<Result<RouterPlan, NodeError>>,
    /// Ports whose devices, made by hosts, go or are made anew.
    cut: BTreeSet<String>,
    /// Ports whose devices are not there, and why.
    pub(super) missing: BTreeMap<String, NodeError>,
}

impl Target {
    /// Why it cannot be carried out as a whole.
    pub(super) fn refusal(&self) -> Option<Failure> {
        let plans = self.plans.iter().filter_map(|plan| plan.as_ref().err());
        let all: Vec<Failure> = self.missing.values().chain(plans).map(Failure::from).collect();
        (!all.is_empty()).then(|| Failure {
            text: all.iter().map(|failure| failure.text.as_str()).collect::<Vec<_>>().join("\n"),
            faults: all.into_iter().flat_map(|failure| failure.faults).collect(),
        })
    }

    pub(super) fn plan(&self, name: &str) -> Option<&RouterPlan> {
        self.plans.iter().flatten().find(|plan| plan.name == name)
    }

    fn relay(&self, port: &str) -> Option<&RelayPlan> {
        self.relays.iter().find(|plan| plan.port == *port)
    }

    /// Routers whose ports are all there.
    pub(super) fn feasible(&self) -> impl Iterator<Item = &RouterPlan> {
        self.plans
            .iter()
            .flatten()
            .filter(|plan| plan.ports().all(|port| !self.missing.contains_key(port)))
    }
}

/// How a running router becomes another.
#[derive(Debug, PartialEq, Eq)]
enum Way {
    Same,
    InPlace(Vec<Update>),
    Swap,
    Restart,
}

fn way(router: &Router, new: &RouterPlan) -> Way {
    let old = &router.wanted;
    let same_outside = old.geometry == new.geometry
        && old.interfaces.len() == new.interfaces.len()
        && old.interfaces.iter().zip(&new.interfaces).all(|(old, new)| old.stays(new))
        && old.addresses == new.addresses
        && old.busy == new.busy
        && old.cpus == new.cpus
        && old.grants == new.grants
        && old.program == new.program
        && old.inline == new.inline;
    if !same_outside {
        return Way::Restart;
    }
    if router.astray {
        return Way::Swap;
    }
    if text(&old.configuration) == text(&new.configuration) {
        let mut pairs = old.interfaces.iter().zip(&new.interfaces);
        let wired = pairs.all(|(old, new)| old.is_wired_as(new));
        return if wired { Way::Same } else { Way::InPlace(Vec::new()) };
    }
    if let (Some(from), Some(to)) = (&old.description, &new.description)
        && let Ok(Some(updates)) = update(from, to)
    {
        return Way::InPlace(updates);
    }
    Way::Swap
}

impl Node {
    /// Plans for documents, as far as devices are there.
    pub(super) fn target(&self, documents: &Documents) -> Target {
        let mut missing = BTreeMap::new();
        let mut facts = HashMap::new();
        let made = hosts::ports(&self.instance, documents);
        let cut = hosts::cut_ports(&self.hosts_made, &documents.hosts);
        let written = documents.ports.iter().map(|document| (document, None));
        let by_host = made.iter().map(|(document, facts)| (document, Some(facts)));
        for (document, guess) in written.chain(by_host) {
            let name = document.name.value.to_string();
            let open = self.ports.iter().find(|port| port.is(document) && !cut.contains(&name));
            let found = match (open, guess) {
                (Some(port), _) => port.facts_as(document),
                // Its device is made when its turn comes.
                (None, Some(guess)) => Ok(guess.clone()),
                (None, None) => Port::peek(document),
            };
            let found = found.unwrap_or_else(|error| {
                missing.insert(name.clone(), error);
                PortFacts { mac: [0; 6], mtu: 9216, vlan: Ok(()) }
            });
            facts.insert(name, found);
        }
        let (expanded, hidden) = crate::slow_path::expand(&self.instance, documents);
        if !hidden.is_empty() {
            // The hidden ports are as long as the interfaces that they belong to.
            for plan in plan(documents, &facts).into_iter().flatten() {
                for interface in &plan.interfaces {
                    let name = crate::slow_path::port_name(&plan.name, &interface.name);
                    let fact = PortFacts { mac: [0; 6], mtu: interface.mtu, vlan: Ok(()) };
                    facts.insert(name, fact);
                }
            }
        }
        let plans = plan(&expanded, &facts);
        let mut ports = documents.ports.clone();
        ports.extend(made.into_iter().map(|(document, _)| document));
        ports.extend(hidden);
        let relays = relays::plan(documents);
        Target { documents: documents.clone(), ports, relays, plans, cut, missing }
    }

    fn is_gone(&self, target: &Target, port: &Port) -> bool {
        let stays = target.ports.iter().any(|document| port.is(document));
        if crate::slow_path::is_hidden(&port.name) {
            return !stays || !self.slow_paths.has_port(&target.documents, &port.name);
        }
        !stays || target.cut.contains(&port.name)
    }

    /// Whether the devices of a router's slow path are made anew. Its process must be told of
    /// the new ones.
    fn loses_slow_path(&self, target: &Target, router: &Router) -> bool {
        router.wanted.interfaces.iter().any(|interface| match &interface.to {
            To::Port(name) if crate::slow_path::is_hidden(name) => {
                self.ports.iter().any(|port| port.name == *name && self.is_gone(target, port))
            }
            _ => false,
        })
    }

    /// How a change is carried out, in words.
    pub(super) fn how(&self, target: &Target, change: &Change) -> Option<String> {
        if change.action != Action::Change {
            return None;
        }
        let restarts = |router: &&Router| {
            let plan = target.plan(&router.wanted.name);
            self.loses_slow_path(target, router)
                || plan.is_some_and(|plan| way(router, plan) == Way::Restart)
        };
        let on_it = |router: &&Router| {
            router.wanted.interfaces.iter().any(|interface| match change.kind.as_str() {
                "port" => matches!(&interface.to, To::Port(port) if *port == change.name),
                "link" => interface.link.as_ref() == Some(&change.name),
                _ => false,
            })
        };
        let same = |old: &&europa_api::Host| *old.name.value.to_string() == change.name;
        match change.kind.as_str() {
            "port" | "link" => {
                let restart = self.routers.iter().filter(on_it).any(|router| restarts(&router));
                return Some(if restart { "restart of its routers" } else { "in place" }.into());
            }
            "slice" => return Some("in place".into()),
            "host" => {
                let old = self.hosts_made.iter().find(same);
                let new = target.documents.hosts.iter().find(same);
                let stays = old.zip(new).is_some_and(|(old, new)| hosts::stays_whole(old, new));
                return Some(if stays { "in place" } else { "made anew" }.into());
            }
            "filters" => return Some("in place".into()),
            _ => {}
        }
        let router = self.routers.iter().find(|router| router.wanted.name == change.name)?;
        let plan = target.plan(&change.name).filter(|_| change.kind == "router")?;
        match way(router, plan) {
            _ if self.loses_slow_path(target, router) => Some("restart".into()),
            // What Linux has of it.
            Way::Same if !self.slow_paths.is_same(&target.documents) => Some("in place".into()),
            Way::Same => None,
            Way::InPlace(_) => Some("in place".into()),
            Way::Swap => Some("hot swap".into()),
            Way::Restart => Some("restart".into()),
        }
    }

    /// Configurations that no process runs yet.
    ///
    /// # Errors
    /// A file that one is to read cannot be.
    pub(super) fn to_be_checked(&self, target: &Target) -> Result<Vec<Trial>, NodeError> {
        let is_new = |plan: &&RouterPlan| {
            let router = self.routers.iter().find(|router| router.wanted.name == plan.name);
            router.is_none_or(|router| match way(router, plan) {
                Way::Same | Way::InPlace(_) => false,
                Way::Swap => true,
                // Its names of interfaces may have changed.
                Way::Restart => true,
            })
        };
        let plans = target.plans.iter().flatten();
        let trial = |plan: &RouterPlan| {
            // Nobody is woken: it is tried without a switch.
            let start = plan.start(0);
            Ok(Trial { start, grants: crate::grants::stand_ins(plan)? })
        };
        plans.filter(|plan| plan.program.is_empty()).filter(is_new).map(trial).collect()
    }

    pub(super) fn start_checker(&self, plans: Vec<Trial>) -> Result<Checker, NodeError> {
        Checker::start(plans, self.free_number(), &self.log("node")?)
    }

    /// Everything that is to be done, in order.
    pub(super) fn steps(&self, target: &Target) -> VecDeque<Step> {
        let mut steps = VecDeque::new();
        let mut additions = Vec::new();
        for router in &self.routers {
            let name = router.wanted.name.clone();
            let plan = target.feasible().find(|plan| plan.name == name);
            match plan {
                Some(plan)
                    if !self.loses_slow_path(target, router)
                        && way(router, plan) != Way::Restart => {}
                _ => steps.push_back(Step::RemoveRouter(name)),
            }
        }
        let behind = |relay: &Relay| {
            let is_behind = |router: &&Router| {
                let mut all = router.plan.interfaces.iter();
                all.any(|i| matches!(&i.to, To::Port(port) if *port == relay.plan.port))
            };
            let router = self.routers.iter().find(is_behind);
            router.is_none_or(|r| steps.contains(&Step::RemoveRouter(r.wanted.name.clone())))
        };
        // First of all: their interfaces are in the tables of ports.
        let mut relays = Vec::new();
        for relay in &self.relays {
            let port = relay.plan.port.clone();
            let wanted = target.relays.iter().find(|wanted| relay.plan.stays(wanted));
            match wanted {
                Some(wanted) if !behind(relay) && !target.cut.contains(&port) => {
                    if relay.plan != *wanted {
                        additions.push(Step::ImpairRelay(port));
                    }
                }
                _ => relays.push(port),
            }
        }
        let there = |port: &String| {
            !relays.contains(port) && self.relays.iter().any(|relay| relay.plan.port == *port)
        };
        let new_relays: Vec<_> = target.relays.iter().map(|plan| plan.port.clone()).collect();
        let new_relays: Vec<_> = new_relays.into_iter().filter(|port| !there(port)).collect();
        steps.extend(relays.into_iter().map(Step::RemoveRelay));
        let gone = self.ports.iter().filter(|port| self.is_gone(target, port));
        steps.extend(gone.map(|port| Step::ClosePort(port.name.clone())));
        if self.hosts_made != target.documents.hosts {
            steps.push_back(Step::TrimHosts);
            steps.push_back(Step::MakeHosts);
        }
        let same_slow_paths = self.slow_paths.is_same(&target.documents);
        if !same_slow_paths {
            steps.push_back(Step::MakeSlowPaths);
        }
        for document in &target.ports {
            let name = document.name.value.to_string();
            let open =
                self.ports.iter().find(|port| port.is(document) && !self.is_gone(target, port));
            match open {
                _ if target.missing.contains_key(&name) => {}
                None => steps.push_back(Step::OpenPort(name)),
                Some(port) if port.document != *document => {
                    steps.push_back(Step::ChangePort(name));
                }
                Some(_) => {}
            }
        }
        for plan in target.feasible() {
            let router = self.routers.iter().find(|router| router.wanted.name == plan.name);
            let removed = steps.contains(&Step::RemoveRouter(plan.name.clone()));
            match router {
                Some(router) if !removed => {
                    if way(router, plan) != Way::Same {
                        additions.push(Step::UpdateRouter(plan.name.clone()));
                    }
                }
                _ => additions.push(Step::AddRouter(plan.name.clone())),
            }
        }
        additions.extend(new_relays.into_iter().map(Step::MakeRelay));
        if !same_slow_paths {
            additions.push(Step::StartSlowPaths);
        }
        let runs = !target.ports.is_empty() || target.feasible().next().is_some();
        if runs && (!steps.is_empty() || !additions.is_empty()) {
            steps.push_back(Step::AdaptPorts);
            steps.push_back(Step::StartSwitch);
        }
        // Before new routers send.
        if self.filters_differ(&target.documents) {
            steps.push_back(Step::ChangeFilters);
        }
        steps.extend(additions);
        steps
    }

    /// Routers that have been started and are not ready yet.
    pub(super) fn starting(&self) -> usize {
        let processes = self.routers.iter().filter_map(|router| router.process.as_ref());
        processes.filter(|process| !process.ready).count()
    }

    pub(super) fn take_step(&mut self, step: &Step, job: &mut Job) -> Result<(), NodeError> {
        match step {
            Step::RemoveRouter(name) => {
                self.scene_is_old = true;
                self.remove_router(name)
            }
            Step::ClosePort(name) => self.close_port(name),
            Step::OpenPort(name) => {
                let ports = &job.target().ports;
                let document = ports.iter().find(|port| *port.name.value == **name);
                match document.cloned() {
                    Some(document) => self.open_port(&document),
                    None => Ok(()),
                }
            }
            Step::MakeSlowPaths => {
                let target = job.target();
                self.slow_paths.make(&self.instance, &self.kept, &target.documents, &target.ports)
            }
            Step::StartSlowPaths => {
                self.slow_paths.start(&self.instance, &self.kept, &self.cgroups, &self.events)
            }
            Step::ChangePort(name) => {
                let ports = &job.target().ports;
                let document = ports.iter().find(|port| *port.name.value == **name);
                document.map_or(Ok(()), |document| self.change_port(document))
            }
            Step::RemoveRelay(port) => self.remove_relay(port),
            Step::MakeRelay(port) => {
                job.target().relay(port).map_or(Ok(()), |plan| self.make_relay(plan))
            }
            Step::ImpairRelay(port) => {
                job.target().relay(port).map_or(Ok(()), |plan| self.impair_relay(plan))
            }
            Step::TrimHosts => self.trim_hosts(),
            Step::MakeHosts => self.make_hosts(),
            Step::AdaptPorts => {
                for port in &mut self.ports {
                    port.expect(Needs::of(&self.desired.documents, &port.name))?;
                }
                self.note_ports()?;
                for port in &mut self.ports {
                    port.adapt(Needs::of(&self.desired.documents, &port.name))?;
                }
                self.note_ports()?;
                // What has turned out now, like VLAN tags that cannot be seen, counts.
                job.retarget(self.target(&self.desired.documents));
                match job.target().refusal() {
                    Some(why) if !job.is_tolerant() => {
                        job.failure = Some(why);
                        Ok(())
                    }
                    _ => Ok(()),
                }
            }
            Step::StartSwitch => {
                self.substrate_opened()?;
                if self.switch.is_none() && self.revival.due.is_none() {
                    self.start_switch()?;
                }
                Ok(())
            }
            Step::ChangeFilters => {
                let documents = job.target().documents.clone();
                self.change_filters(&documents)
            }
            Step::AddRouter(name) => {
                let Some(plan) = job.target().plan(name).cloned() else { return Ok(()) };
                self.stock_up(plan.geometry, job)?;
                job.awaited.push(name.clone());
                let added = self.add_router(plan);
                if added.is_err() {
                    job.awaited.retain(|other| other != name);
                }
                self.scene_is_old = true;
                added
            }
            Step::UpdateRouter(name) => {
                let Some(plan) = job.target().plan(name).cloned() else { return Ok(()) };
                self.rewire(&plan);
                self.update_router(plan, job);
                if let Some(index) = self.routers.iter().position(|r| r.wanted.name == *name) {
                    self.renew_successor(index);
                }
                self.scene_is_old = true;
                Ok(())
            }
        }
    }

    /// Tells the switch where a router's interfaces lead now, and what their links do.
    fn rewire(&mut self, plan: &RouterPlan) {
        let Some(place) = self.routers.iter().position(|r| r.wanted.name == plan.name) else {
            return;
        };
        // A switch that has just ended learns of it when it starts.
        let mut switch = self.switch.take();
        for (index, new) in plan.interfaces.iter().enumerate() {
            let Some(router) = self.routers.get_mut(place) else { continue };
            let (Some(old), Some(id)) =
                (router.plan.interfaces.get_mut(index), router.interfaces.get(index).copied())
            else {
                continue;
            };
            let led = old.to.clone();
            let fared = old.impairment;
            old.to.clone_from(&new.to);
            old.link.clone_from(&new.link);
            old.impairment = new.impairment;
            old.queues.clone_from(&new.queues);
            let Some(switch) = &mut switch else { continue };
            if led != new.to {
                let _ = switch.order(&Order::RemoveInterface { interface: id }, &[]);
                if let Some(router) = self.routers.get(place) {
                    let _ = self.tell_interface(switch, router, id);
                }
            } else if fared != new.impairment {
                let impairment = new.impairment;
                let _ = switch.order(&Order::Impair { interface: id, impairment }, &[]);
            }
        }
        self.switch = switch;
    }

    /// Gives a router another fast path, in the process that runs.
    fn update_router(&mut self, plan: RouterPlan, job: &mut Job) {
        let Some(router) = self.routers.iter_mut().find(|r| r.wanted.name == plan.name) else {
            return;
        };
        let way = way(router, &plan);
        router.plan.configuration.clone_from(&plan.configuration);
        router.plan.file.clone_from(&plan.file);
        router.plan.description.clone_from(&plan.description);
        router.wanted = plan;
        router.astray = false;
        let Some(process) = &mut router.process else {
            // It has not come up with what it had: it tries the new one at once.
            router.backoff.forget();
            router.due = Some(std::time::Instant::now());
            job.awaited.push(router.wanted.name.clone());
            return;
        };
        if let Err(error) = process.note_outside(&self.kept, &router.wanted) {
            tracing::warn!("router {}: {error}", router.wanted.name);
        }
        let changes = !matches!(&way, Way::InPlace(updates) if updates.is_empty());
        if way != Way::Same
            && changes
            && let Err(error) = process.note_change(&self.kept, &router.wanted)
        {
            tracing::warn!("router {}: {error}", router.wanted.name);
        }
        match way {
            Way::InPlace(updates) if process.has_room(updates.len()) => {
                job.updates += updates.len();
                for Update { path, value } in updates {
                    process.order(&orders::Order::Write { path, value }, Asked::Update);
                }
            }
            Way::Same => {}
            _ => {
                let (configuration, file) =
                    (router.wanted.configuration.clone(), router.wanted.file.clone());
                match router.granted.open(&router.wanted) {
                    Ok(granted) => {
                        job.updates += 1;
                        let order = orders::Order::Swap { configuration, file };
                        let descriptors: Vec<_> = granted.iter().map(AsFd::as_fd).collect();
                        process.order_with(&order, &descriptors, Asked::Update);
                    }
                    Err(error) => job.failure = Some((&error).into()),
                }
            }
        }
    }
}
