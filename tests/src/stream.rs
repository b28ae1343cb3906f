//! A stream of UDP packets that are numbered and checked one by one.
//!
//! `iperf3` counts arriving packets; this gives the result for each packet: lost, repeated, late,
//! changed, or foreign.

use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::command::Error;
use crate::namespace::Namespace;

/// Longest time that a stopped sink waits for packets under way, and longest gap between two of
/// them: a machine may stand still for a while.
const UNDER_WAY: Duration = Duration::from_secs(2);
const SILENCE: Duration = Duration::from_millis(500);

/// Packets that a paced stream has under way at most: less than a router's default pool holds.
const MOST_UNDER_WAY: u64 = 256;
/// A paced stream counts its first packet as lost after this time.
const FIRST_ALONE: Duration = Duration::from_secs(2);
/// The first packet of a stream that no sink paces has this much time to arrive.
const FIRST_ALONE_UNSEEN: Duration = Duration::from_millis(20);
/// After this time without a packet at the sink, a paced stream counts packets under way as lost.
const TAKEN_FOR_LOST: Duration = Duration::from_millis(500);

/// magic, stream, sequence number, checksum: 8 bytes each.
const HEADER_BYTES: usize = 32;
const MAGIC: u64 = u64::from_be_bytes(*b"europa-1");
/// Number of sequence numbers that a sink remembers, to distinguish late packets from doubled ones.
const WINDOW: u64 = 1 << 16;

/// FNV-1a over stream, sequence number and payload.
fn checksum(stream: u64, sequence: u64, payload: &[u8]) -> u64 {
    let header = stream.to_be_bytes().into_iter().chain(sequence.to_be_bytes());
    header.chain(payload.iter().copied()).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Writes packet `sequence` of a stream; its payload differs from packet to packet.
fn write(packet: &mut [u8], stream: u64, sequence: u64) {
    let mut state = stream ^ sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for byte in &mut packet[HEADER_BYTES..] {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        *byte = (state >> 56) as u8;
    }
    let sum = checksum(stream, sequence, &packet[HEADER_BYTES..]);
    for (field, value) in packet.chunks_exact_mut(8).zip([MAGIC, stream, sequence, sum]) {
        field.copy_from_slice(&value.to_be_bytes());
    }
}

/// Stream and sequence number of a packet; `None` if its bytes are wrong.
fn read(packet: &[u8]) -> Option<(u64, u64)> {
    let field = |index: usize| -> Option<u64> {
        Some(u64::from_be_bytes(packet.get(index * 8..index * 8 + 8)?.try_into().ok()?))
    };
    let (stream, sequence) = (field(1)?, field(2)?);
    let whole =
        field(0)? == MAGIC && field(3)? == checksum(stream, sequence, &packet[HEADER_BYTES..]);
    whole.then_some((stream, sequence))
}

/// The results for a stream's packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Packets that arrived for the first time, unchanged.
    pub packets: u64,
    /// Packets that were sent and did not arrive, by the number that `Stream::stop` returns.
    pub lost: u64,
    /// Packets that arrived once more.
    pub duplicates: u64,
    /// Packets that arrived after a later one.
    pub late: u64,
    /// Packets with wrong bytes.
    pub corrupted: u64,
    /// Whole packets of another stream.
    pub foreign: u64,
    /// The longest time without a packet.
    pub longest_gap: Duration,
}

impl Received {
    /// Whether every packet arrived once, in order and unchanged, and no foreign packet arrived.
    pub fn is_perfect(&self) -> bool {
        let bad = self.lost + self.duplicates + self.late + self.corrupted + self.foreign;
        self.packets > 0 && bad == 0
    }
}

/// Judges packets one after the other.
#[derive(Debug)]
struct Judge {
    stream: u64,
    received: Received,
    next: u64,
    /// For each of the `WINDOW` numbers before `next`, whether it arrived; the last entry is `next
    /// - 1`.
    seen: VecDeque<bool>,
}

impl Judge {
    fn new(stream: u64) -> Judge {
        Judge { stream, received: Received::default(), next: 0, seen: VecDeque::new() }
    }

    fn take(&mut self, packet: &[u8]) {
        let Some((stream, sequence)) = read(packet) else {
            self.received.corrupted += 1;
            return;
        };
        if stream != self.stream {
            self.received.foreign += 1;
            return;
        }
        if sequence < self.next {
            let back = usize::try_from(self.next - sequence).unwrap_or(usize::MAX);
            let seen = self.seen.len().checked_sub(back).and_then(|at| self.seen.get_mut(at));
            match seen {
                Some(seen) if !*seen => {
                    *seen = true;
                    self.received.late += 1;
                    self.received.packets += 1;
                }
                // A number below the window counts as a duplicate: late and doubled packets are
                // both faults.
                _ => self.received.duplicates += 1,
            }
            return;
        }
        for _ in 0..(sequence - self.next).min(WINDOW) {
            self.seen.push_back(false);
        }
        self.seen.push_back(true);
        let too_many = self.seen.len().saturating_sub(WINDOW as usize);
        self.seen.drain(..too_many);
        self.next = sequence + 1;
        self.received.packets += 1;
    }
}

/// The receiving end of a stream.
#[derive(Debug)]
pub struct Sink {
    stop: Arc<AtomicBool>,
    /// How many packets a stopped sink waits for.
    wanted: Arc<AtomicU64>,
    packets: Arc<AtomicU64>,
    /// The number after the highest one that arrived.
    next: Arc<AtomicU64>,
    thread: Option<JoinHandle<Received>>,
}

/// The sending end of a stream.
#[derive(Debug)]
pub struct Stream {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    /// The sink's count of packets, if the stream is paced.
    seen: Arc<OnceLock<Arc<AtomicU64>>>,
    /// Most packets under way, if the stream is paced.
    most: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Namespace {
    /// Begins to receive stream `stream` at an address inside.
    ///
    /// # Errors
    /// The address is not inside, or is in use.
    pub fn sink(&self, at: &str, stream: u64) -> Result<Sink, Error> {
        let socket = self.socket(at)?;
        // A preempted sink must not look like a router that loses packets.
        let _ = nix::sys::socket::setsockopt(
            &socket,
            nix::sys::socket::sockopt::RcvBufForce,
            &(64 << 20),
        );
        let (stop, packets) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counter) = (Arc::clone(&stop), Arc::clone(&packets));
        let wanted = Arc::new(AtomicU64::new(0));
        let wants = Arc::clone(&wanted);
        let next = Arc::new(AtomicU64::new(0));
        let progress = Arc::clone(&next);
        socket
            .set_read_timeout(Some(Duration::from_millis(20)))
            .map_err(Error::io("a socket's time limit"))?;
        let thread = thread::spawn(move || {
            let mut judge = Judge::new(stream);
            let mut buffer = [0; 65536];
            let mut last: Option<Instant> = None;
            let mut patience: Option<Instant> = None;
            loop {
                // A test that fails may drop a sink while its stream continues.
                if stopped.load(Ordering::Relaxed)
                    && patience.get_or_insert_with(Instant::now).elapsed() > UNDER_WAY
                {
                    return judge.received;
                }
                match socket.recv(&mut buffer) {
                    Ok(length) => {
                        let now = Instant::now();
                        let gap = last.map_or(Duration::ZERO, |last| now - last);
                        judge.received.longest_gap = judge.received.longest_gap.max(gap);
                        last = Some(now);
                        judge.take(&buffer[..length]);
                        counter.store(judge.received.packets, Ordering::Relaxed);
                        progress.store(judge.next, Ordering::Relaxed);
                    }
                    // No packet came for 20 ms. If no packet is missing, no packet can come any
                    // more.
                    Err(_) if stopped.load(Ordering::Relaxed) => {
                        let stopped = patience.get_or_insert_with(Instant::now);
                        let quiet = last.map_or(*stopped, |last| last.max(*stopped)).elapsed();
                        let missing = judge.received.packets < wants.load(Ordering::Relaxed);
                        if !missing || quiet > SILENCE {
                            return judge.received;
                        }
                    }
                    Err(_) => {}
                }
            }
        });
        Ok(Sink { stop, wanted, packets, next, thread: Some(thread) })
    }

    /// Begins to send stream `stream` to an address: `rate` packets a second whose UDP
    /// payload is `bytes` long (at least 32).
    ///
    /// # Errors
    /// No socket can be made.
    pub fn stream(&self, to: &str, stream: u64, rate: u32, bytes: usize) -> Result<Stream, Error> {
        self.stream_of(to, stream, rate, &[bytes])
    }

    /// Like [`Namespace::stream`], with payloads of these lengths in turn.
    ///
    /// # Errors
    /// No socket can be made.
    pub fn stream_of(
        &self,
        to: &str,
        stream: u64,
        rate: u32,
        bytes: &[usize],
    ) -> Result<Stream, Error> {
        let wrong = |error: std::net::AddrParseError| {
            Error::io(format!("{to} is no address"))(std::io::Error::other(error))
        };
        let to: SocketAddr = to.parse().map_err(wrong)?;
        let socket = self.socket(if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counter) = (Arc::clone(&stop), Arc::clone(&sent));
        let (seen, most) = (Arc::new(OnceLock::new()), Arc::new(AtomicU64::new(MOST_UNDER_WAY)));
        let mut pace = Pace::new(Arc::clone(&seen), Arc::clone(&most));
        let mut packets: Vec<_> =
            bytes.iter().map(|bytes| vec![0; (*bytes).max(HEADER_BYTES)]).collect();
        let thread = thread::spawn(move || {
            let mut start = Instant::now();
            let mut sequence = 0_u64;
            while !stopped.load(Ordering::Relaxed) {
                if sequence == 1 && pace.is_alone() {
                    thread::sleep(Duration::from_micros(200));
                    start = Instant::now();
                    continue;
                }
                let due = (start.elapsed().as_secs_f64() * f64::from(rate)) as u64;
                // After a pause it sends few packets at once: a long burst could itself cause
                // losses.
                let most = if sequence == 0 { 1 } else { 32 };
                let may = due.saturating_sub(sequence).min(most);
                for _ in 0..may.min(pace.room(sequence)) {
                    let turn = sequence as usize % packets.len().max(1);
                    let Some(packet) = packets.get_mut(turn) else { return };
                    write(packet, stream, sequence);
                    // The kernel did not send a refused frame, so the next frame gets its number.
                    if socket.send_to(packet, to).is_ok() {
                        sequence += 1;
                        counter.store(sequence, Ordering::Relaxed);
                    }
                }
                thread::sleep(Duration::from_micros(200));
            }
        });
        Ok(Stream { stop, sent, seen, most, thread: Some(thread) })
    }

    /// Makes a UDP socket inside. A new thread enters the namespace, makes the socket, and ends.
    fn socket(&self, at: &str) -> Result<UdpSocket, Error> {
        let (namespace, at) = (self.clone(), at.to_owned());
        let make = move || {
            namespace.enter()?;
            UdpSocket::bind(&at).map_err(Error::io(format!("cannot bind {at}")))
        };
        let panicked = |_| Error::io("a thread")(std::io::Error::other("panicked"));
        thread::spawn(make).join().map_err(panicked)?
    }
}

/// Bounds the number of packets that a stream has under way.
struct Pace {
    seen: Arc<OnceLock<Arc<AtomicU64>>>,
    most: Arc<AtomicU64>,
    begun: Instant,
    last: u64,
    since: Instant,
}

impl Pace {
    fn new(seen: Arc<OnceLock<Arc<AtomicU64>>>, most: Arc<AtomicU64>) -> Pace {
        let now = Instant::now();
        Pace { seen, most, begun: now, last: 0, since: now }
    }

    /// Whether the first packet travels alone: until it has arrived. Packets that wait for an ARP
    /// or ND answer can be overtaken by packets that are sent when it arrives. The reasons: the
    /// kernel of a host sends the queue of a neighbour without a lock, and a slow path is slower
    /// than the fast path behind it.
    fn is_alone(&self) -> bool {
        match self.seen.get() {
            Some(seen) => seen.load(Ordering::Relaxed) == 0 && self.begun.elapsed() < FIRST_ALONE,
            None => self.begun.elapsed() < FIRST_ALONE_UNSEEN,
        }
    }

    /// Number of packets that may follow the first `sent` packets.
    fn room(&mut self, sent: u64) -> u64 {
        let Some(seen) = self.seen.get() else { return u64::MAX };
        let seen = seen.load(Ordering::Relaxed);
        if seen > self.last {
            (self.last, self.since) = (seen, Instant::now());
        } else if self.since.elapsed() > TAKEN_FOR_LOST {
            (self.last, self.since) = (sent, Instant::now());
        }
        self.most.load(Ordering::Relaxed).saturating_sub(sent.saturating_sub(self.last))
    }
}

impl Stream {
    /// Paces the stream by `sink`: the stream has at most `MOST_UNDER_WAY` packets under way,
    /// which fit into the buffers on the way. A machine that stands still for a moment then loses
    /// nothing, so every lost packet is a router's loss.
    #[must_use]
    pub fn paced_by(self, sink: &Sink) -> Stream {
        let _ = self.seen.set(Arc::clone(&sink.next));
        self
    }

    /// Sets the most packets that a paced stream has under way.
    #[must_use]
    pub fn at_most(self, packets: u64) -> Stream {
        self.most.store(packets, Ordering::Relaxed);
        self
    }

    /// Number of packets sent so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Ends the stream and returns the number of sent packets.
    pub fn stop(mut self) -> u64 {
        self.end();
        self.sent.load(Ordering::Relaxed)
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.end();
    }
}

impl Sink {
    /// Number of packets received so far.
    pub fn packets(&self) -> u64 {
        self.packets.load(Ordering::Relaxed)
    }

    /// Waits for packets under way; returns the results for `sent` packets.
    pub fn stop(mut self, sent: u64) -> Received {
        self.wanted.store(sent, Ordering::Relaxed);
        let mut received = self.end();
        received.lost = sent.saturating_sub(received.packets);
        received
    }

    fn end(&mut self) -> Received {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(stream: u64, sequence: u64) -> Vec<u8> {
        let mut packet = vec![0; 100];
        write(&mut packet, stream, sequence);
        packet
    }

    #[test]
    fn judgements() {
        for (numbers, packets, duplicates, late) in [
            (&[0, 1, 2, 3][..], 4, 0, 0),
            (&[0, 2, 3], 3, 0, 0),
            (&[0, 2, 1, 3], 4, 0, 1),
            (&[0, 1, 1, 2], 3, 1, 0),
            (&[0, 2, 1, 1], 3, 1, 1),
            (&[5, 0], 2, 0, 1),
            (&[0, 200_000, 199_999, 1], 3, 1, 1),
        ] {
            let mut judge = Judge::new(7);
            numbers.iter().for_each(|number| judge.take(&packet(7, *number)));
            let received = judge.received;
            assert_eq!(
                (received.packets, received.duplicates, received.late),
                (packets, duplicates, late),
                "{numbers:?}"
            );
        }
    }

    #[test]
    fn a_stream_goes_on_without_its_first_packet() {
        let seen = Arc::new(OnceLock::from(Arc::new(AtomicU64::new(0))));
        let mut pace = Pace::new(seen, Arc::new(AtomicU64::new(8)));
        assert!(pace.is_alone());
        let long_ago = |time: Instant| time.checked_sub(FIRST_ALONE).expect("an uptime");
        (pace.begun, pace.since) = (long_ago(pace.begun), long_ago(pace.since));
        assert_eq!(pace.room(1), 8, "what was sent is taken for lost");
        assert!(!pace.is_alone());
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        for at in 0..100 {
            let mut judge = Judge::new(7);
            let mut packet = packet(7, 0);
            packet[at] ^= 0x40;
            judge.take(&packet);
            assert_eq!(judge.received.corrupted, 1, "byte {at}");
        }
        let mut judge = Judge::new(7);
        judge.take(&packet(8, 0));
        judge.take(&packet(7, 0)[..99]);
        judge.take(&[]);
        assert_eq!((judge.received.foreign, judge.received.corrupted), (1, 2));
    }
}
