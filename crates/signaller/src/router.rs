//! One router: its state machine, its fast path, and the flows that begin there.

mod flows;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use europa_channel::Channel;
use europa_label::{FromRouter, LspId, ToRouter};
use europa_signal::{
    Config, EgressLabel, Entry, Event, HelloSettings, Input, Interface, LspKey, Output, Program,
    Restart, Signaller, Ticket, Time,
};

use crate::heads::{HeadFlow, Wish};
use crate::orders::{Egress, RouterPlan, Said};
use crate::search::{Edge, Node};
use crate::world::Surroundings;
use crate::{cause, convert};

/// The time for which neighbours that use Hello wait after a signaller has ended.
const RESTART: Duration = Duration::from_secs(30);
/// The maximum number of messages that are read from a fast path in one turn.
const MOST_MESSAGES: usize = 256;

/// An LSP in the label table, and the ticket of its pending order.
pub(crate) struct Installed {
    pub(crate) entry: Entry,
    ticket: Option<Ticket>,
}

/// The flow that an LSP belongs to, and the LSP's number.
fn flow_of(flows: &BTreeMap<String, HeadFlow>, lsp: &LspKey) -> Option<(String, u16)> {
    let mut all = flows.iter();
    all.find_map(|(name, flow)| Some((name.clone(), flow.number_of(lsp)?)))
}

/// A router that signals.
pub(crate) struct Router {
    pub(crate) plan: RouterPlan,
    pub(crate) world: Surroundings,
    /// `None` before the label table reports its entries.
    signaller: Option<Signaller>,
    fast_path: Option<Channel<ToRouter, FromRouter>>,
    seed: u64,
    /// The label table has appeared since this flag was last cleared.
    pub(crate) is_new: bool,
    pub(crate) entries: BTreeMap<LspKey, Installed>,
    pub(crate) flows: BTreeMap<String, HeadFlow>,
    /// Flows whose kept LSP, by number, is signalled once its path is known, or at this time.
    kept: BTreeMap<String, (u16, Time)>,
    /// Events for the node.
    pub(crate) said: Vec<Said>,
}

impl Router {
    pub(crate) fn new(plan: RouterPlan, seed: u64) -> Self {
        Self {
            world: Surroundings::new(plan.clone()),
            plan,
            signaller: None,
            fast_path: None,
            seed,
            is_new: false,
            entries: BTreeMap::new(),
            flows: BTreeMap::new(),
            kept: BTreeMap::new(),
            said: Vec::new(),
        }
    }

    /// Whether the label table has reported its entries.
    pub(crate) fn is_known(&self) -> bool {
        self.signaller.is_some()
    }

    /// Whether a router can become another one and keep its neighbours.
    pub(crate) fn is_same_but_for_routes(&self, plan: &RouterPlan) -> bool {
        let routes = plan.routes.clone();
        RouterPlan { routes, ..self.plan.clone() } == *plan
    }

    /// Takes other routes.
    pub(crate) fn set_routes(&mut self, plan: RouterPlan, now: Time) {
        if self.plan.routes == plan.routes {
            return;
        }
        self.world.set_routes(&plan);
        self.plan = plan;
        self.hand(Input::RoutesChanged, now);
    }

    fn config(&self, kept: Vec<(LspKey, Entry)>) -> Config {
        let plan = &self.plan;
        let mut config = Config::new(plan.address, self.seed);
        config.addresses.clone_from(&plan.addresses);
        config.interfaces = (plan.interfaces.iter().zip(0..))
            .map(|(interface, number)| Interface {
                id: convert::interface(number),
                addresses: interface.addresses.iter().map(|net| net.addr()).collect(),
                mtu: interface.mtu,
                colours: 0,
                key: interface.key.as_ref().map(convert::key),
            })
            .collect();
        // RFC 2747, section 3: numbers that follow the machine's clock are never used twice.
        let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        config.sequence = clock.as_nanos() as u64;
        config.refresh = Duration::from_nanos(plan.refresh_ns);
        let interval = Duration::from_nanos(plan.hello_ns);
        config.hello = (!interval.is_zero()).then_some(HelloSettings { interval, by_node: false });
        config.egress = match plan.egress {
            Egress::ImplicitNull => EgressLabel::ImplicitNull,
            Egress::ExplicitNull => EgressLabel::ExplicitNull,
            Egress::Label => EgressLabel::Allocated,
        };
        if config.hello.is_some() {
            let recovery = config.refresh.saturating_mul(2).max(RESTART);
            let resumes = !kept.is_empty();
            config.restart = Restart { restart: RESTART, recovery, resumes, kept };
        }
        config
    }

    /// Uses this socket to the fast path from now on.
    pub(crate) fn attach(&mut self, socket: OwnedFd) {
        self.fast_path = Some(Channel::new(socket));
    }

    pub(crate) fn is_attached(&self) -> bool {
        self.fast_path.is_some()
    }

    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fast_path.as_ref().map(AsFd::as_fd)
    }

    /// The time of the next timer.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let machine = self.signaller.as_ref().and_then(Signaller::next_deadline);
        let flows = self.flows.values().filter_map(HeadFlow::next_deadline);
        machine.into_iter().chain(flows).chain(self.kept.values().map(|(_, due)| *due)).min()
    }

    /// Handles due timers.
    pub(crate) fn tick(&mut self, now: Time) {
        if self.next_deadline().is_some_and(|due| due <= now) {
            self.hand(Input::Tick, now);
        }
        let wishes: Vec<Wish> = self.flows.values_mut().flat_map(|flow| flow.retire(now)).collect();
        wishes.into_iter().for_each(|wish| self.wish(wish, now));
    }

    /// Reads the messages of the fast path.
    pub(crate) fn hear(&mut self, now: Time) {
        for _ in 0..MOST_MESSAGES {
            let Some(fast_path) = &mut self.fast_path else { return };
            match fast_path.try_receive() {
                Ok(Some((message, _))) => self.heard(message, now),
                Ok(None) => return,
                Err(_) => return self.detach(),
            }
        }
    }

    fn detach(&mut self) {
        if self.fast_path.take().is_some() {
            self.said.push(Said::Detached(self.plan.name.clone()));
        }
    }

    fn heard(&mut self, message: FromRouter, now: Time) {
        match message {
            FromRouter::Kept(kept) => self.compare(kept, now),
            FromRouter::Message { interface, source, ttl, bytes } => {
                let interface = convert::interface(interface);
                self.hand(Input::Packet { interface, source, ttl, bytes: &bytes }, now);
            }
            FromRouter::Programmed { ticket, is_done } => {
                let ticket = Ticket(ticket);
                let waits = |installed: &&mut Installed| installed.ticket == Some(ticket);
                if let Some(installed) = self.entries.values_mut().find(waits) {
                    installed.ticket = None;
                    self.hand(Input::Programmed { ticket, is_done }, now);
                }
            }
        }
    }

    /// The label table exists, and has these entries.
    fn compare(&mut self, kept: Vec<(LspId, europa_label::Entry)>, now: Time) {
        if self.signaller.is_none() {
            let known = kept
                .iter()
                .filter_map(|(id, entry)| Some((convert::lsp_key(id), convert::from_label(entry)?)))
                .collect::<Vec<_>>();
            for (lsp, entry) in &known {
                self.entries.insert(*lsp, Installed { entry: entry.clone(), ticket: None });
            }
            self.signaller = Some(Signaller::new(self.config(known), now));
            self.hand(Input::Tick, now);
            let names: Vec<String> = self.flows.keys().cloned().collect();
            names.iter().for_each(|name| self.begin(name, now));
            self.is_new = true;
        }
        for (id, _) in &kept {
            if !self.entries.contains_key(&convert::lsp_key(id)) {
                self.tell(&ToRouter::Program { ticket: None, lsp: *id, entry: None });
            }
        }
        let all: Vec<ToRouter> = self
            .entries
            .iter()
            .map(|(lsp, installed)| ToRouter::Program {
                ticket: installed.ticket.map(|ticket| ticket.0),
                lsp: convert::lsp_id(lsp),
                entry: Some(convert::to_label(&installed.entry)),
            })
            .collect();
        all.iter().for_each(|order| self.tell(order));
        self.tell_heads();
    }

    /// Sends a message to the fast path. A fast path that does not read is detached, and attached
    /// again.
    fn tell(&mut self, order: &ToRouter) {
        let Some(fast_path) = &self.fast_path else { return };
        if !matches!(fast_path.try_send(order), Ok(true)) {
            self.detach();
        }
    }

    fn tell_heads(&mut self) {
        let heads = self.flows.values().map(HeadFlow::head).collect();
        self.tell(&ToRouter::Heads(heads));
    }

    /// Gives the state machine an input, and carries out its actions.
    fn hand(&mut self, input: Input<'_>, now: Time) {
        let Some(signaller) = &mut self.signaller else { return };
        let outputs = signaller.handle(now, input, &mut self.world);
        for output in outputs {
            match output {
                Output::Send(sent) => {
                    // State is refreshed later, so a message that finds no room now is dropped.
                    if let Some(fast_path) = &self.fast_path {
                        let _ = fast_path.try_send(&ToRouter::Send(convert::datagram(sent)));
                    }
                }
                Output::Program(program) => self.program(program),
                Output::Event(event) => self.happened(event, now),
                // The next start begins with the clock: fewer messages than nanoseconds pass.
                Output::Remember(_) => {}
            }
        }
    }

    fn program(&mut self, program: Program) {
        let Program { ticket, lsp, entry } = program;
        let told = entry.as_ref().map(convert::to_label);
        match entry {
            Some(entry) => {
                self.entries.insert(lsp, Installed { entry, ticket: Some(ticket) });
            }
            None => {
                self.entries.remove(&lsp);
                // A kept entry that no flow has claimed ends without an event.
                self.ended(&lsp);
            }
        }
        let ticket = told.is_some().then_some(ticket.0);
        self.tell(&ToRouter::Program { ticket, lsp: convert::lsp_id(&lsp), entry: told });
    }

    fn happened(&mut self, event: Event, now: Time) {
        match event {
            Event::Up { lsp, .. } => {
                let Some((name, number)) = flow_of(&self.flows, &lsp) else { return };
                let Some(flow) = self.flows.get_mut(&name) else { return };
                let was_up = flow.is_up;
                let before = flow.active;
                if flow.up(number, now) {
                    let moved = before.is_some_and(|before| before != number);
                    if !was_up || moved {
                        let reason = if was_up { "Rerouted" } else { "Up" };
                        self.say(&name, false, reason, format!("path {number}"));
                    }
                    self.tell_heads();
                }
            }
            Event::Down { lsp } => self.ended(&lsp),
            Event::PathError { lsp, error } => {
                let Some((name, number)) = flow_of(&self.flows, &lsp) else { return };
                let Some(flow) = self.flows.get_mut(&name) else { return };
                let is_new = flow.error.replace(error) != Some(error);
                flow.refused();
                if is_new {
                    let (code, value) = (error.cause.code, error.cause.value);
                    let words = cause::words(error.cause);
                    let message =
                        format!("path {number}: {words} at {} (error {code}/{value})", error.node);
                    self.say(&name, true, "Refused", message);
                }
            }
            Event::ResvError { .. }
            | Event::Confirmed { .. }
            | Event::Preempted { .. }
            | Event::NeighbourUp(_)
            | Event::NeighbourDown(_) => {}
        }
    }

    /// An LSP is down: a flow may have none.
    fn ended(&mut self, lsp: &LspKey) {
        let Some((name, number)) = flow_of(&self.flows, lsp) else { return };
        if self.flows.get_mut(&name).is_some_and(|flow| flow.down(number)) {
            self.say(&name, true, "Down", format!("path {number} carries nothing"));
            self.tell_heads();
        }
    }

    fn say(&mut self, flow: &str, is_warning: bool, reason: &str, message: String) {
        let (flow, reason) = (flow.to_owned(), reason.to_owned());
        self.said.push(Said::Happened { flow, is_warning, reason, message });
    }

    /// The router in the form that a search for paths needs.
    pub(crate) fn node(&self) -> Node<'_> {
        let left = self.world.left().map(|(_, _, left)| left);
        let interfaces = (self.plan.interfaces.iter().zip(left))
            .map(|(interface, left)| Edge { addresses: &interface.addresses, left });
        let mut addresses = self.plan.addresses.clone();
        addresses.push(self.plan.address);
        Node { name: &self.plan.name, addresses, interfaces: interfaces.collect() }
    }

    /// Whether an address belongs to the router.
    pub(crate) fn has(&self, address: IpAddr) -> bool {
        self.plan.address == address || self.plan.addresses.contains(&address)
    }
}
