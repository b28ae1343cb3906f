//! Sends path state downstream: Path and PathTear, refreshes, and RecoveryPath upstream.

use crate::config::jitter;
use crate::id::{Adjacency, LspKey};
use crate::lsp::{Lsp, Sent, Side, Upstream};
use crate::rule::Rule;
use crate::signaller::Signaller;
use crate::timers::Timer;
use crate::transmit::Outgoing;
use crate::wire::{
    ExplicitRoute, Hop, Kind, Message, Object, RecordRoute, RecordedHop, RecoveryLabel, TimeValues,
};
use crate::world::World;

impl Signaller {
    /// Sends the Path downstream if it differs from the last one; if `again`, sends it in any case.
    pub(crate) fn send_path(&mut self, world: &mut dyn World, key: LspKey, again: bool) {
        let Some(lsp) = self.lsps.get(&key) else { return };
        let Some(via) = lsp.downstream.via() else { return };
        let is_head = lsp.upstream == Upstream::Head;
        let route = self.resolve(world, &key, &lsp.path, is_head);
        let objects =
            route.ok().and_then(|(_, route)| self.path_objects(world, &key, lsp, via, route));
        let Some(objects) = objects else {
            // The LSP has no path now, but may have one at the next refresh.
            let next = self.next_refresh(via);
            self.timers.set(Timer::PathRefresh(key), next);
            return;
        };
        let is_same = lsp
            .sent_path
            .as_ref()
            .is_some_and(|sent| sent.via == via && sent.objects == objects && !again);
        if is_same {
            return;
        }
        let mut message = self.path_message(Kind::Path, lsp, objects.clone());
        // RFC 3473, section 9.5.2: the label that the neighbour had assigned.
        if self.neighbour_recovers(via)
            && let Some(resv) = lsp.resv.as_ref().filter(|resv| resv.label.is_allocated())
        {
            message.objects.push(Object::RecoveryLabel(RecoveryLabel(resv.label.get())));
        }
        self.post_path(key, via, message, objects);
    }

    fn path_message(&self, kind: Kind, lsp: &Lsp, objects: Vec<Object>) -> Message {
        let mut message = Message::new(kind, objects);
        message.ttl = if lsp.upstream == Upstream::Head { 255 } else { lsp.ttl.saturating_sub(1) };
        message
    }

    fn post_path(&mut self, key: LspKey, via: Adjacency, message: Message, objects: Vec<Object>) {
        let Some(outgoing) = self.along(key, via, message) else { return };
        let id = self.send_reliably(outgoing, Some((key, Side::Path)));
        if let Some(lsp) = self.lsps.get_mut(&key) {
            lsp.sent_path = Some(Sent { via, objects, id });
        }
        let next = self.next_refresh(via);
        self.timers.set(Timer::PathRefresh(key), next);
    }

    /// Addresses messages downstream: from the head, to the tail, with Router Alert (RFC 2205,
    /// section 3.1.3).
    pub(crate) fn along(&self, key: LspKey, via: Adjacency, message: Message) -> Option<Outgoing> {
        self.config.interface(via.interface)?;
        let (source, destination) = (key.sender.address, key.session.destination);
        Some(Outgoing { via, source, destination, router_alert: true, message })
    }

    pub(crate) fn own_hop(&self, via: Adjacency) -> Option<Hop> {
        let address = self.config.interface(via.interface)?.source(via.address)?;
        Some(Hop { address, handle: via.interface.0 })
    }

    /// RFC 3209, section 3.1: the objects of a Path, in order.
    fn path_objects(
        &self,
        world: &dyn World,
        key: &LspKey,
        lsp: &Lsp,
        via: Adjacency,
        route: Option<ExplicitRoute>,
    ) -> Option<Vec<Object>> {
        let hop = self.own_hop(via)?;
        let path = &lsp.path;
        let period = self.refresh_period(via).as_millis();
        let refresh_ms = u32::try_from(period).unwrap_or(u32::MAX);
        let mut objects = vec![
            Object::Session(key.session),
            Object::Hop(hop),
            Object::TimeValues(TimeValues { refresh_ms }),
        ];
        objects.extend(route.map(Object::ExplicitRoute));
        objects.push(Object::LabelRequest(path.request));
        objects.extend(path.attribute.clone().map(Object::SessionAttribute));
        objects.extend(path.others.iter().cloned());
        objects.extend([Object::Sender(key.sender), Object::Tspec(path.tspec)]);
        objects.extend(path.adspec.map(|adspec| {
            let interface = self.config.interface(via.interface);
            let mtu = interface.map_or(adspec.mtu, |interface| interface.mtu.saturating_sub(4));
            Object::Adspec(crate::adspec::extend(adspec, &world.offer(via.interface), mtu))
        }));
        if let Some(record) = &path.record {
            // RFC 3209, section 4.4.3: this node's address is prepended.
            let mut hops = vec![RecordedHop::host(hop.address, 0)];
            hops.extend_from_slice(&record.0);
            // RFC 3209, section 4.4.3: a record that does not fit is left out.
            if hops.len() <= 64 {
                objects.push(Object::RecordRoute(RecordRoute(hops)));
            }
        }
        Some(objects)
    }

    /// Sends a PathTear to the destination of the last Path.
    pub(crate) fn tear_path(&mut self, key: LspKey) {
        self.timers.cancel(Timer::PathRefresh(key));
        let Some(lsp) = self.lsps.get_mut(&key) else { return };
        let Some(sent) = lsp.sent_path.take() else { return };
        self.supersede(sent.via, (key, Side::Path));
        if !self.rules.hold(Rule::ForwardPathTear) {
            return;
        }
        let Some(lsp) = self.lsps.get(&key) else { return };
        let hop = sent.objects.into_iter().find(|object| matches!(object, Object::Hop(_)));
        let mut objects = vec![Object::Session(key.session)];
        objects.extend(hop);
        objects.extend([Object::Sender(key.sender), Object::Tspec(lsp.path.tspec)]);
        let message = self.path_message(Kind::PathTear, lsp, objects);
        if let Some(outgoing) = self.along(key, sent.via, message) {
            self.send_reliably(outgoing, Some((key, Side::Path)));
        }
    }

    /// The neighbour downstream may have lost the Path, or have it again: the Path or a tear is
    /// sent later in any case.
    pub(crate) fn tell_path_later(&mut self, key: LspKey) {
        if let Some(via) = self.lsps.get(&key).and_then(|lsp| lsp.downstream.via()) {
            let next = self.next_refresh(via);
            self.timers.set(Timer::PathRefresh(key), next);
        }
    }

    /// A state was refused, here or further on. It is sent in full after R, even if this neighbour
    /// gets fewer refreshes.
    pub(crate) fn tell_later(&mut self, via: Adjacency, lsp: LspKey, side: Side) {
        // If the refusal arrives before the acknowledgement, the state would then only be refreshed
        // by its id.
        self.supersede(via, (lsp, side));
        // Repeated errors must not delay the refresh repeatedly.
        let wait = jitter(&mut self.random, self.config.refresh);
        self.timers.bring_forward(refresh_timer(lsp, side), self.now + wait);
    }

    /// A neighbour has refused a state's id: the state is sent again.
    pub(crate) fn tell_again(&mut self, world: &mut dyn World, lsp: LspKey, side: Side) {
        match side {
            Side::Path => self.send_path(world, lsp, true),
            Side::Resv => self.send_resv(lsp, true),
        }
    }

    /// Carries out a due refresh, except for state that is unacknowledged or refreshed by its id.
    pub(crate) fn refresh(&mut self, world: &mut dyn World, key: LspKey, side: Side) {
        let Some(lsp) = self.lsps.get(&key) else { return };
        let via = match side {
            Side::Path => lsp.downstream.via(),
            Side::Resv => lsp.upstream.via(),
        };
        let Some(via) = via else {
            if side == Side::Path {
                self.find_way(world, key);
            }
            return;
        };
        let is_busy = self.neighbours.get(&via).is_some_and(|one| one.is_on_its_way((key, side)));
        if is_busy {
            let next = self.next_refresh(via);
            self.timers.set(refresh_timer(key, side), next);
        } else {
            self.tell_again(world, key, side);
        }
    }

    /// RFC 5063, section 4.1: a restarted neighbour gets the Path that it had sent.
    pub(crate) fn send_recovery_path(&mut self, key: LspKey) {
        let Some(lsp) = self.lsps.get(&key) else { return };
        let Some(via) = lsp.upstream.via() else { return };
        let Some(hop) = self.own_hop(via) else { return };
        let path = &lsp.path;
        let mut objects = vec![Object::Session(key.session), Object::Hop(hop)];
        objects.extend(path.route.clone().map(Object::ExplicitRoute));
        objects.push(Object::LabelRequest(path.request));
        objects.extend(path.attribute.clone().map(Object::SessionAttribute));
        objects.extend([Object::Sender(key.sender), Object::Tspec(path.tspec)]);
        if let Some(label) = lsp.incoming {
            objects.push(Object::RecoveryLabel(RecoveryLabel(label.get())));
        }
        let message = Message::new(Kind::RecoveryPath, objects);
        if let Some(outgoing) = self.to_neighbour(via, message) {
            self.send_reliably(outgoing, None);
        }
    }
}

fn refresh_timer(lsp: LspKey, side: Side) -> Timer {
    match side {
        Side::Path => Timer::PathRefresh(lsp),
        Side::Resv => Timer::ResvRefresh(lsp),
    }
}
