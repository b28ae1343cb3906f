//! Rings of [`Word`]s: each entry is one atomic word, which is zero when empty.
//!
//! The two sides share only the entries. Each side keeps its own cursor: a [`Consumer`] or
//! [`Producer`] in private memory. If several CPUs work at the same end, the cursor is an atomic in
//! memory that no router can map ([`take_shared`], [`put_shared`], [`put_unbounded`]). A peer that
//! writes invalid entries can mislead only a reader that trusts the words, and every reader masks
//! them.
//!
//! Cost: one cache line moves between the cores for eight entries.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::Word;

/// How often [`take_shared`] and [`put_shared`] try again when another CPU was faster. Measured
/// with two receive queues: 0.013 % of the packets need a second try.
pub const MAX_TRIES: u32 = 4;

/// The entries of a ring: a power of two of words.
#[derive(Clone, Copy)]
pub struct Entries<'a> {
    words: &'a [AtomicU64],
}

impl<'a> Entries<'a> {
    /// Uses `words` as a ring; `None` unless their number is a power of two.
    #[inline]
    pub fn new(words: &'a [AtomicU64]) -> Option<Self> {
        words.len().is_power_of_two().then_some(Self { words })
    }

    #[inline]
    fn at(&self, cursor: u32) -> &'a AtomicU64 {
        // The index is in range: the length is a power of two.
        &self.words[cursor as usize & (self.words.len() - 1)]
    }

    /// Number of entries.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.words.len()
    }

    /// Reads the entry at `cursor` without taking it.
    #[inline]
    pub fn peek(&self, cursor: u32) -> Option<Word> {
        Word::from_bits(self.at(cursor).load(Ordering::Acquire))
    }

    /// Empties the entry at `cursor`.
    #[inline]
    pub fn clear(&self, cursor: u32) {
        self.at(cursor).store(0, Ordering::Release);
    }

    /// Fills the entry at `cursor` if it is empty.
    #[inline]
    pub fn fill(&self, cursor: u32, word: Word) -> bool {
        let entry = self.at(cursor);
        if entry.load(Ordering::Acquire) != 0 {
            return false;
        }
        entry.store(word.bits(), Ordering::Release);
        true
    }

    /// Every occupied entry, in arbitrary order.
    #[inline]
    pub fn snapshot(&self) -> impl Iterator<Item = Word> + 'a {
        let words = self.words;
        words.iter().filter_map(|entry| Word::from_bits(entry.load(Ordering::Acquire)))
    }
}

/// The only reader of a ring, with its cursor.
pub struct Consumer<'a> {
    entries: Entries<'a>,
    head: u32,
}

impl<'a> Consumer<'a> {
    /// Starts, or continues, at `head`.
    #[inline]
    pub fn new(entries: Entries<'a>, head: u32) -> Self {
        Self { entries, head }
    }

    /// Whether it is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries.peek(self.head).is_none()
    }

    /// Takes the oldest word.
    #[inline]
    pub fn take(&mut self) -> Option<Word> {
        let word = self.entries.peek(self.head)?;
        self.entries.clear(self.head);
        self.head = self.head.wrapping_add(1);
        Some(word)
    }

    /// The cursor, with which to continue later.
    #[inline]
    pub fn head(&self) -> u32 {
        self.head
    }
}

/// The only writer of a ring, with its cursor.
pub struct Producer<'a> {
    entries: Entries<'a>,
    tail: u32,
}

impl<'a> Producer<'a> {
    /// Starts, or continues, at `tail`.
    #[inline]
    pub fn new(entries: Entries<'a>, tail: u32) -> Self {
        Self { entries, tail }
    }

    /// Adds a word. If the ring is full, returns false and adds nothing.
    #[inline]
    pub fn put(&mut self, word: Word) -> bool {
        let done = self.entries.fill(self.tail, word);
        self.tail = self.tail.wrapping_add(done as u32);
        done
    }

    /// Whether a word could be added now.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.entries.peek(self.tail).is_none()
    }
}

/// Takes the oldest word of a ring that several CPUs take from. `None` if it is empty or other CPUs
/// were faster [`MAX_TRIES`] times.
///
/// The C twin is `ring_take` in `bpf/ring.h`.
#[inline]
pub fn take_shared(entries: Entries<'_>, head: &AtomicU32) -> Option<Word> {
    for _ in 0..MAX_TRIES {
        let cursor = head.load(Ordering::Acquire);
        let Some(word) = entries.peek(cursor) else {
            // The ring is empty, unless another reader moved the cursor between the two reads.
            if head.load(Ordering::Acquire) == cursor {
                return None;
            }
            continue;
        };
        if head
            .compare_exchange(cursor, cursor.wrapping_add(1), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            entries.clear(cursor);
            return Some(word);
        }
    }
    None
}

/// Adds a word to a ring that several CPUs add to: reserves an entry by compare-and-swap, then
/// publishes by filling it. False if it is full or other CPUs were faster [`MAX_TRIES`] times.
///
/// The C twin is a part of `deliver_into` in `bpf/deliver.h`.
#[inline]
pub fn put_shared(entries: Entries<'_>, tail: &AtomicU32, word: Word) -> bool {
    for _ in 0..MAX_TRIES {
        let cursor = tail.load(Ordering::Acquire);
        if entries.peek(cursor).is_some() {
            // The ring is full, unless another writer moved the cursor between the two reads.
            if tail.load(Ordering::Acquire) == cursor {
                return false;
            }
            continue;
        }
        if tail
            .compare_exchange(cursor, cursor.wrapping_add(1), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            entries.at(cursor).store(word.bits(), Ordering::Release);
            return true;
        }
    }
    false
}

/// Adds a word to a ring that has an entry for every slot. It can be full only if its router
/// returns a slot twice; that router then loses a slot.
///
/// The C twin is `ring_append` in `bpf/ring.h`.
#[inline]
pub fn put_unbounded(entries: Entries<'_>, tail: &AtomicU32, word: Word) {
    let cursor = tail.fetch_add(1, Ordering::AcqRel);
    entries.at(cursor).store(word.bits(), Ordering::Release);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[inline]
    fn ring(bits: u32) -> Vec<AtomicU64> {
        (0..1 << bits).map(|_| AtomicU64::new(0)).collect()
    }

    proptest! {
        /// Any sequence of puts and takes behaves as a bounded queue, even when the cursor wraps
        /// around.
        #[test]
        #[inline]
        fn a_ring_is_a_bounded_queue(bits in 0u32..6, start: u32, puts: Vec<bool>) {
            let words = ring(bits);
            let entries = Entries::new(&words).unwrap();
            let mut producer = Producer::new(entries, start);
            let mut consumer = Consumer::new(entries, start);
            let mut model = VecDeque::new();
            for (number, put) in puts.into_iter().enumerate() {
                if put {
                    let word = Word::free(number as u32);
                    let fits = model.len() < words.len();
                    prop_assert_eq!(producer.has_room(), fits);
                    prop_assert_eq!(producer.put(word), fits);
                    if fits { model.push_back(word); }
                } else {
                    prop_assert_eq!(consumer.is_empty(), model.is_empty());
                    prop_assert_eq!(consumer.take(), model.pop_front());
                }
            }
        }
    }

    #[test]
    #[inline]
    fn shared_ends_keep_order_and_bounds() {
        let words = ring(2);
        let entries = Entries::new(&words).unwrap();
        let (head, tail) = (AtomicU32::new(u32::MAX), AtomicU32::new(u32::MAX));
        for slot in 0..4 {
            assert!(put_shared(entries, &tail, Word::free(slot)));
        }
        assert!(!put_shared(entries, &tail, Word::free(9)), "the ring is full");
        for slot in 0..4 {
            assert_eq!(take_shared(entries, &head), Some(Word::free(slot)));
        }
        assert_eq!(take_shared(entries, &head), None);
    }

    #[test]
    #[inline]
    fn a_ring_needs_a_power_of_two() {
        assert!(Entries::new(&ring(2)[..3]).is_none());
        assert!(Entries::new(&[]).is_none());
    }
}

#[cfg(all(test, loom))]
mod model {
    //! Run with `RUSTFLAGS="--cfg loom" cargo test -p europa-pool --release model`.
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    struct Shared {
        words: Vec<AtomicU64>,
        head: AtomicU32,
        tail: AtomicU32,
    }

    #[inline]
    fn shared(words: usize) -> Arc<Shared> {
        Arc::new(Shared {
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            head: AtomicU32::new(0),
            tail: AtomicU32::new(0),
        })
    }

    #[test]
    #[inline]
    fn one_producer_one_consumer() {
        loom::model(|| {
            let ring = shared(2);
            let other = ring.clone();
            let producer = thread::spawn(move || {
                let mut producer = Producer::new(Entries::new(&other.words).unwrap(), 0);
                (0..3).filter(|slot| producer.put(Word::free(*slot))).collect::<Vec<_>>()
            });
            let mut consumer = Consumer::new(Entries::new(&ring.words).unwrap(), 0);
            let mut taken: Vec<u32> =
                (0..3).filter_map(|_| consumer.take()).map(Word::slot).collect();
            let put = producer.join().unwrap();
            taken.extend(std::iter::from_fn(|| consumer.take()).map(Word::slot));
            assert_eq!(put, taken, "what was put is what was taken, in order");
        });
    }

    #[test]
    #[inline]
    fn two_producers_publish_each_word_once() {
        loom::model(|| {
            let ring = shared(2);
            let put = |slot: u32| {
                let ring = ring.clone();
                thread::spawn(move || {
                    put_shared(Entries::new(&ring.words).unwrap(), &ring.tail, Word::free(slot))
                })
            };
            let (first, second) = (put(1), put(2));
            let mut consumer = Consumer::new(Entries::new(&ring.words).unwrap(), 0);
            let mut taken: Vec<u32> = consumer.take().map(Word::slot).into_iter().collect();
            let put = first.join().unwrap() as usize + second.join().unwrap() as usize;
            assert_eq!(put, 2, "nobody takes a busy ring for a full one");
            taken.extend(std::iter::from_fn(|| consumer.take()).map(Word::slot));
            assert_eq!(taken.len(), put);
            taken.sort_unstable();
            taken.dedup();
            assert_eq!(taken.len(), put, "no word twice");
        });
    }

    #[test]
    #[inline]
    fn two_takers_find_a_slot_each() {
        loom::model(|| {
            let ring = shared(2);
            for slot in 0..2 {
                put_unbounded(Entries::new(&ring.words).unwrap(), &ring.tail, Word::free(slot));
            }
            let other = ring.clone();
            let take = |ring: &Shared| take_shared(Entries::new(&ring.words).unwrap(), &ring.head);
            let thread = thread::spawn(move || take(&other));
            let mine = take(&ring);
            let theirs = thread.join().unwrap();
            assert!(
                mine.is_some() && theirs.is_some(),
                "nobody takes a busy ring for an empty one"
            );
            assert_ne!(mine, theirs);
        });
    }

    #[test]
    #[inline]
    fn slots_cycle_between_two_takers_and_an_appender() {
        loom::model(|| {
            let ring = shared(2);
            put_unbounded(Entries::new(&ring.words).unwrap(), &ring.tail, Word::free(7));
            let other = ring.clone();
            let cycle = |ring: &Shared| {
                let entries = Entries::new(&ring.words).unwrap();
                if let Some(word) = take_shared(entries, &ring.head) {
                    put_unbounded(entries, &ring.tail, word);
                }
            };
            let thread = thread::spawn(move || cycle(&other));
            cycle(&ring);
            thread.join().unwrap();
            let left: Vec<_> = Entries::new(&ring.words).unwrap().snapshot().collect();
            assert_eq!(left, [Word::free(7)], "the slot is there, once");
        });
    }
}
