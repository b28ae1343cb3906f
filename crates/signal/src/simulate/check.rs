//! The properties that hold when the network is at rest.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{Adjacency, LspKey};
use crate::lsp::{Downstream, Upstream};
use crate::timers::Timer;
use crate::wire::Style;

use super::network::{Network, SECOND};

impl Network {
    /// The first violation.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut wanted = BTreeMap::new();
        for (number, node) in self.nodes.iter().enumerate() {
            wanted.extend(node.wanted.keys().map(|lsp| (*lsp, number)));
        }
        let mut on_the_way: BTreeSet<(usize, LspKey)> = BTreeSet::new();
        for (lsp, head) in &wanted {
            let found = self.check_lsp(*head, lsp, &mut on_the_way);
            found.map_err(|error| error + &self.trace(lsp))?;
        }
        for number in 0..self.nodes.len() {
            self.check_node(number, &on_the_way)?;
        }
        Ok(())
    }

    /// Follows an LSP from its head.
    fn check_lsp(
        &self,
        head: usize,
        key: &LspKey,
        on_the_way: &mut BTreeSet<(usize, LspKey)>,
    ) -> Result<(), String> {
        let wanted = &self.nodes[head].wanted[key];
        let (mut number, mut label) = (head, None);
        for _ in 0..self.nodes.len() {
            let node = &self.nodes[number];
            let Some(lsp) = node.signaller.as_ref().and_then(|signaller| signaller.lsps.get(key))
            else {
                break;
            };
            on_the_way.insert((number, *key));
            if wanted.is_up {
                let Some(resv) = &lsp.resv else {
                    return Err(format!("{key} is up, and node {number} has no reservation"));
                };
                if lsp.path.tspec != wanted.tunnel.tspec && wanted.failed.is_none() {
                    return Err(format!("{key} carries another tspec at node {number}"));
                }
                let needs_entry = number == head || lsp.incoming.is_some();
                match node.table.get(key) {
                    Some(entry) if entry.incoming == label || number == head => (),
                    None if !needs_entry => (),
                    other => {
                        return Err(format!("{key}, node {number}: {other:?}, comes by {label:?}"));
                    }
                }
                label = Some(resv.label).filter(|label| label.is_allocated());
            }
            match lsp.downstream {
                Downstream::Hop(via) => {
                    let Some(end) = self.topology.end(number, via.interface) else { break };
                    number = end.far_node;
                }
                Downstream::Tail => return Ok(()),
                Downstream::Nowhere => break,
            }
        }
        if wanted.is_up {
            return Err(format!("{key} is up, and ends at node {number}"));
        }
        self.check_refusal(head, key)
    }

    /// Checks that an LSP that is not up has been refused recently.
    fn check_refusal(&self, head: usize, key: &LspKey) -> Result<(), String> {
        let wanted = &self.nodes[head].wanted[key];
        let of_late = self.plan.refresh.as_secs() * 5 * SECOND;
        match wanted.failed {
            Some(failed) if failed + of_late >= self.now_ns => Ok(()),
            other => Err(format!("{key} is down, and failed last at {other:?} of {}", self.now_ns)),
        }
    }

    /// Each node's view of an LSP.
    fn trace(&self, key: &LspKey) -> String {
        let mut text = String::new();
        for (number, node) in self.nodes.iter().enumerate() {
            let Some(signaller) = &node.signaller else { continue };
            let Some(lsp) = signaller.lsps.get(key) else { continue };
            let interface = |via: Option<Adjacency>| via.map(|via| via.interface.0);
            let path = lsp.sent_path.as_ref().map(|sent| sent.id);
            let resv = lsp.sent_resv.as_ref().map(|sent| sent.id);
            let of = signaller.timers.names().filter(|timer| timer.lsp() == Some(key));
            let timers: Vec<String> =
                of.map(|timer| format!("{timer:?}").chars().take(11).collect()).collect();
            text += &format!(
                "\n  {number} from {:?} to {:?}, sent {path:?} {resv:?}, reserved {}, {timers:?}",
                interface(lsp.upstream.via()),
                interface(lsp.downstream.via()),
                lsp.resv.is_some(),
            );
        }
        text
    }

    fn check_node(
        &self,
        number: usize,
        on_the_way: &BTreeSet<(usize, LspKey)>,
    ) -> Result<(), String> {
        let node = &self.nodes[number];
        let Some(signaller) = &node.signaller else { return Err(format!("node {number} is down")) };
        for (key, lsp) in &signaller.lsps {
            if !on_the_way.contains(&(number, *key)) {
                return Err(format!("node {number} has {key}, which nobody wants there"));
            }
            if lsp.upstream == Upstream::Head && !node.wanted.contains_key(key) {
                return Err(format!("node {number} is the head of {key}, which nobody wants"));
            }
            if lsp.pending.is_some() {
                return Err(format!("node {number} still waits for the data plane for {key}"));
            }
        }
        for (interface, lsp) in signaller.ledger.holders() {
            let has = signaller.lsps.get(&lsp).is_some_and(|state| {
                state.resv.is_some()
                    && state.downstream.via().is_some_and(|via| via.interface == interface)
            });
            if !has {
                return Err(format!("node {number} holds bandwidth of {lsp} on {interface:?}"));
            }
        }
        for (interface, held) in &node.surroundings.held {
            let charged: f64 =
                signaller.ledger.charges(*interface).map(|demand| demand.reserved()).sum();
            if (held - charged).abs() > 1e-3 {
                return Err(format!("node {number} {interface:?}: {held} held, {charged} charged"));
            }
        }
        self.check_shares(number)?;
        let labels = signaller.lsps.values().filter_map(|lsp| lsp.incoming);
        let labels: BTreeSet<_> = labels.filter(|label| label.is_allocated()).collect();
        if signaller.labels_in_use() != labels.len() {
            let (used, had) = (signaller.labels_in_use(), labels.len());
            return Err(format!("node {number}: {used} labels used, LSPs have {had}"));
        }
        let installed = signaller.lsps.iter().filter(|(_, lsp)| lsp.is_installed);
        let installed: BTreeSet<_> = installed.map(|(key, _)| key).collect();
        if let Some(key) = node.table.keys().find(|key| !installed.contains(key)) {
            return Err(format!("node {number} forwards {key}, which has no state"));
        }
        self.check_timers(number)
    }

    /// The reservations equal the sum of the LSPs' states. For shared reservations the maximum
    /// counts.
    fn check_shares(&self, number: usize) -> Result<(), String> {
        let node = &self.nodes[number];
        let Some(signaller) = &node.signaller else { return Ok(()) };
        let mut wanted: BTreeMap<_, f64> = BTreeMap::new();
        for (key, lsp) in &signaller.lsps {
            let (Some(via), Some(resv)) = (lsp.downstream.via(), &lsp.resv) else { continue };
            let alone = (resv.style == Style::FixedFilter).then_some(key.sender);
            let rate = if lsp.is_preempted { 0.0 } else { resv.demand.reserved() };
            let held = wanted.entry((via.interface, key.session, alone)).or_default();
            *held = held.max(rate);
        }
        for (interface, held) in &node.surroundings.held {
            let of = wanted.iter().filter(|((of, ..), _)| of == interface);
            let sum: f64 = of.map(|(_, rate)| rate).sum();
            if (held - sum).abs() > 1e-3 {
                return Err(format!("node {number} {interface:?}: {held} held, LSPs have {sum}"));
            }
        }
        Ok(())
    }

    fn check_timers(&self, number: usize) -> Result<(), String> {
        let Some(signaller) = &self.nodes[number].signaller else { return Ok(()) };
        for timer in signaller.timers.names() {
            let is_of_something = match timer {
                Timer::Retransmit(via) | Timer::SummaryRefresh(via) | Timer::Forget(via) => {
                    signaller.neighbours.contains_key(via)
                }
                Timer::Hello(peer) | Timer::Silence(peer) => signaller.peers.contains_key(peer),
                Timer::RecoveryEnds => true,
                of => of.lsp().is_some_and(|lsp| signaller.lsps.contains_key(lsp)),
            };
            if !is_of_something {
                return Err(format!("node {number} has {timer:?} of nothing"));
            }
        }
        for (via, neighbour) in &signaller.neighbours {
            let uses = |lsp: &crate::lsp::Lsp| {
                usize::from(lsp.upstream.via() == Some(*via))
                    + usize::from(lsp.downstream.via() == Some(*via))
            };
            let users: usize = signaller.lsps.values().map(uses).sum();
            if users != neighbour.users {
                return Err(format!(
                    "node {number}: {via:?} has {users} users of {}",
                    neighbour.users
                ));
            }
        }
        Ok(())
    }

    /// No state remains of removed LSPs.
    pub(crate) fn check_empty(&self) -> Result<(), String> {
        self.check()?;
        for (number, node) in self.nodes.iter().enumerate() {
            let Some(signaller) = &node.signaller else { continue };
            let left = [
                ("LSPs", signaller.lsps.len()),
                ("neighbours", signaller.neighbours.len()),
                ("peers", signaller.peers.len()),
                ("labels", signaller.labels_in_use()),
                ("entries", node.table.len()),
                ("tickets", signaller.tickets.len()),
                ("timers", signaller.timers.names().count()),
            ];
            if let Some((what, count)) = left.iter().find(|(_, count)| *count > 0) {
                let timers: Vec<_> = signaller.timers.names().take(3).collect();
                return Err(format!("node {number} still has {count} {what}: {timers:?}"));
            }
        }
        Ok(())
    }
}
