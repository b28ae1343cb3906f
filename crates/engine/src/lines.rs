//! Limits the lines that elements write to the router's log.
//!
//! A sender of packets can make some elements write a line for each packet. So each element may
//! write only a limited number of lines a second. Further lines are counted, and one line reports
//! their number.

/// Default limit of lines of an element in a second.
const LINES_A_SECOND: u32 = 100;
const SECOND_NS: u64 = 1_000_000_000;
/// A time that is never reached.
const NEVER: u64 = u64::MAX;

/// An element's lines since a time.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    since_ns: u64,
    lines: u32,
    left_out: u64,
}

/// All elements' lines.
pub(crate) struct Lines {
    /// Lines of an element in a second; `None` for no limit.
    limit: Option<u32>,
    accounts: Vec<Account>,
    /// When to report how many lines were left out.
    pub(crate) due_ns: u64,
}

impl Lines {
    pub(crate) fn of(elements: usize) -> Lines {
        let accounts = vec![Account::default(); elements];
        Lines { limit: Some(LINES_A_SECOND), accounts, due_ns: NEVER }
    }

    pub(crate) fn set_limit(&mut self, limit: Option<u32>) {
        self.limit = limit;
    }

    /// Whether an element may write a line now; if not, it is counted.
    #[inline]
    pub(crate) fn admit(&mut self, element: usize, now_ns: u64) -> bool {
        let (Some(limit), Some(account)) = (self.limit, self.accounts.get_mut(element)) else {
            return true;
        };
        if now_ns.saturating_sub(account.since_ns) >= SECOND_NS {
            (account.since_ns, account.lines) = (now_ns, 0);
        }
        if account.lines < limit {
            account.lines += 1;
            return true;
        }
        account.left_out += 1;
        self.due_ns = self.due_ns.min(account.since_ns.saturating_add(SECOND_NS));
        false
    }

    /// Elements whose second is over, each with the number of lines that were left out.
    pub(crate) fn take_left_out(&mut self, now_ns: u64) -> Vec<(usize, u64)> {
        self.due_ns = NEVER;
        let mut found = Vec::new();
        for (element, account) in self.accounts.iter_mut().enumerate() {
            let due_ns = account.since_ns.saturating_add(SECOND_NS);
            match account.left_out {
                0 => {}
                _ if due_ns > now_ns => self.due_ns = self.due_ns.min(due_ns),
                _ => found.push((element, std::mem::take(&mut account.left_out))),
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_element_has_its_lines_each_second() {
        let mut lines = Lines::of(2);
        lines.set_limit(Some(3));
        let admitted = |lines: &mut Lines, element, now_ns| {
            (0..10).filter(|_| lines.admit(element, now_ns)).count()
        };
        let half = SECOND_NS / 2;
        assert_eq!((admitted(&mut lines, 0, 8 * half), lines.due_ns), (3, 10 * half));
        assert_eq!((admitted(&mut lines, 1, 9 * half), lines.due_ns), (3, 10 * half));
        assert_eq!(lines.take_left_out(10 * half), [(0, 7)], "that of the other is not over");
        // An element that continues to write is reported once.
        assert_eq!((admitted(&mut lines, 1, 11 * half), lines.due_ns), (3, 11 * half));
        assert_eq!(lines.take_left_out(13 * half), [(1, 14)]);
        assert_eq!((lines.due_ns, lines.take_left_out(9 * SECOND_NS)), (NEVER, vec![]));
        assert!((0..9).all(|_| lines.admit(2, 0)), "what is no element has no bound");
        lines.set_limit(None);
        assert_eq!(admitted(&mut lines, 0, 5), 10);
    }
}
