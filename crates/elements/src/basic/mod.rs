//! Sources, sinks and counters.

pub(crate) mod counter;
pub(crate) mod discard;
pub(crate) mod idle;
pub(crate) mod infinite_source;
pub(crate) mod null;
pub(crate) mod pull_null;
pub(crate) mod push_null;
pub(crate) mod rated_source;
