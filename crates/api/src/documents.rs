//! A whole configuration: the documents of one or several files.

use schemars::JsonSchema;
use serde::Serialize;

use crate::filters::Filters;
use crate::flow::Flow;
use crate::host::Host;
use crate::link::Link;
use crate::port::Port;
use crate::router::Router;
use crate::slice::Slice;
use crate::user::User;

/// One document.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Document {
    /// A network device that Europa owns.
    Port(Port),
    /// A tenant.
    Slice(Slice),
    /// Joins two interfaces.
    Link(Box<Link>),
    /// An end system.
    Host(Box<Host>),
    /// A virtual router.
    Router(Box<Router>),
    /// Rules for the packets of a slice's routers.
    Filters(Filters),
    /// Traffic with a reservation.
    Flow(Box<Flow>),
    /// A person or program that uses the node.
    User(User),
}

/// All documents that were read together, in the order of the files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Documents {
    /// Network devices.
    pub ports: Vec<Port>,
    /// Tenants.
    pub slices: Vec<Slice>,
    /// Links that were written; interfaces may name others.
    pub links: Vec<Link>,
    /// End systems.
    pub hosts: Vec<Host>,
    /// Virtual routers.
    pub routers: Vec<Router>,
    /// Rules for the packets of slices' routers.
    pub filters: Vec<Filters>,
    /// Traffic with reservations.
    pub flows: Vec<Flow>,
    /// Persons and programs that use the node.
    pub users: Vec<User>,
}

impl Documents {
    /// Every document, ports first, then the documents that need them.
    pub fn iter(&self) -> impl Iterator<Item = Document> + '_ {
        let ports = self.ports.iter().cloned().map(Document::Port);
        let slices = self.slices.iter().cloned().map(Document::Slice);
        let links = self.links.iter().cloned().map(|link| Document::Link(Box::new(link)));
        let hosts = self.hosts.iter().cloned().map(|host| Document::Host(Box::new(host)));
        let routers = self.routers.iter().cloned().map(|router| Document::Router(Box::new(router)));
        let filters = self.filters.iter().cloned().map(Document::Filters);
        let flows = self.flows.iter().cloned().map(|flow| Document::Flow(Box::new(flow)));
        let users = self.users.iter().cloned().map(Document::User);
        let rest = filters.chain(flows).chain(users);
        ports.chain(slices).chain(links).chain(hosts).chain(routers).chain(rest)
    }
}
