//! The limits of a port, reported before they matter.

use serde::{Deserialize, Serialize};

/// A limit of a port, and a remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Limitation {
    /// Tagged frames may look untagged, so VLAN matches cannot be trusted.
    #[error(
        "{device}: VLAN tags may be hidden from us ({why}): matches on VLAN cannot be trusted; {remedy}"
    )]
    VlanUntrusted {
        /// The port.
        device: String,
        /// The feature that hides them.
        why: String,
        /// The remedy.
        remedy: String,
    },
    /// Redirected frames would be dropped, so only a socket can send.
    #[error(
        "{device}: live frames would be dropped ({why}), frames can leave by a socket only; {remedy}"
    )]
    SocketOnly {
        /// The port.
        device: String,
        /// The part that drops them.
        why: String,
        /// The remedy.
        remedy: String,
    },
    /// The receive program can only be attached in generic mode.
    #[error("{device}: the receive program runs in generic mode only ({why}); {remedy}")]
    GenericOnly {
        /// The port.
        device: String,
        /// The missing feature.
        why: String,
        /// The remedy.
        remedy: String,
    },
    /// Frames longer than the MTU may arrive: merged, or not yet segmented.
    #[error("{device}: frames longer than its MTU may arrive ({why}); {remedy}")]
    Oversized {
        /// The port.
        device: String,
        /// The sender of such frames.
        why: String,
        /// The remedy.
        remedy: String,
    },
}
