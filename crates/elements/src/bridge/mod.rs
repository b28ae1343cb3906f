//! Ethernet switches.

pub(crate) mod ether_span_tree;
pub(crate) mod ether_switch;
pub(crate) mod listen_ether_switch;
pub(crate) mod message;
