//! # StripEtherVLANHeader
//!
//! ## Synopsis
//! `StripEtherVLANHeader([NATIVE_VLAN])`
//!
//! ## Ports
//! One input, one or two outputs; output 0 push or pull, output 1 push.
//!
//! ## Description
//! Removes the Ethernet header of each packet, and its VLAN tag if it has one. The tag goes into
//! the VLAN annotation. Frames without a tag belong to the native VLAN. If there is none, they
//! leave by output 1, or are dropped, as are frames that are too short.
//!
//! ## Arguments
//! - NATIVE_VLAN: VLAN of frames without tag, default 0; negative for none.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `EtherVLANEncap`, `VLANDecap`

use super::set_vlan_annotation;
use crate::prelude::*;
use crate::shared::fields::be16;

/// Takes headers with tags off.
#[derive(Default)]
pub(crate) struct StripEtherVLANHeader {
    native: Option<u16>,
}

impl Class for StripEtherVLANHeader {
    const INFO: ClassInfo = ClassInfo::new("StripEtherVLANHeader", "1/1-2")
        .processing("a/ah")
        .inline()
        .also(&["StripEtherVlanHeader"]);
}

impl Element for StripEtherVLANHeader {
    arguments! { this, given;
        positional "NATIVE_VLAN": i32 = 0, with |vlan| u16::try_from(vlan).ok() => this.native;
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let strip = |packet: &mut Packet| {
            let (tci, length) = match be16(packet.data(), 12) {
                Some(0x8100) => (be16(packet.data(), 14), 18),
                _ => (self.native, 14),
            };
            let (Some(tci), true) = (tci, packet.len() >= length) else { return false };
            packet.set_mac_header(0);
            set_vlan_annotation(packet, tci);
            packet.pull(length).is_some()
        };
        batch.filter(strip, |packet| context.push(1, packet));
    }
}
