//! The node's orders to a router, and a router's answers.

use std::net::Ipv4Addr;

use europa_pool::Geometry;
use serde::{Deserialize, Serialize};

/// Version of [`Order`] and [`Answer`]. A change of them, or of a type inside them, adds one.
pub const ORDERS_VERSION: u32 = 1;

/// An order. Each is answered by one [`Answer`], in order. The first is [`Order::Start`], or
/// any number of [`Order::Check`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Order {
    /// The first: the settings. Descriptors: those of [`START_DESCRIPTORS`], and one for each
    /// grant.
    Start(Box<Start>),
    /// Says whether a configuration is right, and changes nothing. Only before
    /// [`Order::Start`]: it is for a process that will never have packets. Descriptors: one
    /// for each grant, of something that may be used up.
    Check(Box<Start>),
    /// Runs another configuration from now on; elements of the same name and class take over the
    /// state of the old ones. If it is wrong, the old one goes on. Descriptors: one for each grant.
    Swap {
        /// The configuration.
        configuration: String,
        /// Where it stands, for messages.
        file: String,
    },
    /// The previous node's connector for its elements has gone. Descriptors: one for each name,
    /// which elements may request again.
    Grant(Vec<String>),
    /// Take orders also from the socket that comes with this one: its holder changes tables while
    /// the node asks for other things.
    Admit,
    /// Reads a handler, by `element.handler`.
    Read {
        /// Its path.
        path: String,
        /// Its parameter, often empty.
        parameter: String,
    },
    /// Tells where its packets are: a [`Ledger`](crate::Ledger) as JSON.
    Ledger,
    /// Writes a handler, by `element.handler`.
    Write {
        /// Its path.
        path: String,
        /// The value to write.
        value: String,
    },
}

/// The settings of a router.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Start {
    /// Number of slots of its pool.
    pub slots: u32,
    /// Bytes of a slot.
    pub slot_bytes: u32,
    /// Its interfaces, in the pool's order.
    pub interfaces: Vec<Interface>,
    /// Worker whose sleep flag it looks at.
    pub worker: u32,
    /// Never sleep.
    pub busy: bool,
    /// Its Click configuration.
    pub configuration: String,
    /// Where the configuration stands, for messages.
    pub file: String,
    /// Files and sockets that elements may have, by name.
    pub grants: Vec<String>,
    /// It runs inside the switch, and has so much of it.
    pub inline: Option<Inline>,
}

impl Start {
    /// The settings of its pool.
    pub(crate) fn geometry(&self) -> Geometry {
        let interfaces = self.interfaces.len() as u32;
        Geometry { slots: self.slots, slot_bytes: self.slot_bytes, interfaces }
    }
}

/// The limits of a router inside the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inline {
    /// Nanoseconds of each of its turns.
    pub budget_ns: u64,
    /// Bytes of memory, beside its pool and its tables of routes.
    pub memory_bytes: u64,
}

/// One interface.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Interface {
    /// Name, as in the configuration.
    pub name: String,
    /// Its own Ethernet address.
    pub mac: [u8; 6],
    /// Largest payload of a frame, in bytes.
    pub mtu: u32,
    /// Its first IPv4 address.
    pub address: Option<Ipv4Addr>,
}

/// Descriptors that come with [`Order::Start`], in this order, before those of grants.
/// To the last of them the next node connects.
pub const START_DESCRIPTORS: [&str; 6] =
    ["packet pool", "waker", "wake pipe", "doorbell", "status page", "listening socket"];

/// A router's answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// It is done; for a read, the value.
    Done(String),
    /// It is not, and nothing has changed.
    Refused(String),
    /// The value has so many bytes, more than a message.
    TooLong(usize),
    /// Of a router inside the switch, and no answer to anything: why it has ended.
    Ended(String),
}
