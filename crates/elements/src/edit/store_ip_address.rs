//! # StoreIPAddress
//!
//! ## Synopsis
//! `StoreIPAddress([ADDR,] OFFSET)`
//!
//! ## Ports
//! One input, one or two outputs; output 0 push or pull, output 1 push.
//!
//! ## Description
//! Writes an IPv4 address into each packet at OFFSET: ADDR, or without ADDR the destination address
//! annotation, unless that is 0. With `src` or `dst` for OFFSET, it writes into the IP header, and
//! corrects the checksums of IP and of TCP or UDP. Packets that are too short leave by output 1, or
//! are dropped.
//!
//! ## Arguments
//! - ADDR: IPv4 address.
//! - OFFSET: bytes from the start, or `src` or `dst`.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `SetIPAddress`, `IPAddrRewriter`, `SetIPChecksum`

use std::net::Ipv4Addr;

use super::Place;
use crate::prelude::*;
use crate::shared::fields;

/// Writes an IPv4 address into packets.
#[derive(Default)]
pub(crate) struct StoreIPAddress {
    address: Option<Ipv4Addr>,
    place: Place,
}

impl Class for StoreIPAddress {
    const INFO: ClassInfo = ClassInfo::new("StoreIPAddress", "1/1-2").processing("a/ah").inline();
}

impl Element for StoreIPAddress {
    arguments! { this, given;
        // Arguments are the address and its place, or the place alone.
        let first = mandatory "ADDR": String;
        let second = positional "OFFSET": String;
        then {
            let offset = match second {
                Some(offset) => {
                    this.address = Some(given.value("ADDR", 0, &first)?);
                    offset
                }
                None => first,
            };
            this.place = Place::read(given, &offset, 12, 16)?;
        }
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let store = |packet: &mut Packet| {
            let address =
                self.address.map_or_else(|| packet.annotation(annotation::DST_IP), |a| a.octets());
            match self.place {
                // Nothing to write is no failure.
                _ if self.address.is_none() && address == [0; 4] => true,
                Place::Offset(at) => fields::set(packet.data_mut(), at, address),
                Place::Header(at) => fields::set_address(packet, at, address),
            }
        };
        batch.filter(store, |packet| context.push(1, packet));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, ip_packet};
    use europa_packet::checksum;

    #[test]
    fn writes_at_an_offset_or_into_the_header() {
        let mut bench = Bench::new("StoreIPAddress", &["1.2.3.4", "1"]);
        let out = bench.push(0, &[b"abcdef", b"abcd"]);
        assert_eq!(out, [(1, b"abcd".to_vec()), (0, b"a\x01\x02\x03\x04f".to_vec())]);
        let mut bench = Bench::new("StoreIPAddress", &["1.2.3.4", "src"]);
        let mut packet =
            bench.arena.packet(&ip_packet(7, 8, 9, b"\0\x01\0\x02\0\x08\x12\x34")).unwrap();
        packet.set_network_header(0, 20);
        let out = bench.push_packets(0, vec![packet]);
        assert!(checksum::verify(&out[0].1[..20]));
        assert_eq!(out[0].1[12..16], [1, 2, 3, 4]);
        // 7 went, 0x0102 and 0x0304 came.
        let check = checksum::update_u32(0x1234, 7, 0x0102_0304);
        assert_eq!(out[0].1[26..28], check.to_be_bytes());
        let error = Bench::error("StoreIPAddress", &["1.2.3.4", "-3"]);
        assert_eq!(error, "OFFSET: expected offset, 'src' or 'dst', found '-3'");
    }
}
