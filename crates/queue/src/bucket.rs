//! A token bucket, stored as the time at which it will be full (the virtual scheduling of ITU-T
//! I.371, annex A): while time passes, nothing needs to be added.

use crate::settings::Rate;

/// The smallest depth of a bucket: tokens between two ticks of the timer wheel must not be lost.
const LEAST_BURST_NS: u64 = 4096;
/// The largest time, far from an overflow: 146 years.
const FAR_NS: u64 = 1 << 62;

/// A bucket, as described above. Both factors have 32 fractional bits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bucket {
    ns_per_byte: u64,
    bytes_per_ns: u64,
    burst_ns: u64,
    full_ns: u64,
    /// In 2^-32 ns, so that rates are exact for all packet lengths.
    full_fraction: u32,
}

#[inline]
fn scaled(value: u64, factor: u64) -> u64 {
    u64::try_from((u128::from(value) * u128::from(factor)) >> 32).unwrap_or(FAR_NS).min(FAR_NS)
}

impl Bucket {
    /// A full bucket.
    pub(crate) fn new(rate: Rate, now_ns: u64) -> Self {
        let bits = rate.bits.max(8);
        let ns_per_byte = ((8_000_000_000_u128 << 32) / u128::from(bits)) as u64;
        let bytes_per_ns = ((u128::from(bits) << 32) / 8_000_000_000) as u64;
        let burst_ns = scaled(rate.burst_bytes, ns_per_byte).max(LEAST_BURST_NS);
        Self { ns_per_byte, bytes_per_ns, burst_ns, full_ns: now_ns, full_fraction: 0 }
    }

    /// Changes the rate; the tokens that are missing remain missing.
    pub(crate) fn change(&mut self, rate: Rate, now_ns: u64) {
        let missing = scaled(self.full_ns.saturating_sub(now_ns), self.bytes_per_ns);
        *self = Self::new(rate, now_ns);
        self.full_ns = now_ns.saturating_add(scaled(missing, self.ns_per_byte)).min(FAR_NS);
    }

    /// Whether another packet may pass.
    #[inline]
    pub(crate) fn is_open(&self, now_ns: u64) -> bool {
        self.full_ns <= now_ns.saturating_add(self.burst_ns)
    }

    /// When it opens, or has opened.
    #[inline]
    pub(crate) fn opens_ns(&self) -> u64 {
        self.full_ns.saturating_sub(self.burst_ns)
    }

    /// The bucket's tokens, at least 1 if it is open.
    #[inline]
    pub(crate) fn tokens(&self, now_ns: u64) -> u32 {
        let level_ns = now_ns.saturating_add(self.burst_ns).saturating_sub(self.full_ns);
        let bytes = scaled(level_ns, self.bytes_per_ns);
        bytes.clamp(1, 1 << 30) as u32
    }

    /// Discards tokens above the depth.
    #[inline]
    pub(crate) fn spill(&mut self, now_ns: u64) {
        if self.full_ns < now_ns {
            (self.full_ns, self.full_fraction) = (now_ns, 0);
        }
    }

    /// Removes the tokens of sent packets. The bucket may contain `extra` bytes more than its
    /// depth, for a child that waited for its turn: in one round, a cap below its share adds less
    /// than a turn.
    #[inline]
    pub(crate) fn charge(&mut self, now_ns: u64, bytes: u32, extra: u32) {
        let extra_ns = if extra > 0 { scaled(extra.into(), self.ns_per_byte) } else { 0 };
        self.spill(now_ns.saturating_sub(extra_ns));
        let takes = u128::from(bytes) * u128::from(self.ns_per_byte);
        let takes = takes + u128::from(self.full_fraction);
        self.full_fraction = takes as u32;
        let ns = u64::try_from(takes >> 32).unwrap_or(FAR_NS);
        self.full_ns = self.full_ns.saturating_add(ns).min(FAR_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends packets whenever the bucket is open. Returns the bytes of a second.
    fn passed(rate: Rate, lengths: &[u32]) -> u64 {
        let (mut bucket, mut now, mut bytes) = (Bucket::new(rate, 0), 0, 0);
        for length in lengths.iter().cycle() {
            now = now.max(bucket.opens_ns());
            if now >= 1_000_000_000 {
                break;
            }
            assert!(bucket.is_open(now) && bucket.tokens(now) > 0);
            bucket.charge(now, *length, 0);
            bytes += u64::from(*length);
        }
        bytes
    }

    #[test]
    fn a_second_brings_the_rate_and_one_burst() {
        let table: [(u64, u64, &[u32]); 5] = [
            (1_000_000_000, 10_000, &[64, 9000]),
            (1_000_000, 2000, &[1514]),
            (100_000_000_000, 1_000_000, &[64]),
            (9_600, 100, &[64, 128]),
            (999_999_937, 30_000, &[65, 1499, 8999]),
        ];
        for (bits, burst_bytes, lengths) in table {
            let bytes = passed(Rate { bits, burst_bytes }, lengths);
            let least = bits / 8 + burst_bytes;
            // The least burst of 4 µs, and the packet that overdraws the bucket.
            let most = least + bits / 8 * LEAST_BURST_NS / 1_000_000_000 + 9001;
            assert!((least - 1..=most).contains(&bytes), "{bits}: {bytes} of {least} to {most}");
        }
    }

    #[test]
    fn a_change_keeps_the_debt() {
        let mut bucket = Bucket::new(Rate { bits: 8_000_000, burst_bytes: 1000 }, 0);
        bucket.charge(0, 3000, 0);
        assert_eq!(bucket.opens_ns(), 2_000_000);
        bucket.change(Rate { bits: 16_000_000, burst_bytes: 1000 }, 0);
        // To within a byte.
        assert!((999_000..=1_000_010).contains(&bucket.opens_ns()), "{}", bucket.opens_ns());
    }

    #[test]
    fn extremes_do_not_overflow() {
        let mut bucket = Bucket::new(Rate { bits: 0, burst_bytes: u64::MAX }, u64::MAX / 4);
        bucket.charge(u64::MAX / 4, u32::MAX, 0);
        assert!(bucket.tokens(u64::MAX / 4) > 0);
        let mut bucket = Bucket::new(Rate { bits: u64::MAX, burst_bytes: 0 }, 0);
        bucket.charge(0, u32::MAX, u32::MAX);
        assert!(bucket.is_open(1));
    }
}
