//! The network's events, in order of time.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::rc::Rc;

use crate::id::{InterfaceId, LspKey, Ticket};
use crate::input::{Input, Tunnel};
use crate::output::{Datagram, Event, Output, Program};
use crate::rule::Rules;
use crate::signaller::Signaller;
use crate::wire::{
    ExplicitHop, ExplicitRoute, Kind, LabelRequest, Message, Object, Sender, Session,
    SessionAttribute, TokenBucket, Tspec,
};
use europa_impair::Random;

use super::node::{CAPACITY, Node, Surroundings, Wanted};
use super::plan::{Mode, Plan};
use super::topology::{Topology, router};

pub(crate) const SECOND: u64 = 1_000_000_000;
const MILLISECOND: u64 = SECOND / 1000;

enum Happening {
    Deliver { node: usize, interface: InterfaceId, source: IpAddr, ttl: u8, bytes: Rc<Vec<u8>> },
    Programmed { node: usize, incarnation: u64, order: Program },
    Tick { node: usize, tick: u64 },
    Start { node: usize },
    Repair { link: usize },
    Act,
}

/// The network.
pub(crate) struct Network {
    pub(crate) plan: Plan,
    pub(crate) now_ns: u64,
    pub(crate) nodes: Vec<Node>,
    pub(crate) topology: Rc<Topology>,
    random: Random,
    queue: BTreeMap<(u64, u64), Happening>,
    number: u64,
    down: BTreeSet<usize>,
    has_faults: bool,
    next_tunnel: u16,
    /// Notes during a run.
    pub(crate) violation: Option<String>,
    /// The messages that were sent, if they are recorded.
    pub(crate) record: Option<Vec<Vec<u8>>>,
    pub(crate) sent: u64,
}

impl Network {
    pub(crate) fn new(plan: Plan) -> Self {
        let mut random = Random::new(plan.seed ^ 0x5eed);
        let topology = Rc::new(Topology::new(plan.nodes, plan.nodes * 3 / 4, &mut random));
        let node = |node| Node {
            signaller: None,
            surroundings: Surroundings { node, topology: topology.clone(), held: BTreeMap::new() },
            table: BTreeMap::new(),
            wanted: BTreeMap::new(),
            incarnation: 0,
            sequence: 1,
            drift: 1.0,
            tick: 0,
            programmed_ns: 0,
        };
        let mut nodes: Vec<Node> = (0..plan.nodes).map(node).collect();
        for node in &mut nodes {
            // 20 % in all.
            node.drift = 0.9 + 0.2 * (random.bits() % 1000) as f64 / 1000.0;
        }
        let mut network = Self {
            now_ns: 0,
            nodes,
            topology,
            random,
            queue: BTreeMap::new(),
            number: 0,
            down: BTreeSet::new(),
            has_faults: true,
            next_tunnel: 1,
            violation: None,
            record: None,
            sent: 0,
            plan,
        };
        (0..network.nodes.len()).for_each(|node| network.start(node));
        network.later(SECOND, Happening::Act);
        network
    }

    fn later(&mut self, wait_ns: u64, happening: Happening) {
        self.number += 1;
        self.queue.insert((self.now_ns + wait_ns, self.number), happening);
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random.bits() % limit
    }

    pub(crate) fn start(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        node.incarnation += 1;
        node.surroundings.held.clear();
        let mut config =
            self.plan.config(&self.topology, number, node.incarnation, &mut self.random);
        config.sequence = node.sequence;
        if self.plan.mode == Mode::Graceful {
            config.restart.kept =
                node.table.iter().map(|(lsp, entry)| (*lsp, entry.clone())).collect();
        } else {
            node.table.clear();
        }
        let mut signaller = Signaller::new(config, node.clock(self.now_ns));
        let rules = Rules { broken: self.plan.broken };
        (signaller.rules, signaller.ledger.rules) = (rules, rules);
        node.signaller = Some(signaller);
        let tunnels: Vec<Tunnel> = node.wanted.values().map(|one| one.tunnel.clone()).collect();
        node.wanted.values_mut().for_each(|wanted| wanted.is_up = false);
        for tunnel in tunnels {
            self.hand(number, Input::Create(tunnel));
        }
        self.hand(number, Input::Tick);
    }

    /// Gives a node an input, and carries out its actions.
    pub(crate) fn hand(&mut self, number: usize, input: Input<'_>) {
        let now_ns = self.now_ns;
        let node = &mut self.nodes[number];
        let clock = node.clock(now_ns);
        let Some(signaller) = node.signaller.as_mut() else { return };
        let outputs = signaller.handle(clock, input, &mut node.surroundings);
        if let Some(deadline) = signaller.next_deadline() {
            let wait = node.when(deadline).saturating_sub(now_ns).max(1000);
            node.tick += 1;
            let tick = node.tick;
            self.later(wait, Happening::Tick { node: number, tick });
        }
        for output in outputs {
            self.act_on(number, output);
        }
        let node = &self.nodes[number];
        if let Some((interface, held)) =
            node.surroundings.held.iter().find(|(_, held)| **held > CAPACITY + 1e-6)
        {
            self.violation.get_or_insert(format!("node {number} {interface:?} holds {held}"));
        }
    }

    fn act_on(&mut self, number: usize, output: Output) {
        let now_ns = self.now_ns;
        match output {
            Output::Send(datagram) => self.send(number, datagram),
            Output::Program(order) => {
                let incarnation = self.nodes[number].incarnation;
                let wait = MILLISECOND + self.below(20) * MILLISECOND;
                // Orders are carried out one after the other.
                let node = &mut self.nodes[number];
                node.programmed_ns = node.programmed_ns.max(now_ns + wait);
                let wait = node.programmed_ns - now_ns;
                self.later(wait, Happening::Programmed { node: number, incarnation, order });
            }
            Output::Remember(sequence) => self.nodes[number].sequence = sequence,
            Output::Event(event) => {
                let wanted = &mut self.nodes[number].wanted;
                match event {
                    Event::Up { lsp, .. } => {
                        wanted.entry(lsp).and_modify(|one| one.is_up = true);
                    }
                    Event::Down { lsp } => {
                        wanted.entry(lsp).and_modify(|one| one.is_up = false);
                    }
                    Event::PathError { lsp, .. } => {
                        wanted.entry(lsp).and_modify(|one| one.failed = Some(now_ns));
                    }
                    _ => (),
                }
            }
        }
    }

    fn send(&mut self, number: usize, datagram: Datagram) {
        self.sent += 1;
        self.check_labels(number, &datagram);
        if let Some(record) = &mut self.record {
            record.push(datagram.bytes.clone());
        }
        let Some(end) = self.topology.end(number, datagram.via.interface).copied() else { return };
        let (loss, doubles) = if self.has_faults {
            (self.below(100) < 15, self.below(100) < 5)
        } else {
            (false, false)
        };
        if loss || self.down.contains(&end.link) {
            return;
        }
        let bytes = Rc::new(datagram.bytes);
        for _ in 0..if doubles { 2 } else { 1 } {
            // Up to 60 ms of delay, so that messages are reordered.
            let wait = MILLISECOND + self.below(if self.has_faults { 60 } else { 5 }) * MILLISECOND;
            self.later(
                wait,
                Happening::Deliver {
                    node: end.far_node,
                    interface: end.far_interface,
                    source: datagram.source,
                    ttl: datagram.ttl,
                    bytes: bytes.clone(),
                },
            );
        }
    }

    /// No label is sent upstream before the data plane has it.
    fn check_labels(&mut self, number: usize, datagram: &Datagram) {
        let kind = datagram.bytes.get(1).copied();
        if kind != Some(Kind::Resv as u8) && kind != Some(Kind::Bundle as u8) {
            return;
        }
        let Ok(message) = Message::decode(&datagram.bytes) else {
            self.violation.get_or_insert(format!("node {number} sends a malformed message"));
            return;
        };
        let resvs = message.parts.iter().chain([&message]).filter(|part| part.kind == Kind::Resv);
        for object in resvs.flat_map(|resv| &resv.objects) {
            let Object::Label(label) = object else { continue };
            let has = |label: u32| {
                let mut entries = self.nodes[number].table.values();
                label < 16
                    || entries.any(|entry| entry.incoming.is_some_and(|own| own.get() == label))
            };
            if !label.0.iter().all(|label| has(*label)) {
                let text = format!("node {number} hands out {label:?} without an entry");
                self.violation.get_or_insert(text);
            }
        }
    }

    /// Lets time pass.
    pub(crate) fn run_until(&mut self, until_ns: u64) {
        while let Some(entry) = self.queue.first_entry()
            && entry.key().0 <= until_ns
            && self.violation.is_none()
        {
            self.now_ns = entry.key().0;
            let happening = entry.remove();
            self.happen(happening);
        }
        self.now_ns = self.now_ns.max(until_ns);
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Deliver { node, interface, source, ttl, bytes } => {
                self.hand(node, Input::Packet { interface, source, ttl, bytes: &bytes });
            }
            Happening::Programmed { node, incarnation, order } => {
                if self.nodes[node].incarnation != incarnation {
                    return;
                }
                let Program { ticket, lsp, entry } = order;
                let table = &mut self.nodes[node].table;
                match entry {
                    Some(entry) => table.insert(lsp, entry),
                    None => table.remove(&lsp),
                };
                self.programmed(node, ticket);
            }
            Happening::Tick { node, tick } if self.nodes[node].tick == tick => {
                self.hand(node, Input::Tick);
            }
            Happening::Tick { .. } => (),
            Happening::Start { node } => self.start(node),
            Happening::Repair { link } => {
                self.down.remove(&link);
            }
            Happening::Act => self.act(),
        }
    }

    fn programmed(&mut self, node: usize, ticket: Ticket) {
        self.hand(node, Input::Programmed { ticket, is_done: true });
    }

    /// Heads change their requests, links break, nodes restart.
    fn act(&mut self) {
        if self.now_ns >= self.plan.faults_for.as_nanos() as u64 {
            return;
        }
        for head in 0..self.nodes.len() {
            if self.nodes[head].signaller.is_none() {
                continue;
            }
            match self.below(20) {
                0..=3 if self.nodes[head].wanted.len() < self.plan.lsps_per_head => {
                    self.create(head)
                }
                4 => self.delete_one(head),
                5 => self.change_one(head),
                6 => self.make_before_break(head),
                _ => (),
            }
        }
        if self.below(8) == 0 {
            let link = self.below(self.topology.links as u64) as usize;
            self.down.insert(link);
            let wait = (2 + self.below(40)) * SECOND;
            self.later(wait, Happening::Repair { link });
        }
        if self.below(12) == 0 {
            let node = self.below(self.nodes.len() as u64) as usize;
            if self.nodes[node].signaller.take().is_some() {
                let wait = (1 + self.below(15)) * SECOND;
                self.later(wait, Happening::Start { node });
            }
        }
        self.later(SECOND, Happening::Act);
    }

    fn tspec(&mut self) -> Tspec {
        let rate = match self.below(6) {
            0 => 0.0,
            1 => 600.0,
            _ => 20.0 + self.below(200) as f32,
        };
        Tspec(TokenBucket {
            rate: rate.into(),
            depth: 3000.0.into(),
            peak: f32::INFINITY.into(),
            smallest: 64,
            largest: 1400,
        })
    }

    fn create(&mut self, head: usize) {
        let tail = self.below(self.nodes.len() as u64) as usize;
        if tail == head {
            return;
        }
        let tunnel = self.next_tunnel;
        self.next_tunnel += 1;
        let session = Session::new(router(tail), tunnel, router(head));
        let lsp = LspKey { session, sender: Sender { address: router(head), lsp: 1 } };
        let mut flags = SessionAttribute::LABELS;
        if self.below(2) == 0 {
            flags |= SessionAttribute::SHARED_EXPLICIT;
        }
        if self.below(3) == 0 {
            flags |= SessionAttribute::SOFT_PREEMPTION;
        }
        let setup = self.below(8) as u8;
        let hold = self.below(u64::from(setup) + 1) as u8;
        let name = format!("{head}-{tail}").into_bytes();
        let attribute = SessionAttribute { affinity: None, setup, hold, flags, name };
        let route = self.route(head);
        let tspec = self.tspec();
        // Without a record, a loose route that visits a node twice is an undetected loop.
        let is_recorded = self.below(2) == 0 || !route.0.is_empty();
        let protocol = LabelRequest::IPV4;
        self.want(head, Tunnel { lsp, tspec, attribute, route, is_recorded, protocol });
    }

    /// Chooses a route: the routing tables, a loose hop, or a neighbour and a loose hop.
    fn route(&mut self, head: usize) -> ExplicitRoute {
        let through = router(self.below(self.nodes.len() as u64) as usize);
        let ends = self.topology.ends[head].len() as u64;
        let first = self.below(ends) as usize;
        let first = self.topology.ends[head][first].far;
        ExplicitRoute(match self.below(4) {
            0 => vec![ExplicitHop::loose(through)],
            1 => vec![ExplicitHop::strict(first)],
            _ => vec![],
        })
    }

    pub(crate) fn want(&mut self, head: usize, tunnel: Tunnel) {
        let wanted = Wanted { tunnel: tunnel.clone(), is_up: false, failed: None };
        self.nodes[head].wanted.insert(tunnel.lsp, wanted);
        self.hand(head, Input::Create(tunnel));
    }

    fn any_of(&mut self, head: usize) -> Option<LspKey> {
        let count = self.nodes[head].wanted.len();
        let index = self.below(count.max(1) as u64) as usize;
        self.nodes[head].wanted.keys().nth(index).copied()
    }

    fn delete_one(&mut self, head: usize) {
        if let Some(lsp) = self.any_of(head) {
            self.nodes[head].wanted.remove(&lsp);
            self.hand(head, Input::Delete(lsp));
        }
    }

    fn change_one(&mut self, head: usize) {
        let tspec = self.tspec();
        if let Some(lsp) = self.any_of(head) {
            if let Some(wanted) = self.nodes[head].wanted.get_mut(&lsp) {
                wanted.tunnel.tspec = tspec;
            }
            self.hand(head, Input::Change { lsp, tspec });
        }
    }

    fn make_before_break(&mut self, head: usize) {
        let route = self.route(head);
        let Some(old) = self.any_of(head) else { return };
        let mut tunnel = self.nodes[head].wanted[&old].tunnel.clone();
        if tunnel.attribute.flags & SessionAttribute::SHARED_EXPLICIT == 0 {
            return;
        }
        tunnel.lsp.sender.lsp += 1;
        tunnel.is_recorded |= !route.0.is_empty();
        tunnel.route = route;
        if !self.nodes[head].wanted.contains_key(&tunnel.lsp) {
            self.want(head, tunnel);
        }
    }

    /// Ends all faults: links are repaired, nodes run, nothing is lost.
    pub(crate) fn calm(&mut self) {
        self.has_faults = false;
        self.down.clear();
        for node in 0..self.nodes.len() {
            if self.nodes[node].signaller.is_none() {
                self.start(node);
            }
        }
        self.queue.retain(|_, happening| !matches!(happening, Happening::Start { .. }));
    }

    pub(crate) fn delete_all(&mut self) {
        for head in 0..self.nodes.len() {
            let all: Vec<LspKey> = self.nodes[head].wanted.keys().copied().collect();
            self.nodes[head].wanted.clear();
            all.into_iter().for_each(|lsp| self.hand(head, Input::Delete(lsp)));
        }
    }
}
