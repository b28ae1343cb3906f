//! PathErr, ResvErr and ResvConf: made by this node, and forwarded.

use std::net::IpAddr;

use crate::fields::Fields;
use crate::id::{Adjacency, LspKey};
use crate::lsp::{Downstream, Side, Upstream};
use crate::output::Event;
use crate::path::tspec_or_none;
use crate::signaller::Signaller;
use crate::wire::{
    Cause, Confirm, ErrorSpec, Flowspec, Hop, Kind, Message, Object, Session, Style, Tspec,
};
use crate::world::{Lack, Resource};

/// The RFCs' error code for a missing resource.
pub(crate) fn cause_of(lack: &Lack) -> Cause {
    match lack.resource {
        Resource::Delay => Cause::DELAY_BOUND,
        Resource::Mtu => Cause::MTU,
        Resource::Labels => Cause::NO_LABEL,
        Resource::Rate | Resource::Buffer | Resource::Cpu | Resource::QueueNodes => {
            Cause::BANDWIDTH
        }
    }
}

impl Signaller {
    fn own_error(&self, cause: Cause, flags: u8) -> ErrorSpec {
        ErrorSpec { node: self.config.router, flags, cause }
    }

    /// Sends a PathErr to a neighbour upstream.
    pub(crate) fn send_path_error(
        &mut self,
        via: Adjacency,
        lsp: &LspKey,
        tspec: Option<Tspec>,
        cause: Cause,
        flags: u8,
    ) {
        let error = self.own_error(cause, flags);
        self.post_path_error(via, lsp, tspec, error);
    }

    fn post_path_error(
        &mut self,
        via: Adjacency,
        lsp: &LspKey,
        tspec: Option<Tspec>,
        error: ErrorSpec,
    ) {
        // RFC 3209, section 3.1; the sender descriptor is that of the Path.
        let objects = vec![
            Object::Session(lsp.session),
            Object::Error(error),
            Object::Sender(lsp.sender),
            Object::Tspec(tspec_or_none(tspec)),
        ];
        if let Some(outgoing) = self.to_neighbour(via, Message::new(Kind::PathErr, objects)) {
            self.send_reliably(outgoing, None);
        }
    }

    /// Handles a failure of an LSP at this node: informs its head.
    pub(crate) fn path_fails(&mut self, key: LspKey, cause: Cause) {
        let error = self.own_error(cause, 0);
        self.pass_path_error(key, error);
    }

    fn pass_path_error(&mut self, key: LspKey, error: ErrorSpec) {
        let Some(lsp) = self.lsps.get(&key) else { return };
        let tspec = Some(lsp.path.tspec);
        match lsp.upstream {
            Upstream::Head => self.event(Event::PathError { lsp: key, error }),
            Upstream::Hop { via, .. } => self.post_path_error(via, &key, tspec, error),
        }
    }

    /// RFC 2205, section 3.1.7: a PathErr is forwarded hop by hop to the head, and changes no state
    /// on the path.
    pub(crate) fn path_error_in(&mut self, via: Adjacency, fields: &Fields) {
        let (Some(lsp), Some(error)) = (fields.lsp(), fields.error) else {
            self.counters.useless += 1;
            return;
        };
        if self.lsps.get(&lsp).is_some_and(|lsp| lsp.downstream == Downstream::Hop(via)) {
            self.tell_later(via, lsp, Side::Path);
            self.pass_path_error(lsp, error);
        } else {
            self.counters.useless += 1;
        }
    }

    /// Sends a ResvErr to a neighbour downstream.
    pub(crate) fn send_resv_error(
        &mut self,
        via: Adjacency,
        lsp: &LspKey,
        style: Style,
        flowspec: Option<Flowspec>,
        cause: Cause,
        flags: u8,
    ) {
        let error = self.own_error(cause, flags);
        self.post_resv_error(via, lsp, style, flowspec, error);
    }

    fn post_resv_error(
        &mut self,
        via: Adjacency,
        lsp: &LspKey,
        style: Style,
        flowspec: Option<Flowspec>,
        error: ErrorSpec,
    ) {
        let source = self.config.interface(via.interface).and_then(|own| own.source(via.address));
        let Some(address) = source else { return };
        let hop = Hop { address, handle: via.interface.0 };
        let mut objects =
            vec![Object::Session(lsp.session), Object::Hop(hop), Object::Error(error)];
        objects.push(Object::Style(style));
        objects.extend(flowspec.map(Object::Flowspec));
        objects.push(Object::Filter(lsp.sender));
        if let Some(outgoing) = self.to_neighbour(via, Message::new(Kind::ResvErr, objects)) {
            self.send_reliably(outgoing, None);
        }
    }

    /// Refuses a Resv whose style names no sender.
    pub(crate) fn refuse_unnamed(
        &mut self,
        via: Adjacency,
        session: Session,
        style: Style,
        fields: &Fields,
    ) {
        let source = self.config.interface(via.interface).and_then(|own| own.source(via.address));
        let (Some(address), Some(hop)) = (source, fields.hop) else { return };
        let objects = vec![
            Object::Session(session),
            Object::Hop(Hop { address, handle: hop.handle }),
            Object::Error(self.own_error(Cause::UNKNOWN_STYLE, 0)),
            Object::Style(style),
        ];
        if let Some(outgoing) = self.to_neighbour(via, Message::new(Kind::ResvErr, objects)) {
            self.send_reliably(outgoing, None);
        }
    }

    /// Refuses a Resv: downstream gets a ResvErr, and the head a PathErr.
    pub(crate) fn refuse_resv(
        &mut self,
        via: Adjacency,
        key: LspKey,
        style: Style,
        flowspec: Option<Flowspec>,
        cause: Cause,
        had: bool,
    ) {
        let flags = if had { ErrorSpec::IN_PLACE } else { 0 };
        self.send_resv_error(via, &key, style, flowspec, cause, flags);
        self.path_fails(key, cause);
    }

    /// RFC 2205, section 3.1.8: a ResvErr is forwarded hop by hop to the tail, and sets up blockade
    /// state.
    pub(crate) fn resv_error_in(&mut self, via: Adjacency, fields: &Fields) {
        let (Some(session), Some(error)) = (fields.session, fields.error) else {
            self.counters.useless += 1;
            return;
        };
        for flow in &fields.flows {
            let key = LspKey { session, sender: flow.sender };
            let Some(lsp) = self.lsps.get(&key).filter(|lsp| lsp.upstream.via() == Some(via))
            else {
                self.counters.useless += 1;
                continue;
            };
            let downstream = lsp.downstream;
            let style = fields.style.unwrap_or(Style::FixedFilter);
            self.begin_blockade(key, &error);
            self.tell_later(via, key, Side::Resv);
            match downstream {
                Downstream::Tail => self.event(Event::ResvError { lsp: key, error }),
                Downstream::Hop(via) => {
                    self.post_resv_error(via, &key, style, flow.flowspec, error);
                }
                Downstream::Nowhere => (),
            }
        }
    }

    /// RFC 2205, section 3.1.9: the head sends a confirmation to the receiver that requested it.
    pub(crate) fn confirm(&mut self, key: LspKey, receiver: IpAddr) {
        let Some(lsp) = self.lsps.get(&key) else { return };
        let (Some(via), Some(resv)) = (lsp.downstream.via(), &lsp.resv) else { return };
        let objects = vec![
            Object::Session(key.session),
            Object::Error(self.own_error(Cause { code: 0, value: 0 }, 0)),
            Object::Confirm(Confirm(receiver)),
            Object::Style(resv.style),
            Object::Flowspec(resv.flowspec),
            Object::Filter(key.sender),
        ];
        self.pass_confirmation(key, via, receiver, objects);
    }

    fn pass_confirmation(&mut self, key: LspKey, via: Adjacency, to: IpAddr, objects: Vec<Object>) {
        let message = Message::new(Kind::ResvConf, objects);
        if let Some(mut outgoing) = self.along(key, via, message) {
            outgoing.destination = to;
            self.send(outgoing);
        }
    }

    pub(crate) fn confirmed_in(&mut self, fields: &Fields) {
        let (Some(session), Some(receiver)) = (fields.session, fields.confirm) else { return };
        let Some(flow) = fields.flows.first() else { return };
        let key = LspKey { session, sender: flow.sender };
        let Some(lsp) = self.lsps.get(&key) else { return };
        match (lsp.downstream, &lsp.resv) {
            (Downstream::Tail, _) => self.event(Event::Confirmed { lsp: key }),
            (Downstream::Hop(via), Some(resv)) => {
                let mut objects = vec![Object::Session(session)];
                objects.extend(fields.error.map(Object::Error));
                objects.push(Object::Confirm(Confirm(receiver)));
                objects.extend([Object::Style(resv.style), Object::Flowspec(resv.flowspec)]);
                objects.push(Object::Filter(key.sender));
                self.pass_confirmation(key, via, receiver, objects);
            }
            _ => (),
        }
    }
}
