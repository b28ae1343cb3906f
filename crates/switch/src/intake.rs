//! From the routers' transmit rings to the port queues. Here a descriptor gets its
//! stamp: pool and interface are those of the ring it stood in, the slot is masked,
//! and only the flags that a router may set are kept.

use std::sync::atomic::Ordering;

use europa_pool::Word;

use crate::filters::Filters;
use crate::impaired;
use crate::onward::{Onward, Ways};
use crate::orders::{PoolOf, Target};
use crate::pools::Pools;
use crate::queue::Queued;
use crate::tables::{Interface, Shared, Tables, count};

/// Packets taken from one ring before the next one has its turn.
pub(crate) const TURN: u32 = 64;

/// So many packets ahead, the memory that they will touch is fetched.
const SOON: u32 = 4;
const LATER: u32 = 12;

/// Takes up to a turn from every transmit ring that may have something. Returns how many packets
/// came, and how many of them went over links.
pub(crate) fn intake(tables: &mut Tables, shared: &Shared, now_ns: u64) -> (u64, u64) {
    let (mut taken, mut linked) = (0, 0);
    for at in 0..tables.polled.len() {
        let Some(place) = tables.polled.get(at) else { break };
        let (more, over_links) = take(tables, *place, shared, now_ns);
        (taken, linked) = (taken + more, linked + over_links);
    }
    let mut at = 0;
    while let Some(place) = tables.awake.get(at).copied() {
        let (more, over_links) = take(tables, place, shared, now_ns);
        (taken, linked) = (taken + more, linked + over_links);
        let waits = tables.interfaces.get(place).is_some_and(|i| tables.has_sent(i));
        if more > 0 || waits {
            at += 1;
            continue;
        }
        tables.awake.swap_remove(at);
        if let Some(interface) = tables.interfaces.get_mut(place) {
            interface.awake = false;
        }
    }
    for at in 0..tables.incoming.len() {
        let Some(place) = tables.incoming.get(at) else { break };
        taken += take_over(tables, *place, shared, now_ns);
    }
    (taken, linked)
}

/// Takes up to a turn of packets that another worker has handed over from the interface at `place`.
#[inline]
fn take_over(tables: &mut Tables, place: usize, shared: &Shared, now_ns: u64) -> u64 {
    let Tables { pools, interfaces, ports, .. } = tables;
    let Some(Interface { id, to: Target::Port(to), incoming: Some(incoming), .. }) =
        interfaces.get_mut(place)
    else {
        return 0;
    };
    if incoming.is_empty() {
        return 0;
    }
    let taken = match ports.of_mut(*to) {
        Some(port) => {
            let room = port.queue.room(*id).min(TURN);
            incoming.take(room as usize, |packet| port.queue.push(shared, pools, now_ns, packet))
        }
        None => incoming.take(usize::MAX, |packet| {
            count!(shared, packet.interface, tx_drop_link, 1);
            pools.give_back(shared, &packet);
        }),
    };
    taken as u64
}

/// Takes up to a turn from the ring of the interface at `place`.
#[inline]
fn take(tables: &mut Tables, place: usize, shared: &Shared, now_ns: u64) -> (u64, u64) {
    let Tables { pools, interfaces, places, ports, outgoing, tunnels, filters, .. } = tables;
    let mut linked = 0;
    let Some(interface) = interfaces.get_mut(place) else { return (0, 0) };
    let Some(pool) = pools.get(&interface.pool) else { return (0, 0) };
    let ring = interface.ring(pool);
    let Some(mut word) = ring.peek(interface.head) else { return (0, 0) };
    let mut ways = Ways { ports, outgoing, tunnels };
    let mut onward = Onward::of(interface, pools, ways.again(), shared, now_ns);
    let witness = impaired::witness(interface);
    let mut impairment = interface.impairment.as_deref_mut();
    // A packet on a link asks for room when it arrives.
    let room = if impairment.is_some() { TURN } else { onward.room(interface.id).min(TURN) };
    if room == 0 {
        return (0, 0);
    }
    let cursor = shared.tx_head(interface.id, interface.odd);
    let (by, odd) = (interface.filtered_by, interface.odd);
    let mut judge = by.and_then(|by| Some(filters.as_mut()?.judge(by, odd)));
    let Interface { id, lengths, before, head, .. } = interface;
    // Keys count only for slices with rules.
    let allowed = Word::RETURN | if judge.is_some() { Word::KEY } else { 0 };
    let (mut turn, mut offered) = (0, 0);
    let slots = pool.view.layout().geometry.slots;
    loop {
        let slot = word.slot() & (slots - 1);
        let flags = word.flags() & allowed;
        let mut packet = Queued {
            word: Word::frame(slot, word.offset(), word.length(), flags),
            interface: *id,
            pool: interface.pool,
            before: *before,
            queue: word.queue(),
        };
        // Held, passed, cleared, in this order, for each packet: whenever a switch ends, the next
        // one sees how far it came. See `Worker::reclaim`.
        let fresh = shared.held.take(packet.pool, slot);
        let ahead = |by| ring.peek(head.wrapping_add(by)).map(|word| word.queue());
        onward.fetch_ahead(*id, ahead(SOON), ahead(LATER));
        let at = *head;
        *head = at.wrapping_add(1);
        cursor.store(*head, Ordering::Release);
        ring.clear(at);
        offered += u64::from(fresh);
        // A slot that is here already was submitted twice: the first counts.
        if !fresh {
            // Nothing came.
        } else if !lengths.contains(&word.length()) {
            count!(shared, packet.interface, tx_drop_length, 1);
            shared.give_back(&pool.view, packet.pool, packet.word);
        } else if let Some(judge) = &mut judge
            && !judge.passes(shared, pool, &mut packet)
        {
            // The rules have it.
        } else if let Some(impairment) = &mut impairment {
            impaired::submit(impairment, shared, pool, packet, now_ns, witness);
        } else {
            linked += onward.pass(shared, &pool.view, packet);
        }
        turn += 1;
        match ring.peek(*head) {
            Some(next) if turn < room => word = next,
            _ => break,
        }
    }
    count!(shared, *id, tx_offered, offered);
    if pool.of == PoolOf::Process {
        pool.sent.set(pool.sent.get().saturating_add(turn));
    }
    onward.finish(shared);
    judge.iter().for_each(|judge| judge.finish(pool));
    drop(judge);
    if let (Some(_), Some(filters)) = (by, filters.as_mut()) {
        linked += divert(filters, interfaces, pools, places, ways, shared, now_ns);
    }
    (turn.into(), linked)
}

/// Passes on the packets that rules have sent to other interfaces; returns how many packets went
/// over links.
fn divert(
    filters: &mut Filters,
    interfaces: &mut [Interface],
    pools: &Pools,
    places: &[usize],
    mut ways: Ways<'_>,
    shared: &Shared,
    now_ns: u64,
) -> u64 {
    let mut linked = 0;
    for mut diverted in filters.diverted() {
        let sent = (diverted.packet.interface, diverted.packet.pool, diverted.packet.word);
        let Some(pool) = pools.get(&sent.1) else { continue };
        let drop = || shared.give_back(&pool.view, sent.1, sent.2);
        let place = places.get(diverted.to as usize);
        let to = place.and_then(|place| interfaces.get_mut(*place));
        let Some(to) = to.filter(|to| diverted.readdress(shared, pool, to)) else {
            count!(shared, sent.0, tx_drop_filter, 1);
            drop();
            continue;
        };
        count!(shared, sent.0, tx_elsewhere, 1);
        count!(shared, to.id, tx_offered, 1);
        let mut onward = Onward::of(to, pools, ways.again(), shared, now_ns);
        let witness = impaired::witness(to);
        if let Some(impairment) = to.impairment.as_deref_mut() {
            impaired::submit(impairment, shared, pool, diverted.packet, now_ns, witness);
        } else if onward.room(to.id) == 0 {
            // It cannot wait in the ring: others behind it go elsewhere.
            count!(shared, to.id, tx_drop_queue, 1);
            drop();
        } else {
            linked += onward.pass(shared, &pool.view, diverted.packet);
            onward.finish(shared);
        }
    }
    linked
}
