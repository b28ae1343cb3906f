//! # ICMPPingSource
//!
//! ## Synopsis
//! `ICMPPingSource(SRC, DST [, INTERVAL, IDENTIFIER, LIMIT, DATA, ACTIVE, STOP, MIRROR, VERBOSE])`
//!
//! ## Ports
//! One output, push or pull; if connected, one push input for replies.
//!
//! ## Description
//! Makes an ICMP echo request every INTERVAL, or for each pull, with sequence numbers from 1 on. It
//! counts replies that come to its input and measures their round-trip times, by the packets'
//! timestamps or by the time when they come here. Their network header annotation must be set. When
//! the router ends, it logs a summary of them.
//!
//! ## Arguments
//! - SRC, DST: IPv4 addresses.
//! - INTERVAL (keyword): seconds, default 1.
//! - IDENTIFIER (keyword): default 0.
//! - LIMIT (keyword): stop after this many requests; default -1: never.
//! - DATA (keyword): the bytes behind the ICMP header; default nothing.
//! - ACTIVE (keyword): whether to send; default true.
//! - STOP (keyword): stop the router once LIMIT is reached; default false.
//! - MIRROR (keyword): send the next request as soon as a reply comes, for any LIMIT; default
//!   false. Only on a push path.
//! - VERBOSE (keyword): log a line for each reply; default true.
//!
//! ## Handlers
//! - `count` (read): requests sent.
//! - `active`, `src`, `dst` (read, write), `limit`, `interval` (write): see the arguments.
//! - `reset_counts` (write): sets all counts to zero.
//! - `summary` (read): how many requests were answered, and round-trip times.
//! - `rtt_min`, `rtt_avg`, `rtt_max` (read): round-trip times in seconds; 0 before the first reply.
//!
//! ## See also
//! `ICMPPingEncap`, `ICMPPingResponder`, `ICMPPingRewriter`

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::time::Duration;

use crate::encap::icmp_ip_encap::ICMPIPEncap;
use crate::prelude::*;
use crate::shaping::Ticks;
use crate::shared::fields::{be16, be32, network};
use crate::shared::made;

/// A request that was sent.
#[derive(Clone, Copy, Default)]
struct Sent {
    time_ns: u64,
    answered: bool,
}

/// The state of replies. Times are in microseconds.
#[derive(Default)]
struct Replies {
    /// By sequence number.
    sent: Vec<Sent>,
    received: u64,
    duplicates: u64,
    least: u64,
    most: u64,
    sum: u64,
    square_sum: u64,
}

impl Replies {
    fn new() -> Replies {
        Replies { sent: vec![Sent::default(); 1 << 16], ..Replies::default() }
    }

    /// Notes a reply that arrived at `time_ns`. Returns its round-trip time, or `None` if it
    /// answers no request.
    fn note(&mut self, sequence: u16, time_ns: u64) -> Option<u64> {
        let sent = self.sent.get_mut(usize::from(sequence)).filter(|sent| sent.time_ns > 0)?;
        self.duplicates += u64::from(std::mem::replace(&mut sent.answered, true));
        let took = time_ns.saturating_sub(sent.time_ns) / 1000;
        self.least = if self.received == 0 { took } else { self.least.min(took) };
        self.most = self.most.max(took);
        self.sum = self.sum.saturating_add(took);
        self.square_sum = self.square_sum.saturating_add(took.saturating_mul(took));
        self.received += 1;
        Some(took)
    }

    fn average(&self) -> u64 {
        self.sum / self.received.max(1)
    }

    /// A summary like that of `ping`.
    fn summary(&self, count: u64) -> String {
        let answered = self.received - self.duplicates;
        let mut text = format!("{count} packets transmitted, {answered} received");
        // Writing to a String cannot fail.
        if self.duplicates > 0 {
            let _ = write!(text, ", +{} duplicates", self.duplicates);
        }
        if let Some(lost) = (count.saturating_sub(answered) * 100).checked_div(count) {
            let _ = writeln!(text, ", {lost}% packet loss");
        }
        if let Some(square) = self.square_sum.checked_div(self.received) {
            let average = self.average();
            let deviation = square.saturating_sub(average.saturating_mul(average)).isqrt();
            let times = [self.least, average, self.most, deviation].map(milliseconds);
            let _ = writeln!(text, "rtt min/avg/max/mdev = {}", times.join("/"));
        }
        text
    }
}

fn milliseconds(microseconds: u64) -> String {
    format!("{}.{:03}", microseconds / 1000, microseconds % 1000)
}

fn seconds(microseconds: u64) -> String {
    format!("{}.{:06}", microseconds / 1_000_000, microseconds % 1_000_000)
}

/// Pings, and receives the answers.
#[derive(Default)]
pub(crate) struct ICMPPingSource {
    request: ICMPIPEncap,
    data: Vec<u8>,
    ticks: Ticks,
    limit: i64,
    active: bool,
    stop: bool,
    mirror: bool,
    verbose: bool,
    count: u64,
    push: bool,
    /// A timer is set.
    scheduled: bool,
    /// If there is an input.
    replies: Option<Replies>,
    /// For the last words.
    name: String,
}

impl Class for ICMPPingSource {
    const INFO: ClassInfo = ClassInfo::new("ICMPPingSource", "0-1/1")
        .processing("h/a")
        .consumes()
        .also(&["ICMPSendPings"]);
}

impl ICMPPingSource {
    fn is_done(&self) -> bool {
        u64::try_from(self.limit).is_ok_and(|limit| self.count >= limit)
    }

    fn next(&mut self, data: &[u8], context: &Context<'_>) -> Option<Packet> {
        let mut packet = made::make(context, data.len())?;
        packet.data_mut().copy_from_slice(data);
        self.request.push_headers(&mut packet)?;
        let time_ns = context.wall_ns();
        packet.set_timestamp_ns(time_ns);
        let sequence = be16(packet.data(), 26).unwrap_or(0);
        if let Some(replies) = &mut self.replies
            && let Some(place) = replies.sent.get_mut(usize::from(sequence))
        {
            *place = Sent { time_ns, answered: false };
        }
        self.count += 1;
        Some(packet)
    }

    fn request(&mut self, context: &Context<'_>) -> Option<Packet> {
        let data = std::mem::take(&mut self.data);
        let packet = self.next(&data, context);
        self.data = data;
        packet
    }

    /// Sets the timer if there are packets to send.
    fn start(&mut self, after_ns: u64, context: &mut Context<'_>) {
        if self.active && self.push && !self.scheduled && !self.is_done() {
            self.scheduled = true;
            let at_ns = context.now_ns().saturating_add(after_ns);
            context.schedule(0, self.ticks.start_at(at_ns));
        }
    }

    /// Notes a reply; returns the line about it, and its packet.
    fn heard(&mut self, packet: &Packet, now_ns: u64) -> Option<(String, Vec<u8>)> {
        let (header, message) = network(packet)?;
        let ours = header.get(9) == Some(&1)
            && message.first() == Some(&0)
            && be16(message, 4) == Some(self.request.identifier);
        let sequence = be16(message, 6).filter(|_| ours)?;
        let took = self.replies.as_mut()?.note(
            sequence,
            match packet.timestamp_ns() {
                0 => now_ns,
                time_ns => time_ns,
            },
        )?;
        let length = usize::from(be16(header, 2)?).saturating_sub(header.len() + 8);
        let from = std::net::Ipv4Addr::from(be32(header, 12)?);
        let (ttl, time) = (header.get(8)?, milliseconds(took));
        let line =
            format!("{length} bytes from {from}: icmp_seq={sequence} ttl={ttl} time={time} ms");
        Some((line, message.get(8..)?.to_vec()))
    }
}

impl Element for ICMPPingSource {
    arguments! { this, given;
        let source = mandatory "SRC": Ipv4Addr;
        let destination = mandatory "DST": Ipv4Addr;
        let identifier = keyword "IDENTIFIER": u16 = 0;
        keyword "INTERVAL": Duration = Duration::from_secs(1), with Ticks::every => this.ticks;
        keyword "DATA": Vec<u8> = Vec::new() => this.data;
        keyword "LIMIT": i64 = -1 => this.limit;
        keyword "ACTIVE": bool = true => this.active;
        keyword "VERBOSE": bool = true => this.verbose;
        keyword "STOP": bool = false => this.stop;
        keyword "MIRROR": bool = false => this.mirror;
        then {
            this.request = ICMPIPEncap::request(source, destination, identifier);
            // Click counts in milliseconds.
            if this.ticks.interval_ns < 1_000_000 {
                given.warn("INTERVAL so small that it is zero");
            }
            if given.inputs() > 0 {
                this.replies = Some(Replies::new());
            }
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.push = context.is_push_output(0);
        if self.mirror && !self.push {
            return Err(ConfigError::other("MIRROR needs a push output"));
        }
        self.name = context.name().to_owned();
        let after_ns = self.ticks.interval_ns;
        context.with_context(|context| self.start(after_ns, context));
        Ok(())
    }

    fn run_timer(&mut self, _: u32, context: &mut Context<'_>) {
        self.scheduled = false;
        if !self.active {
            return;
        }
        if self.is_done() {
            if self.stop {
                context.stop();
            }
            return;
        }
        if let Some(packet) = self.request(context) {
            context.push(0, packet);
        }
        self.scheduled = true;
        context.schedule(0, self.ticks.next_ns(context.now_ns()));
    }

    fn pull(&mut self, _: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        for _ in 0..max {
            if !self.active || self.is_done() {
                if self.is_done() && std::mem::take(&mut self.stop) {
                    context.stop();
                }
                break;
            }
            let Some(packet) = self.request(context) else { break };
            if batch.push(packet).is_err() {
                break;
            }
        }
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let now_ns = context.wall_ns();
        for packet in batch.drain() {
            let Some((line, data)) = self.heard(&packet, now_ns) else { continue };
            // The buffer of this reply may be needed for the next request.
            drop(packet);
            if self.verbose {
                context.log_with(|name| format!("{name} :: ICMPPingSource: {line}"));
            }
            if self.mirror
                && let Some(packet) = self.next(&data, context)
            {
                context.push(0, packet);
            }
        }
    }

    fn cleanup(&mut self, log: &mut dyn FnMut(&str)) {
        if let Some(replies) = self.replies.as_ref().filter(|_| self.verbose) {
            for line in replies.summary(self.count).lines() {
                log(&format!("{} :: ICMPPingSource: {line}", self.name));
            }
        }
    }

    handlers! { this, context, value;
        read "count" => this.count;
        both "active" [CHECKBOX] => this.active, set {
            this.active = parse("active", value)?;
            this.start(0, context);
        };
        both "src" => this.request.header.source;
        both "dst" => this.request.header.destination;
        write "limit" => {
            this.limit = parse("limit", value)?;
            this.start(this.ticks.interval_ns, context);
        };
        write "interval" => {
            this.ticks.set("interval", value)?;
        };
        button "reset_counts" => {
            this.count = 0;
            this.request.restart();
            this.replies = this.replies.take().map(|_| Replies::new());
            this.start(this.ticks.interval_ns, context);
        };
        read "summary" => this.replies.as_ref().map(|r| r.summary(this.count)).unwrap_or_default();
        read "rtt_min" => seconds(this.replies.as_ref().map_or(0, |replies| replies.least));
        read "rtt_avg" => seconds(this.replies.as_ref().map_or(0, Replies::average));
        read "rtt_max" => seconds(this.replies.as_ref().map_or(0, |replies| replies.most));
    }
}

#[cfg(test)]
mod tests {
    use europa_packet::{Frame, checksum};

    use crate::testing::Bench;

    const ARGUMENTS: [&str; 6] =
        ["1.2.3.4", "5.6.7.8", "INTERVAL 0.5", "IDENTIFIER 7", "LIMIT 3", "DATA hello"];

    #[test]
    fn requests_come_in_time() {
        let mut bench = Bench::new("ICMPPingSource", &ARGUMENTS);
        let mut times = Vec::new();
        for step in 0..30 {
            bench.now_ns = step * 100_000_000;
            for (_, packet) in bench.run() {
                assert!(checksum::verify(&packet[..20]) && checksum::verify(&packet[20..]));
                assert_eq!(
                    (packet[20], &packet[24..26], &packet[28..]),
                    (8, &[0, 7][..], &b"hello"[..])
                );
                times.push((step, packet[27]));
            }
        }
        assert_eq!(times, [(5, 1), (10, 2), (15, 3)]);
        assert_eq!(bench.router.read("e.count", ""), Ok("3".into()));
    }

    #[test]
    fn replies_are_timed_and_counted() {
        let mut bench = Bench::new("ICMPPingSource", &ARGUMENTS);
        let log = bench.log();
        bench.router.set_wall_offset_ns(1_000_000_000);
        bench.now_ns = 500_000_000;
        assert_eq!(bench.run().len(), 1);
        let mut reply = Frame::bare().ipv4([5, 6, 7, 8], [1, 2, 3, 4]).echo(7, 1, b"hello");
        reply[20] = 0;
        for time_ns in [1_502_000_000, 1_504_000_000] {
            let mut packet = bench.arena.packet(&reply).unwrap();
            packet.set_network_header(0, 20);
            packet.set_timestamp_ns(time_ns);
            assert_eq!(bench.push_packets(0, vec![packet]), []);
        }
        let line = "e :: ICMPPingSource: 5 bytes from 5.6.7.8: icmp_seq=1 ttl=64 time=2.000 ms";
        assert_eq!(log.borrow().first().map(String::as_str), Some(line));
        let summary = bench.router.read("e.summary", "").unwrap();
        let wanted = "1 packets transmitted, 1 received, +1 duplicates, 0% packet loss\n\
                      rtt min/avg/max/mdev = 2.000/3.000/4.000/1.000\n";
        assert_eq!(summary, wanted);
        assert_eq!(bench.router.read("e.rtt_max", ""), Ok("0.004000".into()));
        drop(bench);
        assert_eq!(log.borrow().len(), 4);
    }

    #[test]
    fn a_reply_can_be_the_next_request() {
        let mut bench =
            Bench::new("ICMPPingSource", &["1.2.3.4", "5.6.7.8", "MIRROR true", "LIMIT 1"]);
        bench.now_ns = 1_000_000_000;
        assert_eq!(bench.run().len(), 1);
        let mut reply = Frame::bare().ipv4([5, 6, 7, 8], [1, 2, 3, 4]).echo(0, 1, b"abc");
        reply[20] = 0;
        let mut packet = bench.arena.packet(&reply).unwrap();
        packet.set_network_header(0, 20);
        let out = bench.push_packets(0, vec![packet]);
        assert_eq!((out.len(), &out[0].1[26..]), (1, &b"\0\x02abc"[..]));
    }
}
