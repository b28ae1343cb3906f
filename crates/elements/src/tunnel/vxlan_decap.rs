//! # VXLANDecap
//!
//! ## Synopsis
//! `VXLANDecap([VNI])`
//!
//! ## Ports
//! One input; output 0 gets the inner frames; output 1, if connected, gets the packets that do not
//! fit, unchanged.
//!
//! ## Description
//! Removes the VXLAN header (RFC 7348) of packets that begin with one, as after `StripIPHeader` and
//! `Strip(8)`, and sets the link header annotation. Packets without a network number, or with
//! another one, do not fit.
//!
//! ## Arguments
//! - VNI: the network; default any.
//!
//! ## Handlers
//! - `drops` (read): packets that did not fit.
//!
//! ## See also
//! `VXLANEncap`

use super::bounded;
use crate::prelude::*;
use crate::shared::fields::be32;

/// Removes VXLAN headers of packets.
#[derive(Default)]
pub(crate) struct VXLANDecap {
    network: Option<u32>,
    drops: u64,
}

impl Class for VXLANDecap {
    const INFO: ClassInfo = ClassInfo::new("VXLANDecap", "1/1-2").processing("a/ah").inline();
}

impl VXLANDecap {
    fn pull_header(&self, packet: &mut Packet) -> Option<()> {
        let (flags, number) = (*packet.data().first()?, be32(packet.data(), 4)? >> 8);
        if flags & 8 == 0 || self.network.is_some_and(|wanted| wanted != number) {
            return None;
        }
        packet.pull(8)?;
        packet.set_mac_header(0);
        Some(())
    }
}

impl Element for VXLANDecap {
    arguments! { this, given;
        let network = positional "VNI": u32;
        then {
            this.network = network.map(|number| bounded("VNI", number, 24)).transpose()?;
        }
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
    fn only_the_networks_own_frames() {
        for (arguments, packet, output) in [
            (&[][..], b"\x08\0\0\0\0\0\x07\0frame", 0),
            (&["7"], b"\x08\0\0\0\0\0\x07\0frame", 0),
            (&["8"], b"\x08\0\0\0\0\0\x07\0frame", 1),
            (&[], b"\0\0\0\0\0\0\x07\0frame", 1),
        ] {
            let mut bench = Bench::with_outputs("VXLANDecap", arguments, 2);
            let left: &[u8] = if output == 0 { b"frame" } else { packet };
            assert_eq!(bench.push(0, &[packet]), [(output, left.to_vec())], "{arguments:?}");
        }
        let mut bench = Bench::with_outputs("VXLANDecap", &[], 2);
        assert_eq!(bench.push(0, &[b"\x08\0\0"])[0].0, 1);
        assert_eq!(bench.router.read("e.drops", ""), Ok("1".into()));
    }
}
