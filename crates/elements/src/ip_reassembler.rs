//! # IPReassembler
//!
//! ## Synopsis
//! `IPReassembler([HIMEM, MAX_MTU_ANNO])`
//!
//! ## Ports
//! One input, one or two outputs; output 0 push or pull, output 1 push.
//!
//! ## Description
//! Puts fragmented IPv4 packets together again; others pass. The network header annotation must be
//! set. The link header is that of the first fragment. Fragments of packets that stay incomplete
//! for 30 seconds are dropped, or leave by output 1, and so are the oldest ones when there are too
//! many, and packets that fit into no buffer.
//!
//! ## Arguments
//! - HIMEM (keyword): bytes of fragments that are kept, default 262144.
//! - MAX_MTU_ANNO (keyword): offset of two bytes of the annotation area, which get the length of
//!   the longest fragment.
//!
//! ## Handlers
//! - `drops` (read): fragments dropped or sent by output 1.
//! - `size` (read): packets that are being put together.
//!
//! ## See also
//! `IPFragmenter`, `CheckIPHeader`

use std::collections::BTreeMap;

use crate::fields::{
    be16, be32, grow_tail, is_fragment, network, network_mut, set, set_ip_checksum,
};
use crate::prelude::*;

/// Source, destination, identification and protocol.
type Key = (u32, u32, u16, u8);

/// Fragments of a packet.
struct Pieces {
    /// Offset of the payload, and the fragment, in any order.
    fragments: Vec<(usize, Packet)>,
    /// Length of the whole payload, once the last fragment has come.
    length: Option<usize>,
    bytes: usize,
    expires_ns: u64,
}

/// Puts fragments together.
pub(crate) struct IPReassembler {
    waiting: BTreeMap<Key, Pieces>,
    bytes: usize,
    most_bytes: usize,
    mtu_annotation: Option<usize>,
    drops: u64,
}

impl Default for IPReassembler {
    fn default() -> IPReassembler {
        IPReassembler {
            waiting: BTreeMap::new(),
            bytes: 0,
            most_bytes: 256 * 1024,
            mtu_annotation: None,
            drops: 0,
        }
    }
}

impl Class for IPReassembler {
    const INFO: ClassInfo = ClassInfo::new("IPReassembler", "1/1-2").processing("a/ah");
}

/// How long fragments wait (RFC 791 proposes 15 seconds at least).
const TIMEOUT_NS: u64 = 30_000_000_000;
/// How often it is looked for those that have waited long enough.
const ALARM_NS: u64 = 10_000_000_000;

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

impl Pieces {
    /// Whether the payload is there from the start to the end.
    fn is_complete(&mut self) -> bool {
        let Some(length) = self.length else { return false };
        self.fragments.sort_by_key(|(offset, _)| *offset);
        let mut reached = 0;
        for (offset, packet) in &self.fragments {
            if *offset > reached {
                return false;
            }
            let end = offset + describe(packet).map_or(0, |(_, _, length, _)| length);
            reached = reached.max(end);
        }
        reached >= length
    }

    /// One packet of all fragments. Gives them back if it fits into no buffer.
    fn join(mut self, annotation: Option<usize>) -> Result<Packet, Pieces> {
        let longest =
            self.fragments.iter().map(|(_, packet)| packet.network_len()).max().unwrap_or(0);
        let Some((0, first)) = self.fragments.first_mut() else { return Err(self) };
        let Some(length) = self.length else { return Err(self) };
        let header_len = network(first).map_or(20, |(header, _)| header.len());
        let start = first.network_offset().unwrap_or(0) + header_len as isize;
        let end = usize::try_from(start).unwrap_or(0) + length;
        if header_len + length > 65535
            || (end > first.len() && grow_tail(first, end - first.len()).is_none())
        {
            return Err(self);
        }
        let mut fragments = self.fragments.into_iter();
        // It was there.
        let Some((_, mut whole)) = fragments.next() else {
            return Err(Pieces { fragments: Vec::new(), length: None, bytes: 0, expires_ns: 0 });
        };
        for (offset, packet) in fragments {
            let (Some((_, _, length, _)), Some((_, rest))) = (describe(&packet), network(&packet))
            else {
                continue;
            };
            if let Some((_, payload)) = network_mut(&mut whole)
                && let (Some(to), Some(from)) =
                    (payload.get_mut(offset..offset + length), rest.get(..length))
            {
                to.copy_from_slice(from);
            }
        }
        if let Some(header) = whole.network_header_mut() {
            set(header, 2, ((header_len + length) as u16).to_be_bytes());
            let keep = be16(header, 6).unwrap_or(0) & 0xc000;
            set(header, 6, keep.to_be_bytes());
            set_ip_checksum(header);
        }
        if let Some(at) = annotation {
            // A fragment had at most 65535 bytes.
            whole.set_annotation(at, (longest as u16).to_ne_bytes());
        }
        Ok(whole)
    }
}

impl IPReassembler {
    /// The packet that is complete with this fragment, if it is.
    fn add(&mut self, packet: Packet, context: &mut Context<'_>) -> Option<Packet> {
        let now_ns = context.now_ns();
        let Some((key, offset, length, more)) = describe(&packet) else {
            self.drops += 1;
            context.push(1, packet);
            return None;
        };
        let bytes = packet.len();
        let pieces = self.waiting.entry(key).or_insert_with(|| Pieces {
            fragments: Vec::new(),
            length: None,
            bytes: 0,
            expires_ns: 0,
        });
        pieces.fragments.push((offset, packet));
        pieces.bytes += bytes;
        pieces.expires_ns = now_ns.saturating_add(TIMEOUT_NS);
        if !more {
            pieces.length = Some(offset + length);
        }
        self.bytes += bytes;
        if pieces.is_complete() {
            let pieces = self.waiting.remove(&key)?;
            self.bytes -= pieces.bytes;
            return match pieces.join(self.mtu_annotation) {
                Ok(packet) => Some(packet),
                Err(pieces) => {
                    self.refuse(pieces, context);
                    None
                }
            };
        }
        if self.bytes > self.most_bytes {
            self.shrink(self.most_bytes / 4 * 3, context);
        }
        None
    }

    fn refuse(&mut self, pieces: Pieces, context: &mut Context<'_>) {
        self.drops += pieces.fragments.len() as u64;
        for (_, packet) in pieces.fragments {
            context.push(1, packet);
        }
    }

    /// Gives up the oldest until there are at most so many bytes.
    fn shrink(&mut self, bytes: usize, context: &mut Context<'_>) {
        while self.bytes > bytes {
            let oldest = self.waiting.iter().min_by_key(|(_, pieces)| pieces.expires_ns);
            let Some(key) = oldest.map(|(key, _)| *key) else { return };
            self.give_up(key, context);
        }
    }

    fn give_up(&mut self, key: Key, context: &mut Context<'_>) {
        if let Some(pieces) = self.waiting.remove(&key) {
            self.bytes -= pieces.bytes;
            self.refuse(pieces, context);
        }
    }
}

impl Element for IPReassembler {
    fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        self.most_bytes = arguments.keyword("HIMEM")?.unwrap_or(self.most_bytes);
        self.mtu_annotation = arguments.keyword("MAX_MTU_ANNO")?;
        if self.mtu_annotation.is_some_and(|at| at > 46) {
            return Err(ConfigError::other("MAX_MTU_ANNO: two bytes must fit, so at most 46"));
        }
        arguments.finish()
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        context.schedule(0, context.now_ns().saturating_add(ALARM_NS));
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

    fn run_timer(&mut self, timer: u32, context: &mut Context<'_>) {
        let now_ns = context.now_ns();
        let old = self.waiting.iter().filter(|(_, pieces)| pieces.expires_ns <= now_ns);
        let old: Vec<Key> = old.map(|(key, _)| *key).collect();
        for key in old {
            self.give_up(key, context);
        }
        context.schedule(timer, now_ns.saturating_add(ALARM_NS));
    }

    handlers! { this, context, value;
        read "drops" => this.drops;
        read "size" => this.waiting.len();
    }
}

#[cfg(test)]
mod tests {
    use crate::fields::set_ip_checksum;
    use crate::testing::{Bench, ip_packet};

    /// A fragment of so many bytes from byte `at` on.
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
        // A fragment in the middle that does not end at eight bytes is no fragment.
        assert_eq!(push(&mut bench, &fragment(16, 5, true))[0].0, 1);
    }
}
