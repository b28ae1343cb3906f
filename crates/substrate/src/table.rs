//! A BPF array of structs, mapped into this process.

use std::marker::PhantomData;
use std::mem::size_of;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, AtomicU64};

use europa_pool::Mapping;

/// A mapped array map of `T`s. Programs and other processes also read and write it: so entries are
/// copied as a whole, and cursors are accessed as atomics.
pub struct Table<T> {
    mapping: Mapping,
    entries: u32,
    of: PhantomData<T>,
}

/// Structs for a [`Table`]: plain integers without relevant padding.
///
/// # Safety
/// Every bit pattern must be a valid value.
pub unsafe trait Plain: Copy {}

// SAFETY: generated from C structs of integers and arrays of integers.
unsafe impl Plain for crate::layout::Port {}
// SAFETY: as above.
unsafe impl Plain for crate::layout::Interface {}
// SAFETY: as above.
unsafe impl Plain for crate::layout::Hint {}
// SAFETY: as above.
unsafe impl Plain for crate::layout::Meter {}
// SAFETY: as above.
unsafe impl Plain for crate::layout::Fence {}
// SAFETY: as above.
unsafe impl Plain for crate::layout::Encap {}
// SAFETY: as above.
unsafe impl Plain for crate::layout::PoolState {}
// SAFETY: as above.
unsafe impl Plain for crate::layout::Counters {}
// SAFETY: as above.
unsafe impl Plain for crate::layout::Receiver {}
// SAFETY: as above.
unsafe impl Plain for crate::layout::Transmit {}
// SAFETY: as above.
unsafe impl Plain for crate::layout::Worker {}
// SAFETY: as above.
unsafe impl Plain for crate::layout::Tap {}

impl<T> Clone for Table<T> {
    /// A second handle to the same entries.
    fn clone(&self) -> Self {
        Self { mapping: self.mapping.clone(), entries: self.entries, of: PhantomData }
    }
}

impl<T: Plain> Table<T> {
    /// Maps the array map with descriptor `fd`, which has `entries` elements of `T`.
    ///
    /// # Errors
    /// The error of mmap(2).
    pub fn new(fd: impl AsFd, entries: u32) -> nix::Result<Self> {
        const { assert!(size_of::<T>().is_multiple_of(8)) }
        let bytes = (entries as usize * size_of::<T>()).next_multiple_of(4096);
        Ok(Self { mapping: Mapping::new(fd, bytes)?, entries, of: PhantomData })
    }

    /// Number of entries.
    #[inline]
    pub fn entries(&self) -> u32 {
        self.entries
    }

    #[inline]
    fn at(&self, index: u32) -> *mut T {
        assert!(index < self.entries, "entry {index} of a table of {}", self.entries);
        // SAFETY: the index is in range, so the address is inside the mapping.
        unsafe { self.mapping.base().as_ptr().cast::<T>().add(index as usize) }
    }

    /// A copy of entry `index`.
    ///
    /// # Panics
    /// If the entry does not exist: indices come from the node, never from a router.
    #[inline]
    pub fn get(&self, index: u32) -> T {
        // SAFETY: inside the mapping and aligned. `Plain` allows every bit pattern, so a concurrent
        // writer can make the copy stale but not invalid.
        unsafe { self.at(index).read_volatile() }
    }

    /// Overwrites entry `index`.
    ///
    /// # Panics
    /// If there is no such entry.
    #[inline]
    pub fn set(&self, index: u32, value: T) {
        // SAFETY: as in `get`.
        unsafe { self.at(index).write_volatile(value) }
    }

    /// The 32-bit field at byte `offset` of entry `index`, as an atomic.
    ///
    /// # Panics
    /// If the entry does not exist, or has no aligned field at `offset`.
    #[inline]
    pub fn atomic_u32(&self, index: u32, offset: usize) -> &AtomicU32 {
        assert!(offset + 4 <= size_of::<T>() && offset.is_multiple_of(4));
        // SAFETY: aligned, inside the mapping, which lives as long as `self`.
        unsafe { AtomicU32::from_ptr(self.at(index).cast::<u8>().add(offset).cast()) }
    }

    /// The 64-bit field at byte `offset` of entry `index`, as an atomic.
    ///
    /// # Panics
    /// If the entry does not exist, or has no aligned field at `offset`.
    #[inline]
    pub fn atomic_u64(&self, index: u32, offset: usize) -> &AtomicU64 {
        assert!(offset + 8 <= size_of::<T>() && offset.is_multiple_of(8));
        // SAFETY: aligned, inside the mapping, which lives as long as `self`.
        unsafe { AtomicU64::from_ptr(self.at(index).cast::<u8>().add(offset).cast()) }
    }
}
