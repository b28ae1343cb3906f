//! All that is `unsafe` in this crate: memory that a peer writes too, eventfds that it
//! shares, descriptors that come from it.

#![allow(unsafe_code)]

mod message;
mod region;
mod signal;

pub(crate) use message::{accept, receive};
pub use region::Chunk;
pub(crate) use region::{Memory, Region};
pub use signal::Signal;
pub(crate) use signal::drain;
