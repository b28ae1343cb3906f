//! Follows Linux's decisions in a namespace, and updates the fast path.
//!
//! | file     | concern                                             |
//! |----------|-----------------------------------------------------|
//! | `mod`    | the loop                                            |
//! | `tell`   | orders for the fast path, and its answers             |
//! | `fresh`  | neighbours that only the fast path uses               |
//! | `listen` | the kernel's messages                                |
//! | `learn`  | entries of another mirror in the fast path           |
//! | `decide` | the decisions that the fast path may make            |
//! | `progress` | counters and reasons for users                       |
//!
//! The kernel's messages come over one socket, in order. A second one asks for lists: at the start,
//! after messages were lost, and after changes without a message (IPv4 routes and next hops are
//! removed without a message when a device is set down). Messages that arrive during a list are
//! handled after it. They may be older than the list, but later messages have the changes; entries
//! of the list are not added again.

mod decide;
mod fresh;
mod learn;
mod listen;
mod progress;
mod tell;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use europa_channel::{Channel, ChannelError};
use europa_port::Namespace;
use europa_port::netlink::{self, Netlink};
use europa_router::orders::{Answer, Order};
use ipnet::IpNet;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{NetlinkAddr, SockProtocol, bind, setsockopt, sockopt};

use self::decide::Watch;
pub use self::progress::Progress;
use crate::fib::{Fib, Outputs};
use crate::links::Links;
use crate::message::Object;
use crate::neighbours::Neighbours;
use crate::policy::Policy;

/// Multicast groups of route netlink: links, neighbours, addresses, routes and next hops; rules,
/// queueing disciplines, settings of devices, and routes of the label table.
const GROUPS: u32 = 1 << 0 | 1 << 2 | 1 << 4 | 1 << 8 | 1 << 6 | 1 << 10 | 1 << 31 | POLICY_GROUPS;
const POLICY_GROUPS: u32 = 1 << 7 | 1 << 18 | 1 << 3 | 1 << 23 | 1 << 24 | 1 << 26;
/// Room for messages that were not read yet: about 100 000 routes.
const BUFFER_BYTES: usize = 128 << 20;
/// Routes in one order: applied between two batches of packets, in 0.3 to 0.4 ms, 1 ms at
/// most.
const BATCH: usize = 512;
/// Most unanswered orders: the next one is prepared while one is carried out.
const WINDOW: usize = 3;
/// Messages taken in before the fast path gets an update.
const TURN: usize = 4096;
/// Interval at which the fast path is asked which neighbours it uses.
const PROBE_EVERY: Duration = Duration::from_secs(10);
/// The interval of reads of settings that the kernel does not announce.
const POLL_EVERY: Duration = Duration::from_millis(100);
/// Interval at which the fast path is asked how many packets went to Linux, with reasons.
const COUNT_EVERY: Duration = Duration::from_secs(2);
/// Time from a change that may have unannounced consequences to reading everything.
const SETTLE: Duration = Duration::from_millis(30);

/// Handlers that show the routes that the fast path has.
const ROUTES: &str = "route.table";
const ROUTES6: &str = "route6.table";
/// A table that is too long for an answer is read in parts, by this number of further prefix bits.
const PART_BITS: u8 = 4;

/// Receives changes of the packets that go to Linux, with the reasons.
pub type Notice = Box<dyn Fn(&str) + Send>;

/// The namespace to follow, and the names of the fast path's elements.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The namespace of the routes.
    pub namespace: Namespace,
    /// The router's interfaces, by number.
    pub interfaces: Vec<String>,
    /// The router's name, for the log.
    pub router: String,
}

struct Mirror {
    spec: Spec,
    events: OwnedFd,
    buffer: Vec<u8>,
    lists: Netlink,
    links: Links,
    objects: HashMap<u32, Object>,
    fib4: Fib<u32>,
    fib6: Fib<u128>,
    neighbours: Neighbours,
    resync: Option<Instant>,
    feed: Channel<Order, Answer>,
    /// Orders that wait to be sent, and the subject of each unanswered one.
    ready: std::collections::VecDeque<Order>,
    under_way: std::collections::VecDeque<Asked>,
    progress: Arc<Progress>,
    probe: Instant,
    policy: Policy,
    watch: Watch,
    /// The fast path keeps the policy of another mirror until this one has read everything.
    keeps_policy: bool,
    /// A setting that the policy depends on may have changed.
    is_policy_dirty: bool,
    /// The fast path has elements that take policies.
    has_gates: bool,
    /// Why the fast path refused a policy last.
    refusal: Option<String>,
    notice: Notice,
    poll: Instant,
    count: Instant,
    /// The entries of another mirror in the fast path are still unknown.
    learns: Learns,
}

/// How far a mirror has read the fast path's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Learns {
    /// It must ask, once it knows the interfaces.
    Asks,
    /// Number of tables that it waits for.
    Waits(usize),
}

impl Learns {
    const NOTHING: Self = Self::Waits(0);
}

/// The kind of an unanswered order.
enum Asked {
    /// A number of changes.
    Changes(u64),
    /// Which neighbours of a device are used.
    Used(u32),
    /// The routes inside this prefix.
    Routes(IpNet),
    /// The present neighbours of a device.
    Neighbours(u32),
    /// A policy, which may send all packets to Linux.
    Policy { is_closed: bool },
    /// The number of packets that went to Linux, by this handler.
    Reasons(String),
}

/// Follows until the router closes `feed`. The thread belongs to the router's namespace from then
/// on.
///
/// # Errors
/// The error that prevents it.
pub fn run(
    spec: Spec,
    feed: Channel<Order, Answer>,
    progress: Arc<Progress>,
    notice: Notice,
) -> Result<(), MirrorError> {
    Mirror::new(spec, feed, progress, notice)?.follow_to_the_end()
}

/// Like [`run`], for a fast path with entries of another mirror: outdated ones are removed. Its
/// gates stay unchanged until everything has been read: otherwise Linux would forward packets
/// meanwhile, and later ones could overtake them.
///
/// # Errors
/// The error that prevents it.
pub fn resume(
    spec: Spec,
    feed: Channel<Order, Answer>,
    progress: Arc<Progress>,
    notice: Notice,
) -> Result<(), MirrorError> {
    let mut mirror = Mirror::new(spec, feed, progress, notice)?;
    mirror.learns = Learns::Asks;
    mirror.keeps_policy = true;
    mirror.follow_to_the_end()
}

/// Why a mirror stopped.
#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    /// Netlink.
    #[error("netlink: {0}")]
    Netlink(#[from] io::Error),
    /// The router.
    #[error("the fast path: {0}")]
    Channel(#[from] ChannelError),
}

/// A socket that receives every change in a namespace.
pub(crate) fn subscribe(namespace: &Namespace, groups: u32) -> io::Result<OwnedFd> {
    let socket = netlink::open(namespace, SockProtocol::NetlinkRoute)?;
    // An overflow is noticed, and repaired by reading all tables again.
    let _ = setsockopt(&socket, sockopt::RcvBufForce, &BUFFER_BYTES);
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
    Ok(socket)
}

impl Mirror {
    fn new(
        spec: Spec,
        feed: Channel<Order, Answer>,
        progress: Arc<Progress>,
        notice: Notice,
    ) -> io::Result<Mirror> {
        // Settings and tables in /proc depend on the thread that reads them.
        setns(spec.namespace.as_fd(), CloneFlags::CLONE_NEWNET)?;
        let count = spec.interfaces.len();
        let outputs = Outputs { host: count, discard: count + 1, errors: count + 2 };
        let v6 = |first: u16, bits: u8| (u128::from(first) << 112, bits);
        let base4 = vec![(0, 0)];
        let mapped = (0xffff_0000_0000, 96);
        let base6 = vec![v6(0, 0), (0, 128), mapped, v6(0xff00, 8), v6(0xfe80, 10)];
        Ok(Mirror {
            events: subscribe(&spec.namespace, GROUPS)?,
            buffer: vec![0; 1 << 16],
            lists: Netlink::route(&spec.namespace)?,
            links: Links::new(spec.interfaces.clone()),
            objects: HashMap::new(),
            fib4: Fib::new(outputs, base4, Vec::new()),
            fib6: Fib::new(outputs, base6, vec![v6(0xff00, 8), v6(0xfe80, 10)]),
            neighbours: Neighbours::default(),
            resync: Some(Instant::now()),
            feed,
            ready: Default::default(),
            under_way: Default::default(),
            progress,
            probe: Instant::now() + PROBE_EVERY,
            policy: Policy::closed(decide::UNREAD),
            watch: Watch::default(),
            keeps_policy: false,
            is_policy_dirty: true,
            has_gates: true,
            refusal: None,
            notice,
            poll: Instant::now(),
            count: Instant::now() + COUNT_EVERY,
            learns: Learns::NOTHING,
            spec,
        })
    }

    fn follow_to_the_end(&mut self) -> Result<(), MirrorError> {
        match self.follow() {
            Err(MirrorError::Channel(ChannelError::Closed)) => Ok(()),
            Err(error) => {
                self.close(decide::UNFOLLOWED);
                self.tell_policy()?;
                Err(error)
            }
            Ok(()) => Ok(()),
        }
    }

    fn follow(&mut self) -> Result<(), MirrorError> {
        loop {
            let now = Instant::now();
            if self.resync.is_some_and(|due| due <= now) {
                // Earlier messages are taken in first.
                while self.hear(TURN)? == TURN {}
                self.resync = None;
                // Reading everything may take long.
                if self.is_policy_dirty {
                    self.tell_policy()?;
                }
                self.read_all()?;
                if self.learns == Learns::Asks {
                    self.ask_tables();
                }
            }
            if self.poll <= now {
                self.poll = now + POLL_EVERY;
                self.poll_policy()?;
            }
            if self.probe <= now {
                self.probe = now + PROBE_EVERY;
                self.ask_used();
                self.try_again()?;
            }
            if self.count <= now {
                self.count = now + COUNT_EVERY;
                self.ask_reasons();
            }
            self.tell()?;
            let due = self.probe.min(self.poll).min(self.count);
            let due = self.resync.map_or(due, |resync| due.min(resync));
            let timeout = due.saturating_duration_since(Instant::now());
            let timeout = PollTimeout::try_from(timeout.as_micros().div_ceil(1000))
                .unwrap_or(PollTimeout::MAX);
            let mut wait = vec![
                PollFd::new(self.events.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.feed.as_fd(), PollFlags::POLLIN),
            ];
            wait.extend(self.watch.descriptors().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
            match poll(&mut wait, timeout) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(io::Error::from(error).into()),
            }
            let ready: Vec<bool> = wait.iter().map(|fd| fd.any() == Some(true)).collect();
            if ready.iter().skip(2).any(|is_ready| *is_ready) {
                self.hear_policy();
                self.tell()?;
            }
            if ready.get(1) == Some(&true) {
                self.take_answers()?;
            }
            if ready.first() == Some(&true) {
                self.hear(TURN)?;
            }
        }
    }
}

/// The element that sends an interface's packets.
pub(crate) fn forward(interface: usize, is_v4: bool) -> String {
    format!("{}{interface}", if is_v4 { "forward" } else { "forward6_" })
}
