//! Packet pools: a router's map, and its place in the tables of the substrate.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use europa_pool::layout::{InterfaceRow, SMALL_SLOT_BYTES};
use europa_pool::{Geometry, Layout, PoolView};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};

use crate::layout::{self, MAX_POOLS};
use crate::substrate::{Doing, Error, Substrate};

/// Bytes of a waker's ring; what is in it does not matter, only that it is not empty.
const WAKER_BYTES: u32 = 4096;

/// A pool of the substrate, held by the node.
pub struct PoolHandle {
    /// Number of the pool in the tables; a restarted router gets another.
    pub id: u32,
    /// Where things lie in it.
    pub layout: Layout,
    map: MapHandle,
    waker: MapHandle,
}

/// What a sleeping router polls.
pub type Waker = OwnedFd;

impl PoolHandle {
    pub(crate) fn new(id: u32, layout: Layout, map: MapHandle, waker: MapHandle) -> Self {
        Self { id, layout, map, waker }
    }

    /// The pool's memory, for its router and the switch to map.
    ///
    /// # Errors
    /// When this process has no descriptor left.
    pub fn share(&self) -> Result<OwnedFd, Error> {
        self.map.as_fd().try_clone_to_owned().doing("duplicating a descriptor")
    }

    /// Writes the interface table, for a router that is about to start.
    ///
    /// # Errors
    /// What mmap(2) says.
    pub fn name_interfaces(&self, rows: &[InterfaceRow]) -> Result<(), Error> {
        PoolView::open(&self.map, self.layout.geometry)?.write_rows(rows);
        Ok(())
    }

    /// What the pool's router polls when it sleeps.
    ///
    /// # Errors
    /// When this process has no descriptor left.
    pub fn waker(&self) -> Result<Waker, Error> {
        self.waker.as_fd().try_clone_to_owned().doing("duplicating a descriptor")
    }
}

impl AsFd for PoolHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

impl Substrate {
    /// Makes a pool and enters it into the tables. Waits twice for RCU, 8 ms each: make
    /// pools ahead of need.
    ///
    /// # Errors
    /// No free pool number, or what the kernel says (no memory).
    pub fn create_pool(&self, geometry: Geometry) -> Result<PoolHandle, Error> {
        let layout = Layout::new(geometry).map_err(europa_pool::ViewError::from)?;
        let id = (1..MAX_POOLS)
            .find(|id| self.pool_state.get(*id).slots == 0)
            .ok_or(Error::Full("packet pool"))?;
        let mut options = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as u64,
            ..Default::default()
        };
        let waker = MapHandle::create(MapType::RingBuf, Some("waker"), 0, 0, WAKER_BYTES, &options)
            .doing("making a waker")?;
        options.map_flags = libbpf_sys::BPF_F_MMAPABLE | libbpf_sys::BPF_F_INNER_MAP;
        let map = MapHandle::create(
            MapType::Array,
            Some("packet_pool"),
            4,
            geometry.slot_bytes,
            layout.elements(),
            &options,
        )
        .doing(format!("making a packet pool of {} bytes", layout.memory_bytes()))?;
        PoolView::open(&map, geometry)?.format(&[]);
        let large = geometry.slot_bytes != SMALL_SLOT_BYTES;
        self.pool_state.set(
            id,
            layout::PoolState {
                slots: geometry.slots,
                flags: if large { layout::LARGE } else { 0 },
                fill_first: layout.fill.first_word,
                fill_mask: layout.fill.words - 1,
                recycle_first: layout.recycle.first_word,
                recycle_mask: layout.recycle.words - 1,
                // As `format` has filled them.
                recycle_tail: geometry.slots - europa_pool::stock(geometry.slots),
                done_tail: europa_pool::stock(geometry.slots),
                done_first: layout.done.first_word,
                done_mask: layout.done.words - 1,
                wake_tokens: 64,
                ..Default::default()
            },
        );
        let key = id.to_ne_bytes();
        for (table, map) in [(pools_of(large), &map), ("wakers", &waker)] {
            self.map(table)
                .update(&key, &map.as_fd().as_raw_fd().to_ne_bytes(), MapFlags::ANY)
                .doing("entering a packet pool into its table")?;
        }
        Ok(PoolHandle { id, layout, map, waker })
    }

    /// Takes a pool out of the receive programs' reach. When this returns, none of them
    /// works on it any more: the kernel has waited for RCU, about 8 ms.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn retire_pool(&self, pool: &PoolHandle) -> Result<(), Error> {
        let large = pool.layout.geometry.slot_bytes != SMALL_SLOT_BYTES;
        self.map(pools_of(large))
            .delete(&pool.id.to_ne_bytes())
            .doing("taking a packet pool out of its table")
    }

    /// Frees the number of a retired pool. Its memory goes when the last process that
    /// maps it has let go.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn delete_pool(&self, pool: PoolHandle) -> Result<(), Error> {
        self.map("wakers")
            .delete(&pool.id.to_ne_bytes())
            .doing("taking a waker out of its table")?;
        self.pool_state.set(pool.id, layout::PoolState::default());
        Ok(())
    }
}

pub(crate) fn pools_of(large: bool) -> &'static str {
    if large { "large_pools" } else { "small_pools" }
}
