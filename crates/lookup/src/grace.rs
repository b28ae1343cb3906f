//! Decides when memory without references can be reused: after a grace period, in which every
//! reader that could have reached it has passed a quiescent state.
//!
//! Quiescent states (McKenney and Slingwine: Read-Copy Update, 1998). The writer numbers the
//! objects that it releases. Whenever a reader holds no reference, once a batch, it copies the last
//! number. This costs a load, and a store if the number is new. An object is free once all readers
//! have copied its number or a later one. A resting reader delays nothing; its next batch costs a
//! fence. The writer only checks, and never waits.

use std::collections::VecDeque;
use std::sync::Arc;

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The mark of a reader that holds nothing.
const RESTS: u64 = u64::MAX;

/// A number that one thread writes and others read, in a separate pair of cache lines.
#[repr(align(128))]
struct Mark(AtomicU64);

impl Mark {
    fn new(number: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(number)))
    }
}

/// The mark of a reader.
pub(crate) struct Pass {
    /// The last number.
    last: Arc<Mark>,
    own: Arc<Mark>,
}

impl Pass {
    /// The reader holds no references now, and continues to read.
    #[inline]
    pub(crate) fn pass(&mut self) {
        // Acquire: a thread that has read a number can no longer find the released entry.
        let last = self.last.0.load(Ordering::Acquire);
        let own = self.own.0.load(Ordering::Relaxed);
        if own == last {
            return;
        }
        // Release: earlier reads are complete before the writer sees this.
        self.own.0.store(last, Ordering::Release);
        if own == RESTS {
            // Either the writer sees this reader's mark, or this reader sees the stores that the
            // writer made before its check (see `Readers::passed`).
            fence(Ordering::SeqCst);
        }
    }

    /// The reader holds no references, and does no look-up until it has passed again.
    pub(crate) fn rest(&mut self) {
        self.own.0.store(RESTS, Ordering::Release);
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.rest();
    }
}

/// The writer's view of its readers.
pub struct Readers {
    last: Arc<Mark>,
    marks: Vec<Arc<Mark>>,
}

impl Readers {
    /// Without readers.
    pub(crate) fn new() -> Self {
        Self { last: Mark::new(0), marks: Vec::new() }
    }

    /// One more, which rests.
    pub(crate) fn add(&mut self) -> Pass {
        let own = Mark::new(RESTS);
        self.marks.push(own.clone());
        Pass { last: self.last.clone(), own }
    }

    /// A number for objects whose last reference was just removed.
    fn number(&mut self) -> u64 {
        let number = self.last.0.load(Ordering::Relaxed) + 1;
        self.last.0.store(number, Ordering::Release);
        number
    }

    /// The highest number that all readers have passed.
    fn passed(&mut self) -> u64 {
        // A reader clears its mark before it ends.
        self.marks.retain(|mark| Arc::strong_count(mark) > 1);
        fence(Ordering::SeqCst);
        let numbers = self.marks.iter().map(|mark| mark.0.load(Ordering::Acquire));
        numbers.min().unwrap_or(RESTS)
    }
}

/// Places without references, in the order of their release.
pub(crate) struct Free<T> {
    ready: Vec<T>,
    /// Places with their numbers.
    waiting: VecDeque<(u64, T)>,
}

impl<T> Free<T> {
    pub(crate) fn new() -> Self {
        Self { ready: Vec::new(), waiting: VecDeque::new() }
    }

    /// Adds a place without references.
    pub(crate) fn put(&mut self, place: T, readers: &mut Readers) {
        if readers.marks.is_empty() {
            self.ready.push(place);
        } else {
            self.waiting.push_back((readers.number(), place));
        }
    }

    /// A place that no look-up passes.
    pub(crate) fn take(&mut self, readers: &mut Readers) -> Option<T> {
        if self.ready.is_empty() && !self.waiting.is_empty() {
            let passed = readers.passed();
            while let Some((_, place)) = self.waiting.pop_front_if(|(number, _)| *number <= passed)
            {
                self.ready.push(place);
            }
        }
        self.ready.pop()
    }

    /// Number of places that can be used at once.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_place_waits_for_those_who_may_be_on_their_way() {
        let (mut readers, mut free) = (Readers::new(), Free::new());
        free.put(1, &mut readers);
        assert_eq!(free.take(&mut readers), Some(1), "nobody reads");
        let (mut one, mut two) = (readers.add(), readers.add());
        free.put(2, &mut readers);
        assert_eq!(free.take(&mut readers), Some(2), "both rest");
        one.pass();
        two.pass();
        free.put(3, &mut readers);
        assert_eq!(free.take(&mut readers), None);
        one.pass();
        free.put(4, &mut readers);
        assert_eq!(free.take(&mut readers), None, "the other one has not passed");
        two.pass();
        assert_eq!(free.take(&mut readers), Some(3));
        assert_eq!(free.take(&mut readers), None, "one passed before 4 was let go of");
        one.rest();
        assert_eq!(free.take(&mut readers), Some(4));
        free.put(5, &mut readers);
        assert_eq!(free.take(&mut readers), None);
        drop(two);
        assert_eq!(free.take(&mut readers), Some(5), "who is gone holds nothing");
        assert_eq!(readers.marks.len(), 1);
    }
}

#[cfg(all(test, loom))]
mod model {
    //! Run with `RUSTFLAGS="--cfg loom" cargo test -p europa-lookup --release --lib model`.
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU16;
    use loom::thread;

    use super::*;

    /// Flag: an entry is the number of a place.
    const PLACE: u16 = 0x8000;
    /// The mark of a place in use by another reader.
    const FOREIGN: u16 = 9;

    /// An entry of a table, and the place to which it leads at first.
    struct Memory {
        entry: AtomicU16,
        place: AtomicU16,
    }

    impl Memory {
        /// A reader of the entry and its place.
        fn look(&self) {
            if self.entry.load(Ordering::Acquire) & PLACE != 0 {
                assert_ne!(self.place.load(Ordering::Relaxed), FOREIGN);
            }
        }
    }

    /// Runs such a reader beside a writer that removes the place and uses it again as soon as it
    /// may.
    fn check(read: fn(&mut Pass, &Memory)) {
        loom::model(move || {
            let memory = Memory { entry: AtomicU16::new(PLACE), place: AtomicU16::new(1) };
            let memory = Arc::new(memory);
            let (mut readers, mut free) = (Readers::new(), Free::new());
            let mut pass = readers.add();
            let reader = {
                let memory = memory.clone();
                thread::spawn(move || read(&mut pass, &memory))
            };
            memory.entry.store(2, Ordering::Relaxed);
            free.put((), &mut readers);
            let mut taken = false;
            for _ in 0..2 {
                if free.take(&mut readers).is_some() {
                    memory.place.store(FOREIGN, Ordering::Relaxed);
                    taken = true;
                }
            }
            reader.join().unwrap();
            assert_eq!(free.take(&mut readers).is_some(), !taken, "once, and in the end surely");
        });
    }

    #[test]
    fn a_reader_that_passes() {
        check(|pass, memory| {
            for _ in 0..2 {
                pass.pass();
                memory.look();
            }
        });
    }

    #[test]
    fn a_reader_that_rests_meanwhile() {
        check(|pass, memory| {
            for _ in 0..2 {
                pass.pass();
                memory.look();
                pass.rest();
            }
        });
    }
}
