//! A whole configuration: the documents of one or several files.

use schemars::JsonSchema;
use serde::Serialize;

use crate::cluster_node::ClusterNode;
use crate::filters::Filters;
use crate::flow::Flow;
use crate::host::Host;
use crate::link::Link;
use crate::port::Port;
use crate::router::Router;
use crate::slice::Slice;
use crate::source::At;
use crate::user::User;
use crate::values::{Name, Rate};

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
    /// Rules for the packets that routers of a slice send.
    Filters(Filters),
    /// Traffic with a reservation.
    Flow(Box<Flow>),
    /// A person or program that uses the node.
    User(User),
    /// A machine of a cluster.
    Node(ClusterNode),
}

/// All documents that were read together, in the order of the files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Documents {
    /// Network devices.
    pub ports: Vec<Port>,
    /// Tenants.
    pub slices: Vec<Slice>,
    /// Links that have a document; interfaces may name other links.
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
    /// Machines of a cluster.
    pub nodes: Vec<ClusterNode>,
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
        let nodes = self.nodes.iter().cloned().map(Document::Node);
        let rest = filters.chain(flows).chain(users).chain(nodes);
        ports.chain(slices).chain(links).chain(hosts).chain(routers).chain(rest)
    }

    /// Every port, including those of hosts, with its rate.
    pub fn port_rates(&self) -> impl Iterator<Item = (&At<Name>, Option<At<Rate>>)> {
        let own = self.ports.iter().map(|port| (&port.name, port.rate));
        let interfaces = self.hosts.iter().flat_map(|host| &host.interfaces.0);
        let of_hosts = interfaces
            .filter_map(|(_, interface)| Some((interface.port.as_ref()?, interface.rate)));
        own.chain(of_hosts)
    }

    /// Every `node` field of a document, with its place.
    pub fn pins(&self) -> impl Iterator<Item = &At<Name>> {
        let ports = self.ports.iter().filter_map(|port| port.node.as_ref());
        let hosts = self.hosts.iter().filter_map(|host| host.node.as_ref());
        let routers = self.routers.iter().filter_map(|router| router.node.as_ref());
        ports.chain(hosts).chain(routers)
    }
}
