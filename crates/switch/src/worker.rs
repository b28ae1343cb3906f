//! A worker: rounds of intake and sending, and the orders that change its tables
//! between two rounds.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use europa_pool::{Mapping, PoolView, Waker};
use europa_port::DropCounters;
use europa_substrate::Drained;
use europa_substrate::layout::{MAX_ENCAP, MAX_INTERFACES, MAX_LIVE_FRAME};
use nix::errno::Errno;

use crate::batching::{Abilities, Batching, MAX_KICK_FRAMES, Plan, Waiting, Way};
use crate::egress::{Policy, before_frame};
use crate::filters::Filters;
use crate::guests::Guests;
use crate::handover::{End, Outgoing};
use crate::impaired::release;
use crate::intake::intake;
use crate::live::Live;
use crate::losses::Reader;
use crate::managed::QUEUE_BYTES;
use crate::orders::{
    Answer, Order, PoolOf, PortStats, Served, SwitchStats, Target, Ways, geometry,
};
use crate::peer::Peer;
use crate::queue::PortQueue;
use crate::sleeper::Sleeper;
use crate::socket::{Outbox, Socket};
use crate::tables::{Interface, Pool, Port, Shared, Tables, Wake, count};
use crate::tunnels::Tunnels;

/// Longest frame that can be sent live, with any outer headers.
pub(crate) const LONGEST_LIVE: u16 = (MAX_LIVE_FRAME - MAX_ENCAP) as u16;

/// Number of packets since the last count that makes a router busy.
const BUSY_PACKETS: u32 = 4;

/// The shared state of all workers.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) shared: Arc<Shared>,
    /// All workers.
    pub(crate) peers: Arc<[Arc<Peer>]>,
    pub(crate) reader: Reader,
}

pub(crate) struct Worker {
    pub(crate) tables: Tables,
    shared: Arc<Shared>,
    live: Live,
    outbox: Outbox,
    peers: Arc<[Arc<Peer>]>,
    reader: Reader,
    pub(crate) stats: SwitchStats,
    /// The start of the impairments' clock.
    epoch: Instant,
    pub(crate) sleeper: Sleeper,
    pub(crate) guests: Guests,
}

impl Worker {
    /// The worker of this number.
    pub(crate) fn new(
        worker: u32,
        common: Common,
        live: Live,
        sleeper: Sleeper,
        guests: Guests,
    ) -> Self {
        let Common { shared, peers, reader } = common;
        Self {
            tables: Tables { worker, ..Tables::default() },
            shared,
            live,
            outbox: Outbox::new(),
            peers,
            reader,
            stats: SwitchStats::default(),
            epoch: Instant::now(),
            sleeper,
            guests,
        }
    }

    /// One round. Returns the number of packets, or `None` if there was no work.
    pub(crate) fn round(&mut self, now: Instant) -> Option<u64> {
        let mut total = 0;
        let now_ns = self.ns_at(now);
        // Waiting frames leave together: a kick costs the same for one frame as for a thousand.
        let Self { guests, tables, .. } = self;
        let worked = guests.turn(now, |pool| tables.awaken(pool));
        if self.tables.worker == 0 && self.tables.tunnels.listens() {
            let Tables { tunnels, pools, .. } = &mut self.tables;
            let (packets, linked) = tunnels.receive(pools, &self.shared, now, now_ns);
            self.stats.link_frames += linked;
            total += packets;
        }
        while total < u64::from(MAX_KICK_FRAMES) {
            let (taken, linked) = intake(&mut self.tables, &self.shared, now_ns);
            self.stats.link_frames += linked;
            total += taken;
            if taken == 0 {
                break;
            }
        }
        if self.tables.impaired > 0 {
            let (arrived, linked) = release(&mut self.tables, &self.shared, now_ns);
            self.stats.link_frames += linked;
            total += arrived;
        }
        let mut busy = total > 0 || worked;
        for index in 0..self.tables.ports.len() {
            busy |= self.send_from(index, now, now_ns);
        }
        if self.live.pending() > 0 {
            busy = true;
            self.kick();
            if self.live.pending() == 0 {
                self.tables.ports.iter_mut().for_each(|port| port.batching.kicked());
            }
            self.learn(now);
        }
        busy.then_some(total)
    }

    /// Number of router processes that have sent packets since the last call, and of those that
    /// have sent more than a few.
    pub(crate) fn count_routers(&self) -> (u32, u32) {
        let sent = self.tables.pools.values().map(|pool| pool.sent.take());
        sent.fold((0, 0), |(active, busy), sent| {
            (active + u32::from(sent > 0), busy + u32::from(sent >= BUSY_PACKETS))
        })
    }

    /// Has this worker's pools keep to few of their slots while few packets wait.
    pub(crate) fn set_slots_aside(&self) {
        let own = |(_, pool): &(u32, &Pool)| pool.worker == self.tables.worker;
        for (id, pool) in self.tables.pools.iter().filter(own) {
            self.shared.set_aside(&pool.view, id);
        }
    }

    /// Carries out orders for routers inside this switch.
    pub(crate) fn hear_guests(&mut self) {
        let Self { guests, tables, .. } = self;
        guests.hear(|pool| tables.awaken(pool));
    }

    /// Time of impairments and queues.
    fn ns_at(&self, time: Instant) -> u64 {
        time.duration_since(self.epoch).as_nanos() as u64
    }

    /// Reads the devices' losses of kicked frames.
    fn learn(&mut self, now: Instant) {
        for port in self.tables.ports.iter_mut() {
            if port.batching.wants_to_learn(now) {
                port.batching.learn(port.losses.ask(), now);
            }
        }
    }

    /// Whether a transmit ring has packets that can be taken, or packets may leave: checked between
    /// announcing sleep and sleeping.
    pub(crate) fn has_work(&self) -> bool {
        let now_ns = self.ns_at(Instant::now());
        let Tables { interfaces, polled, awake, incoming, .. } = &self.tables;
        let mut places = polled.iter().chain(awake);
        let mut handed_over = incoming.iter().filter_map(|place| interfaces.get(*place));
        places.any(|place| {
            let interface = interfaces.get(*place);
            interface.is_some_and(|i| self.tables.has_sent(i) && self.has_room(i))
        }) || handed_over.any(|i| {
            i.incoming.as_ref().is_some_and(|incoming| !incoming.is_empty()) && self.has_room(i)
        }) || self.next_departure(now_ns).is_some_and(|due| due <= now_ns)
            || self.guests.has_work(Instant::now())
    }

    /// Whether packets of an interface can be taken. A packet whose queue is full waits until
    /// another one leaves.
    fn has_room(&self, interface: &Interface) -> bool {
        let Target::Port(id) = interface.to else { return true };
        let port = self.tables.ports.of(id);
        let outgoing = self.outgoing(interface.id);
        port.is_none_or(|port| port.queue.room(interface.id) > 0)
            && outgoing.is_none_or(|outgoing| outgoing.room() > 0)
    }

    fn outgoing(&self, interface: u32) -> Option<&Outgoing> {
        self.tables.outgoing.get(interface as usize)?.as_ref()
    }

    /// Whether packets wait for another worker to take them.
    pub(crate) fn is_blocked(&self) -> bool {
        self.tables.outgoing.iter().flatten().any(|outgoing| outgoing.room() == 0)
    }

    /// The next time when a packet arrives over a link with effects, or may leave by a port with a
    /// rate, or a timer of a router inside this switch is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let impaired = (self.tables.impaired > 0).then(|| {
            let impairments = self.tables.interfaces.iter().filter_map(|i| i.impairment.as_ref());
            impairments.filter_map(|impairment| impairment.next_due_ns()).min()
        });
        let leaves = self.next_departure(0);
        let due_ns = impaired.flatten().into_iter().chain(leaves).min();
        let due = due_ns.and_then(|ns| self.epoch.checked_add(Duration::from_nanos(ns)));
        due.into_iter().chain(self.guests.next_due()).min()
    }

    /// When the next packet may leave by a port, at `now_ns` or later.
    fn next_departure(&self, now_ns: u64) -> Option<u64> {
        self.tables.ports.iter().filter_map(|port| port.queue.next_due_ns(now_ns)).min()
    }

    /// Pools of relays and of routers inside this switch: it fills their receive rings.
    pub(crate) fn own_pools(&self) -> impl Iterator<Item = (&PoolView, &Waker)> {
        self.tables.pools.values().filter_map(|pool| match &pool.wake {
            Wake::Switch(waker) => Some((&pool.view, waker)),
            Wake::Router { .. } | Wake::Worker(_) => None,
        })
    }

    fn send_from(&mut self, index: usize, now: Instant, now_ns: u64) -> bool {
        let Tables { pools, ports, .. } = &mut self.tables;
        let Some(port) = ports.get_mut(index) else { return false };
        port.queue.refill(&self.shared, pools, now_ns, port.batching.most());
        let Some(first) = port.queue.peek() else { return false };
        let merges = port.batching.segments(now);
        let first_fits = first.word.length() <= LONGEST_LIVE;
        let waiting = Waiting {
            frames: port.queue.ready(),
            first_fits_live: first_fits,
            stream: merges && port.queue.is_stream(pools),
        };
        let Some(plan) = port.batching.plan(waiting, now, |way| port.has_left(way)) else {
            return true;
        };
        match plan.way {
            Way::Live => self.fill_list(index, plan),
            Way::Socket => self.send_by_socket(index, plan, merges.then_some(now)),
        }
        if let Some(port) = self.tables.ports.get_mut(index) {
            port.batching.sent(plan.way, now);
        }
        true
    }

    fn fill_list(&mut self, index: usize, plan: Plan) {
        let Some(port) = self.tables.ports.get_mut(index) else { return };
        let room = self.live.room() as usize;
        let mut bytes = plan.bytes;
        for _ in 0..plan.frames.min(room) {
            let Some(next) = port.queue.peek() else { break };
            if next.word.length() > LONGEST_LIVE || bytes == 0 {
                break;
            }
            bytes = bytes.saturating_sub(next.word.length().into());
            if let Some(packet) = port.queue.pop() {
                self.live.add(packet, packet.before.into());
            }
        }
    }

    /// Segments are merged if the time, which is now, is given.
    fn send_by_socket(&mut self, index: usize, plan: Plan, merges: Option<Instant>) {
        let Tables { pools, interfaces, places, ports, .. } = &mut self.tables;
        let Some(port) = ports.get_mut(index) else { return };
        let mut bytes = plan.bytes;
        while !self.outbox.is_full() && bytes > 0 {
            let Some(next) = port.queue.peek() else { break };
            if !plan.all && next.word.length() <= LONGEST_LIVE {
                break;
            }
            let Some(packet) = port.queue.pop() else { break };
            bytes = bytes.saturating_sub(packet.word.length().into());
            let place = places.get(packet.interface as usize);
            let policy = place.and_then(|place| interfaces.get(*place));
            match (pools.get(&packet.pool), policy) {
                (Some(pool), Some(from)) => {
                    if packet.word.is_long() {
                        let view = &pool.view;
                        if self.outbox.add_long(&self.shared, view, &from.policy, packet) {
                            // The socket copies its payload out of the slot.
                            continue;
                        }
                    } else {
                        let merge = merges.is_some();
                        self.outbox.add(&self.shared, &pool.view, &from.policy, packet, merge);
                    }
                }
                // Its interface was removed while it waited.
                _ => count!(self.shared, packet.interface, tx_drop_queue, 1),
            }
            pools.give_back(&self.shared, &packet);
        }
        self.stats.socket_calls += 1;
        let sent = self.outbox.send(&self.shared, pools, &port.socket);
        self.stats.socket_frames += sent.frames;
        if sent.merged_refused
            && let Some(now) = merges
        {
            let rests = port.batching.rest_segments(now);
            tracing::warn!(
                port = port.id,
                "the device refused merged segments; none for {rests:?}"
            );
        } else if sent.merged {
            port.batching.takes_segments();
        }
    }

    fn kick(&mut self) {
        self.stats.kicks += 1;
        match self.live.kick(&self.shared) {
            Ok(taken) => self.stats.live_frames += u64::from(taken),
            // No memory for frames just now: entries in the list wait for the next kick.
            Err(error) if error.is(Errno::EINTR) || error.is(Errno::ENOMEM) => {}
            Err(error) => {
                // Cannot happen while the node keeps the program loaded and parked.
                tracing::error!("{error}; frames leave by sockets from now on");
                for (pool, word) in self.live.abandon(&self.shared) {
                    if let Some(view) = self.tables.pools.get(&pool) {
                        self.shared.give_back(&view.view, pool, word);
                    }
                }
                for port in self.tables.ports.iter_mut() {
                    port.batching.stop_live();
                }
            }
        }
    }

    /// Carries out an order of the node. `end` is given to the two workers of an interface whose
    /// packets cross from one to the other.
    pub(crate) fn obey(
        &mut self,
        order: Order,
        descriptors: Vec<OwnedFd>,
        end: Option<End>,
    ) -> Answer {
        match self.try_obey(order, descriptors, end) {
            Ok(answer) => answer,
            Err(why) => Answer::Refused(why),
        }
    }

    fn try_obey(
        &mut self,
        order: Order,
        descriptors: Vec<OwnedFd>,
        end: Option<End>,
    ) -> Result<Answer, String> {
        let mut descriptors = descriptors.into_iter();
        let mut descriptor = || descriptors.next().ok_or("a descriptor is missing".to_owned());
        match order {
            Order::Start { .. } => return Err("already started".into()),
            Order::AddPool { pool, slots, slot_bytes, interfaces, of, worker, busy } => {
                let view = PoolView::open(descriptor()?, geometry(slots, slot_bytes, interfaces))
                    .map_err(|error| error.to_string())?;
                let is_own = worker == self.tables.worker;
                let waker = descriptor()?;
                let wake = match of {
                    PoolOf::Process => {
                        Wake::Router { waker: is_own.then_some(waker), pipe: descriptor()? }
                    }
                    PoolOf::Inline | PoolOf::Relay if is_own => {
                        Wake::Switch(Waker::new(waker).map_err(|error| error.to_string())?)
                    }
                    PoolOf::Inline | PoolOf::Relay => Wake::Worker(
                        self.peers.get(worker as usize).ok_or("no such worker")?.clone(),
                    ),
                };
                if is_own {
                    self.reclaim(pool, &view, of == PoolOf::Relay);
                    if let Some(waker) = wake.waker() {
                        self.sleeper.watch(waker).map_err(|error| error.to_string())?;
                    }
                }
                let (on_the_way, interfaces) = (Cell::new(0), Vec::new());
                let sent = Cell::new(0);
                let new = Pool { view, wake, of, worker, busy, on_the_way, sent, interfaces };
                self.tables.pools.insert(pool, new);
                self.tables.arrange();
            }
            Order::AddInline { pool } => {
                let mut next = || descriptor();
                let descriptors = [next()?, next()?, next()?];
                let view = self.tables.pools.get(&pool).ok_or("no such pool")?.view.clone();
                self.guests.add(pool, view, descriptors).map_err(|error| error.to_string())?;
            }
            Order::RemovePool { pool } => self.remove_pool(pool),
            Order::AddPort { port, device, rate_bits, live, ways, segments } => {
                let socket = Socket::new(descriptor()?);
                let counters = DropCounters::new(descriptor()?, device);
                let losses = self.reader.of(counters.map_err(|error| error.to_string())?);
                let drained = match ways {
                    Ways::Ask => Some(Drained::new(descriptor()?)),
                    Ways::Join | Ways::Part => None,
                };
                let mut queue = PortQueue::new();
                let to = Target::Port(port);
                queue.reserve(self.tables.interfaces.iter().filter(|i| i.to == to).count());
                let mut batching = Batching::new(rate_bits, Abilities { live, ways, segments });
                if self.live.pending() > 0 {
                    // Entries of a former switch in the list may be for this port.
                    batching.sent(Way::Live, Instant::now());
                }
                self.tables.ports.add(Port { id: port, queue, socket, losses, drained, batching });
            }
            Order::Rate { port, rate_bits } => {
                let found = self.tables.ports.of_mut(port);
                found.ok_or("no such port")?.batching.rate_bits = rate_bits;
            }
            Order::Queues { port, queues } => {
                let queues = match queues {
                    Some(queues) => {
                        let memory = Mapping::new(descriptor()?, QUEUE_BYTES);
                        Some((queues, memory.map_err(|error| error.to_string())?))
                    }
                    None => None,
                };
                let now_ns = self.ns_at(Instant::now());
                let Tables { pools, ports, .. } = &mut self.tables;
                let found = ports.of_mut(port).ok_or("no such port")?;
                let places = found.queue.manage(&self.shared, pools, now_ns, queues)?;
                return Ok(Answer::Places(places));
            }
            Order::RemovePort { port } => {
                let removed = self.tables.ports.remove(port);
                let mut removed = removed.ok_or("no such port")?;
                removed.queue.drain(|packet| {
                    count!(self.shared, packet.interface, tx_drop_link, 1);
                    self.tables.pools.give_back(&self.shared, &packet);
                });
            }
            Order::AddInterface { interface, pool, local, to, bound, impairment, filtered_by } => {
                let relay = self.tables.pools.get(&pool);
                let relay = relay.is_some_and(|pool| pool.of == PoolOf::Relay);
                let policy = Policy { bound };
                let row = self.shared.interfaces.get(interface);
                let odd = row.is_odd();
                let head = self.shared.tx_head(interface, odd).load(Ordering::Acquire);
                let before = before_frame(&row, &self.shared.encap.get(interface)) as u8;
                self.tables.interfaces.push(Interface {
                    id: interface,
                    pool,
                    local,
                    to,
                    policy,
                    before,
                    lengths: 14..=u16::try_from(row.max_frame).unwrap_or(u16::MAX),
                    head,
                    odd,
                    impairment: None,
                    filtered_by,
                    relay,
                    awake: false,
                    incoming: None,
                });
                self.connect(interface, end);
                self.tables.arrange();
                if self.tables.is_own(pool) {
                    self.tables.impair(&self.shared, interface, impairment);
                }
                if let Target::Port(port) = to {
                    let count = self.tables.interfaces.iter().filter(|i| i.to == to).count();
                    if let Some(port) = self.tables.ports.of_mut(port) {
                        port.queue.reserve(count);
                    }
                }
            }
            Order::Filter { interface, filtered_by } => {
                // A later one is sent with its other settings.
                let found = self.tables.interfaces.iter_mut().find(|i| i.id == interface);
                found.into_iter().for_each(|found| found.filtered_by = filtered_by);
            }
            Order::Filters => self.filters()?.connect(descriptor()?)?,
            Order::Ways { ways } => {
                let filters = self.filters()?;
                ways.into_iter().for_each(|(number, way)| filters.set_way(number, way));
            }
            Order::Impair { interface, impairment } => {
                self.tables.impair(&self.shared, interface, impairment);
            }
            Order::RemoveInterface { interface } => {
                self.tables.impair(&self.shared, interface, None);
                self.tables.past.remove(&interface);
                self.tables.forget_way(interface);
                self.disconnect(interface);
                self.tables.interfaces.retain(|i| i.id != interface);
                self.tables.arrange();
            }
            Order::Tunnel { interface, settings } => {
                let sockets = [descriptor()?, descriptor()?];
                self.change_tunnels(|tunnels| tunnels.set(interface, settings, sockets))?;
            }
            Order::RemoveTunnel { interface } => {
                self.change_tunnels(|tunnels| tunnels.remove(interface))?;
            }
            // Its answer has descriptors: see `turning`.
            Order::TunnelSockets => return Err("no descriptors".into()),
            Order::Stats => return Ok(Answer::Stats(self.statistics())),
            Order::Describe => {
                let inline = self.guests.pools();
                return Ok(Answer::Served(Served { inline, ..self.tables.served() }));
            }
        }
        Ok(Answer::Done)
    }

    /// Changes tunnels; the first worker sleeps on their sockets.
    fn change_tunnels(&mut self, change: impl FnOnce(&mut Tunnels)) -> Result<(), String> {
        let tunnels = &mut self.tables.tunnels;
        tunnels.sockets().for_each(|(_, socket)| self.sleeper.ignore(socket));
        change(tunnels);
        if self.tables.worker != 0 {
            return Ok(());
        }
        let mut all = tunnels.sockets();
        let listening = all.try_for_each(|(_, socket)| self.sleeper.listen(socket));
        listening.map_err(|error| error.to_string())
    }

    fn filters(&mut self) -> Result<&mut Filters, String> {
        self.tables.filters.as_deref_mut().ok_or_else(|| "no filters".to_owned())
    }

    /// Connects an interface's packets to another worker, or from there.
    fn connect(&mut self, id: u32, end: Option<End>) {
        let Tables { outgoing, interfaces, .. } = &mut self.tables;
        match end {
            Some(End::Out(end)) => {
                outgoing.resize_with(outgoing.len().max(id as usize + 1), || None);
                outgoing[id as usize] = Some(end);
            }
            Some(End::In(end)) => {
                if let Some(interface) = interfaces.iter_mut().rfind(|i| i.id == id) {
                    interface.incoming = Some(end);
                }
            }
            None => {}
        }
    }

    /// Disconnects them. Received packets are still passed on, as far as there is room.
    fn disconnect(&mut self, id: u32) {
        if let Some(outgoing) = self.tables.outgoing.get_mut(id as usize) {
            *outgoing = None;
        }
        let now_ns = self.ns_at(Instant::now());
        let Tables { pools, interfaces, ports, .. } = &mut self.tables;
        let Some(interface) = interfaces.iter_mut().find(|interface| interface.id == id) else {
            return;
        };
        let Some(mut incoming) = interface.incoming.take() else { return };
        let to = interface.to;
        let mut port = match to {
            Target::Port(id) => ports.of_mut(id),
            Target::Link(_) | Target::Tunnel => None,
        };
        incoming.take(usize::MAX, |packet| match &mut port {
            Some(port) if port.queue.room(id) > 0 => {
                port.queue.push(&self.shared, pools, now_ns, packet);
            }
            _ => {
                count!(self.shared, id, tx_drop_queue, 1);
                pools.give_back(&self.shared, &packet);
            }
        });
    }

    /// Returns the slots of this pool that a killed switch held, except those in a transmit ring.
    /// Slots in a transmit list are not held; see [`Live`].
    fn reclaim(&mut self, pool: u32, view: &PoolView, relay: bool) {
        // A packet that was passed but is still in its ring would block the ring permanently. A
        // held entry differs from one of a later round.
        for row in (0..MAX_INTERFACES).map(|id| self.shared.interfaces.get(id)) {
            let last = row.tx_head[usize::from(row.is_odd())].wrapping_sub(1);
            let ring = if relay { view.rx(row.local) } else { view.tx(row.local) };
            if row.pool_id() == pool
                && row.max_frame != 0
                && let Some(word) = ring.peek(last)
                && self.shared.held.has(pool, view.mask(word.slot()))
            {
                ring.clear(last);
            }
        }
        for interface in 0..view.layout().geometry.interfaces {
            // A relay's are taken from the receive ring.
            for word in view.tx(interface).snapshot().chain(view.rx(interface).snapshot()) {
                self.shared.held.give(pool, view.mask(word.slot()));
            }
        }
        for slot in self.shared.held.of(pool, view.layout()) {
            self.shared.give_back(view, pool, europa_pool::Word::free(slot));
        }
    }

    fn remove_pool(&mut self, pool: u32) {
        self.guests.remove(pool);
        while self.live.pending() > 0 {
            let before = self.live.pending();
            self.kick();
            if self.live.pending() >= before {
                break;
            }
        }
        // Frames that no kick takes now must be removed: the pool's number may soon be another's.
        for (of, word) in self.live.abandon(&self.shared) {
            if let Some(other) = self.tables.pools.get(&of) {
                self.shared.give_back(&other.view, of, word);
            }
        }
        let gone = self.tables.interfaces.iter().filter(|interface| interface.pool == pool);
        for interface in gone {
            if let Some(outgoing) = self.tables.outgoing.get_mut(interface.id as usize) {
                *outgoing = None;
            }
        }
        self.tables.remove_interfaces_of(&self.shared, pool);
        for port in self.tables.ports.iter_mut() {
            port.queue.remove_pool(pool, |packet| {
                count!(self.shared, packet.interface, tx_drop_pool, 1);
            });
        }
        let is_own = self.tables.is_own(pool);
        if let Some(pool) = self.tables.pools.remove(pool)
            && is_own
        {
            pool.wake.waker().into_iter().for_each(|waker| self.sleeper.leave(waker));
        }
        self.tables.arrange();
        self.shared.held.clear(pool);
    }

    fn statistics(&mut self) -> SwitchStats {
        let mut stats = self.stats.clone();
        stats.ports = self
            .tables
            .ports
            .iter_mut()
            .map(|port| PortStats {
                port: port.id,
                queued: port.queue.len(),
                queued_peak: port.queue.peak,
                kick_frames: port.batching.kick_frames,
            })
            .collect();
        stats.links = self.tables.link_statistics();
        stats.inline = self.guests.stats();
        let now_ns = self.ns_at(Instant::now());
        let tunnels = &mut self.tables.tunnels;
        stats.tunnels = tunnels.statistics(now_ns);
        (stats.foreign_packets, stats.malformed_packets) = (tunnels.foreign, tunnels.malformed);
        stats
    }
}
