//! # MPLSEncap
//!
//! ## Synopsis
//! `MPLSEncap(LABEL [, TC, TTL, BOTTOM])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Puts an entry of an MPLS label stack (RFC 3032) before each packet. An `EtherEncap(0x8847, ...)`
//! behind it makes the frame. Packets without room for it are dropped.
//!
//! ## Arguments
//! - LABEL: 20 bits.
//! - TC (keyword): traffic class, 0 to 7, default 0.
//! - TTL (keyword): time to live, default 64; 0 takes that of the IPv4 or IPv6 header, or of the
//!   label, that the packet begins with.
//! - BOTTOM (keyword): whether the packet begins without a label, so that this label is the last;
//!   default true.
//!
//! ## Handlers
//! - `label` (read, write): see LABEL.
//!
//! ## See also
//! `MPLSDecap`, `SetMPLSLabel`, `DecMPLSTTL`, `EtherEncap`

use super::{Entry, bounded};
use crate::prelude::*;

/// Puts labels before packets.
#[derive(Default)]
pub(crate) struct MPLSEncap {
    label: u32,
    class: u32,
    ttl: u8,
    bottom: bool,
}

impl Class for MPLSEncap {
    const INFO: ClassInfo = ClassInfo::new("MPLSEncap", "1/1").inline();
}

impl MPLSEncap {
    fn ttl(&self, data: &[u8]) -> u8 {
        match (self.ttl, self.bottom, data.first().map(|byte| byte >> 4)) {
            (0, false, _) => Entry::of(data).map_or(0, Entry::ttl),
            (0, true, Some(4)) => data.get(8).copied().unwrap_or(0),
            (0, true, Some(6)) => data.get(7).copied().unwrap_or(0),
            (0, true, _) => 64,
            (ttl, ..) => ttl,
        }
    }
}

impl Element for MPLSEncap {
    arguments! { this, given;
        let label = mandatory "LABEL": u32;
        let class = keyword "TC": u32 = 0;
        keyword "TTL": u8 = 64 => this.ttl;
        keyword "BOTTOM": bool = true => this.bottom;
        then {
            this.class = bounded("TC", class, 3)?;
            this.label = bounded("LABEL", label, 20)?;
        }
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        batch.retain(|packet| {
            let ttl = self.ttl(packet.data());
            let entry = Entry::new(self.label, self.class, self.bottom, ttl).bytes();
            packet.push_bytes(&entry).is_some()
                || packet.set_headroom(64).and_then(|()| packet.push_bytes(&entry)).is_some()
        });
    }

    handlers! { this, context, value;
        both "label" => this.label, set {
            this.label = bounded("label", parse("label", value)?, 20)
                .map_err(|error| HandlerError::Other(error.to_string()))?;
        };
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, ip_packet};

    #[test]
    fn entries_are_right() {
        for (arguments, entry) in [
            (&["0xabcde"][..], [0xab, 0xcd, 0xe1, 64]),
            (&["1", "TC 5", "TTL 9", "BOTTOM false"], [0, 0, 0x1a, 9]),
            (&["1", "TTL 0"], [0, 0, 0x11, 7]),
        ] {
            let packet = ip_packet(1, 2, 7, b"");
            let out = Bench::new("MPLSEncap", arguments).push(0, &[&packet]);
            assert_eq!(out, [(0, [&entry[..], &packet].concat())], "{arguments:?}");
        }
        let error = Bench::error("MPLSEncap", &["1048576"]);
        assert_eq!(error, "LABEL: expected 0 to 1048575, found '1048576'");
    }
}
