//! # CheckUDPHeader
//!
//! ## Synopsis
//! `CheckUDPHeader([VERBOSE, DETAILS])`
//!
//! ## Ports
//! One input, one or two outputs; output 0 push or pull, output 1 push.
//!
//! ## Description
//! Checks the UDP header of IPv4 packets: protocol, length and checksum, if there is one. Packets
//! that fail leave by output 1, or are dropped if it is not connected. The network header
//! annotation must be set.
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
//! `CheckIPHeader`, `CheckTCPHeader`, `CheckICMPHeader`, `SetUDPChecksum`

use super::Checks;
use crate::prelude::*;
use crate::shared::fields::{be16, network, segment_checksum};

/// Checks UDP headers.
pub(crate) struct CheckUDPHeader(Checks);

impl Default for CheckUDPHeader {
    fn default() -> CheckUDPHeader {
        CheckUDPHeader(Checks::new(&["not UDP", "bad packet length", "bad UDP checksum"]))
    }
}

impl Class for CheckUDPHeader {
    const INFO: ClassInfo = ClassInfo::new("CheckUDPHeader", "1/1-2").processing("a/ah").inline();
}

/// The reason why a packet is bad.
fn judge(packet: &Packet) -> Option<usize> {
    let Some((header, rest)) = network(packet).filter(|(header, _)| header.get(9) == Some(&17))
    else {
        return Some(0);
    };
    let length = be16(rest, 4).map_or(0, usize::from);
    match rest.get(..length) {
        Some(segment) if length >= 8 => {
            let wrong = be16(segment, 6) != Some(0) && segment_checksum(header, segment) != 0;
            wrong.then_some(2)
        }
        _ => Some(1),
    }
}

impl Element for CheckUDPHeader {
    arguments! { this, given;
        set Checks => this.0;
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        self.0.run(batch, context, judge, |_, reason| format!("UDP header check failed: {reason}"));
    }

    handlers! { this, context, value;
        read "drops" => this.0.drops();
        read "drop_details" => this.0.details();
    }
}
