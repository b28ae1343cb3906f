//! Flows and where they go: a table with both directions, bounded, that forgets the unused.

use std::collections::{BTreeSet, HashMap};
use std::net::Ipv4Addr;

/// Addresses and ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct FlowId {
    pub(crate) source: u32,
    pub(crate) source_port: u16,
    pub(crate) destination: u32,
    pub(crate) destination_port: u16,
}

impl FlowId {
    /// The way back.
    pub(crate) fn reverse(self) -> FlowId {
        FlowId {
            source: self.destination,
            source_port: self.destination_port,
            destination: self.source,
            destination_port: self.source_port,
        }
    }
}

impl std::fmt::Display for FlowId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (from, to) = (Ipv4Addr::from(self.source), Ipv4Addr::from(self.destination));
        write!(f, "({from}, {}, {to}, {})", self.source_port, self.destination_port)
    }
}

/// What is told apart beside addresses and ports: TCP and UDP, say.
pub(crate) type Space = u8;

/// A flow and what becomes of it.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) space: Space,
    /// As it comes, and the way back as it comes.
    pub(crate) ids: [FlowId; 2],
    /// Where packets leave, by direction.
    pub(crate) outputs: [usize; 2],
    /// Where it came in first.
    pub(crate) input: usize,
    /// Annotation of the first packet, for the way back.
    pub(crate) reply_annotation: u8,
    /// What its kind of rewriter knows of it.
    pub(crate) state: u8,
    /// Until then nobody else gets its place.
    pub(crate) guaranteed_ns: u64,
    /// Then it may be forgotten.
    pub(crate) expires_ns: u64,
}

impl Flow {
    /// What packets of a direction become.
    pub(crate) fn rewritten(&self, back: bool) -> FlowId {
        let [forth, reply] = self.ids;
        if back { forth.reverse() } else { reply.reverse() }
    }

    /// Where packets of a direction leave.
    pub(crate) fn output(&self, back: bool) -> usize {
        let [forth, reply] = self.outputs;
        if back { reply } else { forth }
    }

    /// A line about a direction.
    pub(crate) fn text(&self, back: bool, now_ns: u64, short: bool) -> String {
        let [forth, reply] = self.ids;
        let id = if back { reply } else { forth };
        let (first, second) = if back { ("", "*") } else { ("*", "") };
        let [a, b] = self.outputs;
        let left = (self.expires_ns.saturating_sub(now_ns) + 500_000_000) / 1_000_000_000;
        let (id, new) = (id.to_string(), self.rewritten(back).to_string());
        let (id, new) = match short {
            true => (
                id.rsplit_once(", ").map_or(id.clone(), |(id, _)| format!("{id})")),
                new.rsplit_once(", ").map_or(new.clone(), |(id, _)| format!("{id})")),
            ),
            false => (id, new),
        };
        format!("{id} => {new} [{first}{a} {second}{b}] i{} exp{left}\n", self.input)
    }
}

/// Which flow, and whether it is its way back.
pub(crate) type Found = (usize, bool);

/// All flows. Looking one up costs one hash; adding one a little more, and making room for it
/// the logarithm of their number.
#[derive(Default)]
pub(crate) struct Table {
    map: HashMap<(Space, FlowId), Found>,
    flows: Vec<Option<Flow>>,
    free: Vec<usize>,
    /// By the end of its guarantee, and those without by when they expire. Uses of a flow are
    /// not noted here, so that a time found may be too early; then it is put right.
    guaranteed: BTreeSet<(u64, usize)>,
    waiting: BTreeSet<(u64, usize)>,
}

impl Table {
    pub(crate) fn len(&self) -> usize {
        self.flows.len() - self.free.len()
    }

    pub(crate) fn find(&self, space: Space, id: FlowId) -> Option<Found> {
        self.map.get(&(space, id)).copied()
    }

    pub(crate) fn get(&mut self, index: usize) -> Option<&mut Flow> {
        self.flows.get_mut(index)?.as_mut()
    }

    /// All flows, in no special order.
    pub(crate) fn flows(&self) -> impl Iterator<Item = &Flow> {
        self.flows.iter().flatten()
    }

    /// Adds a flow, in place of one that has the same way back, or, if there are `capacity`, of
    /// the one that will expire first. `None` if all have guarantees.
    pub(crate) fn add(&mut self, flow: Flow, capacity: usize, now_ns: u64) -> Option<usize> {
        let [forth, reply] = flow.ids;
        if let Some((old, _)) = self.find(flow.space, reply) {
            self.remove(old);
        }
        while self.len() >= capacity {
            let victim = self.victim(now_ns)?;
            self.remove(victim);
        }
        let index = self.free.pop().unwrap_or(self.flows.len());
        if index == self.flows.len() {
            self.flows.push(None);
        }
        self.map.insert((flow.space, forth), (index, false));
        self.map.insert((flow.space, reply), (index, true));
        self.guaranteed.insert((flow.guaranteed_ns, index));
        if let Some(place) = self.flows.get_mut(index) {
            *place = Some(flow);
        }
        Some(index)
    }

    /// Moves flows whose guarantee is over to those that wait.
    fn sort_out(&mut self, now_ns: u64) {
        while let Some((time_ns, index)) = self.guaranteed.first().copied()
            && time_ns <= now_ns
        {
            self.guaranteed.pop_first();
            if let Some(Some(flow)) = self.flows.get(index) {
                match flow.guaranteed_ns > now_ns {
                    true => self.guaranteed.insert((flow.guaranteed_ns, index)),
                    false => self.waiting.insert((flow.expires_ns, index)),
                };
            }
        }
    }

    /// The flow without guarantee that expires first.
    fn victim(&mut self, now_ns: u64) -> Option<usize> {
        self.sort_out(now_ns);
        loop {
            let (time_ns, index) = self.waiting.first().copied()?;
            let Some(Some(flow)) = self.flows.get(index) else {
                self.waiting.pop_first();
                continue;
            };
            if flow.guaranteed_ns > now_ns {
                self.waiting.pop_first();
                self.guaranteed.insert((flow.guaranteed_ns, index));
            } else if flow.expires_ns != time_ns {
                self.waiting.pop_first();
                self.waiting.insert((flow.expires_ns, index));
            } else {
                return Some(index);
            }
        }
    }

    /// Forgets flows that have expired, and more until there are `capacity`.
    pub(crate) fn shrink(&mut self, capacity: usize, now_ns: u64) {
        while let Some(victim) = self.victim(now_ns)
            && self.get(victim).is_some_and(|flow| flow.expires_ns <= now_ns)
        {
            self.remove(victim);
        }
        while self.len() > capacity {
            let any =
                self.victim(now_ns).or_else(|| self.guaranteed.first().map(|(_, index)| *index));
            let Some(victim) = any else { return };
            self.remove(victim);
        }
    }

    /// Forgets flows that came in first here.
    pub(crate) fn remove_input(&mut self, input: usize) {
        for index in 0..self.flows.len() {
            if self.get(index).is_some_and(|flow| flow.input == input) {
                self.remove(index);
            }
        }
    }

    fn remove(&mut self, index: usize) {
        let Some(flow) = self.flows.get_mut(index).and_then(Option::take) else { return };
        for (back, id) in [false, true].into_iter().zip(flow.ids) {
            if self.map.get(&(flow.space, id)) == Some(&(index, back)) {
                self.map.remove(&(flow.space, id));
            }
        }
        // Their times may be old ones.
        let of = |set: &BTreeSet<(u64, usize)>, time_ns| set.contains(&(time_ns, index));
        if of(&self.guaranteed, flow.guaranteed_ns) {
            self.guaranteed.remove(&(flow.guaranteed_ns, index));
        } else if of(&self.waiting, flow.expires_ns) {
            self.waiting.remove(&(flow.expires_ns, index));
        } else {
            self.guaranteed.retain(|(_, other)| *other != index);
            self.waiting.retain(|(_, other)| *other != index);
        }
        self.free.push(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(port: u16, guaranteed_ns: u64, expires_ns: u64) -> Flow {
        let forth = FlowId { source: 1, source_port: port, destination: 2, destination_port: 3 };
        let reply = FlowId { destination: 9, ..forth.reverse() };
        Flow {
            space: 0,
            ids: [forth, reply],
            outputs: [0, 1],
            input: 0,
            reply_annotation: 0,
            state: 0,
            guaranteed_ns,
            expires_ns,
        }
    }

    #[test]
    fn guarantees_are_kept_and_the_oldest_goes() {
        let mut table = Table::default();
        assert!(table.add(flow(1, 5, 100), 2, 0).is_some());
        assert!(table.add(flow(2, 5, 50), 2, 0).is_some());
        assert_eq!(table.add(flow(3, 5, 100), 2, 4), None);
        // The second was used, so that the first goes.
        let (second, back) = table.find(0, flow(2, 0, 0).ids[0]).unwrap();
        assert!(!back);
        table.get(second).unwrap().expires_ns = 200;
        assert!(table.add(flow(3, 11, 100), 2, 6).is_some());
        assert_eq!(table.find(0, flow(1, 0, 0).ids[0]), None);
        assert!(table.find(0, flow(2, 0, 0).ids[1]).is_some_and(|(_, back)| back));
        table.shrink(9, 150);
        assert_eq!(table.len(), 1);
        table.shrink(0, 150);
        assert_eq!((table.len(), table.map.len()), (0, 0));
    }
}
