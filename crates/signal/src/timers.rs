//! Deadlines by name: each name has at most one.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{Adjacency, LspKey, Time};
use crate::peer::PeerKey;

/// The action at a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Timer {
    PathRefresh(LspKey),
    PathExpiry(LspKey),
    ResvRefresh(LspKey),
    ResvExpiry(LspKey),
    Blockade(LspKey),
    SoftPreemption(LspKey),
    Retransmit(Adjacency),
    SummaryRefresh(Adjacency),
    Forget(Adjacency),
    Hello(PeerKey),
    Silence(PeerKey),
    RecoveryEnds,
}

impl Timer {
    /// The LSP that the timer's state belongs to.
    #[cfg(test)]
    pub(crate) fn lsp(&self) -> Option<&LspKey> {
        match self {
            Self::PathRefresh(lsp)
            | Self::PathExpiry(lsp)
            | Self::ResvRefresh(lsp)
            | Self::ResvExpiry(lsp)
            | Self::Blockade(lsp)
            | Self::SoftPreemption(lsp) => Some(lsp),
            _ => None,
        }
    }

    /// All timers of an LSP.
    pub(crate) fn of(lsp: LspKey) -> [Self; 6] {
        [
            Self::PathRefresh(lsp),
            Self::PathExpiry(lsp),
            Self::ResvRefresh(lsp),
            Self::ResvExpiry(lsp),
            Self::Blockade(lsp),
            Self::SoftPreemption(lsp),
        ]
    }
}

/// All deadlines.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    order: BTreeSet<(Time, Timer)>,
    at: BTreeMap<Timer, Time>,
}

impl Timers {
    /// Sets a deadline, which replaces an earlier one of the same name.
    pub(crate) fn set(&mut self, timer: Timer, at: Time) {
        if let Some(before) = self.at.insert(timer, at) {
            self.order.remove(&(before, timer));
        }
        self.order.insert((at, timer));
    }

    /// Sets a deadline unless an earlier one is set.
    pub(crate) fn bring_forward(&mut self, timer: Timer, at: Time) {
        if self.at.get(&timer).is_none_or(|before| *before > at) {
            self.set(timer, at);
        }
    }

    pub(crate) fn cancel(&mut self, timer: Timer) {
        if let Some(before) = self.at.remove(&timer) {
            self.order.remove(&(before, timer));
        }
    }

    pub(crate) fn is_set(&self, timer: Timer) -> bool {
        self.at.contains_key(&timer)
    }

    /// The next one, if it is due.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<Timer> {
        let (_, timer) = *self.order.first().filter(|(at, _)| *at <= now)?;
        self.cancel(timer);
        Some(timer)
    }

    pub(crate) fn next(&self) -> Option<Time> {
        self.order.first().map(|(at, _)| *at)
    }

    #[cfg(test)]
    pub(crate) fn names(&self) -> impl Iterator<Item = &Timer> {
        self.at.keys()
    }
}
