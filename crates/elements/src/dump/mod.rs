//! Captures and printing.

pub(crate) mod arp_print;
pub(crate) mod from_dump;
pub(crate) mod ip6_print;
pub(crate) mod ip_print;
mod pcap;
mod pcapng;
pub(crate) mod print;
pub(crate) mod to_dump;
