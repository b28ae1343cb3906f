//! # WebGen
//!
//! ## Synopsis
//! `WebGen(PREFIX, DST, RATE)`
//!
//! ## Ports
//! One push input, one push output.
//!
//! ## Description
//! Loads a web server: opens RATE connections a second to port 80 of DST, each from a random
//! address of PREFIX, and requests one page of a set (`/spec/D/D-C-F`) on each. Packets start with
//! the IP header; sent packets have all checksums. It sends unanswered segments again after a
//! second, up to six times, and answers segments of no connection by a RST.
//!
//! Every five seconds it reports connections opened, completed, timed out and reset.
//!
//! ## Arguments
//! - PREFIX: source addresses.
//! - DST: the server.
//! - RATE: connections a second, at least 1.
//!
//! ## Handlers
//! - `initiated`, `completed`, `timeouts`, `resets` (read): connections, since the start.
//! - `active` (read): connections that are open.
//!
//! ## See also
//! `ToyTCP`, `TCPConn`

use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;

use europa_engine::Ipv4Prefix;

use super::{ACK, FIN, Flow, IP, PSH, RST, SYN, Segment, TCP, before};
use crate::prelude::*;
use crate::shared::fields::{be16, ip_header, network_mut, segment_checksum, set, set_ip_checksum};
use crate::shared::random::Random;

/// Unanswered segments are sent again after this time, and at most this number of times.
const RESEND_NS: u64 = 1_000_000_000;
const RESENDS: u32 = 6;
/// The interval of reports.
const TELL_NS: u64 = 5_000_000_000;
/// Interval in which new connections are opened.
const TICK_NS: u64 = 1_000_000;
const WINDOW: u16 = 60 * 1024;
/// Most open connections, as a multiple of RATE: the longest time that a connection may last, in
/// seconds.
const MOST_SECONDS: usize = 2 * RESENDS as usize;

/// A connection.
struct Connection {
    request: String,
    first: u32,
    /// The next sequence number to send, and the first one that was not acknowledged.
    next: u32,
    unacknowledged: u32,
    /// The next sequence number expected from the other side.
    expected: u32,
    connected: bool,
    got_fin: bool,
    sent_fin: bool,
    must_send: bool,
    resends: u32,
    sent_ns: u64,
}

/// The results of connections.
#[derive(Clone, Copy, Default)]
struct Counts {
    initiated: u64,
    completed: u64,
    timeouts: u64,
    resets: u64,
}

/// Loads a web server.
#[derive(Default)]
pub(crate) struct WebGen {
    prefix: u32,
    mask: u32,
    to: [u8; 4],
    rate: u32,
    /// Connections by flow, in the direction from this end.
    connections: HashMap<Flow, Connection>,
    /// Flows by the time of their last segment, some of them out of date.
    waiting: VecDeque<(u64, Flow)>,
    begun_ns: u64,
    opened: u64,
    identification: u16,
    counts: Counts,
    told: Counts,
    told_ns: u64,
}

impl Class for WebGen {
    const INFO: ClassInfo = ClassInfo::new("WebGen", "1/1").processing("h/h");
}

impl Connection {
    fn new() -> Connection {
        let first = Random.next() & 0x0fff_ffff;
        let (folder, file, class) = (Random.below(10), Random.below(9), Random.below(3));
        Connection {
            request: format!("GET /spec/{folder}/{folder}-{class}-{file} HTTP/1.0\r\n\r\n"),
            first,
            next: first,
            unacknowledged: first,
            expected: 0,
            connected: false,
            got_fin: false,
            sent_fin: false,
            must_send: false,
            resends: 0,
            sent_ns: 0,
        }
    }

    /// Takes a segment in.
    fn receive(&mut self, segment: &Segment) {
        let end = segment.sequence.wrapping_add(segment.length as u32);
        if segment.flags & (ACK | RST) == ACK
            && segment.acknowledged == self.first.wrapping_add(1)
            && !self.connected
        {
            self.next = self.first.wrapping_add(1);
            self.unacknowledged = self.next;
            self.expected = segment.sequence.wrapping_add(1);
            (self.connected, self.must_send) = (true, true);
        } else if segment.length > 0 {
            self.must_send = true;
            if before(self.expected, end) {
                self.expected = end;
            }
        }
        if segment.has(ACK) && before(self.unacknowledged, segment.acknowledged) {
            self.unacknowledged = segment.acknowledged;
        }
        if segment.has(FIN) && end == self.expected && !self.got_fin {
            self.expected = self.expected.wrapping_add(1);
            (self.got_fin, self.must_send) = (true, true);
        }
    }

    /// The next segment: sequence number, acknowledged number, flags and data. `None` if there is
    /// nothing to send.
    fn reply(&mut self) -> Option<(u32, u32, u8, &[u8])> {
        let start = self.first.wrapping_add(1);
        let length = self.request.len() as u32;
        let asks = self.connected && self.unacknowledged.wrapping_sub(start) < length;
        if self.connected && !self.must_send && !asks {
            return None;
        }
        self.must_send = false;
        if !self.connected {
            return Some((self.first, 0, SYN, b""));
        }
        let sequence = match asks {
            true => {
                self.next = start.wrapping_add(length);
                start
            }
            false => self.next.wrapping_add(u32::from(self.sent_fin)),
        };
        let mut flags = ACK;
        flags |= if asks { PSH | FIN } else { 0 };
        flags |= if self.got_fin { FIN } else { 0 };
        self.sent_fin |= flags & FIN != 0;
        let data = if asks { self.request.as_bytes() } else { b"" };
        Some((sequence, self.expected, flags, data))
    }
}

impl WebGen {
    /// Sends a segment of a flow.
    fn send(
        &mut self,
        flow: &Flow,
        (sequence, acknowledged, flags): (u32, u32, u8),
        data: &[u8],
        context: &mut Context<'_>,
    ) {
        let Some(mut packet) = super::make(context, flags, data) else { return };
        let identification = self.identification;
        self.identification = identification.wrapping_add(1);
        if flow.write(&mut packet).is_none() {
            return;
        }
        if let Some((header, segment)) = network_mut(&mut packet) {
            set(header, 1, [0]);
            set(header, 4, identification.to_be_bytes());
            set(header, 6, [0, 0, 250]);
            set_ip_checksum(header);
            set(segment, 4, sequence.to_be_bytes());
            set(segment, 8, acknowledged.to_be_bytes());
            set(segment, 14, WINDOW.to_be_bytes());
            let check = segment_checksum(header, segment);
            set(segment, 16, check.to_be_bytes());
        }
        packet.set_dst_ip(u32::from_be_bytes(self.to));
        context.push(0, packet);
    }

    /// Sends a connection's data; ends it if both sides have ended.
    fn answer(&mut self, flow: Flow, context: &mut Context<'_>) {
        let now_ns = context.now_ns();
        let Some(connection) = self.connections.get_mut(&flow) else { return };
        connection.sent_ns = now_ns;
        let reply = connection.reply();
        let reply = reply.map(|(sequence, acknowledged, flags, data)| {
            ((sequence, acknowledged, flags), data.to_vec())
        });
        let closed = connection.sent_fin && connection.got_fin && reply.is_some();
        if let Some((numbers, data)) = reply {
            self.send(&flow, numbers, &data, context);
        }
        if closed {
            self.connections.remove(&flow);
            self.counts.completed += 1;
        } else {
            self.waiting.push_back((now_ns, flow));
        }
    }

    /// Opens a connection.
    fn open(&mut self, context: &mut Context<'_>) {
        let address = Random.next() & !self.mask | self.prefix & self.mask;
        let port = 1024 + Random.below(60000) as u16;
        let flow = Flow { addresses: [address.to_be_bytes(), self.to], ports: [port, 80] };
        let most = (self.rate as usize).saturating_mul(MOST_SECONDS);
        if self.connections.len() >= most.max(1) || self.connections.contains_key(&flow) {
            return;
        }
        self.connections.insert(flow, Connection::new());
        self.counts.initiated += 1;
        self.answer(flow, context);
    }

    /// Sends unanswered segments again.
    fn resend(&mut self, now_ns: u64, context: &mut Context<'_>) {
        while let Some((sent_ns, flow)) = self.waiting.front().copied() {
            if now_ns.saturating_sub(sent_ns) <= RESEND_NS {
                break;
            }
            self.waiting.pop_front();
            let Some(connection) = self.connections.get_mut(&flow) else { continue };
            if connection.sent_ns != sent_ns {
                continue;
            }
            connection.resends += 1;
            if connection.resends > RESENDS {
                self.connections.remove(&flow);
                self.counts.timeouts += 1;
            } else {
                self.answer(flow, context);
            }
        }
    }

    fn receive(&mut self, packet: &mut Packet, context: &mut Context<'_>) -> Option<()> {
        let data = packet.data();
        let length = ip_header(data)?.len();
        let total = usize::from(be16(data, 2)?);
        if total > data.len() || total < length + TCP {
            return None;
        }
        packet.set_network_header(0, length.max(IP));
        let segment = Segment::of(packet)?;
        let flow = Flow::of(packet)?.reverse();
        let Some(connection) = self.connections.get_mut(&flow) else {
            // A RST with the numbers that the other side expects.
            let numbers = (segment.acknowledged, segment.sequence, RST);
            self.send(&flow, numbers, b"", context);
            return None;
        };
        connection.receive(&segment);
        if segment.has(RST) {
            self.connections.remove(&flow);
            self.counts.resets += 1;
            return None;
        }
        self.answer(flow, context);
        Some(())
    }

    fn tell(&mut self, context: &mut Context<'_>) {
        let (now, before) = (self.counts, self.told);
        context.log(&format!(
            "init: {}  comp: {:5}  tmo: {:5}  rst: {:5}",
            now.initiated - before.initiated,
            now.completed - before.completed,
            now.timeouts - before.timeouts,
            now.resets - before.resets
        ));
        self.told = now;
    }
}

impl Element for WebGen {
    arguments! { this, given;
        let prefix = mandatory "PREFIX": Ipv4Prefix;
        let to = mandatory "DST": Ipv4Addr;
        mandatory "RATE": u32 => this.rate;
        then {
            (this.prefix, this.mask) = (prefix.network(), prefix.mask());
            this.to = to.octets();
            if !(1..=1_000_000).contains(&this.rate) {
                return Err(ConfigError::other("RATE must be between 1 and 1000000"));
            }
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        (self.begun_ns, self.told_ns) = (context.now_ns(), context.now_ns());
        context.schedule(0, self.begun_ns);
        Ok(())
    }

    fn run_timer(&mut self, _: u32, context: &mut Context<'_>) {
        let now_ns = context.now_ns();
        let gone = u128::from(now_ns.saturating_sub(self.begun_ns));
        let due = u64::try_from(gone * u128::from(self.rate) / 1_000_000_000).unwrap_or(u64::MAX);
        // After a delay, at most the connections of one second are made up for.
        self.opened = self.opened.max(due.saturating_sub(u64::from(self.rate)));
        while self.opened < due {
            self.opened += 1;
            self.open(context);
        }
        self.resend(now_ns, context);
        if now_ns.saturating_sub(self.told_ns) > TELL_NS {
            self.told_ns = now_ns;
            self.tell(context);
        }
        context.schedule(0, now_ns.saturating_add(TICK_NS));
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let mut own = context.take_batch();
        own.append(batch);
        for mut packet in own.drain() {
            self.receive(&mut packet, context);
        }
        context.give_batch(own);
    }

    handlers! { this, context, value;
        read "initiated" => this.counts.initiated;
        read "completed" => this.counts.completed;
        read "timeouts" => this.counts.timeouts;
        read "resets" => this.counts.resets;
        read "active" => this.connections.len();
    }
}

#[cfg(test)]
mod tests;
