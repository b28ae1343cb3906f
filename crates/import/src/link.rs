//! Links: the short form, `endpoints: ["a:eth1", "b:eth1"]`, and the long form with a type.

use crate::names::interface;
use crate::yaml::Node as Yaml;
use crate::{ImportError, Notes};

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) node: String,
    pub(crate) interface: String,
    pub(crate) mac: Option<String>,
    pub(crate) addresses: Vec<String>,
}

impl End {
    fn is_same(&self, other: &End) -> bool {
        (&self.node, &self.interface) == (&other.node, &other.interface)
    }
}

/// A link between two nodes, or between a node and the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) line: u64,
    pub(crate) ends: [End; 2],
    pub(crate) mtu: Option<u32>,
}

/// An interface that leads nowhere: `type: dummy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dummy {
    pub(crate) line: u64,
    pub(crate) end: End,
    pub(crate) mtu: Option<u32>,
}

impl Dummy {
    /// The command that makes an interface without a far end. Not every kernel has dummy devices,
    /// so the interface is one end of a veth pair.
    pub(crate) fn command(&self) -> String {
        let name = interface(&self.end.interface);
        let far = interface(&format!("d-{name}"));
        let mtu = self.mtu.map_or(String::new(), |mtu| format!(" mtu {mtu}"));
        let mac = self.end.mac.as_ref().map_or(String::new(), |mac| format!(" address {mac}"));
        let add = |on: &String| {
            let family = if on.contains(':') { "-6" } else { "-4" };
            format!("; ip {family} addr add {on} dev {name}")
        };
        let addresses: String = self.end.addresses.iter().map(add).collect();
        format!(
            "{{ ip link add {name} type dummy 2>/dev/null || {{ ip link add {name} type veth peer name {far} \
             && sysctl -qw net.ipv6.conf.{far}.disable_ipv6=1 && ip link set {far} up; }}; }} && \
             ip link set {name}{mtu}{mac} up{addresses}"
        )
    }
}

/// All links of a topology.
#[derive(Debug, Default)]
pub(crate) struct Links {
    pub(crate) pairs: Vec<Link>,
    pub(crate) dummies: Vec<Dummy>,
}

/// The name of an endpoint that is the machine, not a node.
pub(crate) const MACHINE: &str = "host";

/// Reads all links.
pub(crate) fn read(topology: &Yaml, notes: &mut Notes) -> Result<Links, ImportError> {
    let links = topology.get("links").map_or(&[][..], Yaml::items);
    let (mut read, mut dummies) = (Vec::new(), Vec::new());
    for link in links {
        let line = link.line;
        let kind = link.get("type").and_then(Yaml::text);
        match kind {
            None | Some("veth" | "host" | "dummy") => {}
            Some(other) => {
                notes.add(line, format!("a link of type {other} has no counterpart: left out"));
                continue;
            }
        }
        for (key, value) in link.entries() {
            if !matches!(
                key,
                "endpoints"
                    | "endpoint"
                    | "type"
                    | "mtu"
                    | "host-interface"
                    | "ipv4"
                    | "ipv6"
                    | "mac"
                    | "labels"
            ) {
                notes.add(value.line, format!("a link's `{key}` has no counterpart"));
            }
        }
        let mut ends: Vec<End> = link
            .get("endpoints")
            .map_or(&[][..], Yaml::items)
            .iter()
            .chain(link.get("endpoint"))
            .map(endpoint)
            .collect::<Result<_, _>>()?;
        if kind == Some("host")
            && let Some(interface) = link.get("host-interface").and_then(Yaml::text)
        {
            ends.push(End {
                node: MACHINE.to_owned(),
                interface: interface.to_owned(),
                mac: None,
                addresses: Vec::new(),
            });
        }
        // The short form lists addresses separately, in the same order as the endpoints.
        for field in ["ipv4", "ipv6"] {
            let listed = link.get(field).map_or(&[][..], Yaml::items);
            for (end, address) in ends.iter_mut().zip(listed) {
                end.addresses
                    .extend(address.text().filter(|text| !text.is_empty()).map(str::to_owned));
            }
        }
        let mtu = link.get("mtu").and_then(Yaml::text).and_then(|mtu| mtu.parse().ok());
        if kind == Some("dummy") {
            let Ok([end]) = <[End; 1]>::try_from(ends) else {
                let message = "a link of type dummy has one endpoint".to_owned();
                return Err(ImportError { line, message });
            };
            dummies.push(Dummy { line, end, mtu });
            continue;
        }
        let Ok(ends) = <[End; 2]>::try_from(ends) else {
            return Err(ImportError { line, message: "a link has two endpoints".to_owned() });
        };
        if let Some(end) =
            ends.iter().find(|end| matches!(&*end.node, "mgmt-net" | "macvlan" | "vxlan"))
        {
            notes.add(line, format!("a link to {} has no counterpart: left out", end.node));
            continue;
        }
        let earlier = read.iter().flat_map(|link: &Link| &link.ends);
        let twice = ends.iter().find(|end| earlier.clone().any(|used| used.is_same(end)));
        let [first, second] = &ends;
        if let Some(End { node, interface, .. }) = twice.or(first.is_same(second).then_some(second))
        {
            let message = format!("interface {interface} of {node} is at the end of two links");
            return Err(ImportError { line, message });
        }
        read.push(Link { line, ends, mtu });
    }
    Ok(Links { pairs: read, dummies })
}

fn endpoint(end: &Yaml) -> Result<End, ImportError> {
    let wrong = || ImportError {
        line: end.line,
        message: "an endpoint is a text like node:eth1, or a mapping with `node` and `interface`"
            .to_owned(),
    };
    if let Some(text) = end.text() {
        let (node, interface) = text.split_once(':').ok_or_else(wrong)?;
        let (node, interface) = (node.trim().to_owned(), interface.trim().to_owned());
        return Ok(End { node, interface, mac: None, addresses: Vec::new() });
    }
    let field = |name: &str| end.get(name).and_then(Yaml::text).map(str::to_owned);
    Ok(End {
        node: field("node").ok_or_else(wrong)?,
        interface: field("interface").ok_or_else(wrong)?,
        mac: field("mac"),
        addresses: [field("ipv4"), field("ipv6")].into_iter().flatten().collect(),
    })
}
