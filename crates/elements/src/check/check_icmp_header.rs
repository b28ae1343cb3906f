//! # CheckICMPHeader
//!
//! ## Synopsis
//! `CheckICMPHeader([VERBOSE, DETAILS])`
//!
//! ## Ports
//! One input, one or two outputs; output 0 push or pull, output 1 push.
//!
//! ## Description
//! Checks the ICMP header of IPv4 packets: protocol, length (as the ICMP type needs it) and
//! checksum. Packets that fail leave by output 1, or are dropped if it is not connected. The
//! network header annotation must be set.
//!
//! ## Arguments
//! - VERBOSE (keyword): log every bad packet, not only the first; default false.
//! - DETAILS (keyword): accepted as in Click, without effect: the handler `drop_details` always
//!   exists.
//!
//! ## Handlers
//! - `drops` (read): packets that failed.
//! - `drop_details` (read): the numbers of failed packets for each reason.
//!
//! ## See also
//! `CheckIPHeader`, `CheckTCPHeader`, `CheckUDPHeader`

use europa_packet::checksum;

use super::Checks;
use crate::prelude::*;
use crate::shared::fields::network;

/// Checks ICMP headers.
pub(crate) struct CheckICMPHeader(Checks);

impl Default for CheckICMPHeader {
    fn default() -> CheckICMPHeader {
        CheckICMPHeader(Checks::new(&["not ICMP", "bad packet length", "bad ICMP checksum"]))
    }
}

impl Class for CheckICMPHeader {
    const INFO: ClassInfo = ClassInfo::new("CheckICMPHeader", "1/1-2").processing("a/ah").inline();
}

/// The reason why a packet is bad.
fn judge(packet: &Packet) -> Option<usize> {
    let Some((_, message)) = network(packet).filter(|(header, _)| header.get(9) == Some(&1)) else {
        return Some(0);
    };
    let length = message.len();
    let fits = match message.first() {
        // Errors carry an IP header and 8 bytes of the original packet.
        Some(3 | 4 | 5 | 11 | 12) => length >= 8 + 28,
        Some(13 | 14) => length == 20,
        Some(15 | 16) => length == 8,
        _ => length >= 8,
    };
    if !fits {
        return Some(1);
    }
    (!checksum::verify(message)).then_some(2)
}

impl Element for CheckICMPHeader {
    arguments! { this, given;
        set Checks => this.0;
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let say =
            |element: &str, reason: &str| format!("{element}: ICMP header check failed: {reason}");
        self.0.run(batch, context, judge, say);
    }

    handlers! { this, context, value;
        read "drops" => this.0.drops();
        read "drop_details" => this.0.details();
    }
}
