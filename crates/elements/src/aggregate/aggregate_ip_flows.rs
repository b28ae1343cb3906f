//! # AggregateIPFlows
//!
//! ## Synopsis
//! `AggregateIPFlows([TCP_TIMEOUT, TCP_DONE_TIMEOUT, UDP_TIMEOUT, FRAGMENT_TIMEOUT, REAP, ICMP,
//! FRAGMENTS, TRACEINFO, SOURCE])`
//!
//! ## Ports
//! One input, one or two outputs; output 0 push or pull, output 1 push.
//!
//! ## Description
//! Numbers TCP and UDP flows from 1 on: sets each packet's aggregate annotation to the number of its
//! flow, and its paint to 0 if it goes the way of the flow's first packet, 1 if it comes back. A
//! flow ends when no packet has come for a time, a TCP flow that both sides have closed also with the
//! next SYN. Times are those of the packets. All other packets leave by output 1, or are dropped; the
//! network header annotation must be set. Of 262144 flows at most: while there are so many, packets of
//! others leave by output 1 too.
//!
//! Ports are only in a packet's first fragment. Where packets are pushed, fragments wait for it,
//! and with them all packets between the two hosts, so that these stay in order; in all elements
//! together that keep fragments, an eighth of the router's packet pool at most. Waiting packets at
//! the end of the router leave when `clear` is written: `DriverManager(wait, write a.clear, stop)`.
//!
//! ## Arguments
//! - TCP_TIMEOUT (keyword): seconds after which a TCP flow has ended; default 86400.
//! - TCP_DONE_TIMEOUT (keyword): the same once it has been closed; default 30.
//! - UDP_TIMEOUT (keyword): seconds; default 60.
//! - FRAGMENT_TIMEOUT (keyword): seconds that fragments wait; default 30.
//! - REAP (keyword): seconds between two looks for flows that have ended; default 1200.
//! - ICMP (keyword): number ICMP errors as the flow that they are about, and paint them 2 or 3;
//!   default false.
//! - FRAGMENTS (keyword): number later fragments too; default true where packets are pushed, and
//!   only possible there.
//! - TRACEINFO (keyword): a file for a line of XML about each flow; `-` is standard output.
//! - SOURCE (keyword): the element whose handlers `filename` and `packet_filepos` say, for
//!   that file, where packets come from.
//!
//! ## Handlers
//! - `clear` (write): ends all flows and sends the waiting packets.
//!
//! ## See also
//! `AggregateIP`, `AggregateCounter`, `IPReassembler`

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::net::Ipv4Addr;
use std::time::Duration;

use crate::prelude::*;
use crate::shared::fields::{Annotations, be16, be32, ip_header, is_first, is_fragment, network};
use crate::shared::files;
use crate::shared::values::Time;

/// Packets of two hosts that may wait: all hosts share the memory.
const MAX_HELD: usize = 1024;
/// Most flows, and most pairs of hosts.
const MOST_FLOWS: usize = 1 << 18;

const TCP: u8 = 6;
const UDP: u8 = 17;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
/// Both sides have closed.
const CLOSED: u8 = 3;

/// Protocol and two addresses, the smaller first.
type Hosts = (u8, u32, u32);

/// A packet's statement about its flow.
#[derive(Clone, Copy, Debug)]
struct Seen {
    hosts: Hosts,
    /// The direction is from the second host to the first.
    back: bool,
    id: u16,
    fragment: bool,
    /// In the order of the hosts; `None` for later fragments.
    ports: Option<(u16, u16)>,
    /// Flags of the packet's own TCP header.
    flags: u8,
    /// It is an ICMP error about a packet.
    error: bool,
}

impl Seen {
    /// `None` for a packet that belongs to no flow.
    fn of(packet: &Packet, errors: bool) -> Option<Seen> {
        let (mut header, mut rest) = network(packet)?;
        let error = errors && header.get(9) == Some(&1) && is_first(header);
        if error {
            let about = matches!(rest.first(), Some(3 | 4 | 5 | 11 | 12));
            let inner = rest.get(8..).filter(|_| about)?;
            header = ip_header(inner)?;
            rest = inner.get(header.len()..)?;
        }
        let protocol = *header.get(9)?;
        let (source, destination) = (be32(header, 12)?, be32(header, 16)?);
        if !matches!(protocol, TCP | UDP) || (source, destination) == (0, 0) {
            return None;
        }
        let mut back = source > destination;
        let mut ports = None;
        if is_first(header) {
            let (from, to) = (be16(rest, 0)?, be16(rest, 2)?);
            // A host may talk to itself.
            back |= source == destination && from > to;
            ports = Some(if back { (to, from) } else { (from, to) });
        }
        let own_tcp = protocol == TCP && !error && ports.is_some();
        Some(Seen {
            hosts: (protocol, source.min(destination), source.max(destination)),
            back,
            id: be16(header, 4)?,
            fragment: is_fragment(header),
            ports,
            flags: rest.get(13).copied().filter(|_| own_tcp).unwrap_or(0),
            error,
        })
    }

    /// The paint of a packet, by the direction of its flow's first packet.
    fn paint(&self, first_back: bool) -> u8 {
        u8::from(self.back != first_back) | u8::from(self.error) << 1
    }
}

/// A flow. Times are those of packets, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Flow {
    number: u32,
    /// Its first packet was a reply.
    back: bool,
    /// A bit for each side that has closed.
    closed: u8,
    first_ns: i64,
    last_ns: i64,
    packets: [u64; 2],
    position: u64,
}

/// Two hosts: their flows by ports, and packets that wait.
#[derive(Default)]
struct Pair {
    flows: BTreeMap<(u16, u16), Flow>,
    held: VecDeque<(Packet, Seen)>,
}

impl Pair {
    /// Takes out the packet that has waited longest, with its flow's number or, if no waiting
    /// packet knows it, 0.
    fn release(&mut self) -> Option<(Packet, Seen)> {
        let (mut head, seen) = self.held.pop_front()?;
        let same = |other: &Seen| {
            // The direction of a later fragment from a host to itself is unknown.
            let way = other.back == seen.back || seen.hosts.1 == seen.hosts.2;
            other.id == seen.id && way
        };
        if head.aggregate() != 0 {
            for (packet, _) in self.held.iter_mut().filter(|(_, other)| same(other)) {
                packet.set_aggregate(head.aggregate());
                packet.set_paint(head.paint());
            }
        } else {
            let known = |(packet, other): &&(Packet, Seen)| packet.aggregate() != 0 && same(other);
            if let Some((packet, _)) = self.held.iter().find(known) {
                head.set_aggregate(packet.aggregate());
                head.set_paint(packet.paint());
            }
        }
        if let Some(flow) = self.flows.values_mut().find(|flow| flow.number == head.aggregate()) {
            flow.note(&head, seen);
        }
        Some((head, seen))
    }
}

impl Flow {
    /// Notes a packet of the flow that is sent on.
    fn note(&mut self, packet: &Packet, seen: Seen) {
        self.last_ns = Time::of(packet.timestamp_ns()).0;
        let side = packet.paint();
        if seen.flags & RST != 0 {
            self.closed = CLOSED;
        } else if seen.flags & FIN != 0 {
            self.closed |= 1 << (side & 1);
        } else if seen.flags & SYN != 0 {
            self.closed = 0;
        }
        if let Some(count) = self.packets.get_mut(usize::from(side)) {
            *count += 1;
        }
    }
}

/// Numbers flows.
#[derive(Default)]
pub(crate) struct AggregateIPFlows {
    tcp_ns: i64,
    closed_ns: i64,
    udp_ns: i64,
    fragment_ns: i64,
    reap_ns: i64,
    errors: bool,
    fragments: Option<bool>,
    trace: Option<Box<dyn Write>>,
    trace_name: Option<String>,
    source: Option<String>,
    pairs: BTreeMap<Hosts, Pair>,
    flows: usize,
    /// Packets that wait, and their bound in the pool.
    held: usize,
    share: Share,
    next: u32,
    /// Time of the latest packet, and the next time to look for ended flows.
    now_ns: i64,
    reap_at_ns: Option<i64>,
    /// Whether it has reported that packets have no time.
    told: bool,
}

impl Class for AggregateIPFlows {
    const INFO: ClassInfo = ClassInfo::new("AggregateIPFlows", "1/1-2").processing("a/ah");
}

/// Writes the record of a flow that has ended. An error ends the file.
fn write(trace: &mut Option<Box<dyn Write>>, hosts: Hosts, ports: (u16, u16), flow: &Flow) {
    let Some(file) = trace else { return };
    let (mut from, mut to) = ((hosts.1, ports.0), (hosts.2, ports.1));
    if flow.back {
        (from, to) = (to, from);
    }
    let position = match flow.position {
        0 => String::new(),
        position => format!(" filepos='{position}'"),
    };
    let [there, back] = flow.packets;
    let written = write!(
        file,
        "<flow aggregate='{}' src='{}' sport='{}' dst='{}' dport='{}' begin='{}' \
         duration='{}'{position}>\n  <stream dir='0' packets='{there}' />\
         <stream dir='1' packets='{back}' />\n</flow>\n",
        flow.number,
        Ipv4Addr::from(from.0),
        from.1,
        Ipv4Addr::from(to.0),
        to.1,
        Time(flow.first_ns),
        Time(flow.last_ns.saturating_sub(flow.first_ns)),
    );
    if written.is_err() {
        *trace = None;
    }
}

impl AggregateIPFlows {
    fn timeout_ns(&self, protocol: u8, flow: &Flow) -> i64 {
        match (protocol, flow.closed) {
            (UDP, _) => self.udp_ns,
            (_, CLOSED) => self.closed_ns,
            _ => self.tcp_ns,
        }
    }

    /// Sets the annotations of a packet with ports; its flow's key is in `seen`.
    fn number(&mut self, packet: &mut Packet, seen: Seen, context: &mut Context<'_>) {
        let Some(ports) = seen.ports else {
            packet.set_aggregate(0);
            packet.set_paint(seen.paint(false));
            return;
        };
        let time_ns = Time::of(packet.timestamp_ns()).0;
        let pair = self.pairs.entry(seen.hosts).or_default();
        let mut known = pair.flows.get(&ports).copied();
        if let Some(old) = known {
            let silent_ns = time_ns.saturating_sub(old.last_ns);
            let again = old.closed == CLOSED && seen.flags & SYN != 0;
            if again || silent_ns > self.timeout_ns(seen.hosts.0, &old) {
                write(&mut self.trace, seen.hosts, ports, &old);
                known = None;
            }
        }
        let flow = known.unwrap_or_else(|| {
            let number = self.next;
            // 0 is for packets without a flow.
            self.next = self.next.wrapping_add(1).max(1);
            let position = match (&self.trace, &self.source) {
                (Some(_), Some(source)) => context
                    .read_handler(&format!("{source}.packet_filepos"), "")
                    .ok()
                    .and_then(|text| text.trim().parse().ok())
                    .unwrap_or(0),
                _ => 0,
            };
            let (back, first_ns) = (seen.back, time_ns);
            let flow = Flow {
                number,
                back,
                closed: 0,
                first_ns,
                last_ns: first_ns,
                packets: [0; 2],
                position,
            };
            if let Some(pair) = self.pairs.get_mut(&seen.hosts) {
                self.flows += usize::from(pair.flows.insert(ports, flow).is_none());
            }
            flow
        });
        packet.set_aggregate(flow.number);
        packet.set_paint(seen.paint(flow.back));
    }

    /// Whether a packet's flow exists, or may be added.
    fn may_note(&self, seen: Seen) -> bool {
        let known = || {
            let pair = self.pairs.get(&seen.hosts)?;
            Some(seen.ports.is_none_or(|ports| pair.flows.contains_key(&ports)))
        };
        self.flows.max(self.pairs.len()) < MOST_FLOWS || known() == Some(true)
    }

    /// Handles a packet: sends it on, refuses it, or keeps it while others are sent on.
    fn take(&mut self, mut packet: Packet, context: &mut Context<'_>) -> Option<Packet> {
        if packet.timestamp_ns() == 0 {
            if !std::mem::replace(&mut self.told, true) {
                let name = context.name();
                context.log(&format!("{name}: warning: packet received without timestamp"));
            }
            packet.set_timestamp_ns(context.wall_ns());
        }
        let Some(seen) = Seen::of(&packet, self.errors).filter(|seen| self.may_note(*seen)) else {
            context.push(1, packet);
            return None;
        };
        self.number(&mut packet, seen, context);
        self.now_ns = Time::of(packet.timestamp_ns()).0;
        let pair = self.pairs.entry(seen.hosts).or_default();
        if !pair.held.is_empty() || (seen.fragment && self.fragments == Some(true)) {
            // One more than there is room for: one of these two hosts goes on without its number.
            let most = if self.share.is_full() { pair.held.len() } else { MAX_HELD };
            pair.held.push_back((packet, seen));
            let since_ns = self.now_ns.saturating_sub(self.fragment_ns);
            self.held += 1;
            self.held -= release(pair, since_ns, most, context);
            self.share.set(self.held);
            return None;
        }
        let Some(flow) = seen.ports.and_then(|ports| pair.flows.get_mut(&ports)) else {
            context.push(1, packet);
            return None;
        };
        flow.note(&packet, seen);
        Some(packet)
    }

    /// Ends flows without packets for long enough, as seen from `now_ns`.
    fn reap(&mut self, now_ns: i64, context: &mut Context<'_>) {
        let since_ns = now_ns.saturating_sub(self.fragment_ns);
        let mut pairs = std::mem::take(&mut self.pairs);
        pairs.retain(|hosts, pair| {
            self.held -= release(pair, since_ns, MAX_HELD, context);
            if pair.held.is_empty() {
                let before = pair.flows.len();
                pair.flows.retain(|ports, flow| {
                    let silent_ns = now_ns.saturating_sub(flow.last_ns);
                    let stays = silent_ns <= self.timeout_ns(hosts.0, flow);
                    if !stays {
                        write(&mut self.trace, *hosts, *ports, flow);
                    }
                    stays
                });
                self.flows -= before - pair.flows.len();
            }
            !pair.flows.is_empty() || !pair.held.is_empty()
        });
        self.pairs = pairs;
        self.share.set(self.held);
    }

    fn reap_in_time(&mut self, context: &mut Context<'_>) {
        let due = self.reap_at_ns.is_none_or(|at_ns| self.now_ns >= at_ns);
        if due {
            if self.reap_at_ns.is_some() {
                self.reap(self.now_ns, context);
            }
            self.reap_at_ns = Some(self.now_ns.saturating_add(self.reap_ns));
        }
    }
}

/// Sends packets on from the head that nothing holds up, or that waited too long or are too many;
/// returns how many.
fn release(pair: &mut Pair, since_ns: i64, most: usize, context: &mut Context<'_>) -> usize {
    let before = pair.held.len();
    while let Some((head, seen)) = pair.held.front()
        && (!seen.fragment || Time::of(head.timestamp_ns()).0 < since_ns || pair.held.len() > most)
    {
        if let Some((packet, _)) = pair.release() {
            let output = usize::from(packet.aggregate() == 0);
            context.push(output, packet);
        }
    }
    before - pair.held.len()
}

/// A span of time from an argument.
fn span(
    arguments: &mut Arguments<'_>,
    name: &'static str,
    default_s: u64,
) -> Result<i64, ConfigError> {
    let span = arguments.keyword(name)?.unwrap_or(Duration::from_secs(default_s));
    Ok(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX))
}

impl Element for AggregateIPFlows {
    fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        self.tcp_ns = span(arguments, "TCP_TIMEOUT", 24 * 60 * 60)?;
        self.closed_ns = span(arguments, "TCP_DONE_TIMEOUT", 30)?;
        self.udp_ns = span(arguments, "UDP_TIMEOUT", 60)?;
        self.fragment_ns = span(arguments, "FRAGMENT_TIMEOUT", 30)?;
        self.reap_ns = span(arguments, "REAP", 20 * 60)?;
        self.errors = arguments.keyword("ICMP")?.unwrap_or(false);
        self.fragments = arguments.keyword("FRAGMENTS")?;
        self.trace_name = arguments.keyword("TRACEINFO")?;
        self.source = arguments.keyword("SOURCE")?;
        self.next = 1;
        arguments.finish()
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        let pull = context.is_pull(0);
        if pull && self.fragments == Some(true) {
            return Err(ConfigError::other("FRAGMENTS true needs a push input"));
        }
        self.fragments.get_or_insert(!pull);
        self.share = context.share(Purpose::Fragments);
        if let Some(name) = &self.trace_name {
            let mut file = files::create(name, context)?;
            let origin = self.source.as_ref().and_then(|source| {
                let path = format!("{source}.filename");
                context.with_context(|context| context.read_handler(&path, "")).ok()
            });
            let origin = origin.filter(|origin| !origin.trim().is_empty());
            let origin = origin.map_or_else(String::new, |name| format!(" file='{}'", name.trim()));
            writeln!(file, "<?xml version='1.0' standalone='yes'?>\n<trace{origin}>")
                .map_err(|error| ConfigError::other(format!("{name}: {error}")))?;
            self.trace = Some(file);
        }
        Ok(())
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        for packet in batch.drain() {
            if let Some(packet) = self.take(packet, context) {
                context.push(0, packet);
            }
            self.reap_in_time(context);
        }
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let mut all = context.take_batch();
        std::mem::swap(&mut all, batch);
        for packet in all.drain() {
            if let Some(packet) = self.take(packet, context) {
                // There is room: it was in a batch of this size.
                let _ = batch.push(packet);
            }
        }
        context.give_batch(all);
        self.reap_in_time(context);
    }

    fn take_state(&mut self, old: &mut dyn Element) {
        if let Some(old) = (old as &mut dyn Any).downcast_mut::<AggregateIPFlows>() {
            std::mem::swap(&mut self.pairs, &mut old.pairs);
            (self.next, self.now_ns, self.reap_at_ns) = (old.next, old.now_ns, old.reap_at_ns);
            (self.flows, self.held) =
                (std::mem::take(&mut old.flows), std::mem::take(&mut old.held));
            self.told = old.told;
            self.share.set(self.held);
        }
    }

    fn cleanup(&mut self, _: &mut dyn FnMut(&str)) {
        for (hosts, pair) in std::mem::take(&mut self.pairs) {
            for (ports, flow) in pair.flows {
                write(&mut self.trace, hosts, ports, &flow);
            }
        }
        if let Some(mut file) = self.trace.take() {
            let _ = writeln!(file, "</trace>").and_then(|()| file.flush());
        }
    }

    handlers! { this, context, value;
        button "clear" => this.reap(i64::MAX, context);
    }
}

#[cfg(test)]
mod tests {
    use europa_packet::Frame;

    use super::*;
    use crate::testing::Bench;

    const A: [u8; 4] = [18, 26, 4, 44];
    const B: [u8; 4] = [10, 0, 0, 4];

    #[test]
    fn flows_are_bounded() {
        let mut bench = Bench::new("AggregateIPFlows", &["UDP_TIMEOUT 10", "REAP 5"]);
        assert_eq!(push(&mut bench, 1, &udp((A, 1), (B, 2))), [(0, 1, 0)]);
        bench.element::<AggregateIPFlows>().flows = MOST_FLOWS;
        assert_eq!(push(&mut bench, 1, &udp((A, 3), (B, 2)))[0].0, 1, "a new one");
        assert_eq!(push(&mut bench, 1, &udp((B, 2), (A, 1))), [(0, 1, 1)], "one that is known");
        bench.element::<AggregateIPFlows>().flows = 1;
        assert_eq!(push(&mut bench, 2, &udp((A, 3), (B, 2))), [(0, 2, 0)]);
        push(&mut bench, 20, &udp((A, 5), (B, 2)));
        assert_eq!(bench.element::<AggregateIPFlows>().flows, 1, "the others have ended");
    }

    #[test]
    fn fragments_that_wait_leave_the_pool_to_others() {
        let mut bench = Bench::new("AggregateIPFlows", &[]);
        for host in 0..1000u16 {
            let [high, low] = host.to_be_bytes();
            let mut packet = crate::testing::ip_packet(0x0a00_0001, 0x0b00_0000, 9, &[0; 8]);
            packet[18..20].copy_from_slice(&[high, low]);
            packet[6..8].copy_from_slice(&[0, 1]);
            push(&mut bench, 1, &packet);
        }
        assert_eq!(bench.arena.capacity() - bench.arena.free(), bench.out.len() + 1024 / 8);
        bench.router.write("e.clear", "").unwrap();
        assert_eq!(bench.run().len(), 1024 / 8);
    }

    /// Output, aggregate and paint of the packets sent for this packet, which arrived at a second.
    fn push(bench: &mut Bench, second: u64, bytes: &[u8]) -> Vec<(usize, u32, u8)> {
        let mut packet = bench.arena.packet(bytes).unwrap();
        packet.set_network_header(0, 20);
        packet.set_timestamp_ns(second * 1_000_000_000);
        bench.push_packets(0, vec![packet]);
        bench.out.iter().map(|(port, packet)| (*port, packet.aggregate(), packet.paint())).collect()
    }

    fn udp(from: ([u8; 4], u16), to: ([u8; 4], u16)) -> Vec<u8> {
        Frame::bare().ipv4(from.0, to.0).udp(from.1, to.1, b"12345678")
    }

    fn tcp(from: ([u8; 4], u16), to: ([u8; 4], u16), flags: u8) -> Vec<u8> {
        let mut bytes = udp(from, to);
        bytes.resize(40, 0);
        (bytes[9], bytes[33]) = (6, flags);
        bytes
    }

    #[test]
    fn flows_are_numbered_both_ways() {
        let mut bench = Bench::new("AggregateIPFlows", &["UDP_TIMEOUT 10"]);
        for (second, from, to, wanted) in [
            (1, (A, 30), (B, 40), (0, 1, 0)),
            (2, (A, 30), (A, 41), (0, 2, 0)),
            (3, (B, 40), (A, 30), (0, 1, 1)),
            (4, (A, 41), (A, 30), (0, 2, 1)),
            // The other way round, and after a while a new one.
            (5, (B, 1), (A, 2), (0, 3, 0)),
            (14, (B, 40), (A, 30), (0, 4, 0)),
        ] {
            assert_eq!(push(&mut bench, second, &udp(from, to)), [wanted], "{second}");
        }
        let ping = Frame::bare().ipv4(A, B).echo(1, 2, b"");
        assert_eq!(push(&mut bench, 15, &ping)[0].0, 1);
    }

    #[test]
    fn a_connection_ends_when_both_sides_close() {
        let mut bench = Bench::new("AggregateIPFlows", &[]);
        for (from, to, flags, number) in [
            ((A, 1), (B, 2), SYN, 1),
            ((A, 1), (B, 2), FIN, 1),
            ((A, 1), (B, 2), SYN, 1),
            ((A, 1), (B, 2), FIN, 1),
            ((B, 2), (A, 1), FIN, 1),
            ((A, 1), (B, 2), 16, 1),
            ((A, 1), (B, 2), SYN, 2),
            ((B, 2), (A, 1), RST, 2),
            ((A, 1), (B, 2), SYN, 3),
        ] {
            let out = push(&mut bench, 1, &tcp(from, to, flags));
            assert_eq!(out.first().map(|packet| packet.1), Some(number));
        }
    }

    #[test]
    fn fragments_wait_for_their_ports() {
        let mut bench = Bench::new("AggregateIPFlows", &["FRAGMENT_TIMEOUT 5"]);
        let part = |id, bits, from: ([u8; 4], u16), to| {
            let frame = Frame::bare().ipv4(from.0, B).id(id).flags_fragment(bits);
            frame.udp(from.1, to, b"12345678")
        };
        // The later part first, and one that never gets its first part.
        assert_eq!(push(&mut bench, 1, &part(7, 3, (A, 1), 2)), []);
        assert_eq!(push(&mut bench, 1, &part(8, 3, (A, 1), 2)), []);
        assert_eq!(push(&mut bench, 1, &part(7, 0x2000, (A, 1), 2)), []);
        assert_eq!(push(&mut bench, 2, &udp((B, 2), (A, 1))), []);
        let out = push(&mut bench, 9, &udp((A, 1), (B, 2)));
        assert_eq!(out, [(0, 1, 0), (0, 1, 0), (0, 1, 1), (0, 1, 0), (1, 0, 1)]);
        // A host that talks to itself.
        let own = |id, bits, from, to| {
            let frame = Frame::bare().ipv4(A, A).id(id).flags_fragment(bits);
            frame.udp(from, to, b"12345678")
        };
        assert_eq!(push(&mut bench, 9, &udp((A, 3), (A, 4))), [(0, 2, 0)]);
        assert_eq!(push(&mut bench, 10, &own(5, 3, 4, 3)), []);
        assert_eq!(push(&mut bench, 10, &own(5, 0x2000, 4, 3)), []);
        let out = push(&mut bench, 20, &udp((A, 3), (A, 4)));
        assert_eq!(out, [(0, 2, 1), (0, 2, 1), (0, 2, 0)]);
        // Nothing waits any more.
        assert_eq!(push(&mut bench, 21, &udp((A, 1), (B, 2))), [(0, 1, 0)]);
        assert_eq!(push(&mut bench, 21, &part(9, 0x2000, (A, 1), 2)), []);
        bench.router.write("e.clear", "").unwrap();
        bench.run();
        assert_eq!(bench.out.len(), 1);
        assert_eq!(push(&mut bench, 22, &udp((A, 1), (B, 2))), [(0, 3, 0)]);
    }

    #[test]
    fn errors_are_of_the_flow_that_they_are_about() {
        let mut bench = Bench::new("AggregateIPFlows", &["ICMP true"]);
        let about = udp((A, 1), (B, 2));
        assert_eq!(push(&mut bench, 1, &about), [(0, 1, 0)]);
        let message = [&[3, 1, 0, 0, 0, 0, 0, 0][..], &about].concat();
        let error = Frame::bare().ipv4(B, A).icmp(&message);
        assert_eq!(push(&mut bench, 1, &error), [(0, 1, 2)]);
    }

    #[test]
    fn a_file_tells_of_flows() {
        let path = std::env::temp_dir().join(format!("europa-flows-{}", std::process::id()));
        let argument = format!("TRACEINFO {}", path.display());
        let mut bench = Bench::new("AggregateIPFlows", &[&argument]);
        push(&mut bench, 1, &udp((A, 1), (B, 2)));
        push(&mut bench, 3, &udp((B, 2), (A, 1)));
        drop(bench);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        let wanted = "<flow aggregate='1' src='18.26.4.44' sport='1' dst='10.0.0.4' dport='2' \
                      begin='1.000000' duration='2.000000'>\n  <stream dir='0' packets='1' />\
                      <stream dir='1' packets='1' />\n</flow>\n</trace>\n";
        assert!(text.ends_with(wanted), "{text}");
    }
}
