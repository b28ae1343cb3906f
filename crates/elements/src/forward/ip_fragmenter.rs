//! # IPFragmenter
//!
//! ## Synopsis
//! `IPFragmenter(MTU [, HONOR_DF, VERBOSE, keywords])`
//!
//! ## Ports
//! One push input, one push output. A second, if connected, gets packets that are too long
//! and must not be fragmented.
//!
//! ## Description
//! Expects IP packets with their header annotations set. It passes packets of up to MTU bytes
//! unchanged. It cuts longer packets into fragments, which it sends in order, with all annotations.
//! Later fragments carry only the options that RFC 791 copies.
//!
//! Packets that must not be fragmented (DF, or an MTU that leaves no room for 8 bytes of payload)
//! leave by output 1, for an `ICMPError` of type unreachable and code needfrag. If the pool has not
//! enough buffers for all fragments, the packet is dropped as a whole. A fragment that must be cut
//! again is dropped if it reaches beyond the longest possible packet.
//!
//! ## Arguments
//! - MTU: longest packet in bytes, at least 8.
//! - HONOR_DF: whether packets with DF are not fragmented, default true. If false, such packets are
//!   fragmented and get a new identification.
//! - VERBOSE, HEADROOM: accepted as in Click, without effect.
//!
//! ## Handlers
//! - `fragments` (read): fragments sent.
//! - `drops` (read): packets that could not be fragmented.
//! - `mtu` (read, write): MTU.
//!
//! ## See also
//! `ICMPError`, `CheckLength`

use europa_engine::{
    Batch, Class, ClassInfo, ConfigError, Context, Each, Element, HandlerError, Packet, Verdict,
    arguments, handlers, parse,
};
use europa_packet::{Header, Ipv4Header, Ipv4Packet, checksum, ipv4};
use zerocopy::IntoBytes;

use crate::shared::made::write;

/// Cuts packets into fragments.
#[derive(Default)]
pub(crate) struct IPFragmenter {
    mtu: usize,
    honor_df: bool,
    /// The next identification for packets without a valid one.
    id: u16,
    fragments: u64,
    drops: u64,
}

impl Class for IPFragmenter {
    const INFO: ClassInfo =
        ClassInfo::new("IPFragmenter", "1/1-2").processing("h/h").inline().keeps_long();
}

/// Smallest MTU.
const LEAST: usize = 8;
/// The flag in an option's type for options that all fragments carry (RFC 791 section 3.1).
const COPIED: u8 = 0x80;

/// Header of all fragments but the first: without the options that are not copied. Also returns its
/// length.
fn later_header(packet: &Ipv4Packet<'_>) -> ([u8; 60], usize) {
    let mut bytes = [0; 60];
    let mut length = Ipv4Header::LEN;
    write(&mut bytes, packet.header.as_bytes());
    for option in packet.options() {
        let Ok(option) = option else { break };
        let end = option.offset + option.data.len() + 2;
        let whole = packet.options.get(option.offset..end).unwrap_or_default();
        if option.kind & COPIED != 0 {
            write(bytes.get_mut(length..).unwrap_or_default(), whole);
            length += whole.len();
        }
    }
    let padded = length.next_multiple_of(4);
    bytes[0] = 0x40 | (padded / 4) as u8;
    (bytes, padded)
}

/// Sets length, flags, offset and checksum of a fragment's header.
fn finish(header: &mut [u8], total: usize, flags_fragment: u16) {
    if let Some(fixed) = Ipv4Header::at_mut(header, 0) {
        fixed.total_len.set(total as u16);
        fixed.flags_fragment.set(flags_fragment);
        fixed.checksum.set(0);
    }
    let check = checksum::checksum(header);
    if let Some(fixed) = Ipv4Header::at_mut(header, 0) {
        fixed.checksum.set(check);
    }
}

/// The reason why a packet was not fragmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// The packet's sender forbids it, or the MTU is too small.
    MustNot,
    /// Buffers are missing, or the packet is malformed or too long.
    Cannot,
}

impl IPFragmenter {
    /// Fragments a packet: the later fragments go into `out`, the first one remains in `packet`.
    fn fragment(&mut self, packet: &mut Packet, out: &mut Batch) -> Result<(), Refusal> {
        let network = packet.network_offset().and_then(|at| usize::try_from(at).ok());
        let network = network.ok_or(Refusal::Cannot)?;
        let Some(Ok(whole)) = packet.network_header().map(Ipv4Packet::parse) else {
            return Err(Refusal::Cannot);
        };
        let mut header = *whole.header;
        let header_len = header.header_len();
        let room = |header_len: usize| self.mtu.saturating_sub(header_len) & !7;
        let payload_len = whole.payload.len();
        let first_len = room(header_len);
        let (mut later, later_len) = later_header(&whole);
        let each = room(later_len);
        // Super-packets have DF, so routers need not cut them.
        if first_len < 8 || packet.is_long() || (header.dont_fragment() && self.honor_df) {
            return Err(Refusal::MustNot);
        }
        if header.dont_fragment() {
            self.id = self.id.wrapping_add(1);
            header.id.set(self.id);
        }
        let old = header.flags_fragment.get() & !ipv4::DONT_FRAGMENT;
        let (more, start) = (old & ipv4::MORE_FRAGMENTS, old & ipv4::FRAGMENT_OFFSET);
        // The reassembled packet would be longer than any packet, and the fragments' offsets would
        // overflow.
        if usize::from(start) * 8 + payload_len > usize::from(u16::MAX) - header_len {
            return Err(Refusal::Cannot);
        }
        let mut at = first_len;
        while at < payload_len {
            let count = each.min(payload_len - at);
            let mut fragment = packet.alloc_sibling().ok_or(Refusal::Cannot)?;
            let bytes = whole.payload.get(at..at + count).unwrap_or_default();
            let place = fragment.put(later_len + count).ok_or(Refusal::Cannot)?;
            let last = at + count == payload_len;
            let offset = start + (at / 8) as u16;
            let flags = if last { more } else { ipv4::MORE_FRAGMENTS } | offset;
            if let Some(fixed) = Ipv4Header::at_mut(&mut later, 0) {
                fixed.id = header.id;
            }
            let later = later.get_mut(..later_len).unwrap_or_default();
            finish(later, later_len + count, flags);
            write(write(place, later), bytes);
            fragment.copy_annotations(packet);
            fragment.set_network_header(0, later_len);
            out.push(fragment).map_err(|_| Refusal::Cannot)?;
            at += count;
        }
        let spare = packet.len() - network - header_len - first_len;
        // The packet itself becomes the first fragment: its tail is cut off.
        let _ = packet.take(spare);
        if let Some(bytes) = packet.network_header_mut()
            && let Some(bytes) = bytes.get_mut(..header_len)
        {
            write(bytes, header.as_bytes());
            finish(bytes, header_len + first_len, ipv4::MORE_FRAGMENTS | start);
        }
        self.fragments += 1 + out.len() as u64;
        Ok(())
    }
}

impl Each for IPFragmenter {
    #[inline(always)]
    fn each(&mut self, packet: &mut Packet, _: u16) -> Verdict {
        if packet.is_network_longer_than(self.mtu) { Verdict::ALONE } else { Verdict::ON }
    }
}

impl Element for IPFragmenter {
    arguments! { this, given;
        mandatory "MTU": usize => this.mtu;
        positional "HONOR_DF": bool = true => this.honor_df;
        positional "VERBOSE": bool => _;
        keyword "HEADROOM": u32 => _;
        then {
            if this.mtu < LEAST {
                return Err(ConfigError::other(format!("MTU must be at least {LEAST}")));
            }
        }
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let mtu = self.mtu;
        if !batch.iter().any(|packet| packet.is_network_longer_than(mtu)) {
            context.forward(0, batch);
            return;
        }
        // From here on packets are sent one by one, so that they keep their order.
        let mut fragments = context.take_batch();
        for mut packet in batch.drain() {
            if !packet.is_network_longer_than(mtu) {
                context.push(0, packet);
                continue;
            }
            match self.fragment(&mut packet, &mut fragments) {
                Ok(()) => {
                    context.push(0, packet);
                    for fragment in fragments.drain() {
                        context.push(0, fragment);
                    }
                    continue;
                }
                Err(Refusal::MustNot) => context.push(1, packet),
                Err(Refusal::Cannot) => fragments.clear(),
            }
            self.drops += 1;
        }
        context.give_batch(fragments);
    }

    handlers! { this, context, value;
        read "fragments" => this.fragments;
        read "drops" => this.drops;
        both "mtu" => this.mtu, set {
            match parse("mtu", value)? {
                mtu if mtu >= LEAST => this.mtu = mtu,
                _ => return Err(HandlerError::value("mtu", value, "at least 8")),
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use europa_packet::{Frame, IpProtocol};
    use proptest::prelude::*;

    fn fragment(mtu: usize, bytes: &[u8]) -> Vec<(usize, Vec<u8>)> {
        let mut bench = Bench::new("IPFragmenter", &[&mtu.to_string()]);
        let mut packet = bench.arena.packet(bytes).unwrap();
        let header_len = usize::from(bytes[0] & 15) * 4;
        packet.set_network_header(0, header_len);
        packet.set_dst_ip(0x0a00_0002);
        packet.set_paint(9);
        let out = bench.push_packets(0, vec![packet]);
        for (_, packet) in &bench.out {
            assert_eq!((packet.dst_ip(), packet.paint()), (0x0a00_0002, 9));
            assert_eq!(packet.network_offset(), Some(0));
        }
        out
    }

    fn packet(length: usize, flags: u16) -> Vec<u8> {
        let payload: Vec<u8> = (0..length).map(|n| n as u8).collect();
        let start = Frame::bare().ipv4([10, 0, 0, 1], [10, 0, 0, 2]).id(7).flags_fragment(flags);
        start.transport(IpProtocol::UDP, &payload)
    }

    #[test]
    fn what_must_not_be_cut_leaves_by_output_1() {
        for (mtu, bytes, output) in [
            (100, packet(80, 0), 0),
            (100, packet(80, ipv4::DONT_FRAGMENT), 0),
            (100, packet(81, ipv4::DONT_FRAGMENT), 1),
            (27, packet(30, 0), 1),
        ] {
            assert_eq!(fragment(mtu, &bytes), [(output, bytes.clone())], "MTU {mtu}");
        }
        assert_eq!(Bench::error("IPFragmenter", &["7"]), "MTU must be at least 8");
    }

    #[test]
    fn options_are_copied_as_they_say() {
        // Record route (not copied), no operation, router alert (copied).
        let options = [7, 7, 4, 0, 0, 0, 0, 1, 148, 4, 0, 0];
        let mut bytes = packet(100, 0);
        bytes.splice(20..20, options);
        bytes[0] = 0x48;
        bytes[3] += 12;
        bytes[10..12].fill(0);
        let check = checksum::checksum(&bytes[..32]);
        bytes[10..12].copy_from_slice(&check.to_be_bytes());
        let out = fragment(88, &bytes);
        assert_eq!(out.len(), 2);
        assert_eq!(out[0].1[20..32], options);
        assert_eq!((out[1].1[0], &out[1].1[20..24]), (0x46, &[148, 4, 0, 0][..]));
    }

    #[test]
    fn what_reaches_beyond_the_longest_packet_is_dropped() {
        // offset in units of 8 bytes, length → fragments
        for (offset, length, count) in [(8000, 1500, 2), (8001, 1500, 2), (8180, 1500, 0)] {
            let out = fragment(1400, &packet(length, offset));
            assert_eq!(out.len(), count, "{offset}");
        }
    }

    proptest! {
        /// A reassembled packet equals the original.
        #[test]
        fn fragments_make_the_packet(
            length in 0usize..1700, mtu in 28usize..1500, offset in 0u16..100, more in any::<bool>(),
        ) {
            let flags = offset | if more { ipv4::MORE_FRAGMENTS } else { 0 };
            let bytes = packet(length, flags);
            let out = fragment(mtu, &bytes);
            let (mut payload, mut last_more) = (Vec::<u8>::new(), more);
            for (output, fragment) in &out {
                prop_assert_eq!(*output, 0);
                let whole = Ipv4Packet::parse(fragment).unwrap();
                prop_assert!(whole.checksum_is_valid());
                prop_assert!(fragment.len() <= mtu.max(28));
                prop_assert_eq!(whole.header.id.get(), 7);
                let at = whole.header.fragment_offset();
                prop_assert_eq!(at, usize::from(offset) * 8 + payload.len());
                payload.extend(whole.payload);
                last_more = whole.header.more_fragments();
            }
            prop_assert_eq!(last_more, more);
            prop_assert_eq!(&payload, &bytes[20..]);
            prop_assert_eq!(out.len() > 1, bytes.len() > mtu);
        }
    }
}
