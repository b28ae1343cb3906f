//! Sockets.

pub(crate) mod from_socket;
pub(crate) mod socket;
pub(crate) mod to_socket;
