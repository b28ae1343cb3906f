//! The real machine, as the engine of `control` has it: actual state, and steps carried out.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use europa_api::{Documents, Port as PortDocument};
use europa_control::{Commit, Machine, Note, Question, Stop, Taken, Ticket, Verdict};
use europa_plan::{
    Actual, ActualPort, ActualRouter, Desired, Failure, Namespaces, RouterId, RouterPlan, Step,
};
use europa_slowpath::namespace;

use super::Node;
use super::turns::Turns;
use crate::beside::not_yet;
use crate::change::{Checker, Trial};
use crate::ports::Port;
use crate::store::Store;
use crate::switch::unless_gone;
use crate::{NodeError, hosts, meters, slices, slow_path};

impl From<&NodeError> for Failure {
    fn from(error: &NodeError) -> Failure {
        let faults = match error {
            NodeError::Fault(fault) => vec![(**fault).clone()],
            _ => Vec::new(),
        };
        Failure { text: error.to_string(), faults }
    }
}

impl From<NodeError> for Failure {
    fn from(error: NodeError) -> Failure {
        Failure::from(&error)
    }
}

impl From<NodeError> for Stop {
    fn from(error: NodeError) -> Stop {
        Stop::Failed(error.into())
    }
}

impl Node {
    /// Gives the current change a turn.
    pub(super) fn work(&mut self) {
        let now = self.change.time();
        let mut engine = self.change.lend();
        let more = engine.turn(self, now);
        self.change.take_back(engine, more);
    }

    /// Makes missing objects again.
    pub(super) fn reconcile(&mut self) {
        let mut engine = self.change.lend();
        engine.reconcile(self);
        self.change.take_back(engine, true);
    }

    /// The desired state, given the actual objects.
    pub(super) fn desired(&self, documents: &Arc<Documents>) -> Desired {
        let look = |port: &PortDocument| Port::peek(port).map_err(Failure::from);
        Desired::new(&self.namespaces(), documents, &self.actual(), look)
    }
}

fn actual_port(port: &Port) -> ActualPort {
    ActualPort {
        document: port.document.clone(),
        facts: port.facts(),
        needs: port.needs(),
        stale: port.stale,
    }
}

impl Machine for Node {
    fn namespaces(&self) -> Namespaces {
        Namespaces {
            hosts: hosts::outside(&self.context.instance),
            slow_paths: namespace::outside_name(self.context.instance.name()),
        }
    }

    fn probe(&mut self) {
        // A thread has looked at the devices before the change was submitted: see `Node::submit`.
    }

    fn actual(&self) -> Actual {
        let piece = Turns::piece();
        let routers = self.routers.iter().map(|router| ActualRouter {
            plan: router.wanted.clone(),
            astray: router.astray,
            half: router.half,
        });
        let actual = Actual {
            ports: self.ports.iter().map(actual_port).collect(),
            hosts: self.hosts.made().clone(),
            slow_paths: self.slow_paths.documents().collect::<BTreeMap<RouterId, _>>(),
            idle: self.slow_paths.idle().collect(),
            tools: slow_path::tools(),
            relays: self.relays.iter().map(|relay| relay.plan.clone()).collect(),
            routers: routers.collect(),
            filters: self.filters.in_force(),
            numbered: self.filters.numbered(),
            parked: self.filters.parked(),
            // One that has ended is started again by itself.
            switch: self.switch.runs() || self.switch.due().is_some(),
        };
        self.turns.did("the actual state", piece);
        actual
    }

    fn plan(&mut self, question: Question) {
        self.change.plan(question);
    }

    fn discard(&mut self, what: Box<dyn Send>) {
        self.change.free_boxed(what);
    }

    fn admit(&mut self, desired: &Desired) -> Result<(), Failure> {
        let piece = Turns::piece();
        let (cgroups, cores) = (&self.context.cgroups, self.context.cores.len());
        let admitted = self
            .filters
            .check(self.change.facts(&desired.documents).entries())
            .and_then(|()| meters::check(&desired.documents))
            .and_then(|()| slices::check(&desired.documents, cgroups, cores));
        self.turns.did("admission", piece);
        Ok(admitted?)
    }

    fn check(&mut self, plans: &[Arc<RouterPlan>]) -> Result<(), Failure> {
        let trial = |plan: &Arc<RouterPlan>| {
            // The configuration is tested without a switch to wake.
            let elements = plan.elements().map(str::to_owned);
            Ok(Trial {
                router: plan.name.to_string(),
                start: plan.start(0),
                elements,
                grants: crate::grants::stand_ins(plan)?,
            })
        };
        let trials = plans.iter().map(trial).collect::<Result<_, NodeError>>()?;
        let (group, log) = (self.context.group("check"), self.context.log("node")?);
        self.change.check(Checker::start(trials, self.routers.free_number(), log, group)?);
        Ok(())
    }

    fn verdict(&mut self) -> Verdict {
        self.change.verdict()
    }

    fn may_start(&self) -> bool {
        self.routers.starting() < self.context.cores.len().max(2)
    }

    fn want(&mut self, documents: &Arc<Documents>) {
        let piece = Turns::piece();
        self.filters.want(documents);
        self.change.want(documents);
        self.turns.did("other documents", piece);
    }

    fn take(&mut self, step: &Step, ahead: &VecDeque<Step>, ticket: Ticket) -> Result<Taken, Stop> {
        let piece = Turns::piece();
        let taken = self.take_step(step, ahead, ticket);
        self.turns.did(name_of(step), piece);
        taken
    }

    fn settle(&mut self) -> Result<(), Stop> {
        let piece = Turns::piece();
        let queued = unless_gone(self.follow_queues());
        if queued.is_ok() {
            // An object that is reported as done is in its tables.
            self.follow();
        }
        self.turns.did("queues and meters", piece);
        queued?;
        match self.slices.are_behind() {
            true => Err(not_yet()),
            false => Ok(()),
        }
    }

    fn warnings(&self) -> Vec<String> {
        let documents = self.change.facts(self.change.documents());
        self.ports.warnings().chain(documents.warnings().iter().cloned()).collect()
    }

    fn commit(&mut self, commit: Commit) {
        let write = move |store: &mut dyn Store| store.change(&commit);
        self.change.write(write, |node, written| {
            if written.is_ok() {
                node.filters.forget_parked();
            }
            node.change.committed(written.map_err(|error| error.to_string()));
        });
    }

    fn note(&mut self, note: Note<'_>) {
        match note {
            Note::Missing(port, why) => {
                self.context.events.warn("port", port, "Missing", why.to_owned())
            }
            Note::Applied(what) => self.context.events.note("node", "", "Applied", what.to_owned()),
            Note::Failed(why) => self.context.events.warn("node", "", "Failed", why.to_owned()),
            Note::TakenBack([]) => {
                self.context.events.note("node", "", "TakenBack", "the state of before is back");
            }
            Note::TakenBack(left) => {
                let message =
                    format!("not all of the state of before is back: {}", left.join("; "));
                self.context.events.warn("node", "", "TakenBack", message);
            }
            Note::Restored => {
                let running = self.routers.iter().filter(|r| r.process.is_some()).count();
                self.context.events.note("node", "", "Restored", format!("{running} routers run"));
            }
        }
    }
}

/// The name of a kind of step.
fn name_of(step: &Step) -> &'static str {
    match step {
        Step::RemoveRouter(_) => "removal of a router",
        Step::RemoveRelay(_) => "removal of a relay",
        Step::ClosePort(_) => "removal of a port",
        Step::TrimHosts { .. } => "removal of hosts",
        Step::MakeHosts { .. } => "hosts",
        Step::ChangeSlowPaths { .. } => "slow paths",
        Step::OpenPort(_) => "a port",
        Step::ChangePort { .. } => "change of a port",
        Step::AdaptPort { .. } => "adaption of a port",
        Step::StartSwitch => "the switch",
        Step::ChangeFilters { .. } => "filters",
        Step::ImpairRelay { .. } => "change of a relay",
        Step::AddRouter(_) => "a router",
        Step::UpdateRouter { .. } => "change of a router",
        Step::MakeRelay(_) => "a relay",
        Step::StartSlowPaths => "programs of slow paths",
    }
}
