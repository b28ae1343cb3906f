//! # GetIPAddress
//!
//! ## Synopsis
//! `GetIPAddress([OFFSET, ANNO, IP])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Copies four bytes of each packet to its destination address annotation, which route look-ups
//! read. A packet that is too short stays unchanged.
//!
//! ## Arguments
//! - OFFSET: first byte, from the start of the packet; usually 16, the destination.
//! - ANNO: first byte in the annotation area, or a name like DST_IP; default 0, the destination address.
//! - IP (keyword): `src` or `dst`: that field of the IP header, in place of OFFSET.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `SetIPAddress`, `RadixIPLookup`

use europa_engine::{
    Batch, Class, ClassInfo, ConfigError, Context, Each, Element, Packet, Verdict, arguments,
};

use crate::shared::annotation::Annotation;

/// Copies an address to an annotation.
#[derive(Default)]
pub(crate) struct GetIPAddress {
    offset: u32,
    annotation: usize,
    from_ip_header: bool,
}

impl Class for GetIPAddress {
    const INFO: ClassInfo = ClassInfo::new("GetIPAddress", "1/1").inline().keeps_long();
}

impl Each for GetIPAddress {
    #[inline(always)]
    fn each(&mut self, packet: &mut Packet, _: u16) -> Verdict {
        let address = match self.from_ip_header {
            false => packet.bytes(self.offset),
            true => packet
                .network_header()
                .and_then(|bytes| bytes.get(self.offset as usize..)?.first_chunk::<4>()),
        };
        if let Some(address) = address.copied() {
            packet.set_annotation::<4>(self.annotation, address);
        }
        Verdict::ON
    }
}

impl Element for GetIPAddress {
    arguments! { this, given;
        let offset = positional "OFFSET": u32;
        positional "ANNO": Annotation<4> = Annotation(0) => Annotation(this.annotation);
        let field = keyword "IP": String;
        then {
            this.from_ip_header = field.is_some();
            this.offset = match (offset, field.as_deref()) {
                (Some(offset), None) => offset,
                (None, Some("src")) => 12,
                (None, Some("dst")) => 16,
                (None, None) => return Err(ConfigError::Missing { name: "OFFSET" }),
                (Some(_), Some(_)) => return Err(ConfigError::other("give OFFSET or IP, not both")),
                (None, Some(_)) => return Err(ConfigError::other("IP: expected 'src' or 'dst'")),
            };
        }
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            self.each(packet, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn copies_the_address() {
        let mut bench = Bench::new("GetIPAddress", &["1"]);
        bench.push(0, &[&[9, 10, 0, 0, 1, 9], &[9, 10, 0, 0]]);
        let found: Vec<u32> = bench.out.iter().map(|(_, packet)| packet.dst_ip()).collect();
        assert_eq!(found, [0x0a00_0001, 0]);
        let mut bench = Bench::new("GetIPAddress", &["0", "EXTRA_LENGTH"]);
        bench.push(0, &[&[0, 0, 1, 2]]);
        let length = bench.out[0].1.annotation::<4>(europa_pool::packet::annotation::EXTRA_LENGTH);
        assert_eq!(length, [0, 0, 1, 2]);
        let mut bench = Bench::new("GetIPAddress", &["IP src"]);
        let mut packet = bench.arena.packet(&(0..34).collect::<Vec<u8>>()).unwrap();
        packet.set_network_header(14, 20);
        bench.push_packets(0, vec![packet]);
        assert_eq!(bench.out.first().unwrap().1.dst_ip(), 0x1a1b_1c1d);
    }

    #[test]
    fn bad_arguments_are_refused() {
        for (arguments, error) in [
            (&[][..], "OFFSET: required argument missing"),
            (&["16", "45"], "ANNO: expected annotation byte, 0 to 44, found '45'"),
            (&["16", "IP src"], "give OFFSET or IP, not both"),
            (&["IP x"], "IP: expected 'src' or 'dst'"),
        ] {
            assert_eq!(Bench::error("GetIPAddress", arguments), error);
        }
    }
}
