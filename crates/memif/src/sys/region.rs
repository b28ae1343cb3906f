//! Memory shared with a peer.
//!
//! Reading and writing it is sound for any behaviour of the peer, for these reasons:
//!
//! - It keeps its length: a region's file cannot shrink (`F_SEAL_SHRINK`, checked or set before its
//!   length is read). It consists of ordinary pages, and at most its own length is mapped. So no
//!   access raises SIGBUS, except on a machine with `vm.overcommit_memory=2` without memory for the
//!   first access to a page.
//! - It stays mapped as long as its [`Region`] exists, which all pointers into it borrow.
//! - No Rust reference to its bytes exists. Words of rings are atomics, and frames are copied by
//!   raw moves. A peer that writes at the same time changes only bytes.

use std::marker::PhantomData;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU16, AtomicU64};

use europa_pool::Mapping;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::fstat;
use nix::sys::statfs::{HUGETLBFS_MAGIC, fstatfs};
use nix::unistd::ftruncate;

use crate::error::{Doing, MemifError, Violation};

/// One memory file, mapped.
pub(crate) struct Region {
    mapping: Mapping,
}

impl Region {
    /// Maps the first `bytes` bytes of a file that a peer has sent as region `index`.
    pub(crate) fn adopt(file: &OwnedFd, index: u16, bytes: u64) -> Result<Self, MemifError> {
        // This is checked first: a file with seals is memory, and no query of it waits for another
        // process.
        let seals = fcntl(file, FcntlArg::F_GET_SEALS).map_err(|_| Violation::Unsealed(index))?;
        if !SealFlag::from_bits_retain(seals).contains(SealFlag::F_SEAL_SHRINK) {
            fcntl(file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK))
                .map_err(|_| Violation::Unsealed(index))?;
        }
        let kind = fstatfs(file).doing("look at a region")?.filesystem_type();
        if kind == HUGETLBFS_MAGIC {
            return Err(Violation::HugePages(index).into());
        }
        let found = u64::try_from(fstat(file).doing("look at a region")?.st_size).unwrap_or(0);
        let wrong = Violation::RegionBytes { index, said: bytes, found };
        if bytes == 0 || bytes > found {
            return Err(wrong.into());
        }
        let bytes = usize::try_from(bytes).map_err(|_| wrong)?;
        Ok(Self { mapping: Mapping::new(file, bytes).doing("map a region")? })
    }

    /// Makes a file of zeros for a peer, and maps it.
    pub(crate) fn make(bytes: u32) -> Result<(Self, OwnedFd), MemifError> {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let file = memfd_create(c"memif", flags).doing("make a region")?;
        ftruncate(&file, i64::from(bytes)).doing("make a region")?;
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals)).doing("seal a region")?;
        let mapping = Mapping::new(file.as_fd(), bytes as usize).doing("map a region")?;
        Ok((Self { mapping }, file))
    }

    /// The `count` words from byte `offset` on, a multiple of 8; `None` outside the region.
    #[inline(always)]
    pub(crate) fn words(&self, offset: usize, count: usize) -> Option<&[AtomicU64]> {
        self.mapping.words(offset, count)
    }

    /// The 16-bit integer at byte `offset`, a multiple of 2; `None` outside.
    #[inline(always)]
    pub(crate) fn short(&self, offset: usize) -> Option<&AtomicU16> {
        if offset.checked_add(2)? > self.mapping.bytes() || !offset.is_multiple_of(2) {
            return None;
        }
        // SAFETY: inside the mapping and aligned (checked), any bits are an integer, and the memory
        // lives as long as `self`. All accesses to these bytes have this width: they are a ring's
        // flags or an index.
        Some(unsafe { AtomicU16::from_ptr(self.mapping.base().as_ptr().add(offset).cast()) })
    }
}

/// All regions of a connection.
pub(crate) struct Memory {
    regions: Vec<Region>,
}

impl Memory {
    pub(crate) fn new(regions: Vec<Region>) -> Self {
        Self { regions }
    }

    #[inline(always)]
    pub(crate) fn region(&self, index: u16) -> Option<&Region> {
        self.regions.get(usize::from(index))
    }

    /// A piece of a region; `None` outside it.
    #[inline(always)]
    pub(crate) fn chunk(&self, region: u16, offset: u32, bytes: u32) -> Option<Chunk<'_>> {
        let mapping = &self.region(region)?.mapping;
        // Sums of 32-bit numbers do not overflow 64 bits.
        let (offset, bytes) = (offset as usize, bytes as usize);
        if offset + bytes > mapping.bytes() {
            return None;
        }
        // SAFETY: not beyond the end of the mapping (checked).
        let base = unsafe { mapping.base().as_ptr().add(offset) };
        Some(Chunk { base, bytes, life: PhantomData })
    }

    /// Prefetches the memory of a descriptor's buffer, if the descriptor is valid.
    #[inline(always)]
    pub(crate) fn prefetch<const WRITE: bool>(&self, region: u16, offset: u32) {
        if let Some(chunk) = self.chunk(region, offset, 0) {
            prefetch_at::<WRITE>(chunk.base);
        }
    }
}

#[inline(always)]
fn prefetch_at<const WRITE: bool>(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_ET0, _MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE is part of x86-64; the instruction never faults.
        unsafe {
            if WRITE {
                _mm_prefetch::<_MM_HINT_ET0>(address.cast());
            } else {
                _mm_prefetch::<_MM_HINT_T0>(address.cast());
            }
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// A piece of shared memory: a buffer, or the part of it that a frame fills. The peer may write it
/// at any time, so a reader that relies on its contents must copy them first.
#[derive(Clone, Copy)]
pub struct Chunk<'a> {
    /// The first of `bytes` bytes that stay mapped during the lifetime.
    base: *mut u8,
    bytes: usize,
    life: PhantomData<&'a ()>,
}

impl Chunk<'_> {
    /// An empty piece, for initialising arrays.
    pub(crate) const EMPTY: Self =
        Self { base: std::ptr::NonNull::dangling().as_ptr(), bytes: 0, life: PhantomData };

    /// Its length.
    #[inline(always)]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The first `bytes` bytes of the piece; the whole piece if it has fewer.
    #[inline(always)]
    #[must_use]
    pub(crate) fn first(self, bytes: usize) -> Self {
        Self { bytes: self.bytes.min(bytes), ..self }
    }

    /// Copies the piece to the start of `to`, as much as fits.
    #[inline(always)]
    pub fn copy_to(&self, to: &mut [u8]) {
        let bytes = self.bytes.min(to.len());
        // SAFETY: both have at least `bytes` bytes, and private memory overlaps no mapping.
        unsafe { copy(self.base, to.as_mut_ptr(), bytes) };
    }

    /// Fills the start of the piece with `from`, as much as fits.
    #[inline(always)]
    pub fn copy_from(&self, from: &[u8]) {
        let bytes = self.bytes.min(from.len());
        // SAFETY: as above.
        unsafe { copy(from.as_ptr(), self.base, bytes) };
    }

    /// Copies the piece to byte `offset` of a mapping, such as a packet pool. Without room there,
    /// returns false and copies nothing.
    #[inline(always)]
    pub fn copy_to_mapping(&self, to: &Mapping, offset: usize) -> bool {
        if offset.checked_add(self.bytes).is_none_or(|end| end > to.bytes()) {
            return false;
        }
        // SAFETY: both ranges are mapped (the target's is checked). They are different mappings,
        // because no region of a peer is ever passed as a target. If both map the same file, bytes
        // arrive in some order, as with any two writers.
        unsafe { copy(self.base, to.base().as_ptr().add(offset), self.bytes) };
        true
    }

    /// Fills its start with `bytes` bytes from byte `offset` of a mapping. Returns false and copies
    /// nothing if either has fewer bytes.
    #[inline(always)]
    pub fn copy_from_mapping(&self, from: &Mapping, offset: usize, bytes: usize) -> bool {
        if bytes > self.bytes || offset.checked_add(bytes).is_none_or(|end| end > from.bytes()) {
            return false;
        }
        // SAFETY: as above, in the opposite direction.
        unsafe { copy(from.base().as_ptr().add(offset), self.base, bytes) };
        true
    }
}

/// Copies short frames by two moves of fixed size, which may overlap in the middle. A call of
/// `memcpy` for each frame would cost more than the moves.
///
/// # Safety
/// `from` is readable and `to` writable for `bytes` bytes; they do not overlap.
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    /// # Safety
    /// The same as for the outer function, and `N <= bytes`.
    #[inline(always)]
    unsafe fn ends<const N: usize>(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: the first and the last N bytes of each lie inside, as N <= bytes. Arrays of
        // bytes need no alignment. Both are read before either is written.
        unsafe {
            let first = from.cast::<[u8; N]>().read();
            let last = from.add(bytes - N).cast::<[u8; N]>().read();
            to.cast::<[u8; N]>().write(first);
            to.add(bytes - N).cast::<[u8; N]>().write(last);
        }
    }
    // SAFETY: each arm's N is not above `bytes`; the rest is the caller's promise.
    unsafe {
        match bytes {
            33..=64 => ends::<32>(from, to, bytes),
            65..=128 => ends::<64>(from, to, bytes),
            16..=32 => ends::<16>(from, to, bytes),
            _ => std::ptr::copy_nonoverlapping(from, to, bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::dup;

    #[test]
    fn every_length_is_copied_whole_and_no_more() {
        let (region, _file) = Region::make(4096).unwrap();
        let memory = Memory::new(vec![region]);
        let pattern: Vec<u8> = (0..600).map(|byte| byte as u8 | 1).collect();
        for bytes in 0..600_u32 {
            let chunk = memory.chunk(0, 7, bytes).unwrap();
            chunk.copy_from(&pattern);
            let mut back = [0; 640];
            chunk.copy_to(&mut back);
            assert_eq!(back[..bytes as usize], pattern[..bytes as usize]);
            assert!(back[bytes as usize..].iter().all(|byte| *byte == 0), "{bytes}");
            let beyond = memory.chunk(0, 7 + bytes, 1).unwrap();
            let mut one = [9];
            beyond.copy_to(&mut one);
            assert_eq!(one, [0], "{bytes}");
        }
        assert!(memory.chunk(0, 4096, 0).is_some());
        for (region, offset, bytes) in
            [(0, 4096, 1), (0, 0, 4097), (1, 0, 0), (0, u32::MAX, u32::MAX)]
        {
            assert!(memory.chunk(region, offset, bytes).is_none(), "{region} {offset} {bytes}");
        }
        let region = memory.region(0).unwrap();
        assert!(region.short(4094).is_some());
        assert!(region.short(4095).is_none() && region.short(4096).is_none());
        assert!(region.words(4, 1).is_none() && region.words(4088, 2).is_none());
    }

    #[test]
    fn mappings_are_filled_inside_only() {
        let (region, file) = Region::make(4096).unwrap();
        let memory = Memory::new(vec![region]);
        let (_, other) = Region::make(4096).unwrap();
        let other = Mapping::new(&other, 4096).unwrap();
        let chunk = memory.chunk(0, 0, 100).unwrap();
        chunk.copy_from(&[5; 100]);
        assert!(chunk.copy_to_mapping(&other, 3996));
        assert!(!chunk.copy_to_mapping(&other, 3997));
        assert!(!chunk.copy_to_mapping(&other, usize::MAX));
        let last = memory.chunk(0, 4000, 50).unwrap();
        assert!(last.copy_from_mapping(&other, 4040, 50));
        assert!(!last.copy_from_mapping(&other, 4040, 51));
        assert!(!last.copy_from_mapping(&other, 4047, 50));
        let mut seen = [0; 50];
        last.copy_to(&mut seen);
        assert_eq!(seen, [5; 50]);
        drop(file);
    }

    #[test]
    fn only_memory_that_cannot_shrink_is_taken() {
        let make = |flags| memfd_create(c"test", flags).unwrap();
        let sealable = make(MFdFlags::MFD_ALLOW_SEALING);
        ftruncate(&sealable, 8192).unwrap();
        Region::adopt(&sealable, 0, 8192).unwrap();
        assert!(ftruncate(&sealable, 4096).is_err(), "it has been sealed");
        assert!(ftruncate(&sealable, 16384).is_ok(), "to grow is harmless");

        let refused = |file: &OwnedFd, bytes| match Region::adopt(file, 3, bytes) {
            Err(MemifError::Refused(why)) => why,
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("taken"),
        };
        let found = 16384;
        for said in [0, 16385, u64::MAX] {
            let wanted = Violation::RegionBytes { index: 3, said, found };
            assert_eq!(refused(&sealable, said), wanted);
        }
        let plain = make(MFdFlags::empty());
        ftruncate(&plain, 8192).unwrap();
        assert_eq!(refused(&plain, 4096), Violation::Unsealed(3));
        let (pipe, _) = nix::unistd::pipe().unwrap();
        assert_eq!(refused(&pipe, 4096), Violation::Unsealed(3));
        let own = dup(&sealable).unwrap();
        fcntl(&own, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_FUTURE_WRITE)).unwrap();
        assert!(matches!(Region::adopt(&own, 0, 4096), Err(MemifError::Kernel { .. })));
    }
}
