//! # FrontDropQueue
//!
//! ## Synopsis
//! `FrontDropQueue([CAPACITY])`
//!
//! ## Ports
//! One push input, one pull output. A second, push output, if connected, gets the packets that are
//! removed to make room.
//!
//! ## Description
//! Keeps packets in order until they are pulled. When it is full, a new packet replaces the oldest
//! one.
//!
//! ## Arguments
//! - CAPACITY: most packets, default 1000.
//!
//! ## Handlers
//! - `length` (read): packets in the queue.
//! - `highwater_length` (read): most packets that were in the queue at one time.
//! - `capacity` (read, write): most packets.
//! - `drops` (read): packets that did not fit.
//! - `reset_counts` (write): sets `drops` to zero and `highwater_length` to the present length.
//! - `reset` (write): drops all packets.
//!
//! ## See also
//! `Queue`, `MixedQueue`

use crate::prelude::*;
use crate::queues::queue::Queue;

/// Keeps the newest packets.
#[derive(Default)]
pub(crate) struct FrontDropQueue(Queue);

impl Class for FrontDropQueue {
    const INFO: ClassInfo = ClassInfo::new("FrontDropQueue", "1/1-2").processing("h/lh").inline();
}

impl Element for FrontDropQueue {
    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        for packet in batch.drain() {
            if self.0.is_full()
                && let Some(oldest) = self.0.pop_front()
            {
                self.0.overflow(oldest, context);
            }
            if let Some(refused) = self.0.push_back(packet) {
                self.0.overflow(refused, context);
            }
        }
    }

    /// It notifies about packets only: there is always room, because the queue drops old packets.
    fn notifies(&self) -> Notifies {
        Notifies::PACKETS
    }

    delegate!(but push and notifies);
}

#[cfg(test)]
mod tests {
    use europa_engine::Graph;

    use crate::testing::{Bench, run};

    #[test]
    fn sources_go_on_while_it_is_full() {
        for (class, drops) in [("FrontDropQueue", 90), ("MixedQueue", 90), ("Queue", 0)] {
            let mut graph = Graph::default();
            let source = graph.add("s", "InfiniteSource", &["LIMIT 100", "BURST 10"]);
            let (queue, idle) = (graph.add("q", class, &["10"]), graph.add("i", "Idle", &[]));
            graph.connect(source, 0, queue, 0);
            graph.connect(queue, 0, idle, 0);
            assert_eq!(run(graph).read("q.drops", ""), Ok(drops.to_string()), "{class}");
        }
    }

    #[test]
    fn the_oldest_gives_way() {
        let mut bench = Bench::new("FrontDropQueue", &["2"]);
        bench.log();
        assert_eq!(bench.push(0, &[b"a", b"b", b"c"]), [(1, b"a".to_vec())]);
        assert_eq!(bench.pull(9), [b"b".to_vec(), b"c".to_vec()]);
        assert_eq!(bench.router.read("e.drops", ""), Ok("1".into()));
    }
}
