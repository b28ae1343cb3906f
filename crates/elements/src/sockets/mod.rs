//! Sockets under the names of earlier versions of Click.

pub(crate) mod from_socket;
pub(crate) mod to_socket;
