//! The switch: starts it, sends it all objects, and restarts it when it ends.

use std::cell::OnceCell;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use europa_channel::{Channel, pair};
use europa_plan::InterfacePlan;
use europa_port::Namespace;
use europa_sandbox::cgroup::Group;
use europa_sandbox::{Child, Identity, SpawnSpec, spawn};
use europa_substrate::Substrate;
use europa_substrate::tap::MEMORY_BYTES;
use europa_switch::orders::{
    Answer, FilteredBy, Order, START_DESCRIPTORS, Served, SwitchStats, Target,
};
use europa_switch::{HELD_BYTES, STATUS_BYTES};
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use crate::backoff::Backoff;
use crate::bell::Bell;
use crate::cores::argument;
use crate::kept::{Found, Kept};
use crate::{Doing, NodeError};

/// Time limit of a switch for an order, which takes milliseconds unless the machine stands still.
const PATIENCE: Duration = Duration::from_secs(10);

/// Most outstanding orders: they and their answers fit into a socket's buffers.
const MOST_PENDING: usize = 64;

/// Memory and descriptors that outlive a switch process.
pub(crate) struct Lasting {
    /// Sleep flags, written by the switch.
    status: OwnedFd,
    /// The same memory, opened for reading only: for routers.
    pub(crate) status_for_routers: OwnedFd,
    held: OwnedFd,
    /// The private part of each of its workers. The number of workers never changes: routers know
    /// which worker they wake.
    workers: Vec<WorkerParts>,
    /// Records for captures, written by the switch.
    pub(crate) taps: OwnedFd,
}

struct WorkerParts {
    /// Rung by routers and other workers.
    doorbell: Bell,
    /// The transmit program, once a switch has been started: an adopted switch has it, and the
    /// verifier is slow.
    program: OnceCell<OwnedFd>,
}

impl WorkerParts {
    fn program(&self, substrate: &Substrate, worker: u32) -> Result<&OwnedFd, NodeError> {
        if let Some(program) = self.program.get() {
            return Ok(program);
        }
        let loaded = substrate.transmit_program(worker)?;
        Ok(self.program.get_or_init(|| loaded))
    }
}

impl Lasting {
    /// Finds it again, or makes it, for so many workers.
    pub(crate) fn open(kept: &Kept, workers: u32) -> Result<Self, NodeError> {
        let there = (0..).take_while(|worker| kept.has(&doorbell(*worker))).count() as u32;
        let workers = if there > 0 { there } else { workers };
        let parts = |worker| {
            let doorbell = kept.bell(&doorbell(worker))?;
            Ok(WorkerParts { doorbell, program: OnceCell::new() })
        };
        Ok(Self {
            status: kept.memory("status", STATUS_BYTES)?,
            status_for_routers: kept.memory_read_only("status")?,
            held: kept.memory("held", HELD_BYTES)?,
            workers: (0..workers).map(parts).collect::<Result<_, NodeError>>()?,
            taps: kept.memory("taps", MEMORY_BYTES)?,
        })
    }

    /// How many workers a switch has.
    pub(crate) fn workers(&self) -> u32 {
        self.workers.len() as u32
    }

    /// The worker that takes the packets of the router with this number.
    pub(crate) fn worker_of(&self, router: u32) -> u32 {
        worker_of(router, self.workers())
    }

    /// For a router, to wake its worker by.
    pub(crate) fn rope(&self, worker: u32) -> Result<OwnedFd, NodeError> {
        let none = || NodeError::Refused(format!("there is no worker {worker}"));
        self.workers.get(worker as usize).ok_or_else(none)?.doorbell.rope()
    }
}

/// Numbers of routers are given from the lowest on: neighbours share no worker.
fn worker_of(router: u32, workers: u32) -> u32 {
    router % workers.max(1)
}

/// The name of a worker's bell.
fn doorbell(worker: u32) -> String {
    format!("doorbell.{worker}")
}

/// A running switch process.
pub(crate) struct Switch {
    pub(crate) child: Child,
    orders: Channel<Order, Answer>,
    identity: Option<Identity>,
    pub(crate) started: Instant,
    workers: u32,
}

/// The facts that the next node needs of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SwitchRecord {
    /// It has its identity.
    complete: bool,
    /// Times that a switch was started again.
    pub(crate) restarts: u64,
}

impl Switch {
    /// Starts a switch and gives it its identity.
    pub(crate) fn start(
        substrate: &Substrate,
        lasting: &Lasting,
        kept: &Kept,
        log: BorrowedFd<'_>,
        group: Option<&Group>,
        cores: &[usize],
    ) -> Result<Self, NodeError> {
        let failed = |error| NodeError::Channel { who: "the switch".into(), error };
        let (orders, theirs) = pair().map_err(failed)?;
        // From the last core on.
        let from_last = cores.iter().rev().cycle().take(lasting.workers.len());
        let worker_cores: Vec<u32> = from_last.map(|core| *core as u32).collect();
        let cpus = argument(cores.last().map_or(&[], std::slice::from_ref));
        let child = spawn(&SpawnSpec {
            arguments: vec!["europa".as_ref(), "switch".as_ref(), cpus.as_ref()],
            environment: Vec::new(),
            descriptors: vec![theirs.as_fd()],
            log,
            group,
            pid_namespace: true,
        })?;
        drop(theirs);
        let mut switch = Self {
            identity: Identity::of(child.pid()),
            child,
            orders,
            started: Instant::now(),
            workers: lasting.workers(),
        };
        // Before its first order: from then on it outlives the node.
        switch.note(kept, SwitchRecord { complete: false, restarts: 0 })?;
        let listener = kept.listener(&switch.name())?;
        let maps = START_DESCRIPTORS[..7]
            .iter()
            .map(|name| substrate.share(name))
            .collect::<Result<Vec<OwnedFd>, _>>()?;
        let mut descriptors: Vec<_> = maps.iter().map(AsFd::as_fd).collect();
        descriptors.extend([lasting.status.as_fd(), lasting.held.as_fd(), lasting.taps.as_fd()]);
        let mut programs = Vec::new();
        for (number, parts) in (0..).zip(&lasting.workers) {
            let program = parts.program(substrate, number)?;
            let bell = &parts.doorbell;
            descriptors.extend([program.as_fd(), bell.heard.as_fd(), bell.rung.as_fd()]);
            programs.push(program);
        }
        descriptors.push(listener.as_fd());
        let start = Order::Start {
            workers: lasting.workers(),
            cpus: worker_cores,
            counter_rows: substrate.counter_rows(),
            // The sandbox keeps it from asking the system.
            cores: thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
        };
        switch.orders.send(&start, &descriptors).map_err(failed)?;
        match switch.orders.receive_within(PATIENCE).map_err(failed)? {
            Some((Answer::Done, _)) => {}
            None => return Err(switch.give_up(&start)),
            Some((other, _)) => {
                return Err(NodeError::Refused(format!("the switch answered {other:?}")));
            }
        }
        // It has entered its namespace by now, where the programs are attached.
        let namespace = Namespace::named(&format!("/proc/{}/ns/net", switch.child.pid()))
            .doing("opening the switch's network namespace")?;
        for (worker, program) in (0..).zip(programs) {
            substrate.park(worker, program, &namespace)?;
        }
        Ok(switch)
    }

    /// Takes over the switch of a record, if it still runs.
    pub(crate) fn adopt(
        found: &Found<SwitchRecord>,
        kept: &Kept,
        workers: u32,
    ) -> Result<Option<Self>, NodeError> {
        let (Some(SwitchRecord { complete: true, .. }), Some(identity)) =
            (found.record, found.process)
        else {
            return Ok(None);
        };
        let Some(child) = Child::adopt(identity)? else { return Ok(None) };
        let Ok(orders) = kept.join(&found.name) else { return Ok(None) };
        let now = Instant::now();
        let started = now.checked_sub(identity.age()).unwrap_or(now);
        Ok(Some(Self { child, orders, identity: Some(identity), started, workers }))
    }

    /// The worker for the packets of the router with this number, or for the relay on its pool.
    pub(crate) fn worker_of(&self, number: u32) -> u32 {
        worker_of(number, self.workers)
    }

    /// The name of its record.
    fn name(&self) -> String {
        format!("switch.{}", self.child.pid())
    }

    fn note(&self, kept: &Kept, record: SwitchRecord) -> Result<(), NodeError> {
        kept.note(&self.name(), self.identity, &record)
    }

    /// Notes that it can be adopted, and the number of its predecessors.
    pub(crate) fn note_complete(&mut self, kept: &Kept, restarts: u64) -> Result<(), NodeError> {
        self.note(kept, SwitchRecord { complete: true, restarts })?;
        self.child.commit();
        Ok(())
    }

    /// It has ended, so no node can adopt it.
    pub(crate) fn forget(&self, kept: &Kept) {
        kept.forget(&self.name());
    }

    /// The objects that it serves.
    pub(crate) fn describe(&mut self) -> Result<Served, NodeError> {
        match self.order(&Order::Describe, &[])? {
            Answer::Served(served) => Ok(served),
            other => Err(NodeError::Refused(format!("the switch answered {other:?}"))),
        }
    }

    /// Sends an order and waits for the answer.
    pub(crate) fn order(
        &mut self,
        order: &Order,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Answer, NodeError> {
        self.ask(order, descriptors).map(|(answer, _)| answer)
    }

    /// The same, for an answer with descriptors.
    pub(crate) fn ask(
        &mut self,
        order: &Order,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(Answer, Vec<OwnedFd>), NodeError> {
        let failed = |error| NodeError::Channel { who: "the switch".into(), error };
        let asked = Instant::now();
        self.orders.send(order, descriptors).map_err(failed)?;
        loop {
            let left = PATIENCE.saturating_sub(asked.elapsed());
            match self.orders.receive_within(left).map_err(failed)? {
                Some((Answer::Refused(why), _)) => {
                    let why = format!("the switch refuses {order:?}: {why}");
                    return Err(NodeError::Refused(why));
                }
                Some(answer) => return Ok(answer),
                None if asked.elapsed() >= PATIENCE => return Err(self.give_up(order)),
                None => {}
            }
        }
    }

    /// Sends many orders without descriptors, and waits for all answers: the switch handles one
    /// while others are being sent.
    ///
    /// # Errors
    /// The first that it refuses; later orders were sent as well.
    pub(crate) fn order_all(
        &mut self,
        orders: impl Iterator<Item = Order>,
    ) -> Result<(), NodeError> {
        let failed = |error| NodeError::Channel { who: "the switch".into(), error };
        let (mut pending, mut first) = (VecDeque::new(), Ok(()));
        for order in orders {
            if pending.len() >= MOST_PENDING {
                first = first.and(self.answer(&mut pending)?);
            }
            self.orders.send(&order, &[]).map_err(failed)?;
            pending.push_back(order);
        }
        while !pending.is_empty() {
            first = first.and(self.answer(&mut pending)?);
        }
        first
    }

    /// Waits for the answer to the first of these orders.
    fn answer(
        &mut self,
        pending: &mut VecDeque<Order>,
    ) -> Result<Result<(), NodeError>, NodeError> {
        let Some(order) = pending.pop_front() else { return Ok(Ok(())) };
        match self.orders.receive_within(PATIENCE) {
            Ok(Some((Answer::Refused(why), _))) => {
                Ok(Err(NodeError::Refused(format!("the switch refuses {order:?}: {why}"))))
            }
            Ok(Some(_)) => Ok(Ok(())),
            Ok(None) => Err(self.give_up(&order)),
            Err(error) => Err(NodeError::Channel { who: "the switch".into(), error }),
        }
    }

    /// Kills a switch that does not answer, perhaps because of an endless loop in a router inside
    /// it. The node then starts another one.
    fn give_up(&self, order: &Order) -> NodeError {
        let why = format!("the switch has not answered {order:?} for {PATIENCE:?}: it is killed");
        tracing::error!("{why}");
        // A switch that has just ended is gone as well.
        let _ = self.child.kill(Signal::SIGKILL);
        NodeError::Refused(why)
    }

    /// Removes a pool from the switch. Returns whether that is done: then none of its lists names
    /// the pool.
    pub(crate) fn forget_pool(&mut self, pool: u32) -> bool {
        self.order(&Order::RemovePool { pool }, &[]).is_ok()
    }

    pub(crate) fn stats(&mut self) -> Option<SwitchStats> {
        match self.order(&Order::Stats, &[]) {
            Ok(Answer::Stats(stats)) => Some(stats),
            _ => None,
        }
    }
}

/// The result of orders to a switch, unless it has just ended: the next one gets all orders.
///
/// # Errors
/// It refuses.
pub(crate) fn unless_gone<T: Default>(told: Result<T, NodeError>) -> Result<T, NodeError> {
    match told {
        Err(NodeError::Channel { who, error }) => {
            tracing::info!("{who}: {error}; the next one is told");
            Ok(T::default())
        }
        told => told,
    }
}

/// The order that adds an interface.
pub(crate) fn add_interface(
    interface: u32,
    pool: u32,
    to: Target,
    planned: &InterfacePlan,
    filtered_by: Option<FilteredBy>,
) -> Order {
    let bound = planned.spec.bound.clone();
    let (local, impairment) = (planned.spec.local, planned.impairment);
    Order::AddInterface { interface, pool, local, to, bound, impairment, filtered_by }
}

/// When to start a switch again.
pub(crate) struct Revival {
    pub(crate) backoff: Backoff,
    pub(crate) restarts: u64,
    pub(crate) due: Option<Instant>,
}

impl Default for Revival {
    fn default() -> Self {
        Self { backoff: Backoff::of_switch(), restarts: 0, due: None }
    }
}
