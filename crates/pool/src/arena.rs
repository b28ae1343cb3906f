//! Equal packet buffers with a stack of free ones, used by one thread.
//!
//! An [`Arena`] keeps its data about each buffer (start of the packet, annotations, owner) in
//! private memory, never in the buffer itself. Buffers may be in a packet pool that other processes
//! can write, so a pointer or length stored there could not be trusted.
//!
//! # Why packets may outlive the arena
//! A [`Packet`] points into its arena's private memory. The last user frees that memory: the last
//! [`Arena`] handle if no packet exists, or else the last packet. The packet path keeps no
//! reference count: the number of existing packets is computed only when no handle is left, from
//! the buffers that are neither free nor away. Everything is `!Send`, so no atomics are needed.
//!
//! # Ownership of a buffer
//! Each buffer is *free* (on the stack), *live* (one [`Packet`] exists) or *away* (in a ring, owned
//! by the other side). [`Arena::adopt`] and [`Arena::give_free`] refuse a buffer that is not away.
//! So a repeated descriptor cannot make two packets of one buffer.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::rc::Rc;

use crate::batch::Batch;
use crate::hints::prefetch_at;
use crate::layout::{LONG_SLOT, LONG_SLOT_BYTES, RX_OFFSET_BYTES, SLOT_METADATA_BYTES};
use crate::packet::{Cold, Hot, Packet, State};
use crate::tally::Tally;

/// Smallest buffer an arena accepts, in bytes.
pub const MIN_BUFFER_BYTES: usize = 512;
/// Largest buffer an arena accepts, in bytes: offsets and lengths have 16 bits.
pub const MAX_BUFFER_BYTES: usize = 32768;
/// Size of the buffers of super-packets: a long slot without its last byte, so that the end of any
/// packet fits into 16 bits.
const LONG_BUFFER_BYTES: u16 = u16::MAX;

/// Size and alignment of a huge page.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The shared part of all handles and packets of one arena.
pub(crate) struct Shared {
    /// An entry for each buffer, with the fields that the forwarding path uses. In an unused entry
    /// only the state is valid.
    hot: NonNull<Hot>,
    /// One per buffer: the rest.
    pub(crate) cold: NonNull<Cold>,
    /// Stack of indices of free buffers; room for all.
    free: NonNull<u32>,
    free_len: Cell<u32>,
    /// Buffers in rings.
    away: Cell<u32>,
    /// Number of `Arena` values.
    handles: Cell<u32>,
    /// Number of packets that were made, including copies; see [`Tally`].
    made: Cell<u64>,
    /// Number of these that are copies.
    pub(crate) copied: Cell<u64>,
    /// Number of packets that were dropped, in this arena and in arenas that belong to it.
    freed: Rc<Cell<u64>>,
    /// Number of buffers.
    count: u32,
    /// Number of the first buffer for other processes.
    pub(crate) first_slot: u32,
    /// Start of buffer 0.
    base: NonNull<u8>,
    /// Distance between two buffers, in bytes.
    stride: usize,
    /// Size of a buffer, in bytes.
    pub(crate) buffer_bytes: u16,
    /// The allocation that contains `hot`, `cold` and `free`.
    book: (NonNull<u8>, Layout),
    /// The allocation that contains the buffers, if this arena made it.
    own: Option<(NonNull<u8>, Layout)>,
    /// The handles that keep a foreign mapping alive.
    keep: RefCell<Vec<Box<dyn Any>>>,
}

impl Shared {
    /// Whether its buffers are long slots.
    #[inline(always)]
    pub(crate) fn is_long(&self) -> bool {
        self.buffer_bytes == LONG_BUFFER_BYTES
    }

    /// Start of buffer `index`.
    ///
    /// # Safety
    /// `index < self.count`.
    #[inline(always)]
    pub(crate) unsafe fn buffer(&self, index: u32) -> NonNull<u8> {
        // SAFETY: the caller keeps the index in range, so the address stays inside the buffers.
        unsafe { self.base.add(index as usize * self.stride) }
    }

    /// Returns a live packet's buffer. Frees the arena if that was its last use.
    ///
    /// # Safety
    /// `hot` belongs to a live packet that is not used afterwards.
    #[inline(always)]
    pub(crate) unsafe fn give_back(hot: NonNull<Hot>) {
        // SAFETY: a live packet keeps its arena's memory; the stack has room for all indices.
        unsafe {
            let shared = (*hot.as_ptr()).shared;
            let s = shared.as_ref();
            (*hot.as_ptr()).state = State::Free;
            s.push_free((*hot.as_ptr()).index);
            s.freed.set(s.freed.get() + 1);
            if s.handles.get() == 0 {
                Shared::destroy_if_unused(shared);
            }
        }
    }

    /// Returns all packets of a batch, as [`Shared::give_back`] does. For each run of packets of
    /// one arena, the stack's length stays in a register.
    ///
    /// # Safety
    /// The packets are live, and not used, nor dropped, afterwards.
    pub(crate) unsafe fn give_back_all(packets: &[Packet]) {
        let mut rest = packets;
        while let Some(first) = rest.first() {
            // SAFETY: as in `give_back`. No other code runs during one run of packets. The arena
            // can be freed only after the run, when none of its packets is used any more.
            unsafe {
                let shared = (*first.0.as_ptr()).shared;
                let s = shared.as_ref();
                let free = s.free.as_ptr();
                let start = s.free_len.get() as usize;
                let mut count = 0;
                for packet in rest {
                    let hot = packet.0.as_ptr();
                    if (*hot).shared != shared {
                        break;
                    }
                    (*hot).state = State::Free;
                    *free.add(start + count) = (*hot).index;
                    count += 1;
                }
                s.free_len.set((start + count) as u32);
                s.freed.set(s.freed.get() + count as u64);
                rest = rest.get_unchecked(count..);
                if s.handles.get() == 0 {
                    Shared::destroy_if_unused(shared);
                }
            }
        }
    }

    /// # Safety
    /// `index` is not on the stack, and below `count`.
    #[inline(always)]
    unsafe fn push_free(&self, index: u32) {
        let len = self.free_len.get();
        // SAFETY: at most `count` different indices are on the stack, so len < count here.
        unsafe { *self.free.as_ptr().add(len as usize) = index };
        self.free_len.set(len + 1);
    }

    #[inline(always)]
    fn pop_free(&self) -> Option<u32> {
        let len = self.free_len.get().checked_sub(1)?;
        self.free_len.set(len);
        // SAFETY: entries below the old length were written by `push_free`.
        Some(unsafe { *self.free.as_ptr().add(len as usize) })
    }

    /// Takes a free buffer and makes it live, empty, at the default offset.
    #[inline(always)]
    pub(crate) fn alloc(&self) -> Option<Packet> {
        let index = self.pop_free()?;
        self.made.set(self.made.get() + 1);
        // SAFETY: an index from the stack is in range, and no other handle owns it.
        Some(unsafe { self.make_live(index, RX_OFFSET_BYTES as u16, 0) })
    }

    /// # Safety
    /// The buffer has no packet and is not on the stack; offset and length are inside it.
    #[inline(always)]
    unsafe fn make_live(&self, index: u32, offset: u16, length: u16) -> Packet {
        // SAFETY: index is in range, and the buffer is ours alone.
        unsafe {
            let hot = self.hot.add(index as usize);
            let data = self.buffer(index).add(usize::from(offset));
            (*hot.as_ptr()).start(data, offset, length);
            Packet(hot)
        }
    }

    /// Frees everything if no packet exists.
    ///
    /// # Safety
    /// `shared` has no handle, and is used afterwards only by existing packets.
    #[cold]
    #[inline(never)]
    unsafe fn destroy_if_unused(shared: NonNull<Shared>) {
        // SAFETY: `shared` came from Box::into_raw. Without a handle and a packet, no code can
        // reach it. The arrays were allocated with these layouts.
        unsafe {
            let s = shared.as_ref();
            if s.handles.get() != 0 || s.free_len.get() + s.away.get() != s.count {
                return;
            }
            dealloc(s.book.0.as_ptr(), s.book.1);
            if let Some((memory, layout)) = s.own {
                dealloc(memory.as_ptr(), layout);
            }
            drop(Box::from_raw(shared.as_ptr()));
        }
    }
}

/// Zeroed memory of this size at a multiple of `align`, and its allocation. This function aligns
/// it, not the layout: the allocator writes zeros to aligned memory, but takes unaligned memory as
/// untouched pages.
fn zeroed(bytes: usize, align: usize) -> (NonNull<u8>, (NonNull<u8>, Layout)) {
    let layout =
        Layout::from_size_align(bytes + align, 8).expect("an arena fits into the address space");
    // SAFETY: the layout's size is not zero.
    let memory = unsafe { alloc_zeroed(layout) };
    let Some(memory) = NonNull::new(memory) else { handle_alloc_error(layout) };
    // SAFETY: the address moves by at most `align` bytes, so `bytes` of the allocation are left.
    (unsafe { memory.add(memory.align_offset(align)) }, (memory, layout))
}

/// A set of equal packet buffers for one thread. Cloning makes a second handle.
///
/// All slot numbers in this interface are those that other processes use: they start at the arena's
/// first slot.
pub struct Arena(NonNull<Shared>);

impl Arena {
    /// An arena in private memory: `count` buffers of `buffer_bytes` each.
    ///
    /// # Panics
    /// If `count` is 0 or `buffer_bytes` outside [`MIN_BUFFER_BYTES`] to [`MAX_BUFFER_BYTES`].
    pub fn heap(count: u32, buffer_bytes: usize) -> Arena {
        check(count, buffer_bytes);
        // Each buffer has one more cache line than requested. At a distance of a power of two, the
        // headers of all packets would share two sets of the first-level cache (2048 bytes: 64 sets
        // of 64 bytes).
        let stride = buffer_bytes.next_multiple_of(64) + 64;
        let bytes = stride.checked_mul(count as usize).expect("buffers fit into the address space");
        let align = if bytes >= HUGE_PAGE_BYTES { HUGE_PAGE_BYTES } else { 64 };
        let (base, own) = zeroed(bytes, align);
        // With two packets a page, large batches need more pages than the first-level TLB holds. A
        // failure costs only speed.
        #[cfg(all(target_os = "linux", not(miri)))]
        if bytes >= HUGE_PAGE_BYTES {
            // SAFETY: the range is inside this allocation and begins at a page; the advice changes
            // no byte.
            unsafe { libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
        }
        let arena = Arena::new(base, stride, 0, count, buffer_bytes, Some(own));
        let shared = arena.shared();
        shared.away.set(0);
        // The lowest one is taken first.
        for index in (0..count).rev() {
            arena.enter(index, State::Free);
            // SAFETY: each index is pushed once, and all are below `count`.
            unsafe { shared.push_free(index) };
        }
        arena
    }

    /// An arena of `slots` slots, numbered from `first_slot` on, of a packet pool mapped at `base`,
    /// where slot n starts at n × `slot_bytes`. At first all slots are away: the data about a slot
    /// takes no memory before its first use.
    ///
    /// # Safety
    /// - The mapping is readable, writable and initialised up to the end of the last slot, and
    ///   stays so until the arena and all its packets are freed; see [`Arena::keep`].
    /// - Until then only this arena reads and writes these slots, except slots that are away
    ///   ([`Arena::take_free`], [`Packet::release`]).
    ///
    /// # Panics
    /// The same as for [`Arena::heap`].
    pub unsafe fn from_mapping(
        base: NonNull<u8>,
        first_slot: u32,
        slots: u32,
        slot_bytes: usize,
    ) -> Arena {
        check(slots, slot_bytes);
        // SAFETY: the caller's mapping covers all slots.
        let first = unsafe { base.add(first_slot as usize * slot_bytes) };
        Arena::new(first, slot_bytes, first_slot, slots, slot_bytes, None)
    }

    /// An arena of `slots` long slots, which begin at `base`. At first all slots are away. The new
    /// arena belongs to this one: packets that it drops count here.
    ///
    /// # Safety
    /// As for [`Arena::from_mapping`].
    pub unsafe fn with_long_slots(&self, base: NonNull<u8>, slots: u32) -> Arena {
        let bytes = usize::from(LONG_BUFFER_BYTES);
        let mut arena = Arena::new(base, LONG_SLOT_BYTES as usize, LONG_SLOT, slots, bytes, None);
        // SAFETY: no other code knows the new arena yet.
        unsafe { arena.0.as_mut() }.freed = self.shared().freed.clone();
        arena
    }

    fn new(
        base: NonNull<u8>,
        stride: usize,
        first_slot: u32,
        count: u32,
        buffer_bytes: usize,
        own: Option<(NonNull<u8>, Layout)>,
    ) -> Arena {
        let buffers = count as usize;
        let hot_bytes = buffers * size_of::<Hot>();
        let cold_bytes = buffers * size_of::<Cold>();
        let bytes = hot_bytes + cold_bytes + buffers * size_of::<u32>();
        let (hot, book) = zeroed(bytes, align_of::<Hot>());
        // SAFETY: both addresses lie in the allocation, which has room for all three arrays in a
        // row; each begins at a multiple of its alignment.
        let (cold, free) = unsafe { (hot.add(hot_bytes), hot.add(hot_bytes + cold_bytes)) };
        let shared = NonNull::from(Box::leak(Box::new(Shared {
            hot: hot.cast(),
            cold: cold.cast(),
            free: free.cast(),
            book,
            free_len: Cell::new(0),
            away: Cell::new(count),
            handles: Cell::new(1),
            made: Cell::new(0),
            copied: Cell::new(0),
            freed: Rc::default(),
            count,
            first_slot,
            base,
            stride,
            buffer_bytes: buffer_bytes as u16,
            own,
            keep: RefCell::default(),
        })));
        Arena(shared)
    }

    #[inline(always)]
    fn shared(&self) -> &Shared {
        // SAFETY: the memory is freed only when no handle is left, and this is a handle.
        unsafe { self.0.as_ref() }
    }

    /// Keeps `owner`, for example the owner of the mapping, until the arena and all its packets are
    /// freed.
    pub fn keep(&self, owner: Box<dyn Any>) {
        self.shared().keep.borrow_mut().push(owner);
    }

    /// An empty packet in a free buffer, with the default headroom; `None` if no buffer is free.
    #[inline]
    pub fn alloc(&self) -> Option<Packet> {
        self.shared().alloc()
    }

    /// Adds up to `count` empty packets to `batch`; returns how many.
    #[inline]
    pub fn alloc_batch(&self, batch: &mut Batch, count: usize) -> usize {
        self.alloc_batch_of(batch, count, 0)
    }

    /// Adds up to `count` packets of `length` bytes to `batch`, with arbitrary contents. Returns
    /// their number: 0 if that length does not fit after the default headroom.
    #[inline]
    pub fn alloc_batch_of(&self, batch: &mut Batch, count: usize, length: usize) -> usize {
        let shared = self.shared();
        if length > usize::from(shared.buffer_bytes) - RX_OFFSET_BYTES as usize {
            return 0;
        }
        let top = shared.free_len.get();
        let count = top.min(count.min(batch.room()) as u32);
        let mut left = top;
        // The range has a known length, so the vector is filled without a check for each packet.
        batch.extend((0..count).map(|_| {
            left -= 1;
            // SAFETY: `count` indices are on the stack. Each is taken once, and none is read again
            // after the stack is shortened below. The length was checked.
            unsafe {
                let index = *shared.free.as_ptr().add(left as usize);
                shared.make_live(index, RX_OFFSET_BYTES as u16, length as u16)
            }
        }));
        shared.free_len.set(top - count);
        shared.made.set(shared.made.get() + u64::from(count));
        count as usize
    }

    /// A packet with these contents; `None` if no buffer is free or the contents do not fit.
    pub fn packet(&self, data: &[u8]) -> Option<Packet> {
        let mut packet = self.alloc()?;
        packet.put(data.len())?.copy_from_slice(data);
        Some(packet)
    }

    /// Index of a slot by its public number.
    fn index(&self, slot: u32) -> Option<u32> {
        slot.checked_sub(self.shared().first_slot).filter(|index| *index < self.shared().count)
    }

    /// The state of a buffer by index.
    fn state(&self, index: u32) -> State {
        // SAFETY: callers pass indices below count; no reference to this entry exists now.
        unsafe { (*self.shared().hot.add(index as usize).as_ptr()).state }
    }

    /// Makes the entry of a fresh buffer.
    fn enter(&self, index: u32, state: State) {
        let unused = Hot::unused(self.0, index, self.shared().base, state);
        // SAFETY: callers pass indices below count; no reference to this entry exists, as it has no
        // owner.
        unsafe { self.shared().hot.add(index as usize).write(unused) };
    }

    /// Whether the other side has a buffer. If so, its entry exists.
    #[inline(always)]
    fn is_away(&self, index: u32) -> bool {
        match self.state(index) {
            State::Away => true,
            State::Fresh => {
                std::hint::cold_path();
                self.enter(index, State::Away);
                true
            }
            _ => false,
        }
    }

    fn set_state(&self, index: u32, state: State) {
        // SAFETY: as in `state`.
        unsafe { (*self.shared().hot.add(index as usize).as_ptr()).state = state }
    }

    /// Makes a packet of a frame from the other side. `None` if the slot does not exist, is not
    /// away, or the frame does not lie in it behind the metadata.
    ///
    /// # Safety
    /// The other side has handed `slot` over and no longer touches it.
    #[inline]
    pub unsafe fn adopt(&self, slot: u32, offset: u16, length: u16) -> Option<Packet> {
        let index = self.index(slot)?;
        let end = usize::from(offset) + usize::from(length);
        if !self.is_away(index)
            || u32::from(offset) < SLOT_METADATA_BYTES
            || end > usize::from(self.shared().buffer_bytes)
        {
            return None;
        }
        self.shared().away.set(self.shared().away.get() - 1);
        // SAFETY: the buffer was away, so it has no packet and is not on the stack; the
        // bounds were checked, and the caller vouches for the other side.
        Some(unsafe { self.shared().make_live(index, offset, length) })
    }

    /// Prefetches the memory that [`Arena::adopt`] and a look at the first bytes of a frame at
    /// `offset` of `slot` will need.
    #[inline(always)]
    pub fn prefetch(&self, slot: u32, offset: u16) {
        if let Some(index) = self.index(slot) {
            prefetch_at(self.shared().hot.as_ptr().wrapping_add(index as usize));
            let bytes = index as usize * self.shared().stride + usize::from(offset);
            prefetch_at(self.shared().base.as_ptr().wrapping_add(bytes));
        }
    }

    /// Takes a free slot to hand to the other side, which owns it from now on.
    #[inline]
    pub fn take_free(&self) -> Option<u32> {
        let index = self.shared().pop_free()?;
        self.set_state(index, State::Away);
        self.shared().away.set(self.shared().away.get() + 1);
        Some(self.shared().first_slot + index)
    }

    /// Puts a returned slot onto the stack. `false` if the slot does not exist or was not away.
    ///
    /// # Safety
    /// The other side has handed `slot` over and no longer touches it.
    #[inline]
    pub unsafe fn give_free(&self, slot: u32) -> bool {
        let Some(index) = self.index(slot).filter(|index| self.is_away(*index)) else {
            return false;
        };
        self.set_state(index, State::Free);
        self.shared().away.set(self.shared().away.get() - 1);
        // SAFETY: the buffer was away, so it is not on the stack.
        unsafe { self.shared().push_free(index) };
        true
    }

    /// Notes that a packet's slot now belongs to the other side.
    pub(crate) fn note_away(shared: &Shared) {
        shared.away.set(shared.away.get() + 1);
    }

    /// Whether `packet` lives in this arena.
    pub fn owns(&self, packet: &Packet) -> bool {
        // SAFETY: a live packet's entry is readable.
        unsafe { (*packet.0.as_ptr()).shared == self.0 }
    }

    /// Number of free buffers.
    pub fn free(&self) -> usize {
        self.shared().free_len.get() as usize
    }

    /// Number of packets that were dropped since the arena was made.
    #[inline(always)]
    pub fn freed(&self) -> u64 {
        self.shared().freed.get()
    }

    /// Counts of packets since the arena was made.
    pub fn tally(&self) -> Tally {
        let shared = self.shared();
        let copied = shared.copied.get();
        let held = shared.count - shared.free_len.get() - shared.away.get();
        Tally { made: shared.made.get() - copied, copied, freed: self.freed(), held: held.into() }
    }

    /// Number of slots that the other side has.
    pub fn away(&self) -> usize {
        self.shared().away.get() as usize
    }

    /// Number of buffers.
    pub fn capacity(&self) -> usize {
        self.shared().count as usize
    }

    /// Size of a buffer, in bytes, with metadata and headroom.
    pub fn buffer_bytes(&self) -> usize {
        usize::from(self.shared().buffer_bytes)
    }
}

fn check(count: u32, buffer_bytes: usize) {
    assert!(count > 0, "an arena has at least one buffer");
    assert!(
        (MIN_BUFFER_BYTES..=MAX_BUFFER_BYTES).contains(&buffer_bytes),
        "an arena's buffers have {MIN_BUFFER_BYTES} to {MAX_BUFFER_BYTES} bytes; found {buffer_bytes}"
    );
}

impl Clone for Arena {
    fn clone(&self) -> Arena {
        self.shared().handles.set(self.shared().handles.get() + 1);
        Arena(self.0)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let handles = self.shared().handles.get() - 1;
        self.shared().handles.set(handles);
        if handles == 0 {
            // SAFETY: this was the last handle, and it is not used any more.
            unsafe { Shared::destroy_if_unused(self.0) };
        }
    }
}

impl std::fmt::Debug for Arena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Arena: {} of {} buffers of {} bytes free, {} away",
            self.free(),
            self.capacity(),
            self.buffer_bytes(),
            self.away()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn packets_may_outlive_their_arena() {
        let arena = Arena::heap(4, 2048);
        let alive = Rc::new(());
        arena.keep(Box::new(alive.clone()));
        let mut one = arena.packet(b"one").unwrap();
        let two = arena.packet(b"two").unwrap();
        drop(arena);
        one.data_mut()[0] = b'O';
        drop(two);
        assert_eq!(one.data(), b"One");
        assert_eq!(Rc::strong_count(&alive), 2);
        drop(one);
        assert_eq!(Rc::strong_count(&alive), 1);
    }

    #[test]
    fn a_batch_may_outlive_its_arenas() {
        let (a, b) = (Arena::heap(4, 512), Arena::heap(4, 512));
        let mut batch = Batch::new();
        for arena in [&a, &b, &a] {
            batch.push(arena.packet(b"x").unwrap()).unwrap();
        }
        drop((a, b));
        batch.clear();
        assert!(batch.is_empty());
    }

    #[test]
    fn every_buffer_is_handed_out_once() {
        let arena = Arena::heap(3, 512);
        let mut batch = Batch::new();
        assert_eq!(arena.alloc_batch_of(&mut batch, 10, 320), 3);
        assert!(arena.alloc().is_none());
        assert!(batch.iter().all(|packet| (packet.len(), packet.tailroom()) == (320, 0)));
        drop(batch.pop());
        assert_eq!(arena.alloc_batch_of(&mut batch, 10, 321), 0);
        assert_eq!(arena.free(), 1);
        batch.clear();
        assert_eq!(arena.free(), 3);
    }

    #[test]
    fn a_slot_changes_sides_only_once() {
        let mut memory = vec![0u64; 8 * 1024 / 8];
        let base = NonNull::new(memory.as_mut_ptr().cast::<u8>()).unwrap();
        // SAFETY: four slots of 2048 bytes, alive to the end of this function.
        let arena = unsafe { Arena::from_mapping(base, 1, 3, 2048) };
        assert_eq!((arena.free(), arena.away()), (0, 3));
        // SAFETY: there is no other side.
        assert!(unsafe { [3, 2, 1].map(|slot| arena.give_free(slot)) }.iter().all(|given| *given));
        let slot = arena.take_free().unwrap();
        assert_eq!((slot, arena.free(), arena.away()), (1, 2, 1));
        // SAFETY: there is no other side.
        unsafe {
            for (bad_slot, offset, length) in
                [(0, 256, 60), (4, 256, 60), (2, 256, 60), (slot, 63, 60), (slot, 256, 1793)]
            {
                assert!(arena.adopt(bad_slot, offset, length).is_none());
            }
            let packet = arena.adopt(slot, 256, 1792).unwrap();
            assert!(arena.adopt(slot, 256, 60).is_none());
            assert!(!arena.give_free(slot));
            assert_eq!(packet.release().slot, slot);
            assert!(arena.give_free(slot));
            assert!(!arena.give_free(slot));
        }
        assert_eq!((arena.free(), arena.away()), (3, 0));
    }
}
