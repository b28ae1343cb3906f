//! The process of a router: orders, answers, and its record.

use std::cell::Cell;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use europa_channel::Channel;
use europa_control::Ticket;
use europa_plan::RouterPlan;
use europa_router::orders::{Answer, Order};
use europa_sandbox::Identity;
use europa_substrate::PoolHandle;

use super::router::{Router, RouterRecord};
use crate::NodeError;
use crate::body::Body;
use crate::control::Reply;
use crate::kept::Kept;
use crate::switch::{Lasting, Switch};

/// How long a process may take to read its configuration.
const START: Duration = Duration::from_secs(30);
/// How long a router may take for other orders: a router that hangs harms only itself.
const ORDER: Duration = Duration::from_secs(5);
/// A program that runs for this time counts as ready: one that cannot run ends at once.
const SETTLED: Duration = Duration::from_millis(300);
/// Answers that are heard at once.
const MOST_ANSWERS: usize = 256;
/// Orders that may wait for an answer.
const MOST_PENDING: usize = 4096;

/// Its running process.
pub(crate) struct Process {
    pub(super) body: Body,
    pub(super) orders: Channel<Order, Answer>,
    /// The other end of an adopted program, which takes no orders: without it the node would always
    /// see a closed connection.
    pub(super) _nobody: Option<OwnedFd>,
    pub(super) identity: Option<Identity>,
    pub(super) record: RouterRecord,
    pub(super) started: Instant,
    /// It runs its graph.
    pub(super) ready: bool,
    /// There was something to hear when the node looked last.
    pub(super) says: Cell<bool>,
    /// It becomes a program, which cannot say that it is ready.
    pub(super) is_program: bool,
    /// When a program that has been executed counts as ready, if it still runs then.
    pub(super) settled: Option<Instant>,
    /// The requests that wait for answers, in the order of the answers.
    pub(super) pending: VecDeque<Pending>,
}

pub(super) struct Pending {
    until: Instant,
    to: Asked,
}

/// The receiver of an answer.
pub(crate) enum Asked {
    /// The node: the process has read its configuration.
    Start,
    /// The node: an update or a swap, of the change of this ticket.
    Update(Ticket),
    /// A request.
    Client(Reply<Outcome>),
    /// No receiver: the answer arrived too late.
    Nobody,
}

/// A router's answer, or the reason for its lack.
pub(crate) type Outcome = Result<String, String>;

impl Process {
    pub(super) fn new(body: Body, orders: Channel<Order, Answer>) -> Self {
        Self {
            identity: body.identity(),
            record: RouterRecord::default(),
            body,
            orders,
            _nobody: None,
            started: Instant::now(),
            ready: false,
            says: Cell::new(true),
            is_program: false,
            settled: None,
            pending: VecDeque::new(),
        }
    }

    /// Sends the process its settings, or lets the switch take it in; [`Asked::Start`] is answered
    /// when it is ready.
    pub(crate) fn begin(
        &mut self,
        router: &Router,
        pool: &PoolHandle,
        lasting: &Lasting,
        kept: &Kept,
        switch: Option<&mut Switch>,
    ) -> Result<(), NodeError> {
        self.body.is_on(pool.id);
        let plan = &router.wanted;
        self.record = RouterRecord {
            name: plan.name.to_string(),
            number: router.number,
            pool: pool.id,
            slots: plan.geometry.slots,
            slot_bytes: plan.geometry.slot_bytes,
            interfaces: router.interfaces.clone(),
            outside: plan.outside(),
            configuration: plan.configuration.clone(),
            file: plan.file.clone(),
            restarts: router.restarts,
            complete: false,
            astray: false,
        };
        // Before its first order: from then on it outlives the node.
        self.note(kept)?;
        let listener = kept.listener(&self.name())?;
        self.body.commit();
        let worker = lasting.worker_of(router.number);
        if self.body.is_inside() {
            let none = || NodeError::Refused("the switch does not run".into());
            self.body.enter(switch.ok_or_else(none)?, pool.id, listener.as_fd())?;
            return self.tell_start(router, worker, &[]);
        }
        let waker = pool.waker()?;
        let doorbell = lasting.rope(worker)?;
        let granted = router.granted.open(plan)?;
        let mut descriptors = vec![
            pool.as_fd(),
            waker.as_fd(),
            router.wake.heard.as_fd(),
            doorbell.as_fd(),
            lasting.status_for_routers.as_fd(),
            listener.as_fd(),
        ];
        descriptors.extend(granted.iter().map(AsFd::as_fd));
        self.tell_start(router, worker, &descriptors)
    }

    pub(super) fn tell_start(
        &mut self,
        router: &Router,
        worker: u32,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), NodeError> {
        let start = Order::Start(Box::new(router.plan.start(worker)));
        self.orders.send(&start, descriptors).map_err(|error| NodeError::Channel {
            who: format!("router {}", router.plan.name),
            error,
        })?;
        self.pending.push_back(Pending { until: Instant::now() + START, to: Asked::Start });
        Ok(())
    }

    /// Whether it runs its graph.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready
    }

    /// The number of its process; none if it runs inside the switch.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.body.pid()
    }

    /// The name of its record.
    pub(crate) fn name(&self) -> String {
        self.body.record()
    }

    pub(super) fn note(&self, kept: &Kept) -> Result<(), NodeError> {
        kept.note(&self.name(), self.identity, &self.record)
    }

    /// Notes whether it runs its graph and is in all tables: only then can it be adopted.
    pub(crate) fn note_complete(
        &mut self,
        kept: &Kept,
        complete: bool,
        restarts: u64,
    ) -> Result<(), NodeError> {
        (self.record.complete, self.record.restarts) = (complete, restarts);
        self.note(kept)
    }

    /// Notes the changes of `plan` around it.
    pub(crate) fn note_outside(&mut self, kept: &Kept, plan: &RouterPlan) -> Result<(), NodeError> {
        let outside = plan.outside();
        if self.record.outside == outside {
            return Ok(());
        }
        self.record.outside = outside;
        self.note(kept)
    }

    /// Notes that its configuration is about to become that of `plan`.
    pub(crate) fn note_change(&mut self, kept: &Kept, plan: &RouterPlan) -> Result<(), NodeError> {
        self.record.outside = plan.outside();
        self.record.configuration.clone_from(&plan.configuration);
        self.record.file.clone_from(&plan.file);
        self.record.astray = true;
        self.note(kept)
    }

    /// Notes that a change is done, once all its answers have arrived.
    pub(crate) fn note_changed(&mut self, kept: &Kept) -> Result<(), NodeError> {
        if self.changes() || !self.record.astray {
            return Ok(());
        }
        self.record.astray = false;
        self.note(kept)
    }

    /// Whether it has yet to answer to a change.
    pub(crate) fn changes(&self) -> bool {
        self.pending.iter().any(|pending| matches!(pending.to, Asked::Update(_)))
    }

    /// It has ended, so no later node can adopt it.
    pub(crate) fn forget(&self, kept: &Kept) {
        kept.forget(&self.name());
    }

    /// Lets another process give orders too, over this socket.
    pub(crate) fn admit(&mut self, socket: BorrowedFd<'_>) -> Result<(), NodeError> {
        let failed = |error| NodeError::Channel { who: "a router".into(), error };
        self.orders.send(&Order::Admit, &[socket]).map_err(failed)?;
        let until = Instant::now() + ORDER;
        self.pending.push_back(Pending { until, to: Asked::Nobody });
        Ok(())
    }

    /// Sends an order; its receiver gets the answer, or the reason for its absence.
    pub(crate) fn order(&mut self, order: &Order, to: Asked) {
        self.order_with(order, &[], to);
    }

    /// Like [`Process::order`], with descriptors.
    pub(crate) fn order_with(&mut self, order: &Order, descriptors: &[BorrowedFd<'_>], to: Asked) {
        let full = self.pending.len() >= MOST_PENDING;
        let sent = match full {
            true => Err("too many orders wait for its answer".to_owned()),
            false => self.orders.send(order, descriptors).map_err(|error| error.to_string()),
        };
        match (sent, to) {
            (Ok(()), to) => {
                self.pending.push_back(Pending { until: Instant::now() + ORDER, to });
            }
            (Err(why), Asked::Client(reply)) => drop(reply.send(Err(why))),
            (Err(why), _) => tracing::warn!("a router takes no order: {why}"),
        }
    }

    /// Whether an order can be given.
    pub(crate) fn has_room(&self, orders: usize) -> bool {
        self.pending.len() + orders <= MOST_PENDING
    }

    /// Whether an answer has arrived, or a request has waited too long.
    pub(crate) fn may_have_said(&self, now: Instant) -> bool {
        let due = self.pending.iter().map(|pending| pending.until).chain(self.settled);
        self.says.get() || due.into_iter().any(|due| due <= now)
    }

    /// Answers for the node itself; others are passed to their receivers.
    pub(crate) fn answers(&mut self) -> Vec<(Asked, Outcome)> {
        let mut own = Vec::new();
        // A closed channel belongs to an ended process, whose exit is handled elsewhere.
        for _ in 0..MOST_ANSWERS {
            // Not until there are none: a router may send them faster than they are read.
            let answer = match self.orders.try_receive() {
                Ok(Some((answer, _))) => answer,
                Ok(None) => break,
                Err(_) => {
                    self.body.has_ended(None);
                    break;
                }
            };
            let outcome = match answer {
                Answer::Ended(why) => {
                    self.body.has_ended(Some(why));
                    continue;
                }
                Answer::Done(text) => Ok(text),
                Answer::Refused(why) => Err(why),
                Answer::TooLong(bytes) => {
                    Err(format!("an answer of {bytes} bytes is too long for a message"))
                }
            };
            match self.pending.pop_front().map(|pending| pending.to) {
                Some(Asked::Client(reply)) => drop(reply.send(outcome)),
                Some(Asked::Nobody) | None => {}
                Some(Asked::Start) if self.is_program && outcome.is_ok() => {
                    self.settled = Some(Instant::now() + SETTLED);
                }
                Some(to) => {
                    self.ready |= matches!(to, Asked::Start) && outcome.is_ok();
                    own.push((to, outcome));
                }
            }
        }
        let now = Instant::now();
        if self.settled.is_some_and(|settled| settled <= now) && self.body.ended().is_none() {
            self.settled = None;
            self.ready = true;
            own.push((Asked::Start, Ok(String::new())));
        }
        for pending in self.pending.iter_mut().filter(|pending| pending.until <= now) {
            let why = || Err("it does not answer".to_owned());
            match std::mem::replace(&mut pending.to, Asked::Nobody) {
                Asked::Client(reply) => drop(reply.send(why())),
                Asked::Nobody => {}
                to => own.push((to, why())),
            }
        }
        own
    }

    /// When a request has waited too long.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let waiting = self.pending.iter().filter(|pending| !matches!(pending.to, Asked::Nobody));
        waiting.map(|pending| pending.until).chain(self.settled).min()
    }

    /// Answers all waiting requests with an error; returns whether the node waited.
    pub(crate) fn disappoint(&mut self, why: &str) -> bool {
        let mut own = false;
        for pending in self.pending.drain(..) {
            match pending.to {
                Asked::Client(reply) => drop(reply.send(Err(why.to_owned()))),
                Asked::Nobody => {}
                Asked::Start | Asked::Update(_) => own = true,
            }
        }
        own
    }
}
