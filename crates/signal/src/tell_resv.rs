//! Sends reservation state upstream: Resv and ResvTear, and blockades.

use crate::demand::Demand;
use crate::id::{Adjacency, LspKey};
use crate::lsp::{Lsp, Reservation, Sent, Side, Upstream};
use crate::rule::Rule;
use crate::signaller::Signaller;
use crate::timers::Timer;
use crate::wire::{
    ErrorSpec, Flowspec, Hop, Kind, LabelObject, Message, Object, RecordRoute, RecordedHop,
    SessionAttribute, TimeValues,
};

impl Signaller {
    /// Sends the Resv upstream if it differs from the last one; if `again`, sends it in any case.
    pub(crate) fn send_resv(&mut self, key: LspKey, again: bool) {
        let Some(lsp) = self.lsps.get(&key) else { return };
        let Upstream::Hop { via, handle } = lsp.upstream else { return };
        let Some(resv) = &lsp.resv else { return };
        // The data plane must be ready first: upstream sends packets as soon as it has the label.
        if lsp.pending.is_some() && self.rules.hold(Rule::DataPlaneFirst) {
            return;
        }
        let Some(objects) = self.resv_objects(&key, lsp, resv, via, handle) else { return };
        if let Some(sent) = lsp.sent_resv.as_ref().filter(|sent| sent.via == via) {
            if sent.objects == objects && !again {
                return;
            }
            // RFC 2205, section 3.5: a refused request is not repeated before its blockade ends.
            if lsp.blockade.is_some_and(|refused| is_as_large(&resv.flowspec, &refused)) && !again {
                return;
            }
        }
        let message = Message::new(Kind::Resv, objects.clone());
        let Some(outgoing) = self.to_neighbour(via, message) else { return };
        let id = self.send_reliably(outgoing, Some((key, Side::Resv)));
        if let Some(lsp) = self.lsps.get_mut(&key) {
            lsp.sent_resv = Some(Sent { via, objects, id });
        }
        let next = self.next_refresh(via);
        self.timers.set(Timer::ResvRefresh(key), next);
    }

    /// RFC 3209, section 3.2: the objects of a Resv, in order.
    fn resv_objects(
        &self,
        key: &LspKey,
        lsp: &Lsp,
        resv: &Reservation,
        via: Adjacency,
        handle: u32,
    ) -> Option<Vec<Object>> {
        let address = self.config.interface(via.interface)?.source(via.address)?;
        let period = self.refresh_period(via).as_millis();
        let refresh_ms = u32::try_from(period).unwrap_or(u32::MAX);
        let label = lsp.incoming.unwrap_or(resv.label);
        let mut objects = vec![
            Object::Session(key.session),
            Object::Hop(Hop { address, handle }),
            Object::TimeValues(TimeValues { refresh_ms }),
        ];
        objects
            .extend(resv.confirm.map(|receiver| Object::Confirm(crate::wire::Confirm(receiver))));
        objects.extend(resv.others.iter().cloned());
        objects.extend([
            Object::Style(resv.style),
            Object::Flowspec(resv.flowspec),
            Object::Filter(key.sender),
            Object::Label(LabelObject(vec![label.get()])),
        ]);
        if lsp.path.record.is_some() {
            let flags = if lsp.is_preempted { RecordedHop::PREEMPTION_PENDING } else { 0 };
            let mut hops = vec![RecordedHop::host(address, flags)];
            if lsp.path.has_flag(SessionAttribute::LABELS) {
                // RFC 3209, section 4.4.3: labels belong to this router, not to an interface.
                let flags = RecordedHop::GLOBAL;
                hops.push(RecordedHop::Label { flags, c_type: 1, label: label.get() });
            }
            hops.extend(resv.record.iter().flat_map(|record| record.0.iter().cloned()));
            if hops.len() <= 128 {
                objects.push(Object::RecordRoute(RecordRoute(hops)));
            }
        }
        Some(objects)
    }

    pub(crate) fn tear_resv(&mut self, key: LspKey, resv: &Reservation, sent: Sent) {
        let hop = sent.objects.into_iter().find(|object| matches!(object, Object::Hop(_)));
        let mut objects = vec![Object::Session(key.session)];
        objects.extend(hop);
        objects.extend([Object::Style(resv.style), Object::Filter(key.sender)]);
        let message = Message::new(Kind::ResvTear, objects);
        if let Some(outgoing) = self.to_neighbour(sent.via, message) {
            self.send_reliably(outgoing, Some((key, Side::Resv)));
        }
    }

    /// RFC 2205, section 3.5: upstream has refused the request.
    pub(crate) fn begin_blockade(&mut self, key: LspKey, error: &ErrorSpec) {
        let Some(lsp) = self.lsps.get_mut(&key).filter(|_| error.cause.is_admission()) else {
            return;
        };
        let Some(resv) = &lsp.resv else { return };
        lsp.blockade = Some(resv.flowspec);
        // Kb = 3.
        let until = self.now + self.config.refresh * 3;
        self.timers.set(Timer::Blockade(key), until);
    }

    pub(crate) fn end_blockade(&mut self, key: LspKey) {
        if let Some(lsp) = self.lsps.get_mut(&key) {
            lsp.blockade = None;
            self.send_resv(key, false);
        }
    }
}

/// Whether a flowspec requests at least as much as a refused one.
fn is_as_large(flowspec: &Flowspec, refused: &Flowspec) -> bool {
    let numbers =
        |flowspec| Demand::try_from(flowspec).map(|demand| (demand.reserved(), demand.depth));
    match (numbers(flowspec), numbers(refused)) {
        (Ok((rate, depth)), Ok((refused_rate, refused_depth))) => {
            rate >= refused_rate && depth >= refused_depth
        }
        _ => true,
    }
}
