//! From the routers' transmit rings to the port queues. Here a descriptor gets its
//! stamp: pool and interface are those of the ring it stood in, the slot is masked,
//! and only the flags that a router may set are kept.

use std::mem::offset_of;
use std::sync::atomic::{Ordering, fence};

use europa_pool::Word;
use europa_substrate::layout;
use nix::unistd::write;

use crate::link;
use crate::orders::Target;
use crate::queue::Queued;
use crate::tables::{Interface, Port, Shared, Tables, count};

/// Packets taken from one ring before the next one has its turn.
const TURN: u32 = 64;

/// Takes up to a turn from every transmit ring. Returns how many packets came, and
/// how many of them went over links.
pub(crate) fn intake(tables: &mut Tables, shared: &Shared) -> (u64, u64) {
    let Tables { pools, interfaces, ports } = tables;
    let (mut taken, mut linked) = (0, 0);
    for interface in interfaces.iter_mut() {
        let Some(pool) = pools.get(&interface.pool) else { continue };
        let ring = pool.view.tx(interface.local);
        let Some(mut word) = ring.peek(interface.head) else { continue };
        let target = match interface.to {
            Target::Port(_) => None,
            Target::Link(to) => {
                let other = shared.interfaces.get(to).pool;
                pools.get(&other).map(|pool| (to, pool))
            }
        };
        let port = match interface.to {
            Target::Port(id) => ports.iter_mut().find(|port| port.id == id),
            Target::Link(_) => None,
        };
        let room = port.as_ref().map_or(TURN, |port| port.queue.room(interface.id).into());
        if room == 0 {
            continue;
        }
        let cursor =
            shared.interfaces.atomic_u32(interface.id, offset_of!(layout::Interface, tx_head));
        let mut sink = Sink { shared, interface, target, port };
        let mut turn = 0;
        let slots = pool.view.layout().geometry.slots;
        loop {
            let slot = word.slot() & (slots - 1);
            let flags = word.flags() & Word::RETURN;
            let packet = Queued {
                word: Word::frame(slot, word.offset(), word.length(), flags),
                interface: sink.interface.id,
                pool: sink.interface.pool,
                before: sink.interface.before,
            };
            // Held, passed, cleared, in this order, for each packet: whenever a switch
            // dies, the next one finds out how far it came. See `Worker::reclaim`.
            let fresh = shared.held.take(packet.pool, slot);
            let taken = sink.interface.head;
            sink.interface.head = taken.wrapping_add(1);
            cursor.store(sink.interface.head, Ordering::Release);
            ring.clear(taken);
            // A slot that is here already was submitted twice: the first counts.
            if !fresh {
                // Nothing came.
            } else if !sink.interface.lengths.contains(&word.length()) {
                count!(shared, packet.interface, tx_drop_length, 1);
                shared.give_back(&pool.view, packet.pool, packet.word);
            } else {
                linked += sink.accept(&pool.view, packet);
            }
            turn += 1;
            match ring.peek(sink.interface.head) {
                Some(next) if turn < room.min(TURN) => word = next,
                _ => break,
            }
        }
        if let Some((_, other)) = target {
            // Ordered after the words were published, as the other side's sleep is.
            fence(Ordering::SeqCst);
            if other.view.wants_wake_up() {
                // A counter that is full wakes as well.
                let _ = write(&other.wake, &1u64.to_ne_bytes());
            }
        }
        taken += u64::from(turn);
    }
    (taken, linked)
}

/// Where the packets of one interface go.
struct Sink<'a> {
    shared: &'a Shared,
    interface: &'a mut Interface,
    target: Option<(u32, &'a crate::tables::Pool)>,
    port: Option<&'a mut Port>,
}

impl Sink<'_> {
    /// Queues or delivers one packet, or drops it; 1 if it went over a link.
    fn accept(&mut self, from: &europa_pool::PoolView, packet: Queued) -> u64 {
        if let Some(port) = &mut self.port {
            port.queue.push(packet);
            return 0;
        }
        let delivered = match self.target {
            Some((to, other)) => link::deliver(self.shared, from, packet, &other.view, to),
            None => false,
        };
        if !delivered {
            count!(self.shared, packet.interface, tx_drop_link, 1);
        }
        self.shared.give_back(from, packet.pool, packet.word);
        u64::from(delivered)
    }
}
