//! The events of a trace.

use serde::{Deserialize, Serialize};

/// An event of a traced packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Which packet, counted from 1.
    pub packet: u32,
    /// Time of the event on the clock of the round, in nanoseconds since 1970.
    pub at_ns: u64,
    /// The event.
    pub what: What,
}

/// The event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// The packet arrived, and matches the filter.
    Received {
        /// Name of the interface.
        interface: String,
        /// The packet's first bytes, in hexadecimal.
        bytes: String,
    },
    /// An element copied the packet, or made it because of another packet.
    Made {
        /// The number of that packet.
        from: u32,
        /// Name of the element.
        element: String,
        /// The packet's first bytes, in hexadecimal.
        bytes: String,
    },
    /// An element handled it.
    Element(Hop),
    /// It left by an interface.
    Sent {
        /// Name of the interface.
        interface: String,
        /// The packet's first bytes, in hexadecimal.
        bytes: String,
    },
    /// The packet was given to the router's own Linux.
    Host {
        /// Name of the interface.
        interface: String,
    },
    /// The element that kept the packet has dropped it.
    Gone,
}

/// One element on a packet's path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// Name of the element.
    pub name: String,
    /// Its class.
    pub class: String,
    /// The input of the element; `None` if the packet was pulled.
    pub input: Option<u32>,
    /// Its result there.
    pub fate: Fate,
    /// The packet's first bytes before the element, in hexadecimal.
    pub before: String,
    /// The packet's first bytes after the element, if they have changed.
    pub after: Option<String>,
    /// The values of the element's tables and counters: look-ups, causes of a drop.
    pub notes: Vec<String>,
}

/// The result of an element for a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// It left by this output.
    Output(u32),
    /// The packet left by this unconnected output: it was dropped.
    Unconnected(u32),
    /// The element keeps the packet, in a queue or until an answer arrives.
    Kept,
    /// The packet left the router; the next event has the destination.
    Left,
    /// Dropped.
    Dropped,
}

/// The JSON for a reader of the `trace` handler.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetched {
    /// Number of packets that may still be chosen.
    pub left: u32,
    /// Packets that are followed now.
    pub under_way: u32,
    /// Events that were lost for lack of room.
    pub lost: u64,
    /// The events since the last time.
    pub events: Vec<Event>,
}
