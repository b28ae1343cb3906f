//! The desired state that follows from documents, in the terms of the machine.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use europa_api::{Documents, Fault, Port};

use crate::actual::{Actual, ActualPort};
use crate::facts::{Facts, Failure, PortFacts};
use crate::ids::{PortId, RouterId};
use crate::needs::Needs;
use crate::relays::{RelayPlan, relays};
use crate::router::RouterPlan;
use crate::routers::{interfaces_beside_slow_paths, routers};
use crate::{hosts, queued, slow_paths, wires};

/// Network namespaces of an instance, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespaces {
    /// The namespace of hosts' outer ends.
    pub hosts: String,
    /// The namespace of slow paths' outer ends and of wires.
    pub slow_paths: String,
}

/// The desired state.
#[derive(Clone, Debug)]
pub struct Desired {
    /// The users' documents.
    pub documents: Arc<Documents>,
    /// All ports: written, made by hosts, and made by slow paths.
    pub ports: Vec<Port>,
    /// Relays.
    pub relays: Vec<RelayPlan>,
    /// Routers in the order of their documents; for impossible ones, the reason.
    pub routers: Vec<Result<Arc<RouterPlan>, Box<Fault>>>,
    /// Ports whose devices are missing, each with the reason.
    pub missing: BTreeMap<PortId, Failure>,
    /// Ports of hosts whose devices are removed or made again.
    pub(crate) cut: BTreeSet<PortId>,
    by_name: HashMap<RouterId, usize>,
    /// The facts of the plan.
    facts: HashMap<PortId, PortFacts>,
}

/// Longest packet of an unknown port.
const UNKNOWN_MTU: u32 = 9216;

impl Desired {
    /// The desired state of `documents`, given the state `actual`. `look` examines a port's device.
    pub fn new(
        namespaces: &Namespaces,
        documents: &Arc<Documents>,
        actual: &Actual,
        mut look: impl FnMut(&Port) -> Result<PortFacts, Failure>,
    ) -> Self {
        let made = hosts::ports(&namespaces.hosts, documents);
        let cut = hosts::cut_ports(&actual.hosts, &documents.hosts);
        let mut facts = Facts::default();
        let written = documents.ports.iter().map(|document| (document, None));
        let by_host = made.iter().map(|(document, facts)| (document, Some(facts)));
        for (document, guess) in written.chain(by_host) {
            let name = PortId::new(&*document.name.value);
            let open = actual.port(document).filter(|_| !cut.contains(&name));
            let found = match (open, guess) {
                (Some(open), _) => facts_as(open, document, &mut look),
                // Its device will be made.
                (None, Some(guess)) => Ok(guess.clone()),
                (None, None) => look(document),
            };
            let found = found.unwrap_or_else(|failure| {
                facts.missing.insert(name.clone(), failure);
                PortFacts { mac: [0; 6], mtu: UNKNOWN_MTU, vlan: Ok(()) }
            });
            facts.ports.insert(name, found);
        }
        let (mut expanded, hidden) = slow_paths::expand(&namespaces.slow_paths, documents);
        if !hidden.is_empty() {
            // The hidden ports have the MTU of their interfaces.
            for (router, interfaces) in interfaces_beside_slow_paths(documents, &facts.ports) {
                for interface in &interfaces {
                    let name = slow_paths::port_name(&router, &interface.name);
                    let fact = PortFacts { mac: [0; 6], mtu: interface.mtu, vlan: Ok(()) };
                    facts.ports.insert(PortId::new(name), fact);
                }
            }
        }
        queued::expand(&mut expanded);
        let plans = routers(&expanded, &facts.ports);
        let names = plans.iter().enumerate();
        let by_name = names.filter_map(|(at, plan)| Some((plan.as_ref().ok()?.name.clone(), at)));
        Self {
            documents: documents.clone(),
            ports: with_written(namespaces, documents, made, hidden),
            relays: relays(documents),
            by_name: by_name.collect(),
            routers: plans.into_iter().map(|plan| plan.map(Arc::new)).collect(),
            missing: facts.missing,
            cut,
            facts: facts.ports,
        }
    }

    /// The reason why the state cannot be carried out as a whole.
    pub fn refusal(&self) -> Option<Failure> {
        let plans = self.routers.iter().filter_map(|plan| plan.as_ref().err());
        let plans: Vec<Failure> = plans.map(|fault| Failure::from((**fault).clone())).collect();
        Failure::all(self.missing.values().chain(&plans))
    }

    /// The plan of a router, if the router is possible.
    pub fn router(&self, name: &str) -> Option<&Arc<RouterPlan>> {
        self.routers.get(*self.by_name.get(name)?)?.as_ref().ok()
    }

    /// The plan of a router, if all its ports exist.
    pub fn feasible(&self, name: &str) -> Option<&Arc<RouterPlan>> {
        self.router(name).filter(|plan| self.has_ports(plan))
    }

    /// Routers whose ports all exist, in the order of their documents.
    pub fn all_feasible(&self) -> impl Iterator<Item = &Arc<RouterPlan>> {
        self.routers.iter().flatten().filter(|plan| self.has_ports(plan))
    }

    fn has_ports(&self, plan: &RouterPlan) -> bool {
        plan.ports().all(|port| !self.missing.contains_key(port))
    }

    /// Whether a plan in this state would have the same facts about all open ports.
    pub fn knows_ports_of(&self, actual: &Actual) -> bool {
        actual.ports.iter().all(|open| {
            let name = &*open.document.name.value;
            // Ports of slow paths and wires are never compared.
            let is_inner = slow_paths::is_hidden(name) || wires::is_wire(name);
            let known = self.facts.get(name).filter(|_| !is_inner);
            known.is_none_or(|known| !open.stale && *known == open.facts)
        })
    }

    /// The needs of a port.
    pub fn needs(&self, port: &str) -> Needs {
        Needs::of(&self.documents, port)
    }

    /// The relay on a port.
    pub fn relay(&self, port: &str) -> Option<&RelayPlan> {
        self.relays.iter().find(|plan| plan.port == *port)
    }
}

/// All ports of documents: written, made by hosts, and made by slow paths.
pub fn ports(namespaces: &Namespaces, documents: &Documents) -> Vec<Port> {
    let made = hosts::ports(&namespaces.hosts, documents);
    let hidden = slow_paths::ports(&namespaces.slow_paths, documents);
    with_written(namespaces, documents, made, hidden)
}

fn with_written(
    namespaces: &Namespaces,
    documents: &Documents,
    made: Vec<(Port, PortFacts)>,
    hidden: Vec<Port>,
) -> Vec<Port> {
    let mut ports = documents.ports.clone();
    ports.extend(made.into_iter().map(|(document, _)| document));
    ports.extend(hidden);
    ports.extend(wires::ports(&namespaces.slow_paths, documents));
    ports
}

/// The facts about an open port whose document changes.
fn facts_as(
    open: &ActualPort,
    document: &Port,
    look: &mut impl FnMut(&Port) -> Result<PortFacts, Failure>,
) -> Result<PortFacts, Failure> {
    let mtu = if open.document == *document { open.facts.mtu } else { look(document)?.mtu };
    Ok(PortFacts { mtu, ..open.facts.clone() })
}
