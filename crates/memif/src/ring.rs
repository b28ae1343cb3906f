//! A ring, as both of its users see it.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use crate::error::Violation;
use crate::layout::{
    COOKIE, DESCRIPTOR_BYTES, DESCRIPTORS, FLAGS, HEAD, Head, Layout, MASK_INTERRUPT, TAIL,
    ring_bytes,
};
use crate::sys::{Chunk, Memory};
use crate::wire::AddRing;

/// How many descriptors ahead a buffer is prefetched. With 16 and 32 an echo of 64-byte frames was
/// slower: 17.5 million frames a second instead of 19.
pub(crate) const AHEAD: u16 = 8;
/// The longest frame, bytes.
pub const MOST_FRAME_BYTES: usize = 65535;

/// The side that laid out the buffers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Buffers {
    /// This side, a client: it knows the buffers' places, independent of the peer's writes.
    Own {
        /// Offset of descriptor 0's buffer, bytes.
        first: u32,
        /// Distance between buffers, bytes.
        stride: u32,
        /// Length of each.
        bytes: u32,
    },
    /// The peer: each descriptor contains the place, which is checked each time.
    Peer,
}

/// A ring, its eventfd and its memory.
pub(crate) struct Ring {
    memory: Arc<Memory>,
    region: u16,
    offset: usize,
    /// A power of two, 2^14 at most.
    pub(crate) entries: u16,
    pub(crate) eventfd: OwnedFd,
    pub(crate) buffers: Buffers,
}

/// The fields of a ring.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    pub(crate) memory: &'a Memory,
    pub(crate) flags: &'a AtomicU16,
    pub(crate) head: &'a AtomicU16,
    pub(crate) tail: &'a AtomicU16,
    /// Two for each descriptor.
    words: &'a [AtomicU64],
    buffers: Buffers,
}

impl Ring {
    /// Takes a ring that a client has described, and checks its mark.
    pub(crate) fn adopt(
        memory: &Arc<Memory>,
        said: &AddRing,
        eventfd: OwnedFd,
    ) -> Result<Self, Violation> {
        let AddRing { region, offset, log2_entries, .. } = *said;
        let place = Violation::RingPlace { region, offset };
        let chunk = memory.chunk(region, offset, ring_bytes(log2_entries) as u32);
        let Some(chunk) = chunk.filter(|_| offset.is_multiple_of(8)) else {
            return Err(place);
        };
        let mut mark = [0; 4];
        chunk.copy_to(&mut mark);
        let found = u32::from_ne_bytes(mark);
        if found != COOKIE {
            return Err(Violation::Cookie { region, offset, found });
        }
        Ok(Self {
            memory: memory.clone(),
            region,
            offset: offset as usize,
            entries: 1 << log2_entries,
            eventfd,
            buffers: Buffers::Peer,
        })
    }

    /// Ring `index` of a direction in a client's own memory, with its buffers. `None` if the layout
    /// has no such ring.
    pub(crate) fn own(
        memory: &Arc<Memory>,
        layout: &Layout,
        to_server: bool,
        index: u16,
        eventfd: OwnedFd,
    ) -> Option<Self> {
        let offset = layout.ring(to_server, index);
        memory.chunk(0, offset, 4)?.copy_from(&COOKIE.to_ne_bytes());
        let ring = Self {
            memory: memory.clone(),
            region: 0,
            offset: offset as usize,
            entries: 1 << layout.log2_entries,
            eventfd,
            buffers: Buffers::Own {
                first: layout.first_buffer(to_server, index),
                stride: layout.stride,
                bytes: layout.buffer_bytes,
            },
        };
        let parts = ring.parts()?;
        for slot in 0..ring.entries {
            parts.restore(slot);
        }
        Some(ring)
    }

    /// The fields of the ring. They always exist, because they were checked when the ring was made.
    #[inline(always)]
    pub(crate) fn parts(&self) -> Option<Parts<'_>> {
        let region = self.memory.region(self.region)?;
        let words = usize::from(self.entries) * DESCRIPTOR_BYTES / 8;
        Some(Parts {
            memory: &self.memory,
            flags: region.short(self.offset + FLAGS)?,
            head: region.short(self.offset + HEAD)?,
            tail: region.short(self.offset + TAIL)?,
            words: region.words(self.offset + DESCRIPTORS, words)?,
            buffers: self.buffers,
        })
    }
}

impl<'a> Parts<'a> {
    /// Number of the first word of descriptor `index`; the index wraps around the ring.
    #[inline(always)]
    fn at(&self, index: u16) -> usize {
        (usize::from(index) * 2) & (self.words.len() - 1)
    }

    #[inline(always)]
    pub(crate) fn descriptor(&self, index: u16) -> Head {
        Head::from_bits(self.words[self.at(index)].load(Ordering::Relaxed))
    }

    #[inline(always)]
    pub(crate) fn describe(&self, index: u16, head: Head) {
        self.words[self.at(index)].store(head.bits(), Ordering::Relaxed);
    }

    /// The place of a descriptor's buffer: region and offset.
    #[inline(always)]
    pub(crate) fn place<const OWN: bool>(&self, index: u16, head: Head) -> (u16, u32) {
        match self.buffers {
            Buffers::Own { first, stride, .. } if OWN => {
                // The value is below 4 GiB, as `Layout` guarantees.
                let slot = (self.at(index) / 2) as u32;
                (0, first.wrapping_add(slot.wrapping_mul(stride)))
            }
            // The low half is the offset.
            _ => (head.region, self.words[self.at(index) | 1].load(Ordering::Relaxed) as u32),
        }
    }

    /// The buffer of a descriptor, `bytes` long.
    #[inline(always)]
    pub(crate) fn chunk<const OWN: bool>(
        &self,
        index: u16,
        head: Head,
        bytes: u32,
    ) -> Option<Chunk<'a>> {
        let (region, offset) = self.place::<OWN>(index, head);
        self.memory.chunk(region, offset, bytes)
    }

    #[inline(always)]
    pub(crate) fn prefetch<const OWN: bool, const WRITE: bool>(&self, index: u16) {
        let (region, offset) = self.place::<OWN>(index, self.descriptor(index));
        self.memory.prefetch::<WRITE>(region, offset);
    }

    /// The descriptor of a whole empty buffer in own memory.
    #[inline(always)]
    pub(crate) fn empty(&self) -> Head {
        let bytes = match self.buffers {
            Buffers::Own { bytes, .. } => bytes,
            Buffers::Peer => 0,
        };
        Head { flags: 0, region: 0, bytes }
    }

    /// Restores a descriptor in own memory with the place of its buffer.
    #[inline(always)]
    pub(crate) fn restore(&self, index: u16) {
        let empty = self.empty();
        let (_, offset) = self.place::<true>(index, empty);
        self.describe(index, empty);
        self.words[self.at(index) | 1].store(u64::from(offset), Ordering::Relaxed);
    }

    /// Whether the receiver has requested interrupts.
    #[inline(always)]
    pub(crate) fn wants_interrupt(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & MASK_INTERRUPT == 0
    }
}

/// The counters of a ring since its connection was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames passed on.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Received frames that were dropped because their descriptors point nowhere, or have no end or
    /// no contents.
    pub malformed: u64,
    /// Frames that were dropped because of their length. Received frames were longer than the
    /// caller's buffer; frames to transmit were empty or longer than [`MOST_FRAME_BYTES`].
    pub unfit: u64,
    /// Interrupts sent to the peer.
    pub interrupts: u64,
}
