//! Labels that this router assigns.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use crate::id::{Label, Time};

/// Labels 16 to 1,048,575, assigned in turn. A label that is returned is not assigned again for a
/// lifetime: a neighbour whose state has not yet timed out must not send into another LSP.
#[derive(Debug)]
pub(crate) struct Labels {
    used: BTreeSet<Label>,
    resting: VecDeque<(Time, Label)>,
    is_resting: BTreeSet<Label>,
    next: u32,
    rest: Duration,
}

impl Labels {
    pub(crate) fn new(rest: Duration) -> Self {
        let next = Label::FIRST.get();
        let (used, resting, is_resting) = Default::default();
        Self { used, resting, is_resting, next, rest }
    }

    /// A label that has been free for a lifetime.
    pub(crate) fn take(&mut self, now: Time) -> Option<Label> {
        self.wake(now);
        let all = (Label::LAST.get() - Label::FIRST.get() + 1) as usize;
        if self.used.len() + self.is_resting.len() >= all {
            return None;
        }
        loop {
            let label = Label::new(self.next)?;
            self.next = if label == Label::LAST { Label::FIRST.get() } else { self.next + 1 };
            if !self.is_resting.contains(&label) && self.used.insert(label) {
                return Some(label);
            }
        }
    }

    /// Assigns this label, if it is free: the data plane has kept it during a restart.
    pub(crate) fn claim(&mut self, label: Label) -> bool {
        label.is_allocated() && self.used.insert(label)
    }

    pub(crate) fn give_back(&mut self, label: Label, now: Time) {
        if self.used.remove(&label) {
            self.resting.push_back((now + self.rest, label));
            self.is_resting.insert(label);
        }
    }

    fn wake(&mut self, now: Time) {
        while let Some((until, label)) = self.resting.front().copied()
            && until <= now
        {
            self.resting.pop_front();
            self.is_resting.remove(&label);
        }
    }

    pub(crate) fn used(&self) -> usize {
        self.used.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::after(Duration::from_secs(seconds))
    }

    #[test]
    fn a_label_rests_for_a_lifetime() {
        let mut labels = Labels::new(Duration::from_secs(10));
        labels.next = Label::LAST.get();
        assert_eq!(labels.take(at(0)).map(Label::get), Some(0xf_ffff));
        assert_eq!(labels.take(at(0)).map(Label::get), Some(16));
        labels.give_back(Label::FIRST, at(1));
        labels.next = 16;
        assert_eq!(labels.take(at(10)).map(Label::get), Some(17));
        labels.next = 16;
        assert_eq!(labels.take(at(11)).map(Label::get), Some(16));
        assert_eq!(labels.used(), 3);
    }

    #[test]
    fn there_are_no_more_than_there_are() {
        let mut labels = Labels::new(Duration::from_secs(10));
        let taken = std::iter::from_fn(|| labels.take(at(0))).count();
        assert_eq!(taken, 1_048_576 - 16);
        labels.give_back(Label::LAST, at(0));
        assert_eq!(labels.take(at(9)), None);
        assert_eq!(labels.take(at(10)), Some(Label::LAST));
    }
}
