//! `kind: flow`: traffic with a reservation along a label switched path.

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::Serialize;

use crate::decode::{Context, Decode, Fields, word};
use crate::quantity::Bytes;
use crate::source::At;
use crate::tree::Node;
use crate::values::{Name, Rate};

/// Traffic that a router of the slice sends along a label switched path. Every router on the path
/// reserves bandwidth for it. RSVP-TE signals the path.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Flow {
    /// Its name.
    pub name: At<Name>,
    /// The slice of the router where the flow begins.
    pub slice: At<Name>,
    /// The router where the flow begins: a name within the slice.
    pub from: At<Name>,
    /// The router where the flow ends: a router of the slice by name, or an address of any router.
    pub to: At<String>,
    /// Routers that the flow passes, in order: names within the slice, or addresses. Successive
    /// routers need not be neighbours: routes lead from one to the next. Default: the path of the
    /// routes; if that has no room, the shortest path with room over the slice's routers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>")]
    pub path: Vec<At<String>>,
    /// The bandwidth that every router on the path reserves, and the most that the flow may send.
    /// Default: no reservation and no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<At<Rate>>,
    /// Bytes that the flow may send at once. Default: 10 ms of `bandwidth`, at least 30kB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<At<Bytes>>,
    /// The flow's priority against existing flows, 0 (best) to 7. Default: 7.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 7))]
    pub setup: Option<At<u16>>,
    /// The flow's priority against new flows, 0 (best) to 7, no weaker than `setup`. Default: the
    /// same as `setup`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 7))]
    pub hold: Option<At<u16>>,
    /// The treatment of the flow's packets while it has no path. Default: `drop`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub while_down: Option<At<Fallback>>,
    /// Destinations whose packets belong to the flow. They precede the router's routes, but not its
    /// own subnets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>")]
    pub prefixes: Vec<At<IpNet>>,
}

/// The treatment of a flow's packets while it has no path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Fallback {
    /// They are dropped and counted.
    #[default]
    Drop,
    /// The packets follow the router's routes, without reservation.
    Route,
}

/// Smallest default burst, in bytes.
const LEAST_BURST_BYTES: u64 = 30_000;

impl Flow {
    /// The bytes that the flow may send at once.
    pub fn burst_bytes(&self) -> u64 {
        let rate = self.bandwidth.map_or(0, |rate| rate.bits_per_second);
        self.burst.map_or((rate / 8 / 100).max(LEAST_BURST_BYTES), |burst| burst.value.0)
    }

    /// Setup and hold priority.
    pub fn priorities(&self) -> (u16, u16) {
        let setup = self.setup.map_or(7, |setup| setup.value);
        (setup, self.hold.map_or(setup, |hold| hold.value))
    }
}

impl Decode for Fallback {
    fn decode(node: &Node, context: &mut Context) -> Option<Fallback> {
        let words = [("drop", Fallback::Drop), ("route", Fallback::Route)];
        word(node, context, "what becomes of packets without a path", &words)
    }
}

impl Decode for Flow {
    fn decode(node: &Node, context: &mut Context) -> Option<Flow> {
        let mut fields = Fields::open(node, "a flow", context)?;
        fields.take("kind");
        let name = fields.required("name");
        let slice = fields.required("slice");
        let from = fields.required("from");
        let to = fields.required("to");
        let path = fields.list("path");
        let bandwidth = fields.optional("bandwidth");
        let burst = fields.optional("burst");
        let setup = fields.optional("setup");
        let hold = fields.optional("hold");
        let while_down = fields.optional("while_down");
        let prefixes = fields.list("prefixes");
        fields.close();
        Some(Flow {
            name: name?,
            slice: slice?,
            from: from?,
            to: to?,
            path,
            bandwidth,
            burst,
            setup,
            hold,
            while_down,
            prefixes,
        })
    }
}
