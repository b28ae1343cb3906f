//! The spanning tree of bridges: messages, and the element that speaks them.

pub(crate) mod ether_span_tree;
mod message;
