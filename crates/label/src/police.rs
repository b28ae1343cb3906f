//! A token bucket: the limit of a flow.

/// A token bucket of bytes. Times are nanoseconds of one monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bucket {
    /// Bytes a second; 0 means no limit.
    rate: f64,
    depth: f64,
    tokens: f64,
    seen_ns: u64,
}

impl Bucket {
    /// A full bucket. Invalid numbers count as 0.
    pub fn new(bytes_per_second: f64, depth_bytes: f64, now_ns: u64) -> Self {
        let sound = |number: f64| if number.is_finite() { number.max(0.0) } else { 0.0 };
        let depth = sound(depth_bytes);
        Self { rate: sound(bytes_per_second), depth, tokens: depth, seen_ns: now_ns }
    }

    /// The bucket with another rate and depth, and the same fill. A bucket without a rate counts as
    /// full.
    #[must_use]
    pub fn change(self, bytes_per_second: f64, depth_bytes: f64) -> Self {
        let new = Self::new(bytes_per_second, depth_bytes, self.seen_ns);
        let tokens = if self.rate == 0.0 { new.depth } else { self.tokens.min(new.depth) };
        Self { tokens, ..new }
    }

    /// Whether a packet conforms; if so, its bytes are taken from the bucket.
    #[inline(always)]
    pub fn take(&mut self, bytes: usize, now_ns: u64) -> bool {
        if self.rate == 0.0 {
            return true;
        }
        let passed = now_ns.saturating_sub(self.seen_ns) as f64 / 1e9;
        self.tokens = (self.tokens + passed * self.rate).min(self.depth);
        self.seen_ns = self.seen_ns.max(now_ns);
        let is_enough = self.tokens >= bytes as f64;
        if is_enough {
            self.tokens -= bytes as f64;
        }
        is_enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_lets_depth_and_rate_through() {
        let mut bucket = Bucket::new(1000.0, 3000.0, 0);
        let passed = (0..10).filter(|_| bucket.take(1000, 0)).count();
        assert_eq!(passed, 3);
        assert!(!bucket.take(1000, 999_000_000) && bucket.take(1000, 1_000_000_000));
        let passed = (0..10).filter(|_| bucket.take(1000, 60_000_000_000)).count();
        assert_eq!(passed, 3, "no more gathers than its depth");
        assert!(Bucket::new(0.0, 0.0, 0).take(1 << 20, 0), "no rate is no limit");
        assert!(!Bucket::new(1.0, f64::NAN, 0).take(1, 0));
    }
}
