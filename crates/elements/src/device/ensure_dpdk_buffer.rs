//! # EnsureDPDKBuffer
//!
//! ## Synopsis
//! `EnsureDPDKBuffer([FORCE_COPY, EXTRA_HEADROOM])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Passes packets on. With DPDK it copies packets that are not in a buffer of DPDK. In Europa all
//! packets are in buffers of the router, which any device can send. EXTRA_HEADROOM is made in
//! front.
//!
//! ## Arguments
//! - FORCE_COPY (keyword): accepted; no effect.
//! - EXTRA_HEADROOM (keyword): least number of free bytes in front of each packet, default 0.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `ToDPDKDevice`, `ReplayUnqueue`

use crate::prelude::*;
use crate::shared::common::retain;

/// Makes headroom.
#[derive(Default)]
pub(crate) struct EnsureDPDKBuffer {
    headroom: usize,
}

impl Class for EnsureDPDKBuffer {
    const INFO: ClassInfo = ClassInfo::new("EnsureDPDKBuffer", "1/1");
}

impl Element for EnsureDPDKBuffer {
    arguments! { this, given;
        positional "FORCE_COPY": bool => _;
        keyword "EXTRA_HEADROOM": usize = 0 => this.headroom;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        if self.headroom > 0 {
            let room = self.headroom;
            retain(batch, |packet| {
                packet.headroom() >= room || packet.set_headroom(room).is_some()
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn headroom_is_made() {
        let mut bench = Bench::new("EnsureDPDKBuffer", &["EXTRA_HEADROOM 300"]);
        assert_eq!(bench.push(0, &[b"abc"]), [(0, b"abc".to_vec())]);
        assert!(bench.out[0].1.headroom() >= 300);
    }
}
