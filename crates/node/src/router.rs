//! One router: its pool, its process, and when to start it again.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use europa_channel::{Channel, pair};
use europa_pool::Geometry;
use europa_resource::{Access, Resource};
use europa_router::orders::{Answer, Order};
use europa_sandbox::cgroup::{Group, Limits};
use europa_sandbox::{Child, Identity, SpawnSpec, spawn};
use europa_substrate::{PoolHandle, Substrate};
use serde::{Deserialize, Serialize};

use crate::NodeError;
use crate::backoff::Backoff;
use crate::bell::Bell;
use crate::body::Body;
use crate::control::Reply;
use crate::cores::argument;
use crate::grants::Granted;
use crate::kept::{Found, Kept};
use crate::node::Successor;
use crate::plan::RouterPlan;
use crate::switch::{Lasting, Switch};

/// Most memory of a router's process, its pool apart: a full Internet table has room.
const MEMORY_BYTES: u64 = 1 << 30;

/// A router of this node.
pub(crate) struct Router {
    /// Number on this node, from which its uid follows.
    pub(crate) number: u32,
    /// What its documents say.
    pub(crate) wanted: RouterPlan,
    /// The same with what was found out: next hops of tunnels.
    pub(crate) plan: RouterPlan,
    /// What its process runs is not known: an update was refused half-way.
    pub(crate) astray: bool,
    /// Numbers of its interfaces in the substrate.
    pub(crate) interfaces: Vec<u32>,
    pub(crate) pool: Option<PoolHandle>,
    pub(crate) process: Option<Process>,
    /// Takes over when it is ready.
    pub(crate) successor: Option<Successor>,
    pub(crate) backoff: Backoff,
    pub(crate) restarts: u64,
    pub(crate) due: Option<Instant>,
    pub(crate) last_end: String,
    /// Written by the switch when something came over a link.
    pub(crate) wake: Bell,
    pub(crate) group: Option<Group>,
    pub(crate) granted: Granted,
}

/// What the next node must know of a router's process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RouterRecord {
    name: String,
    number: u32,
    pool: u32,
    slots: u32,
    slot_bytes: u32,
    interfaces: Vec<u32>,
    /// What of its plan cannot change in a process that runs, as text.
    outside: String,
    configuration: String,
    file: String,
    restarts: u64,
    /// It runs its graph, and everything of it is in the tables.
    complete: bool,
    /// Which configuration it runs is not known.
    astray: bool,
}

/// Its running process.
pub(crate) struct Process {
    pub(crate) body: Body,
    orders: Channel<Order, Answer>,
    /// Of a program that was adopted, which takes no orders, the other end: without it the node
    /// would hear all the time that there is none.
    _nobody: Option<OwnedFd>,
    identity: Option<Identity>,
    record: RouterRecord,
    pub(crate) started: Instant,
    /// It runs its graph.
    pub(crate) ready: bool,
    /// There was something to hear when the node looked last.
    pub(crate) says: Cell<bool>,
    /// Who waits for answers, in the order in which they will come.
    pending: VecDeque<Pending>,
}

struct Pending {
    until: Instant,
    to: Asked,
}

/// Whom an answer is for.
pub(crate) enum Asked {
    /// The node: the process has read its configuration.
    Start,
    /// The node: an update or a swap.
    Update,
    /// Somebody who asked.
    Client(Reply<Outcome>),
    /// Nobody: it came too late.
    Nobody,
}

/// What a router answers, or why it does not.
pub(crate) type Outcome = Result<String, String>;

/// How long a process may take to read its configuration.
const START: Duration = Duration::from_secs(30);
/// How long it may take for anything else: a router that hangs harms itself alone.
const ORDER: Duration = Duration::from_secs(5);
/// Answers that are heard at once.
const MOST_ANSWERS: usize = 256;
/// Orders that may wait for an answer.
const MOST_PENDING: usize = 4096;

impl Router {
    pub(crate) fn new(
        number: u32,
        plan: RouterPlan,
        group: Option<Group>,
        wake: Bell,
    ) -> Result<Self, NodeError> {
        if let Some(group) = &group {
            group.set(&Limits { memory_bytes: Some(MEMORY_BYTES), ..Limits::default() })?;
        }
        Ok(Self {
            number,
            wanted: plan.clone(),
            plan,
            astray: false,
            interfaces: Vec::new(),
            pool: None,
            process: None,
            successor: None,
            backoff: Backoff::new(),
            restarts: 0,
            due: None,
            last_end: String::new(),
            wake,
            group,
            granted: Granted::default(),
        })
    }

    /// Takes over the router of a record, if it still runs and is what is planned, but for
    /// its configuration: that can be changed while it runs.
    ///
    /// # Errors
    /// Why it is to be started anew.
    pub(crate) fn adopt(
        found: &Found<RouterRecord>,
        plan: &RouterPlan,
        substrate: &Substrate,
        kept: &Kept,
    ) -> Result<Self, String> {
        let Some(record) = &found.record else { return Err(ANOTHER_VERSION.into()) };
        if !record.complete {
            return Err("it had not been started to the end".into());
        }
        let Geometry { interfaces, .. } = plan.geometry;
        let geometry = Geometry { slots: record.slots, slot_bytes: record.slot_bytes, interfaces };
        if record.outside != outside(plan) || plan.geometry != geometry {
            return Err("it is to be another one".into());
        }
        let told = |error: NodeError| error.to_string();
        let body = match found.process {
            Some(identity) => {
                let child = Child::adopt(identity).map_err(|error| error.to_string())?;
                Body::Process(child.ok_or("its process has ended")?)
            }
            // Nobody listens at its socket if it has ended.
            None => Body::Switch { pool: record.pool, equipment: None, ended: None },
        };
        let pool = substrate.adopt_pool(record.pool, geometry).map_err(|e| told(e.into()))?;
        let all = record.interfaces.iter();
        let whole = record.interfaces.len() == plan.interfaces.len()
            && all.clone().all(|id| substrate.has_interface(*id, record.pool));
        let pool = pool.filter(|_| whole).ok_or("its pool or interfaces are not there")?;
        let (orders, nobody) = match plan.program.is_empty() {
            true => (kept.join(&found.name).map_err(told)?, None),
            false => pair().map(|(orders, theirs)| (orders, Some(theirs))).map_err(|error| {
                told(NodeError::Channel { who: format!("router {}", plan.name), error })
            })?,
        };
        let now = Instant::now();
        let age = found.process.map_or(Duration::ZERO, |identity| identity.age());
        let process = Process {
            body,
            orders,
            _nobody: nobody,
            identity: found.process,
            record: record.clone(),
            started: now.checked_sub(age).unwrap_or(now),
            ready: true,
            says: Cell::new(true),
            pending: VecDeque::new(),
        };
        let mut wanted = plan.clone();
        if text(&wanted.configuration) != text(&record.configuration) {
            wanted.configuration.clone_from(&record.configuration);
            wanted.file.clone_from(&record.file);
            wanted.description = None;
        }
        let mut router = Self {
            number: record.number,
            plan: wanted.clone(),
            wanted,
            astray: record.astray,
            interfaces: record.interfaces.clone(),
            pool: Some(pool),
            process: Some(process),
            successor: None,
            backoff: Backoff::new(),
            restarts: record.restarts,
            due: None,
            last_end: String::new(),
            wake: kept.bell(&wake_name(record.number)).map_err(told)?,
            group: None,
            granted: Granted::default(),
        };
        for (interface, id) in router.plan.interfaces.iter_mut().zip(&router.interfaces) {
            if interface.tunnel.is_some() {
                interface.spec.encap = substrate.encap(*id);
            }
        }
        Ok(router)
    }

    /// Starts the process on `cores`, unless its document names others; it waits for
    /// [`Process::begin`].
    pub(crate) fn spawn(&self, log: File, cores: &[usize]) -> Result<Process, NodeError> {
        let who = || format!("router {}", self.plan.name);
        let (orders, theirs) = pair().map_err(|error| NodeError::Channel { who: who(), error })?;
        if self.plan.inline.is_some() {
            tracing::info!("router {} is started", self.plan.name);
            return Ok(Process::new(Body::inside(theirs, log), orders));
        }
        let number = self.number.to_string();
        let own = self.plan.cpus.as_slice();
        let cpus = argument(if own.is_empty() { cores } else { own });
        // tests/tests/start.rs takes its time: packets must flow soon after it.
        tracing::info!("router {} is started", self.plan.name);
        let role = if self.plan.program.is_empty() { "router" } else { "program" };
        let mut arguments: Vec<&OsStr> = vec![
            "europa".as_ref(),
            role.as_ref(),
            "--number".as_ref(),
            number.as_ref(),
            "--name".as_ref(),
            self.plan.name.as_ref(),
            cpus.as_ref(),
        ];
        if self.plan.grants.iter().any(|grant| grant.access() == Access::Write) {
            arguments.push("--writes".as_ref());
        }
        if self.plan.grants.iter().any(Resource::shares_memory) {
            arguments.push("--shares".as_ref());
        }
        if !self.plan.program.is_empty() {
            arguments.push("--".as_ref());
            arguments.extend(self.plan.program.iter().map(OsStr::new));
        }
        let child = spawn(&SpawnSpec {
            arguments,
            environment: Vec::new(),
            descriptors: vec![theirs.as_fd()],
            log: log.as_fd(),
            group: self.group.as_ref(),
            pid_namespace: true,
        })?;
        Ok(Process::new(Body::Process(child), orders))
    }

    /// Its process, and the one that is to take over.
    pub(crate) fn processes(&self) -> impl Iterator<Item = &Process> {
        self.process.iter().chain(self.successor.as_ref().map(|successor| &successor.process))
    }

    /// The number in the substrate of its interface of this name.
    pub(crate) fn number_of(&self, interface: &str) -> Option<u32> {
        let mut all = self.plan.interfaces.iter().zip(&self.interfaces);
        all.find(|(planned, _)| planned.name == interface).map(|(_, id)| *id)
    }

    /// What became of it, for people.
    pub(crate) fn state(&self, now: Instant) -> String {
        match (&self.process, self.due) {
            (Some(process), _) if process.ready => "running".into(),
            (Some(_), _) => "starting".into(),
            (None, Some(due)) => format!(
                "{}; starts again in {:.1} s",
                self.last_end,
                due.saturating_duration_since(now).as_secs_f64()
            ),
            (None, None) => self.last_end.clone(),
        }
    }
}

impl Process {
    fn new(body: Body, orders: Channel<Order, Answer>) -> Self {
        Self {
            identity: body.identity(),
            record: RouterRecord::default(),
            body,
            orders,
            _nobody: None,
            started: Instant::now(),
            ready: false,
            says: Cell::new(true),
            pending: VecDeque::new(),
        }
    }

    /// Tells the process what to be, or has the switch take it in; [`Asked::Start`] tells when
    /// it is.
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
            name: plan.name.clone(),
            number: router.number,
            pool: pool.id,
            slots: plan.geometry.slots,
            slot_bytes: plan.geometry.slot_bytes,
            interfaces: router.interfaces.clone(),
            outside: outside(plan),
            configuration: plan.configuration.clone(),
            file: plan.file.clone(),
            restarts: router.restarts,
            complete: false,
            astray: false,
        };
        // Before it is told anything: from then on it lives without us.
        self.note(kept)?;
        let listener = kept.listener(&self.name())?;
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

    fn tell_start(
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

    /// What its record is called.
    pub(crate) fn name(&self) -> String {
        self.body.record()
    }

    fn note(&self, kept: &Kept) -> Result<(), NodeError> {
        kept.note(&self.name(), self.identity, &self.record)
    }

    /// Notes whether it runs its graph, with everything of it in the tables: only then can
    /// it be adopted.
    pub(crate) fn note_complete(
        &mut self,
        kept: &Kept,
        complete: bool,
        restarts: u64,
    ) -> Result<(), NodeError> {
        (self.record.complete, self.record.restarts) = (complete, restarts);
        self.note(kept)
    }

    /// Notes what of `plan` has changed around it.
    pub(crate) fn note_outside(&mut self, kept: &Kept, plan: &RouterPlan) -> Result<(), NodeError> {
        let outside = outside(plan);
        if self.record.outside == outside {
            return Ok(());
        }
        self.record.outside = outside;
        self.note(kept)
    }

    /// Notes that its configuration is about to become that of `plan`.
    pub(crate) fn note_change(&mut self, kept: &Kept, plan: &RouterPlan) -> Result<(), NodeError> {
        self.record.outside = outside(plan);
        self.record.configuration.clone_from(&plan.configuration);
        self.record.file.clone_from(&plan.file);
        self.record.astray = true;
        self.note(kept)
    }

    /// Notes that a change is done, once all of it is.
    pub(crate) fn note_changed(&mut self, kept: &Kept) -> Result<(), NodeError> {
        let waits = self.pending.iter().any(|pending| matches!(pending.to, Asked::Update));
        if waits || !self.record.astray {
            return Ok(());
        }
        self.record.astray = false;
        self.note(kept)
    }

    /// It has ended: nobody can adopt it.
    pub(crate) fn forget(&self, kept: &Kept) {
        kept.forget(&self.name());
    }

    /// Lets another give orders too, over this socket.
    pub(crate) fn admit(&mut self, socket: BorrowedFd<'_>) -> Result<(), NodeError> {
        let failed = |error| NodeError::Channel { who: "a router".into(), error };
        self.orders.send(&Order::Admit, &[socket]).map_err(failed)?;
        let until = Instant::now() + ORDER;
        self.pending.push_back(Pending { until, to: Asked::Nobody });
        Ok(())
    }

    /// Gives an order; whoever it is for gets the answer, or that none came.
    pub(crate) fn order(&mut self, order: &Order, to: Asked) {
        self.order_with(order, &[], to);
    }

    /// As [`Process::order`], with descriptors.
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

    /// Whether there is something to hear, or somebody has waited too long.
    pub(crate) fn may_have_said(&self, now: Instant) -> bool {
        self.says.get() || self.pending.iter().any(|pending| pending.until <= now)
    }

    /// Answers that have come for the node itself; others have been handed on.
    pub(crate) fn answers(&mut self) -> Vec<(Asked, Outcome)> {
        let mut own = Vec::new();
        // A channel that is closed belongs to a process that has ended: its exit is seen.
        for _ in 0..MOST_ANSWERS {
            // Not for as long as there are any: a router may send them faster than they are read.
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
                Some(to) => {
                    self.ready |= matches!(to, Asked::Start) && outcome.is_ok();
                    own.push((to, outcome));
                }
            }
        }
        let now = Instant::now();
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

    /// When somebody has waited too long.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let waiting = self.pending.iter().filter(|pending| !matches!(pending.to, Asked::Nobody));
        waiting.map(|pending| pending.until).min()
    }

    /// Tells those who wait that no answer will come; returns whether the node waited.
    pub(crate) fn disappoint(&mut self, why: &str) -> bool {
        let mut own = false;
        for pending in self.pending.drain(..) {
            match pending.to {
                Asked::Client(reply) => drop(reply.send(Err(why.to_owned()))),
                Asked::Nobody => {}
                Asked::Start | Asked::Update => own = true,
            }
        }
        own
    }
}

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.orders.as_fd()
    }
}

/// Why a record means nothing.
pub(crate) const ANOTHER_VERSION: &str = "another version of Europa had started it";

/// The name of the bell of router `number`.
pub(crate) fn wake_name(number: u32) -> String {
    format!("wake.{number}")
}

/// A configuration without the blank lines that only count lines of a file.
pub(crate) fn text(configuration: &str) -> &str {
    configuration.trim_start_matches('\n')
}

/// What of a plan cannot change in a process that runs. What links do to packets is the
/// switch's affair.
fn outside(plan: &RouterPlan) -> String {
    let mut interfaces = plan.interfaces.clone();
    for interface in &mut interfaces {
        interface.impairment = None;
    }
    format!(
        "{:?}",
        (
            plan.geometry,
            interfaces,
            &plan.addresses,
            plan.busy,
            &plan.cpus,
            &plan.grants,
            &plan.program,
            plan.inline
        )
    )
}

/// The router that a record is of.
pub(crate) fn name_of(record: &RouterRecord) -> &str {
    &record.name
}
