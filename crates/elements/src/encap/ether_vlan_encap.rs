//! # EtherVLANEncap
//!
//! ## Synopsis
//! `EtherVLANEncap(ETHERTYPE, SRC, DST, VLAN_TCI [, VLAN_PCP, VLAN_ID, NATIVE_VLAN])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Puts an Ethernet header with a VLAN tag (IEEE 802.1Q) before each packet. Packets of the native
//! VLAN get no tag.
//!
//! ## Arguments
//! - ETHERTYPE: Ethernet type of the packet's contents.
//! - SRC, DST: Ethernet addresses.
//! - VLAN_TCI: the tag, a number, or `ANNO` for each packet's annotation.
//! - VLAN_PCP: priority, 0 to 7.
//! - VLAN_ID (keyword): 0 to 4095, in place of VLAN_TCI.
//! - NATIVE_VLAN (keyword): the VLAN without tag, default 0; -1 for none.
//!
//! ## Handlers
//! - `src`, `dst`, `ethertype`, `vlan_tci`, `vlan_id`, `vlan_pcp`, `native_vlan`
//!   (read, write): see the arguments.
//!
//! ## See also
//! `EtherEncap`, `VLANEncap`, `StripEtherVLANHeader`, `SetVLANAnno`

use europa_packet::MacAddr;

use super::Tag;
use crate::prelude::*;
use crate::shared::fields::{grow_front, set};

/// Puts headers with tags before packets.
#[derive(Default)]
pub(crate) struct EtherVLANEncap {
    kind: u16,
    source: [u8; 6],
    destination: [u8; 6],
    tag: Tag,
}

impl Class for EtherVLANEncap {
    const INFO: ClassInfo =
        ClassInfo::new("EtherVLANEncap", "1/1").inline().also(&["EtherVlanEncap"]);
}

impl EtherVLANEncap {
    fn push_header(&self, packet: &mut Packet) -> Option<()> {
        let tag = self.tag.of(packet);
        let length = if tag.is_some() { 18 } else { 14 };
        let header = grow_front(packet, length)?;
        set(header, 0, self.destination);
        set(header, 6, self.source);
        if let Some(tci) = tag {
            set(header, 12, [0x81, 0]);
            set(header, 14, tci.to_be_bytes());
        }
        set(header, length - 2, self.kind.to_be_bytes());
        packet.set_mac_header(0);
        Some(())
    }
}

impl Element for EtherVLANEncap {
    arguments! { this, given;
        mandatory "ETHERTYPE": u16 => this.kind;
        mandatory "SRC": [u8; 6] => this.source;
        mandatory "DST": [u8; 6] => this.destination;
        set Tag => this.tag;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        batch.retain(|packet| self.push_header(packet).is_some());
    }

    handlers! { this, context, value;
        both "src" => MacAddr(this.source), set this.source = parse("src", value)?;
        both "dst" => MacAddr(this.destination), set this.destination = parse("dst", value)?;
        both "ethertype" => this.kind;
        both "vlan_tci" => this.tag.text(), set this.tag.tci = Some(parse("vlan_tci", value)?);
        both "vlan_id" => this.tag.part(0, 0xfff), set this.tag.set(0, 0xfff, parse("vlan_id", value)?);
        both "vlan_pcp" => this.tag.part(13, 7), set this.tag.set(13, 7, parse("vlan_pcp", value)?);
        both "native_vlan" => this.tag.native.map_or(-1, i32::from), set this.tag.set_native(value)?;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn headers_go_on_and_off() {
        let addresses = ["0x0800", "62:62:62:62:62:62", "61:61:61:61:61:61"];
        for (tag, bytes) in [("5", &b"\x81\x00\x00\x05"[..]), ("ANNO", b""), ("0", b"")] {
            let mut bench = Bench::new("EtherVLANEncap", &[&addresses[..], &[tag]].concat());
            let expected = [b"aaaaaabbbbbb", bytes, b"\x08\x00x"].concat();
            let out = bench.push(0, &[b"x"]);
            assert_eq!(out, [(0, expected)]);
            let mut bench = Bench::new("StripEtherVLANHeader", &["7"]);
            assert_eq!(bench.push(0, &[&out[0].1]), [(0, b"x".to_vec())]);
            let native = if bytes.is_empty() { 7 } else { 5 };
            assert_eq!(bench.out[0].1.annotation::<2>(20), [0, native]);
        }
        let mut bench = Bench::new("StripEtherVLANHeader", &["-1"]);
        let plain = b"aaaaaabbbbbb\x08\x00x";
        assert_eq!(bench.push(0, &[plain]), [(1, plain.to_vec())]);
    }
}
