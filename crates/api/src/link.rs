//! `kind: link`: joins two interfaces without a device, ideally or like a real line.

use ipnet::{Ipv4Net, Ipv6Net};
use schemars::JsonSchema;
use serde::Serialize;

use crate::decode::{Context, Decode, Fields, word};
use crate::problem::Problem;
use crate::quantity::{QueueLength, Share, Time};
use crate::source::At;
use crate::tree::{Node, Value};
use crate::tunnel::LinkTunnel;
use crate::values::{Name, Rate};

/// Joins the two interfaces that name the link. With `tunnel`, one of them is on another node. The
/// document is optional: an interface's `link: NAME` makes the link. Fields of the document apply
/// to both directions; fields in `a_to_b` and `b_to_a` apply to one.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Link {
    /// The name of the link, which the two interfaces use.
    pub name: At<Name>,
    /// The end `a`, if the directions differ: `slice/router` or a host's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a: Option<At<String>>,
    /// Whether ends without addresses get generated ones. Default: `auto`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addresses: Option<At<Addressing>>,
    /// The effects of both directions.
    #[serde(flatten)]
    pub both: Line,
    /// Fields of the direction from `a`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a_to_b: Option<At<Line>>,
    /// Fields of the direction to `a`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b_to_a: Option<At<Line>>,
    /// The tunnel to the other end, if that end is on another machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tunnel: Option<At<LinkTunnel>>,
}

/// The source of a link's addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Addressing {
    /// If neither end has an address, both get one.
    #[default]
    Auto,
    /// Only addresses from documents, or from programs at the link's ends.
    None,
}

/// The effects of one direction of a link. Missing fields have no effect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Line {
    /// The sender's rate, counted in Ethernet frames: `10Mb/s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<At<Rate>>,
    /// Delay of each packet: `20ms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<At<Time>>,
    /// Variation of the delay: `2ms`. Packets keep their order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<At<Time>>,
    /// The distribution of the delay. Default: `uniform`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distribution: Option<At<Distribution>>,
    /// Lost packets: a share such as `1%`, or bursts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<At<Loss>>,
    /// Share of packets that skip the delay and so overtake others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reorder: Option<At<Share>>,
    /// Share of packets that arrive twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<At<Share>>,
    /// Share of packets with one wrong bit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrupt: Option<At<Share>>,
    /// The longest queue of the sender: `100 packets` or `64kB`. Default: 1000 packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<At<QueueLength>>,
    /// Seed of the random numbers. Default: derived from the names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<At<u32>>,
}

/// Distribution of delays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    /// All delays within `jitter` of `delay` are equally likely.
    #[default]
    Uniform,
    /// The normal distribution; `jitter` is the standard deviation.
    Normal,
    /// Mostly short delays, sometimes very long ones; `jitter` is the standard deviation.
    Pareto,
}

/// Which packets are lost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Loss {
    /// Each with the same probability.
    Each(Share),
    /// Bursts: Gilbert and Elliott's model.
    Bursts(Bursts),
}

/// A link that alternates between a good and a bad state (Gilbert 1960, Elliott 1963).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Bursts {
    /// Probability, at each packet, that a good link becomes bad.
    pub begin: At<Share>,
    /// Probability, at each packet, that a bad link becomes good.
    pub end: At<Share>,
    /// Share lost while it is bad. Default: `100%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bad: Option<At<Share>>,
    /// Share lost while it is good. Default: `0%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub good: Option<At<Share>>,
}

/// Ranges of addresses for links that have none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct LinkAddresses {
    /// Each link gets a /31 from this range. Default: 100.64.0.0/10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub ipv4: Option<At<Ipv4Net>>,
    /// Each link gets a /127 from this range. Default: none; interfaces always have link-local
    /// addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub ipv6: Option<At<Ipv6Net>>,
}

impl Line {
    /// Whether no field is set.
    pub fn is_empty(&self) -> bool {
        *self == Line::default()
    }

    /// Each field of `self`; if it is missing, that of `other`.
    #[must_use]
    pub fn or(&self, other: &Line) -> Line {
        Line {
            rate: self.rate.or(other.rate),
            delay: self.delay.or(other.delay),
            jitter: self.jitter.or(other.jitter),
            distribution: self.distribution.or(other.distribution),
            loss: self.loss.or(other.loss),
            reorder: self.reorder.or(other.reorder),
            duplicate: self.duplicate.or(other.duplicate),
            corrupt: self.corrupt.or(other.corrupt),
            limit: self.limit.or(other.limit),
            seed: self.seed.or(other.seed),
        }
    }

    fn take(fields: &mut Fields<'_, '_>) -> Line {
        Line {
            rate: fields.optional("rate"),
            delay: fields.optional("delay"),
            jitter: fields.optional("jitter"),
            distribution: fields.optional("distribution"),
            loss: fields.optional("loss"),
            reorder: fields.optional("reorder"),
            duplicate: fields.optional("duplicate"),
            corrupt: fields.optional("corrupt"),
            limit: fields.optional("limit"),
            seed: fields.optional("seed"),
        }
    }
}

impl Link {
    /// The effects of the direction from this end: `slice/router`, or a host's name.
    pub fn line_from(&self, end: &str) -> Line {
        let from_a = self.a.as_ref().is_some_and(|a| a.value == end);
        let own = if from_a { &self.a_to_b } else { &self.b_to_a };
        own.as_ref().map_or_else(|| self.both.clone(), |own| own.or(&self.both))
    }
}

impl Decode for Link {
    fn decode(node: &Node, context: &mut Context) -> Option<Link> {
        let mut fields = Fields::open(node, "a link", context)?;
        fields.take("kind");
        let name = fields.required("name");
        let a = fields.optional("a");
        let both = Line::take(&mut fields);
        let addresses = fields.optional("addresses");
        let a_to_b: Option<At<Line>> = fields.optional("a_to_b");
        let b_to_a: Option<At<Line>> = fields.optional("b_to_a");
        if let (false, Some(own)) = (fields.has("a"), a_to_b.as_ref().or(b_to_a.as_ref())) {
            let problem = Problem::new(own.place, "which end is `a`?")
                .label("a direction of its own")
                .help("say `a:` with the name of a router (slice/router) or host");
            fields.context.report(problem);
        }
        let tunnel = fields.optional("tunnel");
        fields.close();
        Some(Link { name: name?, a, addresses, both, a_to_b, b_to_a, tunnel })
    }
}

impl Decode for Line {
    fn decode(node: &Node, context: &mut Context) -> Option<Line> {
        let mut fields = Fields::open(node, "a direction of a link", context)?;
        let line = Line::take(&mut fields);
        fields.close();
        Some(line)
    }
}

impl Decode for Addressing {
    fn decode(node: &Node, context: &mut Context) -> Option<Addressing> {
        let words = [("auto", Addressing::Auto), ("none", Addressing::None)];
        word(node, context, "a way to get addresses", &words)
    }
}

impl Decode for Distribution {
    fn decode(node: &Node, context: &mut Context) -> Option<Distribution> {
        let words = [
            ("uniform", Distribution::Uniform),
            ("normal", Distribution::Normal),
            ("pareto", Distribution::Pareto),
        ];
        word(node, context, "a distribution", &words)
    }
}

impl Decode for Loss {
    fn decode(node: &Node, context: &mut Context) -> Option<Loss> {
        if !matches!(node.value, Value::Map(_)) {
            return Share::decode(node, context).map(Loss::Each);
        }
        let mut fields = Fields::open(node, "a loss in bursts", context)?;
        let (begin, end) = (fields.required("begin"), fields.required("end"));
        let (bad, good) = (fields.optional("bad"), fields.optional("good"));
        fields.close();
        Some(Loss::Bursts(Bursts { begin: begin?, end: end?, bad, good }))
    }
}

impl Decode for LinkAddresses {
    fn decode(node: &Node, context: &mut Context) -> Option<LinkAddresses> {
        let mut fields = Fields::open(node, "ranges of addresses", context)?;
        let ranges = LinkAddresses { ipv4: fields.optional("ipv4"), ipv6: fields.optional("ipv6") };
        fields.close();
        Some(ranges)
    }
}

macro_rules! net {
    ($type:ty, $what:literal) => {
        impl Decode for $type {
            fn decode(node: &Node, context: &mut Context) -> Option<$type> {
                let Value::Text(text) = &node.value else {
                    context.wrong_type(node, $what);
                    return None;
                };
                let net = text.parse::<$type>().ok();
                if net.is_none() {
                    let message = format!("{text:?} is not {}", $what);
                    let problem = Problem::new(context.place(node), message);
                    context.report(problem.label(concat!("not ", $what)));
                }
                net
            }
        }
    };
}
net!(Ipv4Net, "an IPv4 prefix");
net!(Ipv6Net, "an IPv6 prefix");
