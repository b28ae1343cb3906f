//! Decides when a leader starts the routers of a node elsewhere. Pure: the time is an argument.
//!
//! A node whose lease has ended may still run. That does no harm: links drop packets with its epoch
//! once their other ends have the new epoch. So the rules here only prevent unnecessary takeovers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Duration of a node's lease without renewal. A new leader also waits this long before it acts,
/// and a leader does so after a change of etcd's leader: in that time nodes may have been unable to
/// renew.
pub const LEASE: Duration = Duration::from_secs(5);
/// A node that loses its lease this many times within this period gets a cordon.
const FAILURES: usize = 3;
const WITHIN: Duration = Duration::from_secs(600);

/// A leader's knowledge about nodes. At first it is empty.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// Since when this process leads in etcd's present term, and that term.
    since: Option<(Duration, u64)>,
    present: BTreeSet<String>,
    /// Since when nodes have no lease.
    absent: BTreeMap<String, Duration>,
    /// When nodes lost their lease.
    lost: BTreeMap<String, VecDeque<Duration>>,
}

/// The decision about nodes without a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All nodes have a lease.
    Rest,
    /// Nodes may still take a lease: check again after this time.
    Wait(Duration),
    /// More than half of the nodes have no lease: a failure of etcd or the network is more likely
    /// than one of the nodes.
    TooMany(Vec<String>),
    /// The routers of these nodes start elsewhere.
    TakeOver(Vec<String>),
}

impl Guard {
    /// Checks the nodes. `now` is any monotonic clock, `term` is etcd's term, `nodes` are the nodes
    /// with documents, `present` the nodes with a lease.
    pub fn look(
        &mut self,
        now: Duration,
        term: u64,
        nodes: &BTreeSet<String>,
        present: &BTreeSet<String>,
    ) -> Verdict {
        for gone in self.present.difference(present) {
            self.lost.entry(gone.clone()).or_default().push_back(now);
        }
        self.present.clone_from(present);
        for times in self.lost.values_mut() {
            times.retain(|at| now.saturating_sub(*at) < WITHIN);
        }
        self.lost.retain(|node, times| nodes.contains(node) && !times.is_empty());
        let since = match self.since {
            Some((since, same)) if same == term => since,
            _ => now,
        };
        self.since = Some((since, term));
        let absent: Vec<String> = nodes.difference(present).cloned().collect();
        self.absent.retain(|node, _| absent.contains(node));
        for node in &absent {
            self.absent.entry(node.clone()).or_insert(now);
        }
        if absent.is_empty() {
            Verdict::Rest
        } else if absent.len() * 2 > nodes.len() {
            Verdict::TooMany(absent)
        } else if now < since + LEASE {
            Verdict::Wait(since + LEASE)
        } else {
            Verdict::TakeOver(absent)
        }
    }

    /// When the fence of a node without a lease is up in any case, even if etcd has revoked its lease
    /// early: a whole lease after this leader first saw it without one.
    pub fn fenced_at(&self, node: &str) -> Option<Duration> {
        self.absent.get(node).map(|since| *since + LEASE)
    }

    /// Nodes that have lost their lease three times in ten minutes.
    pub fn failing(&self) -> impl Iterator<Item = &str> {
        let often = self.lost.iter().filter(|(_, times)| times.len() >= FAILURES);
        often.map(|(node, _)| node.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> BTreeSet<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn verdicts() {
        let over = |text: &str| Verdict::TakeOver(names(text).into_iter().collect());
        let many = |text: &str| Verdict::TooMany(names(text).into_iter().collect());
        let wait = |seconds| Verdict::Wait(Duration::from_secs(seconds));
        // Checks by one leader: second, etcd's term, nodes with a lease; the verdict.
        for (nodes, looks) in [
            ("a b c", &[(0, 1, "a b c", Verdict::Rest), (9, 1, "a c", over("b"))][..]),
            ("a b c", &[(0, 1, "a c", wait(5)), (4, 1, "a c", wait(5)), (5, 1, "a c", over("b"))]),
            ("a b c", &[(0, 1, "a c", wait(5)), (4, 1, "a b c", Verdict::Rest)]),
            ("a b c", &[(0, 1, "a b c", Verdict::Rest), (9, 1, "a", many("b c"))]),
            ("a b c", &[(0, 1, "", many("a b c")), (9, 1, "b", many("a c"))]),
            // Exactly half of the nodes is not more than half.
            ("a b", &[(9, 1, "a", wait(14)), (14, 1, "a", over("b"))]),
            // Another leader of etcd.
            (
                "a b c",
                &[
                    (0, 1, "a b c", Verdict::Rest),
                    (9, 2, "a c", wait(14)),
                    (14, 2, "a c", over("b")),
                ],
            ),
            // A node without a document does not count.
            ("a b c", &[(0, 1, "a b c x", Verdict::Rest), (9, 1, "a b c", Verdict::Rest)]),
            ("", &[(0, 1, "", Verdict::Rest)]),
        ] {
            let mut guard = Guard::default();
            for (second, term, present, wanted) in looks {
                let now = Duration::from_secs(*second);
                let verdict = guard.look(now, *term, &names(nodes), &names(present));
                assert_eq!(verdict, *wanted, "{nodes:?} at {second}: {present:?}");
            }
        }
    }

    #[test]
    fn three_failures_in_ten_minutes() {
        for (times, failing) in
            [(&[10, 20, 30][..], true), (&[10, 20], false), (&[10, 400, 700], false)]
        {
            let mut guard = Guard::default();
            let all = names("a b c");
            let mut look = |second: u64, present: &str| {
                guard.look(Duration::from_secs(second), 1, &all, &names(present));
            };
            for second in times {
                look(second - 1, "a b c");
                look(*second, "a c");
                look(second + 1, "a b c");
            }
            assert_eq!(guard.failing().collect::<Vec<_>>() == ["b"], failing, "{times:?}");
        }
    }
}
