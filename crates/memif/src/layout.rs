//! The layout of a ring, and of the memory that a client makes.
//!
//! A ring is a header of two cache lines and its descriptors, of 16 bytes each:
//!
//! ```text
//!   0  mark: u32   4  flags: u16   6  head: u16   (client's index)
//!  64  tail: u16   (server's index)
//! 128  descriptor: flags: u16, region: u16, length: u32, offset: u32, metadata: u32
//! ```

use crate::config::Config;
use crate::error::ConfigError;

/// The mark at the start of every ring.
pub(crate) const COOKIE: u32 = 0x03E3_1F20;
pub(crate) const FLAGS: usize = 4;
pub(crate) const HEAD: usize = 6;
pub(crate) const TAIL: usize = 64;
pub(crate) const DESCRIPTORS: usize = 128;
pub(crate) const DESCRIPTOR_BYTES: usize = 16;
/// A ring's flag: the receiver wants no interrupts.
pub(crate) const MASK_INTERRUPT: u16 = 1;
/// A descriptor's flag: the frame continues in the next descriptor.
pub(crate) const NEXT: u16 = 1;

/// Bytes of a ring with 2^`log2_entries` descriptors.
pub(crate) fn ring_bytes(log2_entries: u8) -> usize {
    DESCRIPTORS + (DESCRIPTOR_BYTES << log2_entries)
}

/// The first word of a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) flags: u16,
    pub(crate) region: u16,
    pub(crate) bytes: u32,
}

impl Head {
    #[inline(always)]
    pub(crate) fn from_bits(bits: u64) -> Self {
        // These casts take a part of the word.
        Self { flags: bits as u16, region: (bits >> 16) as u16, bytes: (bits >> 32) as u32 }
    }

    #[inline(always)]
    pub(crate) fn bits(self) -> u64 {
        u64::from(self.flags) | u64::from(self.region) << 16 | u64::from(self.bytes) << 32
    }
}

// The words above put the first field into the lowest bits.
const _: () =
    assert!(cfg!(target_endian = "little"), "memif is written for little-endian machines");

/// The only region of a client. It contains the rings to the server, the rings to the client, and
/// then their buffers in the same order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) to_server: u16,
    pub(crate) to_client: u16,
    pub(crate) log2_entries: u8,
    pub(crate) buffer_bytes: u32,
    /// Distance between buffers, bytes.
    pub(crate) stride: u32,
    buffers: u32,
    pub(crate) bytes: u32,
}

impl Layout {
    /// Lays out these numbers of rings for each direction.
    pub(crate) fn new(
        config: &Config,
        to_server: u16,
        to_client: u16,
        log2_entries: u8,
    ) -> Result<Self, ConfigError> {
        let rings = u64::from(to_server) + u64::from(to_client);
        // One more line than a multiple of a power of two: the first lines of buffers 2048 bytes
        // apart would all fall into two of the 64 sets of a first-level cache.
        let stride = self::stride(config.buffer_bytes);
        let buffers = (rings * ring_bytes(log2_entries) as u64).next_multiple_of(64);
        let bytes = buffers + ((rings * u64::from(stride)) << log2_entries);
        let too_much = ConfigError {
            field: "memory of a client",
            found: bytes,
            wanted: "rings, entries and buffers together must need less than 4 GiB",
        };
        let bytes = u32::try_from(bytes.next_multiple_of(4096)).map_err(|_| too_much)?;
        // The number is smaller than `bytes`, which fits.
        let buffers = buffers as u32;
        let buffer_bytes = config.buffer_bytes;
        Ok(Self { to_server, to_client, log2_entries, buffer_bytes, stride, buffers, bytes })
    }

    /// Offset of ring `index` of a direction, bytes.
    pub(crate) fn ring(&self, to_server: bool, index: u16) -> u32 {
        // The offset is inside the region, so it is below 4 GiB.
        (self.position(to_server, index) as usize * ring_bytes(self.log2_entries)) as u32
    }

    /// Offset of a ring's first buffer, bytes.
    pub(crate) fn first_buffer(&self, to_server: bool, index: u16) -> u32 {
        // As above.
        self.buffers + self.position(to_server, index) * (self.stride << self.log2_entries)
    }

    fn position(&self, to_server: bool, index: u16) -> u32 {
        u32::from(index) + if to_server { 0 } else { u32::from(self.to_server) }
    }
}

fn stride(buffer_bytes: u32) -> u32 {
    let whole = buffer_bytes.next_multiple_of(64);
    if (whole / 64).is_multiple_of(2) { whole + 64 } else { whole }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Rings and buffers in the region do not overlap.
        #[test]
        fn nothing_overlaps(
            receive_rings in 1u16..6, transmit_rings in 1u16..6, log2_entries in 0u8..8,
            buffer_bytes in 64u32..4096,
        ) {
            let config = Config { buffer_bytes, ..Config::default() };
            let layout =
                Layout::new(&config, transmit_rings, receive_rings, log2_entries).unwrap();
            let mut parts = Vec::new();
            for (to_server, rings) in [(true, transmit_rings), (false, receive_rings)] {
                for index in 0..rings {
                    let ring = layout.ring(to_server, index);
                    prop_assert_eq!(ring % 8, 0);
                    parts.push((ring, ring + ring_bytes(log2_entries) as u32));
                    let first = layout.first_buffer(to_server, index);
                    for slot in 0..1 << log2_entries {
                        let at = first + slot * layout.stride;
                        prop_assert_eq!(at % 64, 0);
                        parts.push((at, at + buffer_bytes));
                    }
                }
            }
            parts.sort_unstable();
            prop_assert!(parts.windows(2).all(|pair| pair[0].1 <= pair[1].0));
            prop_assert!(parts.last().unwrap().1 <= layout.bytes);
        }

        #[test]
        fn a_descriptors_word_keeps_its_fields(bits: u64) {
            prop_assert_eq!(Head::from_bits(bits).bits(), bits);
        }
    }
}
