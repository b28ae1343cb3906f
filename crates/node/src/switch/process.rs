//! A switch process: its start, its adoption, and orders to it.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use europa_channel::{Channel, ChannelError, pair};
use europa_port::Namespace;
use europa_sandbox::cgroup::Group;
use europa_sandbox::{Child, Exit, Identity, SpawnSpec, spawn};
use europa_substrate::{Parking, Substrate};
use europa_switch::orders::{Answer, Order, START_DESCRIPTORS, Served, SwitchStats};
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use super::lasting::{Lasting, worker_of};
use crate::cores::argument;
use crate::kept::{Found, Kept};
use crate::{Doing, NodeError};

/// How long a switch may take for an order. It takes milliseconds on a machine whose hypervisor
/// does not take the cores away.
const PATIENCE: Duration = Duration::from_secs(10);

/// Orders that may be on the way at a time: they and their answers fit into a socket's buffers.
const MOST_PENDING: usize = 64;

/// A running switch process.
pub(crate) struct Switch {
    child: Child,
    orders: Channel<Order, Answer>,
    identity: Option<Identity>,
    started: Instant,
    workers: u32,
}

/// The facts that the next node needs of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SwitchRecord {
    /// It has its identity.
    complete: bool,
    /// Times that a switch was started again.
    pub(super) restarts: u64,
}

/// All that the start of a switch needs; any thread can start it.
pub(crate) struct Starting {
    /// Those of [`START_DESCRIPTORS`], without the socket.
    descriptors: Vec<OwnedFd>,
    workers: Vec<StartingWorker>,
    parking: Parking,
    counter_rows: u32,
    kept: Kept,
    log: File,
    group: Option<Group>,
    /// The CPUs of Europa.
    cores: Vec<usize>,
}

/// Descriptors of a worker.
struct StartingWorker {
    program: OwnedFd,
    heard: OwnedFd,
    rung: OwnedFd,
}

impl Starting {
    pub(super) fn new(
        substrate: &Substrate,
        lasting: &Lasting,
        kept: &Kept,
        log: File,
        group: Option<Group>,
        cores: &[usize],
    ) -> Result<Self, NodeError> {
        let what = "duplicating a descriptor of the switch";
        let mut descriptors = START_DESCRIPTORS[..8]
            .iter()
            .map(|name| substrate.share(name))
            .collect::<Result<Vec<OwnedFd>, _>>()?;
        for shared in [&lasting.status, &lasting.held, &lasting.taps] {
            descriptors.push(shared.try_clone().doing(what)?);
        }
        let mut workers = Vec::new();
        for (number, parts) in (0..).zip(&lasting.workers) {
            let bell = &parts.doorbell;
            workers.push(StartingWorker {
                program: parts.program(substrate, number)?.try_clone().doing(what)?,
                heard: bell.heard.try_clone().doing(what)?,
                rung: bell.rung.try_clone().doing(what)?,
            });
        }
        Ok(Self {
            descriptors,
            workers,
            parking: substrate.parking(),
            counter_rows: substrate.counter_rows(),
            kept: kept.clone(),
            log,
            group,
            cores: cores.to_vec(),
        })
    }

    /// Starts a switch and gives it its identity. It knows no objects yet.
    pub(crate) fn start(self) -> Result<Switch, NodeError> {
        let mut switch = self.spawn()?;
        // Before its first order: from then on it outlives the node.
        switch.note(&self.kept, SwitchRecord { complete: false, restarts: 0 })?;
        self.introduce(&mut switch)?;
        // It has entered its own namespace by now: the programs are parked there.
        let namespace = Namespace::named(&format!("/proc/{}/ns/net", switch.child.pid()))
            .doing("opening the switch's network namespace")?;
        for (number, worker) in (0..).zip(&self.workers) {
            self.parking.park(number, &worker.program, &namespace)?;
        }
        Ok(switch)
    }

    fn spawn(&self) -> Result<Switch, NodeError> {
        let (orders, theirs) = pair().map_err(failed)?;
        let cpus = argument(self.cores.last().map_or(&[], std::slice::from_ref));
        let child = spawn(&SpawnSpec {
            arguments: vec!["europa".as_ref(), "switch".as_ref(), cpus.as_ref()],
            environment: Vec::new(),
            descriptors: vec![theirs.as_fd()],
            log: self.log.as_fd(),
            group: self.group.as_ref(),
            pid_namespace: true,
        })?;
        Ok(Switch {
            identity: Identity::of(child.pid()),
            child,
            orders,
            started: Instant::now(),
            workers: self.workers.len() as u32,
        })
    }

    /// Gives the switch its descriptors and settings.
    fn introduce(&self, switch: &mut Switch) -> Result<(), NodeError> {
        let listener = self.kept.listener(&switch.name())?;
        let mut descriptors: Vec<_> = self.descriptors.iter().map(AsFd::as_fd).collect();
        for worker in &self.workers {
            descriptors.extend([&worker.program, &worker.heard, &worker.rung].map(AsFd::as_fd));
        }
        descriptors.push(listener.as_fd());
        // From the last one on.
        let from_last = self.cores.iter().rev().cycle().take(self.workers.len());
        let start = Order::Start {
            workers: self.workers.len() as u32,
            cpus: from_last.map(|core| *core as u32).collect(),
            counter_rows: self.counter_rows,
            // The switch cannot ask the kernel for the number of cores: its sandbox forbids the
            // call.
            cores: thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
        };
        switch.orders.send(&start, &descriptors).map_err(failed)?;
        match switch.orders.receive_within(PATIENCE).map_err(failed)? {
            Some((Answer::Done, _)) => Ok(()),
            None => Err(switch.give_up(&start)),
            Some((other, _)) => Err(NodeError::Refused(format!("the switch answered {other:?}"))),
        }
    }
}

/// A failure of the channel to the switch.
fn failed(error: ChannelError) -> NodeError {
    NodeError::Channel { who: "the switch".into(), error }
}

impl Switch {
    /// Takes over the switch of a record, if it still runs.
    pub(super) fn adopt(
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

    /// The worker that takes the packets of the router with this number, or the relay on the pool
    /// of it.
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

    /// Notes that it can be adopted, and how many there were before it.
    pub(super) fn note_complete(&mut self, kept: &Kept, restarts: u64) -> Result<(), NodeError> {
        self.note(kept, SwitchRecord { complete: true, restarts })?;
        self.child.commit();
        Ok(())
    }

    /// Readable when it ends.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.child.as_fd()
    }

    /// The number of its process.
    pub(super) fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// How it has ended, if it has.
    pub(super) fn ended(&mut self) -> Option<Exit> {
        self.child.try_wait().ok().flatten()
    }

    /// The time since its start.
    pub(super) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Its process.
    pub(super) fn into_child(self) -> Child {
        self.child
    }

    /// It has ended, so no node can adopt it.
    pub(super) fn forget(&self, kept: &Kept) {
        kept.forget(&self.name());
    }

    /// The objects that it serves.
    pub(crate) fn describe(&mut self) -> Result<Served, NodeError> {
        match self.order(&Order::Describe, &[])? {
            Answer::Served(served) => Ok(served),
            other => Err(NodeError::Refused(format!("the switch answered {other:?}"))),
        }
    }

    /// Gives an order and waits for the answer.
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

    /// Gives many orders without descriptors, and waits for all answers: the switch works on one
    /// while others are on the way.
    ///
    /// # Errors
    /// The first that it refuses; orders behind it were given as well.
    pub(crate) fn order_all(
        &mut self,
        orders: impl Iterator<Item = Order>,
    ) -> Result<(), NodeError> {
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
            Err(error) => Err(failed(error)),
        }
    }

    /// Kills a switch that does not answer, perhaps because a router inside it does not end. The
    /// node starts another switch when it notices the end.
    fn give_up(&self, order: &Order) -> NodeError {
        let why = format!("the switch has not answered {order:?} for {PATIENCE:?}: it is killed");
        tracing::error!("{why}");
        // A switch that has just ended needs no signal.
        let _ = self.child.kill(Signal::SIGKILL);
        NodeError::Refused(why)
    }

    /// Has it forget a pool. Whether it has: no list of its names the pool any more.
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

/// The last orders to a switch, unless it has just ended: the next one gets all orders.
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
