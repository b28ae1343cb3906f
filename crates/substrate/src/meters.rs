//! Limits of the rates that slices receive from ports: token buckets, which receive programs check
//! before they copy a frame.

use std::mem::offset_of;
use std::sync::atomic::Ordering;

use crate::layout::{self, MAX_INTERFACES, MAX_METERS};
use crate::substrate::Substrate;

/// Units of a meter in a nanosecond.
const UNITS_PER_NS: u128 = 64;
const COST_SHIFT: u32 = 20;
/// The lowest rate. At a lower rate, the cost of a long frame would not fit into 64 bits.
const LEAST_BITS: u64 = 8000;
/// A bucket holds the bytes that its rate allows in this time, and at least `BURST_BYTES`, so that
/// any frame fits.
const BURST_NS: u128 = 10_000_000;
const BURST_BYTES: u128 = 65_536;

/// The cost of a byte and the depth of the bucket, for a rate in bits a second.
fn bucket(bits: u64) -> (u64, u64) {
    let bits = u128::from(bits.max(LEAST_BITS));
    let byte = 8 * 1_000_000_000 * UNITS_PER_NS;
    // At least one: a cost of 0 would limit nothing.
    let cost = ((byte << COST_SHIFT) / bits).max(1);
    let burst = (BURST_NS * UNITS_PER_NS).max(BURST_BYTES * byte / bits);
    (u64::try_from(cost).unwrap_or(u64::MAX), u64::try_from(burst).unwrap_or(u64::MAX))
}

impl Substrate {
    /// Sets meter `number` to a rate in bits a second; `None` passes all frames. The bucket keeps
    /// its contents.
    ///
    /// # Panics
    /// If there is no such meter.
    pub fn set_meter(&self, number: u32, bits: Option<u64>) {
        let (cost, burst) = bits.map_or((0, 0), bucket);
        let field = |offset| self.meters.atomic_u64(number, offset);
        field(offset_of!(layout::Meter, burst)).store(burst, Ordering::Relaxed);
        field(offset_of!(layout::Meter, cost)).store(cost, Ordering::Release);
    }

    /// The meter that polices an interface's received frames; 0 for none.
    pub fn meter_of(&self, interface: u32) -> u32 {
        let known = interface < MAX_INTERFACES;
        let meter = if known { self.interfaces.get(interface).meter } else { 0 };
        if meter < MAX_METERS { meter } else { 0 }
    }

    /// Lets meter `number` police an interface's received frames; 0 passes all frames.
    ///
    /// # Panics
    /// If there is no such interface.
    pub fn police(&self, interface: u32, number: u32) {
        self.interfaces
            .atomic_u32(interface, offset_of!(layout::Interface, meter))
            .store(number, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets() {
        for (bits, frame_ns, burst_ns) in [
            // Nanoseconds for 1000 bytes, and for the bytes of a full bucket.
            (8_000, 1_000_000_000, 65_536_000_000),
            (1, 1_000_000_000, 65_536_000_000),
            (100_000_000, 80_000, 10_000_000),
            (10_000_000_000, 800, 10_000_000),
            (400_000_000_000, 20, 10_000_000),
        ] {
            let (cost, burst) = bucket(bits);
            let frame = (u128::from(cost) * 1000) >> COST_SHIFT;
            assert_eq!(frame.div_ceil(UNITS_PER_NS), frame_ns, "{bits}");
            assert_eq!(u128::from(burst) / UNITS_PER_NS, burst_ns, "{bits}");
            assert!(u128::from(cost) * 0x1ffff <= u128::from(u64::MAX), "{bits}");
        }
    }
}
