//! # VLANDecap
//!
//! ## Synopsis
//! `VLANDecap([ANNO, ETHERTYPE])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Removes the VLAN tag of Ethernet frames that have one.
//!
//! ## Arguments
//! - ANNO: put the tag into the VLAN annotation, or 0 if the frame has no tag; default true.
//! - ETHERTYPE (keyword): Ethernet type of the tag, default 0x8100.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `VLANEncap`, `StripEtherVLANHeader`

use super::set_vlan_annotation;
use crate::prelude::*;
use crate::shared::fields::be16;

/// Takes tags out of frames.
#[derive(Default)]
pub(crate) struct VLANDecap {
    annotate: bool,
    kind: u16,
}

impl Class for VLANDecap {
    const INFO: ClassInfo = ClassInfo::new("VLANDecap", "1/1").inline().keeps_long();
}

impl Element for VLANDecap {
    arguments! { this, given;
        positional "ANNO": bool = true => this.annotate;
        keyword "ETHERTYPE": u16 = 0x8100 => this.kind;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            let mut tci = 0;
            if be16(packet.data(), 12) == Some(self.kind)
                && let Some(found) = be16(packet.data(), 14)
                && let Some(front) = packet.data_mut().get_mut(..16)
            {
                tci = found;
                front.rotate_right(4);
                // It had 16 bytes.
                let _ = packet.pull(4);
            }
            packet.set_mac_header(0);
            if self.annotate {
                set_vlan_annotation(packet, tci);
            }
        }
    }
}
