//! The element library: one element, one file.
//!
//! The comment at the top of each file is the element's manual page, with the same
//! sections in the same order. [`registry`] lists all classes.

mod common;
mod paint;
mod queue;
mod registry;
#[cfg(test)]
mod testing;

pub use registry::registry;
