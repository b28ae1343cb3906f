//! Hello (RFC 3209, section 5; RFC 4558), restarts of neighbours (RFC 3473, section 9), and neighbours
//! that need no refreshes (RFC 8370).

use std::time::Duration;

use crate::config::jitter;
use crate::id::{Adjacency, InterfaceId, LspKey};
use crate::output::Event;
use crate::peer::{Liveness, Peer, PeerKey};
use crate::receive::Arrival;
use crate::rule::Rule;
use crate::signaller::Signaller;
use crate::timers::Timer;
use crate::transmit::Outgoing;
use crate::wire::{Capability, Hello, Kind, Message, Object, RestartCap};
use crate::world::World;

impl Signaller {
    /// Starts to send Hellos to a neighbour.
    pub(crate) fn begin_hello(&mut self, key: PeerKey, via: Adjacency) {
        if self.config.hello.is_none() {
            return;
        }
        let instance = self.next_instance;
        self.peers.entry(key).or_insert_with(|| Peer::new(via, instance));
        if !self.timers.is_set(Timer::Hello(key)) {
            self.timers.set(Timer::Hello(key), self.now);
        }
    }

    pub(crate) fn hello_due(&mut self, key: PeerKey) {
        let Some(settings) = self.config.hello else { return };
        self.send_hello(key, false);
        self.timers.set(Timer::Hello(key), self.now + settings.interval);
    }

    /// RFC 3473, section 9.1, and RFC 5063, section 4.2: the capabilities of this node.
    fn capabilities(&self) -> (RestartCap, Capability) {
        let milliseconds = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        let left = self.recovery.until.map_or(Duration::ZERO, |until| until.since(self.now));
        let restart = RestartCap {
            restart_ms: milliseconds(self.config.restart.restart),
            recovery_ms: milliseconds(left),
        };
        let mut bits = Capability::FLOW_CONTROL;
        if !self.config.restart.restart.is_zero() {
            bits |= Capability::RECOVERY_DESIRED | Capability::RECOVERY_SENT;
        }
        if self.config.independent_refresh.is_some() {
            bits |= Capability::REFRESH_INDEPENDENT;
        }
        (restart, Capability(bits))
    }

    fn send_hello(&mut self, key: PeerKey, is_ack: bool) {
        let Some(peer) = self.peers.get(&key) else { return };
        let destination = match peer.liveness {
            // RFC 3473, section 9.5.1: this node reports no instance that may no longer exist.
            Liveness::Restarting => 0,
            _ => peer.theirs.unwrap_or(0),
        };
        let (via, source) = (peer.via, peer.instance);
        let (restart, capability) = self.capabilities();
        let objects = vec![
            Object::Hello(Hello { is_ack, source, destination }),
            Object::RestartCap(restart),
            Object::Capability(capability),
        ];
        let mut message = Message::new(Kind::Hello, objects);
        // RFC 3209, section 5.1: one hop. RFC 4558, section 3: Hellos by node id may pass more
        // hops.
        message.ttl = if key.interface.is_some() { 1 } else { 255 };
        let outgoing = match key.interface {
            Some(_) => self.to_neighbour(via, message),
            None => Some(Outgoing {
                via,
                source: self.config.router,
                destination: key.address,
                router_alert: false,
                message,
            }),
        };
        self.queue.extend(outgoing);
    }

    pub(crate) fn hello_in(&mut self, world: &mut dyn World, arrival: Arrival, message: &Message) {
        let found = |of: fn(&Object) -> Option<Hello>| message.objects.iter().find_map(of);
        let hello = found(|object| match object {
            Object::Hello(hello) => Some(*hello),
            _ => None,
        });
        // RFC 3209, section 5.2: an instance is never 0.
        let Some(hello) = hello.filter(|hello| hello.source != 0) else {
            self.counters.useless += 1;
            return;
        };
        let Arrival { via, source, .. } = arrival;
        let by_node = self.config.hello.is_some_and(|hello| hello.by_node);
        // If no neighbour on this interface has this address, it is a node id (RFC 4558, section
        // 3).
        let interface = (!by_node || self.neighbours.contains_key(&via)).then_some(via.interface);
        let key = PeerKey { interface, address: source };
        let reduces = message.flags & Message::REFRESH_REDUCTION != 0;
        for neighbour in self.neighbours.values_mut().filter(|neighbour| neighbour.peer == key) {
            neighbour.is_capable = reduces;
        }
        if !self.peers.contains_key(&key) {
            if self.peers.len() >= self.config.limits.neighbours {
                return;
            }
            self.peers.insert(key, Peer::new(via, self.next_instance));
        }
        if self.peers.get(&key).is_some_and(|peer| peer.former.contains(&hello.source)) {
            self.counters.overtaken += 1;
            return;
        }
        self.note_capabilities(key, message);
        self.note_instance(world, key, hello);
        if !self.timers.is_set(Timer::Silence(key)) {
            // The peer is removed if it does not answer, unless it is a neighbour of an LSP.
            self.timers.set(Timer::Silence(key), self.now + self.silence());
        }
        if !hello.is_ack {
            self.send_hello(key, true);
        }
    }

    fn note_capabilities(&mut self, key: PeerKey, message: &Message) {
        let Some(peer) = self.peers.get_mut(&key) else { return };
        for object in &message.objects {
            match object {
                Object::RestartCap(restart) => {
                    // 0xffff_ffff means unlimited; state is kept for an hour at most.
                    let bounded = |ms: u32| Duration::from_millis(ms.min(3_600_000).into());
                    peer.restart = bounded(restart.restart_ms);
                    peer.recovery = bounded(restart.recovery_ms);
                }
                Object::Capability(capability) => peer.capability = capability.0,
                _ => (),
            }
        }
    }

    /// RFC 3209, section 5.3: a new instance shows that the neighbour has been reset.
    fn note_instance(&mut self, world: &mut dyn World, key: PeerKey, hello: Hello) {
        let Some(peer) = self.peers.get_mut(&key) else { return };
        let before = peer.known.replace(hello.source);
        peer.theirs = Some(hello.source);
        let was_restarting = peer.liveness == Liveness::Restarting;
        let has_reset = before.is_some_and(|before| before != hello.source);
        if let Some(before) = before.filter(|_| has_reset) {
            peer.former.rotate_right(1);
            peer.former[0] = before;
        }
        if has_reset && self.rules.hold(Rule::NoticeRestart) {
            if peer.recovery.is_zero() {
                self.lose(world, key, false);
                if let Some(peer) = self.peers.get_mut(&key) {
                    peer.theirs = Some(hello.source);
                }
            } else {
                self.help(key);
            }
        }
        let Some(peer) = self.peers.get_mut(&key) else { return };
        if hello.destination != peer.instance {
            // RFC 3209, section 5.3: the neighbour has lost this node's state, or assumes that this
            // node was reset.
            peer.must_resume |= peer.liveness == Liveness::Up;
            return;
        }
        let was_up = peer.liveness == Liveness::Up && !std::mem::take(&mut peer.must_resume);
        peer.liveness = Liveness::Up;
        let silence = self.silence();
        self.timers.set(Timer::Silence(key), self.now + silence);
        if !was_up {
            if !was_restarting {
                self.event(Event::NeighbourUp(key.address));
            }
            self.resume(world, key);
        }
    }

    /// RFC 3209, section 5.3: a neighbour is lost after 3.5 intervals.
    fn silence(&self) -> Duration {
        self.config.hello.map_or(Duration::from_secs(1), |hello| hello.interval) * 7 / 2
    }

    pub(crate) fn silent(&mut self, world: &mut dyn World, key: PeerKey) {
        let Some(peer) = self.peers.get_mut(&key) else { return };
        if peer.liveness == Liveness::Up && !peer.restart.is_zero() {
            // RFC 3473, section 9.5.1: state is kept while the neighbour may restart.
            peer.liveness = Liveness::Restarting;
            let restart = peer.restart;
            self.timers.set(Timer::Silence(key), self.now + restart);
            self.keep_states(key, restart);
            return;
        }
        self.lose(world, key, true);
        if !self.timers.is_set(Timer::Hello(key)) {
            // The peer has requested and got an answer, but is no neighbour of any LSP.
            self.peers.remove(&key);
        }
    }

    /// Keeps a neighbour's state from timing out before the neighbour has had time to send it
    /// again.
    fn keep_states(&mut self, key: PeerKey, time: Duration) {
        let until = self.now + time;
        for timer in self.states_from(key).into_iter().flat_map(|(paths, resvs)| {
            let paths = paths.into_iter().map(Timer::PathExpiry);
            paths.chain(resvs.into_iter().map(Timer::ResvExpiry)).collect::<Vec<_>>()
        }) {
            self.timers.set(timer, until);
        }
    }

    /// LSPs whose path state comes from a peer, and LSPs whose reservation state does.
    fn states_from(&self, key: PeerKey) -> Option<(Vec<LspKey>, Vec<LspKey>)> {
        let is_of = |via: Option<Adjacency>| {
            via.and_then(|via| self.neighbours.get(&via)).is_some_and(|one| one.peer == key)
        };
        let (mut paths, mut resvs) = (Vec::new(), Vec::new());
        for (name, lsp) in &self.lsps {
            if is_of(lsp.upstream.via()) {
                paths.push(*name);
            }
            if is_of(lsp.downstream.via()) {
                resvs.push(*name);
            }
        }
        (!paths.is_empty() || !resvs.is_empty()).then_some((paths, resvs))
    }

    /// The neighbour has lost its state of this node, or no longer exists: the state from it is
    /// removed. If it may not know that (`is_silent`), it is informed.
    fn lose(&mut self, world: &mut dyn World, key: PeerKey, is_silent: bool) {
        let Some(peer) = self.peers.get_mut(&key) else { return };
        let was_up = peer.liveness != Liveness::Unknown;
        peer.liveness = Liveness::Unknown;
        peer.theirs = None;
        if is_silent {
            // RFC 3209, section 5.3: a new instance shows the neighbour that it was lost.
            self.next_instance = self.next_instance.wrapping_add(1).max(1);
            peer.instance = self.next_instance;
        }
        self.timers.cancel(Timer::Silence(key));
        if was_up {
            self.event(Event::NeighbourDown(key.address));
        }
        let states = self.states_from(key);
        for neighbour in self.neighbours.values_mut().filter(|neighbour| neighbour.peer == key) {
            neighbour.reset();
        }
        let Some((paths, resvs)) = states else { return };
        for lsp in resvs {
            self.drop_resv(world, lsp, true);
            self.tell_path_later(lsp);
        }
        for lsp in paths {
            self.remove_lsp(world, lsp, true);
        }
    }

    /// RFC 3473, section 9.5.2: the neighbour has restarted, and its data plane has continued. This
    /// node keeps the neighbour's state, and sends it to the neighbour again with the former
    /// labels.
    fn help(&mut self, key: PeerKey) {
        let Some(peer) = self.peers.get_mut(&key) else { return };
        let recovery = peer.recovery;
        peer.liveness = Liveness::Restarting;
        peer.recovers_until = Some(self.now + recovery);
        self.keep_states(key, recovery);
        for neighbour in self.neighbours.values_mut().filter(|neighbour| neighbour.peer == key) {
            neighbour.reset();
        }
        let Some((paths, resvs)) = self.states_from(key) else { return };
        for lsp in paths.iter().chain(&resvs) {
            if let Some(lsp) = self.lsps.get_mut(lsp) {
                (lsp.path_id, lsp.resv_id) = (None, None);
            }
        }
        // State that was refreshed by id is now refreshed in full, because the ids are lost.
        for timer in paths
            .into_iter()
            .map(Timer::ResvRefresh)
            .chain(resvs.into_iter().map(Timer::PathRefresh))
        {
            let wait = jitter(&mut self.random, self.config.refresh);
            self.timers.set(timer, self.now + wait);
        }
    }

    /// A neighbour answers, again or for the first time: all state is sent to it.
    fn resume(&mut self, world: &mut dyn World, key: PeerKey) {
        let Some((paths, resvs)) = self.states_from(key) else { return };
        for lsp in resvs {
            self.send_path(world, lsp, true);
        }
        let recovers = self.recovers(key);
        let wants = self.peers.get(&key).is_some_and(|peer| peer.can(Capability::RECOVERY_DESIRED));
        for lsp in paths {
            // A recovering neighbour has no path state for the Resv until it has sent its Path
            // again.
            if !recovers {
                self.send_resv(lsp, true);
            } else if wants {
                self.send_recovery_path(lsp);
            }
        }
    }

    /// Whether a peer is learning its state again.
    pub(crate) fn recovers(&self, key: PeerKey) -> bool {
        let until = self.peers.get(&key).and_then(|peer| peer.recovers_until);
        until.is_some_and(|until| until > self.now)
    }

    /// Whether the node behind a neighbour is learning its state again.
    pub(crate) fn neighbour_recovers(&self, via: Adjacency) -> bool {
        self.neighbours.get(&via).is_some_and(|neighbour| self.recovers(neighbour.peer))
    }

    pub(crate) fn interface_down(&mut self, world: &mut dyn World, interface: InterfaceId) {
        let of = self.neighbours.iter().filter(|(via, _)| via.interface == interface);
        let mut peers: Vec<PeerKey> = of.map(|(_, neighbour)| neighbour.peer).collect();
        peers.dedup();
        // If a node's messages have its node id, it may still be reachable by another interface.
        for peer in peers.into_iter().filter(|peer| peer.interface.is_some()) {
            self.peers.entry(peer).or_insert_with(|| {
                let via = Adjacency { interface, address: peer.address };
                Peer::new(via, self.next_instance)
            });
            self.lose(world, peer, true);
        }
    }

    /// RFC 8370, section 3.1: both nodes announce it, and Hellos by node id show when the other
    /// node is lost.
    pub(crate) fn is_independent(&self, via: Adjacency) -> bool {
        self.config.independent_refresh.is_some()
            && self.neighbours.get(&via).is_some_and(|neighbour| {
                neighbour.is_capable
                    && self.peers.get(&neighbour.peer).is_some_and(|peer| {
                        neighbour.peer.interface.is_none() && peer.is_independent()
                    })
            })
    }

    /// Forgets a neighbour that no LSP has used for a lifetime.
    pub(crate) fn forget(&mut self, via: Adjacency) {
        let Some(neighbour) = self.neighbours.get(&via) else { return };
        if neighbour.users > 0 {
            return;
        }
        if neighbour.is_busy() {
            self.timers.set(Timer::Forget(via), self.now + self.config.retransmit.slow);
            return;
        }
        let peer = neighbour.peer;
        self.neighbours.remove(&via);
        self.timers.cancel(Timer::Retransmit(via));
        self.timers.cancel(Timer::SummaryRefresh(via));
        if !self.neighbours.values().any(|neighbour| neighbour.peer == peer) {
            self.peers.remove(&peer);
            self.timers.cancel(Timer::Hello(peer));
            self.timers.cancel(Timer::Silence(peer));
        }
    }
}
