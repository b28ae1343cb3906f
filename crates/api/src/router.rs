//! `kind: router`: a virtual router of a slice.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::decode::{Context, Decode, Fields, entries, word};
use crate::fast_path::{FastPath, Route};
use crate::grant::Grant;
use crate::interface::Interface;
use crate::problem::Problem;
use crate::quantity::{Bytes, Time};
use crate::slow_path::SlowPath;
use crate::source::At;
use crate::tree::{Node, Value};
use crate::values::{InterfaceName, Mac, Name};

/// A virtual router of a slice.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Router {
    /// Its name, unique in its slice.
    pub name: At<Name>,
    /// The slice that owns it.
    pub slice: At<Name>,
    /// The node of a cluster that the router is on. Default: the node of its ports; without ports,
    /// the node of a router that it is linked to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<At<Name>>,
    /// Whether another node of the cluster starts the router when its own node has ended. Default:
    /// true for a router that is not bound to a machine: it has no port without `standby`, no `node`,
    /// `uplink` or grant, and no flow names it. Without a cluster it has no effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub takeover: Option<At<bool>>,
    /// The behaviour of its ports while its node has no lease in the cluster. Default: `stop` with a
    /// `standby`, otherwise `keep`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_lease: Option<At<WithoutLease>>,
    /// Where its fast path runs.
    #[schemars(with = "Option<Run>")]
    pub run: Run,
    /// Its limits inside the switch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline: Option<At<Inline>>,
    /// The router's interfaces by name, in the order in which a program finds them in the pool.
    pub interfaces: Interfaces,
    /// The program that handles the router's packets.
    pub fast_path: At<FastPath>,
    /// The router's own Linux, where routing protocols and other programs run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_path: Option<At<SlowPath>>,
    /// Files and sockets of the node that the router's elements may use, each for one element.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<Grant>>")]
    pub grants: Vec<At<Grant>>,
    /// Its packet memory.
    #[schemars(with = "Option<Pool>")]
    pub pool: Pool,
    /// How the router's process waits for packets.
    #[schemars(with = "Option<Poll>")]
    pub poll: Poll,
    /// The CPUs that the router's process may use. Default: all CPUs that do not receive many
    /// packets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<u16>>")]
    pub cpu: Vec<At<u16>>,
}

/// The behaviour of a router's ports while its node has no lease in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WithoutLease {
    /// They drop all frames, in both directions: another node may run the router.
    Stop,
    /// They carry frames. No other node takes the router over automatically.
    Keep,
}

/// Interfaces in the order of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interfaces(pub Vec<(At<InterfaceName>, At<Interface>)>);

/// Where a fast path runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Run {
    /// In a separate process.
    #[default]
    Isolated,
    /// Inside the switch, for configurations of Europa's own elements with bounded work.
    Inline,
    /// In the kernel, where packets arrive, for an XDP program.
    Kernel,
}

/// The limits of a router inside the switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Inline {
    /// Time of each turn of the router, 1us to 10ms. A turn handles up to 256 packets of each
    /// interface. The next turn continues with the rest. Default: 100us.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<At<Time>>,
    /// Memory of the router without its packet pool and its tables of routes, 64kB to 1GB. Default:
    /// 4MB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<At<Bytes>>,
}

impl Inline {
    /// Default budget of a turn in nanoseconds.
    pub const DEFAULT_BUDGET_NS: u64 = 100_000;
    /// Default bytes of memory.
    pub const DEFAULT_MEMORY_BYTES: u64 = 4_000_000;
}

/// How a router's process waits for packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Poll {
    /// Polls while there is work, then yields, then sleeps.
    #[default]
    Adaptive,
    /// The process and the switch's worker that serves it poll and never sleep: this uses two whole
    /// CPUs for the least latency.
    Busy,
}

/// A router's packet memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Pool {
    /// Number of packets that the pool holds: a power of two.
    #[schemars(with = "Option<u32>")]
    pub slots: At<u32>,
    /// Size of a slot.
    #[schemars(with = "Option<SlotBytes>")]
    pub slot_bytes: At<SlotBytes>,
}

/// Size of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlotBytes {
    /// The smaller size, if the interfaces' MTUs fit into it; otherwise the larger one.
    #[default]
    Auto,
    /// 2048 bytes.
    Small,
    /// 16384 bytes, for jumbo frames.
    Large,
}

impl Pool {
    /// Default number of slots of a pool.
    pub const DEFAULT_SLOTS: u32 = 8192;
}

impl Default for Pool {
    fn default() -> Pool {
        let place = Default::default();
        Pool {
            slots: At { value: Pool::DEFAULT_SLOTS, place },
            slot_bytes: At { value: SlotBytes::Auto, place },
        }
    }
}

impl Router {
    /// `slice/router`, the router's name in the whole node.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.slice, self.name)
    }

    /// Whether its ports drop all frames while its node has no lease.
    pub fn stops_without_lease(&self) -> bool {
        match &self.without_lease {
            Some(said) => said.value == WithoutLease::Stop,
            None => self.interfaces.0.iter().any(|(_, interface)| interface.standby.is_some()),
        }
    }

    /// An interface and its index, found by name.
    pub fn interface(&self, name: &str) -> Option<(usize, &Interface)> {
        let position = self.interfaces.0.iter().position(|(n, _)| &***n == name)?;
        self.interfaces.0.get(position).map(|(_, interface)| (position, &interface.value))
    }

    /// The Ethernet address of an interface: the configured address, or one generated from the
    /// names. Interfaces that share their port's own address do not use it.
    pub fn mac(&self, name: &str, interface: &Interface) -> Mac {
        match interface.written_mac() {
            Some(mac) => mac.value,
            None => Mac::generated(&format!("{}/{}/{name}", self.slice, self.name)),
        }
    }

    /// The index of the interface that a route leaves through.
    pub fn route_interface(&self, route: &Route) -> Option<usize> {
        match (&route.interface, &route.via) {
            (Some(name), _) => self.interface(name).map(|(index, _)| index),
            (None, Some(via)) => {
                self.interfaces.0.iter().position(|(_, interface)| interface.reaches(via.value))
            }
            (None, None) => None,
        }
    }
}

impl Interface {
    /// Whether an address is on one of the interface's own subnets.
    pub fn reaches(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|own| own.contains(&address))
    }
}

impl Decode for Router {
    fn decode(node: &Node, context: &mut Context) -> Option<Router> {
        let mut fields = Fields::open(node, "a router", context)?;
        fields.take("kind");
        let name = fields.required("name");
        let slice = fields.required("slice");
        let node = fields.optional("node");
        let takeover = fields.optional("takeover");
        let without_lease = fields.optional("without_lease");
        let run = fields.optional("run").unwrap_or_default();
        let inline = fields.optional("inline");
        let interfaces = fields.required("interfaces");
        let fast_path = fields.required("fast_path");
        let slow_path: Option<At<SlowPath>> = fields.optional("slow_path");
        let grants = fields.list("grants");
        let pool = fields.optional("pool").unwrap_or_default();
        let poll = fields.optional("poll").unwrap_or_default();
        let cpu = fields.list("cpu");
        fields.close();
        Some(Router {
            name: name?,
            slice: slice?,
            node,
            takeover,
            without_lease,
            run,
            inline,
            interfaces: interfaces?,
            fast_path: fast_path?,
            slow_path,
            grants,
            pool,
            poll,
            cpu,
        })
    }
}

impl Decode for Interfaces {
    fn decode(node: &Node, context: &mut Context) -> Option<Interfaces> {
        entries(node, context, "a mapping from names to interfaces").map(Interfaces)
    }
}

impl Serialize for Interfaces {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, interface)| (name, interface)))
    }
}

impl JsonSchema for Interfaces {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Interfaces".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "object",
            "propertyNames": generator.subschema_for::<InterfaceName>(),
            "maxProperties": europa_pool::layout::MAX_INTERFACES,
            "additionalProperties": generator.subschema_for::<Interface>(),
        })
    }
}

impl Decode for Run {
    fn decode(node: &Node, context: &mut Context) -> Option<Run> {
        word(
            node,
            context,
            "a place to run",
            &[("isolated", Run::Isolated), ("inline", Run::Inline), ("kernel", Run::Kernel)],
        )
    }
}

impl Decode for WithoutLease {
    fn decode(node: &Node, context: &mut Context) -> Option<WithoutLease> {
        let all = [("stop", WithoutLease::Stop), ("keep", WithoutLease::Keep)];
        word(node, context, "what ports do without a lease", &all)
    }
}

impl Decode for Inline {
    fn decode(node: &Node, context: &mut Context) -> Option<Inline> {
        let mut fields = Fields::open(node, "what a router may take of the switch", context)?;
        let (budget, memory) = (fields.optional("budget"), fields.optional("memory"));
        fields.close();
        Some(Inline { budget, memory })
    }
}

impl Decode for Poll {
    fn decode(node: &Node, context: &mut Context) -> Option<Poll> {
        word(node, context, "a way to poll", &[("adaptive", Poll::Adaptive), ("busy", Poll::Busy)])
    }
}

impl Decode for Pool {
    fn decode(node: &Node, context: &mut Context) -> Option<Pool> {
        let mut fields = Fields::open(node, "a pool", context)?;
        let default = Pool::default();
        let slots = fields.optional("slots").unwrap_or(default.slots);
        let slot_bytes = fields.optional("slot_bytes").unwrap_or(default.slot_bytes);
        fields.close();
        Some(Pool { slots, slot_bytes })
    }
}

impl Decode for SlotBytes {
    fn decode(node: &Node, context: &mut Context) -> Option<SlotBytes> {
        match &node.value {
            Value::Text(text) if text == "auto" => Some(SlotBytes::Auto),
            Value::Integer(2048) => Some(SlotBytes::Small),
            Value::Integer(16384) => Some(SlotBytes::Large),
            other => {
                let message =
                    format!("a slot has auto, 2048 or 16384 bytes, not {}", other.describe());
                context.report(Problem::new(context.place(node), message).label("no such size"));
                None
            }
        }
    }
}

impl Serialize for SlotBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            SlotBytes::Auto => serializer.serialize_str("auto"),
            SlotBytes::Small => serializer.serialize_u32(2048),
            SlotBytes::Large => serializer.serialize_u32(16384),
        }
    }
}

impl JsonSchema for SlotBytes {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SlotBytes".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "enum": ["auto", 2048, 16384] })
    }
}
