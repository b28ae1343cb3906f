//! A mapped pool with its rings.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::layout::{
    ABI_MAGIC, ABI_VERSION, ASLEEP_OFFSET_BYTES, HEADER_WORDS, Header, INTERFACE_WORDS,
    InterfaceRow, LONG_SLOT, LONG_SLOT_BYTES, RingPlace,
};
use crate::ring::Entries;
use crate::{Geometry, GeometryError, Layout, Mapping};

/// Why a pool could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// The kernel refused to map it.
    #[error("cannot map the pool: {0}")]
    Map(#[from] nix::errno::Errno),
    /// The geometry is impossible.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The header is not that of a pool of this version.
    #[error("not a packet pool of version {ABI_VERSION}: magic {magic:#x}, version {version}")]
    Header {
        /// Value found in place of [`ABI_MAGIC`].
        magic: u32,
        /// Value found in place of [`ABI_VERSION`].
        version: u16,
    },
}

/// A mapped pool: slots, rings, flags. Cloning makes a second handle on the same mapping.
#[derive(Clone)]
pub struct PoolView {
    mapping: Mapping,
    layout: Layout,
}

impl PoolView {
    /// Maps the pool behind `fd`. The caller knows the geometry; it is never read from the pool,
    /// because a router can write there.
    ///
    /// # Errors
    /// An impossible geometry, or the error of mmap(2).
    pub fn open(fd: impl AsFd, geometry: Geometry) -> Result<Self, ViewError> {
        let layout = Layout::new(geometry)?;
        let page = 4096;
        let bytes = layout.memory_bytes().next_multiple_of(page);
        Ok(Self { mapping: Mapping::new(fd, bytes)?, layout })
    }

    /// Writes the header and the interface table, and puts the router's stock into the done ring
    /// and all other slots into the recycle ring. The node calls this before another process gets
    /// the pool.
    pub fn format(&self, interfaces: &[InterfaceRow]) {
        // SAFETY: Header is plain integers without padding (its size is asserted
        // to be the sum of its fields), so its bytes are initialised.
        let header = unsafe {
            std::mem::transmute::<Header, [u8; HEADER_WORDS as usize * 8]>(self.layout.header())
        };
        self.mapping.copy_in(self.control(0), &header);
        self.write_rows(interfaces);
        let stock = crate::endpoint::stock(self.layout.geometry.slots);
        let (done, recycle) = (self.done(), self.recycle());
        for slot in 0..self.layout.geometry.slots {
            if slot < stock {
                done.fill(slot, crate::Word::free(slot));
            } else {
                recycle.fill(slot - stock, crate::Word::free(slot));
            }
        }
        let long_stock = crate::endpoint::long_stock(self.layout.long_slots);
        // The first long slots belong to the router's stock, if it accepts super-packets.
        for slot in long_stock..self.layout.long_slots {
            let word = crate::Word::free(LONG_SLOT | slot);
            self.long_recycle().fill(slot - long_stock, word);
        }
    }

    /// Writes the interface table. The node calls it before a router starts.
    pub fn write_rows(&self, interfaces: &[InterfaceRow]) {
        for (row, index) in interfaces.iter().zip(0..self.layout.geometry.interfaces) {
            let row = InterfaceRow { rx: self.layout.rx(index), tx: self.layout.tx(index), ..*row };
            // SAFETY: as for the header: integers and bytes without padding.
            let row = unsafe {
                std::mem::transmute::<InterfaceRow, [u8; INTERFACE_WORDS as usize * 8]>(row)
            };
            self.mapping.copy_in(self.control(HEADER_WORDS + index * INTERFACE_WORDS), &row);
        }
    }

    /// Checks the header. A router calls it; it gets the geometry from the node.
    ///
    /// # Errors
    /// The version found instead of this one.
    pub fn check(&self) -> Result<(), ViewError> {
        let mut start = [0; 8];
        self.mapping.copy_out(self.control(0), &mut start);
        let [a, b, c, d, e, f, _, _] = start;
        let (magic, version) = (u32::from_le_bytes([a, b, c, d]), u16::from_le_bytes([e, f]));
        if (magic, version) != (ABI_MAGIC, ABI_VERSION) {
            return Err(ViewError::Header { magic, version });
        }
        Ok(())
    }

    /// The pool's layout.
    #[inline]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The memory itself.
    #[inline]
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Byte offset of control word `word`.
    fn control(&self, word: u32) -> usize {
        let Geometry { slots, slot_bytes, .. } = self.layout.geometry;
        slots as usize * slot_bytes as usize + word as usize * 8
    }

    fn ring(&self, place: RingPlace) -> Entries<'_> {
        let words = self.mapping.words(self.control(place.first_word), place.words as usize);
        // The layout of a geometry lies inside the memory mapped for it, and ring sizes are powers
        // of two: a property test of `layout` checks this.
        words.and_then(Entries::new).expect("a pool's layout lies inside its memory")
    }

    /// Router to substrate: slots for reception.
    #[inline]
    pub fn fill(&self) -> Entries<'_> {
        self.ring(self.layout.fill)
    }

    /// Substrate to itself: slots whose packet has been sent.
    #[inline]
    pub fn recycle(&self) -> Entries<'_> {
        self.ring(self.layout.recycle)
    }

    /// Substrate to itself: slots set aside.
    #[inline]
    pub fn spare(&self) -> Entries<'_> {
        self.ring(self.layout.spare)
    }

    /// Substrate to router: returned slots of its stock.
    #[inline]
    pub fn done(&self) -> Entries<'_> {
        self.ring(self.layout.done)
    }

    /// Router to substrate: long slots.
    #[inline]
    pub fn long_fill(&self) -> Entries<'_> {
        self.ring(self.layout.long_fill)
    }

    /// Substrate to itself: long slots whose packet has been sent.
    #[inline]
    pub fn long_recycle(&self) -> Entries<'_> {
        self.ring(self.layout.long_recycle)
    }

    /// Receive ring of interface `index`, or of the last interface.
    #[inline]
    pub fn rx(&self, index: u32) -> Entries<'_> {
        self.ring(self.layout.rx(index.min(self.layout.geometry.interfaces - 1)))
    }

    /// Transmit ring of interface `index`, as above.
    #[inline]
    pub fn tx(&self, index: u32) -> Entries<'_> {
        self.ring(self.layout.tx(index.min(self.layout.geometry.interfaces - 1)))
    }

    /// The router's sleep flag: not zero if it needs a wake-up.
    #[inline]
    pub fn asleep(&self) -> &AtomicU32 {
        // SAFETY: this is the first half of an aligned, live 64-bit word, which is never accessed
        // as a whole.
        unsafe { AtomicU32::from_ptr(self.flags().cast()) }
    }

    /// The router's flag for super-packets: not zero if it accepts them.
    #[inline]
    pub fn takes_long(&self) -> &AtomicU32 {
        // SAFETY: this is the second half of that word.
        unsafe { AtomicU32::from_ptr(self.flags().cast::<u32>().add(1)) }
    }

    /// The word of both flags.
    fn flags(&self) -> *mut u64 {
        let words: &[AtomicU64] = self
            .mapping
            .words(self.control(0) + ASLEEP_OFFSET_BYTES as usize, 1)
            .expect("the header lies inside the pool");
        words.as_ptr().cast_mut().cast()
    }

    /// Whether the router needs a wake-up; clears the flag.
    #[inline]
    pub fn wants_wake_up(&self) -> bool {
        let flag = self.asleep();
        flag.load(Ordering::Relaxed) != 0 && flag.swap(0, Ordering::AcqRel) != 0
    }

    /// The slot number of a word, masked to the number of slots.
    #[inline]
    pub fn mask(&self, slot: u32) -> u32 {
        let Layout { geometry, long_slots, .. } = &self.layout;
        if slot & LONG_SLOT != 0 && *long_slots != 0 {
            return LONG_SLOT | (slot & (long_slots - 1));
        }
        slot & (geometry.slots - 1)
    }

    /// Bytes of slot `slot`.
    #[inline]
    pub fn slot_bytes(&self, slot: u32) -> usize {
        let is_long = self.mask(slot) & LONG_SLOT != 0;
        (if is_long { LONG_SLOT_BYTES } else { self.layout.geometry.slot_bytes }) as usize
    }

    /// Byte offset of the first long slot.
    pub fn long_offset(&self) -> usize {
        self.layout.long_first() as usize * self.layout.geometry.slot_bytes as usize
    }

    /// Byte offset of `offset` in slot `slot`, masked to the number of slots.
    #[inline]
    pub fn slot_offset(&self, slot: u32, offset: u32) -> usize {
        let Geometry { slots, slot_bytes, .. } = self.layout.geometry;
        if self.mask(slot) & LONG_SLOT != 0 {
            let number = (slot & (self.layout.long_slots - 1)) as usize;
            let in_slot = (offset & (LONG_SLOT_BYTES - 1)) as usize;
            return self.long_offset() + number * LONG_SLOT_BYTES as usize + in_slot;
        }
        (slot & (slots - 1)) as usize * slot_bytes as usize + (offset & (slot_bytes - 1)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Word;
    use nix::sys::memfd::{MFdFlags, memfd_create};

    #[test]
    fn a_formatted_pool_has_every_slot_ready_for_reception() {
        let geometry = Geometry { slots: 64, slot_bytes: 2048, interfaces: 3 };
        let bytes = Layout::new(geometry).unwrap().memory_bytes().next_multiple_of(4096);
        let file = memfd_create(c"pool", MFdFlags::MFD_CLOEXEC).unwrap();
        nix::unistd::ftruncate(&file, bytes as i64).unwrap();
        let pool = PoolView::open(&file, geometry).unwrap();
        assert!(matches!(pool.check(), Err(ViewError::Header { magic: 0, .. })));
        pool.format(&[]);
        pool.check().unwrap();
        let slots: Vec<u32> =
            pool.done().snapshot().chain(pool.recycle().snapshot()).map(Word::slot).collect();
        assert_eq!(slots, (0..64).collect::<Vec<_>>());
        for ring in [pool.fill(), pool.rx(2), pool.tx(2)] {
            assert_eq!(ring.snapshot().count(), 0);
        }
        pool.asleep().store(1, Ordering::Release);
        assert!(pool.wants_wake_up());
        assert!(!pool.wants_wake_up(), "taken back");
    }
}
