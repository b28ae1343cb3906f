//! `signalling:` of an interface: label switched paths by RSVP-TE.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Serialize;

use crate::decode::{Context, Decode, Fields, from_text, word};
use crate::quantity::Time;
use crate::source::At;
use crate::tree::Node;
use crate::values::Rate;

/// The protocols by which an interface signals label switched paths.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Signalling {
    /// RSVP-TE (RFC 3209).
    pub rsvp_te: At<RsvpTe>,
}

/// RSVP-TE on an interface. All interfaces of a router must have equal settings, except
/// `bandwidth` and `key`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
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
    /// Authenticates messages (RFC 2747). The neighbours behind the interface have the same key.
    /// Default: messages are not authenticated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<At<RsvpKey>>,
}

/// A key for the messages of an interface. Messages without it, and repeated ones, are dropped. A
/// router challenges neighbours whose sequence numbers it does not know.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RsvpKey {
    /// The common secret of the neighbours.
    pub secret: At<RsvpSecret>,
    /// The keyed digest. Default: `sha256`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<At<RsvpDigest>>,
    /// The number of the key in messages, below 2^48. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<At<u64>>,
}

/// A secret of 8 to 128 characters. `Debug` hides it.
#[derive(Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct RsvpSecret(
    #[schemars(length(min = 8, max = 128))]
    /// The characters.
    pub String,
);

impl FromStr for RsvpSecret {
    type Err = String;

    fn from_str(text: &str) -> Result<RsvpSecret, String> {
        match text.len() {
            8..=128 => Ok(RsvpSecret(text.to_owned())),
            other => Err(format!("it has {other} characters; 8 to 128 are wanted")),
        }
    }
}

impl fmt::Debug for RsvpSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RsvpSecret(..)")
    }
}

impl Decode for RsvpSecret {
    fn decode(node: &Node, context: &mut Context) -> Option<RsvpSecret> {
        from_text(node, context, "a secret")
    }
}

/// The keyed digest of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RsvpDigest {
    /// HMAC-MD5, which RFC 2747 requires of every implementation.
    Md5,
    /// HMAC-SHA1.
    Sha1,
    /// HMAC-SHA256.
    #[default]
    Sha256,
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
            key: fields.optional("key"),
        };
        fields.close();
        Some(rsvp_te)
    }
}

impl Decode for RsvpKey {
    fn decode(node: &Node, context: &mut Context) -> Option<RsvpKey> {
        let mut fields = Fields::open(node, "a key", context)?;
        let secret = fields.required("secret");
        let (digest, id) = (fields.optional("digest"), fields.optional("id"));
        fields.close();
        Some(RsvpKey { secret: secret?, digest, id })
    }
}

impl Decode for RsvpDigest {
    fn decode(node: &Node, context: &mut Context) -> Option<RsvpDigest> {
        let words =
            [("md5", RsvpDigest::Md5), ("sha1", RsvpDigest::Sha1), ("sha256", RsvpDigest::Sha256)];
        word(node, context, "a digest", &words)
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
