//! All `unsafe` code of this crate: memory that a peer also writes, shared eventfds, received
//! descriptors.

#![allow(unsafe_code)]

mod message;
mod region;
mod signal;

pub(crate) use message::{accept, receive};
pub use region::Chunk;
pub(crate) use region::{Memory, Region};
pub use signal::Signal;
pub(crate) use signal::drain;
