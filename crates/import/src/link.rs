//! Links: the brief way, `endpoints: ["a:eth1", "b:eth1"]`, and the long one with a type.

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

/// Names of an endpoint that is no node.
pub(crate) const MACHINE: &str = "host";

/// Reads all links.
pub(crate) fn read(topology: &Yaml, notes: &mut Notes) -> Result<Vec<Link>, ImportError> {
    let links = topology.get("links").map_or(&[][..], Yaml::items);
    let mut read = Vec::new();
    for link in links {
        let line = link.line;
        let kind = link.get("type").and_then(Yaml::text);
        match kind {
            None | Some("veth" | "host") => {}
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
        // The brief way lists addresses beside the endpoints, in their order.
        for field in ["ipv4", "ipv6"] {
            let listed = link.get(field).map_or(&[][..], Yaml::items);
            for (end, address) in ends.iter_mut().zip(listed) {
                end.addresses
                    .extend(address.text().filter(|text| !text.is_empty()).map(str::to_owned));
            }
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
        let mtu = link.get("mtu").and_then(Yaml::text).and_then(|mtu| mtu.parse().ok());
        read.push(Link { line, ends, mtu });
    }
    Ok(read)
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
