//! Keeps routers off CPUs that receive many packets.
//!
//! Receiving precedes every process of its CPU, and the scheduler ignores it when it places a
//! process. A router there waits for its core for up to a tick, and takes time from the receiving
//! process, which loses frames for all (measured with two cores and one router at the highest rate:
//! 2.2 to 3.1 million packets/s anywhere, 3.6 beside the switch). So routers avoid such CPUs as
//! long as the other CPUs suffice: routers with much work are more important than undisturbed
//! receiving.

use std::time::{Duration, Instant};

use europa_substrate::Table;
use europa_substrate::layout::Receiver;
use nix::errno::Errno;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;

use super::{Router, Routers};
use crate::control::Control;
use crate::{Doing, NodeError};

/// Interval of checks of the CPUs.
const EVERY: Duration = Duration::from_millis(20);
/// The node keeps a CPU free of routers if it receives this many frames a second.
const MANY: f64 = 200_000.0;
/// The CPU is free again after it has received fewer frames than `FEW`, `TIMES` times in a row.
const FEW: f64 = 100_000.0;
const TIMES: u32 = 25;
/// Interval of checks of the routers' CPU use while a CPU receives much.
const USE_EVERY: Duration = Duration::from_millis(200);
/// Routers that use more of the CPUs that are left than this part may use all again, ...
const CROWDED: f64 = 0.6;
/// ... until they use less than this part of them.
const ROOMY: f64 = 0.4;

/// Reports to the node's loop which CPUs receive much, at each change and as long as one does.
///
/// # Errors
/// The system has no thread left.
pub(crate) fn watch(
    receivers: Table<Receiver>,
    cores: Vec<usize>,
    control: Control,
) -> Result<(), NodeError> {
    let thread = std::thread::Builder::new().name("placement".into());
    let work = move || {
        let frames = |cpu: usize| {
            let row = u32::try_from(cpu).ok().filter(|row| *row < receivers.entries());
            row.map_or(0, |row| receivers.get(row).frames)
        };
        let all = cores.iter().map(|cpu| Counted { cpu: *cpu, frames: frames(*cpu), busy: None });
        let mut all: Vec<Counted> = all.collect();
        let (mut looked, mut told) = (Instant::now(), Instant::now());
        loop {
            std::thread::sleep(EVERY);
            let time = looked.elapsed();
            looked = Instant::now();
            let mut changed = false;
            for counted in &mut all {
                changed |= counted.count(frames(counted.cpu), time);
            }
            let receiving: Vec<usize> =
                all.iter().filter(|c| c.busy.is_some()).map(|c| c.cpu).collect();
            if changed || (!receiving.is_empty() && told.elapsed() >= USE_EVERY) {
                told = looked;
                control.tell(move |node| node.routers.place(&node.context.cores, receiving));
            }
        }
    };
    thread.spawn(work).doing("starting a thread for placement").map(drop)
}

/// The frames that a CPU has received.
struct Counted {
    cpu: usize,
    frames: u64,
    /// Whether it receives much, with the number of successive checks with little.
    busy: Option<u32>,
}

impl Counted {
    /// Notes the total number of frames after some time. Returns whether the CPU has begun or
    /// stopped to receive much.
    fn count(&mut self, frames: u64, time: Duration) -> bool {
        let came = frames.wrapping_sub(std::mem::replace(&mut self.frames, frames));
        let rate = came as f64 / time.as_secs_f64().max(1e-3);
        let before = self.busy;
        self.busy = match before {
            None => (rate >= MANY).then_some(0),
            Some(_) if rate >= FEW => Some(0),
            Some(few) => (few + 1 < TIMES).then_some(few + 1),
        };
        self.busy.is_some() != before.is_some()
    }
}

/// Which CPUs are kept free of routers.
#[derive(Default)]
pub(super) struct Placement {
    receiving: Vec<usize>,
    crowded: bool,
    /// CPU time that movable routers have used, and the time of the last check.
    used: Option<(Duration, Instant)>,
}

impl Placement {
    /// CPUs of `cores` that routers may use; all CPUs if there is no choice.
    pub(crate) fn cores(&self, cores: &[usize]) -> Vec<usize> {
        let receives = |cpu: &&usize| self.receiving.contains(cpu);
        let left: Vec<usize> = cores.iter().filter(|cpu| !receives(cpu)).copied().collect();
        if left.is_empty() || self.crowded { cores.to_vec() } else { left }
    }

    /// Notes that routers used the time of `used` cores.
    fn note_use(&mut self, cores: &[usize], used: f64) {
        let left = cores.len().saturating_sub(self.receiving.len()).max(1) as f64;
        self.crowded = used / left > if self.crowded { ROOMY } else { CROWDED };
    }

    /// Notes the routers' CPU use until `now`, in all.
    fn note_used(&mut self, cores: &[usize], used: Duration, now: Instant) {
        let Some((before, at)) = self.used else {
            self.used = Some((used, now));
            return;
        };
        let time = now.duration_since(at);
        if time < USE_EVERY / 2 {
            return;
        }
        self.used = Some((used, now));
        // An ended process is missing, and a new one counts with all its usage. Usage from before
        // any receiving has no meaning.
        if time < USE_EVERY * 2 {
            let lately = used.saturating_sub(before).as_secs_f64() / time.as_secs_f64();
            self.note_use(cores, lately);
        }
    }
}

impl Routers {
    /// Places routers, as these of the CPUs `all` receive much.
    fn place(&mut self, all: &[usize], receiving: Vec<usize>) {
        let before = self.placement.cores(all);
        self.placement.crowded &= !receiving.is_empty();
        self.placement.receiving = receiving;
        let used = self.placed().filter_map(cpu_time).sum();
        self.placement.note_used(all, used, Instant::now());
        let cores = self.placement.cores(all);
        if cores != before {
            tracing::info!("routers may use the CPUs {cores:?}");
            self.placed().for_each(|pid| keep_on(pid, &cores));
        }
    }

    /// Of the CPUs `all`, those that a router which is started may use, if its document says none.
    pub(super) fn cores_for(&self, all: &[usize], router: &Router) -> Vec<usize> {
        if is_placed(router) { self.placement.cores(all) } else { all.to_vec() }
    }

    /// Has routers that another node has placed use all CPUs again.
    pub(crate) fn release(&self, all: &[usize]) {
        self.placed().for_each(|pid| keep_on(pid, all));
    }

    /// Processes that may be moved.
    fn placed(&self) -> impl Iterator<Item = Pid> {
        let routers = self.iter().filter(|router| is_placed(router));
        let pids = routers.flat_map(|router| router.processes()).filter_map(|p| p.body.pid());
        pids.filter_map(|pid| Some(Pid::from_raw(i32::try_from(pid).ok()?)))
    }
}

/// Its document names no CPUs, and it sleeps when it is idle.
fn is_placed(router: &Router) -> bool {
    router.plan.cpus.is_empty() && !router.plan.busy
}

/// CPU time that a process has used.
fn cpu_time(process: Pid) -> Option<Duration> {
    clock_getcpuclockid(process).ok()?.now().ok().map(Duration::from)
}

/// Restricts all threads of a process to these CPUs. A thread that ends meanwhile does not matter.
fn keep_on(process: Pid, cpus: &[usize]) {
    let mut set = CpuSet::new();
    for cpu in cpus {
        let _ = set.set(*cpu);
    }
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten();
    for thread in threads.flatten() {
        let number = thread.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(number) = number else { continue };
        match sched_setaffinity(Pid::from_raw(number), &set) {
            Ok(()) | Err(Errno::ESRCH) => {}
            // For example, a cpuset without these CPUs.
            Err(error) => tracing::warn!(
                "thread {number} of router process {process} stays where it was, not on the CPUs \
                 {cpus:?}: {error}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_receives_much_until_it_has_received_little_for_a_while() {
        let mut cpu = Counted { cpu: 0, frames: 0, busy: None };
        let mut look = |thousands: u64| {
            let frames = cpu.frames + thousands * EVERY.as_millis() as u64;
            let changed = cpu.count(frames, EVERY);
            (changed, cpu.busy.is_some())
        };
        assert_eq!(look(150), (false, false));
        assert_eq!(look(300), (true, true));
        assert_eq!(look(150), (false, true));
        for _ in 1..TIMES {
            assert_eq!(look(0), (false, true));
        }
        assert_eq!(look(150), (false, true));
        for _ in 1..TIMES {
            assert_eq!(look(0), (false, true));
        }
        assert_eq!(look(0), (true, false));
    }

    #[test]
    fn routers_keep_off_unless_all_receive_or_what_is_left_does_not_do() {
        const CORES: [usize; 2] = [0, 1];
        let mut placement = Placement::default();
        assert_eq!(placement.cores(&CORES), CORES);
        placement.receiving = vec![0, 1];
        assert_eq!(placement.cores(&CORES), CORES);
        placement.receiving = vec![0];
        for (used, cores) in
            [(0.1, &[1][..]), (0.7, &CORES), (0.5, &CORES), (0.3, &[1]), (0.5, &[1])]
        {
            placement.note_use(&CORES, used);
            assert_eq!(placement.cores(&CORES), cores, "{used}");
        }
    }

    #[test]
    fn what_was_used_before_anything_was_received_says_nothing() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut placement = Placement { receiving: vec![0], ..Placement::default() };
        placement.note_used(&[0, 1], second, start);
        placement.note_used(&[0, 1], second * 9, start + second * 9);
        assert!(!placement.crowded);
        placement.note_used(&[0, 1], second * 9 + USE_EVERY, start + second * 9 + USE_EVERY);
        assert!(placement.crowded);
    }
}
