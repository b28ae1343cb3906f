//! Pools, interfaces and ports that this worker serves, and the shared tables.

use std::cell::Cell;
use std::collections::HashMap;
use std::mem::offset_of;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use europa_impair::{Impairment, Statistics};
use europa_pool::ring::Entries;
use europa_pool::{Mapping, PoolView, Waker};
use europa_substrate::layout::{self, MAX_INTERFACES};
use europa_substrate::tap::{MemoryTaps, Record};
use europa_substrate::{Drained, Fence, Table};
use nix::unistd::write;

use crate::batching::{Batching, Way};
use crate::egress::Policy;
use crate::filters::Filters;
use crate::handover::{Incoming, Outgoing};
use crate::held::Held;
use crate::losses::Losses;
use crate::orders::{FilteredBy, PoolOf, Served, ServedInterface, Target};
use crate::peer::Peer;
use crate::pools::Pools;
use crate::ports::Ports;
use crate::queue::{PortQueue, Queued};
use crate::socket::Socket;
use crate::tunnels::Tunnels;

pub(crate) struct Pool {
    pub(crate) view: PoolView,
    pub(crate) wake: Wake,
    pub(crate) of: PoolOf,
    /// The worker that takes its router's packets.
    pub(crate) worker: u32,
    /// Whether its router never sleeps.
    pub(crate) busy: bool,
    /// Slots of packets in transit over links.
    pub(crate) on_the_way: Cell<u32>,
    /// Packets sent by the router's process since the last count.
    pub(crate) sent: Cell<u32>,
    /// Places of its interfaces.
    pub(crate) interfaces: Vec<usize>,
}

impl Pool {
    /// Wakes the router if it sleeps, after new packets in its rings.
    pub(crate) fn rouse(&self) {
        // Ordered after the words were published, as the other side's sleep is.
        fence(Ordering::SeqCst);
        if !self.view.wants_wake_up() {
            return;
        }
        match &self.wake {
            Wake::Router { pipe, .. } => {
                // A pipe that is full wakes as well.
                let _ = write(pipe, &[1]);
            }
            Wake::Worker(peer) => peer.wake(),
            Wake::Switch(_) => {}
        }
    }
}

/// How sleepers learn of packets in a pool.
pub(crate) enum Wake {
    /// The router.
    Router {
        /// Written after delivery over a link.
        pipe: OwnedFd,
        /// The ring by which the receive program wakes it, for the worker that serves it.
        waker: Option<OwnedFd>,
    },
    /// This worker, if it fills the receive rings itself.
    Switch(Waker),
    /// Another worker, which fills them.
    Worker(Arc<Peer>),
}

impl Wake {
    /// The ring buffer by which the receive program wakes a sleeper.
    pub(crate) fn waker(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Router { waker, .. } => waker.as_ref().map(AsFd::as_fd),
            Self::Switch(waker) => Some(waker.as_fd()),
            Self::Worker(_) => None,
        }
    }
}

pub(crate) struct Interface {
    pub(crate) id: u32,
    pub(crate) pool: u32,
    pub(crate) local: u32,
    pub(crate) to: Target,
    pub(crate) policy: Policy,
    /// Bytes of headers before its frames.
    pub(crate) before: u8,
    /// Bytes that its frames may have.
    pub(crate) lengths: RangeInclusive<u16>,
    pub(crate) head: u32,
    /// Which of both cursors in the table shared with the programs are its.
    pub(crate) odd: bool,
    /// The link's effects on packets that the interface sends.
    pub(crate) impairment: Option<Box<Impairment<Queued>>>,
    /// The slice whose rules hold for its packets.
    pub(crate) filtered_by: Option<FilteredBy>,
    /// Whether it has no router: frames are taken from its receive ring.
    pub(crate) relay: bool,
    /// It is in [`Tables::awake`].
    pub(crate) awake: bool,
    /// The source of its packets if another worker serves its router, and this one its port.
    pub(crate) incoming: Option<Incoming>,
}

impl Interface {
    /// The ring from which its frames are taken.
    #[inline]
    pub(crate) fn ring<'a>(&self, pool: &'a Pool) -> Entries<'a> {
        if self.relay { pool.view.rx(self.local) } else { pool.view.tx(self.local) }
    }
}

pub(crate) struct Port {
    pub(crate) id: u32,
    pub(crate) queue: PortQueue,
    pub(crate) socket: Socket,
    pub(crate) losses: Losses,
    /// Checks whether live frames have arrived, if the kernel can tell.
    pub(crate) drained: Option<Drained>,
    pub(crate) batching: Batching,
}

impl Port {
    /// Whether all frames sent this way have left the device, or have arrived. `None` if unknown.
    pub(crate) fn has_left(&self, way: Way) -> Option<bool> {
        match way {
            Way::Live => Some(self.drained.as_ref()?.is(self.id)),
            Way::Socket => Some(self.socket.is_out()),
        }
    }
}

/// The tables shared with the programs.
pub(crate) struct Shared {
    pub(crate) interfaces: Table<layout::Interface>,
    pub(crate) encap: Table<layout::Encap>,
    pub(crate) pool_state: Table<layout::PoolState>,
    counters: Table<layout::Counters>,
    counter_rows: u32,
    pub(crate) held: Held,
    taps: Mutex<MemoryTaps>,
    pub(crate) fence: Fence,
}

/// Adds to one of the switch's own counters of an interface.
macro_rules! count {
    ($shared:expr, $interface:expr, $field:ident, $by:expr) => {
        $shared.add(
            $interface,
            ::std::mem::offset_of!(::europa_substrate::layout::Counters, $field),
            $by,
        )
    };
}
pub(crate) use count;

impl Shared {
    pub(crate) fn new(
        interfaces: Table<layout::Interface>,
        encap: Table<layout::Encap>,
        pool_state: Table<layout::PoolState>,
        counters: Table<layout::Counters>,
        counter_rows: u32,
        held: Held,
        taps: MemoryTaps,
        fence: Fence,
    ) -> Self {
        let taps = Mutex::new(taps);
        Self { interfaces, encap, pool_state, counters, counter_rows, held, taps, fence }
    }

    #[inline]
    pub(crate) fn add(&self, interface: u32, field: usize, by: u64) {
        let row = interface * self.counter_rows + self.counter_rows - 1;
        let counter = self.counters.atomic_u64(row, field);
        // Only the switch writes this row.
        if self.held.several {
            counter.fetch_add(by, Ordering::Relaxed);
        } else {
            counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
        }
    }

    /// The rows of an interface's counters: one for each CPU, and the switch's own.
    pub(crate) fn counters_of(&self, interface: u32) -> impl Iterator<Item = layout::Counters> {
        let first = interface * self.counter_rows;
        (first..first + self.counter_rows).map(|row| self.counters.get(row))
    }

    /// Position of an interface's next frame in its receive ring.
    #[inline]
    pub(crate) fn rx_tail(&self, interface: u32, odd: bool) -> &AtomicU32 {
        self.cursor(interface, offset_of!(layout::Interface, rx_tail), odd)
    }

    /// Position of an interface's next frame in its transmit ring.
    #[inline]
    pub(crate) fn tx_head(&self, interface: u32, odd: bool) -> &AtomicU32 {
        self.cursor(interface, offset_of!(layout::Interface, tx_head), odd)
    }

    #[inline]
    fn cursor(&self, interface: u32, both: usize, odd: bool) -> &AtomicU32 {
        self.interfaces.atomic_u32(interface, both + usize::from(odd) * size_of::<u32>())
    }

    /// Captures of an interface, a bit each.
    pub(crate) fn taps_of(&self, interface: u32) -> u32 {
        let taps = self.interfaces.atomic_u32(interface, offset_of!(layout::Interface, taps));
        taps.load(Ordering::Relaxed)
    }

    /// Adds a record for captures: see [`MemoryTaps::record`].
    #[cold]
    pub(crate) fn record(
        &self,
        taps: u32,
        record: Record,
        fill: impl Fn(&Mapping, usize, usize) -> bool,
    ) {
        let memory = self.taps.lock().unwrap_or_else(PoisonError::into_inner);
        memory.record(taps, record, fill);
    }
}

/// Everything that orders change. Each worker has all pools and interfaces in its own tables, and
/// the ports that it serves.
#[derive(Default)]
pub(crate) struct Tables {
    /// Which worker this is.
    pub(crate) worker: u32,
    pub(crate) pools: Pools,
    pub(crate) interfaces: Vec<Interface>,
    /// Places of interfaces, by number. [`Tables::arrange`] keeps this and the following fields.
    pub(crate) places: Vec<usize>,
    /// A router that this worker serves never sleeps, and neither does the worker: the least
    /// latency needs both.
    pub(crate) busy: bool,
    /// Interfaces whose rings are checked in every round: another thread fills them.
    pub(crate) polled: Vec<usize>,
    /// Interfaces of routers inside this switch that may have sent packets since their rings were
    /// found empty: of a thousand such routers, few have had a turn.
    pub(crate) awake: Vec<usize>,
    /// Interfaces whose packets another worker hands over.
    pub(crate) incoming: Vec<usize>,
    /// Outgoing rings by number of the interface, if another worker serves the port.
    pub(crate) outgoing: Vec<Option<Outgoing>>,
    pub(crate) ports: Ports,
    /// Links to other machines.
    pub(crate) tunnels: Tunnels,
    /// Number of interfaces with an impairment: usually 0, which costs nothing.
    pub(crate) impaired: usize,
    /// Statistics of impairments whose interface is away because its router restarts.
    pub(crate) past: HashMap<u32, Statistics>,
    /// Rules, if there ever were any.
    pub(crate) filters: Option<Box<Filters>>,
}

impl Tables {
    /// Updates lists after interfaces or pools were added or removed.
    pub(crate) fn arrange(&mut self) {
        let Self { worker, pools, interfaces, places, polled, awake, incoming, .. } = self;
        for list in [&mut *places, &mut *polled, &mut *awake, &mut *incoming] {
            list.clear();
        }
        pools.values_mut().for_each(|pool| pool.interfaces.clear());
        self.busy = pools.values().any(|pool| pool.busy && pool.worker == *worker);
        places.resize(MAX_INTERFACES as usize, usize::MAX);
        for (place, interface) in interfaces.iter_mut().enumerate() {
            if let Some(known) = places.get_mut(interface.id as usize) {
                *known = place;
            }
            if interface.incoming.is_some() {
                incoming.push(place);
            }
            let Some(pool) = pools.get_mut(interface.pool) else { continue };
            if pool.worker != *worker {
                continue;
            }
            pool.interfaces.push(place);
            interface.awake = pool.of == PoolOf::Inline;
            if interface.awake { awake.push(place) } else { polled.push(place) }
        }
    }

    /// Notes that the router on this pool, inside this switch, may have sent packets.
    #[inline]
    pub(crate) fn awaken(&mut self, pool: u32) {
        let Self { pools, interfaces, awake, .. } = self;
        for place in pools.get(&pool).map_or(&[][..], |pool| &pool.interfaces) {
            if let Some(interface) = interfaces.get_mut(*place).filter(|i| !i.awake) {
                interface.awake = true;
                awake.push(*place);
            }
        }
    }

    /// Whether an interface's ring has packets.
    pub(crate) fn has_sent(&self, interface: &Interface) -> bool {
        let pool = self.pools.get(&interface.pool);
        pool.is_some_and(|pool| interface.ring(pool).peek(interface.head).is_some())
    }

    /// Whether this worker serves the router on a pool.
    pub(crate) fn is_own(&self, pool: u32) -> bool {
        self.pools.get(&pool).is_some_and(|pool| pool.worker == self.worker)
    }

    /// The objects that this worker serves, for a node that has just started.
    pub(crate) fn served(&self) -> Served {
        let own = self.interfaces.iter().filter(|interface| self.is_own(interface.pool));
        let interfaces = own.map(|interface| ServedInterface {
            interface: interface.id,
            pool: interface.pool,
            to: interface.to,
            impairment: interface.impairment.as_ref().map(|impairment| *impairment.settings()),
        });
        Served {
            pools: self.pools.keys().filter(|pool| self.is_own(*pool)).collect(),
            ports: self.ports.iter().map(|port| port.id).collect(),
            interfaces: interfaces.collect(),
            tunnels: self.tunnels.settings().collect(),
            inline: Vec::new(),
        }
    }

    /// Removes ways to a removed interface.
    pub(crate) fn forget_way(&mut self, interface: u32) {
        if let Some(filters) = &mut self.filters {
            filters.forget(interface);
        }
    }
}
