//! Packet pools: the map of a router, and its place in the tables of the substrate.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use europa_pool::layout::{InterfaceRow, SMALL_SLOT_BYTES};
use europa_pool::{Geometry, Layout, PoolView};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};

use crate::layout::{self, MAX_POOLS};
use crate::substrate::{Doing, Error, Substrate};

/// Bytes of a waker's ring. Only whether the ring is empty has a meaning, not its contents.
const WAKER_BYTES: u32 = 4096;

/// The default number of slots of a pool: the programs are fastest with it.
pub const USUAL_SLOTS: u32 = 8192;
/// Elements of the maps of such pools, enough for 8 interfaces.
pub(crate) const USUAL_ELEMENTS: u32 = 10881;

/// `PoolState::kind`: the table of maps that contains the pool. All maps in a table have elements
/// of one size. If they also have the same number of elements, the programs' look-ups need no
/// function call. This saves 11 ns for each received frame, and 7 ns for each sent one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Small slots.
    Small = 0,
    /// Large slots.
    Large = 1,
    /// Small slots, [`USUAL_SLOTS`] of them; the map has [`USUAL_ELEMENTS`].
    Usual = 2,
}

impl Kind {
    pub(crate) fn of(layout: &Layout) -> Self {
        // The map gets unused elements up to the usual number: at most 5 % of the memory.
        let fits = layout.elements() <= USUAL_ELEMENTS;
        match (layout.geometry.slot_bytes, layout.geometry.slots) {
            (SMALL_SLOT_BYTES, USUAL_SLOTS) if fits => Self::Usual,
            (SMALL_SLOT_BYTES, _) => Self::Small,
            _ => Self::Large,
        }
    }

    /// The kind for a value of `PoolState::kind`.
    pub(crate) fn from_state(kind: u32) -> Self {
        let all = [Self::Small, Self::Large, Self::Usual];
        all.into_iter().find(|one| *one as u32 == kind).unwrap_or(Self::Small)
    }

    pub(crate) fn table(self) -> &'static str {
        match self {
            Self::Small => "small_pools",
            Self::Large => "large_pools",
            Self::Usual => "usual_pools",
        }
    }

    /// Elements of the map of a pool.
    pub(crate) fn elements(self, layout: &Layout) -> u32 {
        if self == Self::Usual { USUAL_ELEMENTS } else { layout.elements() }
    }
}

/// A pool of the substrate, held by the node.
pub struct PoolHandle {
    /// The number of the pool in the tables; a restarted router gets another pool.
    pub id: u32,
    /// Its layout.
    pub layout: Layout,
    map: MapHandle,
    waker: MapHandle,
}

/// The formatted maps of a pool that is in no table yet. Any thread can make them. The kernel
/// clears their memory, which takes 5 to 20 ms for the usual 21 MiB.
pub struct PoolMemory {
    layout: Layout,
    map: MapHandle,
    waker: MapHandle,
}

impl PoolMemory {
    /// Makes them.
    ///
    /// # Errors
    /// An impossible geometry, or the kernel's error (no memory).
    pub fn new(geometry: Geometry) -> Result<Self, Error> {
        let layout = Layout::new(geometry).map_err(europa_pool::ViewError::from)?;
        let mut options = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as u64,
            ..Default::default()
        };
        let waker = MapHandle::create(MapType::RingBuf, Some("waker"), 0, 0, WAKER_BYTES, &options)
            .doing("making a waker")?;
        let kind = Kind::of(&layout);
        // Only of maps that may differ.
        let inner = if kind == Kind::Usual { 0 } else { libbpf_sys::BPF_F_INNER_MAP };
        options.map_flags = libbpf_sys::BPF_F_MMAPABLE | inner;
        let map = MapHandle::create(
            MapType::Array,
            Some("packet_pool"),
            4,
            geometry.slot_bytes,
            kind.elements(&layout),
            &options,
        )
        .doing(format!("making a packet pool of {} bytes", layout.memory_bytes()))?;
        PoolView::open(&map, geometry)?.format(&[]);
        Ok(Self { layout, map, waker })
    }
}

/// The ring that a sleeping router polls.
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
    /// The error of mmap(2).
    pub fn name_interfaces(&self, rows: &[InterfaceRow]) -> Result<(), Error> {
        PoolView::open(&self.map, self.layout.geometry)?.write_rows(rows);
        Ok(())
    }

    /// The ring that the pool's router polls when it sleeps.
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
    /// Makes a pool and enters it into the tables. This waits twice for RCU, 8 ms each: make pools
    /// before they are needed, or many at once.
    ///
    /// # Errors
    /// No free pool number, or the kernel's error (no memory).
    pub fn create_pool(&self, geometry: Geometry) -> Result<PoolHandle, Error> {
        self.create_pools(geometry, 1)?.pop().ok_or(Error::Full("packet pool"))
    }

    /// Makes this number of pools, or fewer if not enough numbers are free. Many pools need as many
    /// waits for RCU as a single one.
    ///
    /// # Errors
    /// No free pool number, or the kernel's error (no memory). Then no pool is made.
    pub fn create_pools(&self, geometry: Geometry, count: usize) -> Result<Vec<PoolHandle>, Error> {
        let count = count.min(self.free_pools().count());
        self.enter_pools((0..count).map(|_| PoolMemory::new(geometry)).collect::<Result<_, _>>()?)
    }

    /// The numbers of all pools.
    pub fn pools(&self) -> impl Iterator<Item = u32> {
        (1..MAX_POOLS).filter(|id| self.pool_state.get(*id).slots != 0)
    }

    fn free_pools(&self) -> impl Iterator<Item = u32> {
        (1..MAX_POOLS).filter(|id| self.pool_state.get(*id).slots == 0)
    }

    /// Makes pools from memory of one geometry; fewer if not enough numbers are free.
    ///
    /// # Errors
    /// No free pool number, or the kernel's error. Then no pool is made.
    pub fn enter_pools(&self, memory: Vec<PoolMemory>) -> Result<Vec<PoolHandle>, Error> {
        let named = self.free_pools().zip(memory);
        let pools =
            named.map(|(id, memory)| PoolHandle::new(id, memory.layout, memory.map, memory.waker));
        let pools: Vec<PoolHandle> = pools.collect();
        let Some(first) = pools.first() else { return Err(Error::Full("packet pool")) };
        let table = Kind::of(&first.layout).table();
        let ids: Vec<u32> = pools.iter().map(|pool| pool.id).collect();
        for pool in &pools {
            self.pool_state.set(pool.id, first_state(&pool.layout));
        }
        let maps = |of: fn(&PoolHandle) -> &MapHandle| pools.iter().map(of).collect::<Vec<_>>();
        let entered = self
            .enter(table, &ids, &maps(|pool| &pool.map))
            .and_then(|()| self.enter("wakers", &ids, &maps(|pool| &pool.waker)));
        if let Err(error) = entered {
            for (id, table) in ids.iter().flat_map(|id| [(id, table), (id, "wakers")]) {
                // It may be missing.
                let _ = self.map(table).delete(&id.to_ne_bytes());
            }
            ids.iter().for_each(|id| self.pool_state.set(*id, layout::PoolState::default()));
            return Err(error);
        }
        Ok(pools)
    }

    /// Enters maps into a table of maps under these numbers. The kernel waits for RCU once.
    fn enter(&self, table: &'static str, ids: &[u32], maps: &[&MapHandle]) -> Result<(), Error> {
        let bytes = |fd: &MapHandle| fd.as_fd().as_raw_fd().to_ne_bytes();
        let keys: Vec<u8> = ids.iter().flat_map(|id| id.to_ne_bytes()).collect();
        let values: Vec<u8> = maps.iter().flat_map(|map| bytes(map)).collect();
        let count = ids.len() as u32;
        let table = self.map(table);
        if count > 1
            && table.update_batch(&keys, &values, count, MapFlags::ANY, MapFlags::ANY).is_ok()
        {
            return Ok(());
        }
        // One by one, for old kernels.
        ids.iter().zip(maps).try_for_each(|(id, map)| {
            table
                .update(&id.to_ne_bytes(), &bytes(map), MapFlags::ANY)
                .doing("entering a packet pool into its table")
        })
    }

    /// Removes a pool from the receive programs. When this returns, no program uses the pool any
    /// longer: the kernel has waited for RCU, about 8 ms.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn retire_pool(&self, pool: &PoolHandle) -> Result<(), Error> {
        self.map(Kind::of(&pool.layout).table())
            .delete(&pool.id.to_ne_bytes())
            .doing("taking a packet pool out of its table")
    }

    /// Frees the number of a retired pool. The kernel frees the pool's memory when the last process
    /// has unmapped it.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn delete_pool(&self, pool: PoolHandle) -> Result<(), Error> {
        self.map("wakers")
            .delete(&pool.id.to_ne_bytes())
            .doing("taking a waker out of its table")?;
        self.pool_state.set(pool.id, layout::PoolState::default());
        Ok(())
    }
}

/// The table entries of a pool after `format`.
fn first_state(layout: &Layout) -> layout::PoolState {
    let slots = layout.geometry.slots;
    layout::PoolState {
        slots,
        kind: Kind::of(layout) as u32,
        fill_first: layout.fill.first_word,
        fill_mask: layout.fill.words - 1,
        recycle_first: layout.recycle.first_word,
        recycle_mask: layout.recycle.words - 1,
        recycle_tail: slots - europa_pool::stock(slots),
        done_tail: europa_pool::stock(slots),
        done_first: layout.done.first_word,
        done_mask: layout.done.words - 1,
        spare_first: layout.spare.first_word,
        spare_mask: layout.spare.words - 1,
        long_slots: layout.long_slots,
        long_first: layout.long_first(),
        long_fill_first: layout.long_fill.first_word,
        long_recycle_first: layout.long_recycle.first_word,
        long_recycle_tail: layout.long_slots - europa_pool::long_stock(layout.long_slots),
        wake_tokens: 64,
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use europa_pool::layout::LARGE_SLOT_BYTES;

    use super::*;

    #[test]
    fn usual_pools_have_maps_of_one_size() {
        let of = |slots, slot_bytes, interfaces| {
            let layout = Layout::new(Geometry { slots, slot_bytes, interfaces }).unwrap();
            let kind = Kind::of(&layout);
            assert!(kind.elements(&layout) >= layout.elements());
            assert!(Kind::from_state(kind as u32) == kind);
            (kind.table(), kind.elements(&layout), layout.elements())
        };
        assert_eq!(of(8192, SMALL_SLOT_BYTES, 8), ("usual_pools", 10881, 10881));
        assert_eq!(of(8192, SMALL_SLOT_BYTES, 1), ("usual_pools", 10881, 10433));
        let (table, elements, needed) = of(8192, SMALL_SLOT_BYTES, 9);
        assert_eq!((table, elements), ("small_pools", needed));
        assert_eq!(of(4096, SMALL_SLOT_BYTES, 2).0, "small_pools");
        assert_eq!(of(8192, LARGE_SLOT_BYTES, 1).0, "large_pools");
    }
}
