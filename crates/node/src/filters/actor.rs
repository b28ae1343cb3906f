//! The actor that owns the rules of all slices: a separate thread.
//!
//! Preparing and sending 20,000 rules takes tens of milliseconds, in which the node's loop serves
//! others. The loop sends jobs; its own jobs precede those of tenants. The actor asks the loop for
//! orders to the switch about interfaces and ways, which only the loop can send.

mod documents;
mod own;
mod show;

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use europa_api::Documents;
use europa_api::filters::Rule;
use europa_api::rest::{FilterChanged, FilterList, ProblemDetails};
use europa_switch::{Batch, FilterOrder};

pub use self::own::OwnChanges;
pub(crate) use self::own::OwnWrite;
use super::index::Fresh;
use super::orders::Orders;
use super::{Filters, FiltersRecord, Told, WayTo};
use crate::control::{Control, Reply};
use crate::events::Events;
use crate::kept::Kept;
use crate::store::NumberedRules;
use crate::{Doing, NodeError};

/// The name of the numbers' record.
const RECORD: &str = "filters";
/// Time limit for the loop's answers to the actor.
const PATIENCE: Duration = Duration::from_secs(20);
/// Number of ways that the loop sends to the switch at a time: each takes some microseconds.
pub(crate) const WAYS_AT_ONCE: usize = 256;

/// A way and its number.
pub(crate) type WayOrder = (u16, WayTo);

type Answer<T> = Reply<Result<T, ProblemDetails>>;

/// Work for the actor.
enum Job {
    /// Rules and numbers of a former node; and whether its objects continue.
    Restore(BTreeMap<String, NumberedRules>, bool, SyncSender<Result<Fresh, NodeError>>),
    /// The rules of documents take effect.
    Documents(SyncSender<Outcome>),
    /// A switch without rules gets all of them; `ways`: the loop has not sent it the ways.
    Load { orders: Orders, ways: bool, then: Box<dyn FnOnce(Outcome) + Send> },
    /// The loop sends the switch the ways to an interface.
    WaysTo { router: String, interface: String },
    /// Slices are removed finally.
    ForgetParked,
    /// Rules with numbers could not be written down.
    TakeBack { slice: String, back: (Vec<u32>, Vec<(u32, Rule)>) },
    /// Rules with numbers are added and removed.
    Own(OwnChanges, Answer<FilterChanged>),
    /// A slice's rules and counters.
    List(String, Answer<FilterList>),
}

type Outcome = Result<(), NodeError>;

/// Waiting jobs: those of the loop, and those of tenants.
#[derive(Default)]
struct Waiting {
    jobs: Mutex<[VecDeque<Job>; 2]>,
    come: Condvar,
}

/// The loop's end.
#[derive(Clone)]
pub(crate) struct FilterActor {
    waiting: Arc<Waiting>,
    /// The desired state as of now.
    documents: Arc<Mutex<Arc<Documents>>>,
}

/// The thread's part, with all its data.
struct Actor {
    waiting: Arc<Waiting>,
    documents: Arc<Mutex<Arc<Documents>>>,
    control: Control,
    events: Events,
    kept: Kept,
    filters: Filters,
    /// Connection to the switch; `None` until there are rules.
    orders: Option<Orders>,
    /// Numbered rules of slices that are about to be removed: they return if the change is undone.
    parked: BTreeMap<String, Vec<(u32, Rule)>>,
}

impl FilterActor {
    /// Starts the thread.
    pub(crate) fn start(kept: Kept, control: Control, events: Events) -> Result<Self, NodeError> {
        let this = Self { waiting: Arc::default(), documents: Arc::default() };
        let actor = Actor {
            waiting: this.waiting.clone(),
            documents: this.documents.clone(),
            control,
            events,
            kept,
            filters: Filters::default(),
            orders: None,
            parked: BTreeMap::new(),
        };
        let thread = std::thread::Builder::new().name("filters".into());
        thread.spawn(move || actor.work()).doing("starting a thread for filters")?;
        Ok(this)
    }

    fn send(&self, job: Job) {
        let place = usize::from(matches!(job, Job::Own(..) | Job::List(..)));
        let mut jobs = self.waiting.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = jobs.get_mut(place) {
            queue.push_back(job);
        }
        self.waiting.come.notify_one();
    }

    fn wait<T>(
        &self,
        job: impl FnOnce(SyncSender<Result<T, NodeError>>) -> Job,
    ) -> Result<T, NodeError> {
        let (done, outcome) = std::sync::mpsc::sync_channel(1);
        self.send(job(done));
        outcome.recv().unwrap_or_else(|_| Err(ended()))
    }

    /// Makes these documents the desired state.
    pub(crate) fn want(&self, documents: &Arc<Documents>) {
        self.documents.lock().unwrap_or_else(PoisonError::into_inner).clone_from(documents);
    }

    /// Reads the stored rules; and, if a former node has `left` objects, the numbers that it
    /// assigned. Waits, and returns all facts.
    pub(crate) fn restore(
        &self,
        rules: BTreeMap<String, NumberedRules>,
        left: bool,
    ) -> Result<Fresh, NodeError> {
        self.wait(|done| Job::Restore(rules, left, done))
    }

    /// Puts the rules of the desired state in force. Waits: not to be called by the loop.
    pub(crate) fn set_documents(&self) -> Outcome {
        self.wait(Job::Documents)
    }

    /// Sends all rules to a new switch, after the loop has sent all `ways`. `then` runs in the
    /// actor's thread.
    pub(crate) fn load(
        &self,
        orders: Orders,
        ways: bool,
        then: impl FnOnce(Outcome) + Send + 'static,
    ) {
        self.send(Job::Load { orders, ways, then: Box::new(then) });
    }

    /// Lets the loop send the switch all ways to an interface of a router, `slice/router`, a few at
    /// a time.
    pub(crate) fn tell_ways_to(&self, router: &str, interface: &str) {
        let (router, interface) = (router.to_owned(), interface.to_owned());
        self.send(Job::WaysTo { router, interface });
    }

    /// Slices are removed finally.
    pub(crate) fn forget_parked(&self) {
        self.send(Job::ForgetParked);
    }

    /// A change of rules with numbers could not be stored: undoes it.
    pub(crate) fn take_back(&self, slice: String, back: (Vec<u32>, Vec<(u32, Rule)>)) {
        self.send(Job::TakeBack { slice, back });
    }

    /// Adds and removes rules with numbers; `answer` is called once they are written down.
    pub(crate) fn change(&self, changes: OwnChanges, answer: Answer<FilterChanged>) {
        self.send(Job::Own(changes, answer));
    }

    /// Lists the rules of a slice, and how often each has counted.
    pub(crate) fn list(&self, slice: String, answer: Answer<FilterList>) {
        self.send(Job::List(slice, answer));
    }
}

/// The actor does not answer any more.
pub(crate) fn ended() -> NodeError {
    NodeError::Refused("the thread for filters has ended".into())
}

impl Actor {
    /// Does jobs until the process ends.
    fn work(mut self) {
        loop {
            match self.next() {
                Job::Restore(rules, left, done) => drop(done.send(self.restore(rules, left))),
                Job::Documents(done) => drop(done.send(self.set_documents())),
                Job::Load { orders, ways, then } => {
                    let told = if ways { self.tell_all_ways() } else { Ok(()) };
                    then(told.and_then(|()| self.load(orders)));
                }
                Job::WaysTo { router, interface } => {
                    if let Err(error) = self.tell_ways_to(&router, &interface) {
                        tracing::warn!("ways to {router}.{interface}: {error}");
                    }
                }
                Job::ForgetParked => self.parked.clear(),
                Job::TakeBack { slice, back } => self.take_back(&slice, back),
                Job::Own(changes, answer) => self.change_own(changes, answer),
                // The caller may have ended.
                Job::List(slice, answer) => drop(answer.send(self.list(&slice))),
            }
        }
    }

    fn next(&self) -> Job {
        let mut jobs = self.waiting.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(job) = jobs.iter_mut().find_map(VecDeque::pop_front) {
                return job;
            }
            jobs = self.waiting.come.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn documents(&self) -> Arc<Documents> {
        self.documents.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends new facts to the loop.
    fn publish(&self, fresh: Fresh) {
        self.control.tell(move |node| node.filters_changed(fresh));
    }

    /// Sends a change to the switch, and its facts to the loop.
    fn tell(&mut self, slice: &str, told: &Told) -> Result<(), NodeError> {
        let done = self.try_tell(slice, told);
        self.filters.tidy();
        match done {
            // The switch has ended, and the next one gets everything.
            Err(NodeError::Channel { .. }) => {
                self.orders = None;
                Ok(())
            }
            done => done,
        }
    }

    fn try_tell(&mut self, slice: &str, told: &Told) -> Result<(), NodeError> {
        if told.renamed {
            // Before a number is used, the next node must be able to read it.
            self.kept.note(RECORD, None, self.filters.record())?;
        }
        self.publish(Fresh::of(&self.filters, slice, told.renamed));
        if self.orders.is_none() {
            return self.connect();
        }
        let named = |number: &u16| Some((*number, self.filters.way(*number)?.clone()));
        self.tell_ways(told.fresh.iter().filter_map(named).collect())?;
        if told.renamed && !told.emptied {
            self.name_filtered(Some(slice))?;
        }
        if let Some(orders) = &mut self.orders {
            let slice = told.slice;
            let order = |batch: &Batch| FilterOrder::Change { slice, counts: batch.counts() };
            orders.tell(order, &told.batch)?;
        }
        if told.emptied {
            self.name_filtered(Some(slice))?;
        }
        Ok(())
    }

    /// Lets the loop do work that only it can do, and waits for it.
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut crate::node::Node) -> Result<T, NodeError> + Send + 'static,
    ) -> Result<T, NodeError> {
        let asked = self.control.wait(PATIENCE, question);
        asked.map_err(|problem| NodeError::Refused(problem.to_string()))?
    }

    /// Informs the switch whose rules apply to the interfaces of a slice, or of all.
    fn name_filtered(&self, slice: Option<&str>) -> Result<(), NodeError> {
        let slice = slice.map(str::to_owned);
        self.ask(move |node| node.name_filtered(slice.as_deref()))
    }

    /// The first rules: a running switch gets a connection, all ways and all rules.
    fn connect(&mut self) -> Result<(), NodeError> {
        let Some(orders) = self.ask(|node| node.connect_filters())? else { return Ok(()) };
        self.tell_all_ways()?;
        self.load(orders)?;
        self.name_filtered(None)
    }

    fn tell_all_ways(&self) -> Result<(), NodeError> {
        self.tell_ways(self.filters.ways().map(|(number, way)| (number, way.clone())).collect())
    }

    fn tell_ways_to(&self, router: &str, interface: &str) -> Result<(), NodeError> {
        let leads = |way: &WayTo| way.router == router && way.interface == interface;
        let ways = self.filters.ways().filter(|(_, way)| leads(way));
        self.tell_ways(ways.map(|(number, way)| (number, way.clone())).collect())
    }

    /// Lets the loop send the switch the destinations of ways, a few at a time.
    fn tell_ways(&self, mut ways: Vec<WayOrder>) -> Result<(), NodeError> {
        while !ways.is_empty() {
            let some = ways.split_off(ways.len().saturating_sub(WAYS_AT_ONCE));
            self.ask(move |node| node.tell_ways(&some))?;
        }
        Ok(())
    }

    /// Sends all rules to a switch that has none.
    fn load(&mut self, mut orders: Orders) -> Result<(), NodeError> {
        self.orders = None;
        self.kept.note(RECORD, None, self.filters.record())?;
        let all = self.filters.slices();
        let mut batches: Vec<(u16, Batch)> =
            all.map(|(_, slice)| (slice.number(), self.filters.batch(slice))).collect();
        // Numbers of slices of a former node that no slice has now.
        let orphans = self.filters.orphans();
        batches.extend(orphans.into_iter().map(|number| (number, Batch::default())));
        for (slice, batch) in batches {
            let order = |batch: &Batch| FilterOrder::Replace { slice, counts: batch.counts() };
            orders.tell(order, &batch)?;
        }
        self.orders = Some(orders);
        Ok(())
    }
}

/// The record of a former node.
fn recorded(kept: &Kept) -> FiltersRecord {
    let records = kept.records::<FiltersRecord>(RECORD);
    records.into_iter().find_map(|found| found.record).unwrap_or_default()
}
