//! What turns the ports and routers that there are into those that are wanted.

use std::collections::{BTreeMap, HashMap, VecDeque};

use europa_api::Documents;
use europa_api::rest::{Action, Change};
use europa_elements::builtin::{Update, update};
use europa_router::orders;
use europa_sandbox::cgroup::Limits;

use super::Node;
use super::apply::Job;
use crate::checker::Checker;
use crate::plan::{PortFacts, RouterPlan, To, plan};
use crate::ports::{Needs, Port};
use crate::relays::{self, Relay, RelayPlan};
use crate::router::{Asked, Router, text};
use crate::{NodeError, hosts};

/// CPU weight of the switch, of ten routers: all of them wait for it.
const SWITCH_WEIGHT: u64 = 1000;

/// One short step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A router goes.
    RemoveRouter(String),
    /// All hosts go, with what they send over links.
    RemoveHosts,
    /// All hosts come.
    MakeHosts,
    /// What hosts send over links has no way.
    RemoveRelays,
    /// What hosts send over links has its ways.
    MakeRelays,
    /// Slow paths that are not wanted any more go, others come.
    MakeSlowPaths,
    /// Programs of slow paths that have come are started.
    StartSlowPaths,
    /// A port goes.
    ClosePort(String),
    /// A port comes.
    OpenPort(String),
    /// What ports must be able to do for the interfaces on them.
    AdaptPorts,
    /// The switch, if none runs.
    StartSwitch,
    /// A router comes.
    AddRouter(String),
    /// A router's fast path changes.
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
    plans: Vec<Result<RouterPlan, String>>,
    /// Ports whose devices are not there, and why.
    pub(super) missing: BTreeMap<String, String>,
}

impl Target {
    /// Why it cannot be carried out as a whole.
    pub(super) fn refusal(&self) -> Option<String> {
        let missing = self.missing.values().cloned();
        let plans = self.plans.iter().filter_map(|plan| plan.as_ref().err().cloned());
        let all: Vec<String> = missing.chain(plans).collect();
        (!all.is_empty()).then(|| all.join("\n"))
    }

    fn plan(&self, name: &str) -> Option<&RouterPlan> {
        self.plans.iter().flatten().find(|plan| plan.name == name)
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
        && old.interfaces == new.interfaces
        && old.addresses == new.addresses
        && old.busy == new.busy
        && old.cpus == new.cpus;
    if !same_outside {
        return Way::Restart;
    }
    if router.astray {
        return Way::Swap;
    }
    if text(&old.configuration) == text(&new.configuration) {
        return Way::Same;
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
        let same_hosts = self.hosts_made == documents.hosts;
        for document in documents.ports.iter().chain(&made) {
            let name = document.name.value.to_string();
            let open = self.ports.iter().find(|port| port.is(document));
            let by_host = made.iter().any(|port| port.name == document.name);
            let found = match open {
                Some(port) => port.facts(),
                // Its device is made when its turn comes.
                None if by_host && !same_hosts => {
                    let mtu = document.mtu.as_ref().map_or(1500, |mtu| mtu.value);
                    PortFacts { mac: [0; 6], mtu, vlan: Ok(()) }
                }
                None => Port::peek(document).unwrap_or_else(|error| {
                    missing.insert(name.clone(), error.to_string());
                    PortFacts { mac: [0; 6], mtu: 9216, vlan: Ok(()) }
                }),
            };
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
        let plans = plan(&expanded, &facts)
            .into_iter()
            .map(|plan| plan.map_err(|error| error.to_string()))
            .collect();
        let mut ports = documents.ports.clone();
        ports.extend(made);
        ports.extend(hidden);
        let relays = relays::plan(documents);
        Target { documents: documents.clone(), ports, relays, plans, missing }
    }

    fn is_gone(&self, target: &Target, port: &Port) -> bool {
        let stays = target.ports.iter().any(|document| port.is(document));
        if crate::slow_path::is_hidden(&port.name) {
            return !stays || !self.slow_paths.has_port(&target.documents, &port.name);
        }
        let by_host = !target.documents.ports.iter().any(|document| port.is(document));
        !stays || (by_host && self.hosts_made != target.documents.hosts)
    }

    fn on_gone_port(&self, target: &Target, router: &Router) -> bool {
        router.wanted.interfaces.iter().any(|interface| match &interface.to {
            To::Port(name) => {
                self.ports.iter().any(|port| port.name == *name && self.is_gone(target, port))
            }
            To::Link { .. } => false,
        })
    }

    /// How a change is carried out, in words.
    pub(super) fn how(&self, target: &Target, change: &Change) -> Option<String> {
        if change.action != Action::Change {
            return None;
        }
        if change.kind == "port" {
            return Some("restart of its routers".into());
        }
        let router = self.routers.iter().find(|router| router.wanted.name == change.name)?;
        let plan = target.plan(&change.name).filter(|_| change.kind == "router")?;
        match way(router, plan) {
            _ if self.on_gone_port(target, router) => Some("restart".into()),
            // What Linux has of it.
            Way::Same if !self.slow_paths.is_same(&target.documents) => Some("in place".into()),
            Way::Same => None,
            Way::InPlace(_) => Some("in place".into()),
            Way::Swap => Some("hot swap".into()),
            Way::Restart => Some("restart".into()),
        }
    }

    /// Configurations that no process runs yet.
    pub(super) fn to_be_checked(&self, target: &Target) -> Vec<orders::Start> {
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
        plans.filter(is_new).map(|plan| plan.start(crate::switch::WORKER)).collect()
    }

    pub(super) fn start_checker(&self, plans: Vec<orders::Start>) -> Result<Checker, NodeError> {
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
                    if !self.on_gone_port(target, router) && way(router, plan) != Way::Restart => {}
                _ => steps.push_back(Step::RemoveRouter(name)),
            }
        }
        let same_hosts = self.hosts_made == target.documents.hosts;
        let behind = |relay: &Relay| {
            let is_behind = |router: &&Router| {
                let mut all = router.plan.interfaces.iter();
                all.any(|i| matches!(&i.to, To::Port(port) if *port == relay.plan.port))
            };
            let router = self.routers.iter().find(is_behind);
            router.is_none_or(|r| steps.contains(&Step::RemoveRouter(r.wanted.name.clone())))
        };
        let same_relays = same_hosts
            && self.relays.iter().map(|relay| &relay.plan).eq(&target.relays)
            && !self.relays.iter().any(behind);
        if !same_relays {
            // First of all: their interfaces are in the tables of ports.
            steps.push_back(Step::RemoveRelays);
        }
        let gone = self.ports.iter().filter(|port| self.is_gone(target, port));
        steps.extend(gone.map(|port| Step::ClosePort(port.name.clone())));
        if !same_hosts {
            steps.push_back(Step::RemoveHosts);
            steps.push_back(Step::MakeHosts);
        }
        let same_slow_paths = self.slow_paths.is_same(&target.documents);
        if !same_slow_paths {
            steps.push_back(Step::MakeSlowPaths);
        }
        for document in &target.ports {
            let name = document.name.value.to_string();
            let open =
                self.ports.iter().any(|port| port.is(document) && !self.is_gone(target, port));
            if !open && !target.missing.contains_key(&name) {
                steps.push_back(Step::OpenPort(name));
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
        if !same_relays {
            additions.push(Step::MakeRelays);
        }
        if !same_slow_paths {
            additions.push(Step::StartSlowPaths);
        }
        let runs = !target.ports.is_empty() || target.feasible().next().is_some();
        if runs && (!steps.is_empty() || !additions.is_empty()) {
            steps.push_back(Step::AdaptPorts);
            steps.push_back(Step::StartSwitch);
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
                let removed = self.remove_router(name);
                self.show_scene();
                removed
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
            Step::RemoveRelays => self.remove_relays(),
            Step::MakeRelays => self.make_relays(&job.target().relays),
            Step::RemoveHosts => self.remove_hosts(),
            Step::MakeHosts => self.make_hosts(),
            Step::AdaptPorts => {
                for port in &mut self.ports {
                    port.adapt(Needs::of(&self.desired.documents, &port.name))?;
                }
                self.note_ports()?;
                // What has turned out now, like VLAN tags that cannot be seen, counts.
                job.retarget(self.target(&self.desired.documents));
                match job.target().refusal() {
                    Some(why) if !job.is_tolerant() => Err(NodeError::Refused(why)),
                    _ => Ok(()),
                }
            }
            Step::StartSwitch => {
                self.substrate_opened()?;
                if self.switch.is_none() && self.revival.due.is_none() {
                    self.switch_group = self.switch_group.take().or_else(|| self.group("switch"));
                    if let Some(group) = &self.switch_group {
                        let cpu_weight = Some(SWITCH_WEIGHT);
                        group.set(&Limits { cpu_weight, ..Limits::default() })?;
                    }
                    self.start_switch()?;
                }
                Ok(())
            }
            Step::AddRouter(name) => {
                let Some(plan) = job.target().plan(name).cloned() else { return Ok(()) };
                job.awaited.push(name.clone());
                let added = self.add_router(plan);
                if added.is_err() {
                    job.awaited.retain(|other| other != name);
                }
                self.show_scene();
                added
            }
            Step::UpdateRouter(name) => {
                let Some(plan) = job.target().plan(name).cloned() else { return Ok(()) };
                self.update_router(plan, job);
                Ok(())
            }
        }
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
        if way != Way::Same
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
                job.updates += 1;
                process.order(&orders::Order::Swap { configuration, file }, Asked::Update);
            }
        }
    }
}
