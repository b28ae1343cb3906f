//! CPU time, computed from idle time.
//!
//! Soft interrupts are charged to the task that they interrupt, and this kernel may be built
//! without interrupt time accounting. The tick also misses tasks that are shorter than a tick. Idle
//! time has neither fault: a tickless kernel reads the clock when a core enters and leaves its idle
//! loop. So a core's busy time is the elapsed time minus idle time minus the time that the
//! hypervisor took away. A polling process counts as busy.
//!
//! Example: a process that worked for 20 µs and slept for 500 µs used 0.220 s of 3 s by its own
//! clock. Idle time gave 0.241 s (including wake-ups), the tick 0.120 s.

use std::time::{Duration, Instant};

use crate::error::{Context, Error, Result};

/// Idle times of all cores at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    at: Instant,
    cores: Vec<Core>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Core {
    idle_ticks: u64,
    stolen_ticks: u64,
}

/// Busy time of each core between two samples.
#[derive(Clone, Debug, Default)]
pub(crate) struct Busy {
    /// Time that the hypervisor took away, over all cores.
    pub(crate) elapsed: Duration,
    /// Per core, busy nanoseconds.
    pub(crate) cores_ns: Vec<f64>,
    /// Time that the hypervisor took away, over all cores.
    pub(crate) stolen_ns: f64,
}

impl Busy {
    /// Busy nanoseconds of all cores.
    pub(crate) fn total_ns(&self) -> f64 {
        self.cores_ns.iter().sum()
    }

    /// Fraction of all cores' time that the hypervisor took away.
    pub(crate) fn stolen(&self) -> f64 {
        let all_ns = self.elapsed.as_secs_f64() * 1e9 * self.cores_ns.len().max(1) as f64;
        if all_ns > 0.0 { (self.stolen_ns / all_ns).min(1.0) } else { 0.0 }
    }

    /// Busy nanoseconds of one core.
    pub(crate) fn core_ns(&self, core: usize) -> f64 {
        self.cores_ns.get(core).copied().unwrap_or(0.0)
    }
}

impl Sample {
    /// Reads `/proc/stat`.
    pub(crate) fn take() -> Result<Self> {
        let text = std::fs::read_to_string("/proc/stat").context("reading /proc/stat")?;
        Ok(Self { at: Instant::now(), cores: parse(&text) })
    }

    /// Busy time since an earlier sample.
    pub(crate) fn since(&self, earlier: &Self) -> Result<Busy> {
        let tick_ns = 1e9 / ticks_per_second()?;
        let elapsed = self.at.duration_since(earlier.at);
        let elapsed_ns = elapsed.as_secs_f64() * 1e9;
        let mut busy = Busy { elapsed, ..Busy::default() };
        for (now, then) in self.cores.iter().zip(&earlier.cores) {
            let ticks_ns = |now: u64, then: u64| now.saturating_sub(then) as f64 * tick_ns;
            let idle_ns = ticks_ns(now.idle_ticks, then.idle_ticks);
            let stolen_ns = ticks_ns(now.stolen_ticks, then.stolen_ticks);
            busy.cores_ns.push((elapsed_ns - idle_ns - stolen_ns).max(0.0));
            busy.stolen_ns += stolen_ns;
        }
        Ok(busy)
    }
}

fn ticks_per_second() -> Result<f64> {
    let ticks = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).context("CLK_TCK")?;
    ticks.map(|ticks| ticks as f64).ok_or_else(|| Error::Other("no CLK_TCK".into()))
}

/// The lines `cpu0 user nice system idle iowait irq softirq steal …`.
fn parse(text: &str) -> Vec<Core> {
    text.lines()
        .filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "))
        .map(|line| {
            let fields: Vec<u64> =
                line.split_whitespace().skip(1).map(|field| field.parse().unwrap_or(0)).collect();
            let field = |index: usize| fields.get(index).copied().unwrap_or(0);
            Core { idle_ticks: field(3) + field(4), stolen_ticks: field(7) }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_includes_waiting_and_the_sum_line_is_left_out() {
        let text =
            "cpu  9 9 9 9 9 9 9 9\ncpu0 1 2 3 40 5 6 7 8 0 0\ncpu1 0 0 0 7 0 0 0 0\nintr 5\n";
        let core = |idle_ticks, stolen_ticks| Core { idle_ticks, stolen_ticks };
        assert_eq!(parse(text), [core(45, 8), core(7, 0)]);
    }
}
