//! # WifiDecap
//!
//! ## Synopsis
//! `WifiDecap([STRICT, ETHER])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Turns IEEE 802.11 data frames into Ethernet frames. Frames that are too short or encrypted are
//! dropped.
//!
//! ## Arguments
//! All keywords.
//! - STRICT: drop frames that hold no Ethernet type (another LLC header), default false.
//! - ETHER: whether to replace the removed headers by an Ethernet header, default true.
//! - DEBUG: log the addresses of each frame, default false.
//!
//! ## Handlers
//! - `debug` (read, write): see the argument.
//! - `drops` (read): frames dropped.
//!
//! ## See also
//! `WifiEncap`, `WepDecap`

use europa_packet::{EtherType, EthernetHeader, Header as _};
use zerocopy::IntoBytes as _;

use super::frame::PROTECTED;
use super::wifi_encap::SNAP;
use super::{Extra, Header, kind, say};
use crate::prelude::*;
use crate::shared::fields::{bytes, grow_front};
use crate::shared::made::write;

/// Makes Ethernet frames.
#[derive(Default)]
pub(crate) struct WifiDecap {
    debug: bool,
    strict: bool,
    ether: bool,
    drops: u64,
}

impl Class for WifiDecap {
    const INFO: ClassInfo = ClassInfo::new("WifiDecap", "1/1");
}

impl WifiDecap {
    fn decap(&self, packet: &mut Packet, context: &mut Context<'_>) -> Option<()> {
        let header = Header::of(packet.data()).filter(|header| !header.has(PROTECTED))?;
        let mut length = Header::BYTES;
        if header.direction() == 3 {
            length += 6;
        }
        // Quality of service.
        if header.kind() == kind::DATA && header.subtype() & 0x80 != 0 {
            length += 2;
        }
        let extra = Extra::of(packet);
        if extra.is_marked() && extra.padded != 0 {
            length = length.next_multiple_of(4);
        }
        let llc: [u8; 6] = bytes(packet.data(), length)?;
        let ether_type = EtherType(bytes(packet.data(), length + SNAP.len())?);
        if self.strict && llc != SNAP {
            return None;
        }
        packet.pull(length + SNAP.len() + 2)?;
        let ends = header.ends();
        if self.debug {
            let [destination, source, bssid] =
                [ends.destination, ends.source, ends.bssid].map(|address| address.dashed());
            let [high, low] = ether_type.0;
            let text = format!(
                "dir {} src {source} dst {destination} bssid {bssid} eth 0x{high:02x}{low:02x}",
                header.direction()
            );
            say(context, "WifiDecap", &text);
        }
        if self.ether {
            let header =
                EthernetHeader { destination: ends.destination, source: ends.source, ether_type };
            write(grow_front(packet, EthernetHeader::LEN)?, header.as_bytes());
            packet.set_mac_header(0);
        }
        Some(())
    }
}

impl Element for WifiDecap {
    arguments! { this, given;
        keyword "DEBUG": bool = false => this.debug;
        keyword "STRICT": bool = false => this.strict;
        keyword "ETHER": bool = true => this.ether;
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let mut drops = 0;
        batch.filter(|packet| self.decap(packet, context).is_some(), |_| drops += 1);
        self.drops += drops;
    }

    handlers! { this, context, value;
        both "debug" [CHECKBOX] => this.debug;
        read "drops" => this.drops;
    }
}
