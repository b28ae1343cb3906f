//! # MixedQueue
//!
//! ## Synopsis
//! `MixedQueue([CAPACITY])`
//!
//! ## Ports
//! Two push inputs, one pull output. A second, push output, if connected, gets the packets that do
//! not fit.
//!
//! ## Description
//! Keeps packets until they are pulled. Packets of input 0 go to the end of the queue, or do not
//! fit if it is full. Packets of input 1 go to the front; if the queue is full, its last packet is
//! dropped.
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
//! `Queue`, `FrontDropQueue`

use crate::prelude::*;
use crate::queues::queue::Queue;

/// Keeps packets in two orders.
#[derive(Default)]
pub(crate) struct MixedQueue(Queue);

impl Class for MixedQueue {
    const INFO: ClassInfo = ClassInfo::new("MixedQueue", "2/1-2").processing("h/lh").inline();
}

impl Element for MixedQueue {
    fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        if port == 0 {
            return self.0.push(0, batch, context);
        }
        for packet in batch.drain() {
            if self.0.is_full()
                && let Some(last) = self.0.pop_back()
            {
                self.0.overflow(last, context);
            }
            if let Some(refused) = self.0.push_front(packet) {
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
    use crate::testing::Bench;

    #[test]
    fn one_input_goes_first() {
        let mut bench = Bench::new("MixedQueue", &["3"]);
        bench.log();
        bench.push(0, &[b"a", b"b"]);
        bench.push(1, &[b"c"]);
        assert_eq!(bench.push(1, &[b"d"]), [(1, b"b".to_vec())]);
        assert_eq!(bench.push(0, &[b"e"]), [(1, b"e".to_vec())]);
        assert_eq!(bench.pull(9), [b"d".to_vec(), b"c".to_vec(), b"a".to_vec()]);
    }
}
