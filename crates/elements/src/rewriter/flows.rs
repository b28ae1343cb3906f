//! Flows and their outputs: a bounded table with both directions, which removes unused flows.

use std::collections::{BTreeSet, HashMap};
use std::net::Ipv4Addr;

use super::deltas::Deltas;

/// Addresses and ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct FlowId {
    pub(crate) source: u32,
    pub(crate) source_port: u16,
    pub(crate) destination: u32,
    pub(crate) destination_port: u16,
}

impl FlowId {
    /// The ports of a ping: a request has the identifier and the next number, a reply the reverse.
    pub(crate) fn ping(self, identifier: u16, reply: bool) -> FlowId {
        let (a, b) = (identifier, identifier.wrapping_add(1));
        let (source_port, destination_port) = if reply { (b, a) } else { (a, b) };
        FlowId { source_port, destination_port, ..self }
    }

    /// The identifier of a ping.
    pub(crate) fn identifier(self, reply: bool) -> u16 {
        if reply { self.destination_port } else { self.source_port }
    }

    /// The reply direction.
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

/// The remaining part of a flow's key, without addresses and ports: the protocol in the lower byte,
/// and in the upper byte the number of the rewriter among those that share a table.
pub(crate) type Space = u16;

/// A flow and its rewriting.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) space: Space,
    /// The id of an original packet, and the id of an original reply.
    pub(crate) ids: [FlowId; 2],
    /// Outputs of its packets, by direction.
    pub(crate) outputs: [usize; 2],
    /// Input of its first packet.
    pub(crate) input: usize,
    /// Annotation of the flow's first packet, which replies get.
    pub(crate) reply_annotation: u8,
    /// The rewriter's state for it.
    pub(crate) state: u8,
    /// Until this time no other flow gets its place.
    pub(crate) guaranteed_ns: u64,
    /// Time after which it may be removed.
    pub(crate) expires_ns: u64,
    /// For the table alone.
    pub(crate) noted: Noted,
    /// For TCP connections whose data is changed.
    pub(crate) deltas: Option<Box<Deltas>>,
}

impl Flow {
    /// Whose it is.
    pub(crate) fn owner(&self) -> u8 {
        (self.space >> 8) as u8
    }

    /// The rest of its space.
    pub(crate) fn protocol(&self) -> u8 {
        self.space as u8
    }

    /// The id of a direction's packets after rewriting.
    pub(crate) fn rewritten(&self, back: bool) -> FlowId {
        let [forth, reply] = self.ids;
        if back { forth.reverse() } else { reply.reverse() }
    }

    /// The output of packets of a direction.
    pub(crate) fn output(&self, back: bool) -> usize {
        let [forth, reply] = self.outputs;
        if back { reply } else { forth }
    }

    /// A line about a direction. Pings have the identifier in place of ports.
    pub(crate) fn text(&self, back: bool, now_ns: u64, ping: bool) -> String {
        let [forth, reply] = self.ids;
        let id = if back { reply } else { forth };
        let (first, second) = if back { ("", "*") } else { ("*", "") };
        let [a, b] = self.outputs;
        let left = (self.expires_ns.saturating_sub(now_ns) + 500_000_000) / 1_000_000_000;
        let text = |id: FlowId| match ping {
            true => {
                let (from, to) = (Ipv4Addr::from(id.source), Ipv4Addr::from(id.destination));
                format!("({from}, {to}, {})", id.identifier(back))
            }
            false => id.to_string(),
        };
        let (id, new) = (text(id), text(self.rewritten(back)));
        format!("{id} => {new} [{first}{a} {second}{b}] i{} exp{left}\n", self.input)
    }
}

/// The flow, and whether the packet has its reply direction.
pub(crate) type Found = (usize, bool);

/// All flows. Finding one costs one hash computation; adding one costs a little more. Making room
/// costs the logarithm of their number.
pub(crate) struct Table {
    /// Most flows.
    pub(crate) capacity: usize,
    map: HashMap<(Space, FlowId), Found>,
    flows: Vec<Option<Flow>>,
    free: Vec<usize>,
    /// Flows by the end of their guarantee. Flows without guarantee, by their expiry. A longer
    /// lifetime is not entered here, so a time may be too early; it is corrected when it is found.
    guaranteed: BTreeSet<(u64, usize)>,
    waiting: BTreeSet<(u64, usize)>,
    /// Rewriters that have flows here.
    owners: u8,
    /// Number of flows by owner and input.
    counts: HashMap<(u8, usize), u64>,
}

/// More flows than this are not kept, for any configuration: about 200 MB.
pub(crate) const MAX_CAPACITY: usize = 1 << 20;

impl Default for Table {
    fn default() -> Table {
        Table {
            capacity: MAX_CAPACITY,
            map: HashMap::new(),
            flows: Vec::new(),
            free: Vec::new(),
            guaranteed: BTreeSet::new(),
            waiting: BTreeSet::new(),
            owners: 0,
            counts: HashMap::new(),
        }
    }
}

/// The set that contains a flow: `true` for that of guarantees, and the time there.
pub(crate) type Noted = (bool, u64);

impl Table {
    pub(crate) fn len(&self) -> usize {
        self.flows.len() - self.free.len()
    }

    /// Registers one more rewriter with flows here; returns its number.
    pub(crate) fn own(&mut self) -> u8 {
        self.owners = self.owners.saturating_add(1);
        self.owners - 1
    }

    pub(crate) fn owners(&self) -> u8 {
        self.owners
    }

    pub(crate) fn set_owners(&mut self, owners: u8) {
        self.owners = owners;
    }

    /// Number of an owner's flows from this input.
    pub(crate) fn count(&self, owner: u8, input: usize) -> u64 {
        self.counts.get(&(owner, input)).copied().unwrap_or_default()
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

    /// Adds a flow. It replaces a flow with the same reply direction or, in a full table, the flow
    /// that expires first. `None` if all flows have guarantees, or the new one would expire first.
    pub(crate) fn add(&mut self, flow: Flow, now_ns: u64) -> Option<usize> {
        let [forth, reply] = flow.ids;
        if let Some((old, _)) = self.find(flow.space, reply) {
            self.remove(old);
        }
        while self.len() >= self.capacity {
            let victim = self.victim(now_ns)?;
            if flow.guaranteed_ns <= now_ns && self.get(victim)?.expires_ns > flow.expires_ns {
                return None;
            }
            self.remove(victim);
        }
        let index = self.free.pop().unwrap_or(self.flows.len());
        if index == self.flows.len() {
            self.flows.push(None);
        }
        self.map.insert((flow.space, forth), (index, false));
        self.map.insert((flow.space, reply), (index, true));
        let guaranteed_ns = flow.guaranteed_ns;
        *self.counts.entry((flow.owner(), flow.input)).or_default() += 1;
        if let Some(place) = self.flows.get_mut(index) {
            *place = Some(flow);
        }
        self.note(index, (true, guaranteed_ns));
        Some(index)
    }

    /// Sets a flow's lifetime.
    pub(crate) fn keep(&mut self, index: usize, guaranteed_ns: u64, expires_ns: u64) {
        let Some(flow) = self.get(index) else { return };
        (flow.guaranteed_ns, flow.expires_ns) = (guaranteed_ns, expires_ns);
        // An entry whose time is too early is corrected later; one whose time is too late must be
        // corrected now.
        match flow.noted {
            (true, noted_ns) if guaranteed_ns < noted_ns => self.note(index, (true, guaranteed_ns)),
            (false, noted_ns) if expires_ns < noted_ns => self.note(index, (false, expires_ns)),
            _ => {}
        }
    }

    /// Enters a flow here, and removes its former entry.
    fn note(&mut self, index: usize, new: Noted) {
        let Some(flow) = self.flows.get_mut(index).and_then(Option::as_mut) else { return };
        let old = std::mem::replace(&mut flow.noted, new);
        self.forget(index, old);
        let set = if new.0 { &mut self.guaranteed } else { &mut self.waiting };
        set.insert((new.1, index));
    }

    fn forget(&mut self, index: usize, (guaranteed, time_ns): Noted) {
        let set = if guaranteed { &mut self.guaranteed } else { &mut self.waiting };
        set.remove(&(time_ns, index));
    }

    /// The flow without guarantee that expires first.
    fn victim(&mut self, now_ns: u64) -> Option<usize> {
        while let Some((time_ns, index)) = self.guaranteed.first().copied()
            && time_ns <= now_ns
            && let Some(flow) = self.get(index)
        {
            let guaranteed = flow.guaranteed_ns > now_ns;
            let time_ns = if guaranteed { flow.guaranteed_ns } else { flow.expires_ns };
            self.note(index, (guaranteed, time_ns));
        }
        loop {
            let (time_ns, index) = self.waiting.first().copied()?;
            let flow = self.get(index)?;
            if flow.guaranteed_ns > now_ns {
                let guaranteed_ns = flow.guaranteed_ns;
                self.note(index, (true, guaranteed_ns));
            } else if flow.expires_ns != time_ns {
                let expires_ns = flow.expires_ns;
                self.note(index, (false, expires_ns));
            } else {
                return Some(index);
            }
        }
    }

    /// Removes expired flows, and more until there are `most`.
    pub(crate) fn shrink(&mut self, most: usize, now_ns: u64) {
        while let Some(victim) = self.victim(now_ns)
            && self.get(victim).is_some_and(|flow| flow.expires_ns <= now_ns)
        {
            self.remove(victim);
        }
        while self.len() > most {
            let any =
                self.victim(now_ns).or_else(|| self.guaranteed.first().map(|(_, index)| *index));
            let Some(victim) = any else { return };
            self.remove(victim);
        }
    }

    /// Removes an owner's flows from this input.
    pub(crate) fn remove_input(&mut self, owner: u8, input: usize) {
        for index in 0..self.flows.len() {
            if self.get(index).is_some_and(|flow| flow.owner() == owner && flow.input == input) {
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
        self.forget(index, flow.noted);
        if let Some(count) = self.counts.get_mut(&(flow.owner(), flow.input)) {
            *count -= 1;
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
            noted: (true, 0),
            deltas: None,
        }
    }

    #[test]
    fn guarantees_are_kept_and_the_oldest_goes() {
        let mut table = Table { capacity: 2, ..Table::default() };
        assert!(table.add(flow(1, 5, 100), 0).is_some());
        assert!(table.add(flow(2, 5, 50), 0).is_some());
        assert_eq!(table.add(flow(3, 5, 100), 4), None);
        // The second flow was used, so the first one is replaced.
        let (second, back) = table.find(0, flow(2, 0, 0).ids[0]).unwrap();
        assert!(!back);
        table.keep(second, 5, 200);
        assert!(table.add(flow(3, 11, 100), 6).is_some());
        assert_eq!(table.find(0, flow(1, 0, 0).ids[0]), None);
        assert!(table.find(0, flow(2, 0, 0).ids[1]).is_some_and(|(_, back)| back));
        // A flow without guarantee that would expire first is not added.
        assert_eq!(table.add(flow(4, 0, 50), 7), None);
        // Flows with a shortened lifetime are replaced first.
        table.add(flow(5, 0, 300), 12).unwrap();
        table.keep(second, 0, 13);
        table.add(flow(6, 0, 301), 12).unwrap();
        assert_eq!(table.find(0, flow(2, 0, 0).ids[0]), None);
        table.shrink(9, 300);
        assert_eq!(table.len(), 1);
        table.shrink(0, 300);
        assert_eq!((table.len(), table.map.len()), (0, 0));
        assert!(table.guaranteed.is_empty() && table.waiting.is_empty());
    }
}
