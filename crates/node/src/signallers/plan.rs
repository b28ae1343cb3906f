//! The plans of slices' signallers, made from documents and from routers' plans.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use europa_api::{Documents, Egress, Fallback, Flow, Router, RsvpTe, hash};
use europa_elements::builtin::Next;
use europa_label::WhileDown;
use europa_plan::RouterPlan;
use europa_signaller::orders::{
    Egress as ToldEgress, FlowPlan, HopPlan, InterfacePlan, RoutePlan, RouterPlan as Told,
};

/// The plan of one signaller.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SlicePlan {
    pub(crate) routers: Vec<Told>,
    pub(crate) flows: Vec<FlowPlan>,
}

/// A router with signalling: its plan and its document.
pub(crate) struct Signalling<'d> {
    pub(crate) plan: Arc<RouterPlan>,
    pub(crate) document: &'d Router,
}

/// Plans by slice. A slice without signalling has none.
pub(crate) fn plans(
    documents: &Documents,
    routers: &[Signalling<'_>],
) -> BTreeMap<String, SlicePlan> {
    let mut plans: BTreeMap<String, SlicePlan> = BTreeMap::new();
    for router in routers {
        let slice = plans.entry(router.document.slice.to_string()).or_default();
        slice.routers.extend(told(documents, router));
    }
    for (name, slice) in &mut plans {
        let flows = documents.flows.iter().filter(|flow| **flow.slice == **name);
        let mut taken = BTreeSet::new();
        // Sorted by name, so that numbers do not depend on the order of documents.
        let mut flows: Vec<&Flow> = flows.collect();
        flows.sort_by_key(|flow| flow.name.to_string());
        for flow in flows {
            let tunnel = tunnel(name, &flow.name, &mut taken);
            slice.flows.extend(flow_of(flow, tunnel, &slice.routers));
        }
    }
    plans
}

/// The number of a flow's tunnel: derived from its name, so that it is the same after a restart.
fn tunnel(slice: &str, flow: &str, taken: &mut BTreeSet<u16>) -> u16 {
    let mut number = hash(&format!("{slice}/{flow}")) as u16;
    while number == 0 || !taken.insert(number) {
        number = number.wrapping_add(1);
    }
    number
}

fn told(documents: &Documents, router: &Signalling<'_>) -> Option<Told> {
    let Signalling { plan, document } = router;
    let description = plan.description.as_ref()?;
    let labels = description.labels.as_ref()?;
    let mut said: Option<RsvpTe> = None;
    let mut interfaces = Vec::new();
    for number in &labels.interfaces {
        let (planned, (_, written)) =
            (description.interfaces.get(*number)?, document.interfaces.0.get(*number)?);
        let rsvp_te = written.value.signalling.as_ref()?.rsvp_te.value;
        said.get_or_insert(rsvp_te);
        let bits = documents.reservable(document, &written.value).unwrap_or(0);
        interfaces.push(InterfacePlan {
            name: planned.name.clone(),
            addresses: planned.addresses.clone(),
            mtu: planned.mtu,
            reservable: bits as f64 / 8.0,
        });
    }
    let said = said?;
    let of = |next: &Next| match next {
        Next::Via { address, .. } => Some(*address),
        Next::Interface(_) | Next::Blackhole => None,
    };
    let all = description.interfaces.iter().flat_map(|interface| &interface.addresses);
    let routes = description.routes.iter();
    Some(Told {
        name: plan.name.name().to_owned(),
        address: interfaces.first()?.addresses.first()?.addr(),
        addresses: all.map(|net| net.addr()).collect(),
        interfaces,
        routes: routes.map(|route| RoutePlan { to: route.to, via: of(&route.next) }).collect(),
        refresh_ns: said.refresh_ns(),
        hello_ns: said.hello_ns(),
        egress: match said.egress.map(|egress| egress.value).unwrap_or_default() {
            Egress::ImplicitNull => ToldEgress::ImplicitNull,
            Egress::ExplicitNull => ToldEgress::ExplicitNull,
            Egress::Label => ToldEgress::Label,
        },
        slots: plan.geometry.slots,
    })
}

/// An address of a router as its predecessor reaches it, and whether they are neighbours.
fn hop(before: Option<&Told>, router: &Told) -> HopPlan {
    let nets = |one: &Told| -> Vec<ipnet::IpNet> {
        one.interfaces.iter().flat_map(|interface| interface.addresses.clone()).collect()
    };
    let near = before.map(nets).unwrap_or_default();
    let own = nets(router);
    let shared = own.iter().find(|own| near.iter().any(|net| net.contains(&own.addr())));
    match shared {
        Some(net) => HopPlan { address: net.addr(), is_loose: false },
        None => HopPlan { address: router.address, is_loose: true },
    }
}

/// `None` while a router that it names does not exist.
fn flow_of(flow: &Flow, tunnel: u16, routers: &[Told]) -> Option<FlowPlan> {
    let find = |name: &str| routers.iter().find(|router| router.name == name);
    let head = find(&flow.from)?;
    let mut path = Vec::new();
    let mut before = Some(head);
    for named in &flow.path {
        if let Ok(address) = named.value.parse::<IpAddr>() {
            path.push(HopPlan { address, is_loose: true });
            before = routers.iter().find(|router| router.addresses.contains(&address));
        } else {
            let router = find(&named.value)?;
            // A path may begin with its head and end with its tail.
            if router.name != head.name {
                path.push(hop(before, router));
            }
            before = Some(router);
        }
    }
    let destination = match flow.to.value.parse::<IpAddr>() {
        Ok(address) => address,
        Err(_) => {
            let tail = find(&flow.to.value)?;
            let is_last = before.is_some_and(|last| last.name == tail.name);
            if !path.is_empty() && !is_last {
                path.push(hop(before, tail));
            }
            tail.address
        }
    };
    let bits = flow.bandwidth.map_or(0, |rate| rate.bits_per_second);
    let (setup, hold) = flow.priorities();
    Some(FlowPlan {
        name: flow.name.to_string(),
        router: head.name.clone(),
        destination,
        tunnel,
        rate: bits as f64 / 8.0,
        burst: flow.burst_bytes() as f64,
        setup: setup.min(7) as u8,
        hold: hold.min(7) as u8,
        path,
        while_down: match flow.while_down.map(|said| said.value).unwrap_or_default() {
            Fallback::Drop => WhileDown::Drop,
            Fallback::Route => WhileDown::Route,
        },
        prefixes: flow.prefixes.iter().map(|net| net.value).collect(),
    })
}
