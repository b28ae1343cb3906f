//! # StoreTimestamp
//!
//! ## Synopsis
//! `StoreTimestamp([OFFSET, TAIL])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Writes each packet's time into it: seconds since 1970 and nanoseconds, four bytes each in
//! network order. A packet that is too short is made longer.
//!
//! ## Arguments
//! - OFFSET: place of the time, in bytes from the start.
//! - TAIL (keyword): write the time behind the packet's end. Give one of the two.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `SetTimestamp`

use crate::prelude::*;
use crate::shared::fields::{grow_tail, set};

/// Writes the time into packets.
#[derive(Default)]
pub(crate) struct StoreTimestamp {
    /// `None` for the tail.
    offset: Option<usize>,
}

impl Class for StoreTimestamp {
    const INFO: ClassInfo = ClassInfo::new("StoreTimestamp", "1/1").inline();
}

impl StoreTimestamp {
    fn store(&self, packet: &mut Packet) -> Option<()> {
        let at = self.offset.unwrap_or(packet.len());
        let end = at.checked_add(8)?;
        if packet.len() < end {
            grow_tail(packet, end - packet.len())?;
        }
        let time_ns = packet.timestamp_ns();
        // Seconds are stored as 32 bits.
        let (seconds, rest) = ((time_ns / 1_000_000_000) as u32, (time_ns % 1_000_000_000) as u32);
        set(packet.data_mut(), at, seconds.to_be_bytes());
        set(packet.data_mut(), at + 4, rest.to_be_bytes());
        Some(())
    }
}

impl Element for StoreTimestamp {
    arguments! { this, given;
        positional "OFFSET": usize => this.offset;
        let tail = keyword "TAIL": bool = false;
        then {
            if tail == this.offset.is_some() {
                return Err(ConfigError::other("give OFFSET or TAIL"));
            }
        }
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        batch.retain(|packet| self.store(packet).is_some());
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn eight_bytes_of_time() {
        for (arguments, start) in [("OFFSET 1", "a"), ("1", "a"), ("TAIL true", "abc")] {
            let mut bench = Bench::new("StoreTimestamp", &[arguments]);
            let mut packet = bench.arena.packet(b"abc").unwrap();
            packet.set_timestamp_ns(3_000_000_004);
            let expected = [start.as_bytes(), &[0, 0, 0, 3, 0, 0, 0, 4]].concat();
            assert_eq!(bench.push_packets(0, vec![packet]), [(0, expected)]);
        }
    }
}
