//! The events of a trace.

use serde::{Deserialize, Serialize};

/// Something that happened to a packet that is followed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Which packet, counted from 1.
    pub packet: u32,
    /// When, on the clock of the round, in nanoseconds since 1970.
    pub at_ns: u64,
    /// The event.
    pub what: What,
}

/// The event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// It came, and the filter wants it.
    Received {
        /// Name of the interface.
        interface: String,
        /// Its first bytes, in hexadecimal.
        bytes: String,
    },
    /// An element copied it or made it because of another packet.
    Made {
        /// That packet.
        from: u32,
        /// Name of the element.
        element: String,
        /// Its first bytes, in hexadecimal.
        bytes: String,
    },
    /// It went into an element.
    Element(Hop),
    /// It left by an interface.
    Sent {
        /// Name of the interface.
        interface: String,
        /// Its first bytes, in hexadecimal.
        bytes: String,
    },
    /// It was given to the router's own Linux.
    Host {
        /// Name of the interface.
        interface: String,
    },
    /// The element that kept it has dropped it.
    Gone,
}

/// One element on a packet's way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// Name of the element.
    pub name: String,
    /// Its class.
    pub class: String,
    /// By which input; none if it was asked for the packet.
    pub input: Option<u32>,
    /// Its result there.
    pub fate: Fate,
    /// Its first bytes before, in hexadecimal.
    pub before: String,
    /// And after, if they are others.
    pub after: Option<String>,
    /// The values of the element's tables and counters: look-ups, causes of a drop.
    pub notes: Vec<String>,
}

/// The result for a packet at an element.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// It went on by this output.
    Output(u32),
    /// By this output, to which nothing is connected: dropped.
    Unconnected(u32),
    /// The element has kept it, in a queue or until it knows more.
    Kept,
    /// It left the router; the next event says where.
    Left,
    /// Dropped.
    Dropped,
}

/// The JSON for a reader of the `trace` handler.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetched {
    /// Packets that may still be chosen.
    pub left: u32,
    /// Packets that are followed now.
    pub under_way: u32,
    /// Events for which there was no room.
    pub lost: u64,
    /// The events since the last time.
    pub events: Vec<Event>,
}
