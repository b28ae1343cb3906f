//! Tunnels of links between nodes: their numbers, epochs and keys, decided when a change is
//! applied.

use std::collections::{BTreeMap, BTreeSet};

use europa_api::{Documents, Key};
use serde::{Deserialize, Serialize};

use crate::error::{ClusterError, Result};
use crate::place::Places;

/// UDP port of tunnels (RFC 8926, section 3.3).
pub(crate) const PORT: u16 = 6081;
/// Numbers of links have 24 bits, as Geneve's VNI (RFC 8926, section 3.4).
const MOST: u32 = 0xff_ffff;

/// The tunnel of a link between two nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tunnel {
    /// Its number, unique in the cluster.
    pub id: u32,
    /// The epoch: it grows whenever an end moves to another node.
    pub epoch: u64,
    /// The nodes of its ends, sorted by name.
    pub nodes: [String; 2],
    /// The routers or hosts at its ends, in the same order. Older values lack this field; for them
    /// only the nodes are compared.
    #[serde(default, skip_serializing_if = "is_unknown")]
    pub owners: [String; 2],
    /// Keys of packets, 16 hexadecimal digits: from the first node, and to it.
    pub keys: [String; 2],
}

fn is_unknown(owners: &[String; 2]) -> bool {
    owners.iter().all(String::is_empty)
}

/// Ends of links: the owner's kind and name, and the interface.
pub(crate) type Ends = BTreeMap<String, Vec<(Key, String)>>;

/// All ends of links, those of routers first.
pub(crate) fn ends(documents: &Documents) -> Ends {
    let mut ends = Ends::new();
    for router in &documents.routers {
        let key = Key::new("router", router.full_name());
        for (name, interface) in &router.interfaces.0 {
            let Some(link) = &interface.link else { continue };
            ends.entry(link.to_string()).or_default().push((key.clone(), name.to_string()));
        }
    }
    for host in &documents.hosts {
        let key = Key::new("host", host.name.to_string());
        for (name, interface) in &host.interfaces.0 {
            let Some(link) = &interface.link else { continue };
            ends.entry(link.to_string()).or_default().push((key.clone(), name.to_string()));
        }
    }
    ends
}

/// Tunnels for all links whose ends are on two nodes. A link whose ends stay keeps its tunnel. A
/// link with an end that moves keeps its number, and gets new keys and `epoch`, which is higher
/// than all former epochs. So the other end accepts no packet from the former node.
///
/// # Errors
/// All numbers are taken, or the system's random numbers are not available.
pub(crate) fn tunnels(
    documents: &Documents,
    places: &Places,
    before: &BTreeMap<String, Tunnel>,
    epoch: u64,
) -> Result<BTreeMap<String, Tunnel>> {
    let mut between = Vec::new();
    for (link, ends) in ends(documents) {
        let at = ends.iter().filter_map(|(owner, _)| Some((places.get(owner)?, owner.to_string())));
        // By node: if both ends are on one node, the map has one entry and the link has no tunnel.
        let at: BTreeMap<String, String> =
            at.map(|(place, owner)| (place.node.clone(), owner)).collect();
        let (nodes, owners): (Vec<_>, Vec<_>) = at.into_iter().unzip();
        let Ok(nodes) = <[String; 2]>::try_from(nodes) else { continue };
        let Ok(owners) = <[String; 2]>::try_from(owners) else { continue };
        between.push((link, nodes, owners));
    }
    let named: BTreeSet<&String> = between.iter().map(|(link, ..)| link).collect();
    let old = before.iter().filter(|(link, _)| named.contains(link));
    let mut taken: BTreeSet<u32> = old.map(|(_, tunnel)| tunnel.id).collect();
    let mut all = BTreeMap::new();
    for (link, nodes, owners) in between {
        let old = before.get(&link);
        let same_owners = |old: &Tunnel| is_unknown(&old.owners) || old.owners == owners;
        if let Some(same) = old.filter(|old| old.nodes == nodes && same_owners(old)) {
            all.insert(link, same.clone());
            continue;
        }
        let id = match old {
            Some(old) => old.id,
            None => (1..=MOST).find(|id| !taken.contains(id)).ok_or_else(|| {
                ClusterError::Refused(format!("all {MOST} numbers of tunnels are taken"))
            })?,
        };
        taken.insert(id);
        let keys = [key()?, key()?];
        all.insert(link, Tunnel { id, epoch, nodes, owners, keys });
    }
    Ok(all)
}

fn key() -> Result<String> {
    let number = getrandom::u64()
        .map_err(|error| ClusterError::Refused(format!("no random numbers: {error}")))?;
    Ok(format!("{number:016x}"))
}

impl Tunnel {
    /// The other node, the key of packets to it, and the key of packets from it; `None` for a node
    /// at neither end.
    pub(crate) fn seen_from(&self, node: &str) -> Option<(&str, &str, &str)> {
        let [a, b] = &self.nodes;
        let [from_a, to_a] = &self.keys;
        match node {
            node if node == a => Some((b.as_str(), from_a.as_str(), to_a.as_str())),
            node if node == b => Some((a.as_str(), to_a.as_str(), from_a.as_str())),
            _ => None,
        }
    }
}
