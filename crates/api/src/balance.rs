//! Equations that hold for counters at rest: no packet is lost without a known cause.

use std::fmt;

use crate::stats::{InterfaceStats, LedgerStats, NodeStats, SendingStats};

/// An equation: two sums of named numbers of packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balance {
    /// `slice/router` or `slice/router.interface`.
    pub of: String,
    /// The terms of the left side: arrivals.
    pub left: Vec<(&'static str, u64)>,
    /// The terms of the right side: results.
    pub right: Vec<(&'static str, u64)>,
}

fn total(counts: &[(String, u64)]) -> u64 {
    counts.iter().map(|(_, count)| count).sum()
}

fn sum(terms: &[(&'static str, u64)]) -> u64 {
    terms.iter().map(|(_, count)| count).sum()
}

impl Balance {
    /// Whether both sums are equal.
    pub fn holds(&self) -> bool {
        self.difference() == 0
    }

    /// Number of packets that have disappeared without a counted cause; negative if there are more
    /// results than packets.
    pub fn difference(&self) -> i128 {
        i128::from(sum(&self.left)) - i128::from(sum(&self.right))
    }

    /// The balance of a router.
    pub fn of_router(name: &str, ledger: &LedgerStats) -> Balance {
        Balance {
            of: name.to_owned(),
            left: vec![
                ("received", ledger.received),
                ("made", ledger.made),
                ("copied", ledger.copied),
            ],
            right: vec![
                ("sent", ledger.sent),
                ("to Linux", ledger.to_linux),
                ("consumed", total(&ledger.consumed)),
                ("dropped", total(&ledger.dropped)),
                ("held", ledger.held),
            ],
        }
    }

    /// The balance of an interface of router `router`.
    pub fn of_interface(router: &str, interface: &InterfaceStats) -> Balance {
        let SendingStats { offered, sent, elsewhere, dropped, waiting } = &interface.sending;
        Balance {
            of: format!("{router}.{}", interface.name),
            left: vec![("offered", *offered)],
            right: vec![
                ("sent", *sent),
                ("elsewhere", *elsewhere),
                ("dropped", total(dropped)),
                ("waiting", *waiting),
            ],
        }
    }

    /// The balances of all routers and interfaces.
    pub fn all(stats: &NodeStats) -> Vec<Balance> {
        let of = |router: &crate::stats::RouterStats| {
            let own = router.ledger.iter().map(|ledger| Balance::of_router(&router.name, ledger));
            let interfaces =
                router.interfaces.iter().map(|one| Balance::of_interface(&router.name, one));
            own.chain(interfaces).collect::<Vec<_>>()
        };
        stats.routers.iter().flat_map(of).collect()
    }
}

impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |terms: &[(&'static str, u64)]| {
            let terms: Vec<String> =
                terms.iter().map(|(name, count)| format!("{name} {count}")).collect();
            terms.join(" + ")
        };
        let sign = if self.holds() { "=" } else { "!=" };
        write!(f, "{}: {} {sign} {}", self.of, side(&self.left), side(&self.right))?;
        match self.difference() {
            0 => Ok(()),
            missing @ 1.. => write!(f, " ({missing} without a cause)"),
            surplus => write!(f, " ({} too many)", -surplus),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_without_a_cause_is_found() {
        let mut ledger = LedgerStats {
            received: 7,
            made: 2,
            copied: 1,
            sent: 5,
            to_linux: 1,
            consumed: vec![("d (Discard)".into(), 1)],
            dropped: vec![("a".into(), 1), ("b".into(), 1)],
            held: 1,
        };
        let balance = Balance::of_router("red/r1", &ledger);
        assert!(balance.holds());
        assert_eq!(
            balance.to_string(),
            "red/r1: received 7 + made 2 + copied 1 = sent 5 + to Linux 1 + consumed 1 + \
             dropped 2 + held 1"
        );
        ledger.dropped.pop();
        let balance = Balance::of_router("red/r1", &ledger);
        assert_eq!((balance.holds(), balance.difference()), (false, 1));
        assert!(balance.to_string().ends_with("(1 without a cause)"));
        ledger.sent = 9;
        let balance = Balance::of_router("red/r1", &ledger);
        assert!(balance.to_string().ends_with("(3 too many)"), "{balance}");
    }
}
