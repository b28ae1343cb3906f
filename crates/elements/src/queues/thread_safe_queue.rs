//! # ThreadSafeQueue
//!
//! ## Synopsis
//! `ThreadSafeQueue([CAPACITY])`
//!
//! ## Ports
//! One push input, one pull output. A second, push output, if connected, gets the packets that do
//! not fit.
//!
//! ## Description
//! Keeps packets in order until they are pulled. The same as `Queue`: a router has one thread.
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
pub(crate) struct ThreadSafeQueue(Queue);

impl Class for ThreadSafeQueue {
    const INFO: ClassInfo =
        ClassInfo::new("ThreadSafeQueue", "1/1-2").processing("h/lh").inline().keeps_long();
}

impl Element for ThreadSafeQueue {
    delegate!();
}
