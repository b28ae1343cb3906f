//! Pending packets: pushed, and not yet handled.

use std::collections::VecDeque;

use europa_pool::{Batch, Packet};

/// Packets waiting at one input.
pub(crate) struct Work {
    pub(crate) input: u32,
    pub(crate) batch: Batch,
}

/// Empty batches, shared by graphs that run in turns. A thousand graphs need no more memory than
/// one, and this memory stays in the cache.
#[derive(Default)]
pub struct Stock(Vec<Batch>);

impl Stock {
    /// Makes sure that this many batches exist. The stock grows with the needs of graphs.
    #[inline]
    pub fn fill(&mut self, batches: usize) {
        while self.0.len() < batches {
            self.0.push(Batch::new());
        }
    }
}

/// A queue of [`Work`], first in, first out, so that packets on one path keep their order. Packets
/// for an input that has an entry join that entry, at the end.
///
/// In a one-by-one graph ([`WorkList::one_by_one`]) it is a stack of single packets: an element's
/// packets precede all that were sent earlier, as if each push were a call.
pub(crate) struct WorkList {
    queue: VecDeque<Work>,
    /// In a one-by-one graph: the packets that the running element has sent so far.
    sent: Option<Vec<Work>>,
    /// Number of the first entry of the queue; entries are numbered without end.
    first: u64,
    /// By input: number of its last entry. An entry below `first` has left the queue.
    last: Vec<u64>,
    /// Empty batches.
    spare: Vec<Batch>,
}

impl WorkList {
    pub(crate) fn new(inputs: usize) -> WorkList {
        WorkList {
            queue: VecDeque::with_capacity(inputs * 2),
            sent: None,
            first: 1,
            last: vec![0; inputs],
            spare: Vec::new(),
        }
    }

    /// From now on each packet is separate, in the order of nested calls.
    pub(crate) fn one_by_one(&mut self) {
        self.sent.get_or_insert_default();
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len() + self.sent.as_ref().map_or(0, Vec::len)
    }

    /// The batch that packets for `input` may still join.
    #[inline(always)]
    fn waiting(&mut self, input: u32) -> Option<&mut Batch> {
        let at = self.last.get(input as usize)?.wrapping_sub(self.first);
        // A number below `first` wraps to an index far beyond the queue.
        self.queue.get_mut(usize::try_from(at).ok()?).map(|work| &mut work.batch)
    }

    /// Whether packets wait at this input.
    pub(crate) fn is_waiting(&self, input: u32) -> bool {
        // Entries below `first` have left.
        self.last.get(input as usize).is_some_and(|last| *last >= self.first)
    }

    fn open(&mut self, input: u32, batch: Batch) {
        if self.sent.is_some() {
            return self.open_each(input, batch);
        }
        if let Some(last) = self.last.get_mut(input as usize) {
            *last = self.first + self.queue.len() as u64;
            self.queue.push_back(Work { input, batch });
        }
    }

    /// Like [`WorkList::open`] for one-by-one graphs. Packets never join an entry there, because no
    /// entry has a number in `last`.
    #[cold]
    fn open_each(&mut self, input: u32, mut batch: Batch) {
        while batch.len() > 1 {
            let mut single = self.take_batch();
            batch.move_front(1, &mut single);
            self.sent.get_or_insert_default().push(Work { input, batch: single });
        }
        self.sent.get_or_insert_default().push(Work { input, batch });
    }

    /// Adds one packet.
    #[inline(always)]
    pub(crate) fn push(&mut self, input: u32, packet: Packet) {
        let packet = match self.waiting(input) {
            Some(batch) => match batch.push(packet) {
                Ok(()) => return,
                Err(packet) => packet,
            },
            None => packet,
        };
        let mut batch = self.take_batch();
        // A batch from the stock is empty, so it has room.
        let _ = batch.push(packet);
        self.open(input, batch);
    }

    /// Adds all packets of `batch`.
    #[inline(always)]
    pub(crate) fn push_batch(&mut self, input: u32, batch: &mut Batch) {
        if let Some(waiting) = self.waiting(input) {
            waiting.append(batch);
        }
        if !batch.is_empty() {
            let own = std::mem::replace(batch, self.take_batch());
            self.open(input, own);
        }
    }

    /// The packets that have waited longest.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<Work> {
        if let Some(sent) = &mut self.sent {
            while let Some(work) = sent.pop() {
                self.queue.push_front(work);
            }
        }
        let work = self.queue.pop_front()?;
        self.first += 1;
        Some(work)
    }

    /// Adds another stock to its own.
    pub(crate) fn lend(&mut self, stock: &mut Stock) {
        std::mem::swap(&mut self.spare, &mut stock.0);
        self.spare.append(&mut stock.0);
    }

    /// Returns the whole stock.
    pub(crate) fn give_back(&mut self, stock: &mut Stock) {
        std::mem::swap(&mut self.spare, &mut stock.0);
    }

    /// An empty batch. Allocates only while the stock grows to the graph's need.
    #[inline(always)]
    pub(crate) fn take_batch(&mut self) -> Batch {
        self.spare.pop().unwrap_or_default()
    }

    /// Returns a batch; packets in it are dropped.
    #[inline(always)]
    pub(crate) fn give_batch(&mut self, mut batch: Batch) {
        batch.clear();
        self.spare.push(batch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use europa_pool::{Arena, BATCH};
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn each_input_gets_its_packets_in_order(
            steps in prop::collection::vec((0u32..3, 0usize..300, any::<bool>()), 1..40)
        ) {
            let arena = Arena::heap(16384, 512);
            let mut list = WorkList::new(3);
            let (mut sent, mut got) = (HashMap::<u32, u32>::new(), HashMap::<u32, u32>::new());
            let mut take = |work: Work| {
                assert!(!work.batch.is_empty());
                for packet in &work.batch {
                    let next = got.entry(work.input).or_default();
                    assert_eq!(packet.dst_ip(), *next);
                    *next += 1;
                }
            };
            for (input, count, pop) in steps {
                let mut batch = Batch::new();
                for i in 0..count {
                    let next = sent.entry(input).or_default();
                    let mut packet = arena.alloc().unwrap();
                    packet.set_dst_ip(*next);
                    *next += 1;
                    if i < BATCH { batch.push(packet).unwrap() } else {
                        list.push_batch(input, &mut batch);
                        prop_assert!(batch.is_empty());
                        list.push(input, packet);
                    }
                }
                list.push_batch(input, &mut batch);
                if pop && let Some(work) = list.pop() {
                    take(work);
                }
            }
            while let Some(work) = list.pop() {
                take(work);
            }
            sent.retain(|_, count| *count > 0);
            prop_assert_eq!(sent, got);
        }
    }
}
