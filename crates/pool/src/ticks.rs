//! Fast time readings from the processor's own counter.
//!
//! Reading the clock takes 20 to 30 ns, several times the cost of a batch in an element. Reading
//! the counter takes about 8 ns. The counter runs at one rate on all processors that Europa
//! supports, under any load, so one comparison with the clock gives its rate.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Time for which the counter is compared with the clock, once in a process.
const COMPARED: Duration = Duration::from_micros(500);

/// The counter now.
#[inline(always)]
pub fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: the instruction only reads a register, and every x86-64 processor has it.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        static FIRST: OnceLock<Instant> = OnceLock::new();
        FIRST.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

/// Counts in 1024 ns.
fn rate() -> u64 {
    static RATE: OnceLock<u64> = OnceLock::new();
    *RATE.get_or_init(|| {
        let (begun, first) = (Instant::now(), now());
        while begun.elapsed() < COMPARED {
            std::hint::spin_loop();
        }
        // The process may lose its core between the two readings. That is very unlikely, and a
        // wrong rate would only make budgets slightly too large or too small.
        let counts = u128::from(now().wrapping_sub(first));
        let ns = begun.elapsed().as_nanos().max(1);
        u64::try_from(counts * 1024 / ns).unwrap_or(u64::MAX).max(1)
    })
}

/// Counts in `ns` nanoseconds. The first call takes half a millisecond.
pub fn of_ns(ns: u64) -> u64 {
    (u128::from(ns) * u128::from(rate()) / 1024).try_into().unwrap_or(u64::MAX)
}

/// Nanoseconds of `counts` counts.
pub fn to_ns(counts: u64) -> u64 {
    (u128::from(counts) * 1024 / u128::from(rate())).try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_time() {
        for ns in [0, 1_000, 50_000, 7_000_000_000] {
            assert!(to_ns(of_ns(ns)).abs_diff(ns) <= 2 + ns / 1000, "{ns}");
        }
        let (begun, first) = (Instant::now(), now());
        std::thread::sleep(Duration::from_millis(20));
        let ns = to_ns(now() - first);
        assert!(ns >= 19_000_000, "{ns}");
        assert!(u128::from(ns) <= begun.elapsed().as_nanos() * 11 / 10, "{ns}");
    }
}
