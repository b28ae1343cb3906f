//! Memory that a system call may overrun without harm.

use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

const PAGE_BYTES: usize = 4096;

/// Zeroed memory of its own pages, followed by an inaccessible guard page.
///
/// In kernels before 6.19, several ethtool commands ignore the announced room. They write as many
/// entries as the driver has *now*, and their number grows when queues are added. The guard page
/// stops the kernel's copy with `EFAULT` before it overwrites other memory.
pub(crate) struct Guarded {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone and is not bound to a thread.
unsafe impl Send for Guarded {}

impl Guarded {
    /// Room for at least `bytes`.
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        let bytes = bytes.max(1).next_multiple_of(PAGE_BYTES);
        let whole = NonZeroUsize::MIN.saturating_add(bytes + PAGE_BYTES - 1);
        // SAFETY: a new anonymous mapping at an address of the kernel's choice
        // overlaps nothing.
        let start = unsafe {
            mmap_anonymous(
                None,
                whole,
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                MapFlags::MAP_PRIVATE,
            )
        }?
        .cast::<u8>();
        let memory = Self { start, bytes };
        // SAFETY: this is the last page of the new mapping. `bytes` excludes it, so no reference to
        // it can exist.
        unsafe { mprotect(start.add(bytes).cast(), PAGE_BYTES, ProtFlags::PROT_NONE) }?;
        Ok(memory)
    }

    /// The memory.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `start` begins `bytes` mapped, initialised bytes that live as
        // long as `self`, and `&self` keeps `bytes_mut` away.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    /// The memory, to be changed. Page-aligned.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `&mut self` makes the reference unique.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }

    /// Writes numbers at the beginning.
    pub(crate) fn put(&mut self, words: &[u32]) {
        for (place, word) in self.bytes_mut().as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *place = word.to_ne_bytes();
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that `new` made is removed; no reference to it exists any
        // more.
        let _ = unsafe { munmap(self.start.cast(), self.bytes + PAGE_BYTES) };
    }
}
