//! Reservation state: handles Resv and ResvTear, and forwards them upstream.

use crate::demand::Demand;
use crate::fields::{Fields, Flow};
use crate::id::{Adjacency, Label, LspKey};
use crate::ledger::{Claim, Refusal};
use crate::lsp::{Downstream, Lsp, Reservation, Side, Upstream};
use crate::output::Event;
use crate::path::wanted_style;
use crate::signaller::Signaller;
use crate::timers::Timer;
use crate::wire::{Cause, Flowspec, LabelRequest, Service, SessionAttribute, Style};
use crate::world::World;

impl Signaller {
    pub(crate) fn resv_in(&mut self, world: &mut dyn World, via: Adjacency, fields: &Fields) {
        let (Some(session), Some(style)) = (fields.session, fields.style) else {
            self.counters.useless += 1;
            return;
        };
        for flow in &fields.flows {
            let lsp = LspKey { session, sender: flow.sender };
            if self.is_overtaken(via, (lsp, Side::Resv), fields.id) {
                continue;
            }
            self.flow_in(world, via, lsp, style, flow, fields);
        }
        if fields.flows.is_empty() && style == Style::Other(17) {
            // A wildcard filter names no sender. RFC 3209, section 2.4: it cannot be used for LSPs.
            self.refuse_unnamed(via, session, style, fields);
        }
    }

    fn flow_in(
        &mut self,
        world: &mut dyn World,
        via: Adjacency,
        key: LspKey,
        style: Style,
        flow: &Flow,
        fields: &Fields,
    ) {
        let about = (key, Side::Resv);
        let Some(lsp) = self.lsps.get(&key).filter(|lsp| lsp.downstream == Downstream::Hop(via))
        else {
            let same = |known: &LspKey| known.session == key.session;
            let cause = if self.lsps.keys().any(same) { Cause::NO_SENDER } else { Cause::NO_PATH };
            self.send_resv_error(via, &key, style, flow.flowspec, cause, 0);
            return;
        };
        let had = lsp.resv.clone();
        let result = self.check_resv(lsp, via, style, flow, fields);
        let period = self.told_by(via, fields.refresh);
        let result = match result {
            Ok(Some(new)) if had.as_ref() == Some(&new) => {
                if let Some(lsp) = self.lsps.get_mut(&key) {
                    lsp.resv_period = period;
                }
                self.bind(via, about, fields.id);
                self.keep_for(Timer::ResvExpiry(key), period);
                return;
            }
            Ok(Some(new)) => self.take_resv(world, via, key, new),
            Ok(None) => {
                self.counters.useless += 1;
                return;
            }
            Err(cause) => Err(cause),
        };
        match result {
            Ok(()) => {
                if let Some(lsp) = self.lsps.get_mut(&key) {
                    lsp.resv_period = period;
                }
                self.bind(via, about, fields.id);
                self.keep_for(Timer::ResvExpiry(key), period);
            }
            Err(cause) => {
                self.unbind(via, about);
                // Another label shows that the former LSP downstream no longer exists.
                let is_gone = had.as_ref().zip(flow.label.as_ref()).is_some_and(|(had, label)| {
                    label
                        .0
                        .last()
                        .is_some_and(|label| Label::new(*label).is_some_and(|new| new != had.label))
                });
                if is_gone {
                    self.drop_resv(world, key, true);
                }
                let had = had.filter(|_| !is_gone);
                self.refuse_resv(via, key, style, flow.flowspec, cause, had.is_some());
                // RFC 2205, section 3.5: the former reservation stays in use.
                if self.lsps.get(&key).is_some_and(|lsp| lsp.resv.is_some()) {
                    self.keep_for(Timer::ResvExpiry(key), period);
                }
            }
        }
    }

    fn check_resv(
        &self,
        lsp: &Lsp,
        via: Adjacency,
        style: Style,
        flow: &Flow,
        fields: &Fields,
    ) -> Result<Option<Reservation>, Cause> {
        if let Some(cause) = fields.refusal {
            return Err(cause);
        }
        // RFC 3209, section 2.4: fixed filter or shared explicit; wildcard filter cannot carry labels.
        if matches!(style, Style::Other(_)) {
            return Err(Cause::UNKNOWN_STYLE);
        }
        let (Some(flowspec), Some(label)) = (flow.flowspec, flow.label.as_ref()) else {
            return Ok(None);
        };
        let label = match label.0[..] {
            [one] => Label::new(one).ok_or(Cause::BAD_LABEL)?,
            // RFC 3209, section 4.1: one label; label stacks are not requested.
            _ => return Err(Cause::BAD_LABEL),
        };
        let demand = Demand::try_from(&flowspec).map_err(|_| Cause::BAD_FLOWSPEC)?;
        let mtu = self.config.interface(via.interface).map_or(0, |interface| interface.mtu);
        if demand.largest > mtu && demand.reserved() > 0.0 {
            return Err(Cause::MTU);
        }
        if flow
            .record
            .as_ref()
            .is_some_and(|record| record.contains(|address| self.config.is_own(address)))
        {
            return Err(Cause::LOOP);
        }
        let record = flow.record.clone().filter(|_| lsp.path.record.is_some());
        let (confirm, others) = (fields.confirm, fields.others.clone());
        Ok(Some(Reservation { flowspec, demand, style, label, record, confirm, others }))
    }

    /// Admits the reservation, then orders the data plane; when that is done, upstream gets the
    /// Resv.
    fn take_resv(
        &mut self,
        world: &mut dyn World,
        via: Adjacency,
        key: LspKey,
        new: Reservation,
    ) -> Result<(), Cause> {
        let Some(lsp) = self.lsps.get(&key) else { return Ok(()) };
        let (setup, hold) = lsp.path.priorities();
        let is_soft = lsp.path.has_flag(SessionAttribute::SOFT_PREEMPTION);
        let claim = Claim { demand: new.demand, hold, is_soft };
        let needs =
            lsp.resv.as_ref().is_none_or(|had| had.demand != new.demand || had.style != new.style);
        // A refresh does not restore a softly preempted LSP: its head must move it.
        if needs || lsp.is_preempted {
            if lsp.resv.as_ref().is_some_and(|had| had.style != new.style) {
                return Err(Cause::CONFLICTING_STYLE);
            }
            let reserved = self.ledger.reserve(world, via.interface, &key, new.style, setup, claim);
            match reserved {
                Ok(victims) => {
                    self.not_preempted(key);
                    self.preempt(world, via, victims);
                }
                Err(Refusal::Style) => return Err(Cause::CONFLICTING_STYLE),
                Err(Refusal::Lack(lack)) => return Err(crate::errors::cause_of(&lack)),
            }
        }
        self.install(world, key, new)
    }

    /// Makes a tail's reservation from its path state.
    pub(crate) fn tail_resv(&mut self, world: &mut dyn World, key: LspKey) {
        let Some(lsp) = self.lsps.get(&key) else { return };
        let mut bucket = lsp.path.tspec.0;
        if let Some(adspec) = lsp.path.adspec {
            // RFC 2210, section 3.3: no packet is longer than the path allows.
            bucket.largest = bucket.largest.min(adspec.mtu).max(bucket.smallest);
        }
        let flowspec = Flowspec { bucket, service: Service::ControlledLoad };
        let Ok(demand) = Demand::try_from(&flowspec) else { return };
        let style = wanted_style(&lsp.path);
        if lsp.resv.as_ref().is_some_and(|had| had.flowspec == flowspec && had.style == style) {
            // Other changes, such as a new previous hop, are sent only if the Resv differs.
            self.send_resv(key, false);
            return;
        }
        let is_v6 = lsp.path.request.protocol == LabelRequest::IPV6;
        let reserved = self.config.egress.reserved(is_v6);
        let had = lsp.resv.as_ref().map(|had| had.label).or(lsp.incoming);
        let label = reserved.or(had).or_else(|| self.labels.take(self.now));
        let Some(label) = label else {
            self.path_fails(key, Cause::NO_LABEL);
            return;
        };
        let (record, confirm, others) = (None, None, Vec::new());
        let new = Reservation { flowspec, demand, style, label, record, confirm, others };
        if label.is_allocated() {
            if let Some(lsp) = self.lsps.get_mut(&key) {
                lsp.incoming = Some(label);
            }
            if let Err(cause) = self.install(world, key, new) {
                self.path_fails(key, cause);
            }
            return;
        }
        if let Some(lsp) = self.lsps.get_mut(&key) {
            lsp.resv = Some(new);
        }
        // A reserved label needs no entry.
        self.send_resv(key, false);
    }

    pub(crate) fn resv_tear_in(&mut self, world: &mut dyn World, via: Adjacency, fields: &Fields) {
        let Some(session) = fields.session else { return };
        for flow in &fields.flows {
            let lsp = LspKey { session, sender: flow.sender };
            let about = (lsp, Side::Resv);
            if self.is_overtaken(via, about, fields.id) {
                continue;
            }
            if let (Some(id), Some(neighbour)) = (fields.id, self.neighbours.get_mut(&via)) {
                let until = self.now + crate::config::lifetime(self.config.refresh);
                neighbour.note_removed(about, id.id, self.now, until);
            }
            if self.lsps.get(&lsp).is_some_and(|lsp| lsp.downstream == Downstream::Hop(via)) {
                self.drop_resv(world, lsp, true);
            }
        }
    }

    /// Removes a reservation with its bandwidth, label and data plane entry.
    pub(crate) fn drop_resv(&mut self, world: &mut dyn World, key: LspKey, tells: bool) {
        let Some(lsp) = self.lsps.get_mut(&key) else { return };
        let Some(resv) = lsp.resv.take() else { return };
        lsp.is_preempted = false;
        lsp.blockade = None;
        let (downstream, upstream) = (lsp.downstream, lsp.upstream);
        let sent = lsp.sent_resv.take();
        let was_up = std::mem::take(&mut lsp.is_up);
        if let Some(pending) = lsp.pending.take() {
            self.tickets.remove(&pending.ticket);
        }
        if let Downstream::Hop(via) = downstream {
            self.ledger.release(world, via.interface, &key);
            self.unbind(via, (key, Side::Resv));
        }
        for timer in [
            Timer::ResvExpiry(key),
            Timer::ResvRefresh(key),
            Timer::SoftPreemption(key),
            Timer::Blockade(key),
        ] {
            self.timers.cancel(timer);
        }
        self.uninstall(key);
        if let Some(sent) = sent {
            self.supersede(sent.via, (key, Side::Resv));
            if tells {
                self.tear_resv(key, &resv, sent);
            }
        }
        if was_up && upstream == Upstream::Head {
            self.event(Event::Down { lsp: key });
        }
    }
}
