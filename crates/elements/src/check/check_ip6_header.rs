//! # CheckIP6Header
//!
//! ## Synopsis
//! `CheckIP6Header([BADADDRS, OFFSET])`
//!
//! ## Ports
//! One input, one output, push or pull. A second, push output, if connected, gets packets
//! that fail; else they are dropped.
//!
//! ## Description
//! Checks that an IPv6 header starts at OFFSET: version, length, a source that is one host's, and
//! neither end the loopback address (RFC 4291 section 2.5.3). Then sets the IP header and
//! destination address annotations and cuts off the bytes behind the IP packet.
//!
//! ## Arguments
//! - BADADDRS: addresses, with blanks between them, that are bad sources; `::` for routers.
//! - OFFSET: where the header starts, default 0.
//!
//! ## Handlers
//! - `drops` (read): packets that failed.
//!
//! ## See also
//! `CheckIPHeader`, `DecIP6HLIM`, `LookupIP6Route`

use std::net::Ipv6Addr;

use europa_engine::{Batch, Class, ClassInfo, Context, Element, Packet, arguments, handlers};

use crate::shared::common::part;
use europa_packet::{Header, Ipv6Header};
use europa_pool::packet::annotation::DST_IP6;

/// Checks IPv6 headers.
#[derive(Default)]
pub(crate) struct CheckIP6Header {
    bad: Vec<[u8; 16]>,
    offset: usize,
    drops: u64,
}

impl Class for CheckIP6Header {
    const INFO: ClassInfo =
        ClassInfo::new("CheckIP6Header", "1/1-2").processing("a/ah").inline().keeps_long();
}

const LOOPBACK: [u8; 16] = Ipv6Addr::LOCALHOST.octets();

impl CheckIP6Header {
    #[inline(always)]
    fn check(&self, packet: &mut Packet) -> bool {
        let Some(rest) = packet.data().get(self.offset..) else { return false };
        let Some((header, payload)) = Ipv6Header::parse(rest) else { return false };
        let Some(extra) = payload.len().checked_sub(usize::from(header.payload_len.get())) else {
            return false;
        };
        let good = header.version() == 6
            && header.source[0] != 0xff
            && header.source != LOOPBACK
            && header.destination != LOOPBACK
            && !self.bad.contains(&header.source);
        let destination = header.destination;
        if good {
            if extra > 0 {
                // The packet is at least as long.
                let _ = packet.take(extra);
            }
            packet.set_network_header(self.offset, Ipv6Header::LEN);
            packet.set_annotation(DST_IP6, destination);
        }
        good
    }
}

impl Element for CheckIP6Header {
    arguments! { this, given;
        let text = positional "BADADDRS": String = String::new();
        positional "OFFSET": usize = 0 => this.offset;
        then {
            for word in text.split_whitespace() {
                this.bad.push(given.value::<Ipv6Addr>("BADADDRS", 0, word)?.octets());
            }
        }
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let drops = part(batch, context, |packet| self.check(packet));
        self.drops += drops;
    }

    handlers! { this, context, value; read "drops" => this.drops; }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use europa_packet::Frame;

    fn packet(source: &str, destination: &str) -> Vec<u8> {
        let (source, destination): (Ipv6Addr, Ipv6Addr) =
            (source.parse().unwrap(), destination.parse().unwrap());
        Frame::bare().ipv6(source, destination).udp(1, 2, b"abc")
    }

    #[test]
    fn headers_are_checked() {
        let good = packet("2001:db8::1", "2001:db8::2");
        let mut version = good.clone();
        version[0] = 0x45;
        let mut length = good.clone();
        length[5] += 1;
        for (name, bytes, passes) in [
            ("good", good.clone(), true),
            ("version", version, false),
            ("length", length, false),
            ("short", good[..39].to_vec(), false),
            ("from a group", packet("ff02::1", "2001:db8::2"), false),
            ("from itself", packet("::1", "2001:db8::2"), false),
            ("to itself", packet("2001:db8::1", "::1"), false),
            ("from nowhere", packet("::", "2001:db8::2"), false),
        ] {
            let mut bench = Bench::new("CheckIP6Header", &["::"]);
            let out = bench.push(0, &[&bytes]);
            assert_eq!(out, [(usize::from(!passes), bytes)], "{name}");
        }
    }

    #[test]
    fn padding_is_cut_and_annotations_are_set() {
        let good = packet("2001:db8::1", "2001:db8::2");
        let mut bench = Bench::new("CheckIP6Header", &["OFFSET 2"]);
        let padded = [b"xx", &good[..], &[0; 7]].concat();
        assert_eq!(bench.push(0, &[&padded]), [(0, padded[..good.len() + 2].to_vec())]);
        let packet = &bench.out[0].1;
        assert_eq!((packet.network_offset(), packet.transport_offset()), (Some(2), Some(42)));
        assert_eq!(packet.annotation::<16>(DST_IP6), good[24..40]);
    }
}
