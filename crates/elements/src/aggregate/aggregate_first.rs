//! # AggregateFirst
//!
//! ## Synopsis
//! `AggregateFirst`
//!
//! ## Ports
//! One input, one or two outputs; output 0 push or pull, output 1 push.
//!
//! ## Description
//! Lets the first packet of each aggregate pass. Others leave by output 1, or are dropped. It
//! remembers up to a million aggregates. All packets of aggregates beyond these count as first.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! - `clear` (write): forgets all.
//!
//! ## See also
//! `AggregateCounter`, `AggregateIP`

use std::collections::HashSet;

use crate::prelude::*;
use crate::shared::fields::Annotations;

/// Passes the first of each.
#[derive(Default)]
pub(crate) struct AggregateFirst {
    seen: HashSet<u32>,
}

impl Class for AggregateFirst {
    const INFO: ClassInfo = ClassInfo::new("AggregateFirst", "1/1-2").processing("a/ah");
}

/// Most aggregates that are stored.
const MOST: usize = 1 << 20;

impl Element for AggregateFirst {
    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let seen = &mut self.seen;
        let is_first = |packet: &mut Packet| {
            let aggregate = packet.aggregate();
            if seen.len() >= MOST { !seen.contains(&aggregate) } else { seen.insert(aggregate) }
        };
        batch.filter(is_first, |packet| context.push(1, packet));
    }

    handlers! { this, context, value; button "clear" => this.seen.clear(); }
}

#[cfg(test)]
mod tests {
    use crate::shared::fields::Annotations;
    use crate::testing::Bench;

    #[test]
    fn the_first_of_each_passes() {
        let mut bench = Bench::new("AggregateFirst", &[]);
        let packets = [1, 2, 1].map(|aggregate: u32| {
            let mut packet = bench.arena.packet(&[aggregate as u8]).unwrap();
            packet.set_aggregate(aggregate);
            packet
        });
        assert_eq!(
            bench.push_packets(0, packets.into()),
            [(1, vec![1]), (0, vec![1]), (0, vec![2])]
        );
    }
}
