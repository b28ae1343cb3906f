//! `kind: port`: a network device that Europa owns.

use schemars::JsonSchema;
use serde::Serialize;

use crate::decode::{Context, Decode, Fields, word};
use crate::source::At;
use crate::tree::Node;
use crate::values::{Name, Rate};

/// A network device of the node that Europa owns.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Port {
    /// Its name, which interfaces use.
    pub name: At<Name>,
    /// The node of a cluster that the port is on. Required in a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<At<Name>>,
    /// The Linux device: a NIC, veth or tap.
    pub device: At<String>,
    /// The network namespace where the device is, by name or path. Default: Europa's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<At<String>>,
    /// The highest sending rate, such as `10Gb/s`, counted in Ethernet frames. Slices share it by
    /// their reservations. Default: that of the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<At<Rate>>,
    /// Longest packet, in bytes, without the Ethernet header. Default: the device's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<At<u32>>,
    /// Where frames are received.
    #[serde(skip_serializing_if = "Receive::is_auto")]
    #[schemars(with = "Option<Receive>")]
    pub receive: Receive,
}

/// The place where a port's frames are received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Receive {
    /// By tc on a veth whose peer can be reached, unless many frames are live XDP frames; by XDP on
    /// other devices.
    #[default]
    Auto,
    /// In the driver, before Linux makes a socket buffer. On a veth the sender then splits every
    /// packet into segments.
    Xdp,
    /// In the network stack: senders on this machine pass on packets of up to 64 kB, which Europa
    /// splits.
    Tc,
}

impl Receive {
    fn is_auto(&self) -> bool {
        *self == Receive::Auto
    }
}

impl Decode for Receive {
    fn decode(node: &Node, context: &mut Context) -> Option<Receive> {
        let words = [("auto", Receive::Auto), ("xdp", Receive::Xdp), ("tc", Receive::Tc)];
        word(node, context, "a way to receive", &words)
    }
}

impl Decode for Port {
    fn decode(node: &Node, context: &mut Context) -> Option<Port> {
        let mut fields = Fields::open(node, "a port", context)?;
        fields.take("kind");
        let name = fields.required("name");
        let node = fields.optional("node");
        let device = fields.required("device");
        let namespace = fields.optional("namespace");
        let rate = fields.optional("rate");
        let mtu = fields.optional("mtu");
        let receive = fields.optional("receive").unwrap_or_default();
        fields.close();
        Some(Port { name: name?, node, device: device?, namespace, rate, mtu, receive })
    }
}
