//! The switch: started, told everything, and started again when it ends.

use std::cell::OnceCell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use europa_channel::{Channel, pair};
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
use crate::plan::InterfacePlan;
use crate::{Doing, NodeError};

/// Number of the only worker there is yet.
pub(crate) const WORKER: u32 = 0;

/// How long a switch may take for an order, which is milliseconds on a machine that is not
/// taken away.
const PATIENCE: Duration = Duration::from_secs(10);

/// Memory and descriptors that outlive a switch process.
pub(crate) struct Lasting {
    /// Sleep flags, written by the switch.
    status: OwnedFd,
    /// The same memory, opened for reading only: for routers.
    pub(crate) status_for_routers: OwnedFd,
    held: OwnedFd,
    /// Rung by routers.
    pub(crate) doorbell: Bell,
    /// The transmit program, once a switch has been started: one that is adopted has it, and the
    /// verifier takes its time.
    program: OnceCell<OwnedFd>,
    /// Records for captures, written by the switch.
    pub(crate) taps: OwnedFd,
}

impl Lasting {
    /// Finds it again, or makes it.
    pub(crate) fn open(kept: &Kept) -> Result<Self, NodeError> {
        Ok(Self {
            status: kept.memory("status", STATUS_BYTES)?,
            status_for_routers: kept.memory_read_only("status")?,
            held: kept.memory("held", HELD_BYTES)?,
            doorbell: kept.bell("doorbell")?,
            program: OnceCell::new(),
            taps: kept.memory("taps", MEMORY_BYTES)?,
        })
    }

    fn program(&self, substrate: &Substrate) -> Result<&OwnedFd, NodeError> {
        if let Some(program) = self.program.get() {
            return Ok(program);
        }
        let loaded = substrate.transmit_program(WORKER)?;
        Ok(self.program.get_or_init(|| loaded))
    }
}

/// A running switch process.
pub(crate) struct Switch {
    pub(crate) child: Child,
    orders: Channel<Order, Answer>,
    identity: Option<Identity>,
    pub(crate) started: Instant,
}

/// What the next node must know of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SwitchRecord {
    /// It has been told who it is.
    complete: bool,
    /// Times that a switch was started again.
    pub(crate) restarts: u64,
}

impl Switch {
    /// Starts a switch and tells it who it is.
    pub(crate) fn start(
        substrate: &Substrate,
        lasting: &Lasting,
        kept: &Kept,
        log: BorrowedFd<'_>,
        group: Option<&Group>,
        cpus: &[usize],
    ) -> Result<Self, NodeError> {
        let failed = |error| NodeError::Channel { who: "the switch".into(), error };
        let (orders, theirs) = pair().map_err(failed)?;
        let cpus = argument(cpus);
        let child = spawn(&SpawnSpec {
            arguments: vec!["europa".as_ref(), "switch".as_ref(), cpus.as_ref()],
            environment: Vec::new(),
            descriptors: vec![theirs.as_fd()],
            log,
            group,
            pid_namespace: true,
        })?;
        drop(theirs);
        let mut switch =
            Self { identity: Identity::of(child.pid()), child, orders, started: Instant::now() };
        // Before it is told anything: from then on it lives without us.
        switch.note(kept, SwitchRecord { complete: false, restarts: 0 })?;
        let listener = kept.listener(&switch.name())?;
        let maps = START_DESCRIPTORS[1..8]
            .iter()
            .map(|name| substrate.share(name))
            .collect::<Result<Vec<OwnedFd>, _>>()?;
        let program = lasting.program(substrate)?;
        let mut descriptors = vec![program.as_fd()];
        descriptors.extend(maps.iter().map(AsFd::as_fd));
        descriptors.extend([
            lasting.status.as_fd(),
            lasting.held.as_fd(),
            lasting.doorbell.heard.as_fd(),
            lasting.taps.as_fd(),
            listener.as_fd(),
        ]);
        let start = Order::Start {
            worker: WORKER,
            counter_rows: substrate.counter_rows(),
            // It cannot ask for them, locked in as it is.
            cores: thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
            busy: false,
        };
        switch.orders.send(&start, &descriptors).map_err(failed)?;
        match switch.orders.receive().map_err(failed)? {
            (Answer::Done, _) => {}
            (other, _) => return Err(NodeError::Refused(format!("the switch answered {other:?}"))),
        }
        // It has entered its own namespace by now: the program is parked there.
        let namespace = Namespace::named(&format!("/proc/{}/ns/net", switch.child.pid()))
            .doing("opening the switch's network namespace")?;
        substrate.park(program, &namespace)?;
        Ok(switch)
    }

    /// Takes over the switch of a record, if it still runs.
    pub(crate) fn adopt(
        found: &Found<SwitchRecord>,
        kept: &Kept,
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
        Ok(Some(Self { child, orders, identity: Some(identity), started }))
    }

    /// What its record is called.
    fn name(&self) -> String {
        format!("switch.{}", self.child.pid())
    }

    fn note(&self, kept: &Kept, record: SwitchRecord) -> Result<(), NodeError> {
        kept.note(&self.name(), self.identity, &record)
    }

    /// Notes that it can be adopted, and how many there were before it.
    pub(crate) fn note_complete(&self, kept: &Kept, restarts: u64) -> Result<(), NodeError> {
        self.note(kept, SwitchRecord { complete: true, restarts })
    }

    /// It has ended: nobody can adopt it.
    pub(crate) fn forget(&self, kept: &Kept) {
        kept.forget(&self.name());
    }

    /// What it serves.
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
                Some((answer, _)) => return Ok(answer),
                None if asked.elapsed() >= PATIENCE => return Err(self.give_up(order)),
                None => {}
            }
        }
    }

    /// Kills a switch that does not answer, perhaps because a router inside it has no end. The
    /// node starts another one when it sees it gone.
    fn give_up(&self, order: &Order) -> NodeError {
        let why = format!("the switch has not answered {order:?} for {PATIENCE:?}: it is killed");
        tracing::error!("{why}");
        // One that has just ended is gone as well.
        let _ = self.child.kill(Signal::SIGKILL);
        NodeError::Refused(why)
    }

    pub(crate) fn stats(&mut self) -> Option<SwitchStats> {
        match self.order(&Order::Stats, &[]) {
            Ok(Answer::Stats(stats)) => Some(stats),
            _ => None,
        }
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

/// When a switch is to be started again.
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
