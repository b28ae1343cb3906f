//! Traces in files.

pub(crate) mod from_dump;
mod pcap;
pub(crate) mod to_dump;
