//! From the routers' transmit rings to the port queues. Here a descriptor gets its stamp: pool and
//! interface of its ring; the slot is masked, and only the flags that a router may set are kept.

use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;

use europa_impair::Impairment;
use europa_pool::Word;

use crate::filters::{Filters, Judge};
use crate::impaired;
use crate::long::Long;
use crate::onward::{Onward, Ways};
use crate::orders::{PoolOf, Target};
use crate::pools::Pools;
use crate::queue::Queued;
use crate::tables::{Interface, Pool, Shared, Tables, count};
use crate::train::MAX_HEADERS;

/// Packets taken from one ring before the next one has its turn.
pub(crate) const TURN: u32 = 64;

/// Number of packets ahead for which memory is prefetched.
const SOON: u32 = 4;
const LATER: u32 = 12;

/// Free room that should exist before a super-packet is cut: the frames of most super-packets.
const CUT_ROOM: u32 = 48;

/// Takes up to a turn from every transmit ring that may have packets. Returns the number of
/// packets, and of those that went over links.
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
    loop {
        if word.is_long() && onward.makes_room(*id, CUT_ROOM) && !onward.takes_long() {
            break;
        }
        let slot = pool.view.mask(word.slot());
        let flags = word.flags() & allowed;
        let packet = Queued {
            word: Word::frame(slot, word.offset(), word.length(), flags),
            interface: *id,
            pool: interface.pool,
            before: *before,
            queue: word.queue(),
        };
        // Held, passed, cleared, in this order, for each packet: at any end of a switch, the next
        // one sees its progress. See `Worker::reclaim`.
        let fresh = shared.held.take(packet.pool, slot);
        let ahead = |by| ring.peek(head.wrapping_add(by)).map(|word| word.queue());
        onward.fetch_ahead(*id, ahead(SOON), ahead(LATER));
        let at = *head;
        *head = at.wrapping_add(1);
        cursor.store(*head, Ordering::Release);
        ring.clear(at);
        turn += 1;
        let (judge, impairment) = (&mut judge, &mut impairment);
        let onward = &mut onward;
        let mut passing =
            Passing { shared, pool, lengths, onward, judge, impairment, witness, now_ns };
        // A slot that is here already was submitted twice: the first counts.
        if !fresh {
            // No packet is there.
        } else if packet.word.is_long() {
            let (frames, over_links, was_cut) = passing.pass_long(packet);
            (offered, linked) = (offered + frames, linked + over_links);
            if was_cut {
                // There is less room than before.
                break;
            }
        } else {
            offered += 1;
            linked += passing.pass(packet);
        }
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

/// The stages that a packet passes after its ring.
struct Passing<'a, 'o, 'j, 'i> {
    shared: &'a Shared,
    pool: &'a Pool,
    lengths: &'a RangeInclusive<u16>,
    onward: &'a mut Onward<'o>,
    judge: &'a mut Option<Judge<'j>>,
    impairment: &'a mut Option<&'i mut Impairment<Queued>>,
    witness: (u32, europa_substrate::tap::Direction),
    now_ns: u64,
}

impl Passing<'_, '_, '_, '_> {
    /// Passes one frame on, or drops it. Returns 1 if it went over a link.
    #[inline(always)]
    fn pass(&mut self, mut packet: Queued) -> u64 {
        let Self { shared, pool, .. } = *self;
        if !self.lengths.contains(&packet.word.length()) {
            count!(shared, packet.interface, tx_drop_length, 1);
            shared.give_back(&pool.view, packet.pool, packet.word);
        } else if let Some(judge) = self.judge
            && !judge.passes(shared, pool, &mut packet)
        {
            // The rules have it.
        } else if let Some(impairment) = self.impairment {
            impaired::submit(impairment, shared, pool, packet, self.now_ns, self.witness);
        } else {
            return self.onward.pass(shared, &pool.view, packet);
        }
        0
    }

    /// Passes a super-packet on: as it is to a device that cuts it or to a router that takes it, else
    /// in segments. How many frames it is, how many went over a link, and whether it was cut.
    #[cold]
    #[inline(never)]
    fn pass_long(&mut self, packet: Queued) -> (u64, u64, bool) {
        let Self { shared, pool, .. } = *self;
        let mut head = [0; MAX_HEADERS];
        let Some(long) = Long::read(&pool.view, packet.word, &mut head) else {
            count!(shared, packet.interface, tx_drop_length, 1);
            shared.give_back(&pool.view, packet.pool, packet.word);
            return (1, 0, false);
        };
        let as_it_is = self.judge.is_none()
            && self.impairment.is_none()
            && long.longest() <= usize::from(*self.lengths.end())
            && shared.taps_of(packet.interface) == 0;
        let whole = (&long, &head[..]);
        if as_it_is && let Some(linked) = self.onward.pass_long(shared, &pool.view, packet, whole) {
            return (long.frames(), linked, false);
        }
        let (mut linked, mut refused) = (0, 0);
        let lost = long.cut(shared, &pool.view, packet, &head, |segment| {
            // A packet on a link asks for room when it arrives.
            if self.impairment.is_none() && self.onward.room(packet.interface) == 0 {
                refused += 1;
                shared.give_back(&pool.view, segment.pool, segment.word);
            } else {
                linked += self.pass(segment);
            }
        });
        count!(shared, packet.interface, tx_drop_queue, lost + refused);
        shared.give_back(&pool.view, packet.pool, packet.word);
        (long.frames(), linked, true)
    }
}

/// Passes on the packets that rules have diverted to other interfaces. Returns how many went over
/// links.
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
            // It cannot wait in the ring, as later packets have other destinations.
            count!(shared, to.id, tx_drop_queue, 1);
            drop();
        } else {
            linked += onward.pass(shared, &pool.view, diverted.packet);
            onward.finish(shared);
        }
    }
    linked
}
