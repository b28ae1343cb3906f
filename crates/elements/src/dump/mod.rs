//! Traces in files.

pub(crate) mod from_dump;
mod pcap;
mod pcapng;
pub(crate) mod to_dump;
