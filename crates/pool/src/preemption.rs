//! Whether a poller interrupts others when it wakes up.
//!
//! Pollers at both ends of a ring wake each other often, and interrupting a poller in the middle of
//! its batch costs both. Measured with two pollers on one core: 1.1 to 1.8 million packets a second
//! as ordinary processes, 2.5 to 2.9 million as batch processes, which do not interrupt. If another
//! program uses the whole core, the opposite holds: after each nap a batch process waits for the
//! end of that program's time slice (0.4 million instead of 0.8 to 1.6 million). So a poller is a
//! batch process only during bursts, and only while its naps end on time.

use std::time::{Duration, Instant};

/// If a nap ends this late, another process had the core.
const LATE: Duration = Duration::from_millis(1);
/// Number of successive late naps that is no coincidence.
const LATE_NAPS: u32 = 3;
/// Time for which a poller is then an ordinary process: at first, and at most.
const SHARED: Duration = Duration::from_millis(100);
const SHARED_MOST: Duration = Duration::from_secs(10);

/// The scheduling policy of one poller, which began as a batch process.
#[derive(Debug, Default)]
pub struct Preemption(Rule);

impl Preemption {
    /// Naps, after a burst.
    pub fn nap(&mut self, time: Duration) {
        let start = Instant::now();
        if self.0.burst(start) {
            become_process(libc::SCHED_BATCH);
        }
        std::thread::sleep(time);
        let end = Instant::now();
        if self.0.napped(end, (end - start).saturating_sub(time)) {
            become_process(libc::SCHED_OTHER);
        }
    }

    /// Call it before the process sleeps: a process that is woken must run at once.
    pub fn sleeps(&mut self) {
        if self.0.sleeps() {
            become_process(libc::SCHED_OTHER);
        }
    }
}

/// Sets a scheduling policy. If that is forbidden, nothing changes.
fn become_process(policy: i32) {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameters exist during the call, which changes no memory of this process.
    let _ = unsafe { libc::sched_setscheduler(0, policy, &parameters) };
}

#[derive(Clone, Copy, Debug)]
struct Rule {
    batch: bool,
    late: u32,
    /// The time until which another process is assumed to need the core, and the duration of the
    /// next such time.
    shared_until: Option<Instant>,
    shared: Duration,
}

impl Default for Rule {
    fn default() -> Self {
        Self { batch: true, late: 0, shared_until: None, shared: SHARED }
    }
}

impl Rule {
    /// Notes a burst with more packets to follow. Returns whether the process becomes a batch
    /// process.
    fn burst(&mut self, now: Instant) -> bool {
        if !self.batch && self.shared_until.is_none_or(|until| now >= until) {
            self.batch = true;
            return true;
        }
        false
    }

    /// Notes that a nap ended this late. Returns whether the process becomes an ordinary process.
    fn napped(&mut self, now: Instant, late: Duration) -> bool {
        if late < LATE {
            self.late = 0;
            // No other process needed the core for as long as the last such time: the duration is
            // reset.
            if self.shared_until.is_some_and(|until| now >= until + self.shared) {
                (self.shared_until, self.shared) = (None, SHARED);
            }
            return false;
        }
        self.late += 1;
        if self.late < LATE_NAPS || !self.batch {
            return false;
        }
        self.late = 0;
        self.shared_until = Some(now + self.shared);
        self.shared = (self.shared * 2).min(SHARED_MOST);
        self.batch = false;
        true
    }

    /// Notes that the process goes to sleep. Returns whether it becomes an ordinary process.
    fn sleeps(&mut self) -> bool {
        self.late = 0;
        std::mem::take(&mut self.batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_not_interrupted_unless_somebody_else_wants_the_core() {
        let mut now = Instant::now();
        let mut poller = Rule::default();
        assert!(!poller.burst(now), "it began so");
        assert!(poller.sleeps() && !poller.sleeps(), "once");
        assert!(poller.burst(now));
        for late in [LATE * 2, LATE * 2, LATE / 2, LATE * 2, LATE * 2] {
            assert!(!poller.napped(now, late), "hiccups");
        }
        assert!(poller.napped(now, LATE * 2));
        let mut before = Duration::ZERO;
        for wait in [SHARED, SHARED * 2, SHARED * 4] {
            assert!(wait > before && !poller.burst(now + wait - LATE));
            now += wait;
            assert!(poller.burst(now), "it tries again");
            let naps = (0..LATE_NAPS).filter(|_| poller.napped(now, LATE * 2)).count();
            assert_eq!(naps, 1, "in vain");
            before = wait;
        }
        now += SHARED_MOST * 3;
        assert!(poller.burst(now) && !poller.napped(now, LATE / 2));
        assert_eq!(poller.shared, SHARED, "all is forgotten");
    }
}
