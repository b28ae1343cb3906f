//! Where routers run while much is received: not where it is received.
//!
//! Receiving goes before every process of its CPU, and the scheduler does not look at it when it
//! places one. A router there waits for its core for up to a tick, and takes from the time of whoever
//! receives, which loses frames for all (measured with two cores and one router at the highest rate:
//! 2.2 to 3.1 million packets/s anywhere, 3.6 beside the switch). So routers keep off such CPUs, as
//! long as those that are left do: routers that compute much are worth more than undisturbed
//! receiving.

use std::time::{Duration, Instant};

use europa_substrate::Table;
use europa_substrate::layout::Receiver;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;

use crate::control::Control;
use crate::node::Node;
use crate::router::Router;
use crate::{Doing, NodeError};

/// How often the CPUs are looked at.
const EVERY: Duration = Duration::from_millis(100);
/// A CPU that receives so many frames a second is kept free of routers, ...
const MANY: f64 = 200_000.0;
/// ... until it has received fewer than so many, so many times in a row.
const FEW: f64 = 100_000.0;
const TIMES: u32 = 5;
/// Routers that use more of the CPUs that are left than this part may use all again, ...
const CROWDED: f64 = 0.6;
/// ... until they use less than this part of them.
const ROOMY: f64 = 0.4;

/// Frames that each CPU has received in a time.
type Received = Vec<(usize, u64)>;

/// Tells the node's loop what CPUs receive, while one receives much.
///
/// # Errors
/// When the system has no thread left.
pub(crate) fn watch(
    receivers: Table<Receiver>,
    cores: Vec<usize>,
    control: Control,
) -> Result<(), NodeError> {
    let thread = std::thread::Builder::new().name("placement".into());
    let work = move || {
        let look = || -> Received {
            let of = |cpu: usize| u32::try_from(cpu).ok().filter(|row| *row < receivers.entries());
            let seen = cores.iter().filter_map(|cpu| Some((*cpu, receivers.get(of(*cpu)?).frames)));
            seen.collect()
        };
        let (mut before, mut at) = (look(), Instant::now());
        let mut quiet = TIMES;
        loop {
            std::thread::sleep(EVERY);
            let (now, time) = (look(), at.elapsed());
            at = Instant::now();
            let came = now
                .iter()
                .zip(&before)
                .map(|((cpu, now), (_, old))| (*cpu, now.wrapping_sub(*old)));
            let received: Received = came.collect();
            before = now;
            let much = received.iter().any(|(_, frames)| rate(*frames, time) >= FEW);
            quiet = if much { 0 } else { quiet.saturating_add(1) };
            // Until all have been found to receive little.
            if quiet <= TIMES {
                control.tell(move |node| node.place(&received, time));
            }
        }
    };
    thread.spawn(work).doing("starting a thread for placement").map(drop)
}

fn rate(frames: u64, time: Duration) -> f64 {
    frames as f64 / time.as_secs_f64().max(1e-3)
}

/// Which CPUs are kept free of routers.
#[derive(Default)]
pub(crate) struct Placement {
    /// CPUs that receive much, and how often in a row that was little.
    receiving: Vec<(usize, u32)>,
    crowded: bool,
    /// CPU time of all routers that may be placed, when it was looked at last.
    used: Duration,
}

impl Placement {
    /// CPUs of `cores` that routers may use; all where there is no choice.
    pub(crate) fn cores(&self, cores: &[usize]) -> Vec<usize> {
        let receives = |cpu: &&usize| self.receiving.iter().any(|(other, _)| other == *cpu);
        let left: Vec<usize> = cores.iter().filter(|cpu| !receives(cpu)).copied().collect();
        if left.is_empty() || self.crowded { cores.to_vec() } else { left }
    }

    /// Notes what was received in a time in which routers used `used` of CPU time. Whether that
    /// changes where they may be.
    fn note(
        &mut self,
        cores: &[usize],
        received: &Received,
        used: Duration,
        time: Duration,
    ) -> bool {
        let before = self.cores(cores);
        for (cpu, frames) in received {
            let rate = rate(*frames, time);
            match self.receiving.iter_mut().find(|(other, _)| other == cpu) {
                Some((_, few)) if rate < FEW => *few += 1,
                Some((_, few)) => *few = 0,
                None if rate >= MANY => self.receiving.push((*cpu, 0)),
                None => {}
            }
        }
        self.receiving.retain(|(_, few)| *few < TIMES);
        let left = cores.len().saturating_sub(self.receiving.len()).max(1) as f64;
        let part = used.as_secs_f64() / time.as_secs_f64().max(1e-3) / left;
        self.crowded = part > if self.crowded { ROOMY } else { CROWDED };
        self.cores(cores) != before
    }
}

impl Node {
    /// Places routers after CPUs have received something in a time.
    fn place(&mut self, received: &Received, time: Duration) {
        let used = self.placed().filter_map(cpu_time).sum::<Duration>();
        let before = std::mem::replace(&mut self.placement.used, used);
        // Who has ended is missing, who has begun comes with all that it has used.
        let lately = used.saturating_sub(before).min(time * self.cores.len() as u32);
        if self.placement.note(&self.cores, received, lately, time) {
            let cores = self.placement.cores(&self.cores);
            tracing::info!("routers may use the CPUs {cores:?}");
            for pid in self.placed() {
                keep_on(pid, &cores);
            }
        }
    }

    /// CPUs that a router which is started may use, if its document says none.
    pub(crate) fn cores_for(&self, router: &Router) -> Vec<usize> {
        if is_placed(router) { self.placement.cores(&self.cores) } else { self.cores.clone() }
    }

    /// Has routers that another node has placed use all CPUs again.
    pub(crate) fn release(&self) {
        self.placed().for_each(|pid| keep_on(pid, &self.cores));
    }

    /// Processes that may be placed.
    fn placed(&self) -> impl Iterator<Item = Pid> {
        let routers = self.routers.iter().filter(|router| is_placed(router));
        let pids = routers.flat_map(|router| router.processes()).filter_map(|p| p.body.pid());
        pids.filter_map(|pid| Some(Pid::from_raw(i32::try_from(pid).ok()?)))
    }
}

/// Its document says no CPUs, and it sleeps when it has nothing to do.
fn is_placed(router: &Router) -> bool {
    router.plan.cpus.is_empty() && !router.plan.busy
}

/// CPU time that a process has used.
fn cpu_time(process: Pid) -> Option<Duration> {
    clock_getcpuclockid(process).ok()?.now().ok().map(Duration::from)
}

/// Has all threads of a process run on these CPUs only. One that ends meanwhile does not matter.
fn keep_on(process: Pid, cpus: &[usize]) {
    let mut set = CpuSet::new();
    for cpu in cpus {
        let _ = set.set(*cpu);
    }
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten();
    for thread in threads.flatten() {
        let number = thread.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some(number) = number {
            let _ = sched_setaffinity(Pid::from_raw(number), &set);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORES: [usize; 2] = [0, 1];

    /// One look, of `EVERY`, at two CPUs that receive so many thousand frames a second each, while
    /// routers use a part of one core.
    fn look(placement: &mut Placement, thousands: [u64; 2], used: f64) -> Vec<usize> {
        let received = CORES.iter().copied().zip(thousands.map(|rate| rate * 100)).collect();
        let before = placement.cores(&CORES);
        let changed = placement.note(&CORES, &received, EVERY.mul_f64(used), EVERY);
        let after = placement.cores(&CORES);
        assert_eq!(changed, before != after);
        after
    }

    #[test]
    fn routers_keep_off_a_cpu_that_receives_much_until_it_has_received_little_for_a_while() {
        let mut placement = Placement::default();
        assert_eq!(look(&mut placement, [150, 0], 0.1), CORES);
        assert_eq!(look(&mut placement, [300, 0], 0.1), [1]);
        assert_eq!(look(&mut placement, [150, 0], 0.1), [1]);
        for _ in 1..TIMES {
            assert_eq!(look(&mut placement, [0, 0], 0.0), [1]);
        }
        assert_eq!(look(&mut placement, [0, 0], 0.0), CORES);
    }

    #[test]
    fn they_may_be_anywhere_where_all_receive_or_what_is_left_does_not_do() {
        let mut placement = Placement::default();
        assert_eq!(look(&mut placement, [300, 300], 0.1), CORES);
        for _ in 1..TIMES {
            assert_eq!(look(&mut placement, [300, 0], 0.1), CORES);
        }
        assert_eq!(look(&mut placement, [300, 0], 0.1), [1]);
        assert_eq!(look(&mut placement, [300, 0], 0.7), CORES, "they compute");
        assert_eq!(look(&mut placement, [300, 0], 0.5), CORES);
        assert_eq!(look(&mut placement, [300, 0], 0.3), [1]);
        assert_eq!(look(&mut placement, [300, 0], 0.5), [1]);
    }
}
