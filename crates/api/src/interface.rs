//! A router's interface: where it is attached, and which packets belong to it.

use std::net::IpAddr;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::Serialize;

use crate::decode::{Context, Decode, Fields};
use crate::problem::Problem;
use crate::queues::Queues;
use crate::signalling::Signalling;
use crate::source::At;
use crate::tree::{Node, Value};
use crate::values::{Mac, Name};

/// A router's virtual NIC, on a port or on a link.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Interface {
    /// Its port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<At<Name>>,
    /// Its port if its router is on the other of two nodes of a cluster. Without a cluster it has no
    /// effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standby: Option<At<Name>>,
    /// Or the link that joins the interface to another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<At<Name>>,
    /// The port's packets that belong to the interface. Default: those to its MAC address.
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    pub matches: Option<At<Match>>,
    /// The interface's Ethernet address. Default: derived from the names of slice, router and
    /// interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac: Option<At<Mac>>,
    /// The interface's addresses with the prefix lengths of their subnets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>")]
    pub addresses: Vec<At<IpNet>>,
    /// Longest packet, in bytes, without the Ethernet header. Default: the port's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<At<u32>>,
    /// Source addresses of packets that may leave by the interface. Default: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>")]
    pub bind: Vec<At<IpNet>>,
    /// Queues in which the interface's packets wait for the port, by number. Each slice has its own
    /// numbers. Queue 0 takes packets without a number. If queue 0 is full, the router waits,
    /// unless the queue has settings of drops or other queues exist here.
    #[serde(skip_serializing_if = "Queues::is_empty")]
    #[schemars(with = "Option<Queues>")]
    pub queues: Queues,
    /// How the interface signals label switched paths. Default: it does not signal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signalling: Option<Signalling>,
}

/// The other end of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment<'a> {
    /// A port of the node.
    Port(&'a At<Name>),
    /// One end of a link.
    Link(&'a At<Name>),
}

impl Interface {
    /// Its other end.
    pub fn attachment(&self) -> Option<Attachment<'_>> {
        match (&self.port, &self.link) {
            (Some(port), _) => Some(Attachment::Port(port)),
            (None, Some(link)) => Some(Attachment::Link(link)),
            (None, None) => None,
        }
    }

    /// The VLAN tag of the interface's packets on the port.
    pub fn vlan(&self) -> Option<u16> {
        self.matches.as_ref().and_then(|m| m.vlan.as_ref()).map(|vlan| vlan.value)
    }

    /// Whether the router may send frames with a VLAN tag inside the interface's own VLAN.
    pub fn inner_tags(&self) -> bool {
        let of_match = |m: &At<Match>| m.inner_tags.is_some_and(|allowed| allowed.value);
        self.vlan().is_some() && self.matches.as_ref().is_some_and(of_match)
    }

    /// The packets of port and VLAN that belong to the interface.
    pub fn selector(&self) -> Selector<'_> {
        self.matches.as_ref().map_or(Selector::Mac, |m| m.selector())
    }

    /// The Ethernet address in the document, if there is one.
    pub fn written_mac(&self) -> Option<At<Mac>> {
        let of_match = || match self.matches.as_ref()?.mac {
            Some(At { value: MacChoice::Address(mac), place }) => Some(At { value: mac, place }),
            _ => None,
        };
        self.mac.or_else(of_match)
    }
}

impl Decode for Interface {
    fn decode(node: &Node, context: &mut Context) -> Option<Interface> {
        let mut fields = Fields::open(node, "an interface", context)?;
        let interface = Interface {
            port: fields.optional("port"),
            standby: fields.optional("standby"),
            link: fields.optional("link"),
            matches: fields.optional("match"),
            mac: fields.optional("mac"),
            addresses: fields.list("addresses"),
            mtu: fields.optional("mtu"),
            bind: bound(&mut fields),
            queues: fields.optional("queues").unwrap_or_default(),
            signalling: fields.optional("signalling"),
        };
        let message = "an interface has either `port` or `link`";
        fields.one_of(&["port", "link"], message, Some("attached to nothing"));
        if let (Some(_), Some(matches)) = (&interface.link, &interface.matches) {
            let problem = Problem::new(matches.place, "an interface on a link has no `match`")
                .label("everything on the link is its own")
                .help("remove it; only a port is shared");
            fields.context.report(problem);
        }
        if let (None, Some(standby)) = (&interface.port, &interface.standby) {
            let problem = Problem::new(standby.place, "a `standby` is for a `port`")
                .label("no `port` beside it")
                .help("remove it: a link may lead from one node to another");
            fields.context.report(problem);
        }
        fields.close();
        Some(interface)
    }
}

/// Which of a port's packets belong to an interface: `vlan` and at most one other field.
/// docs/matches.md explains each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Match {
    /// Packets with this VLAN's tag. The router does not see the tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4094))]
    pub vlan: Option<At<u16>>,
    /// With `vlan`: whether the router may send frames that carry a second VLAN tag inside this one
    /// (Q-in-Q). Each inner tag counts towards the MTU. Default: false; such frames are dropped,
    /// because a switch with the native VLAN `vlan` would read the inner tag as the frame's VLAN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inner_tags: Option<At<bool>>,
    /// Packets to the interface's own Ethernet address. The default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac: Option<At<MacChoice>>,
    /// Packets to the port's Ethernet address and one of these IP prefixes; the longest prefix
    /// decides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>")]
    pub prefix: Vec<At<IpNet>>,
    /// Packets to the port's Ethernet address and one of these UDP ports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<u16>>")]
    pub udp: Vec<At<u16>>,
    /// The packets of a VXLAN tunnel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vxlan: Option<At<Vxlan>>,
    /// Packets to the port's Ethernet address with one of these MPLS labels on top.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<u32>>")]
    pub mpls: Vec<At<u32>>,
    /// All packets of the port; with `vlan`, all packets of that VLAN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all: Option<At<bool>>,
}

/// The Ethernet address to match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MacChoice {
    /// The interface's own address: that of `mac`, or the generated one.
    Auto,
    /// This address, which becomes the interface's own address.
    Address(Mac),
}

/// A VXLAN tunnel (RFC 7348).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Vxlan {
    /// The network identifier, 24 bits.
    #[schemars(range(max = 0xff_ffff))]
    pub vni: At<u32>,
    /// This node's address, the outer destination of received packets.
    pub local: At<IpAddr>,
    /// The other end's address.
    pub remote: At<IpAddr>,
}

/// The packets that belong to an interface.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Selector<'a> {
    /// Packets to the interface's own Ethernet address.
    Mac,
    /// Packets to the port's address and one of these destination prefixes.
    Prefix(&'a [At<IpNet>]),
    /// Packets to the port's address and one of these UDP destination ports.
    Udp(&'a [At<u16>]),
    /// The packets of the tunnel.
    Vxlan(&'a Vxlan),
    /// Packets to the port's address with one of these labels.
    Mpls(&'a [At<u32>]),
    /// All.
    All,
}

impl Match {
    /// The match in addition to `vlan`.
    pub fn selector(&self) -> Selector<'_> {
        if self.all.as_ref().is_some_and(|all| all.value) {
            Selector::All
        } else if !self.prefix.is_empty() {
            Selector::Prefix(&self.prefix)
        } else if !self.udp.is_empty() {
            Selector::Udp(&self.udp)
        } else if let Some(vxlan) = &self.vxlan {
            Selector::Vxlan(vxlan)
        } else if !self.mpls.is_empty() {
            Selector::Mpls(&self.mpls)
        } else {
            Selector::Mac
        }
    }
}

/// Reads `bind`. An empty list is a mistake, because it would allow all addresses.
fn bound(fields: &mut Fields<'_, '_>) -> Vec<At<IpNet>> {
    if let Some((key, Node { value: Value::List(items), .. })) = fields.take("bind")
        && items.is_empty()
    {
        let place = fields.context.place(key);
        let problem = Problem::new(place, "`bind` is empty").label("no entry");
        fields.context.report(problem.help("leave it out to let all source addresses through"));
    }
    fields.list("bind")
}

const KINDS: [&str; 6] = ["mac", "prefix", "udp", "vxlan", "mpls", "all"];

impl Decode for Match {
    fn decode(node: &Node, context: &mut Context) -> Option<Match> {
        let mut fields = Fields::open(node, "a match", context)?;
        let matches = Match {
            vlan: fields.optional("vlan"),
            inner_tags: fields.optional("inner_tags"),
            mac: fields.optional("mac"),
            prefix: fields.list("prefix"),
            udp: fields.list("udp"),
            vxlan: fields.optional("vxlan"),
            mpls: fields.list("mpls"),
            all: fields.optional("all"),
        };
        if let Some((key, _)) = fields.take("inner_tags")
            && !fields.has("vlan")
        {
            let place = fields.context.place(key);
            let problem = Problem::new(place, "`inner_tags` needs `vlan`")
                .label("inside which tag?")
                .help("add `vlan`; an interface with `all: true` alone may send any tag");
            fields.context.report(problem);
        }
        for list in ["prefix", "udp", "mpls"] {
            if let Some((key, Node { value: Value::List(items), .. })) = fields.take(list)
                && items.is_empty()
            {
                let place = fields.context.place(key);
                let problem = Problem::new(place, format!("`{list}` is empty and matches nothing"))
                    .label("no entry");
                fields.context.report(problem);
            }
        }
        let written: Vec<_> =
            KINDS.iter().filter_map(|kind| fields.take(kind)).map(|(key, _)| key).collect();
        if let [first, second, ..] = written.as_slice() {
            let first = fields.context.place(first);
            let second = fields.context.place(second);
            let problem = Problem::new(second, "a match has one kind beside `vlan`")
                .label("a second kind")
                .also(first, "the first kind")
                .help(format!("keep one of {}", KINDS.join(", ")));
            fields.context.report(problem);
        }
        fields.close();
        Some(matches)
    }
}

impl Decode for MacChoice {
    fn decode(node: &Node, context: &mut Context) -> Option<MacChoice> {
        match &node.value {
            Value::Text(text) if text == "auto" => Some(MacChoice::Auto),
            _ => Mac::decode(node, context).map(MacChoice::Address),
        }
    }
}

impl Serialize for MacChoice {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            MacChoice::Auto => serializer.serialize_str("auto"),
            MacChoice::Address(mac) => mac.serialize(serializer),
        }
    }
}

impl JsonSchema for MacChoice {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "MacChoice".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}

impl Decode for Vxlan {
    fn decode(node: &Node, context: &mut Context) -> Option<Vxlan> {
        let mut fields = Fields::open(node, "a VXLAN match", context)?;
        let vni = fields.required("vni");
        let local = fields.required("local");
        let remote = fields.required("remote");
        fields.close();
        Some(Vxlan { vni: vni?, local: local?, remote: remote? })
    }
}
