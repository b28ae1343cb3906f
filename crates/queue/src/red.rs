//! Random early detection: Floyd and Jacobson, IEEE/ACM Transactions on Networking 1 (1993).

use europa_impair::Random;

use crate::settings::Red;

/// The verdict for an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    Mark,
    Drop,
}

/// A queue's mean length.
#[derive(Clone, Debug)]
pub(crate) struct RedState {
    pub(crate) settings: Red,
    mean_bytes: f64,
    /// Packets since the last one that was dropped or marked, so that these are spread evenly.
    since: u32,
    /// When the queue became empty.
    idle_ns: Option<u64>,
    random: Random,
}

impl RedState {
    pub(crate) fn new(settings: Red, seed: u64) -> Self {
        Self { settings, mean_bytes: 0.0, since: 0, idle_ns: None, random: Random::new(seed) }
    }

    /// The queue has become empty.
    pub(crate) fn idle(&mut self, now_ns: u64) {
        self.idle_ns = Some(now_ns);
    }

    /// Judges a packet that arrives while `bytes` bytes wait.
    pub(crate) fn judge(&mut self, now_ns: u64, bytes: u64, ecn: bool) -> Verdict {
        let Red { min_bytes, max_bytes, probability, shift, packet_ns, .. } = self.settings;
        let weight = 0.5f64.powi(i32::from(shift.min(30)));
        if let Some(idle_ns) = self.idle_ns.take() {
            let missed = now_ns.saturating_sub(idle_ns) / packet_ns.max(1);
            let missed = i32::try_from(missed).unwrap_or(i32::MAX);
            self.mean_bytes *= (1.0 - weight).powi(missed);
        }
        self.mean_bytes += weight * (bytes as f64 - self.mean_bytes);
        let (min, max) = (f64::from(min_bytes), f64::from(max_bytes.max(min_bytes)));
        if self.mean_bytes < min {
            self.since = 0;
            return Verdict::Pass;
        }
        let steep = self.mean_bytes >= max;
        let chance = if steep {
            probability + (1.0 - probability) * ((self.mean_bytes - max) / max.max(1.0)).min(1.0)
        } else {
            probability * (self.mean_bytes - min) / (max - min).max(1.0)
        };
        // Section 4 of the paper: distances are uniform between 1 and 1/chance packets.
        let spread = chance / (1.0 - f64::from(self.since) * chance).max(chance);
        self.since += 1;
        if !self.random.happens(spread) {
            return Verdict::Pass;
        }
        self.since = 0;
        if ecn && self.settings.ecn && !steep { Verdict::Mark } else { Verdict::Drop }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: Red = Red {
        min_bytes: 10_000,
        max_bytes: 30_000,
        probability: 0.1,
        shift: 9,
        packet_ns: 12_000,
        ecn: false,
    };

    /// The fraction of packets that do not pass at a constant length.
    fn part(settings: Red, bytes: u64, ecn: bool, counted: Verdict) -> f64 {
        let mut red = RedState::new(settings, 1);
        (0..20_000).for_each(|_| {
            red.judge(0, bytes, ecn);
        });
        (0..20_000).filter(|_| red.judge(0, bytes, ecn) == counted).count() as f64 / 20_000.0
    }

    #[test]
    fn the_slope_is_the_one_that_is_set() {
        // Distances are uniform between 1 and 1/p, so about twice the chance is marked.
        let table =
            [(9_000, 0.0, 0.0), (20_000, 0.09, 0.11), (29_900, 0.17, 0.2), (60_000, 1.0, 1.0)];
        for (bytes, least, most) in table {
            let part = part(SETTINGS, bytes, false, Verdict::Drop);
            assert!((least..=most).contains(&part), "{bytes}: {part}");
        }
    }

    #[test]
    fn what_understands_marks_is_marked_up_to_the_maximum() {
        let settings = Red { ecn: true, ..SETTINGS };
        assert_eq!(part(settings, 20_000, true, Verdict::Drop), 0.0);
        assert!(part(settings, 20_000, true, Verdict::Mark) > 0.05);
        assert_eq!(part(settings, 20_000, false, Verdict::Mark), 0.0);
        assert_eq!(part(settings, 60_000, true, Verdict::Drop), 1.0);
    }

    #[test]
    fn the_mean_shrinks_while_nothing_waits() {
        let mut red = RedState::new(SETTINGS, 1);
        (0..10_000).for_each(|_| {
            red.judge(0, 25_000, false);
        });
        red.idle(0);
        // After the time of 512 packets the mean has changed by a factor of e.
        red.judge(512 * 12_000, 0, false);
        assert!((9_000.0..9_400.0).contains(&red.mean_bytes), "{}", red.mean_bytes);
    }
}
