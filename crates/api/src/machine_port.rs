//! Ports of the machine: TCP and UDP ports of the node's addresses that a slice reserves, and where
//! in its slow paths their packets go.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::decode::{Context, Decode, Fields, word};
use crate::problem::Problem;
use crate::source::At;
use crate::tree::{Node, Value};

/// Most ports of the machine that a slice reserves.
pub const MOST_MACHINE_PORTS: usize = 64;

/// The protocol of a port of the machine.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum PortProtocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl PortProtocol {
    /// Its word in documents and rules.
    pub fn word(self) -> &'static str {
        match self {
            PortProtocol::Tcp => "tcp",
            PortProtocol::Udp => "udp",
        }
    }

    /// Its number in IP headers.
    pub fn number(self) -> u8 {
        match self {
            PortProtocol::Tcp => 6,
            PortProtocol::Udp => 17,
        }
    }
}

/// A number of a port, or the choice of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PortNumber {
    /// The node chooses a free one, and keeps it.
    Any,
    /// This one, 1 to 65535.
    Fixed(u16),
}

impl std::fmt::Display for PortNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PortNumber::Any => f.write_str("any"),
            PortNumber::Fixed(number) => number.fmt(f),
        }
    }
}

/// A port of the machine that a slice reserves. No program of the machine and no other slice can
/// have it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct MachinePort {
    /// Its protocol.
    pub protocol: At<PortProtocol>,
    /// Its number, or `any`: the node chooses one and keeps it.
    pub port: At<PortNumber>,
    /// Addresses of the node. Default: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>")]
    pub addresses: Vec<At<IpAddr>>,
}

/// Where packets to a port of the machine go: one that the router's slice reserves.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct InsidePort {
    /// Its protocol.
    pub protocol: At<PortProtocol>,
    /// The port of the machine: a number, or `any` for one that the slice reserves as `any`.
    pub port: At<PortNumber>,
    /// The port in the slow path.
    #[schemars(range(min = 1))]
    pub inside: At<u16>,
}

impl Decode for PortProtocol {
    fn decode(node: &Node, context: &mut Context) -> Option<PortProtocol> {
        let words = [("tcp", PortProtocol::Tcp), ("udp", PortProtocol::Udp)];
        word(node, context, "a protocol with ports", &words)
    }
}

impl Decode for PortNumber {
    fn decode(node: &Node, context: &mut Context) -> Option<PortNumber> {
        let number = match &node.value {
            Value::Text(text) if text == "any" => return Some(PortNumber::Any),
            Value::Integer(number) => u16::try_from(*number).ok().filter(|number| *number > 0),
            _ => None,
        };
        if number.is_none() {
            let found = match &node.value {
                Value::Integer(number) => number.to_string(),
                other => other.describe(),
            };
            let message = format!("a port is `any` or 1 to 65535, not {found}");
            context.report(Problem::new(context.place(node), message).label("no port"));
        }
        number.map(PortNumber::Fixed)
    }
}

impl Decode for MachinePort {
    fn decode(node: &Node, context: &mut Context) -> Option<MachinePort> {
        let mut fields = Fields::open(node, "a port of the machine", context)?;
        let protocol = fields.required("protocol");
        let port = fields.required("port");
        let addresses = fields.list("addresses");
        fields.close();
        Some(MachinePort { protocol: protocol?, port: port?, addresses })
    }
}

impl Decode for InsidePort {
    fn decode(node: &Node, context: &mut Context) -> Option<InsidePort> {
        let mut fields = Fields::open(node, "a port of the machine in a slow path", context)?;
        let protocol = fields.required("protocol");
        let port = fields.required("port");
        let inside: Option<At<u16>> = fields.required("inside");
        if let Some(zero) = inside.filter(|inside| inside.value == 0) {
            let problem = Problem::new(zero.place, "there is no port 0").label("1 to 65535");
            fields.context.report(problem);
        }
        fields.close();
        Some(InsidePort { protocol: protocol?, port: port?, inside: inside? })
    }
}

impl Serialize for PortNumber {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            PortNumber::Any => serializer.serialize_str("any"),
            PortNumber::Fixed(number) => serializer.serialize_u16(*number),
        }
    }
}

impl<'de> Deserialize<'de> for PortNumber {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<PortNumber, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        let number = value.as_u64().and_then(|number| u16::try_from(number).ok());
        match (value.as_str(), number) {
            (Some("any"), _) => Ok(PortNumber::Any),
            (_, Some(number)) if number > 0 => Ok(PortNumber::Fixed(number)),
            _ => Err(serde::de::Error::custom(format!(
                "a port is \"any\" or 1 to 65535, not {value}"
            ))),
        }
    }
}

impl JsonSchema for PortNumber {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PortNumber".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "anyOf": [
                { "const": "any" },
                { "type": "integer", "minimum": 1, "maximum": 65535 },
            ]
        })
    }
}
