//! The real machine, as the engine of `control` has it: actual state, and steps carried out.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use europa_api::{Documents, Port as PortDocument};
use europa_control::{
    Commit, Engine, Machine, Note, Outcome, Plan, Question, Stop, Submission, Taken, Ticket, Time,
    Verdict,
};
use europa_plan::{
    Actual, ActualPort, ActualRouter, Desired, Failure, Namespaces, RouterId, RouterPlan, Step,
};
use europa_slowpath::namespace;

use super::Node;
use crate::checker::{Checker, Trial};
use crate::control::Reply;
use crate::ports::Port;
use crate::router::Process;
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
    /// The time, as the engine has it.
    pub(super) fn time(&self) -> Time {
        self.clock.elapsed()
    }

    /// Calls `work` with the engine and the machine.
    pub(super) fn with_engine<T>(&mut self, work: impl FnOnce(&mut Engine, &mut Self) -> T) -> T {
        let mut engine = std::mem::take(&mut self.engine);
        let result = work(&mut engine, self);
        self.engine = engine;
        result
    }

    /// Takes a submission; `reply` gets its outcome.
    pub(crate) fn submit(&mut self, submission: Submission, reply: Reply<Outcome>) {
        // The caller may have gone.
        let reply = Box::new(|outcome| drop(reply.send(outcome)));
        self.engine.submit(submission, reply);
        self.more = true;
    }

    /// Runs a turn of the current change.
    pub(super) fn work(&mut self) {
        let now = self.time();
        self.more = self.with_engine(|engine, machine| engine.turn(machine, now));
        if self.engine.is_settled() {
            self.checker = None;
        }
    }

    /// Makes missing objects again.
    pub(super) fn reconcile(&mut self) {
        self.with_engine(|engine, machine| engine.reconcile(machine));
        self.more = true;
    }

    /// A plan was computed.
    pub(crate) fn planned(&mut self, plan: Plan) {
        self.engine.planned(plan);
        self.more = true;
    }

    /// The desired state, given the actual objects.
    pub(super) fn desired(&self, documents: &Arc<Documents>) -> Desired {
        let look = |port: &PortDocument| Port::peek(port).map_err(Failure::from);
        Desired::new(&self.namespaces(), documents, &self.actual(), look)
    }

    /// Routers that have been started and are not ready yet.
    pub(super) fn starting(&self) -> usize {
        let processes = self.routers.iter().filter_map(|router| router.process.as_ref());
        processes.filter(|process: &&Process| !process.ready).count()
    }

    fn actual_port(port: &Port) -> ActualPort {
        ActualPort {
            document: port.document.clone(),
            facts: port.facts(),
            needs: port.needs(),
            stale: port.stale,
        }
    }
}

impl Machine for Node {
    fn namespaces(&self) -> Namespaces {
        Namespaces {
            hosts: hosts::outside(&self.instance),
            slow_paths: namespace::outside_name(self.instance.name()),
        }
    }

    fn probe(&mut self) {
        self.probe_ports();
    }

    fn actual(&self) -> Actual {
        let routers = self.routers.iter().map(|router| ActualRouter {
            plan: router.wanted.clone(),
            astray: router.astray,
            half: router.half,
        });
        Actual {
            ports: self.ports.iter().map(Self::actual_port).collect(),
            hosts: self.hosts_made.clone(),
            slow_paths: self.slow_paths.documents().collect::<BTreeMap<RouterId, _>>(),
            idle: self.slow_paths.idle().collect(),
            tools: slow_path::tools(),
            relays: self.relays.iter().map(|relay| relay.plan.clone()).collect(),
            routers: routers.collect(),
            filters: self.filtering.index.in_force(),
            numbered: self.filtering.index.numbered(),
            parked: self.filtering.index.parked().clone(),
            // A switch that has ended is restarted anyway.
            switch: self.switch.is_some() || self.switch_due().is_some(),
        }
    }

    fn plan(&mut self, question: Question) {
        self.plans.plan(question);
    }

    fn discard(&mut self, what: Box<dyn Send>) {
        self.plans.free_boxed(what);
    }

    fn admit(&mut self, desired: &Desired) -> Result<(), Failure> {
        self.filtering.index.check(&desired.documents)?;
        meters::check(&desired.documents)?;
        Ok(slices::check(&desired.documents, &self.cgroups, self.cores.len())?)
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
        let group = self.group("check");
        self.checker = Some(Checker::start(trials, self.free_number(), self.log("node")?, group)?);
        Ok(())
    }

    fn verdict(&mut self) -> Verdict {
        let verdict = match &mut self.checker {
            Some(checker) => checker.go_on(),
            None => Verdict::Failed("nothing checks configurations".into()),
        };
        if verdict != Verdict::NotYet {
            self.checker = None;
        }
        verdict
    }

    fn may_start(&self) -> bool {
        self.starting() < self.cores.len().max(2)
    }

    fn want(&mut self, documents: &Arc<Documents>) {
        let former = std::mem::replace(&mut self.documents, documents.clone());
        self.filtering.actor.want(documents);
        self.plans.free(former);
    }

    fn take(&mut self, step: &Step, ahead: &VecDeque<Step>, ticket: Ticket) -> Result<Taken, Stop> {
        self.take_step(step, ahead, ticket)
    }

    fn settle(&mut self) -> Result<(), Failure> {
        unless_gone(self.follow_queues())?;
        // An object that is reported as done must be in its tables.
        self.follow();
        Ok(())
    }

    fn warnings(&self) -> Vec<String> {
        let of = |port: &Port| {
            let name = port.name.clone();
            let all = port.limitations.iter();
            all.map(|what| format!("port {name}: {what}")).collect::<Vec<_>>()
        };
        let ports = self.ports.iter().flat_map(of);
        ports.chain(self.documents.warnings()).collect()
    }

    fn commit(&mut self, commit: Commit) {
        let write = move |store: &mut dyn Store| store.change(&commit);
        self.store.write(&self.control, write, |node, written| {
            if written.is_ok() {
                // Rules are removed with their slices.
                node.filtering.index.forget_parked();
                node.filtering.actor.forget_parked();
            }
            node.engine.committed(written.map_err(|error| error.to_string()));
            node.more = true;
        });
    }

    fn note(&mut self, note: Note<'_>) {
        match note {
            Note::Missing(port, why) => self.events.warn("port", port, "Missing", why.to_owned()),
            Note::Applied(what) => self.events.note("node", "", "Applied", what.to_owned()),
            Note::Failed(why) => self.events.warn("node", "", "Failed", why.to_owned()),
            Note::TakenBack([]) => {
                self.events.note("node", "", "TakenBack", "the state of before is back");
            }
            Note::TakenBack(left) => {
                let message =
                    format!("not all of the state of before is back: {}", left.join("; "));
                self.events.warn("node", "", "TakenBack", message);
            }
            Note::Restored => {
                let running = self.routers.iter().filter(|r| r.process.is_some()).count();
                self.events.note("node", "", "Restored", format!("{running} routers run"));
            }
        }
    }
}
