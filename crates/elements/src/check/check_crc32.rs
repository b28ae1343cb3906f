//! # CheckCRC32
//!
//! ## Synopsis
//! `CheckCRC32`
//!
//! ## Ports
//! One input, one or two outputs; output 0 push or pull, output 1 push.
//!
//! ## Description
//! Checks the CRC-32 (that of Ethernet) in the last four bytes of each packet, and removes it.
//! Packets that fail leave by output 1, or are dropped.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! - `drops` (read): packets that failed.
//!
//! ## See also
//! `SetCRC32`

use crate::prelude::*;
use crate::shared::common::part;
use crate::shared::fields::bytes;

/// Checks and removes a CRC.
#[derive(Default)]
pub(crate) struct CheckCRC32 {
    drops: u64,
}

impl Class for CheckCRC32 {
    const INFO: ClassInfo = ClassInfo::new("CheckCRC32", "1/1-2").processing("a/ah").inline();
}

/// The CRC-32 of IEEE 802.3, bit by bit.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            crc >> 1 ^ 0xedb8_8320 & (crc & 1).wrapping_neg()
        })
    })
}

impl Element for CheckCRC32 {
    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        self.drops += part(batch, context, |packet| {
            let Some(end) = packet.len().checked_sub(4) else { return false };
            let found = bytes(packet.data(), end).map(u32::from_le_bytes);
            let good = found == packet.data().get(..end).map(crc32);
            good && packet.take(4).is_some()
        });
    }

    handlers! { this, context, value; read "drops" => this.drops; }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn what_is_set_is_found_right() {
        let mut bench = Bench::new("SetCRC32", &[]);
        let out = bench.push(0, &[b"123456789"]);
        // The check value that every description of this CRC gives.
        assert_eq!(out, [(0, b"123456789\x26\x39\xf4\xcb".to_vec())]);
        let mut bench = Bench::new("CheckCRC32", &[]);
        let mut bad = out[0].1.clone();
        bad[0] ^= 1;
        let out = bench.push(0, &[&out[0].1, &bad, b"abc"]);
        assert_eq!(out, [(1, bad), (1, b"abc".to_vec()), (0, b"123456789".to_vec())]);
    }
}
