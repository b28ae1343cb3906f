//! # SimpleQueue
//!
//! ## Synopsis
//! `SimpleQueue([CAPACITY])`
//!
//! ## Ports
//! One push input, one pull output. A second, push output, if connected, gets the packets that do
//! not fit.
//!
//! ## Description
//! Keeps packets in order until they are pulled. The same as `Queue`. In Click this class sends no
//! signal to the pulling element; in Europa the signal costs nothing.
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
//! `Queue`

use crate::prelude::*;
use crate::queues::queue::Queue;

/// Keeps packets.
#[derive(Default)]
pub(crate) struct SimpleQueue(Queue);

impl Class for SimpleQueue {
    const INFO: ClassInfo =
        ClassInfo::new("SimpleQueue", "1/1-2").processing("h/lh").inline().keeps_long();
}

impl Element for SimpleQueue {
    fn notifies(&self) -> Notifies {
        Notifies::NOTHING
    }

    delegate!(but notifies);
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn all_are_queues() {
        let classes = [
            "SimpleQueue",
            "ThreadSafeQueue",
            "NotifierQueue",
            "FullNoteQueue",
            "QuickNoteQueue",
            "MSQueue",
        ];
        for class in classes {
            let mut bench = Bench::with_outputs(class, &["2"], 1);
            bench.log();
            bench.push(0, &[b"a", b"b", b"c"]);
            assert_eq!(bench.pull(9), [b"a".to_vec(), b"b".to_vec()], "{class}");
            assert_eq!(bench.router.read("e.drops", ""), Ok("1".into()));
        }
    }
}
