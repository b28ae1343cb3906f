//! # EtherEncap
//!
//! ## Synopsis
//! `EtherEncap(ETHERTYPE, SRC, DST)`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Puts an Ethernet header in front of each packet and sets the link header annotation. A packet
//! without 14 bytes of headroom is dropped.
//!
//! ## Arguments
//! - ETHERTYPE: unsigned integer up to 65535, such as 0x0800.
//! - SRC, DST: Ethernet addresses.
//!
//! ## Handlers
//! - `src`, `dst`, `ethertype` (read, write): the header's fields.
//! - `drops` (read): packets dropped because they had too little headroom.
//!
//! ## See also
//! `Strip`, `ARPQuerier`

use europa_engine::{
    Batch, Class, ClassInfo, Context, Each, Element, Packet, Verdict, arguments, handlers, parse,
};

/// Puts an Ethernet header in front.
#[derive(Default)]
pub(crate) struct EtherEncap {
    header: [u8; 14],
    drops: u64,
}

impl Class for EtherEncap {
    const INFO: ClassInfo = ClassInfo::new("EtherEncap", "1/1").inline().keeps_long();
}

impl EtherEncap {
    #[cold]
    #[inline(never)]
    fn refuse(&mut self) -> Verdict {
        self.drops += 1;
        // There is no such output.
        Verdict::out(1)
    }

    /// Bytes of the header from here on.
    fn field<const N: usize>(&self, at: usize) -> [u8; N] {
        let bytes = self.header.get(at..).and_then(<[u8]>::first_chunk);
        bytes.copied().unwrap_or([0; N])
    }

    fn set(&mut self, at: usize, bytes: &[u8]) {
        if let Some(field) = self.header.get_mut(at..at + bytes.len()) {
            field.copy_from_slice(bytes);
        }
    }
}

impl Each for EtherEncap {
    #[inline(always)]
    fn each(&mut self, packet: &mut Packet, _: u16) -> Verdict {
        if packet.push_bytes(&self.header).is_none() {
            return self.refuse();
        }
        packet.set_mac_header(0);
        Verdict::ON
    }
}

impl Element for EtherEncap {
    arguments! { this, given;
        let ethertype = mandatory "ETHERTYPE": u16;
        let source = mandatory "SRC": [u8; 6];
        let destination = mandatory "DST": [u8; 6];
        then {
            this.set(0, &destination);
            this.set(6, &source);
            this.set(12, &ethertype.to_be_bytes());
        }
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        batch.retain(|packet| self.each(packet, 0) == Verdict::ON);
    }

    handlers! { this, context, value;
        both "src" => europa_packet::MacAddr(this.field(6)).dashed(), set {
            this.set(6, &parse::<[u8; 6]>("src", value)?);
        };
        both "dst" => europa_packet::MacAddr(this.field(0)).dashed(), set {
            this.set(0, &parse::<[u8; 6]>("dst", value)?);
        };
        both "ethertype" => u16::from_be_bytes(this.field(12)), set {
            this.set(12, &parse::<u16>("ethertype", value)?.to_be_bytes());
        };
        read "drops" => this.drops;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn the_header_stands_in_front() {
        let mut bench = Bench::new("EtherEncap", &["0x0800", "1:1:1:1:1:1", "2:2:2:2:2:2"]);
        let out = bench.push(0, &[b"x"]);
        let header = b"\x02\x02\x02\x02\x02\x02\x01\x01\x01\x01\x01\x01\x08\x00x";
        assert_eq!(out, [(0, header.to_vec())]);
        assert_eq!(bench.out.first().unwrap().1.mac_offset(), Some(0));
        bench.router.write("e.dst", "3:3:3:3:3:3").unwrap();
        let mut packet = bench.arena.packet(b"x").unwrap();
        packet.push(packet.headroom() - 13).unwrap();
        assert_eq!(bench.push_packets(0, vec![packet]), []);
        assert_eq!(bench.router.read("e.drops", ""), Ok("1".into()));
        assert_eq!(bench.router.read("e.ethertype", ""), Ok("2048".into()));
        assert_eq!(bench.push(0, &[b"x"]).first().unwrap().1.get(..6), Some(&[3; 6][..]));
    }
}
