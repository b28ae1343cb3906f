//! Counters of packets, in memory that other processes may read.
//!
//! One thread writes them, with plain stores. A reader that maps them sees each word whole. In
//! memory for n nodes ([`WORDS`] each) the first 8 n words are *hot*: 8 for each node at its
//! [`Id::index`](crate::Id::index), one cache line. The other 32 n are *cold*: 32 for each node in
//! the same order. Layout 2:
//!
//! | hot     | content                                                                       |
//! |---------|-------------------------------------------------------------------------------|
//! | 0, 1    | packets, bytes that left                                                      |
//! | 2       | packets that wait now, and in the upper 32 bits their bytes                   |
//! | 3       | most packets that have waited, and in the upper half most bytes               |
//! | 4 to 6  | the lowest 8 bits of each count of waiting times, eight a word, lowest first  |
//! | 7       | packets that left with a mark                                                 |
//!
//! | cold    | content                                                                       |
//! |---------|-------------------------------------------------------------------------------|
//! | 0       | packets handed back when their queue was removed                              |
//! | 1 to 6  | packets dropped, by [`Cause`] in its order                                    |
//! | 7       | bytes dropped                                                                 |
//! | 8       | packets that waited less than 1024 ns                                         |
//! | 8 + n   | packets that waited 2^(9+n) ns or more, and less than 2^(10+n), n < 23        |
//! | 31      | packets that waited 2^32 ns (4.3 s) or more                                   |
//!
//! Cold words 8 to 31 are written only every 64th time, because each is a cache line that a packet
//! would wait for. The hot words contain the lowest 8 bits of each count. The count is the cold
//! word plus the difference of these bits, as a signed byte. So the order of reading the two has
//! little effect.
//!
//! The words of a class are the sums of its queues, including removed ones. It has no waiting
//! times: a reader adds those of the queues. Its hot word 2 is updated when a packet leaves, is
//! dropped from a head or handed back, but not when one arrives. The same holds for word 3 of all
//! nodes: if word 2 is larger, that is the maximum. This saves 16 stores a packet.

use std::sync::atomic::{AtomicU64, Ordering};

/// Words of a node.
pub const WORDS: usize = 40;
/// Number of classes of waiting times.
pub const BUCKETS: usize = 24;
/// Version of the layout.
pub const LAYOUT: u32 = 2;

const HOT: usize = 8;
const COLD: usize = WORDS - HOT;
pub(crate) const PACKETS: usize = 0;
pub(crate) const BYTES: usize = 1;
pub(crate) const WAITING: usize = 2;
pub(crate) const PEAK: usize = 3;
const RECENT: usize = 4;
const MARKS: usize = 7;
const HANDED_BACK: usize = 0;
const DROPS: usize = 1;
const DROPPED_BYTES: usize = 7;
const WAITED: usize = 8;
/// Number of packets after which a cold word of waiting times is written.
const LAG: u64 = 64;

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
    /// The queue does not exist, or no longer exists. Only the caller counts this.
    Gone,
}

impl Cause {
    /// All causes that are counted, in the order of the words.
    pub const COUNTED: [Self; 6] =
        [Self::Packets, Self::Bytes, Self::Early, Self::Delay, Self::Share, Self::Room];
}

/// The values of a node's words.
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
    /// Packets that left, by waiting time; see [`bucket_ns`].
    pub waited: [u64; BUCKETS],
}

impl Statistics {
    /// Reads a node's words from `words`, the words of all nodes. Missing words count as zeros.
    pub fn read(words: &[AtomicU64], index: u32) -> Self {
        let (nodes, index) = (words.len() / WORDS, index as usize);
        let word = |at: usize| words.get(at).map_or(0, |word| word.load(Ordering::Acquire));
        let hot = |at: usize| word(index * HOT + at);
        let cold = |at: usize| word(nodes * HOT + index * COLD + at);
        if index >= nodes {
            return Self::default();
        }
        let halves = |word: u64| (word & 0xffff_ffff, word >> 32);
        let ((waiting, waiting_bytes), (peak, peak_bytes)) =
            (halves(hot(WAITING)), halves(hot(PEAK)));
        let waited = |bucket: usize| {
            let recent = hot(RECENT + bucket / 8).to_le_bytes()[bucket % 8];
            let written = cold(WAITED + bucket);
            let behind = recent.wrapping_sub(written as u8).cast_signed();
            written.saturating_add_signed(behind.into())
        };
        Self {
            packets: hot(PACKETS),
            bytes: hot(BYTES),
            waiting,
            waiting_bytes,
            peak: peak.max(waiting),
            peak_bytes: peak_bytes.max(waiting_bytes),
            marks: hot(MARKS),
            handed_back: cold(HANDED_BACK),
            drops: std::array::from_fn(|cause| cold(DROPS + cause)),
            dropped_bytes: cold(DROPPED_BYTES),
            waited: std::array::from_fn(waited),
        }
    }

    /// All drops.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().sum()
    }

    /// A lower bound, to within a factor of two, of the waiting time that this part of the packets
    /// did not exceed; 0 if no packet has left.
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

/// The waiting time that all packets of a bucket are below; `u64::MAX` for the last bucket.
pub fn bucket_ns(bucket: usize) -> u64 {
    if bucket + 1 < BUCKETS { 1 << (10 + bucket) } else { u64::MAX }
}

/// The part of a node's words that each packet touches: a cache line.
pub(crate) type Hot = [AtomicU64; HOT];

/// All nodes', by index.
#[inline]
pub(crate) fn hot(words: &[AtomicU64]) -> &[Hot] {
    words.as_chunks().0
}

/// Only one thread writes, so a load and a store are enough.
#[inline]
pub(crate) fn add(word: &AtomicU64, count: u64) {
    word.store(word.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
}

#[inline]
pub(crate) fn set(word: &AtomicU64, value: u64) {
    word.store(value, Ordering::Relaxed);
}

/// Counts a waiting time. Returns the bucket, if its cold word needs a write: see [`LAG`].
#[inline]
#[must_use]
pub(crate) fn waited(hot: &Hot, ns: u64) -> Option<u32> {
    let bucket = (ns >> 9 | 1).ilog2().min(BUCKETS as u32 - 1);
    let (word, shift) = (&hot[RECENT + bucket as usize / 8], bucket % 8 * 8);
    let one = 1 << shift;
    let mut counts = word.load(Ordering::Relaxed).wrapping_add(one);
    let count = counts >> shift & 0xff;
    if count == 0 {
        // A carry must not change the next count.
        counts = counts.wrapping_sub(one << 8);
    }
    set(word, counts);
    count.is_multiple_of(LAG).then_some(bucket)
}

/// The words of one node within the words of all nodes.
#[derive(Clone, Copy)]
pub(crate) struct Counters<'a> {
    pub(crate) words: &'a [AtomicU64],
    pub(crate) node: usize,
}

impl<'a> Counters<'a> {
    /// The counters of an existing node: the tree has checked that all words exist.
    #[inline]
    pub(crate) fn hot(self) -> &'a Hot {
        &hot(self.words)[self.node]
    }

    fn cold(self) -> &'a [AtomicU64] {
        &self.words[self.words.len() / WORDS * HOT + self.node * COLD..][..COLD]
    }

    #[cold]
    pub(crate) fn write(self, bucket: u32) {
        add(&self.cold()[WAITED + bucket as usize], LAG);
    }

    pub(crate) fn marked(self) {
        add(&self.hot()[MARKS], 1);
    }

    pub(crate) fn handed_back(self) {
        add(&self.cold()[HANDED_BACK], 1);
    }

    pub(crate) fn dropped(self, cause: Cause, bytes: u32) {
        if let Some(at) = Cause::COUNTED.iter().position(|counted| *counted == cause) {
            add(&self.cold()[DROPS + at], 1);
            add(&self.cold()[DROPPED_BYTES], bytes.into());
        }
    }

    pub(crate) fn clear(self) {
        let all = self.hot().iter().chain(self.cold());
        all.for_each(|word| set(word, 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_times_fall_into_the_buckets_that_the_layout_says() {
        let words: [AtomicU64; 2 * WORDS] = [const { AtomicU64::new(0) }; 2 * WORDS];
        let counters = Counters { words: &words, node: 1 };
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
            counters.clear();
            assert_eq!(waited(counters.hot(), ns), None);
            let read = Statistics::read(&words, 1);
            assert_eq!(read.waited.iter().position(|count| *count == 1), Some(bucket), "{ns}");
            assert_eq!(read.waited_ns(0.99), bucket_ns(bucket));
            assert!(ns < bucket_ns(bucket) || bucket == 23);
        }
    }

    #[test]
    fn counts_are_whole_wherever_they_are_and_whenever_they_are_read() {
        let words: [AtomicU64; 3 * WORDS] = [const { AtomicU64::new(0) }; 3 * WORDS];
        let of = |node| Counters { words: &words, node };
        for count in 1..=1000 {
            for ns in [5000, 1 << 40] {
                waited(of(1).hot(), ns).into_iter().for_each(|bucket| of(1).write(bucket));
            }
            of(1).dropped(Cause::Room, 100);
            let read = Statistics::read(&words, 1);
            assert_eq!((read.waited[3], read.waited[23]), (count, count));
            assert_eq!((read.drops[5], read.dropped_bytes), (count, count * 100));
        }
        // The writer changed the cold word after the hot one was read.
        of(1).write(3);
        assert_eq!(Statistics::read(&words, 1).waited[3], 1000);
        for other in [0, 2, 3, 1000] {
            assert_eq!(Statistics::read(&words, other), Statistics::default());
        }
    }
}
