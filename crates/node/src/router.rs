//! One router: its pool, its process, and when to start it again.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use europa_channel::{Channel, pair};
use europa_router::orders::{Answer, Order};
use europa_sandbox::cgroup::{Group, Limits};
use europa_sandbox::{Child, SpawnSpec, spawn};
use europa_substrate::PoolHandle;

use crate::NodeError;
use crate::backoff::Backoff;
use crate::bell::Bell;
use crate::cores::argument;
use crate::plan::RouterPlan;
use crate::switch::{Lasting, WORKER};

/// Most answers that came too late and are still listened to.
const STALE_ANSWERS: usize = 64;
/// Most memory of a router's process, its pool apart: a full Internet table has room.
const MEMORY_BYTES: u64 = 1 << 30;

/// A router of this node.
pub(crate) struct Router {
    /// Number on this node, from which its uid follows.
    pub(crate) number: u32,
    pub(crate) plan: RouterPlan,
    /// Numbers of its interfaces in the substrate.
    pub(crate) interfaces: Vec<u32>,
    pub(crate) pool: Option<PoolHandle>,
    pub(crate) process: Option<Process>,
    pub(crate) backoff: Backoff,
    pub(crate) restarts: u64,
    pub(crate) due: Option<Instant>,
    pub(crate) last_end: String,
    /// Written by the switch when something came over a link.
    pub(crate) wake: Bell,
    pub(crate) group: Option<Group>,
}

/// Its running process.
pub(crate) struct Process {
    pub(crate) child: Child,
    orders: Channel<Order, Answer>,
    pub(crate) started: Instant,
}

impl Router {
    pub(crate) fn new(
        number: u32,
        plan: RouterPlan,
        group: Option<Group>,
    ) -> Result<Self, NodeError> {
        if let Some(group) = &group {
            group.set(&Limits { memory_bytes: Some(MEMORY_BYTES), ..Limits::default() })?;
        }
        Ok(Self {
            number,
            plan,
            interfaces: Vec::new(),
            pool: None,
            process: None,
            backoff: Backoff::new(),
            restarts: 0,
            due: None,
            last_end: String::new(),
            wake: Bell::new()?,
            group,
        })
    }

    /// Starts the process on `cores`, unless its document names others; it waits for
    /// [`Process::begin`].
    pub(crate) fn spawn(&self, log: BorrowedFd<'_>, cores: &[usize]) -> Result<Process, NodeError> {
        let who = || format!("router {}", self.plan.name);
        let (orders, theirs) = pair().map_err(|error| NodeError::Channel { who: who(), error })?;
        let number = self.number.to_string();
        let own = self.plan.cpus.as_slice();
        let cpus = argument(if own.is_empty() { cores } else { own });
        // tests/tests/start.rs takes its time: packets must flow soon after it.
        tracing::info!("router {} is started", self.plan.name);
        let child = spawn(&SpawnSpec {
            arguments: vec![
                "europa".as_ref(),
                "router".as_ref(),
                "--number".as_ref(),
                number.as_ref(),
                "--name".as_ref(),
                self.plan.name.as_ref(),
                cpus.as_ref(),
            ],
            environment: Vec::new(),
            descriptors: vec![theirs.as_fd()],
            log,
            group: self.group.as_ref(),
            pid_namespace: true,
        })?;
        Ok(Process { child, orders, started: Instant::now() })
    }

    /// What became of it, for people.
    pub(crate) fn state(&self, now: Instant) -> String {
        match (&self.process, self.due) {
            (Some(_), _) => "running".into(),
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
    /// Tells the process what to be. Its answer is awaited by [`Process::await_ready`].
    pub(crate) fn begin(
        &self,
        router: &Router,
        pool: &PoolHandle,
        lasting: &Lasting,
    ) -> Result<(), NodeError> {
        let waker = pool.waker()?;
        let doorbell = lasting.doorbell.rope()?;
        let descriptors = [
            pool.as_fd(),
            waker.as_fd(),
            router.wake.heard.as_fd(),
            doorbell.as_fd(),
            lasting.status_for_routers.as_fd(),
        ];
        let start = Order::Start(Box::new(router.plan.start(WORKER)));
        self.orders.send(&start, &descriptors).map_err(|error| self.failed(router, error))
    }

    /// Waits until the process runs its graph, for at most `patience`.
    pub(crate) fn await_ready(
        &mut self,
        router: &Router,
        patience: Duration,
    ) -> Result<(), NodeError> {
        match self.orders.receive_within(patience) {
            Ok(Some((Answer::Done(_), _))) => Ok(()),
            Ok(Some((Answer::Refused(why), _))) => Err(NodeError::Refused(why)),
            Ok(None) => Err(NodeError::Refused(format!(
                "router {}: not ready within {} s",
                router.plan.name,
                patience.as_secs()
            ))),
            Err(error) => Err(self.failed(router, error)),
        }
    }

    /// Gives an order, and waits for its answer for at most a second: a router that
    /// hangs harms itself alone.
    pub(crate) fn ask(&mut self, name: &str, order: &Order) -> Result<String, NodeError> {
        let failed = |error| NodeError::Channel { who: format!("router {name}"), error };
        // An answer that came too late belongs to an earlier question. Not for as long as
        // there are any: a router may send them faster than they are read.
        for _ in 0..STALE_ANSWERS {
            if self.orders.try_receive().map_err(failed)?.is_none() {
                break;
            }
        }
        self.orders.send(order, &[]).map_err(failed)?;
        match self.orders.receive_within(Duration::from_secs(1)).map_err(failed)? {
            Some((Answer::Done(text), _)) => Ok(text),
            Some((Answer::Refused(why), _)) => {
                Err(NodeError::Refused(format!("router {name}: {why}")))
            }
            None => Err(NodeError::Refused(format!("router {name} does not answer"))),
        }
    }

    fn failed(&self, router: &Router, error: europa_channel::ChannelError) -> NodeError {
        NodeError::Channel { who: format!("router {}", router.plan.name), error }
    }
}
