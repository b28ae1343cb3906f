//! Memory mapped from a descriptor, unmapped when its last handle is dropped.

use std::io::IoSlice;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

/// A shared mapping of a whole pool, map or memory file. Cloning makes a second handle.
#[derive(Clone)]
pub struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
    _mapped: Arc<Mapped>,
}

/// The mapping that is unmapped with the last handle.
struct Mapped {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping is plain memory. It stays mapped as long as a handle lives, in any thread. It
// is only read and written through atomics and volatile or raw copies.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}
// SAFETY: any thread may unmap it. That happens once, and nothing else is done with it.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapping {
    /// Maps the first `bytes` bytes of `fd`, shared, readable and writable.
    ///
    /// # Errors
    /// The error of mmap(2), e.g. `EPERM` for a descriptor without write permission.
    pub fn new(fd: impl AsFd, bytes: usize) -> nix::Result<Self> {
        Self::with_protection(fd, 0, bytes, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE)
    }

    /// Maps `bytes` bytes of `fd` from byte `offset` on, shared, readable only.
    ///
    /// # Errors
    /// The error of mmap(2).
    pub fn read_only(fd: impl AsFd, offset: usize, bytes: usize) -> nix::Result<Self> {
        Self::with_protection(fd, offset, bytes, ProtFlags::PROT_READ)
    }

    fn with_protection(
        fd: impl AsFd,
        offset: usize,
        bytes: usize,
        protection: ProtFlags,
    ) -> nix::Result<Self> {
        let length = NonZeroUsize::new(bytes).ok_or(nix::errno::Errno::EINVAL)?;
        // SAFETY: a new mapping at an address that the kernel chooses touches no memory of Rust's.
        let base =
            unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, fd, offset as i64)? };
        let base = base.cast();
        Ok(Self { base, bytes, _mapped: Arc::new(Mapped { base, bytes }) })
    }

    /// First byte.
    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Length in bytes.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The `count` 64-bit words from byte `offset` on; `None` when they do not lie
    /// inside the mapping or are not aligned.
    #[inline]
    pub fn words(&self, offset: usize, count: usize) -> Option<&[AtomicU64]> {
        let end = offset.checked_add(count.checked_mul(8)?)?;
        if end > self.bytes || !offset.is_multiple_of(8) {
            return None;
        }
        // SAFETY: inside the mapping (checked), aligned (the base is page-aligned,
        // the offset a multiple of 8), any bit pattern is an AtomicU64, and the
        // memory lives as long as `self`.
        Some(unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(offset).cast(), count) })
    }

    /// Copies `to.len()` bytes from byte `offset` on into private memory. If they are not inside
    /// the mapping, returns false and copies nothing.
    ///
    /// A peer may write the same bytes at the same time. The copy is then a mixture of old and new
    /// bytes, so a reader must check it.
    #[inline]
    pub fn copy_out(&self, offset: usize, to: &mut [u8]) -> bool {
        if offset.checked_add(to.len()).is_none_or(|end| end > self.bytes) {
            return false;
        }
        // SAFETY: the source lies inside the mapping (checked), the target is a
        // Rust slice elsewhere, so they do not overlap; bytes have no invalid value.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.base.as_ptr().add(offset),
                to.as_mut_ptr(),
                to.len(),
            );
        }
        true
    }

    /// The `bytes` bytes from byte `offset` on, for a system call that reads them. `None` if they
    /// do not lie inside the mapping. A peer may write there meanwhile: only the kernel reads them.
    #[inline]
    pub fn io_slice(&self, offset: usize, bytes: usize) -> Option<IoSlice<'_>> {
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            return None;
        }
        // SAFETY: inside the mapping (checked), which lives as long as the result.
        let base = unsafe { self.base.as_ptr().add(offset) };
        let slice = nix::libc::iovec { iov_base: base.cast(), iov_len: bytes };
        // SAFETY: the standard library promises that an `IoSlice` has the layout of an `iovec`.
        Some(unsafe { std::mem::transmute::<nix::libc::iovec, IoSlice<'_>>(slice) })
    }

    /// Copies `from` to byte `offset` on. If the target is not inside the mapping, returns false
    /// and copies nothing. The mapping must be writable.
    #[inline]
    pub fn copy_in(&self, offset: usize, from: &[u8]) -> bool {
        if offset.checked_add(from.len()).is_none_or(|end| end > self.bytes) {
            return false;
        }
        // SAFETY: as in `copy_out`, in the opposite direction.
        unsafe {
            std::ptr::copy_nonoverlapping(
                from.as_ptr(),
                self.base.as_ptr().add(offset),
                from.len(),
            );
        }
        true
    }

    /// Copies `bytes` bytes from byte `offset` on to byte `to_offset` of another mapping. If either
    /// range is not inside its mapping, returns false and copies nothing.
    #[inline]
    pub fn copy_to(&self, offset: usize, to: &Mapping, to_offset: usize, bytes: usize) -> bool {
        let inside = |mapping: &Mapping, offset: usize| {
            offset.checked_add(bytes).is_some_and(|end| end <= mapping.bytes)
        };
        if !inside(self, offset) || !inside(to, to_offset) {
            return false;
        }
        // SAFETY: both ranges lie inside live mappings (checked). `copy` allows them to overlap,
        // which happens if both mappings are of the same pool.
        unsafe {
            std::ptr::copy(self.base.as_ptr().add(offset), to.base.as_ptr().add(to_offset), bytes);
        }
        true
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the memory was mapped by `with_protection`. Every reference into it borrows a
        // handle, so none is left.
        if let Err(error) = unsafe { munmap(self.base.cast(), self.bytes) } {
            debug_assert!(false, "munmap of an own mapping: {error}");
        }
    }
}
