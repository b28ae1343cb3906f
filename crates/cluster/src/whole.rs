//! All documents of a cluster together, with the place of each object and the tunnels of its links.

use std::collections::BTreeMap;
use std::net::IpAddr;

use europa_api::{Bundle, Configuration, Documents, Kept, Key};
use serde::{Deserialize, Serialize};

use crate::error::{ClusterError, Result};
use crate::place::{Homes, Place, Places, homes};
use crate::store::{State, parse, text};
use crate::tunnels::Tunnel;

/// A document in its stored form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    /// Kind and name.
    key: Key,
    /// The document, as JSON.
    document: String,
    /// The text of the file that the document names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    configuration: Option<StoredText>,
}

/// A Click configuration as text, or an object file in base64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StoredText {
    file: String,
    first_line: usize,
    text: String,
}

/// A node that gets nothing new.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cordon {
    /// The reason: `by hand`, `drained`, or the failures of the node's lease.
    pub why: String,
}

/// The documents, places and tunnels of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Whole {
    /// Documents in their stored form and order.
    pub kept: Vec<Kept>,
    /// The same documents, with the addresses of links filled in.
    pub documents: Documents,
    /// The places of routers, hosts and ports.
    pub places: Places,
    /// Links between nodes, by name.
    pub tunnels: BTreeMap<String, Tunnel>,
    /// Nodes that get nothing new.
    pub cordons: BTreeMap<String, Cordon>,
}

/// The stored form of a document.
///
/// # Errors
/// An error is impossible for documents of this version.
pub(crate) fn record(kept: &Kept) -> Result<Vec<u8>> {
    let configuration = kept.configuration.as_ref().map(|c| StoredText {
        file: c.file.clone(),
        first_line: c.first_line,
        text: c.text.clone(),
    });
    text(&Record { key: kept.key.clone(), document: kept.document.clone(), configuration })
}

/// The key in the store for an object's place.
pub(crate) fn place_key(key: &Key) -> String {
    format!("place:{key}")
}

/// The key in the store for a link's tunnel.
pub(crate) fn tunnel_key(link: &str) -> String {
    format!("tunnel:{link}")
}

/// The key in the store for a node's cordon.
pub(crate) fn cordon_key(node: &str) -> String {
    format!("cordon:{node}")
}

/// Documents of a state, in their order.
pub(crate) fn kept(state: &State) -> Result<Vec<Kept>> {
    let mut all = Vec::new();
    for (key, item) in &state.items {
        if ["place:", "tunnel:", "cordon:"].iter().any(|kind| key.starts_with(kind)) {
            continue;
        }
        let record: Record = parse(key, &item.content)?;
        let configuration = record.configuration.map(|c| Configuration {
            file: c.file,
            first_line: c.first_line,
            text: c.text,
        });
        let kept = Kept { key: record.key, document: record.document, configuration };
        all.push((item.entry.order, kept));
    }
    all.sort_by_key(|(order, _)| *order);
    Ok(all.into_iter().map(|(_, kept)| kept).collect())
}

/// Stored values whose names begin with this text.
fn decided<'s, T: Deserialize<'s>>(state: &'s State, kind: &str) -> Result<BTreeMap<String, T>> {
    let own = state.items.range(kind.to_owned()..).take_while(|(key, _)| key.starts_with(kind));
    own.map(|(key, item)| Ok((key[kind.len()..].to_owned(), parse(key, &item.content)?))).collect()
}

/// The places that a state has decided.
pub(crate) fn decided_places(state: &State) -> Result<BTreeMap<String, Place>> {
    decided(state, "place:")
}

/// Tunnels of a state.
pub(crate) fn decided_tunnels(state: &State) -> Result<BTreeMap<String, Tunnel>> {
    decided(state, "tunnel:")
}

/// Cordons of a state.
pub(crate) fn decided_cordons(state: &State) -> Result<BTreeMap<String, Cordon>> {
    decided(state, "cordon:")
}

impl Whole {
    /// The documents of a state.
    ///
    /// # Errors
    /// A stored value of an unknown version.
    pub fn of(state: &State) -> Result<Whole> {
        let kept = kept(state)?;
        let mut documents = Bundle::default()
            .merge(&kept)
            .map_err(|problems| ClusterError::Mistakes(problems.render(false)))?;
        documents.complete();
        let places = crate::place::known(&documents, &decided_places(state)?);
        let (tunnels, cordons) = (decided_tunnels(state)?, decided_cordons(state)?);
        Ok(Whole { kept, documents, places, tunnels, cordons })
    }

    /// Names of the nodes.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.documents.nodes.iter().map(|node| &*node.name.value)
    }

    /// The two nodes of a router with standby ports.
    pub(crate) fn homes(&self, key: &Key) -> Option<Homes> {
        let mut routers = self.documents.routers.iter();
        let router =
            routers.find(|router| key.kind == "router" && router.full_name() == key.name)?;
        homes(&self.documents, router)
    }

    /// Whether the ports of a router stop while its node has no lease.
    pub(crate) fn stops_without_lease(&self, key: &Key) -> bool {
        let mut routers = self.documents.routers.iter();
        key.kind == "router"
            && routers.any(|router| router.full_name() == key.name && router.stops_without_lease())
    }

    /// The address of a node for tunnels.
    pub fn address(&self, node: &str) -> Option<IpAddr> {
        let mut nodes = self.documents.nodes.iter();
        nodes.find(|one| &*one.name.value == node).map(|one| one.address.value)
    }
}
