//! Orders from the node to a signaller, and messages from a signaller to the node.

use std::fmt;
use std::net::IpAddr;

use europa_label::WhileDown;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// An order from the node. The signaller carries orders out in sequence, and answers only
/// [`Order::Show`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Order {
    /// The first order. Its descriptor is the socket to which the next node connects.
    Start {
        /// The slice.
        slice: String,
        /// From the system's randomness.
        seed: u64,
    },
    /// Replace the routers for which the signaller works.
    Routers(Vec<RouterPlan>),
    /// Replace the flows.
    Flows(Vec<FlowPlan>),
    /// Exchange messages with this router's fast path. The descriptor is the socket.
    Attach(String),
    /// Report the present state; answered with [`Said::Shown`].
    Show,
}

/// The label that the last router of a path assigns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Egress {
    /// No label: the last but one router removes it.
    #[default]
    ImplicitNull,
    /// 0 of IPv4, 2 of IPv6.
    ExplicitNull,
    /// A separate label for each path.
    Label,
}

/// A router that signals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RouterPlan {
    /// Its name within the slice.
    pub name: String,
    /// The address that identifies it.
    pub address: IpAddr,
    /// All its addresses.
    pub addresses: Vec<IpAddr>,
    /// The interfaces on which the router signals, in the order in which its fast path counts them.
    pub interfaces: Vec<InterfacePlan>,
    /// Its routes.
    pub routes: Vec<RoutePlan>,
    /// R of RFC 2205, in nanoseconds.
    pub refresh_ns: u64,
    /// Interval of Hellos, in nanoseconds; 0 means that none are sent.
    pub hello_ns: u64,
    /// The label that the router assigns as the last router of a path.
    pub egress: Egress,
    /// Slots of its packet pool.
    pub slots: u32,
    /// The element of its fast path that has the label table.
    pub label_table: String,
}

impl RouterPlan {
    /// An address of the router of one family, the one that identifies it if it is of that family.
    pub fn address_of(&self, is_v4: bool) -> Option<IpAddr> {
        let all = std::iter::once(&self.address).chain(&self.addresses).copied();
        all.into_iter().find(|address| address.is_ipv4() == is_v4)
    }
}

/// An interface that signals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InterfacePlan {
    /// Its name.
    pub name: String,
    /// The interface's addresses with their subnets.
    pub addresses: Vec<IpNet>,
    /// Longest IP packet, in bytes.
    pub mtu: u32,
    /// The bandwidth that flows may reserve, in bytes a second.
    pub reservable: f64,
    /// Authenticates its messages.
    pub key: Option<KeyPlan>,
}

/// A key that the neighbours behind an interface share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyPlan {
    /// 48 bits that name it in messages.
    pub id: u64,
    /// The digest.
    pub digest: Digest,
    /// The secret.
    pub secret: Secret,
}

/// A secret. `Debug` hides it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(
    /// The characters.
    pub String,
);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Keyed digests (RFC 2747).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Digest {
    /// HMAC-MD5.
    Md5,
    /// HMAC-SHA1.
    Sha1,
    /// HMAC-SHA256.
    Sha256,
}

/// A route of a router.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoutePlan {
    /// Destinations.
    pub to: IpNet,
    /// The next router; `None` for routes to neighbours and for unreachable routes.
    pub via: Option<IpAddr>,
}

/// A flow that begins at a router of the slice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowPlan {
    /// Its name.
    pub name: String,
    /// The router where it begins.
    pub router: String,
    /// The address where it ends.
    pub destination: IpAddr,
    /// Its tunnel's number.
    pub tunnel: u16,
    /// The reserved bandwidth, in bytes a second; 0 reserves nothing and limits nothing.
    pub rate: f64,
    /// The bytes of a burst.
    pub burst: f64,
    /// Setup priority.
    pub setup: u8,
    /// Hold priority.
    pub hold: u8,
    /// The hops in order. The routes lead to a hop that is no neighbour. If empty, the path follows
    /// the routes.
    pub path: Vec<HopPlan>,
    /// The treatment of the flow's packets while it has no path.
    pub while_down: WhileDown,
    /// The destinations whose packets the flow carries.
    pub prefixes: Vec<IpNet>,
}

/// A hop that a flow's path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopPlan {
    /// An address of the router.
    pub address: IpAddr,
    /// Whether other routers may be between the former hop and this one.
    pub is_loose: bool,
}

/// A message from a signaller to the node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Said {
    /// The answer to [`Order::Show`].
    Shown(Box<Shown>),
    /// A router's fast path is gone: the node must attach it again.
    Detached(String),
    /// An event.
    Happened {
        /// The flow.
        flow: String,
        /// Whether it is a warning.
        is_warning: bool,
        /// The reason, in one word.
        reason: String,
        /// The message for users.
        message: String,
    },
}

/// The complete state of a signaller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// Flows that begin at routers of the slice.
    pub flows: Vec<FlowState>,
    /// LSPs of all routers of the slice.
    pub lsps: Vec<LspState>,
    /// Interfaces that signal.
    pub interfaces: Vec<InterfaceState>,
}

/// The state of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowState {
    /// Its name.
    pub name: String,
    /// Whether packets may enter it.
    pub is_up: bool,
    /// Number of the LSP that carries the flow.
    pub lsp: Option<u16>,
    /// Number of the LSP that will carry the flow.
    pub next: Option<u16>,
    /// The known routers on the flow's path, if its LSP is up.
    pub hops: Vec<HopState>,
    /// The reason why the flow has no path, or not the desired one.
    pub error: Option<ErrorState>,
}

/// A router on a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HopState {
    /// The router's name within the slice, or its address.
    pub router: String,
    /// The label of arriving packets; `None` at the head, and after the last label was removed.
    pub incoming: Option<u32>,
    /// The interface by which packets leave.
    pub interface: Option<String>,
    /// The next hop's address.
    pub via: Option<IpAddr>,
    /// The label of departing packets; 3 means no label.
    pub outgoing: Option<u32>,
}

/// An error, as an RFC numbers it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorState {
    /// The router that found the error: its name within the slice, or its address.
    pub router: String,
    /// The error code.
    pub code: u8,
    /// The error value.
    pub value: u16,
    /// In words.
    pub message: String,
}

/// An LSP at one router.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LspState {
    /// The router.
    pub router: String,
    /// The head.
    pub from: IpAddr,
    /// The tail.
    pub to: IpAddr,
    /// The tunnel's number at its head.
    pub tunnel: u16,
    /// The LSP's number in the tunnel.
    pub lsp: u16,
    /// Its hop at this router.
    pub hop: HopState,
    /// The reserved bandwidth, in bytes a second.
    pub rate: f64,
}

/// The reservations on an interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InterfaceState {
    /// The router.
    pub router: String,
    /// The interface.
    pub interface: String,
    /// The bandwidth that flows may reserve, in bytes a second.
    pub reservable: f64,
    /// The unreserved bandwidth, in bytes a second.
    pub left: f64,
}
