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

/// The outputs of a worker.
pub(crate) struct Ways<'a> {
    pub(crate) ports: &'a mut Ports,
    /// By number of the interface.
    pub(crate) outgoing: &'a mut [Option<Outgoing>],
    pub(crate) tunnels: &'a mut Tunnels,
}

impl Ways<'_> {
    /// The same for a shorter time.
    pub(crate) fn again(&mut self) -> Ways<'_> {
        Ways { ports: self.ports, outgoing: self.outgoing, tunnels: self.tunnels }
    }
}

/// The output of one interface's frames, looked up once a batch.
pub(crate) enum Onward<'a> {
    /// With the data that its queues need: pools, and the time.
    Port(&'a mut Port, &'a Pools, u64),
    /// The worker that serves the port.
    Worker(&'a mut Outgoing),
    /// Another router's interface.
    Link(End<'a>),
    /// Another machine.
    Tunnel(Leaving<'a>),
    /// The other end is missing, as its router restarts.
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

    /// Number of frames of `interface` that it accepts now.
    #[inline]
    pub(crate) fn room(&self, interface: u32) -> u32 {
        match self {
            Self::Port(port, ..) => port.queue.room(interface),
            Self::Worker(outgoing) => outgoing.room(),
            Self::Link(..) | Self::Tunnel(_) | Self::Nowhere => u32::MAX,
        }
    }

    /// Whether super-packets leave by a device that cuts them.
    pub(crate) fn takes_long(&self) -> bool {
        let Self::Port(port, ..) = self else { return false };
        port.queue.is_plain() && port.batching.segments(Instant::now())
    }

    /// Whether `interface` may wait until there is room for this number of frames.
    pub(crate) fn makes_room(&self, interface: u32, frames: u32) -> bool {
        match self {
            Self::Port(port, ..) => port.queue.is_plain() && self.room(interface) < frames,
            _ => false,
        }
    }

    /// Passes one frame on, for which there is room, or drops it. Returns 1 if it went over a link.
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
            count!(shared, packet.interface, tx_drop_link, 1);
        }
        shared.give_back(from, packet.pool, packet.word);
        u64::from(delivery == Delivery::Done)
    }

    /// Passes a super-packet on as it is: to a device that cuts it, or over a link to a router that
    /// takes it. How many frames went over a link; `None` if it must be cut.
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
        let leaves = packet.before == 0 && packet.word.length() > LONGEST_LIVE && self.takes_long();
        leaves.then(|| self.pass(shared, from, packet))
    }

    /// Prefetches the memory for passing on a later frame of `interface`'s.
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
