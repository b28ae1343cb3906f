//! `signalling:` of an interface: label switched paths by RSVP-TE.

use schemars::JsonSchema;
use serde::Serialize;

use crate::decode::{Context, Decode, Fields, word};
use crate::quantity::Time;
use crate::source::At;
use crate::tree::Node;
use crate::values::Rate;

/// The protocols by which an interface signals label switched paths.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Signalling {
    /// RSVP-TE (RFC 3209).
    pub rsvp_te: At<RsvpTe>,
}

/// RSVP-TE on an interface. All interfaces of a router must have equal settings, except
/// `bandwidth`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RsvpTe {
    /// The bandwidth that flows may reserve on the interface. Default: the rate of its link, the
    /// slice's guarantee of its port, or the port's rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<At<Rate>>,
    /// The interval at which state is refreshed, R in RFC 2205. State without a refresh ends after
    /// 5.25 intervals. Default: 30s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh: Option<At<Time>>,
    /// Interval of Hellos to each neighbour. A neighbour is lost after 3.5 intervals without an
    /// answer. Default: 1s; 0s sends none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hello: Option<At<Time>>,
    /// The label that the last router of a path assigns. Default: `implicit-null`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress: Option<At<Egress>>,
    /// How the TTL and traffic class of labels and packets affect each other. Default: `uniform`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<At<TtlModel>>,
}

/// The label that the last router of a path assigns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Egress {
    /// No label: the last but one router removes it.
    #[default]
    ImplicitNull,
    /// 0 of IPv4, 2 of IPv6.
    ExplicitNull,
    /// A separate label for each path.
    Label,
}

/// RFC 3443.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TtlModel {
    /// Each router on the path lowers the packet's TTL.
    #[default]
    Uniform,
    /// The whole path lowers the packet's TTL by one.
    Pipe,
}

impl RsvpTe {
    /// The default of R, in nanoseconds.
    pub const DEFAULT_REFRESH_NS: u64 = 30_000_000_000;
    /// Default interval of Hellos, in nanoseconds.
    pub const DEFAULT_HELLO_NS: u64 = 1_000_000_000;

    /// R, in nanoseconds.
    pub fn refresh_ns(&self) -> u64 {
        self.refresh.map_or(Self::DEFAULT_REFRESH_NS, |time| time.ns)
    }

    /// Interval of Hellos, in nanoseconds; 0 means that none are sent.
    pub fn hello_ns(&self) -> u64 {
        self.hello.map_or(Self::DEFAULT_HELLO_NS, |time| time.ns)
    }
}

impl Decode for Signalling {
    fn decode(node: &Node, context: &mut Context) -> Option<Signalling> {
        let mut fields = Fields::open(node, "signalling", context)?;
        let rsvp_te = fields.required("rsvp_te");
        fields.close();
        Some(Signalling { rsvp_te: rsvp_te? })
    }
}

impl Decode for RsvpTe {
    fn decode(node: &Node, context: &mut Context) -> Option<RsvpTe> {
        let mut fields = Fields::open(node, "RSVP-TE", context)?;
        let rsvp_te = RsvpTe {
            bandwidth: fields.optional("bandwidth"),
            refresh: fields.optional("refresh"),
            hello: fields.optional("hello"),
            egress: fields.optional("egress"),
            ttl: fields.optional("ttl"),
        };
        fields.close();
        Some(rsvp_te)
    }
}

impl Decode for Egress {
    fn decode(node: &Node, context: &mut Context) -> Option<Egress> {
        let words = [
            ("implicit-null", Egress::ImplicitNull),
            ("explicit-null", Egress::ExplicitNull),
            ("label", Egress::Label),
        ];
        word(node, context, "what a path's last router hands out", &words)
    }
}

impl Decode for TtlModel {
    fn decode(node: &Node, context: &mut Context) -> Option<TtlModel> {
        let words = [("uniform", TtlModel::Uniform), ("pipe", TtlModel::Pipe)];
        word(node, context, "how a path counts hops", &words)
    }
}
