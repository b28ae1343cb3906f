//! `kind: port`: a network device that Europa owns.

use schemars::JsonSchema;
use serde::Serialize;

use crate::decode::{Context, Decode, Fields};
use crate::source::At;
use crate::tree::Node;
use crate::values::{Name, Rate};

/// A network device of the node that Europa owns.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Port {
    /// What interfaces call it.
    pub name: At<Name>,
    /// The Linux device: a NIC, veth or tap.
    pub device: At<String>,
    /// The network namespace where the device is, by name or path. Default: Europa's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<At<String>>,
    /// What the port sends at most, like `10Gb/s`, counted in Ethernet frames. Slices share it
    /// as their reservations say. Default: what the device takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<At<Rate>>,
    /// Longest packet, in bytes, without the Ethernet header. Default: the device's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<At<u32>>,
}

impl Decode for Port {
    fn decode(node: &Node, context: &mut Context) -> Option<Port> {
        let mut fields = Fields::open(node, "a port", context)?;
        fields.take("kind");
        let name = fields.required("name");
        let device = fields.required("device");
        let namespace = fields.optional("namespace");
        let rate = fields.optional("rate");
        let mtu = fields.optional("mtu");
        fields.close();
        Some(Port { name: name?, device: device?, namespace, rate, mtu })
    }
}
