//! The change under way: the engine that decides about steps, the desired state, and the threads that
//! check, plan and write it down.

mod checker;
mod facts;
mod plans;

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use europa_api::Documents;
use europa_control::{
    Accepted, Engine, Outcome, Plan, Question, Submission, Ticket, Time, Verdict,
};

pub(crate) use self::checker::{Checker, Trial};
pub(crate) use self::facts::Facts;
use self::plans::PlanThread;
use crate::NodeError;
use crate::beside::Purpose;
use crate::control::{Control, Reply};
use crate::node::Node;
use crate::store::{Store, StoreError, StoreThread};

/// See the file.
pub(crate) struct Change {
    /// Decides about a step.
    engine: Engine,
    /// It has more to do at once.
    more: bool,
    /// Its time begins here.
    clock: Instant,
    /// The desired state; accepted, or about to be.
    documents: Arc<Documents>,
    checker: Option<Checker>,
    /// The facts about the documents of the last plan.
    facts: Option<Facts>,
    plans: PlanThread,
    store: StoreThread,
    control: Control,
}

impl Change {
    /// Nothing is desired yet.
    pub(crate) fn start(control: Control, store: StoreThread) -> Result<Self, NodeError> {
        Ok(Self {
            engine: Engine::default(),
            more: false,
            clock: Instant::now(),
            documents: Arc::default(),
            checker: None,
            facts: None,
            plans: PlanThread::start(control.clone())?,
            store,
            control,
        })
    }

    /// Goes on from a stored state.
    pub(crate) fn restore(&mut self, engine: Engine) {
        self.documents = engine.accepted().documents.clone();
        self.engine = engine;
    }

    /// The time, as the engine has it.
    pub(crate) fn time(&self) -> Time {
        self.clock.elapsed()
    }

    /// When it has its next turn, if nothing else happens before.
    pub(crate) fn due(&self) -> Option<Instant> {
        let of_checker = self.checker.as_ref().map(Checker::due);
        let of_engine = match self.more {
            true => Some(Instant::now()),
            false => self.engine.due().map(|due| self.clock + due),
        };
        of_checker.into_iter().chain(of_engine).min()
    }

    /// Has it have a turn at once.
    pub(crate) fn goes_on(&mut self) {
        self.more = true;
    }

    /// The desired state; accepted, or about to be.
    pub(crate) fn documents(&self) -> &Arc<Documents> {
        &self.documents
    }

    /// These documents are the desired state from now on.
    pub(crate) fn want(&mut self, documents: &Arc<Documents>) {
        let former = std::mem::replace(&mut self.documents, documents.clone());
        self.free(former);
    }

    /// The accepted state.
    pub(crate) fn accepted(&self) -> &Accepted {
        self.engine.accepted()
    }

    /// No change is under way.
    pub(crate) fn is_settled(&self) -> bool {
        self.engine.is_settled()
    }

    /// A change has further steps.
    pub(crate) fn has_steps(&self) -> bool {
        self.engine.has_steps()
    }

    /// Work for the present change on an object.
    pub(crate) fn purpose(&self, object: &str) -> Purpose {
        Purpose::new(&self.documents, object)
    }

    /// Takes a submission; `reply` gets its outcome.
    pub(crate) fn submit(&mut self, submission: Submission, reply: Reply<Outcome>) {
        // The caller may have ended.
        let reply = Box::new(|outcome| drop(reply.send(outcome)));
        self.engine.submit(submission, reply);
        self.more = true;
    }

    /// The engine, to work on the node with: see [`Self::take_back`].
    pub(crate) fn lend(&mut self) -> Engine {
        std::mem::take(&mut self.engine)
    }

    /// The engine has worked, and has more to do.
    pub(crate) fn take_back(&mut self, engine: Engine, more: bool) {
        self.engine = engine;
        self.more = more;
        if self.engine.is_settled() {
            self.checker = None;
        }
    }

    /// A plan was computed, and the facts about its documents.
    pub(crate) fn planned(&mut self, plan: Plan, facts: Option<Facts>) {
        self.engine.planned(plan);
        self.more = true;
        if facts.is_some() {
            let former = std::mem::replace(&mut self.facts, facts);
            self.free(former);
        }
    }

    /// The facts about these documents, for which a plan was computed last.
    pub(crate) fn facts(&self, documents: &Arc<Documents>) -> Facts {
        let known = self.facts.as_ref().filter(|facts| facts.are_of(documents));
        known.map_or_else(|| Facts::of(documents), Clone::clone)
    }

    /// Has a thread compute a plan.
    pub(crate) fn plan(&self, question: Question) {
        self.plans.plan(question);
    }

    /// Has a thread free what is large.
    pub(crate) fn free(&self, what: impl Send + 'static) {
        self.plans.free(what);
    }

    /// Has a thread free what is large.
    pub(crate) fn free_boxed(&self, what: Box<dyn Send>) {
        self.plans.free_boxed(what);
    }

    /// A router runs its graph.
    pub(crate) fn ready(&mut self, router: &str) {
        self.engine.ready(router);
    }

    /// A router has ended, or refuses its configuration.
    pub(crate) fn failed(&mut self, router: &str, why: &str) {
        self.engine.failed(router, why);
    }

    /// A router has answered to an update.
    pub(crate) fn updated(&mut self, ticket: Ticket, router: &str, heard: Result<(), &str>) {
        self.engine.updated(ticket, router, heard);
    }

    /// A router answers to no update any more.
    pub(crate) fn no_updates(&mut self, router: &str) {
        self.engine.no_updates(router);
    }

    /// Programs of a router have read their files again, or not.
    pub(crate) fn reloaded(&mut self, ticket: Ticket, router: &str, outcome: Result<(), &str>) {
        self.engine.reloaded(ticket, router, outcome);
        self.more = true;
    }

    /// The change was written down, or not.
    pub(crate) fn committed(&mut self, written: Result<(), String>) {
        self.engine.committed(written);
        self.more = true;
    }

    /// Tries configurations from now on.
    pub(crate) fn check(&mut self, checker: Checker) {
        self.checker = Some(checker);
    }

    /// The outcome of the trial.
    pub(crate) fn verdict(&mut self) -> Verdict {
        let verdict = match &mut self.checker {
            Some(checker) => checker.go_on(),
            None => Verdict::Failed("nothing checks configurations".into()),
        };
        if verdict != Verdict::NotYet {
            self.checker = None;
        }
        verdict
    }

    /// Readable when the trial goes on.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.checker.as_ref().map(Checker::fd)
    }

    /// Has `write` change the store, and the loop get the result.
    pub(crate) fn write(
        &self,
        write: impl FnOnce(&mut dyn Store) -> Result<(), StoreError> + Send + 'static,
        then: impl FnOnce(&mut Node, Result<(), StoreError>) + Send + 'static,
    ) {
        self.store.write(&self.control, write, then);
    }
}
