//! The packet pool: the memory that a router shares with the substrate.
//!
//! Three parties use it. The receive program copies frames into free slots, the router works on
//! them in place, and the transmit program copies them out. They pass [`Word`]s through [`ring`]s;
//! [`layout`] contains the places of the rings. [`c_header`] generates the C view of the same
//! layout.
//!
//! This crate is one of the few with `unsafe`: it turns mapped memory into slices of atomics, and
//! packet handles into byte slices. It trusts no value that a peer wrote: it masks or checks each
//! index when it reads it.

#[cfg(not(loom))]
pub mod account;
#[cfg(not(loom))]
mod arena;
#[cfg(not(loom))]
mod batch;
mod c_header;
#[cfg(not(loom))]
mod endpoint;
mod hints;
mod idle;
pub mod layout;
#[cfg(not(loom))]
mod mapping;
#[cfg(not(loom))]
pub mod packet;
#[cfg(not(loom))]
mod preemption;
pub mod ring;
#[cfg(not(loom))]
mod tally;
#[cfg(not(loom))]
pub mod ticks;
mod unseen;
#[cfg(not(loom))]
mod view;
#[cfg(not(loom))]
mod waker;
mod word;

#[cfg(not(loom))]
pub use arena::{Arena, MAX_BUFFER_BYTES, MIN_BUFFER_BYTES};
#[cfg(not(loom))]
pub use batch::{BATCH, Batch, STOP};
pub use c_header::c_header;
#[cfg(not(loom))]
pub use endpoint::{Endpoint, long_stock, stock};
pub use hints::{huge_pages, prefetch};
pub use idle::{Idle, Pace, Rest};
pub use layout::{Geometry, GeometryError, Layout};
#[cfg(not(loom))]
pub use mapping::Mapping;
#[cfg(not(loom))]
pub use packet::{Packet, PacketType, Place};
#[cfg(not(loom))]
pub use preemption::Preemption;
#[cfg(not(loom))]
pub use tally::Tally;
pub use unseen::{UNSEEN, look_on};
#[cfg(not(loom))]
pub use view::{PoolView, ViewError};
#[cfg(not(loom))]
pub use waker::Waker;
pub use word::Word;
