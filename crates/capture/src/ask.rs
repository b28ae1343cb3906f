//! The protocol between `europa capture` and the node, on a socket of its own.

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
    /// Turn the capture off; the rings remain.
    Stop,
}

/// The node's answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The answer to `Describe`.
    Scene(Scene),
    /// To `Begin`: number of the tap and its interface. Descriptors: the programs' ring, the
    /// switch's memory.
    Ready {
        /// Which ring of the switch's memory.
        tap: u32,
        /// The captured interfaces.
        interfaces: Vec<Named>,
    },
    /// The answer to `Go`.
    Going,
    /// The answer to `Stop`: frames that were not copied.
    Stopped {
        /// Frames beyond the rate.
        lost_rate: u64,
        /// The rings were full.
        lost_room: u64,
    },
    /// The request failed, with the reason.
    Refused(String),
}
