//! Runs an element graph: batches, scheduling, timers, handlers.
