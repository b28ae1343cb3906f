//! # GREDecap
//!
//! ## Synopsis
//! `GREDecap([KEY, PROTOCOL])`
//!
//! ## Ports
//! One input; output 0 gets the inner packets; output 1, if connected, gets the packets that do not
//! fit, unchanged.
//!
//! ## Description
//! Removes the GRE header (RFC 2784, RFC 2890) of packets that begin with one, as after
//! `StripIPHeader`. Packets with another version, a source route, a wrong checksum, another key or
//! another protocol do not fit. Sequence numbers are ignored.
//!
//! ## Arguments
//! - KEY (keyword): the key that packets must have; default any or none.
//! - PROTOCOL (keyword): the Ethernet type that must be inside; default any.
//!
//! ## Handlers
//! - `drops` (read): packets that did not fit.
//!
//! ## See also
//! `GREEncap`, `StripIPHeader`

use europa_packet::checksum;

use super::gre;
use crate::prelude::*;
use crate::shared::fields::{be16, be32};

/// Takes GRE headers off packets.
#[derive(Default)]
pub(crate) struct GREDecap {
    key: Option<u32>,
    protocol: Option<u16>,
    drops: u64,
}

impl Class for GREDecap {
    const INFO: ClassInfo = ClassInfo::new("GREDecap", "1/1-2").processing("a/ah").inline();
}

impl GREDecap {
    fn pull_header(&self, packet: &mut Packet) -> Option<()> {
        let data = packet.data();
        let (flags, protocol) = (be16(data, 0)?, be16(data, 2)?);
        if flags & gre::UNKNOWN != 0 || self.protocol.is_some_and(|wanted| wanted != protocol) {
            return None;
        }
        let mut length = 4;
        if flags & gre::CHECKSUM != 0 {
            // A valid checksum makes the sum over all bytes zero.
            if checksum::checksum(data) != 0 {
                return None;
            }
            length += 4;
        }
        let key = if flags & gre::KEY != 0 {
            length += 4;
            Some(be32(data, length - 4)?)
        } else {
            None
        };
        if self.key.is_some() && self.key != key {
            return None;
        }
        if flags & gre::SEQUENCE != 0 {
            length += 4;
        }
        packet.pull(length)
    }
}

impl Element for GREDecap {
    arguments! { this, given;
        keyword "KEY": u32 => this.key;
        keyword "PROTOCOL": u16 => this.protocol;
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let mut drops = 0;
        batch.filter(
            |packet| self.pull_header(packet).is_some(),
            |packet| {
                drops += 1;
                context.push(1, packet);
            },
        );
        self.drops += drops;
    }

    handlers! { this, context, value; read "drops" => this.drops; }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn what_was_put_on_comes_off() {
        for arguments in [
            &["0x0800"][..],
            &["0x0800", "CHECKSUM true"],
            &["0x0800", "KEY 7", "SEQUENCE true", "CHECKSUM true"],
        ] {
            let packet = Bench::new("GREEncap", arguments).push(0, &[b"inside!"])[0].1.clone();
            let mut bench = Bench::with_outputs("GREDecap", &[], 2);
            assert_eq!(bench.push(0, &[&packet]), [(0, b"inside!".to_vec())], "{arguments:?}");
        }
    }

    #[test]
    fn others_do_not_fit() {
        let keyed = Bench::new("GREEncap", &["0x0800", "KEY 7"]).push(0, &[b"x"])[0].1.clone();
        let mut summed =
            Bench::new("GREEncap", &["0x0800", "CHECKSUM true"]).push(0, &[b"abc"])[0].1.clone();
        summed[9] ^= 1;
        for (arguments, packet, output) in [
            (&["KEY 7"][..], &keyed[..], 0),
            (&["KEY 8"], &keyed, 1),
            (&["KEY 7"], &[0, 0, 8, 0, 1], 1),
            (&["PROTOCOL 0x86dd"], &keyed, 1),
            (&[], &summed, 1),
            (&[], &[0, 1, 8, 0], 1),
            (&[], &[0x20, 0, 8, 0, 1], 1),
            (&[], &[0, 0, 8], 1),
        ] {
            let mut bench = Bench::with_outputs("GREDecap", arguments, 2);
            assert_eq!(bench.push(0, &[packet])[0].0, output, "{arguments:?} {packet:?}");
        }
    }
}
