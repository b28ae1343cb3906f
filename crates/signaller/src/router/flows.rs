//! The flows that begin at a router: signalled, signalled again, changed and ended.

use std::time::Duration;

use europa_signal::{Input, LspKey, Time};

use super::Router;
use crate::heads::{HeadFlow, Wish};
use crate::orders::{FlowPlan, HopPlan};
use crate::trail::Trail;

/// Time in which the routers of a slice report their label tables after the signaller's start.
const LEARNS: Duration = Duration::from_secs(2);

impl Router {
    pub(super) fn wish(&mut self, wish: Wish, now: Time) {
        let input = match wish {
            Wish::Create(tunnel) => Input::Create(tunnel),
            Wish::Change(lsp, tspec) => Input::Change { lsp, tspec },
            Wish::Delete(lsp) => Input::Delete(lsp),
        };
        self.hand(input, now);
    }

    /// The MTU of flows' packets: the longest packet with a label on any interface.
    fn mtu(&self) -> u32 {
        self.plan.interfaces.iter().map(|interface| interface.mtu).min().unwrap_or(1500)
    }

    /// Signals a flow, with the number of an LSP in the label table, if it has one.
    pub(super) fn begin(&mut self, name: &str, now: Time) {
        if self.signaller.is_none() {
            return;
        }
        let Some(flow) = self.flows.get_mut(name) else { return };
        let kept = self.entries.iter().filter(|(_, one)| one.entry.incoming.is_none());
        let again = kept.filter_map(|(lsp, _)| flow.number_of(lsp)).max();
        if let Some(number) = again.filter(|_| flow.plan.path.is_empty()) {
            // Its path was found, and only the label tables of its routers still have it.
            flow.keep(number);
            self.kept.insert(name.to_owned(), (number, now + LEARNS));
            return;
        }
        let wish = flow.begin(again);
        self.wish(wish, now);
    }

    /// Kept LSPs whose path is to be found in label tables: flow and LSP.
    pub(crate) fn kept(&self) -> impl Iterator<Item = (&str, LspKey)> {
        let all = self.kept.iter();
        all.filter_map(|(name, (number, _))| Some((&**name, self.flows.get(name)?.key(*number))))
    }

    /// Signals a kept LSP along its path, or as the routes lead if label tables do not have it any
    /// more. Waits a bounded time for label tables.
    pub(crate) fn resume(&mut self, name: &str, trail: Trail, now: Time) {
        let Some((number, due)) = self.kept.get(name).copied() else { return };
        let path = match trail {
            Trail::Unknown if now < due => return,
            Trail::Unknown | Trail::Broken => Vec::new(),
            Trail::Whole(path) => path,
        };
        self.kept.remove(name);
        let flow = self.flows.get_mut(name);
        // Another path may have been requested meanwhile.
        let Some(flow) = flow.filter(|flow| flow.is_only_kept(number)) else { return };
        let wish = flow.begin_along(number, path);
        self.wish(wish, now);
    }

    /// Flows that look for a path, once each.
    pub(crate) fn searching(&mut self) -> Vec<FlowPlan> {
        let all = self
            .flows
            .values_mut()
            .filter_map(|flow| std::mem::take(&mut flow.searches).then(|| flow.plan.clone()));
        all.collect()
    }

    /// A path with room was found for a flow.
    pub(crate) fn take_path(&mut self, flow: &str, path: Vec<HopPlan>, now: Time) {
        let wishes = self.flows.get_mut(flow).map(|flow| flow.take_path(path)).unwrap_or_default();
        wishes.into_iter().for_each(|wish| self.wish(wish, now));
    }

    /// Signals again the paths that were lost at a router whose label table was missing.
    pub(crate) fn again(&mut self, now: Time) {
        let waiting = self.flows.values().flat_map(HeadFlow::again).collect::<Vec<_>>();
        waiting.into_iter().for_each(|wish| self.wish(wish, now));
    }

    /// Replaces the flows that begin here.
    pub(crate) fn set_flows(&mut self, plans: &[FlowPlan], now: Time) {
        let own: Vec<&FlowPlan> =
            plans.iter().filter(|plan| plan.router == self.plan.name).collect();
        let stays = |flow: &HeadFlow| {
            own.iter().any(|plan| plan.name == flow.plan.name && flow.is_same_tunnel(plan))
        };
        let gone: Vec<String> = (self.flows.iter())
            .filter(|(_, flow)| !stays(flow))
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            self.kept.remove(&name);
            let wishes = self.flows.remove(&name).map(|flow| flow.end()).unwrap_or_default();
            wishes.into_iter().for_each(|wish| self.wish(wish, now));
        }
        for plan in own {
            if let Some(flow) = self.flows.get_mut(&plan.name) {
                let wishes = flow.change(plan.clone());
                // Before the label table is known, nothing can be changed.
                let wishes = if self.signaller.is_some() { wishes } else { Vec::new() };
                wishes.into_iter().for_each(|wish| self.wish(wish, now));
            } else {
                // The head of an IPv6 session has an IPv6 address (RFC 3209, section 4.6.2).
                let own = self.plan.address_of(plan.destination.is_ipv4());
                let own = own.unwrap_or(self.plan.address);
                let flow = HeadFlow::new(plan.clone(), own, self.mtu(), 0);
                self.flows.insert(plan.name.clone(), flow);
                self.begin(&plan.name, now);
            }
        }
        self.tell_heads();
    }
}
