//! Relays handle hosts' packets over links with a rate, delay or losses, and over links to other
//! machines.
//!
//! The switch delays and drops routers' packets over links. A host's packets usually enter the
//! router's pool directly from the host's port. If the link has an effect on them, they enter a
//! pool of the switch instead: the relay. If a host is at the end of a link to another machine,
//! packets of both directions pass the relay.

use std::collections::HashSet;

use europa_api::Documents;
use europa_impair::Settings;
use europa_substrate::layout::{ANY_SOURCE, TAGS};
use europa_substrate::{InterfaceSpec, Match, MatchKind};

use crate::far::{FarEnd, far_end};
use crate::ids::{LinkId, PortId};
use crate::links::impairment;

/// An Ethernet header and a VLAN tag.
const HEADER_BYTES: u32 = 18;

/// The plan for one host's end of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct RelayPlan {
    /// The port that the host's interface makes.
    pub port: PortId,
    /// The link.
    pub link: LinkId,
    /// Longest packet, in bytes.
    pub mtu: u32,
    /// The link's effects on packets.
    pub impairment: Option<Settings>,
    /// The other end, if it is on another machine.
    pub far: Option<FarEnd>,
}

impl RelayPlan {
    /// Whether a relay of this plan can continue as one of `new`.
    pub fn stays(&self, new: &Self) -> bool {
        self.port == new.port && self.mtu == new.mtu && self.far.is_some() == new.far.is_some()
    }

    /// Longest frame, in bytes.
    pub fn max_frame(&self) -> u32 {
        self.mtu + HEADER_BYTES
    }

    /// The relay's interface for packets from another machine to the host.
    pub fn back(&self) -> InterfaceSpec {
        InterfaceSpec { local: 1, matches: Vec::new(), ..self.spec() }
    }

    /// The relay's interface in the substrate, which owns all packets of the port.
    pub fn spec(&self) -> InterfaceSpec {
        InterfaceSpec {
            local: 0,
            vlan: 0,
            mac: [0; 6],
            max_frame: self.max_frame(),
            flags: ANY_SOURCE | TAGS,
            matches: vec![Match { vlan: 0, kind: MatchKind::All }],
            bound: Vec::new(),
            encap: Vec::new(),
        }
    }
}

/// The hosts' ends of links that need a relay.
pub fn relays(documents: &Documents) -> Vec<RelayPlan> {
    let interfaces = documents.routers.iter().flat_map(|router| &router.interfaces.0);
    let links: HashSet<&str> =
        interfaces.filter_map(|(_, interface)| Some(&***interface.value.link.as_ref()?)).collect();
    let mut plans = Vec::new();
    for host in &documents.hosts {
        for (name, interface) in &host.interfaces.0 {
            let (Some(link), Some(port)) = (&interface.link, host.port(name, interface)) else {
                continue;
            };
            let far = far_end(documents, link);
            let impairment = impairment(documents, link, &host.name);
            // A link without a far end has no receiver. An ideal link to a router needs no relay.
            if far.is_none() && (impairment.is_none() || !links.contains(&***link)) {
                continue;
            }
            plans.push(RelayPlan {
                port: PortId::new(&*port),
                link: LinkId::new(&***link),
                mtu: interface.mtu(),
                impairment,
                far,
            });
        }
    }
    plans
}
