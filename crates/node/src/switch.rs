//! The switch: started, told everything, and started again when it ends.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use europa_channel::{Channel, pair};
use europa_port::Namespace;
use europa_sandbox::cgroup::Group;
use europa_sandbox::{Child, SpawnSpec, spawn};
use europa_substrate::Substrate;
use europa_substrate::tap::MEMORY_BYTES;
use europa_switch::orders::{Answer, Order, START_DESCRIPTORS, SwitchStats, Target};
use europa_switch::{HELD_BYTES, STATUS_BYTES};
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::backoff::Backoff;
use crate::bell::Bell;
use crate::cores::argument;
use crate::plan::InterfacePlan;
use crate::{Doing, NodeError};

/// Number of the only worker there is yet.
pub(crate) const WORKER: u32 = 0;

/// Memory and descriptors that outlive a switch process.
pub(crate) struct Lasting {
    /// Sleep flags, written by the switch.
    status: OwnedFd,
    /// The same memory, opened for reading only: for routers.
    pub(crate) status_for_routers: OwnedFd,
    held: OwnedFd,
    /// Rung by routers.
    pub(crate) doorbell: Bell,
    program: OwnedFd,
    /// Records for captures, written by the switch.
    pub(crate) taps: OwnedFd,
}

impl Lasting {
    pub(crate) fn new(substrate: &Substrate) -> Result<Self, NodeError> {
        let memory = |name: &std::ffi::CStr, bytes: usize| -> nix::Result<OwnedFd> {
            let file = memfd_create(name, MFdFlags::MFD_CLOEXEC)?;
            nix::unistd::ftruncate(&file, bytes as i64)?;
            Ok(file)
        };
        let status = memory(c"europa-status", STATUS_BYTES).doing("making the status page")?;
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&status));
        let read_only = std::fs::File::open(path).doing("opening the status page for reading")?;
        Ok(Self {
            status_for_routers: read_only.into(),
            status,
            held: memory(c"europa-held", HELD_BYTES).doing("making the memory of held slots")?,
            doorbell: Bell::new()?,
            program: substrate.transmit_program(WORKER)?,
            taps: memory(c"europa-taps", MEMORY_BYTES).doing("making the memory of captures")?,
        })
    }
}

/// A running switch process.
pub(crate) struct Switch {
    pub(crate) child: Child,
    orders: Channel<Order, Answer>,
    /// Keeps the transmit program attached where it never receives.
    _parked: OwnedFd,
    pub(crate) started: Instant,
}

impl Switch {
    /// Starts a switch and tells it who it is.
    pub(crate) fn start(
        substrate: &Substrate,
        lasting: &Lasting,
        log: BorrowedFd<'_>,
        group: Option<&Group>,
        cpus: &[usize],
    ) -> Result<Self, NodeError> {
        let failed = |error| NodeError::Channel { who: "the switch".into(), error };
        let (mut orders, theirs) = pair().map_err(failed)?;
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
        let maps = START_DESCRIPTORS[1..8]
            .iter()
            .map(|name| substrate.share(name))
            .collect::<Result<Vec<OwnedFd>, _>>()?;
        let mut descriptors = vec![lasting.program.as_fd()];
        descriptors.extend(maps.iter().map(AsFd::as_fd));
        descriptors.extend([
            lasting.status.as_fd(),
            lasting.held.as_fd(),
            lasting.doorbell.heard.as_fd(),
            lasting.taps.as_fd(),
        ]);
        let start =
            Order::Start { worker: WORKER, counter_rows: substrate.counter_rows(), busy: false };
        orders.send(&start, &descriptors).map_err(failed)?;
        match orders.receive().map_err(failed)? {
            (Answer::Done, _) => {}
            (other, _) => return Err(NodeError::Refused(format!("the switch answered {other:?}"))),
        }
        // It has entered its own namespace by now: the program is parked there.
        let namespace = Namespace::named(&format!("/proc/{}/ns/net", child.pid()))
            .doing("opening the switch's network namespace")?;
        let parked = substrate.park(&lasting.program, &namespace)?;
        Ok(Self { child, orders, _parked: parked, started: Instant::now() })
    }

    /// Gives an order and waits for the answer.
    pub(crate) fn order(
        &mut self,
        order: &Order,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Answer, NodeError> {
        let failed = |error| NodeError::Channel { who: "the switch".into(), error };
        self.orders.send(order, descriptors).map_err(failed)?;
        match self.orders.receive().map_err(failed)?.0 {
            Answer::Refused(why) => {
                Err(NodeError::Refused(format!("the switch refuses {order:?}: {why}")))
            }
            answer => Ok(answer),
        }
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
) -> Order {
    let bound = planned.spec.bound.clone();
    let (local, impairment) = (planned.spec.local, planned.impairment);
    Order::AddInterface { interface, pool, local, to, bound, impairment }
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
