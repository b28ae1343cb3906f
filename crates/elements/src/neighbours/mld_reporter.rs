//! # MLDReporter
//!
//! ## Synopsis
//! `MLDReporter(IP6 [IP6...], ETH)`
//!
//! ## Ports
//! One push input, one push output.
//!
//! ## Description
//! Tells switches which groups the router's addresses listen to: the solicited-node group of each
//! (RFC 4861 section 7.2.1). A switch that reads these reports forwards Neighbor Solicitations only
//! to ports that reported the group.
//!
//! Expects IPv6 packets with their header annotations set. It answers valid queries (RFC 3810
//! section 6.2: hop limit 1, router alert, from a link-local address) for all groups or one of its
//! own, after a random part of the time that they allow. A query of version 2 gets one report of
//! all groups; a query of version 1 (RFC 2710) gets a report for each. All other packets are
//! dropped. At its start it sends two unsolicited reports of version 2, a second apart; after a
//! change of the configuration it does so only if the groups changed. Reports have Ethernet
//! headers.
//!
//! ## Arguments
//! - IP6: the interface's addresses, with blanks between them. One of them must be link-local:
//!   reports come from there.
//! - ETH: the interface's Ethernet address.
//!
//! ## Handlers
//! - `groups` (read): a group a line.
//! - `reports`, `queries` (read): reports sent, valid queries heard.
//!
//! ## See also
//! `IP6NDAdvertiser`

use std::hash::{BuildHasher, RandomState};
use std::net::Ipv6Addr;

use europa_packet::icmp6::{multicast_mac, solicited_node};
use europa_packet::{
    EtherType, EthernetHeader, Header, IpProtocol, Ipv6Header, Ipv6Packet, MacAddr, checksum,
};
use zerocopy::IntoBytes;

use crate::prelude::*;
use crate::shared::common::ANNOUNCE_AFTER_NS;
use crate::shared::made::{make, write};

/// Types of messages (RFC 2710 section 3, RFC 3810 section 5).
const QUERY: u8 = 130;
const REPORT_1: u8 = 131;
const REPORT_2: u8 = 143;
/// Records of version 2 (RFC 3810 section 5.2.12): listen to all sources; the second is sent after
/// a change.
const MODE_IS_EXCLUDE: u8 = 2;
const CHANGE_TO_EXCLUDE: u8 = 4;
/// The group of all routers that support version 2.
const ROUTERS_2: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);
/// A hop-by-hop header: ICMPv6 follows, router alert (RFC 2711), two bytes of padding.
const ALERT: [u8; 8] = [IpProtocol::ICMP6.0, 0, 5, 2, 0, 0, 1, 0];
/// Bytes of a query of version 1; one of version 2 is longer.
const QUERY_1_BYTES: usize = 24;
/// Groups of one report: as many as fit into 1280 bytes.
const GROUPS: usize = 60;
const UNASKED_NS: u64 = 1_000_000_000;
const MILLISECOND_NS: u64 = 1_000_000;

/// Timers: reports at the start, answers.
const START: u32 = 0;
const ANSWER: u32 = 1;

/// A valid query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Query {
    /// The message has version 1.
    old: bool,
    /// Unspecified for all.
    group: Ipv6Addr,
    most_ms: u64,
}

/// Reports the groups to which its addresses listen.
#[derive(Default)]
pub(crate) struct MLDReporter {
    mac: [u8; 6],
    source: Option<Ipv6Addr>,
    groups: Vec<Ipv6Addr>,
    /// Number of unsolicited reports still to be sent.
    unasked: u8,
    /// When the answer is due, and whether the query was of version 1.
    due: Option<(u64, bool)>,
    reports: u64,
    queries: u64,
}

impl Class for MLDReporter {
    const INFO: ClassInfo =
        ClassInfo::new("MLDReporter", "1/1").processing("h/h").inline().consumes().keeps_long();
}

/// The time that a code represents (RFC 3810 section 5.1.3).
fn milliseconds(code: u16) -> u64 {
    match code {
        0..0x8000 => code.into(),
        _ => u64::from(code & 0xfff | 0x1000) << ((code >> 12 & 7) + 3),
    }
}

/// Reads an IPv6 packet.
fn query(bytes: &[u8]) -> Option<Query> {
    let packet = Ipv6Packet::parse(bytes).ok()?;
    let (header, upper) = (packet.header, packet.upper().ok()?);
    let (source, to) = (header.source_addr(), header.destination_addr());
    let message = upper.payload;
    let sum = checksum::pseudo_v6(source, to, IpProtocol::ICMP6, message.len() as u32)
        + checksum::sum(message);
    // The router alert may stand behind padding.
    let alert = packet.payload.get(..upper.extensions_len)?.windows(4).any(|w| w == [5, 2, 0, 0]);
    let [high, low] = *message.get(4..)?.first_chunk()?;
    let group = Ipv6Addr::from(*message.get(8..)?.first_chunk::<16>()?);
    let valid = header.next_header == IpProtocol::HOP_BY_HOP
        && upper.protocol == IpProtocol::ICMP6
        && message.starts_with(&[QUERY, 0])
        && header.hop_limit == 1
        && source.is_unicast_link_local()
        && alert
        && sum.is_valid();
    let (old, code) = (message.len() == QUERY_1_BYTES, u16::from_be_bytes([high, low]));
    let most_ms = if old { code.into() } else { milliseconds(code) };
    valid.then_some(Query { old, group, most_ms })
}

impl MLDReporter {
    /// Sends a message, whose checksum is still 0.
    fn send(&mut self, to: Ipv6Addr, message: &mut [u8], context: &mut Context<'_>) -> Option<()> {
        let source = self.source?;
        let sum = checksum::pseudo_v6(source, to, IpProtocol::ICMP6, message.len() as u32)
            + checksum::sum(message);
        write(message.get_mut(2..)?, &sum.checksum().to_be_bytes());
        let length = ALERT.len() + message.len();
        let mut header = Ipv6Header::new(source, to, IpProtocol::HOP_BY_HOP, length)?;
        header.hop_limit = 1;
        let ethernet = EthernetHeader {
            destination: multicast_mac(to),
            source: MacAddr(self.mac),
            ether_type: EtherType::IPV6,
        };
        let mut packet = make(context, EthernetHeader::LEN + Ipv6Header::LEN + length)?;
        let rest = write(packet.data_mut(), ethernet.as_bytes());
        let rest = write(rest, header.as_bytes());
        let rest = write(rest, &ALERT);
        write(rest, message);
        packet.set_mac_header(0);
        packet.set_network_header(EthernetHeader::LEN, Ipv6Header::LEN);
        self.reports += 1;
        context.push(0, packet);
        Some(())
    }

    /// A report of all groups.
    fn report(&mut self, record: u8, context: &mut Context<'_>) {
        let groups = std::mem::take(&mut self.groups);
        for groups in groups.chunks(GROUPS) {
            let mut message = vec![REPORT_2, 0, 0, 0, 0, 0, 0, groups.len() as u8];
            for group in groups {
                message.extend([record, 0, 0, 0]);
                message.extend(group.octets());
            }
            self.send(ROUTERS_2, &mut message, context);
        }
        self.groups = groups;
    }

    /// A report of version 1 for each group.
    fn report_each(&mut self, context: &mut Context<'_>) {
        for index in 0..self.groups.len() {
            let Some(group) = self.groups.get(index).copied() else { break };
            let mut message = [0; QUERY_1_BYTES];
            let rest = write(&mut message, &[REPORT_1, 0, 0, 0, 0, 0, 0, 0]);
            write(rest, &group.octets());
            self.send(group, &mut message, context);
        }
    }

    fn hear(&mut self, packet: &Packet, context: &mut Context<'_>) -> Option<()> {
        let asked = query(packet.network_header()?)?;
        if !asked.group.is_unspecified() && !self.groups.contains(&asked.group) {
            return None;
        }
        self.queries += 1;
        let most_ns = asked.most_ms * MILLISECOND_NS;
        // The delay is random, so that listeners do not all answer at once.
        let delay_ns = RandomState::new().hash_one(0u8) % (most_ns + 1);
        let due_ns = context.now_ns().saturating_add(delay_ns);
        // If an answer is already due, the element sends one answer for both queries, at the
        // earlier time.
        let due_ns = self.due.map_or(due_ns, |(due, _)| due.min(due_ns));
        self.due = Some((due_ns, asked.old));
        context.schedule(ANSWER, due_ns);
        Some(())
    }
}

impl Element for MLDReporter {
    arguments! { this, given;
        let text = mandatory "IP6": String;
        mandatory "ETH": [u8; 6] => this.mac;
        then {
            for word in text.split_whitespace() {
                let address: Ipv6Addr = given.value("IP6", 0, word)?;
                let group = solicited_node(address);
                if !this.groups.contains(&group) {
                    this.groups.push(group);
                }
                if address.is_unicast_link_local() {
                    this.source = this.source.or(Some(address));
                }
            }
            if this.source.is_none() {
                return Err(ConfigError::other("IP6: no link-local address"));
            }
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.unasked = 2;
        context.schedule(START, context.now_ns().saturating_add(ANNOUNCE_AFTER_NS));
        Ok(())
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        for packet in batch.drain() {
            self.hear(&packet, context);
        }
    }

    fn run_timer(&mut self, timer: u32, context: &mut Context<'_>) {
        if timer == START {
            if self.unasked > 0 {
                self.unasked -= 1;
                self.report(CHANGE_TO_EXCLUDE, context);
            }
            if self.unasked > 0 {
                context.schedule(START, context.now_ns().saturating_add(UNASKED_NS));
            }
            return;
        }
        match self.due.take() {
            Some((_, true)) => self.report_each(context),
            Some((_, false)) => self.report(MODE_IS_EXCLUDE, context),
            None => {}
        }
    }

    keep! { this, old;
        reports, queries;
        then {
            if old.groups == this.groups && old.mac == this.mac {
                this.unasked = old.unasked;
            }
        }
    }

    handlers! { this, context, value;
        read "groups" => this.groups.iter().map(|group| format!("{group}\n")).collect::<String>();
        read "reports" => this.reports;
        read "queries" => this.queries;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use europa_packet::Frame;
    use proptest::prelude::*;

    const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const FROM: &str = "fe80::1";
    const SWITCH: &str = "fe80::5";
    const GROUP: &str = "ff02::1:ff00:1";
    const OTHER: &str = "ff02::1:ffab:cdef";
    const SECOND: u64 = 1_000_000_000;

    fn address(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }

    fn bench() -> Bench {
        Bench::new("MLDReporter", &["2001:db8::1 2001:db8::12ab:cdef fe80::1", "2:0:0:0:0:1"])
    }

    /// An IPv6 packet with such a message after a hop-by-hop header.
    fn packet(frame: Frame, from: &str, to: &str, message: &[u8]) -> Vec<u8> {
        let (from, to) = (address(from), address(to));
        let mut message = message.to_vec();
        let sum = checksum::pseudo_v6(from, to, IpProtocol::ICMP6, message.len() as u32)
            + checksum::sum(&message);
        message[2..4].copy_from_slice(&sum.checksum().to_be_bytes());
        let payload = [&[58, 0, 5, 2, 0, 0, 1, 0], &message[..]].concat();
        frame.ipv6(from, to).ttl(1).transport(IpProtocol::HOP_BY_HOP, &payload)
    }

    fn asked(from: &str, group: &str, rest: &[u8]) -> Vec<u8> {
        let mut message = vec![130, 0, 0, 0, 0, 100, 0, 0];
        message.extend(address(group).octets());
        message.extend(rest);
        packet(Frame::bare(), from, "ff02::1", &message)
    }

    fn framed(to: &str, message: &[u8]) -> (usize, Vec<u8>) {
        let frame = Frame::new(OWN, multicast_mac(address(to)));
        (0, packet(frame, FROM, to, message))
    }

    fn report(record: u8) -> (usize, Vec<u8>) {
        let mut message = vec![143, 0, 0, 0, 0, 0, 0, 2];
        for group in [GROUP, OTHER] {
            message.extend([record, 0, 0, 0]);
            message.extend(address(group).octets());
        }
        framed("ff02::16", &message)
    }

    fn reports_1() -> Vec<(usize, Vec<u8>)> {
        let one = |group: &&str| {
            framed(group, &[&[131, 0, 0, 0, 0, 0, 0, 0], &address(group).octets()[..]].concat())
        };
        [GROUP, OTHER].iter().map(one).collect()
    }

    fn hear(bench: &mut Bench, bytes: &[u8]) -> Vec<(usize, Vec<u8>)> {
        let mut packet = bench.arena.packet(bytes).unwrap();
        packet.set_network_header(0, 40);
        let mut out = bench.push_packets(0, vec![packet]);
        // This is the longest delay that the query allows.
        bench.now_ns += SECOND / 10;
        out.extend(bench.run());
        out
    }

    #[test]
    fn groups_are_told_at_the_start() {
        let mut old = bench();
        for (now_ns, wanted) in [(0, false), (1, true), (2, false), (101, true), (500, false)] {
            old.now_ns = now_ns * ANNOUNCE_AFTER_NS;
            let wanted = if wanted { vec![report(4)] } else { vec![] };
            assert_eq!(old.run(), wanted, "{now_ns}");
        }
        let mut new = bench();
        new.router.take_state(&mut old.router);
        new.now_ns = SECOND;
        assert_eq!(new.run(), [], "all is as it was");
    }

    #[test]
    fn queries_are_answered_in_their_version() {
        let version_2 = [2, 125, 0, 0];
        let mut damaged = asked(SWITCH, "::", &version_2);
        damaged[60] ^= 1;
        let mut far = asked(SWITCH, "::", &version_2);
        far[7] = 2;
        let mut no_alert = asked(SWITCH, "::", &version_2);
        no_alert[42] = 1;
        for (name, bytes, wanted) in [
            ("version 2", asked(SWITCH, "::", &version_2), vec![report(2)]),
            ("version 2, own group", asked(SWITCH, GROUP, &version_2), vec![report(2)]),
            ("another group", asked(SWITCH, "ff02::1:ff00:9", &version_2), vec![]),
            ("version 1", asked(SWITCH, "::", &[]), reports_1()),
            ("from afar", asked("2001:db8::5", "::", &version_2), vec![]),
            ("hop limit", far, vec![]),
            ("no router alert", no_alert, vec![]),
            ("checksum", damaged, vec![]),
            ("short", asked(SWITCH, "::", &[])[..60].to_vec(), vec![]),
        ] {
            let mut bench = bench();
            bench.now_ns = 10 * SECOND;
            bench.run();
            bench.now_ns += 10 * SECOND;
            bench.run();
            assert_eq!(hear(&mut bench, &bytes), wanted, "{name}");
        }
        for (code, ms) in [(0, 0), (0x7fff, 0x7fff), (0x8000, 0x8000), (0xffff, 0x1fff << 10)] {
            assert_eq!(milliseconds(code), ms);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            let _ = query(&bytes);
        }
    }
}
