//! Desired routers: their places, interfaces, pools and configurations.

use std::collections::{HashMap, HashSet};

use europa_api::{
    At, Attachment, Choice, Documents, Fault, Inline, Key, Name, Poll, Run, Selector, SlotBytes,
    WithoutLease,
};
use europa_pool::layout::{LARGE_SLOT_BYTES, SMALL_SLOT_BYTES};
use europa_pool::{Geometry, Layout};
use europa_router::orders;
use europa_substrate::layout::{ANY_SOURCE, CAGED, FENCED, SHARES_MAC, TAGS, WIRE};
use europa_substrate::{InterfaceSpec, Match, MatchKind};

use crate::facts::PortFacts;
use crate::far::far_end;
use crate::ids::{InterfaceId, LinkId, PortId, RouterId};
use crate::interface::{InterfacePlan, To, Tunnel};
use crate::relays::{RelayPlan, relays};
use crate::router::{Place, RouterPlan};
use crate::slow_paths::is_hidden;
use crate::{builtin, cage, links, wires};

/// An Ethernet header and a VLAN tag.
const HEADER_BYTES: u32 = 14;
const TAG_BYTES: u32 = 4;
/// Default MTU of a link: its frames fit into a small slot.
const LINK_MTU: u32 = 1500;

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LinkEnd {
    Router(InterfaceId),
    /// A host, identified by the port that its interface makes.
    Host(PortId),
}

/// Data that all routers of a set of documents share.
struct Context<'a> {
    documents: &'a Documents,
    ports: &'a HashMap<PortId, PortFacts>,
    /// Ends of links, by the link's name.
    ends: HashMap<String, Vec<LinkEnd>>,
    /// Links that are wires, by name.
    wires: HashSet<&'a str>,
    relays: Vec<RelayPlan>,
}

/// Plans each router separately. Returns the reason for each impossible one.
pub fn routers(
    documents: &Documents,
    ports: &HashMap<PortId, PortFacts>,
) -> Vec<Result<RouterPlan, Box<Fault>>> {
    let context = Context::new(documents, ports);
    documents.routers.iter().map(|document| context.router(document)).collect()
}

/// The interfaces of routers with slow paths, if they are possible.
pub(crate) fn interfaces_beside_slow_paths(
    documents: &Documents,
    ports: &HashMap<PortId, PortFacts>,
) -> Vec<(RouterId, Vec<InterfacePlan>)> {
    let context = Context::new(documents, ports);
    let has = |router: &&europa_api::Router| router.slow_path.is_some();
    let all = documents.routers.iter().filter(has);
    all.filter_map(|router| Some((RouterId::of(router), context.interfaces(router).ok()?)))
        .collect()
}

fn ends(documents: &Documents) -> HashMap<String, Vec<LinkEnd>> {
    let mut ends: HashMap<String, Vec<LinkEnd>> = HashMap::new();
    for document in &documents.routers {
        for (key, interface) in &document.interfaces.0 {
            if let Some(Attachment::Link(name)) = interface.value.attachment() {
                let end = LinkEnd::Router(InterfaceId::new(RouterId::of(document), key));
                ends.entry(name.value.to_string()).or_default().push(end);
            }
        }
    }
    for host in &documents.hosts {
        for (name, interface) in &host.interfaces.0 {
            if let (Some(link), Some(port)) = (&interface.link, host.port(name, interface)) {
                ends.entry(link.to_string()).or_default().push(LinkEnd::Host(PortId::new(&*port)));
            }
        }
    }
    ends
}

impl<'a> Context<'a> {
    fn new(documents: &'a Documents, ports: &'a HashMap<PortId, PortFacts>) -> Self {
        Self {
            documents,
            ports,
            ends: ends(documents),
            wires: wires::wires(documents),
            relays: relays(documents),
        }
    }

    fn interfaces(&self, router: &europa_api::Router) -> Result<Vec<InterfacePlan>, Box<Fault>> {
        let name = RouterId::of(router);
        let refused = |path: &[&str], what: String| {
            Box::new(Fault::new(Key::new("router", &*name), path, what))
        };
        let mut interfaces = Vec::new();
        for (index, (key, interface)) in router.interfaces.0.iter().enumerate() {
            let key = &*key.value;
            let refused = |field: &'static str, what: String| {
                let what = format!("interface {key}: {what}");
                let path = ["interfaces", key, field];
                refused(&path[..if field.is_empty() { 2 } else { 3 }], what)
            };
            let interface = &interface.value;
            let to = match interface.attachment() {
                Some(Attachment::Port(port)) => To::Port(PortId::new(&*port.value)),
                Some(Attachment::Link(link)) => self.other_end(&link.value, &name, key),
                None if router.interfaces.0[index].0.queue_of().is_some() => To::Nowhere,
                None => return Err(refused("", "it is attached to nothing".into())),
            };
            let wire = wires::facts(interface.mtu.as_ref().map_or(LINK_MTU, |mtu| mtu.value));
            let facts = match &to {
                To::Port(port) if wires::is_wire(port) => Some(&wire),
                To::Port(port) => {
                    let none = || refused("", format!("there is no port {port}"));
                    Some(self.ports.get(port).ok_or_else(none)?)
                }
                To::Link(_) | To::Far(_) | To::Nowhere => None,
            };
            let mut planned = plan_interface(router, key, index, interface, to, facts)
                .map_err(|(field, what)| refused(field, what))?;
            if let Some(link) = &interface.link {
                planned.impairment = links::impairment(self.documents, link, &name);
                planned.link = Some(LinkId::new(&***link));
            }
            let is_relayed = self.relays.iter().any(|relay| planned.to.is_port(&relay.port));
            if is_relayed {
                // The relay gets the frames that arrive there, and sends them over the link.
                planned.spec.matches.clear();
            }
            if planned.to.port().is_some_and(|port| wires::is_wire(port)) {
                planned.spec.flags |= WIRE;
            }
            // A `standby` alone has no effect outside of a cluster, which writes `stop` out.
            let stops = router.without_lease.as_ref().map(|said| said.value);
            let is_outside = |port: &At<Name>| !is_hidden(port);
            if stops == Some(WithoutLease::Stop) && interface.port.as_ref().is_some_and(is_outside)
            {
                planned.spec.flags |= FENCED;
            }
            if router.run == Run::Kernel && !router.interfaces.0[index].0.is_hidden() {
                cage::check_interface(&planned, is_relayed)
                    .map_err(|(field, what)| refused(field, what))?;
                // No frame uses the program before it is loaded.
                planned.spec.flags |= CAGED;
            }
            interfaces.push(planned);
        }
        Ok(interfaces)
    }

    fn router(&self, router: &europa_api::Router) -> Result<RouterPlan, Box<Fault>> {
        let name = RouterId::of(router);
        let interfaces = self.interfaces(router)?;
        let cage = cage::cage(router, self.documents);
        let cage = cage.map_err(|what| {
            Box::new(Fault::new(Key::new("router", &*name), &["fast_path", "xdp"], what))
        })?;
        let addresses = router.interfaces.0.iter().map(|(_, interface)| {
            interface.value.addresses.iter().find_map(|net| match net.value.addr() {
                std::net::IpAddr::V4(address) => Some(address),
                std::net::IpAddr::V6(_) => None,
            })
        });
        let (configuration, file) = configuration(router, &interfaces).map_err(|what| {
            Box::new(Fault::new(Key::new("router", &*name), &["fast_path"], what))
        })?;
        Ok(RouterPlan {
            description: builtin::description(router, &interfaces),
            geometry: geometry(router, &interfaces),
            place: place(router),
            cage,
            busy: matches!(router.poll, Poll::Busy),
            cpus: router.cpu.iter().map(|cpu| cpu.value.into()).collect(),
            interfaces,
            configuration,
            file,
            addresses: addresses.collect(),
            grants: router.grants.iter().map(|grant| grant.value.0.clone()).collect(),
            name,
        })
    }

    /// The other side of an interface on a link.
    fn other_end(&self, link: &str, router: &RouterId, interface: &str) -> To {
        if self.wires.contains(link) {
            return To::Port(PortId::new(wires::port_name(link, router, interface)));
        }
        if let Some(end) = far_end(self.documents, link) {
            return To::Far(end);
        }
        let ends = self.ends.get(link).map_or(&[][..], Vec::as_slice);
        let own = LinkEnd::Router(InterfaceId::new(router.clone(), interface));
        match ends.iter().find(|end| **end != own) {
            Some(LinkEnd::Router(other)) => To::Link(other.clone()),
            Some(LinkEnd::Host(port)) => To::Port(port.clone()),
            None => To::Nowhere,
        }
    }
}

/// The place of a router's fast path.
fn place(router: &europa_api::Router) -> Place {
    let program = &router.fast_path.program;
    if router.run == Run::Inline {
        let said = router.inline.as_ref().map(|inline| inline.value).unwrap_or_default();
        Place::Inline(orders::Inline {
            budget_ns: said.budget.map_or(Inline::DEFAULT_BUDGET_NS, |budget| budget.ns),
            memory_bytes: said.memory.map_or(Inline::DEFAULT_MEMORY_BYTES, |memory| memory.value.0),
        })
    } else if router.run == Run::Kernel {
        Place::Kernel
    } else if let Some(elements) = &router.fast_path.elements {
        Place::Elements(elements.value.clone())
    } else if program.is_empty() {
        Place::Isolated
    } else {
        Place::Program(program.iter().map(|word| word.value.clone()).collect())
    }
}

/// How the frames of an interface are told from others of its port.
struct Selected {
    mac: [u8; 6],
    flags: u32,
    matches: Vec<Match>,
    mtu: u32,
    tunnel: Option<Tunnel>,
}

/// The matches of an interface with the Ethernet address `own`, on a port with these facts.
fn select(interface: &europa_api::Interface, own: [u8; 6], facts: Option<&PortFacts>) -> Selected {
    let vlan = interface.vlan().unwrap_or(0);
    let port_mac = facts.map_or(own, |facts| facts.mac);
    let one = |kind| vec![Match { vlan, kind }];
    let mtu = facts.map_or(LINK_MTU, |facts| facts.mtu);
    let bare = Selected { mac: own, flags: 0, matches: Vec::new(), mtu, tunnel: None };
    let shared = |matches: Vec<Match>| Selected {
        mac: port_mac,
        flags: SHARES_MAC,
        matches,
        mtu,
        tunnel: None,
    };
    // With a host at the other end of a link, the interface owns all packets of its port.
    let selector = if interface.link.is_some() { Selector::All } else { interface.selector() };
    match selector {
        _ if facts.is_none() => bare,
        Selector::Mac => Selected { matches: one(MatchKind::Mac(own)), ..bare },
        Selector::Prefix(prefixes) => {
            shared(prefixes.iter().flat_map(|p| one(MatchKind::Prefix(p.value))).collect())
        }
        Selector::Udp(numbers) => {
            shared(numbers.iter().flat_map(|n| one(MatchKind::Udp(n.value))).collect())
        }
        Selector::Mpls(labels) => {
            shared(labels.iter().flat_map(|l| one(MatchKind::Mpls(l.value))).collect())
        }
        Selector::Vxlan(vxlan) => {
            let outer = if vxlan.remote.value.is_ipv4() { 50 } else { 70 };
            let tunnel = Tunnel {
                vni: vxlan.vni.value,
                local: vxlan.local.value,
                remote: vxlan.remote.value,
            };
            Selected {
                matches: one(MatchKind::Vxlan(vxlan.vni.value)),
                mtu: mtu.saturating_sub(outer),
                tunnel: Some(tunnel),
                ..bare
            }
        }
        Selector::All => Selected {
            flags: ANY_SOURCE | if vlan == 0 { TAGS } else { 0 },
            matches: one(MatchKind::All),
            ..bare
        },
    }
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
    let selected = select(interface, router.mac(name, interface).0, facts);
    let Selected { mac, mut flags, matches, mut mtu, tunnel } = selected;
    if let Some(asked) = &interface.mtu {
        if facts.is_some() && asked.value > mtu {
            let what = format!("an MTU of {} does not fit its port's {mtu}", asked.value);
            return Err(("mtu", what));
        }
        mtu = asked.value;
    }
    // A device has no room for a second tag, so that tag counts towards the MTU.
    let tag = if flags & TAGS != 0 && vlan == 0 { TAG_BYTES } else { 0 };
    if interface.inner_tags() {
        flags |= TAGS;
    }
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
            // Blank lines in front make errors show the line number of the file.
            let lead = "\n".repeat(configuration.first_line.saturating_sub(1));
            Ok((lead + &configuration.text, configuration.file.clone()))
        }
        Some(Choice::Ipv4 { routes, neighbours }) => {
            Ok((builtin::ipv4(router, interfaces, routes, neighbours)?, "builtin: ipv4".into()))
        }
        Some(Choice::Bridge) => {
            // This router forwards packets of other stations. With an address of its own it would
            // lose all of them.
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
            Ok((builtin::bridge(router, interfaces), "builtin: bridge".into()))
        }
        Some(Choice::Xdp(..)) => Ok((builtin::kernel(router, interfaces), "run: kernel".into())),
        // The program itself is already in the plan.
        Some(Choice::Program(_)) => Ok((String::new(), "program".into())),
        None => Err("it has no fast path".into()),
    }
}
