//! What has become of packets, in memory that others may read meanwhile.
//!
//! Each node has [`WORDS`] words of 64 bits, at its [`Id::index`](crate::Id::index). One thread
//! writes them, with plain stores; whoever maps them sees each word whole. Layout 1:
//!
//! | word    | what                                                                   |
//! |---------|------------------------------------------------------------------------|
//! | 0, 1    | packets, bytes that left                                               |
//! | 2, 3    | packets, bytes that wait now                                           |
//! | 4, 5    | most packets, most bytes that have waited                              |
//! | 6       | packets that left with a mark                                          |
//! | 7       | packets handed back when their queue was removed                       |
//! | 8 to 13 | packets dropped, by [`Cause`] in its order                             |
//! | 14      | bytes dropped                                                          |
//! | 15      | unused                                                                 |
//! | 16      | packets that waited less than 1024 ns                                  |
//! | 16 + n  | packets that waited 2^(9+n) ns or more, and less than 2^(10+n), n < 23 |
//! | 39      | packets that waited 2^32 ns (4.3 s) or more                            |
//!
//! A class's words are its queues' sums, also of those that are gone, but it has no waiting times:
//! who wants a slice's adds its queues'. Its words 2 and 3 are brought up to date when a packet
//! leaves, is dropped from a head or handed back, not when one comes; so are words 4 and 5 of all:
//! if word 2 is more than word 4, it is the highest. That saves 16 stores a packet.

use std::sync::atomic::{AtomicU64, Ordering};

/// Words of a node.
pub const WORDS: usize = 40;
/// Of them, for waiting times.
pub const BUCKETS: usize = 24;
/// Version of the layout.
pub const LAYOUT: u32 = 1;

pub(crate) const PACKETS: usize = 0;
pub(crate) const BYTES: usize = 1;
pub(crate) const WAITING: usize = 2;
pub(crate) const WAITING_BYTES: usize = 3;
pub(crate) const PEAK: usize = 4;
pub(crate) const PEAK_BYTES: usize = 5;
pub(crate) const MARKS: usize = 6;
pub(crate) const HANDED_BACK: usize = 7;
const DROPS: usize = 8;
pub(crate) const DROPPED_BYTES: usize = 14;
const WAITED: usize = 16;

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The queue's limit of packets.
    Packets,
    /// The queue's limit of bytes.
    Bytes,
    /// Random early detection.
    Early,
    /// Controlled delay.
    Delay,
    /// The limit of its router, slice or scheduler.
    Share,
    /// The tree's own room.
    Room,
    /// There is no such queue, any more. Counted by the caller alone.
    Gone,
}

impl Cause {
    /// All that are counted, in the order of the words.
    pub const COUNTED: [Self; 6] =
        [Self::Packets, Self::Bytes, Self::Early, Self::Delay, Self::Share, Self::Room];
}

/// What the words of a node said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Packets that left.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that wait.
    pub waiting: u64,
    /// Their bytes.
    pub waiting_bytes: u64,
    /// Most packets that have waited.
    pub peak: u64,
    /// Most bytes that have waited.
    pub peak_bytes: u64,
    /// Packets that left with a mark.
    pub marks: u64,
    /// Packets handed back when their queue was removed.
    pub handed_back: u64,
    /// Packets dropped, by [`Cause::COUNTED`].
    pub drops: [u64; 6],
    /// Bytes dropped.
    pub dropped_bytes: u64,
    /// Packets that left, by how long they waited; see [`bucket_ns`].
    pub waited: [u64; BUCKETS],
}

impl Statistics {
    /// Reads a node's words. Of words that there are not, zeros.
    pub fn read(words: &[AtomicU64], index: u32) -> Self {
        let from = index as usize * WORDS;
        let word = |at: usize| words.get(from + at).map_or(0, |word| word.load(Ordering::Relaxed));
        Self {
            packets: word(PACKETS),
            bytes: word(BYTES),
            waiting: word(WAITING),
            waiting_bytes: word(WAITING_BYTES),
            peak: word(PEAK).max(word(WAITING)),
            peak_bytes: word(PEAK_BYTES).max(word(WAITING_BYTES)),
            marks: word(MARKS),
            handed_back: word(HANDED_BACK),
            drops: std::array::from_fn(|cause| word(DROPS + cause)),
            dropped_bytes: word(DROPPED_BYTES),
            waited: std::array::from_fn(|bucket| word(WAITED + bucket)),
        }
    }

    /// All drops.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().sum()
    }

    /// A time that this part of the packets did not wait, to within a factor of two; 0 if none
    /// left.
    pub fn waited_ns(&self, part: f64) -> u64 {
        let wanted = part * self.waited.iter().sum::<u64>() as f64;
        let mut sum = 0;
        for (bucket, packets) in self.waited.iter().enumerate() {
            sum += packets;
            if *packets > 0 && sum as f64 >= wanted {
                return bucket_ns(bucket);
            }
        }
        0
    }
}

/// The time that all packets of a bucket waited less than; `u64::MAX` for the last.
pub fn bucket_ns(bucket: usize) -> u64 {
    if bucket + 1 < BUCKETS { 1 << (10 + bucket) } else { u64::MAX }
}

/// The words of one node.
#[derive(Clone, Copy)]
pub(crate) struct Counters<'a>(pub(crate) &'a [AtomicU64; WORDS]);

impl Counters<'_> {
    /// One writer: a load and a store do.
    #[inline]
    pub(crate) fn add(self, word: usize, count: u64) {
        let word = &self.0[word];
        word.store(word.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn set(self, word: usize, value: u64) {
        self.0[word].store(value, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn waited(self, ns: u64) {
        let bucket = (64 - (ns >> 10).leading_zeros()).min(BUCKETS as u32 - 1);
        self.add(WAITED + bucket as usize, 1);
    }

    pub(crate) fn dropped(self, cause: Cause, bytes: u32) {
        if let Some(at) = Cause::COUNTED.iter().position(|counted| *counted == cause) {
            self.add(DROPS + at, 1);
            self.add(DROPPED_BYTES, bytes.into());
        }
    }

    pub(crate) fn clear(self) {
        self.0.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_times_fall_into_the_buckets_that_the_layout_says() {
        let words: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
        let table = [
            (0, 0),
            (1023, 0),
            (1024, 1),
            (2047, 1),
            (2048, 2),
            ((1 << 32) - 1, 22),
            (1 << 32, 23),
            (u64::MAX, 23),
        ];
        for (ns, bucket) in table {
            Counters(&words).clear();
            Counters(&words).waited(ns);
            let read = Statistics::read(&words, 0);
            assert_eq!(read.waited.iter().position(|count| *count == 1), Some(bucket), "{ns}");
            assert_eq!(read.waited_ns(0.99), bucket_ns(bucket));
            assert!(ns < bucket_ns(bucket) || bucket == 23);
        }
    }
}
