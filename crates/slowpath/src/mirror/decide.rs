//! The decisions of the fast path: follows the settings behind its policy, and sends the policy.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::PoisonError;

use europa_port::Namespace;
use europa_port::netlink::{DUMP, Netlink, Request, attribute, number};
use europa_router::orders::{Answer, Order};
use ipnet::Ipv4Net;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, SockProtocol, recv};

use super::{Asked, Mirror, MirrorError, forward};
use crate::message::{INET, INET6, Link, RTA_DST, family, kind};
use crate::policy::nftables::Hooks;
use crate::policy::rules::{Rule, Rules};
use crate::policy::xfrm::Policies;
use crate::policy::{nftables, xfrm};

/// Why the fast path decides nothing at all.
pub(super) const UNREAD: &str = "the fast path has not read it yet";
pub(super) const LOST: &str = "messages of the kernel were lost, and all is read again";
pub(super) const UNFOLLOWED: &str = "it is not followed any more";
pub(super) const REFUSED: &str = "the fast path refuses the policy";
/// The handler with the packets over the limit.
pub(super) const POLICED: &str = "police.drops";
const UNREADABLE: &str = "nftables cannot be read";

/// Most attempts to read a list that changes meanwhile.
const TRIES: usize = 5;
const IFLA_EXT_MASK: u16 = 29;
/// Lists of devices without their counters, which take longest.
const WITHOUT_COUNTERS: u32 = 8;
const IFA_LOCAL: u16 = 2;
/// Types of routes: local, broadcast, anycast and multicast have successive numbers.
const RTN_LOCAL: u8 = 2;
const RTN_MULTICAST: u8 = 5;

/// One of the kernel's subsystems with separate sockets.
struct Subsystem {
    events: OwnedFd,
    lists: Netlink,
}

impl Subsystem {
    fn open(
        namespace: &Namespace,
        protocol: SockProtocol,
        subscribe: fn(&Namespace) -> io::Result<OwnedFd>,
    ) -> Option<Subsystem> {
        let events = subscribe(namespace).ok()?;
        Some(Subsystem { events, lists: Netlink::of(namespace, protocol).ok()? })
    }

    /// Whether a message was sent. Only a list has the details.
    fn hear(&self) -> bool {
        let mut buffer = [0; 8192];
        let mut has_heard = false;
        loop {
            match recv(self.events.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(_) | Err(Errno::ENOBUFS) => has_heard = true,
                Err(Errno::EINTR) => {}
                Err(_) => return has_heard,
            }
        }
    }
}

/// Subsystems other than routes; `None` for those that the kernel lacks.
#[derive(Default)]
pub(super) struct Watch {
    nftables: Option<Subsystem>,
    xfrm: Option<Subsystem>,
}

impl Watch {
    /// The descriptor that becomes readable after an answer.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let all = [&self.nftables, &self.xfrm].into_iter().flatten();
        all.map(|subsystem| subsystem.events.as_fd())
    }

    /// Opens missing ones, whose modules may have been loaded. Returns the new ones.
    fn open(&mut self, namespace: &Namespace) -> [bool; 2] {
        let before = [self.nftables.is_none(), self.xfrm.is_none()];
        if self.nftables.is_none() {
            let protocol = SockProtocol::NetlinkNetFilter;
            self.nftables = Subsystem::open(namespace, protocol, nftables::subscribe);
        }
        if self.xfrm.is_none() {
            self.xfrm = Subsystem::open(namespace, xfrm::PROTOCOL, xfrm::subscribe);
        }
        let after = [self.nftables.is_some(), self.xfrm.is_some()];
        [before[0] && after[0], before[1] && after[1]]
    }
}

/// Reads a list until it does not change meanwhile.
fn list<T>(
    lists: &mut Netlink,
    mut read: impl FnMut(&mut Netlink) -> io::Result<T>,
) -> io::Result<T> {
    for _ in 0..TRIES {
        lists.interrupted = false;
        match read(lists) {
            Ok(result) if !lists.interrupted => return Ok(result),
            Err(error) if error.raw_os_error() != Some(Errno::EINTR as i32) => return Err(error),
            _ => {}
        }
    }
    Err(io::Error::other("it changes faster than it can be listed"))
}

/// Whether the kernel has no such subsystem.
fn is_missing(error: &io::Error) -> bool {
    let missing = [Errno::EINVAL, Errno::EOPNOTSUPP, Errno::ENOSYS, Errno::EPROTONOSUPPORT];
    missing.iter().any(|errno| error.raw_os_error() == Some(*errno as i32))
}

impl Mirror {
    /// Sends all packets to Linux until everything has been read.
    pub(super) fn close(&mut self, reason: &'static str) {
        self.policy.closed = Some(reason);
        self.is_policy_dirty = true;
    }

    /// Lets the fast path decide: it has all that was read.
    pub(super) fn open(&mut self) -> Result<(), MirrorError> {
        self.policy.closed = None;
        self.tell_policy()
    }

    /// Sends the changes of the policy, before all that waits.
    pub(super) fn tell_policy(&mut self) -> Result<(), MirrorError> {
        self.is_policy_dirty = false;
        self.keeps_policy &= self.policy.closed == Some(UNREAD);
        if !self.has_gates || self.keeps_policy {
            return Ok(());
        }
        let told = self.policy.compose(&self.links);
        for (path, value) in told.writes {
            self.feed.send(&Order::Write { path, value }, &[])?;
            let is_closed = self.policy.closed.is_some();
            self.under_way.push_back(Asked::Policy { is_closed });
        }
        let by_linux = &self.progress.by_linux;
        let mut known = by_linux.lock().unwrap_or_else(PoisonError::into_inner);
        for reason in told.reasons.difference(&known) {
            (self.notice)(&format!("by Linux: {reason}"));
        }
        for reason in known.difference(&told.reasons) {
            (self.notice)(&format!("by the fast path again: {reason}, no more"));
        }
        *known = told.reasons;
        Ok(())
    }

    /// The fast path has a policy, or no element for it, or refuses the text: then all packets go
    /// to Linux. A fast path that refuses that too has no element for policies.
    pub(super) fn policy_told(&mut self, is_closed: bool, answer: Answer) {
        let Answer::Refused(why) = answer else { return };
        let router = &self.spec.router;
        if is_closed {
            if self.has_gates {
                tracing::warn!(
                    "router {router}: its fast path does not ask what Linux decides beyond routes: {why}"
                );
            }
            self.has_gates = false;
        } else if self.policy.closed.is_none() {
            if self.refusal.as_ref() != Some(&why) {
                tracing::warn!("router {router}: everything goes to Linux: {REFUSED}: {why}");
                self.refusal = Some(why);
            }
            self.close(REFUSED);
        }
    }

    /// True if the fast path may get a policy that lets it decide: it has everything else, and has
    /// refused nothing.
    pub(super) fn may_open(&self) -> bool {
        let closed = self.policy.closed;
        closed.is_some_and(|reason| reason != REFUSED) && self.resync.is_none()
    }

    /// Sends a refused policy again: settings may have changed.
    pub(super) fn try_again(&mut self) -> Result<(), MirrorError> {
        if self.policy.closed == Some(REFUSED) { self.open() } else { Ok(()) }
    }

    /// Takes in a message about settings that only the policy depends on.
    pub(super) fn take_decision(&mut self, kind: u16, message: &[u8]) {
        match kind {
            kind::NEWQDISC | kind::DELQDISC => {
                self.policy.qdiscs.hear(message, kind == kind::DELQDISC);
            }
            kind::NEWNETCONF | kind::DELNETCONF => {
                self.policy.settings.hear(message, kind == kind::DELNETCONF);
            }
            kind::NEWADDR => self.policy.own.extend(own_address(message)),
            kind::NEWRULE | kind::DELRULE => {
                if let Err(error) = self.read_rules() {
                    tracing::warn!("router {}: rules: {error}", self.spec.router);
                    self.policy.rules = Rules::default();
                }
            }
            _ => return,
        }
        self.is_policy_dirty = true;
    }

    /// Receives events of subsystems other than routes.
    pub(super) fn hear_policy(&mut self) {
        if self.watch.nftables.as_ref().is_some_and(Subsystem::hear) {
            self.read_hooks();
        }
        if self.watch.xfrm.as_ref().is_some_and(Subsystem::hear) {
            self.read_ipsec();
        }
    }

    /// Reads all settings that only the policy depends on.
    pub(super) fn read_decisions(&mut self) -> io::Result<()> {
        self.watch.open(&self.spec.namespace);
        self.read_hooks();
        self.read_ipsec();
        self.read_rules()?;
        let qdiscs = &mut self.policy.qdiscs;
        *qdiscs = Default::default();
        self.lists.talk(&mut Request::new(kind::GETQDISC, DUMP, &[0; 20]), |_, message| {
            qdiscs.hear(message, false);
        })?;
        let settings = &mut self.policy.settings;
        *settings = Default::default();
        for family in [INET, INET6] {
            let mut request = Request::new(kind::GETNETCONF, DUMP, &[family, 0, 0, 0]);
            self.lists.talk(&mut request, |_, message| settings.hear(message, false))?;
        }
        let own = &mut self.policy.own;
        own.clear();
        let mut request = Request::new(kind::GETADDR, DUMP, &[INET, 0, 0, 0, 0, 0, 0, 0]);
        self.lists.talk(&mut request, |_, message| own.extend(own_address(message)))?;
        self.poll_files();
        self.is_policy_dirty = true;
        Ok(())
    }

    fn read_rules(&mut self) -> io::Result<()> {
        let mut rules = Vec::new();
        for wanted in [INET, INET6] {
            let mut body = [0; 12];
            body[0] = wanted;
            self.lists.talk(&mut Request::new(kind::GETRULE, DUMP, &body), |_, message| {
                if family(message) == wanted {
                    rules.extend(Rule::parse(message));
                }
            })?;
        }
        self.policy.rules = Rules::new(rules);
        Ok(())
    }

    fn read_hooks(&mut self) {
        let Some(subsystem) = &mut self.watch.nftables else { return };
        self.policy.hooks = match list(&mut subsystem.lists, nftables::read) {
            Ok(hooks) => hooks,
            Err(error) if is_missing(&error) => Hooks::default(),
            Err(error) => {
                tracing::warn!("router {}: nftables: {error}", self.spec.router);
                Hooks { v4: Some(UNREADABLE), v6: Some(UNREADABLE), sees_foreign: true }
            }
        };
        self.is_policy_dirty = true;
    }

    fn read_ipsec(&mut self) {
        let Some(subsystem) = &mut self.watch.xfrm else { return };
        self.policy.ipsec = match list(&mut subsystem.lists, xfrm::read) {
            Ok(policies) => policies,
            Err(error) if is_missing(&error) => Policies::default(),
            Err(error) => {
                tracing::warn!("router {}: xfrm: {error}", self.spec.router);
                Policies { v4: true, v6: true }
            }
        };
        self.is_policy_dirty = true;
    }

    /// Reads the settings that the kernel does not announce.
    pub(super) fn poll_policy(&mut self) -> io::Result<()> {
        let [nftables, xfrm] = self.watch.open(&self.spec.namespace);
        // A file that was unreadable last time may be readable now.
        if nftables || self.policy.hooks.v4 == Some(UNREADABLE) {
            self.read_hooks();
        }
        if xfrm {
            self.read_ipsec();
        }
        self.poll_files();
        // Programs can be attached to a device without a message.
        let devices: Vec<u32> = self.links.interfaces().map(|(device, _)| device).collect();
        for device in devices {
            let mut body = [0; 16];
            body[4..8].copy_from_slice(&device.to_ne_bytes());
            let request = Request::new(kind::GETLINK, 0, &body)
                .with(IFLA_EXT_MASK, &WITHOUT_COUNTERS.to_ne_bytes());
            match self.lists.ask(request) {
                Ok(answer) => {
                    if let Some(link) = Link::parse(&answer) {
                        self.take_link(link, false);
                    }
                }
                // It was just removed, and a message announces this.
                Err(error) if error.raw_os_error() == Some(Errno::ENODEV as i32) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn poll_files(&mut self) {
        let names: Vec<String> = (0..self.links.count())
            .filter_map(|number| Some(self.links.interface(number)?.name.clone()))
            .collect();
        self.is_policy_dirty |= self.policy.polled.read(names.iter().map(String::as_str));
        let devices = self.links.interfaces().map(|(device, _)| device);
        self.is_policy_dirty |= self.policy.programs.read(devices);
    }

    /// Requests the numbers of packets that went to Linux, with reasons.
    pub(super) fn ask_reasons(&mut self) {
        if !self.has_gates {
            return;
        }
        for number in 0..self.links.count() {
            let elements = [format!("gate{number}"), forward(number, true), forward(number, false)];
            for element in elements {
                let path = format!("{element}.reasons");
                self.ready.push_back(Order::Read { path, parameter: String::new() });
            }
        }
    }

    /// Takes in how many did.
    pub(super) fn counted(&mut self, path: String, text: &str) {
        let line = |line: &str| {
            let (count, reason) = line.split_once(' ')?;
            Some((count.parse().ok()?, reason.to_owned()))
        };
        let counts = text.lines().filter_map(line).collect();
        let all = &self.progress.counts;
        all.lock().unwrap_or_else(PoisonError::into_inner).insert(path, counts);
    }
}

/// The IPv4 address that a message adds to the router.
fn own_address(message: &[u8]) -> Option<Ipv4Net> {
    if family(message) != INET {
        return None;
    }
    let octets = attribute(message, 8, IFA_LOCAL)?;
    let address: Ipv4Addr = u32::from_be(number(octets, 0)?).into();
    Some(address.into())
}

/// The destinations of an IPv4 route that are invalid as sources: Linux drops such packets
/// (`fib_validate_source` in the kernel). Those of the loopback device are dropped anyway.
pub(super) fn own_route(message: &[u8]) -> Option<Ipv4Net> {
    let &[family, length, _, _, _, _, _, kind, ..] = message.first_chunk::<12>()?;
    if family != INET || !(RTN_LOCAL..=RTN_MULTICAST).contains(&kind) {
        return None;
    }
    let octets = attribute(message, 12, RTA_DST)?;
    let address: Ipv4Addr = u32::from_be(number(octets, 0)?).into();
    Ipv4Net::new(address, length).ok().filter(|_| !address.is_loopback())
}
