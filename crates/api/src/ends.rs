//! Ends of links: the interfaces of routers and hosts that name a link.

use std::collections::BTreeMap;
use std::fmt;

use ipnet::IpNet;

use crate::documents::Documents;
use crate::host::Host;
use crate::router::Router;
use crate::source::At;
use crate::values::{InterfaceName, Mac, Name};

/// An interface on a link.
pub(crate) struct End<'d> {
    /// Its owner.
    pub(crate) owner: Owner<'d>,
    /// Its name.
    pub(crate) name: &'d At<InterfaceName>,
    /// The link, at the place where the interface names it.
    pub(crate) link: &'d At<Name>,
    /// The end's Ethernet address, if the document sets one.
    pub(crate) mac: Option<At<Mac>>,
    /// Its addresses.
    pub(crate) addresses: &'d [At<IpNet>],
}

/// The kinds of objects with an interface on a link.
#[derive(Clone, Copy)]
pub(crate) enum Owner<'d> {
    /// A router.
    Router(&'d Router),
    /// A host.
    Host(&'d Host),
}

impl Owner<'_> {
    /// The owner's name, as in `a` of a link's document: for a router, with its slice.
    pub(crate) fn name(&self) -> String {
        match self {
            Owner::Router(router) => router.full_name(),
            Owner::Host(host) => host.name.to_string(),
        }
    }

    /// Whether the owner is the object of this kind and name.
    pub(crate) fn is(&self, kind: &str, name: &str) -> bool {
        let own = match self {
            Owner::Router(_) => "router",
            Owner::Host(_) => "host",
        };
        own == kind && self.name() == name
    }
}

impl fmt::Display for Owner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owner::Router(router) => write!(f, "router {}", router.full_name()),
            Owner::Host(host) => write!(f, "host {}", &**host.name),
        }
    }
}

/// The ends of every link that an interface names. Ends of routers come first, in the order of the
/// documents.
pub(crate) fn ends(documents: &Documents) -> BTreeMap<&str, Vec<End<'_>>> {
    let mut ends: BTreeMap<&str, Vec<End<'_>>> = BTreeMap::new();
    for router in &documents.routers {
        for (name, interface) in &router.interfaces.0 {
            let Some(link) = &interface.link else { continue };
            let (mac, addresses) = (interface.written_mac(), &*interface.addresses);
            let end = End { owner: Owner::Router(router), name, link, mac, addresses };
            ends.entry(link).or_default().push(end);
        }
    }
    for host in &documents.hosts {
        for (name, interface) in &host.interfaces.0 {
            let Some(link) = &interface.link else { continue };
            let (mac, addresses) = (interface.mac, &*interface.addresses);
            let end = End { owner: Owner::Host(host), name, link, mac, addresses };
            ends.entry(link).or_default().push(end);
        }
    }
    ends
}
