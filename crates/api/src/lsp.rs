//! The answers of `/v1/lsps`: flows and their paths.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Flows and their paths.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LspList {
    /// Flows.
    pub flows: Vec<FlowPath>,
    /// The hops of flows' paths at each router.
    pub lsps: Vec<LspAt>,
    /// The reservations on interfaces that signal.
    pub interfaces: Vec<Reservable>,
}

/// A flow and its path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowPath {
    /// The flow's name.
    pub name: String,
    /// Its slice.
    pub slice: String,
    /// `up` or `down`.
    pub state: String,
    /// Number of the path that carries the flow, or that carried it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lsp: Option<u16>,
    /// Number of the path that is being signalled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u16>,
    /// Routers on the path, as far as they are known.
    pub hops: Vec<PathHop>,
    /// The reason why the flow is down, or lacks its desired path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<PathError>,
}

/// A router on a path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PathHop {
    /// The router's name within the slice, or its address.
    pub router: String,
    /// The label of arriving packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_in: Option<u32>,
    /// The label of departing packets; 3 means no label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_out: Option<u32>,
    /// The interface by which packets leave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// The next router's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<IpAddr>,
}

/// An error of RSVP-TE, with IANA's numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PathError {
    /// The router that found the error: its name within the slice, or its address.
    pub router: String,
    /// The error code.
    pub code: u8,
    /// The error value.
    pub value: u16,
    /// In words.
    pub message: String,
}

/// A path at one router.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LspAt {
    /// The slice.
    pub slice: String,
    /// Address of its head.
    pub from: IpAddr,
    /// Address of its tail.
    pub to: IpAddr,
    /// The tunnel's number at its head.
    pub tunnel: u16,
    /// The path's number in the tunnel.
    pub lsp: u16,
    /// Bits a second that are reserved.
    pub bandwidth: u64,
    /// The router's hop of the path.
    pub hop: PathHop,
}

/// The reservations on an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reservable {
    /// `SLICE/ROUTER.INTERFACE`.
    pub name: String,
    /// Bits a second that flows may reserve.
    pub bandwidth: u64,
    /// Bits a second that are left.
    pub left: u64,
}
