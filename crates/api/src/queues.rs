//! Queues of an interface on a port: their lengths, shares and drop policies.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::decode::{Context, Decode, Fields, entries, word};
use crate::quantity::{Bytes, Share, Time};
use crate::source::At;
use crate::tree::{Node, Value};
use crate::values::Rate;

/// Queues by number, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Queues(pub Vec<(At<QueueNumber>, At<Queue>)>);

/// The number of a queue, unique in its slice; 0 is an interface's own queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueNumber(pub u16);

/// A queue in which a router's packets wait for a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Queue {
    /// The queue's weight among the router's queues. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub weight: Option<At<u16>>,
    /// The queue's guaranteed rate, which is part of its slice's guarantee.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guarantee: Option<At<Rate>>,
    /// Its highest rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<At<Rate>>,
    /// Most packets that wait in the queue. Default: 1024.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub packets: Option<At<u32>>,
    /// Most bytes that wait in the queue, such as `300kB`. Default: unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<At<Bytes>>,
    /// The packets that are dropped. Default: `tail`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<At<QueuePolicy>>,
    /// Whether `red` and `codel` mark packets that support ECN (RFC 3168), and drop only the
    /// others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<At<bool>>,
    /// `codel`: the target of the waiting time. Default: 5ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<At<Time>>,
    /// `codel`: time for which all packets may wait longer than `target` before one is dropped.
    /// Default: 100ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<At<Time>>,
    /// `red`: mean length of the queue from which on packets are dropped. Default: 30kB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<At<Bytes>>,
    /// `red`: mean length at which the share `probability` is dropped. Default: three times `min`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<At<Bytes>>,
    /// `red`: share of packets that are dropped when the mean length is `max`; above `max` it grows
    /// to all packets. Default: `10%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<At<Share>>,
}

/// The packets that are dropped when a queue is full, or earlier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QueuePolicy {
    /// The arriving packet.
    #[default]
    Tail,
    /// The packet that has waited longest.
    Head,
    /// Arriving packets; the probability grows with the average length (random early detection).
    Red,
    /// Leaving packets, if all packets have waited too long for some time (RFC 8289).
    Codel,
}

impl Queue {
    /// Most packets of a queue without settings.
    pub const DEFAULT_PACKETS: u32 = 1024;

    /// Its policy.
    pub fn policy(&self) -> QueuePolicy {
        self.policy.map_or(QueuePolicy::default(), |policy| policy.value)
    }

    /// Whether the queue has a drop policy with settings.
    pub fn drops(&self) -> bool {
        self.packets.is_some() || self.bytes.is_some() || self.policy.is_some()
    }
}

impl Queues {
    /// Whether there are no queues.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Decode for Queues {
    fn decode(node: &Node, context: &mut Context) -> Option<Queues> {
        entries(node, context, "a mapping from numbers to queues").map(Queues)
    }
}

impl Decode for QueueNumber {
    fn decode(node: &Node, context: &mut Context) -> Option<QueueNumber> {
        // In JSON, and so in stored documents, all keys are texts.
        let number = match &node.value {
            Value::Text(text) => text.parse().ok().map(Value::Integer),
            _ => None,
        };
        let node = Node::new(number.unwrap_or(node.value.clone()), node.span.clone());
        u16::decode(&node, context).map(QueueNumber)
    }
}

impl Decode for QueuePolicy {
    fn decode(node: &Node, context: &mut Context) -> Option<QueuePolicy> {
        let words = [
            ("tail", QueuePolicy::Tail),
            ("head", QueuePolicy::Head),
            ("red", QueuePolicy::Red),
            ("codel", QueuePolicy::Codel),
        ];
        word(node, context, "a policy", &words)
    }
}

impl Decode for Queue {
    fn decode(node: &Node, context: &mut Context) -> Option<Queue> {
        let mut fields = Fields::open(node, "a queue", context)?;
        let queue = Queue {
            weight: fields.optional("weight"),
            guarantee: fields.optional("guarantee"),
            cap: fields.optional("cap"),
            packets: fields.optional("packets"),
            bytes: fields.optional("bytes"),
            policy: fields.optional("policy"),
            ecn: fields.optional("ecn"),
            target: fields.optional("target"),
            interval: fields.optional("interval"),
            min: fields.optional("min"),
            max: fields.optional("max"),
            probability: fields.optional("probability"),
        };
        fields.close();
        Some(queue)
    }
}

impl Serialize for QueueNumber {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl Serialize for Queues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(number, queue)| (number, queue)))
    }
}

impl JsonSchema for Queues {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Queues".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "object",
            "propertyNames": { "pattern": "^[0-9]{1,5}$" },
            "additionalProperties": generator.subschema_for::<Queue>(),
        })
    }
}
