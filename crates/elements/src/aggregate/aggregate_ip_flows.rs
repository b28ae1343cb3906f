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
//! Numbers TCP and UDP flows from 1 on: sets each packet's aggregate annotation to the number of
//! its flow. The paint is 0 for the direction of the flow's first packet, else 1. A flow ends when
//! no packet has come for a time. A TCP flow that both sides have closed also ends with the next
//! SYN. Times are those of the packets. All other packets leave by output 1, or are dropped. The
//! network header annotation must be set. It knows 262144 flows at most: while there are so many,
//! packets of other flows leave by output 1 too.
//!
//! Ports are only in a packet's first fragment. On a push path, later fragments wait for it, and
//! with them all packets between the two hosts, so that these stay in order. All elements together
//! keep an eighth of the router's packet pool at most for this. Packets that still wait at the end
//! of the router leave when `clear` is written: `DriverManager(wait, write a.clear, stop)`.
//!
//! ## Arguments
//! - TCP_TIMEOUT (keyword): seconds after which a TCP flow has ended; default 86400.
//! - TCP_DONE_TIMEOUT (keyword): seconds after which a closed TCP flow has ended; default 30.
//! - UDP_TIMEOUT (keyword): seconds; default 60.
//! - FRAGMENT_TIMEOUT (keyword): seconds that fragments wait; default 30.
//! - REAP (keyword): seconds between two searches for flows that have ended; default 1200.
//! - ICMP (keyword): give an ICMP error the number of the flow that it is about, and paint it 2 or
//!   3; default false.
//! - FRAGMENTS (keyword): number later fragments too. The default is true on a push path; a pull
//!   path does not allow true.
//! - TRACEINFO (keyword): a file for a line of XML about each flow; `-` is standard output.
//! - SOURCE (keyword): the element that packets come from; the file of TRACEINFO gets the values of
//!   its handlers `filename` and `packet_filepos`.
//!
//! ## Handlers
//! - `clear` (write): ends all flows and sends the waiting packets.
//!
//! ## See also
//! `AggregateIP`, `AggregateCounter`, `IPReassembler`

mod flow;

use std::collections::BTreeMap;
use std::io::Write;
use std::net::Ipv4Addr;
use std::time::Duration;

use self::flow::{CLOSED, Flow, Hosts, Pair, SYN, Seen, UDP};
use crate::prelude::*;
use crate::shared::fields::Annotations;
use crate::shared::files;
use crate::shared::values::Time;

/// Most packets of one pair of hosts that may wait: all hosts share the memory.
const MAX_HELD: usize = 1024;
/// Most flows, and most pairs of hosts.
const MOST_FLOWS: usize = 1 << 18;

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
    /// Whether the element has reported that packets have no time.
    told: bool,
}

impl Class for AggregateIPFlows {
    const INFO: ClassInfo = ClassInfo::new("AggregateIPFlows", "1/1-2").processing("a/ah");
}

/// Writes the record of a flow that has ended. After an error, no more records are written.
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

    /// Handles a packet: sends it on, refuses it, or keeps it until packets before it have been
    /// sent.
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
            // There is one waiting packet too many: a packet of one of these two hosts goes on
            // without its flow's number.
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

    /// Ends the flows that had no packets for their timeout at `now_ns`.
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

/// Sends packets on from the head of the queue: those that need not wait, have waited too long, or
/// are too many. Returns how many it sent.
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

/// A time as nanoseconds, 292 years at most.
fn span(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

impl Element for AggregateIPFlows {
    arguments! { this, given;
        keyword "TCP_TIMEOUT": Duration = Duration::from_secs(24 * 60 * 60), with span => this.tcp_ns;
        keyword "TCP_DONE_TIMEOUT": Duration = Duration::from_secs(30), with span => this.closed_ns;
        keyword "UDP_TIMEOUT": Duration = Duration::from_secs(60), with span => this.udp_ns;
        keyword "FRAGMENT_TIMEOUT": Duration = Duration::from_secs(30), with span => this.fragment_ns;
        keyword "REAP": Duration = Duration::from_secs(20 * 60), with span => this.reap_ns;
        keyword "ICMP": bool = false => this.errors;
        keyword "FRAGMENTS": bool => this.fragments;
        keyword "TRACEINFO": String => this.trace_name;
        keyword "SOURCE": String => this.source;
        then {
            this.next = 1;
        }
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
                // The batch has room: this packet was in a batch of the same size.
                let _ = batch.push(packet);
            }
        }
        context.give_batch(all);
        self.reap_in_time(context);
    }

    keep! { this, old;
        pairs, next, now_ns, reap_at_ns, flows, held, told;
        then {
            this.share.set(this.held);
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
mod tests;
