//! The guarantees of a slice on the node, and its limits.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::decode::{Context, Decode, Fields, entries};
use crate::quantity::{Bytes, Cores};
use crate::source::At;
use crate::tree::Node;
use crate::values::{Name, Rate};

/// A slice's share of the node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Reservation {
    /// Its shares of ports, by port.
    #[serde(skip_serializing_if = "Parts::is_empty")]
    #[schemars(with = "Option<Parts>")]
    pub ports: Parts,
    /// CPU time of the slice's isolated routers, in cores: it is both guaranteed and the limit. The
    /// least is 0.2. Default: the unreserved rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<At<Cores>>,
    /// Highest memory of the slice's isolated routers without their packet pools, at least 4MB.
    /// Default: each router's own limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<At<Bytes>>,
    /// Highest number of slots in the packet pools of the slice's routers together. Default:
    /// unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots: Option<At<u32>>,
    /// Highest number of numbered queues of the slice's routers. Default: 65535.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queues: Option<At<u32>>,
    /// Number of filter entries: it is both guaranteed and the limit. A rule with a range of ports
    /// may need several entries, and a rule without addresses needs one for each version of IP.
    /// Default: the unreserved rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filters: Option<At<u32>>,
}

/// Shares of ports, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parts(pub Vec<(At<Name>, At<Part>)>);

/// A slice's share of a port, counted in Ethernet frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Part {
    /// Its guaranteed rate: `300Mb/s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guarantee: Option<At<Rate>>,
    /// The slice's share, by weight, of the rate that no guarantee uses. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub weight: Option<At<u16>>,
    /// The slice's highest rate, even while no other slice sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<At<Rate>>,
    /// The slice's highest received rate. Packets above it are dropped before they cost other
    /// slices anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_in: Option<At<Rate>>,
}

impl Part {
    /// Whether it reserves a sending rate.
    pub fn sends(&self) -> bool {
        self.guarantee.is_some() || self.weight.is_some() || self.cap.is_some()
    }
}

impl Reservation {
    /// The part of a port.
    pub fn port(&self, name: &str) -> Option<&At<Part>> {
        self.ports.0.iter().find(|(port, _)| &***port == name).map(|(_, part)| part)
    }
}

impl Parts {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Decode for Reservation {
    fn decode(node: &Node, context: &mut Context) -> Option<Reservation> {
        let mut fields = Fields::open(node, "a reservation", context)?;
        let ports = fields.optional("ports").unwrap_or_default();
        let cpu = fields.optional("cpu");
        let memory = fields.optional("memory");
        let slots = fields.optional("slots");
        let queues = fields.optional("queues");
        let filters = fields.optional("filters");
        fields.close();
        Some(Reservation { ports, cpu, memory, slots, queues, filters })
    }
}

impl Decode for Parts {
    fn decode(node: &Node, context: &mut Context) -> Option<Parts> {
        entries(node, context, "a mapping from ports to parts of them").map(Parts)
    }
}

impl Decode for Part {
    fn decode(node: &Node, context: &mut Context) -> Option<Part> {
        let mut fields = Fields::open(node, "a part of a port", context)?;
        let guarantee = fields.optional("guarantee");
        let weight = fields.optional("weight");
        let cap = fields.optional("cap");
        let rate_in = fields.optional("rate_in");
        fields.close();
        Some(Part { guarantee, weight, cap, rate_in })
    }
}

impl Serialize for Parts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(port, part)| (port, part)))
    }
}

impl JsonSchema for Parts {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Parts".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "object",
            "propertyNames": generator.subschema_for::<Name>(),
            "additionalProperties": generator.subschema_for::<Part>(),
        })
    }
}
