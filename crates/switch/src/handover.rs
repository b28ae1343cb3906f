//! A ring from the worker of a router to the worker of a port, for each interface. So an interface
//! that sends more than the port accepts waits in its own transmit ring, as with one worker for
//! both.

use std::sync::Arc;

use rtrb::{Consumer, Producer, RingBuffer};

use crate::peer::Peer;
use crate::queue::Queued;

/// Packets of one interface in transit between two workers: a few turns of both.
const CAPACITY: usize = 256;

/// The end of the worker that serves the router.
pub(crate) struct Outgoing {
    ring: Producer<Queued>,
    to: Arc<Peer>,
}

/// The end of the worker that serves the port.
pub(crate) struct Incoming {
    ring: Consumer<Queued>,
    from: Arc<Peer>,
}

/// Either end.
pub(crate) enum End {
    Out(Outgoing),
    In(Incoming),
}

/// Both ends of a new ring.
pub(crate) fn between(from: &Arc<Peer>, to: &Arc<Peer>) -> (Outgoing, Incoming) {
    let (producer, consumer) = RingBuffer::new(CAPACITY);
    let outgoing = Outgoing { ring: producer, to: to.clone() };
    (outgoing, Incoming { ring: consumer, from: from.clone() })
}

impl Outgoing {
    /// Packets that can be added.
    #[inline]
    pub(crate) fn room(&self) -> u32 {
        self.ring.slots() as u32
    }

    /// Hands a packet over; false if there is no room.
    #[inline]
    pub(crate) fn push(&mut self, packet: Queued) -> bool {
        self.ring.push(packet).is_ok()
    }

    /// After packets were handed over.
    pub(crate) fn finish(&self) {
        self.to.wake();
    }
}

impl Incoming {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Takes up to `most` packets.
    #[inline]
    pub(crate) fn take(&mut self, most: usize, mut each: impl FnMut(Queued)) -> usize {
        let count = self.ring.slots().min(most);
        let Ok(chunk) = self.ring.read_chunk(count) else { return 0 };
        chunk.into_iter().for_each(&mut each);
        if count > 0 {
            self.from.has_room();
        }
        count
    }
}
