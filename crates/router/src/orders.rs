//! The node's orders to a router, and a router's answers.

use std::net::Ipv4Addr;

use europa_pool::Geometry;
use serde::{Deserialize, Serialize};

/// Version of [`Order`] and [`Answer`]. Increase it at each change of them, or of a type inside
/// them.
pub const ORDERS_VERSION: u32 = 1;

/// An order. Each is answered by one [`Answer`], in order. The first is [`Order::Start`], or
/// any number of [`Order::Check`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Order {
    /// The first order: the settings. Descriptors: those of [`START_DESCRIPTORS`], and one for each
    /// grant.
    Start(Box<Start>),
    /// Tests a configuration without changing the router. Only before [`Order::Start`], for a
    /// process that never gets packets. Descriptors: a substitute for each grant.
    Check(Box<Start>),
    /// Runs another configuration from now on; elements of the same name and class take over the
    /// state of the old ones. If the new configuration is invalid, the old one continues.
    /// Descriptors: one for each grant.
    Swap {
        /// The configuration.
        configuration: String,
        /// Its file, for messages.
        file: String,
    },
    /// The previous node's connector for the router's elements no longer exists. Descriptors: one
    /// for each name, which elements may request again.
    Grant(Vec<String>),
    /// From now on, also take orders from the socket sent with this order: its owner changes tables
    /// while the node sends other orders.
    Admit,
    /// Reads a handler, by `element.handler`.
    Read {
        /// Its path.
        path: String,
        /// Its parameter, often empty.
        parameter: String,
    },
    /// Report the places of the router's packets: a [`Ledger`](crate::Ledger) as JSON.
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
    /// The router's interfaces, in the pool's order.
    pub interfaces: Vec<Interface>,
    /// The worker whose sleep flag the router checks.
    pub worker: u32,
    /// Never sleep.
    pub busy: bool,
    /// Its Click configuration.
    pub configuration: String,
    /// The configuration's file, for messages.
    pub file: String,
    /// Files and sockets that elements may use, by name.
    pub grants: Vec<String>,
    /// The router's limits, if it runs inside the switch.
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
    /// Nanoseconds of each turn of the router.
    pub budget_ns: u64,
    /// Bytes of memory, without the router's pool and its tables of routes.
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

/// Descriptors of [`Order::Start`], in this order, followed by those of grants. The next node
/// connects to the last one.
pub const START_DESCRIPTORS: [&str; 6] =
    ["packet pool", "waker", "wake pipe", "doorbell", "status page", "listening socket"];

/// A router's answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The order was carried out; for a read, the value.
    Done(String),
    /// The order was refused, and changed nothing.
    Refused(String),
    /// The value has this number of bytes, which is too long for a message.
    TooLong(usize),
    /// A router inside the switch has ended, with the reason; this answers no order.
    Ended(String),
}
