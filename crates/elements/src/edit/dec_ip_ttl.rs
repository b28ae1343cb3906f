//! # DecIPTTL
//!
//! ## Synopsis
//! `DecIPTTL([ACTIVE, MULTICAST])`
//!
//! ## Ports
//! One input, one or two outputs; output 0 push or pull, output 1 push.
//!
//! ## Description
//! Subtracts one from the time to live of each IPv4 packet and corrects the header checksum.
//! Packets that arrive with a time to live of 0 or 1 leave by output 1, or are dropped; an
//! `ICMPError` there tells the sender. Packets without the IP header annotation are dropped.
//!
//! ## Arguments
//! - ACTIVE (keyword): if false, packets pass unchanged; default true.
//! - MULTICAST (keyword): whether packets to multicast groups are processed too; default true.
//!
//! ## Handlers
//! - `drops` (read): packets whose time to live had expired.
//! - `active` (read, write): see ACTIVE.
//!
//! ## See also
//! `CheckIPHeader`, `ICMPError`

use europa_engine::{
    Batch, Class, ClassInfo, Context, Each, Element, Packet, Verdict, arguments, handlers,
};

/// Counts down the time to live.
#[derive(Default)]
pub(crate) struct DecIPTTL {
    active: bool,
    multicast: bool,
    drops: u64,
}

impl Class for DecIPTTL {
    const INFO: ClassInfo =
        ClassInfo::new("DecIPTTL", "1/1-2").processing("a/ah").inline().keeps_long();
}

/// Whether the packet may be forwarded.
#[inline(always)]
pub(crate) fn decrement(packet: &mut Packet, multicast: bool) -> bool {
    let Some(header) = packet.network_bytes_mut::<20>() else { return false };
    let [_, _, _, _, _, _, _, _, ttl, protocol, high, low, _, _, _, _, destination, ..] = header;
    if !multicast && *destination & 0xf0 == 0xe0 {
        return true;
    }
    // Time to live, protocol and checksum in one word: one load, one store.
    let word = u32::from_be_bytes([*ttl, *protocol, *high, *low]);
    if word >> 24 <= 1 {
        return false;
    }
    // The header's sum falls by 0x0100, so its complement rises by as much, with an end-around
    // carry (RFC 1624 equation 3).
    let sum = (word & 0xffff) + 0x0100;
    let word = (word & 0xffff_0000) - 0x0100_0000 + ((sum + (sum >> 16)) & 0xffff);
    [*ttl, *protocol, *high, *low] = word.to_be_bytes();
    true
}

impl Each for DecIPTTL {
    #[inline(always)]
    fn each(&mut self, packet: &mut Packet, _: u16) -> Verdict {
        if !self.active || decrement(packet, self.multicast) {
            return Verdict::ON;
        }
        self.refuse()
    }
}

impl DecIPTTL {
    #[cold]
    #[inline(never)]
    fn refuse(&mut self) -> Verdict {
        self.drops += 1;
        Verdict::out(1)
    }
}

impl Element for DecIPTTL {
    arguments! { this, given;
        keyword "ACTIVE": bool = true => this.active;
        keyword "MULTICAST": bool = true => this.multicast;
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        batch
            .filter(|packet| self.each(packet, 0) == Verdict::ON, |packet| context.push(1, packet));
    }

    handlers! { this, context, value;
        read "drops" => this.drops;
        both "active" [CHECKBOX] => this.active;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, ip_packet};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_checksum_stays_right(ttl: u8, id: u16, destination: u32) {
            let mut bench = Bench::new("DecIPTTL", &[]);
            let mut bytes = ip_packet(1, destination, ttl, b"data");
            bytes[4..6].copy_from_slice(&id.to_be_bytes());
            bytes[10..12].fill(0);
            let check = europa_packet::checksum::checksum(&bytes[..20]);
            bytes[10..12].copy_from_slice(&check.to_be_bytes());
            let mut packet = bench.arena.packet(&bytes).unwrap();
            packet.set_network_header(0, 20);
            let out = bench.push_packets(0, vec![packet]);
            if ttl <= 1 {
                prop_assert_eq!(out, [(1, bytes)]);
            } else {
                prop_assert_eq!(out[0].0, 0);
                prop_assert_eq!(out[0].1[8], ttl - 1);
                prop_assert!(europa_packet::checksum::verify(&out[0].1[..20]));
            }
        }
    }

    #[test]
    fn multicast_may_be_left_alone() {
        let mut bench = Bench::new("DecIPTTL", &["MULTICAST false"]);
        let mut packet = bench.arena.packet(&ip_packet(1, 0xe000_0001, 1, b"")).unwrap();
        packet.set_network_header(0, 20);
        assert_eq!(bench.push_packets(0, vec![packet]).first().unwrap().0, 0);
        bench.router.write("e.active", "false").unwrap();
        assert_eq!(bench.push(0, &[b"no header"]).len(), 1);
    }
}
