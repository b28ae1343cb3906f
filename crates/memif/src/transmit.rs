//! Putting frames into a ring.

use std::sync::atomic::{Ordering, fence};

use europa_pool::Mapping;

use crate::error::Fault;
use crate::layout::{Head, NEXT};
use crate::ring::{AHEAD, Buffers, Counters, MOST_FRAME_BYTES, Parts, Ring};
use crate::sys::{Chunk, Signal};

/// A frame to transmit.
pub trait Packet {
    /// The frame's length, 1 to [`MOST_FRAME_BYTES`](crate::MOST_FRAME_BYTES) bytes.
    fn bytes(&self) -> usize;

    /// Copies the frame from byte `from` on, and fills the whole of `to`, which is not longer than
    /// the rest.
    fn copy_to(&self, from: usize, to: Chunk<'_>);
}

impl Packet for &[u8] {
    #[inline(always)]
    fn bytes(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn copy_to(&self, from: usize, to: Chunk<'_>) {
        to.copy_from(self.get(from..).unwrap_or_default());
    }
}

/// A packet of a pool.
impl Packet for europa_pool::Packet {
    #[inline(always)]
    fn bytes(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn copy_to(&self, from: usize, to: Chunk<'_>) {
        to.copy_from(self.data().get(from..).unwrap_or_default());
    }
}

/// A frame in a mapping, a packet pool for instance.
#[derive(Clone, Copy)]
pub struct MappedPacket<'a> {
    /// The mapping.
    pub mapping: &'a Mapping,
    /// Its offset there, bytes.
    pub offset: usize,
    /// The frame's length. For bytes beyond the mapping's end, the old contents of the buffer are
    /// sent.
    pub bytes: usize,
}

impl Packet for MappedPacket<'_> {
    #[inline(always)]
    fn bytes(&self) -> usize {
        self.bytes
    }

    #[inline(always)]
    fn copy_to(&self, from: usize, to: Chunk<'_>) {
        to.copy_from_mapping(self.mapping, self.offset.wrapping_add(from), to.bytes());
    }
}

/// The transmitting end of a ring. After its connection has ended, it can still be called but its
/// frames are lost.
pub struct Transmitter {
    ring: Ring,
    /// The next descriptor to fill.
    next: u16,
    /// The first descriptor that was not free at the last check.
    end: u16,
    signal: Signal,
    counters: Counters,
}

impl Transmitter {
    /// Starts at the beginning.
    pub(crate) fn new(ring: Ring, signal: Signal) -> Self {
        let mut end = 0;
        if let Some(parts) = ring.parts() {
            match ring.buffers {
                Buffers::Own { .. } => {
                    parts.head.store(0, Ordering::Release);
                    end = ring.entries;
                }
                Buffers::Peer => parts.tail.store(0, Ordering::Release),
            }
        }
        Self { ring, next: 0, end, signal, counters: Counters::default() }
    }

    /// Copies frames into the ring, each completely or not at all, until it is full. Returns the
    /// number of handled frames, including frames of invalid length, which are dropped and counted.
    /// Needs no allocation, and one system call if the peer waits for an interrupt.
    ///
    /// # Errors
    /// If the peer has corrupted the ring; the ring then stays unusable.
    #[inline]
    pub fn transmit<P: Packet>(&mut self, packets: &[P]) -> Result<usize, Fault> {
        match self.ring.buffers {
            Buffers::Own { .. } => self.batch::<true, P>(packets),
            Buffers::Peer => self.batch::<false, P>(packets),
        }
    }

    #[inline(always)]
    fn batch<const OWN: bool, P: Packet>(&mut self, packets: &[P]) -> Result<usize, Fault> {
        let Some(parts) = self.ring.parts() else { return Ok(0) };
        let mut free = self.end.wrapping_sub(self.next);
        if usize::from(free) < packets.len() {
            free = room::<OWN>(&parts, self.ring.entries, self.next)?;
            self.end = self.next.wrapping_add(free);
        }
        let mut at = Place { index: self.next, free };
        for ahead in 0..free.min(AHEAD) {
            parts.prefetch::<OWN, true>(at.index.wrapping_add(ahead));
        }
        let mut sent = 0;
        let (mut frames, mut bytes) = (0, 0);
        let mut fault = None;
        for packet in packets {
            let length = packet.bytes();
            if length == 0 || length > MOST_FRAME_BYTES {
                self.counters.unfit += 1;
                sent += 1;
                continue;
            }
            if at.free > AHEAD {
                parts.prefetch::<OWN, true>(at.index.wrapping_add(AHEAD));
            }
            match put::<OWN, P>(&parts, packet, length, &mut at) {
                Ok(true) => {
                    frames += 1;
                    bytes += length as u64;
                    sent += 1;
                }
                Ok(false) => break,
                Err(wrong) => {
                    fault = Some(wrong);
                    break;
                }
            }
        }
        if at.index != self.next {
            let index = if OWN { parts.head } else { parts.tail };
            index.store(at.index, Ordering::Release);
            self.next = at.index;
            self.counters.frames += frames;
            self.counters.bytes += bytes;
            // The sleeper must see the index before its flag is read here.
            fence(Ordering::SeqCst);
            if parts.wants_interrupt() && self.signal.send(&self.ring.eventfd).is_ok() {
                self.counters.interrupts += 1;
            }
        }
        fault.map_or(Ok(sent), Err)
    }

    /// Number of descriptors that are free now. A frame needs one, or more if it is longer than
    /// their buffers.
    ///
    /// # Errors
    /// If the peer has corrupted the ring.
    #[inline]
    pub fn room(&self) -> Result<usize, Fault> {
        let Some(parts) = self.ring.parts() else { return Ok(0) };
        let free = match self.ring.buffers {
            Buffers::Own { .. } => room::<true>(&parts, self.ring.entries, self.next),
            Buffers::Peer => room::<false>(&parts, self.ring.entries, self.next),
        };
        free.map(usize::from)
    }

    /// Its counters.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Sends the frames in its next descriptors without a fence, as DPDK does. Returns whether the
    /// peer has requested an interrupt, which is not sent.
    #[cfg(test)]
    pub(crate) fn transmit_unfenced(&mut self) -> bool {
        let Some(parts) = self.ring.parts() else { return false };
        self.next = self.next.wrapping_add(1);
        self.end = self.next;
        let own = matches!(self.ring.buffers, Buffers::Own { .. });
        let index = if own { parts.head } else { parts.tail };
        index.store(self.next, Ordering::Release);
        parts.wants_interrupt()
    }
}

/// Number of free descriptors from `next` on, according to the peer's index.
#[inline(always)]
fn room<const OWN: bool>(parts: &Parts<'_>, entries: u16, next: u16) -> Result<u16, Fault> {
    let found = if OWN {
        next.wrapping_sub(parts.tail.load(Ordering::Acquire))
    } else {
        parts.head.load(Ordering::Acquire).wrapping_sub(next)
    };
    if found > entries {
        return Err(Fault::Index { found, entries });
    }
    Ok(if OWN { entries - found } else { found })
}

/// The place of the next frame.
struct Place {
    index: u16,
    free: u16,
}

/// Copies one frame. If there is not room for all of it, returns false and leaves `at` unchanged.
#[inline(always)]
fn put<const OWN: bool, P: Packet>(
    parts: &Parts<'_>,
    packet: &P,
    length: usize,
    at: &mut Place,
) -> Result<bool, Fault> {
    let Place { mut index, mut free } = *at;
    let mut from = 0;
    while from < length {
        if free == 0 {
            return Ok(false);
        }
        let (chunk, region) = buffer::<OWN>(parts, index)?;
        let part = chunk.first(length - from);
        packet.copy_to(from, part);
        from += part.bytes();
        let flags = if from < length { NEXT } else { 0 };
        // If a descriptor is released because room was missing, it counts as full and keeps its
        // length.
        parts.describe(index, Head { flags, region, bytes: part.bytes() as u32 });
        index = index.wrapping_add(1);
        free -= 1;
    }
    *at = Place { index, free };
    Ok(true)
}

/// A whole free buffer, and its region's number.
#[inline(always)]
fn buffer<'a, const OWN: bool>(parts: &Parts<'a>, index: u16) -> Result<(Chunk<'a>, u16), Fault> {
    let head = if OWN { parts.empty() } else { parts.descriptor(index) };
    match parts.chunk::<OWN>(index, head, head.bytes) {
        Some(chunk) if chunk.bytes() > 0 => Ok((chunk, head.region)),
        _ => {
            let (region, offset) = parts.place::<OWN>(index, head);
            Err(Fault::Buffer { region, offset, bytes: head.bytes })
        }
    }
}
