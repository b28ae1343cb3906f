//! The destination of an interface's frames: a port's queue, a link, or another machine.

use std::time::Instant;

use europa_pool::PoolView;

use crate::handover::Outgoing;
use crate::link::{self, Delivery, End};
use crate::long::Long;
use crate::orders::Target;
use crate::pools::Pools;
use crate::ports::Ports;
use crate::queue::Queued;
use crate::tables::{Interface, Port, Shared, count};
use crate::tunnels::{Leaving, Tunnels};
use crate::worker::LONGEST_LIVE;

/// Bytes of the only header that is inserted into a super-packet: a VLAN tag.
const TAG_BYTES: u8 = 4;

/// The outputs of a worker.
pub(crate) struct Ways<'a> {
    pub(crate) ports: &'a mut Ports,
    /// By number of the interface.
    pub(crate) outgoing: &'a mut [Option<Outgoing>],
    pub(crate) tunnels: &'a mut Tunnels,
}

impl Ways<'_> {
    /// The same, borrowed for a shorter time.
    pub(crate) fn again(&mut self) -> Ways<'_> {
        Ways { ports: self.ports, outgoing: self.outgoing, tunnels: self.tunnels }
    }
}

/// The destination of one interface's frames, looked up once for each batch.
pub(crate) enum Onward<'a> {
    /// A port, with the data that its queues need: pools and the time.
    Port(&'a mut Port, &'a Pools, u64),
    /// The worker that serves the port.
    Worker(&'a mut Outgoing),
    /// Another router's interface.
    Link(End<'a>),
    /// Another machine.
    Tunnel(Leaving<'a>),
    /// The other end is missing, because its router restarts.
    Nowhere,
}

impl<'a> Onward<'a> {
    pub(crate) fn of(
        interface: &Interface,
        pools: &'a Pools,
        Ways { ports, outgoing, tunnels }: Ways<'a>,
        shared: &Shared,
        now_ns: u64,
    ) -> Self {
        match interface.to {
            Target::Port(id) => match ports.of_mut(id) {
                Some(port) => Self::Port(port, pools, now_ns),
                None => {
                    let other = outgoing.get_mut(interface.id as usize).and_then(Option::as_mut);
                    other.map_or(Self::Nowhere, Self::Worker)
                }
            },
            Target::Link(to) => End::of(to, shared, pools).map_or(Self::Nowhere, Self::Link),
            Target::Tunnel => tunnels.of(interface.id).map_or(Self::Nowhere, Self::Tunnel),
        }
    }

    /// The number of frames of `interface` that the destination accepts now.
    #[inline]
    pub(crate) fn room(&self, interface: u32) -> u32 {
        match self {
            Self::Port(port, ..) => port.queue.room(interface),
            Self::Worker(outgoing) => outgoing.room(),
            Self::Link(..) | Self::Tunnel(_) | Self::Nowhere => u32::MAX,
        }
    }

    /// Whether super-packets leave by a device that cuts them.
    fn is_cut_by_device(&self) -> bool {
        let Self::Port(port, ..) = self else { return false };
        port.batching.segments(Instant::now())
    }

    /// Whether its room is a number of frames; else, of packets.
    pub(crate) fn counts_frames(&self) -> bool {
        matches!(self, Self::Port(port, ..) if !port.queue.is_plain())
    }

    /// Whether a super-packet of `interface` must wait until there is more room.
    pub(crate) fn lacks_room(&self, interface: u32) -> bool {
        let Self::Port(port, ..) = self else { return false };
        let cuts = !self.is_cut_by_device();
        self.room(interface) < port.queue.least_room(interface, cuts)
    }

    /// Passes one frame on, or drops it; the caller has checked the room. Returns 1 if
    /// the frame went over a link.
    #[inline]
    pub(crate) fn pass(&mut self, shared: &Shared, from: &PoolView, packet: Queued) -> u64 {
        let delivery = match self {
            Self::Port(port, pools, now_ns) => {
                port.queue.push(shared, pools, *now_ns, packet);
                return 0;
            }
            Self::Worker(outgoing) => {
                if outgoing.push(packet) {
                    return 0;
                }
                Delivery::Refused
            }
            Self::Link(end) => link::deliver(shared, from, packet, end),
            Self::Tunnel(leaving) => match leaving.pass(shared, from, packet) {
                true => Delivery::Done,
                false => Delivery::Malformed,
            },
            Self::Nowhere => Delivery::Refused,
        };
        if delivery == Delivery::Refused {
            count!(shared, packet.interface, tx_drop_link, packet.frames.into());
        }
        shared.give_back(from, packet.pool, packet.word);
        u64::from(delivery == Delivery::Done)
    }

    /// Passes a super-packet on uncut: to a device that cuts it, or over a link to a router that
    /// accepts it. Returns how many frames went over a link; `None` if the super-packet must be
    /// cut.
    pub(crate) fn pass_long(
        &mut self,
        shared: &Shared,
        from: &PoolView,
        packet: Queued,
        (long, head): (&Long, &[u8]),
    ) -> Option<u64> {
        if let Self::Link(end) = self {
            let delivery = link::deliver_long(shared, from, packet, (long, head), end)?;
            let frames = long.frames();
            if delivery != Delivery::Done {
                count!(shared, packet.interface, tx_drop_link, frames);
            }
            shared.give_back(from, packet.pool, packet.word);
            return Some(if delivery == Delivery::Done { frames } else { 0 });
        }
        let Self::Port(port, pools, _) = self else { return None };
        let leaves = packet.before <= TAG_BYTES
            && packet.word.length() > LONGEST_LIVE
            && port.batching.segments(Instant::now())
            && port.queue.takes_whole(shared, pools, &packet);
        leaves.then(|| self.pass(shared, from, packet))
    }

    /// Prefetches the memory that is needed to pass on a later frame of `interface`.
    #[inline]
    pub(crate) fn fetch_ahead(&self, interface: u32, soon: Option<u16>, later: Option<u16>) {
        if let Self::Port(port, ..) = self {
            port.queue.fetch_ahead(interface, soon, later);
        }
    }

    /// Ends a batch: wakes the receiver if it sleeps, and sends packets to other machines.
    pub(crate) fn finish(&mut self, shared: &Shared) {
        match self {
            Self::Link(end) => end.pool.rouse(),
            Self::Worker(outgoing) => outgoing.finish(),
            Self::Tunnel(leaving) => leaving.finish(shared),
            Self::Port(..) | Self::Nowhere => {}
        }
    }
}
