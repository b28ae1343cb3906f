//! The spanning tree of bridges: messages, and the element that sends them.

pub(crate) mod ether_span_tree;
mod message;
