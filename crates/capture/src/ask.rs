//! The conversation with the node, on a socket of its own beside the node's.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::scene::Scene;
use crate::target::Named;

/// The socket in a node's run directory.
pub fn socket(directory: &Path) -> PathBuf {
    directory.join("capture.sock")
}

/// A client's message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Question {
    /// Asks for the objects of a node.
    Describe,
    /// Make a capture ready.
    Begin {
        /// The capture target, by name.
        target: String,
        /// Bytes of a frame that are copied, at most.
        snaplen: u32,
        /// Frames a second and direction that are copied, at most.
        rate: u32,
    },
    /// The rings are mapped: turn it on.
    Go,
    /// Turn it off; the rings stay.
    Stop,
}

/// The node's answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// To `Describe`.
    Scene(Scene),
    /// To `Begin`: number of the tap and its interface. Descriptors: the programs' ring, the
    /// switch's memory.
    Ready {
        /// Which ring of the switch's memory.
        tap: u32,
        /// The captured interfaces.
        interfaces: Vec<Named>,
    },
    /// To `Go`.
    Going,
    /// To `Stop`: frames that were not copied.
    Stopped {
        /// They were over the rate.
        lost_rate: u64,
        /// The rings were full.
        lost_room: u64,
    },
    /// It cannot be done, and why.
    Refused(String),
}
