//! # QuickNoteQueue
//!
//! ## Synopsis
//! `QuickNoteQueue([CAPACITY])`
//!
//! ## Ports
//! One push input, one pull output. A second, push output, if connected, gets the packets that do
//! not fit.
//!
//! ## Description
//! Keeps packets in order until they are pulled. The same as `Queue`.
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
pub(crate) struct QuickNoteQueue(Queue);

impl Default for QuickNoteQueue {
    fn default() -> QuickNoteQueue {
        QuickNoteQueue(Queue::quick())
    }
}

impl Class for QuickNoteQueue {
    const INFO: ClassInfo =
        ClassInfo::new("QuickNoteQueue", "1/1-2").processing("h/lh").inline().keeps_long();
}

impl Element for QuickNoteQueue {
    delegate!();
}
