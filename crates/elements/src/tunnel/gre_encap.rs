//! # GREEncap
//!
//! ## Synopsis
//! `GREEncap(PROTOCOL [, KEY, SEQUENCE, CHECKSUM])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Puts a GRE header (RFC 2784, RFC 2890) before each packet. `IPEncap(gre, ...)` behind it makes
//! the outer packet. Packets without room for the header are dropped.
//!
//! ## Arguments
//! - PROTOCOL: Ethernet type of the inner packets: 0x0800 for IPv4, 0x86dd for IPv6, 0x6558 for
//!   Ethernet.
//! - KEY (keyword): 32-bit key; default none.
//! - SEQUENCE (keyword): number the packets, from 0; default false.
//! - CHECKSUM (keyword): add a checksum; default false.
//!
//! ## Handlers
//! - `key` (read, write): see KEY; reads as -1 if there is none.
//! - `sequence` (read): number of the next packet.
//!
//! ## See also
//! `GREDecap`, `IPEncap`, `VXLANEncap`

use europa_packet::checksum;

use super::gre;
use crate::prelude::*;
use crate::shared::fields::{grow_front, set};

/// Puts GRE headers before packets.
#[derive(Default)]
pub(crate) struct GREEncap {
    protocol: u16,
    key: Option<u32>,
    numbered: bool,
    checked: bool,
    sequence: u32,
}

impl Class for GREEncap {
    const INFO: ClassInfo = ClassInfo::new("GREEncap", "1/1").inline();
}

impl GREEncap {
    fn push_header(&mut self, packet: &mut Packet) -> Option<()> {
        let mut flags = 0;
        let mut length = 4;
        for (wanted, flag) in [
            (self.checked, gre::CHECKSUM),
            (self.key.is_some(), gre::KEY),
            (self.numbered, gre::SEQUENCE),
        ] {
            if wanted {
                flags |= flag;
                length += 4;
            }
        }
        let header = grow_front(packet, length)?;
        set(header, 0, flags.to_be_bytes());
        set(header, 2, self.protocol.to_be_bytes());
        let mut at = if self.checked { 8 } else { 4 };
        if let Some(key) = self.key {
            set(header, at, key.to_be_bytes());
            at += 4;
        }
        if self.numbered {
            set(header, at, self.sequence.to_be_bytes());
            self.sequence = self.sequence.wrapping_add(1);
        }
        if self.checked {
            let check = checksum::checksum(packet.data());
            set(packet.data_mut(), 4, check.to_be_bytes());
        }
        Some(())
    }
}

impl Element for GREEncap {
    arguments! { this, given;
        mandatory "PROTOCOL": u16 => this.protocol;
        keyword "KEY": u32 => this.key;
        keyword "SEQUENCE": bool = false => this.numbered;
        keyword "CHECKSUM": bool = false => this.checked;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        batch.retain(|packet| self.push_header(packet).is_some());
    }

    handlers! { this, context, value;
        both "key" => this.key.map_or(-1, i64::from), set { this.key = Some(parse("key", value)?); };
        read "sequence" => this.sequence;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn headers_have_what_is_asked_for() {
        for (arguments, header) in [
            (&["0x0800"][..], &[0, 0, 8, 0][..]),
            (&["0x86dd", "KEY 258"], &[0x20, 0, 0x86, 0xdd, 0, 0, 1, 2]),
            (&["0x0800", "KEY 1", "SEQUENCE true"], &[0x30, 0, 8, 0, 0, 0, 0, 1, 0, 0, 0, 0]),
        ] {
            let mut bench = Bench::new("GREEncap", arguments);
            let out = bench.push(0, &[b"inside"]);
            assert_eq!(out, [(0, [header, b"inside"].concat())], "{arguments:?}");
        }
        let mut bench = Bench::new("GREEncap", &["0x0800", "SEQUENCE true"]);
        let out = bench.push(0, &[b"a", b"b"]);
        assert_eq!((out[0].1[7], out[1].1[7]), (0, 1));
    }
}
