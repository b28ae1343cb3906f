//! # HostGate
//!
//! ## Synopsis
//! `HostGate(ETH)`
//!
//! ## Ports
//! One push input. Output 0: frames that the fast path may handle. Output 1: frames that are for
//! Linux.
//!
//! ## Description
//! The first step of a router whose Linux decides. It expects whole Ethernet frames. Linux's policy
//! selects the frames that the fast path handles: those that its tables answer exactly as Linux
//! does. The others leave unchanged, counted by the reason that the policy names.
//!
//! Until a policy is written, every frame to the interface's own address is for Linux, with the
//! reason `the fast path has not read it yet`. Frames to groups always leave by output 0. The gate
//! drops frames to other stations unless the policy wants them, frames longer than the policy
//! permits, and all frames while the interface is down.
//!
//! ## Arguments
//! - ETH: the interface's Ethernet address.
//!
//! ## Handlers
//! - `policy` (read, write): lines that replace the policy as a whole:
//!   `mac ETH`, the address that is the interface's own; `down`, drop everything; `longest BYTES`, drop
//!   longer frames; `foreign`, give frames to other stations to Linux; `all REASON`, `ip4 REASON`,
//!   `ip6 REASON`, `mpls REASON`, give all frames or those of one family to Linux; `from PREFIX REASON` and `to PREFIX REASON`, give packets with such
//!   a source or destination to Linux.
//! - `reasons` (read): frames given to Linux, a line of count and reason each.
//! - `drops` (read): frames dropped, a line of count and cause each.
//!
//! ## See also
//! `IPForward`, `IP6Forward`, `ToHost`, `FromDevice`

use std::net::IpAddr;

use europa_engine::{
    Batch, Class, ClassInfo, Context, DROP, Element, HandlerError, Packet, arguments, handlers,
};
use europa_packet::MacAddr;

use crate::shared::reasons::{Reason, Reasons};

/// The reason of a gate without a policy.
const UNREAD: &str = "the fast path has not read it yet";
/// Most prefixes of each direction and family; a packet is compared with them one by one.
const MOST_PREFIXES: usize = 64;
/// Most whole source addresses; they are found by binary search.
const MOST_HOSTS: usize = 4096;

/// A prefix and the reason why its packets are for Linux.
#[derive(Clone, Copy, Debug)]
struct Selector<A> {
    network: A,
    mask: A,
    reason: Reason,
}

/// The selectors of one family.
#[derive(Clone, Debug, Default)]
struct Selectors<A> {
    /// Whole addresses of sources, in order.
    hosts: Vec<(A, Reason)>,
    from: Vec<Selector<A>>,
    to: Vec<Selector<A>>,
}

impl<A: Copy + Ord + std::ops::BitAnd<Output = A>> Selectors<A> {
    fn is_empty(&self) -> bool {
        self.hosts.is_empty() && self.from.is_empty() && self.to.is_empty()
    }

    fn find(&self, source: A, destination: A) -> Option<Reason> {
        if let Ok(place) = self.hosts.binary_search_by_key(&source, |(address, _)| *address) {
            return self.hosts.get(place).map(|(_, reason)| *reason);
        }
        let of = |list: &[Selector<A>], address: A| {
            let found = list.iter().find(|one| address & one.mask == one.network);
            found.map(|one| one.reason)
        };
        of(&self.from, source).or_else(|| of(&self.to, destination))
    }

    /// Adds a prefix. `None` if there are too many.
    fn add(&mut self, is_source: bool, is_host: bool, one: Selector<A>) -> Option<()> {
        if is_source && is_host {
            let place = self.hosts.partition_point(|(address, _)| *address < one.network);
            return (self.hosts.len() < MOST_HOSTS)
                .then(|| self.hosts.insert(place, (one.network, one.reason)));
        }
        let list = if is_source { &mut self.from } else { &mut self.to };
        (list.len() < MOST_PREFIXES).then(|| list.push(one))
    }
}

/// The packets that Linux leaves to the fast path.
#[derive(Clone, Debug, Default)]
struct Policy {
    mac: [u8; 6],
    /// Bytes of the longest frame; 0 while the interface is down.
    longest: usize,
    down: bool,
    foreign: bool,
    all: Option<Reason>,
    v4: Option<Reason>,
    v6: Option<Reason>,
    /// Frames with labels (RFC 3032 section 5).
    mpls: Option<Reason>,
    selectors4: Selectors<u32>,
    selectors6: Selectors<u128>,
}

/// Sends frames to Linux that the fast path must not decide on.
#[derive(Default)]
pub(crate) struct HostGate {
    policy: Policy,
    /// The written text.
    text: String,
    reasons: Reasons,
    dropped_down: u64,
    dropped_long: u64,
    dropped_foreign: u64,
}

impl Class for HostGate {
    const INFO: ClassInfo =
        ClassInfo::new("HostGate", "1/2").processing("h/h").inline().keeps_long();
}

impl HostGate {
    #[inline(always)]
    fn output(&mut self, packet: &Packet) -> u16 {
        let policy = &self.policy;
        let data = packet.data();
        if packet.is_longer_than(policy.longest) {
            match policy.down {
                true => self.dropped_down += 1,
                false => self.dropped_long += 1,
            }
            return DROP;
        }
        let Some(head) = data.first_chunk::<14>() else { return 1 };
        let [a, b, c, d, e, f, _, _, _, _, _, _, high, low] = *head;
        if a & 1 != 0 {
            return 0;
        }
        if [a, b, c, d, e, f] != policy.mac {
            if !policy.foreign {
                self.dropped_foreign += 1;
                return DROP;
            }
            return 1;
        }
        let reason = policy.all.or_else(|| match [high, low] {
            [0x08, 0x00] => policy.v4.or_else(|| selected4(&policy.selectors4, data)),
            [0x86, 0xdd] => policy.v6.or_else(|| selected6(&policy.selectors6, data)),
            [0x88, 0x47 | 0x48] => policy.mpls,
            _ => None,
        });
        match reason {
            None => 0,
            Some(reason) => {
                self.reasons.count(reason);
                1
            }
        }
    }

    fn read_policy(&mut self, text: &str) -> Option<Policy> {
        let mac = self.policy.mac;
        let mut policy = Policy { mac, longest: usize::MAX, ..Policy::default() };
        for line in text.lines() {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "mac" => policy.mac = rest.parse::<MacAddr>().ok()?.0,
                "down" => policy.down = true,
                "longest" => policy.longest = rest.parse().ok()?,
                "foreign" => policy.foreign = true,
                "all" => policy.all = Some(self.reasons.number(rest)?),
                "ip4" => policy.v4 = Some(self.reasons.number(rest)?),
                "ip6" => policy.v6 = Some(self.reasons.number(rest)?),
                "mpls" => policy.mpls = Some(self.reasons.number(rest)?),
                "from" | "to" => self.select(&mut policy, word == "from", rest)?,
                _ => return None,
            }
        }
        if policy.down {
            policy.longest = 0;
        }
        Some(policy)
    }

    fn select(&mut self, policy: &mut Policy, is_source: bool, text: &str) -> Option<()> {
        let (prefix, reason) = text.split_once(' ')?;
        let (address, length) = prefix.split_once('/')?;
        let length: u32 = length.parse().ok()?;
        let reason = self.reasons.number(reason)?;
        match address.parse().ok()? {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32u32.checked_sub(length)?).unwrap_or(0);
                let one = Selector { network: u32::from(address) & mask, mask, reason };
                policy.selectors4.add(is_source, length == 32, one)
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128u32.checked_sub(length)?).unwrap_or(0);
                let one = Selector { network: u128::from(address) & mask, mask, reason };
                policy.selectors6.add(is_source, length == 128, one)
            }
        }
    }
}

#[inline(always)]
fn selected4(selectors: &Selectors<u32>, frame: &[u8]) -> Option<Reason> {
    if selectors.is_empty() {
        return None;
    }
    let address =
        |at: usize| Some(u32::from_be_bytes(*frame.get(at..).and_then(<[u8]>::first_chunk::<4>)?));
    selectors.find(address(26)?, address(30)?)
}

#[inline(always)]
fn selected6(selectors: &Selectors<u128>, frame: &[u8]) -> Option<Reason> {
    if selectors.is_empty() {
        return None;
    }
    let address = |at: usize| {
        Some(u128::from_be_bytes(*frame.get(at..).and_then(<[u8]>::first_chunk::<16>)?))
    };
    selectors.find(address(22)?, address(38)?)
}

impl Element for HostGate {
    arguments! { this, given;
        let mac = mandatory "ETH": [u8; 6];
        then {
            let (all, longest) = (this.reasons.number(UNREAD), usize::MAX);
            this.policy = Policy { mac, all, longest, ..Policy::default() };
            this.text = format!("mac {}\nall {UNREAD}\n", MacAddr(mac));
        }
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        context.forward_each(batch, |packet| self.output(packet));
    }

    handlers! { this, context, value;
        both "policy" => this.text, set {
            let wanted = "lines of mac, down, longest, foreign, all, ip4, ip6, mpls, from or to";
            let policy = this.read_policy(value);
            this.policy = policy.ok_or_else(|| HandlerError::value("policy", value, wanted))?;
            value.clone_into(&mut this.text);
        };
        read "reasons" => this.reasons.show();
        read "drops" => {
            let causes = [
                (this.dropped_down, "the interface is down"),
                (this.dropped_long, "longer than the MTU of the interface"),
                (this.dropped_foreign, "to another station"),
            ];
            let lines = causes.iter().filter(|(count, _)| *count > 0);
            lines.map(|(count, cause)| format!("{count} {cause}\n")).collect::<String>()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use europa_packet::Frame;

    const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

    fn bench(policy: &str) -> Bench {
        let mut bench = Bench::with_outputs("HostGate", &["02:00:00:00:00:01"], 2);
        if !policy.is_empty() {
            bench.router.write("e.policy", policy).unwrap();
        }
        bench
    }

    fn v4(to: MacAddr, source: [u8; 4]) -> Vec<u8> {
        Frame::new(OTHER, to).ipv4(source, [10, 1, 0, 2]).udp(1, 2, b"data")
    }

    fn v6(to: MacAddr) -> Vec<u8> {
        let address = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap();
        Frame::new(OTHER, to).ipv6(address("fd00::2"), address("fd01::2")).udp(1, 2, b"data")
    }

    #[test]
    fn a_policy_says_what_is_for_linux() {
        let group = v4(MacAddr::BROADCAST, [10, 0, 0, 2]);
        let own4 = v4(OWN, [10, 0, 0, 2]);
        let own6 = v6(OWN);
        let mut arp = own4.clone();
        arp[12..14].copy_from_slice(&[8, 6]);
        let mut labelled = own4.clone();
        labelled[12..14].copy_from_slice(&[0x88, 0x47]);
        for (what, policy, frame, wanted) in [
            ("no policy yet", "", &own4, Some(1)),
            ("no policy yet, to a group", "", &group, Some(0)),
            ("an open gate", "mac 02:00:00:00:00:01", &own4, Some(0)),
            ("an open gate, IPv6", "mac 02:00:00:00:00:01", &own6, Some(0)),
            ("another address", "mac 02:00:00:00:00:09", &own4, None),
            ("another address, wanted", "mac 02:00:00:00:00:09\nforeign", &own4, Some(1)),
            ("everything", "all because", &arp, Some(1)),
            ("IPv4", "ip4 because", &own4, Some(1)),
            ("IPv4, but it is IPv6", "ip4 because", &own6, Some(0)),
            ("IPv6", "ip6 because", &own6, Some(1)),
            ("labels", "mpls because", &labelled, Some(1)),
            ("labels, without a reason for them", "ip4 because", &labelled, Some(0)),
            ("no labels", "mpls because", &own4, Some(0)),
            ("a source", "from 10.0.0.0/24 because", &own4, Some(1)),
            ("another source", "from 10.0.1.0/24 because", &own4, Some(0)),
            ("one address", "from 10.0.0.3/32 a\nfrom 10.0.0.2/32 b", &own4, Some(1)),
            ("other addresses", "from 10.0.0.3/32 a\nfrom 10.0.0.1/32 b", &own4, Some(0)),
            ("a destination", "to 10.1.0.2/32 because", &own4, Some(1)),
            ("every destination", "to 0.0.0.0/0 because", &own4, Some(1)),
            ("an IPv6 source", "from fd00::/16 because", &own6, Some(1)),
            ("another IPv6 destination", "to fd02::/16 because", &own6, Some(0)),
            ("long enough", "longest 46", &own4, Some(0)),
            ("too long", "longest 45", &own4, None),
            ("too long, to a group", "longest 45", &group, None),
            ("down", "down", &own4, None),
            ("down, to a group", "down", &group, None),
        ] {
            let mut bench = bench(policy);
            let out = bench.push(0, &[frame]);
            assert_eq!(out.first().map(|(output, _)| *output), wanted, "{what}");
            if let Some((_, bytes)) = out.first() {
                assert_eq!(bytes, frame, "{what}");
            }
        }
    }

    #[test]
    fn reasons_and_causes_are_counted() {
        let mut bench = bench("mac 02:00:00:00:00:01\nip4 nftables has a forward hook");
        bench.push(0, &[&v4(OWN, [10, 0, 0, 2])]);
        bench.push(0, &[&v4(OWN, [10, 0, 0, 2])]);
        bench.push(0, &[&v4(OTHER, [10, 0, 0, 2])]);
        let told = bench.router.read("e.reasons", "").unwrap();
        assert_eq!(told, "2 nftables has a forward hook\n");
        assert_eq!(bench.router.read("e.drops", ""), Ok("1 to another station\n".into()));
        // Counts remain when the policy is removed.
        bench.router.write("e.policy", "mac 02:00:00:00:00:01").unwrap();
        assert_eq!(bench.router.read("e.reasons", ""), Ok(told));
    }

    #[test]
    fn a_bad_policy_changes_nothing() {
        let mut bench = bench("ip4 because");
        for bad in ["frob", "mac x", "all", "from 10.0.0.0 r", "from 10.0.0.0/33 r", "to x/8 r"] {
            assert!(bench.router.write("e.policy", bad).is_err(), "{bad}");
            assert_eq!(bench.router.read("e.policy", ""), Ok("ip4 because".into()), "{bad}");
        }
    }
}
