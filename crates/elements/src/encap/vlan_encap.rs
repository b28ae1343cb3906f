//! # VLANEncap
//!
//! ## Synopsis
//! `VLANEncap([VLAN_TCI, VLAN_PCP, VLAN_ID, NATIVE_VLAN, ETHERTYPE])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Puts a VLAN tag (IEEE 802.1Q) into Ethernet frames. Frames of the native VLAN get no tag.
//!
//! ## Arguments
//! - VLAN_TCI: the tag, a number, or `ANNO` for each packet's annotation.
//! - VLAN_PCP: priority, 0 to 7.
//! - VLAN_ID (keyword): 0 to 4095, in place of VLAN_TCI.
//! - NATIVE_VLAN (keyword): the VLAN without tag, default 0; -1 for none.
//! - ETHERTYPE (keyword): Ethernet type of the tag, default 0x8100.
//!
//! ## Handlers
//! - `vlan_tci`, `vlan_id`, `vlan_pcp` (read, write): the tag.
//! - `native_vlan`, `ethertype` (read, write): see the arguments.
//!
//! ## See also
//! `VLANDecap`, `EtherVLANEncap`, `SetVLANAnno`

use super::Tag;
use crate::prelude::*;
use crate::shared::fields::{grow_front, set};

/// Puts tags into frames.
#[derive(Default)]
pub(crate) struct VLANEncap {
    tag: Tag,
    kind: u16,
}

impl Class for VLANEncap {
    const INFO: ClassInfo = ClassInfo::new("VLANEncap", "1/1").inline();
}

impl VLANEncap {
    fn tag(&self, packet: &mut Packet) -> Option<()> {
        if let Some(tci) = self.tag.of(packet) {
            grow_front(packet, 4)?;
            packet.data_mut().get_mut(..16)?.rotate_left(4);
            set(packet.data_mut(), 12, self.kind.to_be_bytes());
            set(packet.data_mut(), 14, tci.to_be_bytes());
        }
        packet.set_mac_header(0);
        Some(())
    }
}

impl Element for VLANEncap {
    arguments! { this, given;
        keyword "ETHERTYPE": u16 = 0x8100 => this.kind;
        set Tag => this.tag;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        batch.retain(|packet| self.tag(packet).is_some());
    }

    handlers! { this, context, value;
        both "vlan_tci" => this.tag.text(), set this.tag.tci = Some(parse("vlan_tci", value)?);
        both "vlan_id" => this.tag.part(0, 0xfff), set this.tag.set(0, 0xfff, parse("vlan_id", value)?);
        both "vlan_pcp" => this.tag.part(13, 7), set this.tag.set(13, 7, parse("vlan_pcp", value)?);
        both "native_vlan" => this.tag.native.map_or(-1, i32::from), set this.tag.set_native(value)?;
        both "ethertype" => this.kind;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    const FRAME: &[u8] = b"aaaaaabbbbbb\x08\x00xyz";

    #[test]
    fn tags_go_in_and_out() {
        for (arguments, tag) in [
            (&["5"][..], Some(b"\x81\x00\x00\x05")),
            (&["VLAN_ID 5", "VLAN_PCP 1"], Some(b"\x81\x00\x20\x05")),
            (&["5", "1", "ETHERTYPE 0x88a8"], Some(b"\x88\xa8\x20\x05")),
            (&["5", "NATIVE_VLAN 5"], None),
            (&["ANNO"], None),
        ] {
            let mut bench = Bench::new("VLANEncap", arguments);
            let tag = tag.map_or(Vec::new(), |tag| tag.to_vec());
            let expected = [&FRAME[..12], &tag, &FRAME[12..]].concat();
            let out = bench.push(0, &[FRAME]);
            assert_eq!(out, [(0, expected)], "{arguments:?}");
            let ethertype = if tag.starts_with(b"\x88") { "ETHERTYPE 0x88a8" } else { "true" };
            let mut bench = Bench::new("VLANDecap", &[ethertype]);
            assert_eq!(bench.push(0, &[&out[0].1]), [(0, FRAME.to_vec())]);
            let annotation = bench.out[0].1.annotation::<2>(20);
            assert_eq!(annotation[..], *tag.get(2..).unwrap_or(&[0, 0]));
        }
        let mut bench = Bench::new("VLANEncap", &["5"]);
        for (native, length) in [("5", 0), ("-1", 4)] {
            bench.router.write("e.native_vlan", native).unwrap();
            assert_eq!(bench.push(0, &[FRAME])[0].1.len(), FRAME.len() + length);
        }
        assert!(bench.router.write("e.native_vlan", "4096").is_err());
        assert_eq!(Bench::error("VLANEncap", &["5", "8"]), "VLAN_PCP: expected 0 to 7");
    }
}
