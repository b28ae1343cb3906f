//! # CheckARPHeader
//!
//! ## Synopsis
//! `CheckARPHeader([OFFSET, VERBOSE, DETAILS])`
//!
//! ## Ports
//! One input, one or two outputs; output 0 push or pull, output 1 push.
//!
//! ## Description
//! Checks that packets have a complete ARP header at OFFSET, with the length that its address
//! lengths require. Sets the network header annotation. Packets that fail leave by output 1, or
//! are dropped.
//!
//! ## Arguments
//! - OFFSET: where the header starts, default 0.
//! - VERBOSE (keyword): log every bad packet, not only the first; default false.
//! - DETAILS (keyword): accepted as in Click, without effect: the handler `drop_details` always
//!   exists.
//!
//! ## Handlers
//! - `drops` (read): packets that failed.
//! - `drop_details` (read): the numbers of failed packets for each reason.
//!
//! ## See also
//! `ARPPrint`, `ARPQuerier`, `ARPResponder`

use super::Checks;
use crate::prelude::*;
use crate::shared::fields::bytes;

/// Checks ARP headers.
pub(crate) struct CheckARPHeader {
    offset: usize,
    checks: Checks,
}

impl Default for CheckARPHeader {
    fn default() -> CheckARPHeader {
        let checks = Checks::new(&[
            "bad packet length",
            "bad hardware type/length",
            "bad protocol type/length",
        ]);
        CheckARPHeader { offset: 0, checks }
    }
}

impl Class for CheckARPHeader {
    const INFO: ClassInfo = ClassInfo::new("CheckARPHeader", "1/1-2").processing("a/ah").inline();
}

/// The reason why the packet from byte `at` on is bad.
fn judge(packet: &Packet, at: usize) -> Option<usize> {
    let Some([h0, h1, p0, p1, hardware, protocol]) = bytes(packet.data(), at) else {
        return Some(0);
    };
    let length = 8 + 2 * (usize::from(hardware) + usize::from(protocol));
    if packet.len() < at + length {
        return Some(0);
    }
    if [h0, h1] == [0, 1] && hardware != 6 {
        return Some(1);
    }
    ([p0, p1] == [8, 0] && protocol != 4).then_some(2)
}

impl Element for CheckARPHeader {
    arguments! { this, given;
        positional "OFFSET": usize = 0 => this.offset;
        set Checks => this.checks;
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let at = self.offset;
        let say =
            |element: &str, reason: &str| format!("{element}: ARP header check failed: {reason}");
        self.checks.run(batch, context, |packet| judge(packet, at), say);
        for packet in batch {
            packet.set_network_header(at, 0);
        }
    }

    handlers! { this, context, value;
        read "drops" => this.checks.drops();
        read "drop_details" => this.checks.details();
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn lengths_must_fit() {
        let mut good = vec![0, 1, 8, 0, 6, 4, 0, 1];
        good.resize(28, 0);
        let mut hardware = good.clone();
        hardware[4] = 5;
        let mut protocol = good.clone();
        protocol[5] = 3;
        for (bytes, output) in
            [(&good[..], 0), (&good[..27], 1), (&hardware, 1), (&protocol, 1), (&[], 1)]
        {
            let mut bench = Bench::new("CheckARPHeader", &[]);
            bench.log();
            assert_eq!(bench.push(0, &[bytes])[0].0, output, "{bytes:?}");
        }
    }
}
