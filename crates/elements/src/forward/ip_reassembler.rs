//! # IPReassembler
//!
//! ## Synopsis
//! `IPReassembler([HIMEM, MAX_MTU_ANNO])`
//!
//! ## Ports
//! One input, one or two outputs; output 0 push or pull, output 1 push.
//!
//! ## Description
//! Reassembles fragmented IPv4 packets; others pass. The network header annotation must be set. The
//! link header is that of the first fragment. Fragments are dropped, or leave by output 1, if their
//! packet
//! - is incomplete 30 seconds after its first fragment came (RFC 1122 section 3.3.2);
//! - is the oldest incomplete packet when there is no room for more, in bytes (HIMEM) or in packets
//!   (PACKETS);
//! - has more than 64 fragments;
//! - fits into no buffer.
//!
//! ## Arguments
//! - HIMEM (keyword): bytes of fragments that are kept, default 262144. When this is exceeded, the
//!   oldest packets are removed until a quarter of it is free.
//! - PACKETS (keyword): fragments that are kept. The default and the maximum are an eighth of the
//!   router's packet pool, shared by all elements that keep fragments.
//! - MAX_MTU_ANNO (keyword): two bytes of the annotation area, by name or offset, which get the
//!   length of the longest fragment.
//!
//! ## Handlers
//! - `drops` (read): fragments dropped or sent by output 1.
//! - `fragments` (read): fragments that wait.
//! - `size` (read): packets that are being reassembled.
//!
//! ## See also
//! `IPFragmenter`, `CheckIPHeader`

mod store;

use self::store::{Added, Fragment, Key, Store};
use crate::prelude::*;
use crate::shared::annotation::Annotation;
use crate::shared::fields::{
    be16, be32, grow_tail, is_fragment, network, network_mut, set, set_ip_checksum,
};

/// Puts fragments together.
#[derive(Default)]
pub(crate) struct IPReassembler {
    waiting: Store,
    most_bytes: usize,
    most_packets: usize,
    mtu_annotation: Option<usize>,
    drops: u64,
}

impl Class for IPReassembler {
    const INFO: ClassInfo = ClassInfo::new("IPReassembler", "1/1-2").processing("a/ah").consumes();
}

/// Time that fragments wait (RFC 1122 section 3.3.2: 60 to 120 seconds in a host; a router waits
/// less, as Click does).
const TIMEOUT_NS: u64 = 30_000_000_000;

/// Key, offset, length of the payload, and whether more follow.
fn describe(packet: &Packet) -> Option<(Key, usize, usize, bool)> {
    let (header, rest) = network(packet)?;
    let field = be16(header, 6)?;
    let key = (be32(header, 12)?, be32(header, 16)?, be16(header, 4)?, *header.get(9)?);
    let length = usize::from(be16(header, 2)?).checked_sub(header.len())?;
    let more = field & 0x2000 != 0;
    // Only the last fragment may end anywhere.
    let fits = length <= rest.len() && length > 0 && (!more || length.is_multiple_of(8));
    fits.then_some((key, usize::from(field & 0x1fff) * 8, length, more))
}

/// Makes room for a payload of `length` bytes behind the header of the first fragment.
fn make_room(first: &mut Packet, length: usize) -> Option<()> {
    let header_len = network(first)?.0.len();
    let start = first.network_offset()? + header_len as isize;
    let end = usize::try_from(start).ok()? + length;
    match end.checked_sub(first.len()) {
        _ if header_len + length > 65535 => None,
        Some(missing) if missing > 0 => grow_tail(first, missing).map(drop),
        _ => Some(()),
    }
}

/// Copies a later fragment's payload to its place.
fn fill(whole: &mut Packet, fragment: &Fragment) -> Option<()> {
    let (_, rest) = network(&fragment.packet)?;
    let (_, payload) = network_mut(whole)?;
    let to = payload.get_mut(fragment.offset..fragment.offset + fragment.length)?;
    to.copy_from_slice(rest.get(..fragment.length)?);
    Some(())
}

impl IPReassembler {
    /// Adds a fragment; returns the packet if this fragment completes it.
    fn add(&mut self, packet: Packet, context: &mut Context<'_>) -> Option<Packet> {
        let Some((key, offset, length, more)) = describe(&packet) else {
            self.refuse(packet, context);
            return None;
        };
        while self.waiting.is_full() || self.waiting.fragments() >= self.most_packets {
            let Some((oldest, _)) = self.waiting.oldest() else {
                self.refuse(packet, context);
                return None;
            };
            self.give_up(oldest, context);
        }
        let now_ns = context.now_ns();
        if self.waiting.len() == 0 {
            context.schedule(0, now_ns.saturating_add(TIMEOUT_NS));
        }
        let fragment = Fragment { packet, offset, length };
        match self.waiting.add(key, fragment, !more, now_ns.saturating_add(TIMEOUT_NS)) {
            Added::Complete => return self.join(key, context),
            Added::Twice(packet) => self.refuse(packet, context),
            Added::TooMany(packet) => {
                self.refuse(packet, context);
                self.give_up(key, context);
            }
            Added::Waits => {}
        }
        if self.waiting.bytes() > self.most_bytes {
            while self.waiting.bytes() > self.most_bytes / 4 * 3
                && let Some((oldest, _)) = self.waiting.oldest()
            {
                self.give_up(oldest, context);
            }
        }
        None
    }

    /// Joins all fragments in the buffer of the first one, if they fit.
    fn join(&mut self, key: Key, context: &mut Context<'_>) -> Option<Packet> {
        let (mut whole, mut longest, mut refused) = (None, 0, 0);
        let length = self.waiting.length(key)?;
        self.waiting.remove(key, |mut fragment| {
            longest = longest.max(fragment.packet.network_len());
            match &mut whole {
                Some(whole) => drop(fill(whole, &fragment)),
                None if refused == 0 && make_room(&mut fragment.packet, length).is_some() => {
                    whole = Some(fragment.packet);
                }
                None => {
                    refused += 1;
                    context.push(1, fragment.packet);
                }
            }
        });
        self.drops += refused;
        let mut whole = whole?;
        let header_len = network(&whole)?.0.len();
        if let Some(header) = whole.network_header_mut() {
            // Both lengths fit into 16 bits, as checked before.
            set(header, 2, ((header_len + length) as u16).to_be_bytes());
            let keep = be16(header, 6).unwrap_or(0) & 0xc000;
            set(header, 6, keep.to_be_bytes());
            set_ip_checksum(header);
        }
        if let Some(at) = self.mtu_annotation {
            // A fragment had at most 65535 bytes.
            whole.set_annotation(at, (longest as u16).to_ne_bytes());
        }
        Some(whole)
    }

    fn refuse(&mut self, packet: Packet, context: &mut Context<'_>) {
        self.drops += 1;
        context.push(1, packet);
    }

    fn give_up(&mut self, key: Key, context: &mut Context<'_>) {
        let drops = &mut self.drops;
        self.waiting.remove(key, |fragment| {
            *drops += 1;
            context.push(1, fragment.packet);
        });
    }

    /// Sets the timer to the time when the oldest packet expires.
    fn set_alarm(&self, context: &mut Context<'_>) {
        if let Some((_, expires_ns)) = self.waiting.oldest() {
            context.schedule(0, expires_ns);
        }
    }
}

impl Element for IPReassembler {
    arguments! { this, given;
        keyword "HIMEM": usize = 256 * 1024 => this.most_bytes;
        keyword "PACKETS": usize = usize::MAX => this.most_packets;
        keyword "MAX_MTU_ANNO": Annotation<2>, with |at| at.map(Annotation::at) => this.mtu_annotation;
        then {
            if this.most_packets == 0 {
                return Err(ConfigError::other("PACKETS must be at least 1"));
            }
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.waiting.set_share(context.share(Purpose::Fragments));
        Ok(())
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let fragment =
            |packet: &Packet| network(packet).is_some_and(|(header, _)| is_fragment(header));
        if !batch.iter().any(fragment) {
            return;
        }
        let mut out = context.take_batch();
        for packet in batch.drain() {
            let whole = if fragment(&packet) { self.add(packet, context) } else { Some(packet) };
            // At most as many as came.
            let _ = whole.map(|whole| out.push(whole));
        }
        batch.append(&mut out);
        context.give_batch(out);
    }

    fn run_timer(&mut self, _: u32, context: &mut Context<'_>) {
        let now_ns = context.now_ns();
        while let Some((oldest, _)) =
            self.waiting.oldest().filter(|(_, expires_ns)| *expires_ns <= now_ns)
        {
            self.give_up(oldest, context);
        }
        self.set_alarm(context);
    }

    keep! { this, old;
        then {
            this.waiting.take_over(&mut old.waiting, this.most_packets);
        }
    }

    fn resume(&mut self, context: &mut Context<'_>) {
        self.set_alarm(context);
    }

    handlers! { this, context, value;
        read "drops" => this.drops;
        read "fragments" => this.waiting.fragments();
        read "size" => this.waiting.len();
    }
}

#[cfg(test)]
mod tests {
    use crate::shared::fields::set_ip_checksum;
    use crate::testing::{Bench, ip_packet};

    /// A fragment of `length` bytes from byte `at` on.
    fn fragment(at: usize, length: usize, more: bool) -> Vec<u8> {
        let payload: Vec<u8> = (at..at + length).map(|n| n as u8).collect();
        let mut packet = ip_packet(1, 2, 9, &payload);
        let field = (at / 8) as u16 | if more { 0x2000 } else { 0 };
        packet[6..8].copy_from_slice(&field.to_be_bytes());
        set_ip_checksum(&mut packet);
        packet
    }

    fn push(bench: &mut Bench, bytes: &[u8]) -> Vec<(usize, Vec<u8>)> {
        let mut packet = bench.arena.packet(bytes).unwrap();
        packet.set_network_header(0, 20);
        bench.push_packets(0, vec![packet])
    }

    #[test]
    fn fragments_come_together_in_any_order() {
        let whole = ip_packet(1, 2, 9, &(0..29).collect::<Vec<u8>>());
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let mut bench = Bench::new("IPReassembler", &["MAX_MTU_ANNO 20"]);
            let pieces = [fragment(0, 16, true), fragment(16, 8, true), fragment(24, 5, false)];
            let out: Vec<_> = order.iter().flat_map(|n| push(&mut bench, &pieces[*n])).collect();
            assert_eq!(out, [(0, whole.clone())], "{order:?}");
            assert_eq!(u16::from_ne_bytes(bench.out[0].1.annotation(20)), 36);
            assert_eq!(bench.router.read("e.size", ""), Ok("0".into()));
        }
    }

    #[test]
    fn incomplete_packets_are_given_up() {
        let mut bench = Bench::new("IPReassembler", &[]);
        assert_eq!(push(&mut bench, &fragment(0, 16, true)), []);
        assert_eq!(push(&mut bench, &ip_packet(1, 2, 9, b"x")).len(), 1);
        bench.now_ns = 41_000_000_000;
        assert_eq!(bench.run(), [(1, fragment(0, 16, true))]);
        let mut bench = Bench::new("IPReassembler", &["HIMEM 100"]);
        let out: Vec<_> =
            (0..4).flat_map(|n| push(&mut bench, &fragment(n * 16, 16, true))).collect();
        assert_eq!(out.len(), 3);
        // A middle fragment is invalid if its length is no multiple of eight bytes.
        assert_eq!(push(&mut bench, &fragment(16, 5, true))[0].0, 1);
    }

    /// A fragment of the packet of this number.
    fn fragment_of(id: u16, at: usize) -> Vec<u8> {
        let mut packet = fragment(at, 8, true);
        packet[4..6].copy_from_slice(&id.to_be_bytes());
        set_ip_checksum(&mut packet);
        packet
    }

    fn number(bench: &mut Bench, handler: &str) -> usize {
        bench.router.read(&format!("e.{handler}"), "").unwrap().parse().unwrap()
    }

    #[test]
    fn n14_many_small_fragments_leave_the_pool_to_others() {
        for (arguments, most) in [(&[][..], 1024 / 8), (&["PACKETS 20"], 20)] {
            let mut bench = Bench::with_outputs("IPReassembler", arguments, 1);
            for id in 0..2000 {
                push(&mut bench, &fragment_of(id, 8));
                assert_eq!(bench.arena.capacity() - bench.arena.free(), number(&mut bench, "size"));
            }
            // The newest fragments are kept, and HIMEM is not reached.
            assert_eq!(
                (number(&mut bench, "size"), number(&mut bench, "drops")),
                (most, 2000 - most)
            );
            let out = push(&mut bench, &ip_packet(1, 2, 9, b"x"));
            assert_eq!(out.len(), 1, "others pass");
        }
    }

    #[test]
    fn a_packet_of_too_many_fragments_is_given_up() {
        let mut bench = Bench::new("IPReassembler", &[]);
        for n in 0..64 {
            assert_eq!(push(&mut bench, &fragment_of(1, n * 8)), []);
        }
        assert_eq!(push(&mut bench, &fragment_of(1, 0)).len(), 1, "twice");
        assert_eq!(push(&mut bench, &fragment_of(1, 64 * 8)).len(), 65);
        assert_eq!(number(&mut bench, "fragments"), 0);
    }

    #[test]
    fn a_packet_expires_after_its_first_fragment() {
        let mut bench = Bench::new("IPReassembler", &[]);
        for second in [0, 10, 20, 29] {
            bench.now_ns = second * 1_000_000_000;
            assert_eq!(push(&mut bench, &fragment_of(1, second as usize * 8)), []);
        }
        bench.now_ns = 30_000_000_000;
        assert_eq!(bench.run().len(), 4);
        assert_eq!(bench.router.next_timer_ns(), None, "nothing waits");
    }
}
