//! # DecMPLSTTL
//!
//! ## Synopsis
//! `DecMPLSTTL`
//!
//! ## Ports
//! One input; output 0 gets the packets; output 1, if connected, gets packets whose time to live
//! has expired.
//!
//! ## Description
//! Subtracts one from the time to live of the MPLS label that a packet begins with. Packets with a
//! time to live of 1 or 0, and packets that are too short, leave by output 1 unchanged, or are
//! dropped if it is not connected.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! - `drops` (read): packets whose time to live had expired.
//!
//! ## See also
//! `SetMPLSLabel`, `DecIPTTL`

use super::Entry;
use crate::prelude::*;
use crate::shared::fields::set;

/// Decrements the TTL of labels.
#[derive(Default)]
pub(crate) struct DecMPLSTTL(u64);

impl Class for DecMPLSTTL {
    const INFO: ClassInfo = ClassInfo::new("DecMPLSTTL", "1/1-2").processing("a/ah").inline();
}

impl Element for DecMPLSTTL {
    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let drops = &mut self.0;
        batch.filter(
            |packet| match Entry::of(packet.data()).map(Entry::ttl) {
                None | Some(0 | 1) => false,
                Some(ttl) => set(packet.data_mut(), 3, [ttl - 1]),
            },
            |packet| {
                *drops += 1;
                context.push(1, packet);
            },
        );
    }

    handlers! { this, context, value; read "drops" => this.0; }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn time_runs_out() {
        for (packet, output, ttl) in [
            ([0, 1, 1, 64], 0, 63),
            ([0, 1, 1, 2], 0, 1),
            ([0, 1, 1, 1], 1, 1),
            ([0, 1, 1, 0], 1, 0),
        ] {
            let mut bench = Bench::with_outputs("DecMPLSTTL", &[], 2);
            let out = bench.push(0, &[&packet]);
            assert_eq!((out[0].0, out[0].1[3]), (output, ttl), "{packet:?}");
        }
    }
}
