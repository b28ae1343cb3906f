//! # SetTimestampDelta
//!
//! ## Synopsis
//! `SetTimestampDelta([TYPE])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Replaces each packet's time, unless it is 0, by a difference of times.
//!
//! ## Arguments
//! - TYPE (keyword): `RANGE` (default): time since the first packet; `NOW`: time until now;
//!   `FIRST`: time since the first packet of its set.
//!
//! ## Handlers
//! - `first` (read): time of the first packet, for RANGE.
//! - `reset` (write): the next packet becomes the first.
//!
//! ## See also
//! `SetTimestamp`, `AdjustTimestamp`

use crate::prelude::*;
use crate::shared::fields::Annotations;
use crate::shared::values::Time;

/// The reference of the times.
#[derive(Clone, Copy, Default)]
enum Against {
    #[default]
    FirstPacket,
    Now,
    FirstOfSet,
}

/// Makes times relative.
#[derive(Default)]
pub(crate) struct SetTimestampDelta {
    against: Against,
    first_ns: u64,
}

impl Class for SetTimestampDelta {
    const INFO: ClassInfo = ClassInfo::new("SetTimestampDelta", "1/1").inline();
}

impl Element for SetTimestampDelta {
    arguments! { this, given;
        let word = keyword "TYPE": String;
        then {
            this.against = match word.map(|word| word.to_ascii_uppercase()).as_deref() {
                None | Some("RANGE") => Against::FirstPacket,
                Some("NOW") => Against::Now,
                Some("FIRST") => Against::FirstOfSet,
                Some(_) => return Err(ConfigError::other("bad TYPE")),
            };
        }
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        for packet in batch {
            let time_ns = packet.timestamp_ns();
            if time_ns == 0 {
                continue;
            }
            if self.first_ns == 0 {
                self.first_ns = time_ns;
            }
            packet.set_timestamp_ns(match self.against {
                Against::FirstPacket => time_ns.saturating_sub(self.first_ns),
                Against::Now => context.wall_ns().saturating_sub(time_ns),
                Against::FirstOfSet => time_ns.saturating_sub(packet.first_timestamp_ns()),
            });
        }
    }

    handlers! { this, context, value;
        read "first" => Time::of(this.first_ns);
        button "reset" => this.first_ns = 0;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn differences() {
        for (arguments, expected) in
            [(&[][..], [0, 4]), (&["TYPE now"], [7, 3]), (&["TYPE FIRST"], [3, 7])]
        {
            let mut bench = Bench::new("SetTimestampDelta", arguments);
            bench.now_ns = 10;
            let packets = [3, 7].map(|time| {
                let mut packet = bench.arena.packet(b"").unwrap();
                packet.set_timestamp_ns(time);
                packet
            });
            bench.push_packets(0, packets.into());
            assert_eq!(
                bench.out.iter().map(|(_, p)| p.timestamp_ns()).collect::<Vec<_>>(),
                expected
            );
        }
    }
}
