//! Controlled delay by RFC 8289, section 5.

use crate::settings::Codel;

/// The verdict for a packet that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    /// Mark the packet if its flow supports marks and the settings allow it, or else drop it.
    Signal,
}

/// A queue's state, section 5.1. A time of 0 means unset.
#[derive(Clone, Debug)]
pub(crate) struct CodelState {
    pub(crate) settings: Codel,
    first_above_ns: u64,
    drop_next_ns: u64,
    count: u32,
    last_count: u32,
    dropping: bool,
}

impl CodelState {
    pub(crate) fn new(settings: Codel) -> Self {
        Self {
            settings,
            first_above_ns: 0,
            drop_next_ns: 0,
            count: 0,
            last_count: 0,
            dropping: false,
        }
    }

    /// Section 5.5: whether packets have waited too long for a whole interval.
    fn is_above(&mut self, now_ns: u64, waited_ns: u64, bytes_behind: u64) -> bool {
        // One packet of the largest usual size may always wait.
        if waited_ns < self.settings.target_ns || bytes_behind <= 1514 {
            self.first_above_ns = 0;
            return false;
        }
        if self.first_above_ns == 0 {
            self.first_above_ns = now_ns.saturating_add(self.settings.interval_ns).max(1);
            return false;
        }
        now_ns >= self.first_above_ns
    }

    /// Section 5.7.
    fn next_ns(&self, from_ns: u64) -> u64 {
        let interval = self.settings.interval_ns as f64 / f64::from(self.count.max(1)).sqrt();
        from_ns.saturating_add(interval as u64)
    }

    /// Judges the packet at the head, section 5.6. If that packet is dropped, call this again for
    /// the next one.
    pub(crate) fn judge(&mut self, now_ns: u64, waited_ns: u64, bytes_behind: u64) -> Verdict {
        let above = self.is_above(now_ns, waited_ns, bytes_behind);
        if !above {
            self.dropping = false;
            return Verdict::Pass;
        }
        if self.dropping {
            if now_ns < self.drop_next_ns {
                return Verdict::Pass;
            }
            self.count = self.count.saturating_add(1);
            self.drop_next_ns = self.next_ns(self.drop_next_ns);
            return Verdict::Signal;
        }
        self.dropping = true;
        // Packets were dropped recently: continue at the rate that worked then.
        let delta = self.count.saturating_sub(self.last_count);
        let recent = now_ns.saturating_sub(self.drop_next_ns) < 16 * self.settings.interval_ns;
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.last_count = self.count;
        self.drop_next_ns = self.next_ns(now_ns);
        Verdict::Signal
    }

    /// The queue has become empty.
    pub(crate) fn idle(&mut self) {
        self.first_above_ns = 0;
        self.dropping = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The times at which a queue of constant delay drops packets, in ms.
    fn drops(waited_ns: u64, until_ms: u64) -> Vec<u64> {
        let mut codel = CodelState::new(Codel::default());
        let signals = |ms: &u64| codel.judge(ms * MS, waited_ns, 100_000) == Verdict::Signal;
        (1..until_ms).filter(signals).collect()
    }

    #[test]
    fn the_interval_shrinks_with_the_root_of_the_count() {
        // Drops at 100, 100 + 100, + 100/√2, + 100/√3, ...: each at the next millisecond.
        assert_eq!(drops(6 * MS, 420), [101, 201, 272, 330, 380]);
        assert_eq!(drops(4 * MS, 1000), []);
    }

    #[test]
    fn a_short_queue_and_a_good_packet_end_it() {
        let mut codel = CodelState::new(Codel::default());
        for (ms, waited_ms, behind, verdict) in [
            (1, 10, 9000, Verdict::Pass),
            (102, 10, 9000, Verdict::Signal),
            (103, 10, 1514, Verdict::Pass),
            (210, 10, 9000, Verdict::Pass),
            (250, 1, 9000, Verdict::Pass),
            (320, 10, 9000, Verdict::Pass),
            (421, 10, 9000, Verdict::Signal),
        ] {
            assert_eq!(codel.judge(ms * MS, waited_ms * MS, behind), verdict, "{ms}");
        }
    }
}
