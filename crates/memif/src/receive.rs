//! Taking frames from a ring.
//!
//! In a ring to the server, the client moves *head* when it has filled descriptors, and the server
//! moves *tail* when it has read them. In a ring to the client, the client offers empty buffers by
//! moving *head*; the server fills them and moves *tail*.

use std::os::fd::{AsFd, BorrowedFd};
use std::slice;
use std::sync::atomic::{Ordering, fence};

use europa_pool::{Mapping, look_on};

use crate::error::Fault;
use crate::layout::{MASK_INTERRUPT, NEXT};
use crate::ring::{AHEAD, Buffers, Counters, MOST_FRAME_BYTES, Parts, Ring};
use crate::sys::{Chunk, drain};

/// Most buffers of one frame.
const MOST_SEGMENTS: usize = 64;

/// Room for a received frame.
#[derive(Debug)]
pub struct Buffer<'a> {
    /// The destination.
    pub bytes: &'a mut [u8],
    /// The length of the received frame, in bytes; a receive sets it.
    pub length: usize,
}

/// A received frame in the memory of both sides, which its sender may still write.
#[derive(Clone, Copy)]
pub struct Frame<'a> {
    segments: &'a [Chunk<'a>],
    bytes: usize,
}

impl<'a> Frame<'a> {
    /// The frame's length: 1 to [`MOST_FRAME_BYTES`](crate::MOST_FRAME_BYTES) bytes.
    #[inline(always)]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The frame's parts, usually one.
    #[inline(always)]
    pub fn segments(&self) -> &'a [Chunk<'a>] {
        self.segments
    }

    /// Copies the frame to the start of `to`. If the frame is longer, returns false and copies
    /// nothing.
    #[inline(always)]
    pub fn copy_to(&self, to: &mut [u8]) -> bool {
        let Some(mut rest) = to.get_mut(..self.bytes) else { return false };
        for segment in self.segments {
            let (here, behind) = rest.split_at_mut(segment.bytes().min(rest.len()));
            segment.copy_to(here);
            rest = behind;
        }
        true
    }

    /// Copies the frame to byte `offset` of a mapping. Without room there, returns false and copies
    /// nothing.
    #[inline(always)]
    pub fn copy_to_mapping(&self, to: &Mapping, offset: usize) -> bool {
        if offset.checked_add(self.bytes).is_none_or(|end| end > to.bytes()) {
            return false;
        }
        let mut at = offset;
        self.segments.iter().all(|segment| {
            let copied = segment.copy_to_mapping(to, at);
            at = at.wrapping_add(segment.bytes());
            copied
        })
    }
}

/// The receiving end of a ring. After its connection has ended, it can still be called but receives
/// nothing.
pub struct Receiver {
    ring: Ring,
    /// The next descriptor to read.
    next: u16,
    counters: Counters,
}

impl Receiver {
    /// Starts at the beginning of the ring, without interrupts; a client offers all its buffers.
    pub(crate) fn new(ring: Ring) -> Self {
        if let Some(parts) = ring.parts() {
            parts.flags.store(MASK_INTERRUPT, Ordering::Relaxed);
            match ring.buffers {
                Buffers::Own { .. } => parts.head.store(ring.entries, Ordering::Release),
                Buffers::Peer => parts.tail.store(0, Ordering::Release),
            }
        }
        Self { ring, next: 0, counters: Counters::default() }
    }

    /// Receives frames by copying them, at most one for each buffer. Returns their number. A frame
    /// that is longer than its buffer is dropped and counted. Needs no system call and no
    /// allocation.
    ///
    /// # Errors
    /// If the peer has corrupted the ring; the ring then stays unusable.
    #[inline]
    pub fn receive(&mut self, buffers: &mut [Buffer<'_>]) -> Result<usize, Fault> {
        let most = buffers.len();
        let mut free = buffers.iter_mut();
        let mut current = free.next();
        let (mut filled, mut unfit) = (0, 0);
        let result = self.receive_with(most, |frame| {
            let Some(buffer) = &mut current else { return };
            if frame.copy_to(buffer.bytes) {
                buffer.length = frame.bytes();
                current = free.next();
                filled += 1;
            } else {
                unfit += 1;
            }
        });
        self.counters.unfit += unfit;
        result.map(|_| filled)
    }

    /// Passes up to `most` frames to the caller, then returns their memory to the sender. Returns
    /// their number. It needs no system call and no allocation. From one core to another 27 million
    /// frames of 64 bytes passed a second (`examples/memif_rate.rs`); most of the time is spent on
    /// cache lines that move between the cores.
    ///
    /// # Errors
    /// If the peer has corrupted the ring; the ring then stays unusable.
    #[inline]
    pub fn receive_with(
        &mut self,
        most: usize,
        take: impl FnMut(Frame<'_>),
    ) -> Result<usize, Fault> {
        match self.ring.buffers {
            Buffers::Own { .. } => self.batch::<true>(most, take),
            Buffers::Peer => self.batch::<false>(most, take),
        }
    }

    #[inline(always)]
    fn batch<const OWN: bool>(
        &mut self,
        most: usize,
        mut take: impl FnMut(Frame<'_>),
    ) -> Result<usize, Fault> {
        let Some(parts) = self.ring.parts() else { return Ok(0) };
        let mut left = waiting(&parts, &self.ring, self.next)?;
        for ahead in 0..left.min(AHEAD) {
            parts.prefetch::<OWN, false>(self.next.wrapping_add(ahead));
        }
        let mut index = self.next;
        let mut taken = 0;
        let mut bytes = 0;
        while left > 0 && taken < most {
            if left > AHEAD {
                parts.prefetch::<OWN, false>(index.wrapping_add(AHEAD));
            }
            let head = parts.descriptor(index);
            let mut used = 1;
            let passed = if head.flags & NEXT == 0 {
                segment::<OWN>(&parts, index)
                    .and_then(|chunk| pass(slice::from_ref(&chunk), chunk.bytes(), &mut take))
            } else {
                chain::<OWN>(&parts, index, left, &mut used, &mut take)
            };
            match passed {
                Some(length) => {
                    taken += 1;
                    bytes += length as u64;
                }
                None => self.counters.malformed += 1,
            }
            index = index.wrapping_add(used);
            left -= used;
        }
        if index != self.next {
            if OWN {
                let mut empty = self.next;
                while empty != index {
                    parts.restore(empty);
                    empty = empty.wrapping_add(1);
                }
                parts.head.store(index.wrapping_add(self.ring.entries), Ordering::Release);
            } else {
                parts.tail.store(index, Ordering::Release);
            }
            self.next = index;
            self.counters.frames += taken as u64;
            self.counters.bytes += bytes;
        }
        Ok(taken)
    }

    /// Descriptors that wait to be received.
    ///
    /// # Errors
    /// If the peer has corrupted the ring.
    #[inline]
    pub fn waiting(&self) -> Result<usize, Fault> {
        self.ring
            .parts()
            .map_or(Ok(0), |parts| waiting(&parts, &self.ring, self.next).map(usize::from))
    }

    /// Requests that the peer makes [`interrupt_fd`](Self::interrupt_fd) readable when it sends.
    /// Returns true if a frame is already waiting: for that frame an interrupt may not come. If
    /// none waits, the call takes [`UNSEEN`](europa_pool::UNSEEN).
    pub fn arm(&self) -> bool {
        self.set_flags(0);
        // The sleeper sets its flag, then checks the ring; the publisher writes the ring, then
        // reads the flag.
        fence(Ordering::SeqCst);
        // Some peers, such as DPDK, have no such fence.
        look_on(|| self.waiting() != Ok(0))
    }

    /// Disables interrupts, and clears the pending one.
    pub fn disarm(&self) {
        self.set_flags(MASK_INTERRUPT);
        drain(&self.ring.eventfd);
    }

    fn set_flags(&self, flags: u16) {
        if let Some(parts) = self.ring.parts() {
            parts.flags.store(flags, Ordering::Relaxed);
        }
    }

    /// Readable when there are frames to receive, once [armed](Self::arm). Any peer can make it
    /// readable at any time. Read it only by [`disarm`](Self::disarm), which never blocks.
    pub fn interrupt_fd(&self) -> BorrowedFd<'_> {
        self.ring.eventfd.as_fd()
    }

    /// Its counters.
    pub fn counters(&self) -> Counters {
        self.counters
    }
}

/// Number of descriptors between this side's index and the peer's.
#[inline(always)]
fn waiting(parts: &Parts<'_>, ring: &Ring, next: u16) -> Result<u16, Fault> {
    let index = match ring.buffers {
        Buffers::Own { .. } => parts.tail,
        Buffers::Peer => parts.head,
    };
    let found = index.load(Ordering::Acquire).wrapping_sub(next);
    if found > ring.entries {
        return Err(Fault::Index { found, entries: ring.entries });
    }
    Ok(found)
}

/// The bytes of a descriptor, if they exist.
#[inline(always)]
fn segment<'a, const OWN: bool>(parts: &Parts<'a>, index: u16) -> Option<Chunk<'a>> {
    let head = parts.descriptor(index);
    // A buffer in own memory ends at the start of the next one, not at the end of the region.
    if OWN && head.bytes > parts.empty().bytes {
        return None;
    }
    parts.chunk::<OWN>(index, head, head.bytes)
}

/// Passes on a frame of valid length. Returns its length.
#[inline(always)]
fn pass(segments: &[Chunk<'_>], bytes: usize, take: &mut impl FnMut(Frame<'_>)) -> Option<usize> {
    if bytes == 0 || bytes > MOST_FRAME_BYTES {
        return None;
    }
    take(Frame { segments, bytes });
    Some(bytes)
}

/// Passes on a frame in several descriptors, at most `left` of them. Sets `used` to their number:
/// all of them if the frame's end is missing.
#[inline(never)]
fn chain<const OWN: bool>(
    parts: &Parts<'_>,
    first: u16,
    left: u16,
    used: &mut u16,
    take: &mut impl FnMut(Frame<'_>),
) -> Option<usize> {
    let mut segments = [Chunk::EMPTY; MOST_SEGMENTS];
    let mut bytes = 0_usize;
    let mut sound = true;
    for position in 0..left {
        let index = first.wrapping_add(position);
        *used = position + 1;
        let chunk = segment::<OWN>(parts, index);
        match (segments.get_mut(usize::from(position)), chunk) {
            (Some(place), Some(chunk)) => {
                bytes = bytes.saturating_add(chunk.bytes());
                *place = chunk;
            }
            _ => sound = false,
        }
        if parts.descriptor(index).flags & NEXT == 0 {
            let segments = segments.get(..usize::from(*used)).filter(|_| sound)?;
            return pass(segments, bytes, take);
        }
    }
    None
}
