//! # ProtocolTranslator64
//!
//! ## Synopsis
//! `ProtocolTranslator64()`
//!
//! ## Ports
//! One push input, one push output.
//!
//! ## Description
//! Turns IPv6 packets into IPv4 packets (RFC 2765). Both addresses must embed an IPv4 address, as
//! `::ffff:10.0.0.1` and `::10.0.0.1` do. ICMPv6 messages become those of ICMP. Checksums are
//! computed again. Packets that have no counterpart are dropped. Packets start with the IP header.
//! Extension headers are not read.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! - `drops` (read): packets that were not translated.
//!
//! ## See also
//! `ProtocolTranslator46`, `AddressTranslator`

use super::{
    ICMP, ICMP_BYTES, ICMP6, IP4_BYTES, IP6_BYTES, addresses6, embedded, payload6, set_checksum4,
};
use crate::prelude::*;
use crate::shared::common::retain;
use crate::shared::fields::{be32, set, set_ip_checksum};

/// Turns IPv6 packets into IPv4 packets.
#[derive(Default)]
pub(crate) struct ProtocolTranslator64 {
    drops: u64,
}

impl Class for ProtocolTranslator64 {
    const INFO: ClassInfo = ClassInfo::new("ProtocolTranslator64", "1/1").processing("h/h");
}

/// Type, code and second word of the ICMP message for an ICMPv6 message.
fn message(header: &[u8]) -> Option<([u8; 2], [u8; 4])> {
    let (kind, code) = (*header.first()?, *header.get(1)?);
    let word = be32(header, 4)?;
    let none = [0; 4];
    Some(match (kind, code) {
        (128, _) => ([8, 0], word.to_be_bytes()),
        (129, _) => ([0, 0], word.to_be_bytes()),
        (1, code) => {
            let code = match code {
                1 => 10,
                2 => 5,
                3 => 1,
                4 => 3,
                _ => 0,
            };
            ([3, code], none)
        }
        (2, _) => ([3, 4], none),
        (3, code) => ([11, code], none),
        (4, 1) => ([3, 2], none),
        (4, 0) => ([12, 0], [pointer(word), 0, 0, 0]),
        (4, 2) => ([12, 0], [0xff, 0, 0, 0]),
        _ => return None,
    })
}

/// The byte of an IPv4 header that corresponds to a byte of an IPv6 header.
fn pointer(word: u32) -> u8 {
    match word {
        4 => 2,
        6 => 9,
        7 => 8,
        8 => 12,
        24 => 0xff,
        _ => 0,
    }
}

/// Translates a packet. `None` if there is no equivalent.
fn translate(packet: &mut Packet) -> Option<()> {
    let data = packet.data();
    let length = payload6(data)?;
    let (from, to) = addresses6(data)?;
    let (from, to) = (embedded(from)?, embedded(to)?);
    let (next, hops) = (*data.get(6)?, *data.get(7)?);
    let total = u16::try_from(IP4_BYTES + length).ok()?;
    packet.take(packet.len() - IP6_BYTES - length)?;
    packet.pull(IP6_BYTES - IP4_BYTES)?;
    let (header, segment) = packet.data_mut().split_at_mut_checked(IP4_BYTES)?;
    let protocol = if next == ICMP6 { ICMP } else { next };
    header.fill(0);
    set(header, 0, [0x45]);
    set(header, 2, total.to_be_bytes());
    // Sets "don't fragment": routers do not fragment IPv6 packets either.
    set(header, 6, [0x40, 0, hops, protocol]);
    set(header, 12, from.octets());
    set(header, 16, to.octets());
    set_ip_checksum(header);
    if next == ICMP6 {
        let ([kind, code], word) = message(segment.get(..ICMP_BYTES)?)?;
        set(segment, 0, [kind, code]);
        set(segment, 4, word);
    }
    set_checksum4(header, segment, protocol);
    packet.set_network_header(0, IP4_BYTES);
    packet.set_dst_ip(u32::from(to));
    Some(())
}

impl Element for ProtocolTranslator64 {
    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        self.drops += retain(batch, |packet| translate(packet).is_some());
        context.forward(0, batch);
    }

    handlers! { this, context, value; read "drops" => this.drops; }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::testing::{Bench, ip_packet};

    /// An IPv6 packet between `::1.0.0.1` and `::2.0.0.2`.
    pub(crate) fn packet6(next: u8, segment: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, segment.len() as u8, next, 9];
        for address in [[1, 0, 0, 1], [2, 0, 0, 2]] {
            packet.extend([0; 12]);
            packet.extend(address);
        }
        packet.extend(segment);
        let (header, segment) = packet.split_at_mut(40);
        super::super::set_checksum6(header, segment, next);
        packet
    }

    #[test]
    fn datagrams_become_those_of_ipv4() {
        let datagram = [0, 7, 0, 8, 0, 11, 0, 0, b'a', b'b', b'c'];
        let mut bench = Bench::new("ProtocolTranslator64", &[]);
        let out = bench.push(0, &[&packet6(17, &datagram)]);
        let (header, segment) = out[0].1.split_at(20);
        let mut wanted = ip_packet(0x0100_0001, 0x0200_0002, 9, &datagram)[..20].to_vec();
        wanted[6] = 0x40;
        crate::shared::fields::set_ip_checksum(&mut wanted);
        assert_eq!(header, wanted);
        assert_eq!(crate::shared::fields::segment_checksum(header, segment), 0);
        assert_eq!(segment[8..], *b"abc");
    }

    #[test]
    fn messages_become_those_of_icmp() {
        for (message, wanted) in [
            ([128, 0, 0, 0, 1, 2, 0, 3], Some([8, 0, 1, 2, 0, 3])),
            ([129, 0, 0, 0, 1, 2, 0, 3], Some([0, 0, 1, 2, 0, 3])),
            ([1, 4, 0, 0, 0, 0, 0, 0], Some([3, 3, 0, 0, 0, 0])),
            ([2, 0, 0, 0, 0, 0, 5, 0], Some([3, 4, 0, 0, 0, 0])),
            ([3, 1, 0, 0, 0, 0, 0, 0], Some([11, 1, 0, 0, 0, 0])),
            ([4, 0, 0, 0, 0, 0, 0, 8], Some([12, 0, 12, 0, 0, 0])),
            ([4, 1, 0, 0, 0, 0, 0, 0], Some([3, 2, 0, 0, 0, 0])),
            ([133, 0, 0, 0, 0, 0, 0, 0], None),
        ] {
            let mut bench = Bench::new("ProtocolTranslator64", &[]);
            let out = bench.push(0, &[&packet6(58, &message)]);
            let found = out.first().map(|(_, packet)| {
                assert!(europa_packet::checksum::verify(&packet[20..]), "{message:?}");
                let [a, b, _, _, c, d, e, f] = *packet[20..].first_chunk().unwrap();
                [a, b, c, d, e, f]
            });
            assert_eq!(found, wanted, "{message:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            for class in ["ProtocolTranslator64", "ProtocolTranslator46"] {
                Bench::new(class, &[]).push(0, &[&bytes]);
            }
        }
    }
}
