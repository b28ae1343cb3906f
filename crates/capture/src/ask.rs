//! The protocol between `europa capture` and the node, on a separate socket.

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
        /// Most bytes of a frame that are copied.
        snaplen: u32,
        /// Most frames a second and direction that are copied.
        rate: u32,
    },
    /// The rings are mapped: start the capture.
    Go,
    /// Stop the capture; the rings remain.
    Stop,
}

/// The node's answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The answer to `Describe`.
    Scene(Scene),
    /// Answers `Begin`: number of the tap and its interface. Descriptors: the programs' ring, the
    /// switch's memory.
    Ready {
        /// The number of the ring in the switch's memory.
        tap: u32,
        /// The captured interfaces.
        interfaces: Vec<Named>,
    },
    /// The answer to `Go`.
    Going,
    /// Answers `Stop`: number of frames that were not copied.
    Stopped {
        /// Frames beyond the rate.
        lost_rate: u64,
        /// The rings were full.
        lost_room: u64,
    },
    /// The request failed, with the reason.
    Refused(String),
}
