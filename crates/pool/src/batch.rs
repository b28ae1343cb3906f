//! A vector of packets of fixed capacity.

use std::{ptr, slice};

use crate::arena::Shared;
use crate::packet::Packet;

/// Most packets in one batch.
pub const BATCH: usize = 256;

/// The bit that ends [`Batch::sift`].
pub const STOP: u32 = 1 << 31;

/// Up to [`BATCH`] packets, in order. Its memory is allocated once. Moving a batch moves 8 bytes,
/// whatever it contains.
///
/// The vector is boxed for this reason: a queue would write a vector's three words one by one and
/// read them two at a time, which the processor's store forwarding does not support. That would
/// cost 30 ns a batch for each hop between elements.
#[allow(clippy::box_collection, reason = "see above")]
pub struct Batch(Box<Vec<Packet>>);

impl Batch {
    /// An empty batch. This allocates; keep it.
    pub fn new() -> Batch {
        Batch(Box::new(Vec::with_capacity(BATCH)))
    }

    /// Number of packets.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no packets.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of packets that can be added.
    #[inline(always)]
    pub fn room(&self) -> usize {
        BATCH - self.0.len()
    }

    /// The packets.
    #[inline(always)]
    pub fn as_slice(&self) -> &[Packet] {
        &self.0
    }

    /// The packets, to change.
    #[inline(always)]
    pub fn as_mut_slice(&mut self) -> &mut [Packet] {
        &mut self.0
    }

    /// The packets in order.
    #[inline(always)]
    pub fn iter(&self) -> slice::Iter<'_, Packet> {
        self.0.iter()
    }

    /// The packets in order, to change.
    #[inline(always)]
    pub fn iter_mut(&mut self) -> slice::IterMut<'_, Packet> {
        self.0.iter_mut()
    }

    /// Adds a packet at the end.
    ///
    /// # Errors
    /// Returns the packet if the batch is full.
    #[inline(always)]
    pub fn push(&mut self, packet: Packet) -> Result<(), Packet> {
        if self.0.len() == BATCH {
            return Err(packet);
        }
        // The vector never grows: its capacity is at least BATCH from the start.
        self.0.push(packet);
        Ok(())
    }

    /// Adds packets at the end until none are left or the batch is full.
    #[inline(always)]
    pub(crate) fn extend(&mut self, packets: impl Iterator<Item = Packet>) {
        let room = self.room();
        self.0.extend(packets.take(room));
    }

    /// Removes the last packet.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<Packet> {
        self.0.pop()
    }

    /// Removes all packets, in order.
    #[inline(always)]
    pub fn drain(&mut self) -> std::vec::Drain<'_, Packet> {
        self.0.drain(..)
    }

    /// Removes the first `count` packets, in order, or all.
    #[inline(always)]
    pub fn drain_front(&mut self, count: usize) -> std::vec::Drain<'_, Packet> {
        let count = count.min(self.0.len());
        self.0.drain(..count)
    }

    /// Moves packets from the front of `other` to the end of this batch, as many as fit.
    #[inline(always)]
    pub fn append(&mut self, other: &mut Batch) {
        if self.0.is_empty() {
            std::mem::swap(&mut self.0, &mut other.0);
        } else if other.len() <= self.room() {
            self.0.append(&mut other.0);
        } else {
            let room = self.room();
            self.0.extend(other.0.drain(..room));
        }
    }

    /// Keeps the packets for which `keep` is true and gives the others to `rejected`, in order.
    /// Moves no packet as long as all are kept.
    #[inline(always)]
    pub fn filter(
        &mut self,
        mut keep: impl FnMut(&mut Packet) -> bool,
        mut rejected: impl FnMut(Packet),
    ) {
        let length = self.0.len();
        let packets = self.0.as_mut_ptr();
        // SAFETY: the new length is shorter. From here on `rest` knows which packets are present,
        // and returns them to the vector when it is dropped, even if a closure panics.
        unsafe { self.0.set_len(0) };
        let mut rest = Rest { packets: &mut self.0, kept: 0, next: 0, length };
        while rest.next < length {
            // SAFETY: entries from `next` to `length` are untouched packets, and entries between
            // `kept` and `next` are free. A packet is moved out of `next` at the moment when `next`
            // passes it.
            unsafe {
                let packet = packets.add(rest.next);
                if keep(&mut *packet) {
                    if rest.kept != rest.next {
                        ptr::copy_nonoverlapping(packet, packets.add(rest.kept), 1);
                    }
                    rest.kept += 1;
                    rest.next += 1;
                } else {
                    let packet = ptr::read(packet);
                    rest.next += 1;
                    out_of_line(&mut rejected, packet);
                }
            }
        }
    }

    /// Like [`Batch::filter`] from packet `start` on, with more results of `judge`. 0 keeps the
    /// packet. A number with the top bit, [`STOP`], ends the loop. Any other number is passed to
    /// `rejected` with the packet. It is for batches in which most packets are kept: each rejected
    /// packet moves those after it, so the loop needs only one register for counting.
    ///
    /// If the loop was ended, returns the number of kept packets and the result. The packet that
    /// ended it and all later ones follow the kept ones.
    #[inline(always)]
    pub fn sift(
        &mut self,
        start: usize,
        mut judge: impl FnMut(&mut Packet) -> u32,
        mut rejected: impl FnMut(Packet, u32),
    ) -> Option<(usize, u32)> {
        let mut next = start;
        while let Some(packets) = self.0.get_mut(next..) {
            let mut code = 0;
            next += packets.iter_mut().position(|packet| {
                code = judge(packet);
                code != 0
            })?;
            if code & STOP != 0 {
                return Some((next, code));
            }
            rejected(self.0.remove(next), code);
        }
        None
    }

    /// Moves the first `count` packets, or all, to the end of `other`, as many as fit.
    pub fn move_front(&mut self, count: usize, other: &mut Batch) {
        let count = count.min(other.room());
        other.0.extend(self.drain_front(count));
    }

    /// Drops the packets for which `keep` is false.
    #[inline(always)]
    pub fn retain(&mut self, keep: impl FnMut(&mut Packet) -> bool) {
        self.filter(keep, drop);
    }

    /// Drops all packets.
    #[inline]
    pub fn clear(&mut self) {
        // SAFETY: the vector forgets the packets before they are returned, so each is returned
        // once, even if returning one unwinds. Entries below the old length are packets.
        unsafe {
            let packets = slice::from_raw_parts(self.0.as_ptr(), self.0.len());
            self.0.set_len(0);
            Shared::give_back_all(packets);
        }
    }
}

/// Calls `rejected` from a separate function: if it were inlined, it would use the loop's registers
/// for a rare case.
#[inline(never)]
fn out_of_line(rejected: &mut impl FnMut(Packet), packet: Packet) {
    rejected(packet);
}

/// A batch while it is filtered: packets `0..kept` and `next..length` are present.
///
/// Similar to `Vec::extract_if`, but its counters are in registers: it saves a nanosecond a packet.
struct Rest<'a> {
    packets: &'a mut Vec<Packet>,
    kept: usize,
    next: usize,
    length: usize,
}

impl Drop for Rest<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let left = self.length - self.next;
        // SAFETY: both ranges lie in the vector's memory, and all of the new length are packets.
        unsafe {
            if left != 0 {
                let packets = self.packets.as_mut_ptr();
                ptr::copy(packets.add(self.next), packets.add(self.kept), left);
            }
            self.packets.set_len(self.kept + left);
        }
    }
}

impl Default for Batch {
    fn default() -> Batch {
        Batch::new()
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.clear();
    }
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Batch").field(&self.0).finish()
    }
}

impl<'a> IntoIterator for &'a mut Batch {
    type Item = &'a mut Packet;
    type IntoIter = slice::IterMut<'a, Packet>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl<'a> IntoIterator for &'a Batch {
    type Item = &'a Packet;
    type IntoIter = slice::Iter<'a, Packet>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::Arena;

    fn batch(arena: &Arena, contents: &[u8]) -> Batch {
        let mut batch = Batch::new();
        for byte in contents {
            batch.push(arena.packet(&[*byte]).unwrap()).unwrap();
        }
        batch
    }

    fn contents(batch: &Batch) -> Vec<u8> {
        batch.iter().map(|packet| packet.data()[0]).collect()
    }

    #[test]
    fn filter_asks_each_packet_once_and_keeps_order() {
        let arena = Arena::heap(16, 512);
        for (kept, rejected) in
            [(vec![0, 1, 2, 3], vec![]), (vec![1, 3], vec![0, 2]), (vec![], vec![0, 1, 2, 3])]
        {
            let mut batch = batch(&arena, &[0, 1, 2, 3]);
            let (mut asked, mut out) = (Vec::new(), Vec::new());
            batch.filter(
                |packet| {
                    asked.push(packet.data()[0]);
                    kept.contains(&packet.data()[0])
                },
                |packet| out.push(packet.data()[0]),
            );
            assert_eq!((contents(&batch), out, asked), (kept, rejected, vec![0, 1, 2, 3]));
        }
        assert_eq!(arena.free(), 16);
    }

    #[test]
    fn a_panic_in_a_filter_loses_no_packet() {
        let arena = Arena::heap(16, 512);
        let mut batch = batch(&arena, &[0, 1, 2, 3, 4]);
        let filter = std::panic::AssertUnwindSafe(|| {
            batch.filter(
                |packet| match packet.data()[0] {
                    3 => panic!("in the middle"),
                    byte => byte != 1,
                },
                drop,
            );
        });
        assert!(std::panic::catch_unwind(filter).is_err());
        assert_eq!(contents(&batch), [0, 2, 3, 4]);
        drop(batch);
        assert_eq!(arena.free(), 16);
    }

    #[test]
    fn sift_keeps_hands_out_and_stops() {
        let arena = Arena::heap(16, 512);
        // Judgements, start index; kept packets, rejected packets, index of the end.
        type Case =
            (&'static [u32], usize, &'static [u8], &'static [(u8, u32)], Option<(usize, u32)>);
        let cases: [Case; 5] = [
            (&[0, 0, 0], 0, &[0, 1, 2], &[], None),
            (&[5, 0, 6, 0], 0, &[1, 3], &[(0, 5), (2, 6)], None),
            (&[0, 5, STOP | 7, 0], 0, &[0, 2, 3], &[(1, 5)], Some((1, STOP | 7))),
            (&[5, 5, 0, 5], 2, &[0, 1, 2], &[(3, 5)], None),
            (&[STOP, 0], 9, &[0, 1], &[], None),
        ];
        for (judgements, start, kept, rejected, end) in cases {
            let all: Vec<u8> = (0..judgements.len() as u8).collect();
            let mut batch = batch(&arena, &all);
            let mut out = Vec::new();
            let found = batch.sift(
                start,
                |packet| judgements[usize::from(packet.data()[0])],
                |packet, code| out.push((packet.data()[0], code)),
            );
            assert_eq!((contents(&batch), out.as_slice(), found), (kept.to_vec(), rejected, end));
        }
        let (mut from, mut to) = (batch(&arena, &[1, 2, 3]), batch(&arena, &[0]));
        from.move_front(2, &mut to);
        assert_eq!((contents(&from), contents(&to)), (vec![3], vec![0, 1, 2]));
        drop((from, to));
        assert_eq!(arena.free(), 16);
    }

    #[test]
    fn append_moves_what_fits() {
        let arena = Arena::heap(BATCH as u32 + 2, 512);
        let mut full = Batch::new();
        arena.alloc_batch(&mut full, BATCH - 1);
        let mut other = batch(&arena, &[7, 8, 9]);
        full.append(&mut other);
        assert_eq!((full.len(), full.room(), contents(&other)), (BATCH, 0, vec![8, 9]));
        assert!(full.push(other.pop().unwrap()).is_err());
        drop(full);
        assert_eq!(arena.free(), BATCH + 1);
    }
}
