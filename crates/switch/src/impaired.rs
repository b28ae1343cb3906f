//! Links with a rate, a delay, losses: waiting and arriving packets.
//!
//! A packet in transit uses only its sender's slot.

use europa_impair::{Cause, Due, Impairment, Settings, Statistics};
use europa_pool::Word;
use europa_pool::layout::rx_offset;
use europa_substrate::tap::{Direction, line};

use crate::onward::{Onward, Ways};
use crate::orders::{LinkStats, Target};
use crate::pools::Pools;
use crate::queue::Queued;
use crate::tables::{Interface, Pool, Shared, Tables, count};
use crate::tap::{Lost, lost};

/// Packets that arrive over one link before the next one has its turn.
const TURN: usize = 256;

/// Whether one more packet may be in transit. All links of a pool together have three quarters of
/// its slots; each may take up to twice the free rest (dynamic thresholds, Choudhury and Hahne
/// 1998), so that a congested link leaves room for the others: alone it can use half of the pool.
fn has_room(pool: &Pool, waiting: usize) -> bool {
    let budget = pool.view.layout().geometry.slots / 4 * 3;
    let free = budget.saturating_sub(pool.on_the_way.get()) as usize;
    waiting < free * 2
}

/// The interface whose capture shows a lost packet: its sender's; for a packet from a host, the
/// interface that it would have reached.
pub(crate) fn witness(interface: &Interface) -> (u32, Direction) {
    match interface.to {
        Target::Link(to) if interface.relay => (to, Direction::In),
        _ => (interface.id, Direction::Out),
    }
}

/// Submits a packet to the link, or drops it.
pub(crate) fn submit(
    impairment: &mut Impairment<Queued>,
    shared: &Shared,
    pool: &Pool,
    packet: Queued,
    now_ns: u64,
    witness: (u32, Direction),
) {
    let submitted = if has_room(pool, impairment.len()) {
        impairment.submit(now_ns, packet.word.length().into(), packet)
    } else {
        impairment.refuse();
        Err(Cause::Share)
    };
    match submitted {
        Ok(()) => pool.on_the_way.set(pool.on_the_way.get() + 1),
        Err(cause) => {
            count!(shared, packet.interface, tx_drop_line, 1);
            let taps = shared.taps_of(witness.0);
            if taps != 0 {
                tell(shared, pool, packet, cause, witness, taps);
            }
            shared.give_back(&pool.view, packet.pool, packet.word);
        }
    }
}

/// Reports a packet that does not pass to captures.
#[cold]
fn tell(
    shared: &Shared,
    pool: &Pool,
    packet: Queued,
    cause: Cause,
    (interface, direction): (u32, Direction),
    taps: u32,
) {
    let (offset, length) = (u32::from(packet.word.offset()), u32::from(packet.word.length()));
    if offset + length > pool.view.layout().geometry.slot_bytes {
        return;
    }
    let cause = match cause {
        Cause::Loss => line::LOST,
        Cause::Limit => line::LIMIT,
        Cause::Share => line::SHARE,
    };
    let (memory, offset) = (pool.view.mapping(), pool.view.slot_offset(packet.word.slot(), offset));
    lost(shared, &Lost { interface, taps, direction, memory, offset, length, cause });
}

/// Passes on the arrived packets; returns how many, and how many of them over links.
pub(crate) fn release(tables: &mut Tables, shared: &Shared, now_ns: u64) -> (u64, u64) {
    let Tables { pools, interfaces, ports, outgoing, tunnels, .. } = tables;
    let mut ways = Ways { ports, outgoing, tunnels };
    let (mut arrived, mut linked) = (0, 0);
    for interface in interfaces.iter_mut() {
        let Some(impairment) = &interface.impairment else { continue };
        if impairment.next_due_ns().is_none_or(|due| due > now_ns) {
            continue;
        }
        let (more, over_links) = release_from(interface, pools, ways.again(), shared, now_ns, TURN);
        arrived += more;
        linked += over_links;
    }
    (arrived, linked)
}

/// Delivers up to `most` packets that have arrived from one interface.
fn release_from(
    interface: &mut Interface,
    pools: &Pools,
    ways: Ways<'_>,
    shared: &Shared,
    now_ns: u64,
    most: usize,
) -> (u64, u64) {
    let (mut arrived, mut linked) = (0, 0);
    let Some(pool) = pools.get(&interface.pool) else { return (0, 0) };
    // A time beyond the clock is the largest one for queues.
    let clock_ns = if now_ns == u64::MAX { 0 } else { now_ns };
    let mut onward = Onward::of(interface, pools, ways, shared, clock_ns);
    let Some(impairment) = interface.impairment.as_deref_mut() else { return (0, 0) };
    for _ in 0..most {
        // Two, as the packet may be duplicated.
        if onward.room(interface.id) < 2 {
            break;
        }
        let Some(due) = impairment.pop(now_ns) else { break };
        let second = alter(shared, pool, &due);
        for packet in std::iter::once(due.packet).chain(second) {
            linked += onward.pass(shared, &pool.view, packet);
        }
        pool.on_the_way.set(pool.on_the_way.get().saturating_sub(1));
        arrived += 1;
    }
    onward.finish(shared);
    (arrived, linked)
}

/// Inverts the wrong bit, and makes the second packet of a duplicated one; `None` if the pool has
/// no slot for it.
fn alter(shared: &Shared, pool: &Pool, due: &Due<Queued>) -> Option<Queued> {
    let view = &pool.view;
    let packet = due.packet;
    let (slot, offset) = (packet.word.slot(), packet.word.offset().into());
    if let Some(bit) = due.wrong_bit
        && u32::from(packet.word.offset()) + bit / 8 < view.layout().geometry.slot_bytes
    {
        let place = view.slot_offset(slot, offset) + bit as usize / 8;
        let mut byte = [0];
        view.mapping().copy_out(place, &mut byte);
        view.mapping().copy_in(place, &[byte[0] ^ 1 << (bit % 8)]);
    }
    if !due.twice {
        return None;
    }
    let free = shared.hold_free(view, packet.pool)?;
    let (to, length) = (rx_offset(free), packet.word.length());
    let word = Word::frame(free, to as u16, length, 0);
    let ends = [offset, to].map(|start| start + u32::from(length));
    if ends.iter().any(|end| *end > view.layout().geometry.slot_bytes) {
        shared.give_back(view, packet.pool, word);
        return None;
    }
    view.mapping().copy_to(
        view.slot_offset(slot, offset),
        view.mapping(),
        view.slot_offset(free, to),
        length.into(),
    );
    count!(shared, packet.interface, tx_offered, 1);
    Some(Queued { word, ..packet })
}

impl Tables {
    /// Sets the effects of the link of interface `id`. Packets on a link that has lost its effects
    /// arrive at once.
    pub(crate) fn impair(&mut self, shared: &Shared, id: u32, settings: Option<Settings>) {
        let Some(interface) = self.interfaces.iter_mut().find(|i| i.id == id) else { return };
        let Some(pool) = self.pools.get(&interface.pool) else { return };
        match (&mut interface.impairment, settings) {
            (Some(impairment), Some(settings)) => impairment.change(settings),
            (None, Some(settings)) => {
                let most = pool.view.layout().geometry.slots as usize / 2;
                let past = self.past.remove(&id).unwrap_or_default();
                let new = Impairment::new(settings, most).continuing(past);
                interface.impairment = Some(Box::new(new));
                self.impaired += 1;
            }
            (Some(_), None) => {
                let Self { pools, ports, outgoing, tunnels, .. } = self;
                let ways = Ways { ports, outgoing, tunnels };
                release_from(interface, pools, ways, shared, u64::MAX, usize::MAX);
                self.stop(id, shared);
            }
            (None, None) => {}
        }
    }

    /// Removes an impairment; packets in transit have no destination, and are dropped.
    fn stop(&mut self, id: u32, shared: &Shared) {
        let Some(interface) = self.interfaces.iter_mut().find(|i| i.id == id) else { return };
        let Some(mut impairment) = interface.impairment.take() else { return };
        self.impaired -= 1;
        self.past.insert(id, impairment.statistics());
        if let Some(pool) = self.pools.get(&interface.pool) {
            for packet in impairment.drain() {
                pool.on_the_way.set(pool.on_the_way.get().saturating_sub(1));
                count!(shared, packet.interface, tx_drop_link, 1);
                shared.give_back(&pool.view, packet.pool, packet.word);
            }
        }
    }

    /// Removes the interfaces of a removed pool, with packets in transit from there.
    pub(crate) fn remove_interfaces_of(&mut self, shared: &Shared, pool: u32) {
        let gone: Vec<u32> =
            self.interfaces.iter().filter(|i| i.pool == pool).map(|i| i.id).collect();
        gone.into_iter().for_each(|id| self.forget_way(id));
        let Self { interfaces, past, impaired, .. } = self;
        interfaces.retain_mut(|interface: &mut Interface| {
            if interface.pool != pool {
                return true;
            }
            if let Some(impairment) = &mut interface.impairment {
                *impaired -= 1;
                let lost = impairment.drain().count() as u64;
                count!(shared, interface.id, tx_drop_pool, lost);
                past.insert(interface.id, impairment.statistics());
            }
            false
        });
    }

    pub(crate) fn link_statistics(&self) -> Vec<LinkStats> {
        let of = |interface: &Interface| {
            let packets = interface.impairment.as_ref()?.statistics();
            Some(LinkStats { interface: interface.id, packets })
        };
        let past = self.past.iter().map(|(id, past)| LinkStats {
            interface: *id,
            packets: Statistics { waiting: 0, ..*past },
        });
        self.interfaces.iter().filter_map(of).chain(past).collect()
    }
}
