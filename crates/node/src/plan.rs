//! From documents to what the substrate is told. Nothing is touched here.

use std::collections::HashMap;

use europa_api::{
    Attachment, Choice, Documents, Fault, Inline, Key, Poll, Run, Selector, SlotBytes,
};
use europa_elements::builtin::Description;
use europa_impair::Settings;
use europa_pool::layout::{InterfaceRow, LARGE_SLOT_BYTES, SMALL_SLOT_BYTES};
use europa_pool::{Geometry, Layout};
use europa_resource::Resource;
use europa_router::orders;
use europa_substrate::layout::{ANY_SOURCE, SHARES_MAC, TAGS};
use europa_substrate::{InterfaceSpec, Match, MatchKind};

use crate::{NodeError, links, relays};

/// An Ethernet header and a VLAN tag.
const HEADER_BYTES: u32 = 14;
const TAG_BYTES: u32 = 4;
/// MTU of a link that says nothing: a frame of it fits into a small slot.
const LINK_MTU: u32 = 1500;

/// What the plan must know of a port's device.
#[derive(Clone, Debug)]
pub(crate) struct PortFacts {
    pub(crate) mac: [u8; 6],
    pub(crate) mtu: u32,
    /// VLAN matches can be trusted, or why not.
    pub(crate) vlan: Result<(), String>,
}

/// Where an interface goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum To {
    /// A port, by name.
    Port(String),
    /// The other end, by the names of router and interface.
    Link { router: String, interface: String },
}

/// An interface, planned.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct InterfacePlan {
    pub(crate) name: String,
    pub(crate) mtu: u32,
    pub(crate) to: To,
    pub(crate) spec: InterfaceSpec,
    /// The remote end of its tunnel.
    pub(crate) tunnel: Option<Tunnel>,
    /// What its link does to what it sends.
    pub(crate) impairment: Option<Settings>,
    /// Its addresses, written or made.
    pub(crate) addresses: Vec<ipnet::IpNet>,
    /// The name of its link.
    pub(crate) link: Option<String>,
    /// Queues that are written for it.
    pub(crate) queues: europa_api::Queues,
}

impl InterfacePlan {
    /// Whether its router can go on when it becomes `new`: what differs is the switch's and
    /// the tables' business, and nothing of the router's own.
    pub(crate) fn stays(&self, new: &Self) -> bool {
        let on_a_link = |to: &To| matches!(to, To::Link { .. });
        let at_a_host = |one: &Self| one.link.is_some() && !on_a_link(&one.to);
        let mut spec = new.spec.clone();
        if at_a_host(self) && at_a_host(new) {
            // A relay takes them when the link begins to do something to what the host sends.
            spec.matches.clone_from(&self.spec.matches);
        }
        self.name == new.name
            && self.mtu == new.mtu
            && self.spec == spec
            && self.tunnel == new.tunnel
            && self.addresses == new.addresses
            && (self.to == new.to || (on_a_link(&self.to) && on_a_link(&new.to)))
    }

    /// Whether the switch need not hear of it when it becomes `new`, which it
    /// [`stays`](Self::stays) as.
    pub(crate) fn is_wired_as(&self, new: &Self) -> bool {
        self.to == new.to
            && self.impairment == new.impairment
            && self.link == new.link
            && self.queues == new.queues
    }
}

/// A VXLAN tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tunnel {
    pub(crate) vni: u32,
    pub(crate) local: std::net::IpAddr,
    pub(crate) remote: std::net::IpAddr,
}

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    /// Router and interface by name.
    Router(String, String),
    /// A host, by the port that its interface makes.
    Host(String),
}

/// A router, planned.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RouterPlan {
    pub(crate) name: String,
    pub(crate) geometry: Geometry,
    pub(crate) interfaces: Vec<InterfacePlan>,
    pub(crate) busy: bool,
    /// CPUs it asks for.
    pub(crate) cpus: Vec<usize>,
    /// Text of the Click configuration, and where it stands.
    pub(crate) configuration: String,
    pub(crate) file: String,
    /// What `builtin: ipv4` was made from.
    pub(crate) description: Option<Description>,
    pub(crate) addresses: Vec<Option<std::net::Ipv4Addr>>,
    /// Files and sockets that its elements may have.
    pub(crate) grants: Vec<Resource>,
    /// The command of a data plane of its owner's own, instead of a configuration.
    pub(crate) program: Vec<String>,
    /// It runs inside the switch, and may take so much of it.
    pub(crate) inline: Option<orders::Inline>,
}

impl RouterPlan {
    /// The ports that it has interfaces on.
    pub(crate) fn ports(&self) -> impl Iterator<Item = &str> {
        self.interfaces.iter().filter_map(|interface| match &interface.to {
            To::Port(port) => Some(&**port),
            To::Link { .. } => None,
        })
    }

    /// Rows of the pool's interface table.
    pub(crate) fn rows(&self) -> Vec<InterfaceRow> {
        self.interfaces
            .iter()
            .map(|interface| {
                let mut name = [0; 16];
                for (to, from) in name.iter_mut().take(15).zip(interface.name.bytes()) {
                    *to = from;
                }
                InterfaceRow {
                    rx: Default::default(),
                    tx: Default::default(),
                    mtu: interface.mtu,
                    mac: interface.spec.mac,
                    reserved: [0; 6],
                    name,
                    reserved_to_end: [0; 16],
                }
            })
            .collect()
    }

    /// What the router's process is told.
    pub(crate) fn start(&self, worker: u32) -> orders::Start {
        orders::Start {
            slots: self.geometry.slots,
            slot_bytes: self.geometry.slot_bytes,
            interfaces: self
                .interfaces
                .iter()
                .zip(&self.addresses)
                .map(|(interface, address)| orders::Interface {
                    name: interface.name.clone(),
                    mac: interface.spec.mac,
                    mtu: interface.mtu,
                    address: *address,
                })
                .collect(),
            worker,
            busy: self.busy,
            configuration: self.configuration.clone(),
            file: self.file.clone(),
            grants: self.grants.iter().map(Resource::to_string).collect(),
            inline: self.inline,
        }
    }
}

/// Plans all routers, each by itself: what cannot be carried out, and why.
pub(crate) fn plan(
    documents: &Documents,
    ports: &HashMap<String, PortFacts>,
) -> Vec<Result<RouterPlan, NodeError>> {
    let mut ends: HashMap<String, Vec<End>> = HashMap::new();
    for document in &documents.routers {
        for (key, interface) in &document.interfaces.0 {
            if let Some(Attachment::Link(name)) = interface.value.attachment() {
                ends.entry(name.value.to_string())
                    .or_default()
                    .push(End::Router(document.full_name(), key.to_string()));
            }
        }
    }
    for host in &documents.hosts {
        for (name, interface) in &host.interfaces.0 {
            if let (Some(link), Some(port)) = (&interface.link, host.port(name, interface)) {
                ends.entry(link.to_string()).or_default().push(End::Host(port.to_string()));
            }
        }
    }
    documents.routers.iter().map(|document| one(documents, document, ports, &ends)).collect()
}

fn one(
    documents: &Documents,
    router: &europa_api::Router,
    ports: &HashMap<String, PortFacts>,
    joined: &HashMap<String, Vec<End>>,
) -> Result<RouterPlan, NodeError> {
    let name = router.full_name();
    let refused = |path: &[&str], what: String| {
        NodeError::from(Fault::new(Key::new("router", &*name), path, what))
    };
    let mut interfaces = Vec::new();
    let mut addresses = Vec::new();
    for (index, (key, interface)) in router.interfaces.0.iter().enumerate() {
        let interface = &interface.value;
        let to = match interface.attachment() {
            Some(Attachment::Port(port)) => To::Port(port.value.to_string()),
            Some(Attachment::Link(link)) => {
                let ends = joined.get(&*link.value.to_string()).map_or(&[][..], Vec::as_slice);
                let own = End::Router(name.clone(), key.to_string());
                match ends.iter().find(|end| **end != own) {
                    Some(End::Router(router, interface)) => {
                        To::Link { router: router.clone(), interface: interface.clone() }
                    }
                    Some(End::Host(port)) => To::Port(port.clone()),
                    None => return Err(refused(&[], format!("link {} has one end", link.value))),
                }
            }
            None => {
                let what = format!("interface {} is attached to nothing", key.value);
                return Err(refused(&["interfaces", &key.value], what));
            }
        };
        let facts = match &to {
            To::Port(port) => {
                let none = || refused(&[], format!("there is no port {port}"));
                Some(ports.get(port).ok_or_else(none)?)
            }
            To::Link { .. } => None,
        };
        let mut planned = plan_interface(router, &key.value, index, interface, to.clone(), facts)
            .map_err(|(field, what)| {
            let what = format!("interface {}: {what}", key.value);
            refused(&["interfaces", &key.value, field], what)
        })?;
        let link = interface.link.as_ref();
        if let To::Port(port) = &planned.to
            && relays::plan(documents).iter().any(|relay| relay.port == *port)
        {
            // What comes in there goes to the relay, and from there over the link.
            planned.spec.matches.clear();
        }
        let impairment = link.and_then(|link| links::impairment(documents, link, &name));
        interfaces.push(InterfacePlan { impairment, link: link.map(|l| l.to_string()), ..planned });
        addresses.push(interface.addresses.iter().find_map(|net| match net.value.addr() {
            std::net::IpAddr::V4(address) => Some(address),
            std::net::IpAddr::V6(_) => None,
        }));
    }
    let geometry = geometry(router, &interfaces);
    let (configuration, file) =
        configuration(router, &interfaces).map_err(|what| refused(&["fast_path"], what))?;
    let description = crate::builtin::description(router, &interfaces);
    Ok(RouterPlan {
        description,
        geometry,
        inline: inline(router),
        busy: matches!(router.poll, Poll::Busy),
        cpus: router.cpu.iter().map(|cpu| cpu.value.into()).collect(),
        interfaces,
        configuration,
        file,
        addresses,
        program: router.fast_path.program.iter().map(|word| word.value.clone()).collect(),
        grants: router.grants.iter().map(|grant| grant.value.0.clone()).collect(),
        name,
    })
}

/// What a router may take of the switch, if it runs there.
fn inline(router: &europa_api::Router) -> Option<orders::Inline> {
    let said = router.inline.as_ref().map(|inline| inline.value).unwrap_or_default();
    (router.run == Run::Inline).then(|| orders::Inline {
        budget_ns: said.budget.map_or(Inline::DEFAULT_BUDGET_NS, |budget| budget.ns),
        memory_bytes: said.memory.map_or(Inline::DEFAULT_MEMORY_BYTES, |memory| memory.value.0),
    })
}

fn plan_interface(
    router: &europa_api::Router,
    name: &str,
    index: usize,
    interface: &europa_api::Interface,
    to: To,
    facts: Option<&PortFacts>,
) -> Result<InterfacePlan, (&'static str, String)> {
    let vlan = interface.vlan().unwrap_or(0);
    if let (Some(Err(why)), 1..) = (facts.map(|facts| &facts.vlan), vlan) {
        return Err(("match", why.clone()));
    }
    let own = router.mac(name, interface).0;
    let port_mac = facts.map_or(own, |facts| facts.mac);
    let one = |kind| vec![Match { vlan, kind }];
    let mut mac = own;
    let mut flags = 0;
    let mut tunnel = None;
    let mut matches = Vec::new();
    let mut mtu = facts.map_or(LINK_MTU, |facts| facts.mtu);
    // A host at the other end of a link: everything on its port is the interface's own.
    let selector = if interface.link.is_some() { Selector::All } else { interface.selector() };
    match selector {
        _ if facts.is_none() => {}
        Selector::Mac => matches = one(MatchKind::Mac(own)),
        Selector::Prefix(prefixes) => {
            (mac, flags) = (port_mac, SHARES_MAC);
            matches = prefixes.iter().flat_map(|p| one(MatchKind::Prefix(p.value))).collect();
        }
        Selector::Udp(numbers) => {
            (mac, flags) = (port_mac, SHARES_MAC);
            matches = numbers.iter().flat_map(|n| one(MatchKind::Udp(n.value))).collect();
        }
        Selector::Mpls(labels) => {
            (mac, flags) = (port_mac, SHARES_MAC);
            matches = labels.iter().flat_map(|l| one(MatchKind::Mpls(l.value))).collect();
        }
        Selector::Vxlan(vxlan) => {
            matches = one(MatchKind::Vxlan(vxlan.vni.value));
            let outer = if vxlan.remote.value.is_ipv4() { 50 } else { 70 };
            mtu = mtu.saturating_sub(outer);
            tunnel = Some(Tunnel {
                vni: vxlan.vni.value,
                local: vxlan.local.value,
                remote: vxlan.remote.value,
            });
        }
        Selector::All => {
            flags = ANY_SOURCE | if vlan == 0 { TAGS } else { 0 };
            matches = one(MatchKind::All);
        }
    }
    if let Some(asked) = &interface.mtu {
        if facts.is_some() && asked.value > mtu {
            let what = format!("an MTU of {} does not fit its port's {mtu}", asked.value);
            return Err(("mtu", what));
        }
        mtu = asked.value;
    }
    let tag = if flags & TAGS != 0 { TAG_BYTES } else { 0 };
    Ok(InterfacePlan {
        name: name.to_owned(),
        mtu,
        to,
        spec: InterfaceSpec {
            local: index as u32,
            vlan,
            mac,
            max_frame: mtu + HEADER_BYTES + tag,
            flags,
            matches,
            bound: interface.bind.iter().map(|net| net.value).collect(),
            encap: Vec::new(),
        },
        tunnel,
        impairment: None,
        addresses: interface.addresses.iter().map(|address| address.value).collect(),
        link: None,
        queues: interface.queues.clone(),
    })
}

const _: () = assert!(europa_api::Pool::DEFAULT_SLOTS == europa_substrate::USUAL_SLOTS);

fn geometry(router: &europa_api::Router, interfaces: &[InterfacePlan]) -> Geometry {
    let longest = interfaces.iter().map(|i| i.spec.max_frame + TAG_BYTES).max().unwrap_or(0);
    let geometry = |slot_bytes| Geometry {
        slots: router.pool.slots.value,
        slot_bytes,
        interfaces: interfaces.len() as u32,
    };
    let small = geometry(SMALL_SLOT_BYTES);
    let fits = Layout::new(small).is_ok_and(|layout| longest <= layout.max_frame_bytes());
    match router.pool.slot_bytes.value {
        SlotBytes::Small => small,
        SlotBytes::Large => geometry(LARGE_SLOT_BYTES),
        SlotBytes::Auto if fits => small,
        SlotBytes::Auto => geometry(LARGE_SLOT_BYTES),
    }
}

fn configuration(
    router: &europa_api::Router,
    interfaces: &[InterfacePlan],
) -> Result<(String, String), String> {
    match router.fast_path.value.choice() {
        Some(Choice::Click(configuration)) => {
            // Errors are shown with the lines of the file the text stands in.
            let lead = "\n".repeat(configuration.first_line.saturating_sub(1));
            Ok((lead + &configuration.text, configuration.file.clone()))
        }
        Some(Choice::Ipv4 { routes, neighbours }) => Ok((
            crate::builtin::ipv4(router, interfaces, routes, neighbours)?,
            "builtin: ipv4".into(),
        )),
        Some(Choice::Bridge) => {
            // It sends on what others sent: with an address of its own it would lose all.
            let own = |i: &&InterfacePlan| {
                matches!(i.to, To::Port(_)) && i.spec.flags & ANY_SOURCE == 0 && i.tunnel.is_none()
            };
            if let Some(interface) = interfaces.iter().find(own) {
                return Err(format!(
                    "interface {}: a bridge sends frames from others' Ethernet addresses, which \
                     only `match: {{all: true}}`, alone or with `vlan`, and tunnels may",
                    interface.name
                ));
            }
            Ok((crate::builtin::bridge(router, interfaces), "builtin: bridge".into()))
        }
        // The program itself is in the plan.
        Some(Choice::Program(_)) => Ok((String::new(), "program".into())),
        None => Err("it has no fast path".into()),
    }
}

/// Outer headers of a VXLAN tunnel (RFC 7348 section 5); lengths, the IPv4 checksum and
/// the UDP source port are filled in for each frame.
pub(crate) fn vxlan_header(
    tunnel: Tunnel,
    from: [u8; 6],
    to: [u8; 6],
) -> Result<Vec<u8>, NodeError> {
    use std::net::IpAddr;
    let mut header = Vec::with_capacity(70);
    header.extend(to);
    header.extend(from);
    match (tunnel.local, tunnel.remote) {
        (IpAddr::V4(local), IpAddr::V4(remote)) => {
            header.extend([0x08, 0x00]);
            // Version and header length; no fragments; TTL 64; UDP.
            header.extend([0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0]);
            header.extend(local.octets());
            header.extend(remote.octets());
        }
        (IpAddr::V6(local), IpAddr::V6(remote)) => {
            header.extend([0x86, 0xdd]);
            header.extend([0x60, 0, 0, 0, 0, 0, 17, 64]);
            header.extend(local.octets());
            header.extend(remote.octets());
        }
        (local, remote) => {
            return Err(NodeError::Refused(format!(
                "a tunnel from {local} to {remote} mixes IPv4 and IPv6"
            )));
        }
    }
    // UDP to port 4789, without checksum (allowed by RFC 6935 for IPv6).
    header.extend([0, 0]);
    header.extend(4789u16.to_be_bytes());
    header.extend([0, 0, 0, 0]);
    // VXLAN: the network identifier is valid.
    header.extend([0x08, 0, 0, 0]);
    header.extend((tunnel.vni << 8).to_be_bytes());
    Ok(header)
}
