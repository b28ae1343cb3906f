//! One signaller's process.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use europa_channel::{Channel, pair};
use europa_router::orders::Order as RouterOrder;
use europa_sandbox::cgroup::{Group, Limits};
use europa_sandbox::{Child, Identity, SpawnSpec, spawn};
use europa_signaller::orders::{Order, Said, Shown};
use nix::sys::signal::Signal;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socketpair, sockopt};

use super::SignallerRecord;
use super::plan::SlicePlan;
use crate::control::Reply;
use crate::kept::{Found, Kept};
use crate::routers::{ANOTHER_VERSION, Asked, Routers};
use crate::{Doing, NodeError, cores};

/// Most memory of a signaller: state of some ten thousand paths.
const MEMORY_BYTES: u64 = 256 << 20;
/// Bytes of a socket between a signaller and a router that wait in each direction.
const BUFFER_BYTES: usize = 1 << 20;
/// The name under which a router's label table gets its end of that socket.
const GRANT: &str = "connect: unix signaller";
/// Uids of signallers are those of routers from this number on: no node has that many routers.
const FIRST_NUMBER: u32 = 50_000_000;
/// Requests that may wait for an answer.
const MOST_WAITING: usize = 64;
/// Most events of a second that are noted.
const MOST_NOTED: u32 = 100;

/// A running signaller.
pub(super) struct Process {
    child: Child,
    identity: Option<Identity>,
    record: SignallerRecord,
    orders: Channel<Order, Said>,
    pub(super) started: Instant,
    told: Option<SlicePlan>,
    /// The router's process that each was attached to.
    attached: BTreeMap<String, Option<u32>>,
    waiting: VecDeque<Reply<Result<Shown, String>>>,
    /// Events of this second.
    noted: u32,
    second: Instant,
    _group: Option<Group>,
}

fn failed(error: europa_channel::ChannelError) -> NodeError {
    NodeError::Channel { who: "a signaller".into(), error }
}

impl Process {
    /// Starts the signaller of a slice.
    pub(super) fn start(
        slice: &str,
        number: u32,
        kept: &Kept,
        log: &File,
        group: Option<Group>,
    ) -> Result<Self, NodeError> {
        if let Some(group) = &group {
            group.set(&Limits { memory_bytes: Some(MEMORY_BYTES), ..Limits::default() })?;
        }
        let (orders, theirs) = pair().map_err(failed)?;
        let uid = (FIRST_NUMBER + number).to_string();
        let cpus = cores::argument(&cores::cores());
        let arguments: Vec<&OsStr> = vec![
            "europa".as_ref(),
            "signaller".as_ref(),
            "--number".as_ref(),
            uid.as_ref(),
            "--slice".as_ref(),
            slice.as_ref(),
            cpus.as_ref(),
        ];
        let child = spawn(&SpawnSpec {
            arguments,
            environment: Vec::new(),
            descriptors: vec![theirs.as_fd()],
            log: log.as_fd(),
            group: group.as_ref(),
            pid_namespace: true,
        })?;
        let record = SignallerRecord { slice: slice.to_owned(), number };
        let mut process = Self {
            identity: Identity::of(child.pid()),
            child,
            record,
            orders,
            started: Instant::now(),
            told: None,
            attached: BTreeMap::new(),
            waiting: VecDeque::new(),
            noted: 0,
            second: Instant::now(),
            _group: group,
        };
        // The record precedes the first order: from then on the signaller outlives the node.
        kept.note(&process.name(), process.identity, &process.record)?;
        let listener = kept.listener(&process.name())?;
        process.child.commit();
        let start = Order::Start { slice: slice.to_owned(), seed: seed()? };
        process.orders.send(&start, &[listener.as_fd()]).map_err(failed)?;
        Ok(process)
    }

    /// Takes over a signaller of a former node.
    pub(super) fn adopt(found: &Found<SignallerRecord>, kept: &Kept) -> Result<Self, String> {
        let Some(record) = &found.record else { return Err(ANOTHER_VERSION.into()) };
        let identity = found.process.ok_or("its process is not known")?;
        let child = Child::adopt(identity).map_err(|error| error.to_string())?;
        let child = child.ok_or("its process has ended")?;
        let orders = kept.join(&found.name).map_err(|error| error.to_string())?;
        let now = Instant::now();
        let process = Self {
            child,
            identity: Some(identity),
            record: record.clone(),
            orders,
            started: now.checked_sub(identity.age()).unwrap_or(now),
            told: None,
            attached: BTreeMap::new(),
            waiting: VecDeque::new(),
            noted: 0,
            second: Instant::now(),
            _group: None,
        };
        // The answer reports the flows.
        let _ = process.orders.send(&Order::Show, &[]);
        Ok(process)
    }

    pub(super) fn slice(&self) -> &str {
        &self.record.slice
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.pid()
    }

    fn name(&self) -> String {
        format!("{}{}", super::KIND, self.child.pid())
    }

    /// Descriptors of its process and of its messages.
    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [self.child.as_fd(), self.orders.as_fd()].into_iter()
    }

    /// Its exit status, if it has ended.
    pub(super) fn ended(&mut self) -> Option<String> {
        Some(self.child.try_wait().ok()??.to_string())
    }

    /// Ends it, and removes its record.
    pub(super) fn end(mut self, kept: &Kept) {
        kept.forget(&self.name());
        if self.child.kill(Signal::SIGKILL).is_ok()
            && let Err(error) = self.child.wait()
        {
            tracing::warn!("a signaller: {error}");
        }
    }

    /// Its process, killed.
    pub(super) fn into_child(self) -> Child {
        let _ = self.child.kill(Signal::SIGKILL);
        self.child
    }

    /// Sends it the changes of the plan.
    pub(super) fn tell(&mut self, wanted: &SlicePlan) -> Result<(), NodeError> {
        if self.told.as_ref() == Some(wanted) {
            return Ok(());
        }
        let told = self.told.take().unwrap_or_default();
        if told.routers != wanted.routers {
            self.orders.send(&Order::Routers(wanted.routers.clone()), &[]).map_err(failed)?;
            let there = |name: &String| wanted.routers.iter().any(|router| router.name == *name);
            self.attached.retain(|name, _| there(name));
        }
        self.orders.send(&Order::Flows(wanted.flows.clone()), &[]).map_err(failed)?;
        self.told = Some(wanted.clone());
        Ok(())
    }

    /// Sends it a socket to each router's fast path that it lacks.
    pub(super) fn attach(
        &mut self,
        slice: &str,
        wanted: &SlicePlan,
        routers: &mut Routers,
    ) -> Result<(), NodeError> {
        for planned in &wanted.routers {
            let router = format!("{slice}/{}", planned.name);
            let Some(process) = routers.process_of(&router) else { continue };
            let pid = process.pid();
            let is_known = self.attached.get(&planned.name) == Some(&pid);
            if is_known || !process.is_ready() || !process.has_room(2) {
                continue;
            }
            let [one, other] = sockets()?;
            let grant = RouterOrder::Grant(vec![GRANT.to_owned()]);
            process.order_with(&grant, &[one.as_fd()], Asked::Nobody);
            let (path, value) = ("labels.attach".to_owned(), String::new());
            process.order(&RouterOrder::Write { path, value }, Asked::Nobody);
            let order = Order::Attach(planned.name.clone());
            self.orders.send(&order, &[other.as_fd()]).map_err(failed)?;
            self.attached.insert(planned.name.clone(), pid);
        }
        Ok(())
    }

    /// A router's fast path was removed or replaced.
    pub(super) fn detached(&mut self, router: &str) {
        self.attached.remove(router);
    }

    /// Asks it for its present state.
    pub(super) fn show(&mut self, reply: Reply<Result<Shown, String>>) {
        if self.waiting.len() >= MOST_WAITING {
            let _ = reply.send(Err("too many requests wait for the signaller".into()));
            return;
        }
        match self.orders.try_send(&Order::Show) {
            Ok(true) => self.waiting.push_back(reply),
            _ => drop(reply.send(Err("the signaller does not answer".into()))),
        }
    }

    /// Gives its answer to the first waiting request.
    pub(super) fn shown(&mut self, shown: Shown) {
        if let Some(reply) = self.waiting.pop_front() {
            // The caller may have ended.
            let _ = reply.send(Ok(shown));
        }
    }

    /// Whether one more of its events is noted: a hostile signaller may send many.
    pub(super) fn may_note(&mut self) -> bool {
        let now = Instant::now();
        if now.duration_since(self.second) >= Duration::from_secs(1) {
            (self.second, self.noted) = (now, 0);
        }
        self.noted += 1;
        self.noted <= MOST_NOTED
    }

    /// Reads at most `most` messages.
    pub(super) fn hear(&mut self, most: usize) -> Vec<Said> {
        let mut all = Vec::new();
        while all.len() < most {
            match self.orders.try_receive() {
                Ok(Some((said, _))) => all.push(said),
                // An ended signaller is reaped elsewhere.
                Ok(None) | Err(_) => break,
            }
        }
        all
    }
}

/// Two ends of a socket between a signaller and a router. Neither has the right to widen it.
fn sockets() -> Result<[OwnedFd; 2], NodeError> {
    let (one, other) =
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
            .doing("making a socket for a signaller")?;
    for end in [&one, &other] {
        setsockopt(end, sockopt::SndBufForce, &BUFFER_BYTES)
            .doing("making room in a signaller's socket")?;
    }
    Ok([one, other])
}

/// A number of the system's randomness.
fn seed() -> Result<u64, NodeError> {
    use std::io::Read as _;
    let mut bytes = [0; 8];
    let mut file = File::open("/dev/urandom").doing("opening /dev/urandom")?;
    file.read_exact(&mut bytes).doing("reading /dev/urandom")?;
    Ok(u64::from_ne_bytes(bytes))
}
