//! The state machine: its state, and the events that change it.

use std::collections::BTreeMap;

use crate::config::{Config, lifetime};
use crate::id::{Adjacency, LspKey, Ticket, Time};
use crate::input::Input;
use crate::labels::Labels;
use crate::ledger::Ledger;
use crate::lsp::{Lsp, Side};
use crate::neighbour::{Neighbour, Trust};
use crate::output::{Event, Output};
use crate::peer::{Peer, PeerKey};
use crate::restart::Recovery;
use crate::rule::{Rule, Rules};
use crate::timers::{Timer, Timers};
use crate::transmit::Outgoing;
use crate::world::World;
use europa_impair::Random;

/// Counters of messages that were refused without an answer, and of unusual events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams that are no message.
    pub malformed: u64,
    /// Datagrams whose authentication is missing or wrong, or that were replayed.
    pub unauthentic: u64,
    /// Messages that lack an object, or concern no known state.
    pub useless: u64,
    /// Messages that arrived after a later one.
    pub overtaken: u64,
    /// Messages sent again because they were not acknowledged.
    pub retransmitted: u64,
    /// Messages that were never acknowledged.
    pub given_up: u64,
}

/// A router's signaller. Time is an argument of each call, and actions are returned; it neither
/// reads a clock nor touches a socket.
#[derive(Debug)]
pub struct Signaller {
    pub(crate) config: Config,
    pub(crate) now: Time,
    pub(crate) random: Random,
    pub(crate) lsps: BTreeMap<LspKey, Lsp>,
    pub(crate) neighbours: BTreeMap<Adjacency, Neighbour>,
    pub(crate) peers: BTreeMap<PeerKey, Peer>,
    pub(crate) trust: BTreeMap<(Adjacency, u64), Trust>,
    pub(crate) timers: Timers,
    pub(crate) labels: Labels,
    pub(crate) ledger: Ledger,
    pub(crate) tickets: BTreeMap<Ticket, LspKey>,
    pub(crate) recovery: Recovery,
    pub(crate) next_id: u32,
    pub(crate) next_ticket: u64,
    pub(crate) next_instance: u32,
    pub(crate) next_sequence: u64,
    pub(crate) remembered: u64,
    pub(crate) queue: Vec<Outgoing>,
    pub(crate) out: Vec<Output>,
    pub(crate) counters: Counters,
    pub(crate) rules: Rules,
}

impl Signaller {
    /// A signaller without state except entries that the data plane has kept.
    pub fn new(config: Config, now: Time) -> Self {
        let mut signaller = Self {
            now,
            random: Random::new(config.seed),
            lsps: BTreeMap::new(),
            neighbours: BTreeMap::new(),
            peers: BTreeMap::new(),
            trust: BTreeMap::new(),
            timers: Timers::default(),
            labels: Labels::new(lifetime(config.refresh)),
            ledger: Ledger::default(),
            tickets: BTreeMap::new(),
            recovery: Recovery::default(),
            next_id: 1,
            next_ticket: 1,
            next_instance: config.instance,
            next_sequence: config.sequence,
            remembered: config.sequence,
            queue: Vec::new(),
            out: Vec::new(),
            counters: Counters::default(),
            rules: Rules::default(),
            config,
        };
        signaller.begin_recovery();
        signaller
    }

    /// Handles an event, and returns the actions. `now` must not decrease. All work that is due by
    /// `now` is done too. The next call must be at [`Signaller::next_deadline`] at the latest.
    pub fn handle(&mut self, now: Time, input: Input<'_>, world: &mut dyn World) -> Vec<Output> {
        self.now = self.now.max(now);
        match input {
            Input::Tick => (),
            Input::Packet { interface, source, ttl, bytes } => {
                self.packet(world, interface, source, ttl, bytes);
            }
            Input::Programmed { ticket, is_done } => self.programmed(world, ticket, is_done),
            Input::Create(tunnel) => self.create(world, tunnel),
            Input::Change { lsp, tspec } => self.change(world, lsp, tspec),
            Input::Delete(lsp) => self.delete(world, lsp),
            Input::InterfaceDown(interface) => self.interface_down(world, interface),
            Input::RoutesChanged => self.routes_changed(world),
        }
        while let Some(timer) = self.timers.pop_due(self.now) {
            self.fire(world, timer);
        }
        self.flush();
        std::mem::take(&mut self.out)
    }

    /// The time of the next [`Input::Tick`].
    pub fn next_deadline(&self) -> Option<Time> {
        self.timers.next()
    }

    /// The counters.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The LSPs that pass, begin or end at this router, and whether each has a reservation.
    pub fn lsps(&self) -> impl Iterator<Item = (&LspKey, bool)> {
        self.lsps.iter().map(|(key, lsp)| (key, lsp.resv.is_some()))
    }

    /// Number of labels of the label table that are assigned.
    pub fn labels_in_use(&self) -> usize {
        self.labels.used()
    }

    fn fire(&mut self, world: &mut dyn World, timer: Timer) {
        match timer {
            Timer::PathRefresh(lsp) => self.refresh(world, lsp, Side::Path),
            Timer::ResvRefresh(lsp) => self.refresh(world, lsp, Side::Resv),
            // RFC 2205, section 3.7: state without refreshes is removed.
            Timer::PathExpiry(lsp) if self.rules.hold(Rule::ExpirePath) => {
                self.remove_lsp(world, lsp, true);
            }
            Timer::ResvExpiry(lsp) if self.rules.hold(Rule::ExpireResv) => {
                self.drop_resv(world, lsp, true);
            }
            Timer::PathExpiry(_) | Timer::ResvExpiry(_) => (),
            Timer::Blockade(lsp) => self.end_blockade(lsp),
            Timer::SoftPreemption(lsp) => self.preempt_hard(world, lsp),
            Timer::Retransmit(via) => self.retransmit(via),
            Timer::SummaryRefresh(via) => self.summary_refresh(via),
            Timer::Forget(via) => self.forget(via),
            Timer::Hello(peer) => self.hello_due(peer),
            Timer::Silence(peer) => self.silent(world, peer),
            Timer::RecoveryEnds => self.end_recovery(),
        }
    }

    pub(crate) fn event(&mut self, event: Event) {
        self.out.push(Output::Event(event));
    }

    /// Sets an expiry timer for a state with this received refresh period.
    pub(crate) fn keep_for(&mut self, timer: Timer, refresh: std::time::Duration) {
        self.timers.set(timer, self.now + lifetime(refresh));
    }
}
