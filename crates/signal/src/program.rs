//! The data plane: orders, answers, labels.

use crate::id::{LspKey, Ticket};
use crate::lsp::{Downstream, Pending, Reservation, Upstream};
use crate::output::{Entry, Event, NextHop, Output, Program};
use crate::rule::Rule;
use crate::signaller::Signaller;
use crate::wire::Cause;
use crate::world::World;

impl Signaller {
    pub(crate) fn new_ticket(&mut self) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        ticket
    }

    /// Orders the data plane to set an LSP's entry for an admitted reservation.
    pub(crate) fn install(
        &mut self,
        world: &mut dyn World,
        key: LspKey,
        new: Reservation,
    ) -> Result<(), Cause> {
        let Some(lsp) = self.lsps.get(&key) else { return Ok(()) };
        let (upstream, downstream) = (lsp.upstream, lsp.downstream);
        let mut incoming = lsp.incoming;
        if upstream != Upstream::Head && incoming.is_none() {
            let Some(label) = self.labels.take(self.now) else {
                // A failed first reservation leaves no state.
                if let (None, Downstream::Hop(via)) = (&lsp.resv, downstream) {
                    self.ledger.release(world, via.interface, &key);
                }
                return Err(Cause::NO_LABEL);
            };
            incoming = Some(label);
        }
        let outgoing = downstream.via().map(|via| NextHop { via, label: new.label });
        let entry = Entry { incoming, outgoing, demand: new.demand };
        let ticket = self.new_ticket();
        let Some(lsp) = self.lsps.get_mut(&key) else { return Ok(()) };
        lsp.incoming = incoming;
        lsp.is_installed = true;
        let had = lsp.resv.replace(new);
        // If one of several changes fails, the entry before the first of them applies.
        let before = match lsp.pending.take() {
            Some(pending) => {
                self.tickets.remove(&pending.ticket);
                pending.before
            }
            None => had,
        };
        lsp.pending = Some(Pending { ticket, before });
        self.tickets.insert(ticket, key);
        self.out.push(Output::Program(Program { ticket, lsp: key, entry: Some(entry) }));
        if !self.rules.hold(Rule::DataPlaneFirst) {
            self.send_resv(key, false);
        }
        Ok(())
    }

    /// Removes an LSP from the data plane; its label is not assigned again for a lifetime.
    pub(crate) fn uninstall(&mut self, key: LspKey) {
        let Some(lsp) = self.lsps.get_mut(&key) else { return };
        let was_installed = std::mem::take(&mut lsp.is_installed);
        let label = lsp.incoming.take();
        if was_installed {
            let ticket = self.new_ticket();
            self.out.push(Output::Program(Program { ticket, lsp: key, entry: None }));
        }
        if let Some(label) = label.filter(|_| self.rules.hold(Rule::GiveLabelBack)) {
            self.labels.give_back(label, self.now);
        }
    }

    pub(crate) fn programmed(&mut self, world: &mut dyn World, ticket: Ticket, is_done: bool) {
        // Tickets of superseded orders, and of removals, are no longer stored here.
        let Some(key) = self.tickets.remove(&ticket) else { return };
        let Some(lsp) = self.lsps.get_mut(&key) else { return };
        let Some(pending) = lsp.pending.take() else { return };
        if !is_done {
            self.refused_by_data_plane(world, key, pending.before);
            return;
        }
        let is_head = lsp.upstream == Upstream::Head;
        if is_head {
            let is_new = !std::mem::replace(&mut lsp.is_up, true);
            let resv = lsp.resv.as_ref();
            let changed = resv.map(|resv| &resv.record)
                != pending.before.as_ref().map(|before| &before.record);
            let record = resv.and_then(|resv| resv.record.clone());
            let confirm = resv.and_then(|resv| resv.confirm);
            if is_new || changed {
                self.event(Event::Up { lsp: key, record });
            }
            if let Some(receiver) = confirm {
                self.confirm(key, receiver);
            }
            return;
        }
        self.send_resv(key, false);
    }

    /// The data plane keeps its former entry.
    fn refused_by_data_plane(
        &mut self,
        world: &mut dyn World,
        key: LspKey,
        before: Option<Reservation>,
    ) {
        let Some(lsp) = self.lsps.get(&key) else { return };
        let (downstream, failed) = (lsp.downstream, lsp.resv.clone());
        let (setup, hold) = lsp.path.priorities();
        let Some(failed) = failed else { return };
        let mut holds = before.is_some();
        if let (Some(before), Downstream::Hop(via)) = (&before, downstream) {
            let claim = crate::ledger::Claim { demand: before.demand, hold, is_soft: false };
            let again = self.ledger.reserve(world, via.interface, &key, before.style, setup, claim);
            holds = again.is_ok_and(|victims| victims.is_empty());
        }
        if holds && let Some(lsp) = self.lsps.get_mut(&key) {
            lsp.resv = before;
        } else {
            self.drop_resv(world, key, true);
        }
        self.path_fails(key, Cause::TRAFFIC_CONTROL);
        if let Downstream::Hop(via) = downstream {
            let flags = if holds { crate::wire::ErrorSpec::IN_PLACE } else { 0 };
            let flowspec = Some(failed.flowspec);
            self.send_resv_error(via, &key, failed.style, flowspec, Cause::TRAFFIC_CONTROL, flags);
        }
    }
}
