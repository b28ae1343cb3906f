//! # StoreData
//!
//! ## Synopsis
//! `StoreData(OFFSET, DATA [, MASK])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Writes DATA into each packet at OFFSET, as much as the packet has room for.
//!
//! ## Arguments
//! - OFFSET: bytes from the start.
//! - DATA: string or `\<hexadecimal digits>`.
//! - MASK (keyword): as long as DATA; only bits set in it are changed.
//! - GROW (keyword): make packets longer if DATA does not fit; default false.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `StoreIPAddress`, `StoreEtherAddress`, `Clipboard`

use crate::prelude::*;
use crate::shared::fields::grow_tail;

/// Writes bytes into packets.
#[derive(Default)]
pub(crate) struct StoreData {
    offset: usize,
    data: Vec<u8>,
    /// As long as `data`.
    mask: Vec<u8>,
    grow: bool,
}

impl Class for StoreData {
    const INFO: ClassInfo = ClassInfo::new("StoreData", "1/1").inline();
}

impl Element for StoreData {
    arguments! { this, given;
        mandatory "OFFSET": usize => this.offset;
        mandatory "DATA": Vec<u8> => this.data;
        keyword "GROW": bool = false => this.grow;
        let mask = keyword "MASK": Vec<u8>;
        then {
            this.mask = mask.unwrap_or_else(|| vec![0xff; this.data.len()]);
            if this.mask.len() != this.data.len() {
                return Err(ConfigError::other("MASK: must have as many bytes as DATA"));
            }
        }
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        let end = self.offset.saturating_add(self.data.len());
        for packet in batch {
            if self.grow && packet.len() < end {
                // A packet without enough room grows as far as it has room.
                let _ = grow_tail(packet, end - packet.len());
            }
            let place = packet.data_mut().get_mut(self.offset..).unwrap_or_default();
            for ((byte, new), mask) in place.iter_mut().zip(&self.data).zip(&self.mask) {
                *byte = *byte & !mask | new & mask;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn writes_what_fits() {
        for (arguments, expected) in [
            (&["1", "XY"][..], "aXYd"),
            (&["3", "XY"], "abcX"),
            (&["9", "XY"], "abcd"),
            (&["3", "XY", "GROW true"], "abcXY"),
            (&["0", r"\<ff>", r"MASK \<02>"], "cbcd"),
        ] {
            let mut bench = Bench::new("StoreData", arguments);
            assert_eq!(bench.push(0, &[b"abcd"]), [(0, expected.into())], "{arguments:?}");
        }
        let error = Bench::error("StoreData", &["0", "XY", "MASK a"]);
        assert_eq!(error, "MASK: must have as many bytes as DATA");
    }
}
