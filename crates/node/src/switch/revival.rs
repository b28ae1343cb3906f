//! When a switch is started again.

use std::time::{Duration, Instant};

use crate::backoff::Backoff;

/// Until a switch that ended while it was started is started again.
const PAUSE: Duration = Duration::from_millis(100);

/// See the file.
pub(super) struct Revival {
    backoff: Backoff,
    restarts: u64,
    due: Option<Instant>,
}

impl Default for Revival {
    fn default() -> Self {
        Self { backoff: Backoff::of_switch(), restarts: 0, due: None }
    }
}

impl Revival {
    /// When it is started again.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Times that it was started again.
    pub(super) fn restarts(&self) -> u64 {
        self.restarts
    }

    /// A former node had started it so often.
    pub(super) fn was_started(&mut self, restarts: u64) {
        self.restarts = self.restarts.max(restarts);
    }

    /// It is started again without a pause.
    pub(super) fn counts(&mut self) {
        self.restarts += 1;
    }

    /// It has ended after some time, or could not be started.
    pub(super) fn failed(&mut self, age: Duration, now: Instant) {
        self.due = Some(self.backoff.failed(age, now));
    }

    /// It ended while it was started. An earlier date stays.
    pub(super) fn try_again(&mut self, now: Instant) {
        self.due.get_or_insert(now + PAUSE);
    }

    /// It is started again at another time.
    pub(super) fn put_off(&mut self, due: Instant) {
        self.due = Some(due);
    }

    /// It is started again now.
    pub(super) fn is_started(&mut self) {
        self.due = None;
        self.restarts += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_due_once_for_each_end() {
        let (mut revival, now) = (Revival::default(), Instant::now());
        assert_eq!(revival.due(), None);
        revival.failed(Duration::ZERO, now);
        assert!(revival.due().is_some_and(|due| due > now));
        revival.put_off(now + PAUSE);
        assert_eq!((revival.due(), revival.restarts()), (Some(now + PAUSE), 0));
        revival.is_started();
        assert_eq!((revival.due(), revival.restarts()), (None, 1));
    }

    #[test]
    fn one_that_keeps_failing_waits_longer() {
        let (mut revival, now) = (Revival::default(), Instant::now());
        let mut waits = Vec::new();
        for _ in 0..6 {
            revival.failed(Duration::ZERO, now);
            let due = revival.due().expect("a date");
            waits.push(due.saturating_duration_since(now));
            revival.is_started();
        }
        assert!(waits.is_sorted() && waits.last() > waits.first(), "{waits:?}");
        assert_eq!(revival.restarts(), 6);
    }

    #[test]
    fn a_failed_start_does_not_put_an_earlier_date_off() {
        let (mut revival, now) = (Revival::default(), Instant::now());
        revival.try_again(now);
        assert_eq!(revival.due(), Some(now + PAUSE));
        revival.try_again(now + PAUSE);
        assert_eq!(revival.due(), Some(now + PAUSE));
        // The count of a former node goes on.
        revival.was_started(7);
        revival.was_started(3);
        revival.counts();
        assert_eq!(revival.restarts(), 8);
    }
}
