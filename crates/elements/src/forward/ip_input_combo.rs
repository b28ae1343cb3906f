//! # IPInputCombo
//!
//! ## Synopsis
//! `IPInputCombo(COLOR [, BADSRC, INTERFACES, GOODDST])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Combines the first steps of a router for a packet in an Ethernet frame: `Paint(COLOR) ->
//! Strip(14) -> CheckIPHeader(...) -> GetIPAddress(16)`. Packets that fail the check are dropped.
//!
//! ## Arguments
//! - COLOR: the paint of packets.
//! - BADSRC, INTERFACES (keyword), GOODDST (keyword): as of `CheckIPHeader`.
//!
//! ## Handlers
//! - `drops` (read): packets that failed. `drop_details` (read): the numbers of failed packets for
//!   each reason.
//!
//! ## See also
//! `IPOutputCombo`, `CheckIPHeader`, `Paint`

use crate::check::check_ip_header::CheckIPHeader;
use crate::prelude::*;

/// An Ethernet header.
const HEADER_BYTES: usize = 14;

/// Paints, strips and checks.
#[derive(Default)]
pub(crate) struct IPInputCombo {
    colour: u8,
    check: CheckIPHeader,
}

impl Class for IPInputCombo {
    const INFO: ClassInfo = ClassInfo::new("IPInputCombo", "1/1").inline().keeps_long();
}

impl Element for IPInputCombo {
    arguments! { this, given;
        mandatory "COLOR": u8 => this.colour;
        set CheckIPHeader => this.check;
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        for packet in batch.iter_mut() {
            packet.set_paint(self.colour);
            // The rest of a shorter packet fails the check.
            let _ = packet.pull(HEADER_BYTES.min(packet.len()));
        }
        self.check.process(batch, context);
    }

    delegate!(reading check);
}

#[cfg(test)]
mod tests {
    use europa_packet::{Frame, MacAddr};

    use crate::testing::Bench;

    #[test]
    fn good_packets_are_painted_and_stripped() {
        let mut bench = Bench::new("IPInputCombo", &["3", "10.0.0.255"]);
        let frame = |from| {
            Frame::new(MacAddr([2; 6]), MacAddr([4; 6])).ipv4(from, [10, 1, 0, 1]).echo(1, 2, b"")
        };
        let (good, bad) = (frame([10, 0, 0, 1]), frame([10, 0, 0, 255]));
        assert_eq!(bench.push(0, &[&good, &bad, b"short"]), [(0, good[14..].to_vec())]);
        assert_eq!(bench.paints(), [3]);
        assert_eq!(bench.out[0].1.dst_ip(), 0x0a01_0001);
        assert_eq!(bench.router.read("e.drops", ""), Ok("2".into()));
    }
}
