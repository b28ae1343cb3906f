//! One run: warms up, counts at both ends for some time, and checks the result.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::cpu::{Busy, Sample};
use crate::error::{Error, Result};
use crate::generator::{Generator, Load};
use crate::interrupt;
use crate::sink::{Checks, Counters, Hook, Sink};
use crate::systems::{Arrangement, System};
use crate::testbed::{OTHER_CORE, SENDER_CORE, Testbed};

/// A run is invalid if its two halves differ by more than this. Machines have slow states, and if
/// three of five runs are slow, their median is, too.
const HALVES_MAY_DIFFER: f64 = 0.10;
/// Fraction of a run's time that the hypervisor may take away from the cores. On some machines it
/// takes a core away for tens of milliseconds many times a second; on others never.
pub(crate) const MAY_BE_STOLEN: f64 = 0.02;
/// Most repetitions of an unsteady run; the figures of the last repetition always count.
const REPETITIONS: u32 = 3;

/// Durations of the phases of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// Time of sending before counting starts.
    pub(crate) warm_up: Duration,
    /// Time of counting.
    pub(crate) run: Duration,
}

/// The result of one run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Run {
    /// Packets per second at the sink.
    pub(crate) delivered_pps: f64,
    /// Packets per second that left the generator.
    pub(crate) offered_pps: f64,
    /// Busy time of all cores in a second, in nanoseconds, including generator and sink.
    pub(crate) busy_ns_per_s: f64,
    /// Fraction of the time of all cores that the hypervisor took away.
    pub(crate) stolen: f64,
    /// Number of repetitions because the rate was not steady.
    pub(crate) repeated: u32,
    /// Whether the halves of the last repetition still disagreed, or the hypervisor took too much
    /// time away.
    pub(crate) unsteady: bool,
}

/// The cost of an offered and a delivered packet outside the system under test.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Ends {
    /// CPU time of sending a packet into a veth.
    pub(crate) generator_ns: f64,
    /// CPU time of receiving a packet from a veth, counting and dropping it.
    pub(crate) sink_ns: f64,
    /// The generator's rate to a sink on the other core.
    pub(crate) generator_pps: f64,
}

impl Run {
    /// CPU time per delivered packet over all cores without generator and sink.
    pub(crate) fn cpu_ns_per_packet(&self, ends: &Ends) -> f64 {
        let ends_ns = self.offered_pps * ends.generator_ns + self.delivered_pps * ends.sink_ns;
        (self.busy_ns_per_s - ends_ns).max(0.0) / self.delivered_pps.max(1.0)
    }
}

/// Runs a load through a system in a new testbed.
pub(crate) fn run(
    system: &mut dyn System,
    arrangement: Arrangement,
    load: &Load,
    timing: Timing,
) -> Result<Run> {
    until_steady(|| {
        let testbed = Testbed::routed()?;
        with(system, &testbed, arrangement, |system| {
            let checks = Checks { hops: system.hops(), ..Checks::default() };
            observe(&testbed, arrangement.sink, checks, load, timing).map(|(run, _)| run)
        })
    })
}

/// Runs `work` while a system forwards in a testbed; always removes the testbed.
pub(crate) fn with<T>(
    system: &mut dyn System,
    testbed: &Testbed,
    arrangement: Arrangement,
    work: impl FnOnce(&mut dyn System) -> Result<T>,
) -> Result<T> {
    let result =
        system.setup(testbed).and_then(|()| arrangement.apply(testbed)).and_then(|()| work(system));
    let torn_down = system.teardown(testbed);
    let value = result?;
    torn_down.map(|()| value)
}

/// Repeats an unsteady run.
pub(crate) fn until_steady(mut attempt: impl FnMut() -> Result<Run>) -> Result<Run> {
    let mut repeated = 0;
    loop {
        let run = attempt()?;
        if !run.unsteady || repeated == REPETITIONS {
            return Ok(Run { repeated, ..run });
        }
        repeated += 1;
    }
}

/// Repeats `work`, up to `tries` times, while the hypervisor takes more than `part` of all cores'
/// time. Returns the result of the least disturbed attempt, and the fraction that was taken.
pub(crate) fn undisturbed<T>(
    part: f64,
    tries: u32,
    mut attempt: impl FnMut() -> Result<T>,
) -> Result<(T, f64)> {
    let mut once = || {
        let before = Sample::take()?;
        let value = attempt()?;
        Ok::<_, Error>((value, Sample::take()?.since(&before)?.stolen()))
    };
    let mut best = once()?;
    for _ in 1..tries {
        if best.1 <= part {
            break;
        }
        let next = once()?;
        if next.1 < best.1 {
            best = next;
        }
    }
    Ok(best)
}

/// Measures the cost of generator and sink with a direct wire between them.
///
/// On one core, both together are the whole busy time. With the sink's NAPI on the other core,
/// their shares can be separated. The sum is measured on one core, because two cores also pay for
/// passing packets between them. The shares are measured on two cores.
pub(crate) fn calibrate(load: &Load, timing: Timing) -> Result<Ends> {
    let one_core = |apart: bool| {
        let testbed = Testbed::direct()?;
        if apart {
            testbed.thread_napi("s0", OTHER_CORE)?;
        }
        observe(&testbed, Hook::Xdp, Checks::default(), load, timing)
    };
    let (together, _) = one_core(false)?;
    let (apart, busy) = one_core(true)?;
    let seconds = busy.elapsed.as_secs_f64();
    let generator_ns = busy.core_ns(SENDER_CORE) / seconds / apart.offered_pps.max(1.0);
    let sink_ns = busy.core_ns(OTHER_CORE) / seconds / apart.delivered_pps.max(1.0);
    let sum_ns = together.busy_ns_per_s / together.delivered_pps.max(1.0);
    let scale = sum_ns / (generator_ns + sink_ns);
    Ok(Ends {
        generator_ns: generator_ns * scale,
        sink_ns: sink_ns * scale,
        generator_pps: apart.offered_pps,
    })
}

/// The results of packets that carry a number and a time.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Stamped {
    /// Mean time from generator to sink.
    pub(crate) delay_us: f64,
    /// Upper bounds of the delays of half, 99 % and 99.9 % of the packets, to within an eighth.
    pub(crate) delays_us: [f64; 3],
    /// The mean difference between the delays of successive packets.
    pub(crate) jitter_us: f64,
    /// Packets sent.
    pub(crate) sent: u64,
    /// Packets that never arrived.
    pub(crate) lost: u64,
    /// Packets that arrived after a later one, or twice.
    pub(crate) out_of_order: u64,
}

/// Sends stamped packets through a forwarding system during an event, and checks each packet.
pub(crate) fn follow(
    testbed: &Testbed,
    hook: Hook,
    load: &Load,
    during: impl FnOnce() -> Result<()>,
) -> Result<Stamped> {
    let sink = Sink::attach(testbed, hook, Checks { stamped: true, ..Checks::default() })?;
    let generator = Generator::start(testbed, &Load { stamp: true, ..load.clone() })?;
    during()?;
    let sent = generator.stop()?;
    // Waits until packets in flight have arrived.
    interrupt::sleep(Duration::from_millis(100))?;
    let arrived = sink.counters()?;
    Ok(Stamped {
        delay_us: arrived.delay_ns as f64 / 1e3 / arrived.packets.max(1) as f64,
        delays_us: sink.delays_us([50.0, 99.0, 99.9])?,
        jitter_us: arrived.jitter_ns as f64 / 1e3 / arrived.packets.max(1) as f64,
        sent,
        lost: sent.saturating_sub(arrived.packets),
        out_of_order: arrived.out_of_order,
    })
}

/// Counters of both ends at one moment.
struct Count {
    at: Instant,
    arrived: Counters,
    sent: u64,
}

impl Count {
    /// Packets per second delivered and offered.
    fn rates_since(&self, earlier: &Self) -> (f64, f64) {
        let seconds = self.at.duration_since(earlier.at).as_secs_f64();
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
        (rate(self.arrived.packets, earlier.arrived.packets), rate(self.sent, earlier.sent))
    }
}

/// Sends, waits and counts packets; also measures the CPU time of each core.
pub(crate) fn observe(
    testbed: &Testbed,
    hook: Hook,
    checks: Checks,
    load: &Load,
    timing: Timing,
) -> Result<(Run, Busy)> {
    let sink = Sink::attach(testbed, hook, checks)?;
    let generator = Generator::start(testbed, load)?;
    let count = || {
        let (at, arrived, sent) = (Instant::now(), sink.counters()?, generator.sent()?);
        Ok::<_, Error>(Count { at, arrived, sent })
    };

    interrupt::sleep(timing.warm_up)?;
    let cpu_first = Sample::take()?;
    let first = count()?;
    interrupt::sleep(timing.run / 2)?;
    let middle = count()?;
    interrupt::sleep(timing.run / 2)?;
    let last = count()?;
    let busy = Sample::take()?.since(&cpu_first)?;
    generator.stop()?;

    if last.arrived.wrong_ttl > 0 {
        let wrong = last.arrived.wrong_ttl;
        return Err(Error::Other(format!("{wrong} packets arrived with a TTL no router leaves")));
    }
    let (delivered_pps, offered_pps) = last.rates_since(&first);
    let halves = [middle.rates_since(&first).0, last.rates_since(&middle).0];
    let larger = halves[0].max(halves[1]);
    let seconds = busy.elapsed.as_secs_f64();
    let run = Run {
        delivered_pps,
        offered_pps,
        busy_ns_per_s: busy.total_ns() / seconds,
        stolen: busy.stolen(),
        repeated: 0,
        unsteady: false,
    };
    let differ = (halves[0] - halves[1]).abs() > HALVES_MAY_DIFFER * larger;
    let unsteady = differ || run.stolen > MAY_BE_STOLEN;
    Ok((Run { unsteady, ..run }, busy))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(unsteady: bool) -> Run {
        Run {
            delivered_pps: 1e6,
            offered_pps: 2e6,
            busy_ns_per_s: 1.5e9,
            stolen: 0.0,
            repeated: 0,
            unsteady,
        }
    }

    #[test]
    fn ends_are_subtracted_by_what_each_of_them_handled() {
        let ends = Ends { generator_ns: 100.0, sink_ns: 50.0, generator_pps: 0.0 };
        // 1.5 s busy, minus 2 million packets sent at 100 ns, minus 1 million received at 50 ns;
        // divided by a million.
        assert!((sample(false).cpu_ns_per_packet(&ends) - 1250.0).abs() < 1e-6);
    }

    #[test]
    fn what_is_disturbed_is_tried_again_and_not_for_ever() {
        for (part, tries, expected) in [(1.0, 5, 1), (-1.0, 5, 5), (-1.0, 1, 1)] {
            let mut attempts = 0;
            let (_, stolen) = undisturbed(part, tries, || {
                attempts += 1;
                Ok(())
            })
            .expect("no attempt fails");
            assert_eq!(attempts, expected);
            assert!((0.0..=1.0).contains(&stolen), "{stolen}");
        }
    }

    #[test]
    fn unsteady_runs_are_repeated_and_in_the_end_accepted() {
        for (steady_at, repeated, unsteady) in [(0, 0, false), (2, 2, false), (9, 3, true)] {
            let mut attempt = 0;
            let run = until_steady(|| {
                attempt += 1;
                Ok(sample(attempt <= steady_at))
            })
            .expect("no attempt fails");
            assert_eq!((run.repeated, run.unsteady), (repeated, unsteady), "{steady_at}");
        }
    }
}
