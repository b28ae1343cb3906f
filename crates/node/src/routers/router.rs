//! One router: its pool, its process, and when to start it again.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use europa_api::rest::ProblemDetails;
use europa_channel::pair;
use europa_plan::{RouterPlan, text};
use europa_pool::Geometry;
use europa_resource::{Access, Resource};
use europa_sandbox::cgroup::{Group, Limits};
use europa_sandbox::{Child, SpawnSpec, spawn};
use europa_substrate::{PoolHandle, Substrate};
use serde::{Deserialize, Serialize};

use super::process::Process;
use super::restart::Successor;
use crate::NodeError;
use crate::backoff::Backoff;
use crate::bell::Bell;
use crate::body::Body;
use crate::control::Reply;
use crate::cores::argument;
use crate::grants::Granted;
use crate::kept::{Found, Kept};

/// Most memory of a router's process, its pool apart: a full Internet table has room.
const MEMORY_BYTES: u64 = 1 << 30;

/// A router of this node.
pub(crate) struct Router {
    /// Number on this node, from which its uid follows.
    pub(crate) number: u32,
    /// Its plan.
    pub(crate) wanted: Arc<RouterPlan>,
    /// The same with resolved facts: next hops of tunnels.
    pub(crate) plan: RouterPlan,
    /// Whether the configuration of its process is unknown, as an update was refused half-way.
    pub(crate) astray: bool,
    /// Whether its removal has begun: if that fails, its remains must be removed again.
    pub(crate) half: bool,
    /// Numbers of its interfaces in the substrate.
    pub(crate) interfaces: Vec<u32>,
    pub(crate) pool: Option<PoolHandle>,
    pub(crate) process: Option<Process>,
    /// Takes over when it is ready.
    pub(super) successor: Option<Successor>,
    pub(crate) backoff: Backoff,
    pub(crate) restarts: u64,
    pub(crate) due: Option<Instant>,
    /// Its start waits for a pool that a thread makes.
    pub(super) wants_pool: bool,
    /// Requests for another process, which wait for a pool that a thread makes.
    pub(super) wants_successor: Vec<Reply<Result<(), ProblemDetails>>>,
    pub(crate) last_end: String,
    /// The switch writes it after a packet has arrived over a link.
    pub(crate) wake: Bell,
    pub(crate) group: Option<Group>,
    pub(crate) granted: Granted,
}

/// The facts that the next node needs of a router's process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct RouterRecord {
    pub(super) name: String,
    pub(super) number: u32,
    pub(super) pool: u32,
    pub(super) slots: u32,
    pub(super) slot_bytes: u32,
    pub(super) interfaces: Vec<u32>,
    /// The parts of its plan that cannot change in a running process.
    pub(super) outside: serde_json::Value,
    pub(super) configuration: String,
    pub(super) file: String,
    pub(super) restarts: u64,
    /// It runs its graph, and everything of it is in the tables.
    pub(super) complete: bool,
    /// Which configuration it runs is not known.
    pub(super) astray: bool,
}

impl Router {
    pub(super) fn new(
        number: u32,
        wanted: Arc<RouterPlan>,
        group: Option<Group>,
        wake: Bell,
    ) -> Result<Self, NodeError> {
        if let Some(group) = &group {
            group.set(&Limits { memory_bytes: Some(MEMORY_BYTES), ..Limits::default() })?;
        }
        Ok(Self {
            number,
            plan: (*wanted).clone(),
            wanted,
            astray: false,
            half: false,
            interfaces: Vec::new(),
            pool: None,
            process: None,
            successor: None,
            backoff: Backoff::new(),
            restarts: 0,
            due: None,
            wants_pool: false,
            wants_successor: Vec::new(),
            last_end: String::new(),
            wake,
            group,
            granted: Granted::default(),
        })
    }

    /// Takes over the router of a record, if it still runs and equals the plan except for its
    /// configuration, which can be changed while it runs.
    ///
    /// # Errors
    /// The reason for its restart.
    pub(super) fn adopt(
        found: &Found<RouterRecord>,
        plan: &RouterPlan,
        substrate: &Substrate,
        kept: &Kept,
    ) -> Result<Self, String> {
        let Some(record) = &found.record else { return Err(ANOTHER_VERSION.into()) };
        if !record.complete {
            return Err("it had not been started to the end".into());
        }
        let geometry =
            Geometry { slots: record.slots, slot_bytes: record.slot_bytes, ..plan.geometry };
        if record.outside != plan.outside() || plan.geometry != geometry {
            return Err("it is to be another one".into());
        }
        let told = |error: NodeError| error.to_string();
        let body = match found.process {
            Some(identity) => {
                let child = Child::adopt(identity).map_err(|error| error.to_string())?;
                Body::Process(child.ok_or("its process has ended")?)
            }
            // An ended process does not listen at its socket.
            None => Body::Switch { pool: record.pool, equipment: None, ended: None },
        };
        let pool = substrate.adopt_pool(record.pool, geometry).map_err(|e| told(e.into()))?;
        let all = record.interfaces.iter();
        let whole = record.interfaces.len() == plan.interfaces.len()
            && all.clone().all(|id| substrate.has_interface(*id, record.pool));
        let pool = pool.filter(|_| whole).ok_or("its pool or interfaces are not there")?;
        let (orders, nobody) = match plan.program().is_empty() {
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
            is_program: !plan.program().is_empty(),
            settled: None,
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
            wanted: Arc::new(wanted),
            astray: record.astray,
            half: false,
            interfaces: record.interfaces.clone(),
            pool: Some(pool),
            process: Some(process),
            successor: None,
            backoff: Backoff::new(),
            restarts: record.restarts,
            due: None,
            wants_pool: false,
            wants_successor: Vec::new(),
            last_end: String::new(),
            wake: kept.bell(&wake_name(record.number)).map_err(told)?,
            group: None,
            granted: Granted::default(),
        };
        router.find_headers(substrate);
        Ok(router)
    }

    /// Finds the outer headers of its tunnels again.
    fn find_headers(&mut self, substrate: &Substrate) {
        for (interface, id) in self.plan.interfaces.iter_mut().zip(&self.interfaces) {
            if interface.tunnel.is_some() {
                interface.spec.encap = substrate.encap(*id);
            }
        }
    }

    /// Starts the process on `cores`, unless its document names others; it waits for
    /// [`Process::begin`].
    pub(super) fn spawn(&self, log: File, cores: &[usize]) -> Result<Process, NodeError> {
        let who = || format!("router {}", self.plan.name);
        let (orders, theirs) = pair().map_err(|error| NodeError::Channel { who: who(), error })?;
        if self.plan.is_inline() {
            tracing::info!("router {} is started", self.plan.name);
            return Ok(Process::new(Body::inside(theirs, log), orders));
        }
        let number = self.number.to_string();
        let own = self.plan.cpus.as_slice();
        let cpus = argument(if own.is_empty() { cores } else { own });
        // tests/tests/start.rs takes its time: packets must flow soon after it.
        tracing::info!("router {} is started", self.plan.name);
        let role = if self.plan.program().is_empty() { "router" } else { "program" };
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
        if let Some(elements) = self.plan.elements() {
            arguments.extend(["--elements", elements].map(OsStr::new));
        }
        if !self.plan.program().is_empty() {
            arguments.push("--".as_ref());
            arguments.extend(self.plan.program().iter().map(OsStr::new));
        }
        let child = spawn(&SpawnSpec {
            arguments,
            environment: Vec::new(),
            descriptors: vec![theirs.as_fd()],
            log: log.as_fd(),
            group: self.group.as_ref(),
            pid_namespace: true,
        })?;
        let is_program = !self.plan.program().is_empty();
        Ok(Process { is_program, ..Process::new(Body::Process(child), orders) })
    }

    /// Its process, and its successor.
    pub(crate) fn processes(&self) -> impl Iterator<Item = &Process> {
        self.process.iter().chain(self.successor.as_ref().map(|successor| &successor.process))
    }

    /// The number in the substrate of its interface of this name.
    pub(crate) fn number_of(&self, interface: &str) -> Option<u32> {
        let mut all = self.plan.interfaces.iter().zip(&self.interfaces);
        all.find(|(planned, _)| planned.name == interface).map(|(_, id)| *id)
    }

    /// Interfaces of a kernel router whose frames its process gets first, and the hidden interfaces
    /// by which they arrive: numbers in the substrate.
    pub(crate) fn relays(&self) -> Vec<(u32, u32)> {
        let all = self.plan.interfaces.iter().zip(&self.interfaces);
        let relays =
            all.filter_map(|(planned, relay)| Some((self.number_of(planned.queue_of()?)?, *relay)));
        relays.collect()
    }

    /// Its state, as text for users.
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

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.orders.as_fd()
    }
}

/// Why a record means nothing.
pub(crate) const ANOTHER_VERSION: &str = "another version of Europa had started it";

/// The name of the bell of router `number`.
pub(super) fn wake_name(number: u32) -> String {
    format!("wake.{number}")
}

/// The router that a record is of.
pub(super) fn name_of(record: &RouterRecord) -> &str {
    &record.name
}
