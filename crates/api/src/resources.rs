//! Resources of a slice, used and at most: types of the REST interface.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine_port::{PortNumber, PortProtocol};

/// The ports of the machine that a slice reserves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MachinePortList {
    /// One for each reservation, in the order of the document.
    pub items: Vec<MachinePortState>,
    /// How the node notices what programs bind: `hook` or `look` (once a second).
    pub noticed_by: String,
}

/// A port of the machine that a slice reserves, and where its packets go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MachinePortState {
    /// Its protocol.
    pub protocol: PortProtocol,
    /// Its number; 0 if the node has no free one.
    pub port: u16,
    /// The node has chosen the number.
    pub any: bool,
    /// Addresses of the node; empty: all.
    pub addresses: Vec<IpAddr>,
    /// The router, by its name in the slice, whose slow path gets the packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub router: Option<String>,
    /// The port there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<u16>,
    /// The decider of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<MappedBy>,
    /// Why the port is not the slice's now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The decider of the place that packets to a port go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MappedBy {
    /// The document of the router.
    Document,
    /// A request.
    Request,
    /// A program that has bound the port inside.
    Program,
}

/// The body of `POST /v1/slices/SLICE/machine-ports`: packets to a reserved port go there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MachinePortRequest {
    /// Its protocol.
    pub protocol: PortProtocol,
    /// A number that the slice reserves, or `any` for any free reservation.
    pub port: PortNumber,
    /// A router of the slice with an uplink.
    pub router: String,
    /// The port in its slow path.
    pub inside: u16,
}

/// The resources of a slice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SliceResources {
    /// The slice.
    pub slice: String,
    /// One for each kind of resource.
    pub items: Vec<SliceResource>,
}

/// A resource of a slice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SliceResource {
    /// `routers`, `machine_ports`, `slots`, `queues`, `filters`, `flows`, `memory`, `cpu`, or
    /// `rate` and `guarantee` of a port.
    pub name: String,
    /// The port, for rates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// `count`, `bytes`, `cores` or `bits/s`.
    pub unit: String,
    /// The used amount; missing if that is not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<f64>,
    /// The highest amount; missing if it has no limit of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<f64>,
}
