//! The lines that a table shows.

use super::{Address, Entry, Limits, Neighbours, State};

/// A line of a table.
pub(crate) struct Line<A> {
    pub(crate) address: A,
    pub(crate) state: State,
    pub(crate) mac: [u8; 6],
    pub(crate) age_ns: u64,
}

impl<A: Address> Neighbours<A> {
    /// All usable entries; on demand all entries, the oldest first.
    pub(crate) fn lines(&self, now_ns: u64) -> impl Iterator<Item = Line<A>> {
        let Limits { on_demand, expire_ns, .. } = self.limits;
        let used = self.entries.iter().filter(|entry| entry.state != State::Free);
        let mut used: Vec<_> = used.collect();
        if on_demand {
            used.sort_by_key(|entry| (entry.confirmed_ns, entry.rank));
        }
        let line = move |entry: &Entry<A>| {
            let age_ns = now_ns.saturating_sub(entry.confirmed_ns);
            let expired = on_demand && !entry.fixed && age_ns > expire_ns;
            Line {
                address: entry.address,
                state: if expired { State::Incomplete } else { entry.state },
                mac: entry.header.first_chunk().copied().unwrap_or_default(),
                age_ns,
            }
        };
        let lines = used.into_iter().map(line);
        lines.filter(move |line| line.state == State::Incomplete || line.age_ns <= expire_ns)
    }
}
