//! Queues.

pub(crate) mod front_drop_queue;
pub(crate) mod full_note_queue;
pub(crate) mod mixed_queue;
pub(crate) mod mpeg_queue;
pub(crate) mod ms_queue;
pub(crate) mod notifier_queue;
pub(crate) mod queue;
pub(crate) mod quick_note_queue;
pub(crate) mod simple_queue;
pub(crate) mod thread_safe_queue;
pub(crate) mod unqueue;
