//! Packet times.

pub(crate) mod adjust_timestamp;
pub(crate) mod set_timestamp;
pub(crate) mod set_timestamp_delta;
pub(crate) mod time_filter;
pub(crate) mod time_range;
pub(crate) mod timestamp_accum;
