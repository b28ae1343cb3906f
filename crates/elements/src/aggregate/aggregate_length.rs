//! # AggregateLength
//!
//! ## Synopsis
//! `AggregateLength([IP])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Sets each packet's aggregate annotation to its length, with the extra length annotation.
//!
//! ## Arguments
//! - IP (keyword): count from the network header on; default false.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `AggregateCounter`, `AggregateIP`

use crate::prelude::*;
use crate::shared::fields::Annotations;

/// Aggregates by length.
#[derive(Default)]
pub(crate) struct AggregateLength {
    ip: bool,
}

impl Class for AggregateLength {
    const INFO: ClassInfo = ClassInfo::new("AggregateLength", "1/1");
}

impl Element for AggregateLength {
    arguments! { this, given;
        keyword "IP": bool = false => this.ip;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            let length = if self.ip { packet.network_len() } else { packet.len() };
            packet.set_aggregate((length as u32).saturating_add(packet.extra_length()));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::shared::fields::Annotations;
    use crate::testing::Bench;

    #[test]
    fn lengths_are_aggregates() {
        let mut bench = Bench::new("AggregateLength", &[]);
        bench.push(0, &[b"abc"]);
        assert_eq!(bench.out[0].1.aggregate(), 3);
    }
}
