//! Routers with standby ports: they are on one of two nodes.

use std::collections::BTreeSet;

use europa_api::{Documents, Router};

use super::Place;

/// The two nodes of a router's ports, with the reason for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Homes {
    first: Place,
    standby: Place,
}

impl Homes {
    /// Whether the node is one of both.
    pub(crate) fn has(&self, node: &str) -> bool {
        self.first.node == node || self.standby.node == node
    }

    /// Whether the router uses its standby ports on this node.
    pub(crate) fn is_standby(&self, node: &str) -> bool {
        self.standby.node == node
    }

    /// The place of a router without one: the node of its ports, or the other node if it leaves that
    /// one. `None` if it leaves and the other node is closed.
    pub(super) fn choose(
        &self,
        leaves: Option<&Place>,
        closed: &BTreeSet<String>,
    ) -> Option<Place> {
        let is_open = |place: &&Place| !closed.contains(&place.node);
        let both = [&self.first, &self.standby];
        match leaves {
            Some(old) => {
                both.into_iter().filter(is_open).find(|place| place.node != old.node).cloned()
            }
            None => both.into_iter().find(is_open).or(Some(&self.first)).cloned(),
        }
    }
}

/// The node of a port, that of a host's included.
fn port_node<'d>(documents: &'d Documents, name: &str) -> Option<&'d str> {
    let own = documents.ports.iter().find(|port| *port.name.value == *name);
    let of_host = || {
        documents.hosts.iter().find(|host| {
            let mut ports = host.interfaces.0.iter().filter_map(|(_, i)| i.port.as_ref());
            ports.any(|port| *port.value == *name)
        })
    };
    let node = match own {
        Some(port) => port.node.as_ref(),
        None => of_host()?.node.as_ref(),
    };
    node.map(|node| &*node.value)
}

/// The two nodes of a router, if each of its ports has a standby on the same other node.
pub(crate) fn homes(documents: &Documents, router: &Router) -> Option<Homes> {
    let on_ports = router.interfaces.0.iter().filter_map(|(_, i)| Some((i.port.as_ref()?, i)));
    let mut all: Option<Homes> = None;
    for (port, interface) in on_ports {
        let standby = interface.standby.as_ref()?;
        let (here, there) = (port_node(documents, port)?, port_node(documents, standby)?);
        match &all {
            Some(homes) if homes.first.node != here || homes.standby.node != there => return None,
            None if here == there => return None,
            Some(_) => {}
            None => {
                all = Some(Homes {
                    first: Place::new(here, &format!("port {port}")),
                    standby: Place::new(there, &format!("standby {standby}")),
                });
            }
        }
    }
    all
}
