//! Reports of flows and their paths.

use std::collections::BTreeMap;
use std::net::IpAddr;

use europa_signal::LspKey;

use crate::heads::HeadFlow;
use crate::orders::{ErrorState, FlowState, HopState, InterfaceState, LspState, Shown};
use crate::router::Router;
use crate::{cause, convert};

/// Longest path that is followed.
const MOST_HOPS: usize = 64;

/// The complete state of a signaller.
pub(crate) fn shown(routers: &BTreeMap<String, Router>) -> Shown {
    let flows = routers
        .values()
        .flat_map(|router| router.flows.values().map(move |flow| state(routers, router, flow)));
    let lsps = routers.values().flat_map(|router| {
        router.entries.iter().map(move |(lsp, installed)| LspState {
            router: router.plan.name.clone(),
            from: lsp.sender.address,
            to: lsp.session.destination,
            tunnel: lsp.session.tunnel,
            lsp: lsp.sender.lsp,
            hop: hop(router, lsp).unwrap_or_else(|| end(&router.plan.name)),
            rate: installed.entry.demand.reserved(),
        })
    });
    let interfaces = routers.values().flat_map(|router| {
        router.world.left().map(move |(name, reservable, left)| InterfaceState {
            router: router.plan.name.clone(),
            interface: name.to_owned(),
            reservable,
            left,
        })
    });
    Shown { flows: flows.collect(), lsps: lsps.collect(), interfaces: interfaces.collect() }
}

fn end(router: &str) -> HopState {
    HopState {
        router: router.to_owned(),
        incoming: None,
        interface: None,
        via: None,
        outgoing: None,
    }
}

/// A router's hop of an LSP.
fn hop(router: &Router, lsp: &LspKey) -> Option<HopState> {
    let entry = &router.entries.get(lsp)?.entry;
    let (interface, via, outgoing) = match convert::via(entry) {
        Some((interface, via, label)) => {
            (router.world.name(interface).map(str::to_owned), Some(via), Some(label))
        }
        None => (None, None, None),
    };
    let incoming = entry.incoming.map(europa_signal::Label::get);
    Some(HopState { router: router.plan.name.clone(), incoming, interface, via, outgoing })
}

/// The name of the slice's router that has an address, or the address.
fn named(routers: &BTreeMap<String, Router>, address: IpAddr) -> String {
    let own = routers.values().find(|router| router.has(address));
    own.map_or_else(|| address.to_string(), |router| router.plan.name.clone())
}

fn state(routers: &BTreeMap<String, Router>, head: &Router, flow: &HeadFlow) -> FlowState {
    let shown = flow.active.filter(|_| flow.is_up).or(flow.next);
    let mut hops: Vec<HopState> = Vec::new();
    if let Some(key) = shown.map(|lsp| flow.key(lsp)) {
        let mut at = Some(head);
        while let Some(router) = at.filter(|_| hops.len() < MOST_HOPS) {
            let Some(hop) = hop(router, &key) else {
                // A last router that assigns no label has no entry.
                if router.has(key.session.destination) {
                    hops.push(end(&router.plan.name));
                }
                break;
            };
            let via = hop.via;
            hops.push(hop);
            at = via.and_then(|via| routers.values().find(|router| router.has(via)));
            if let (None, Some(via)) = (at, via) {
                hops.push(end(&via.to_string()));
            }
        }
    }
    FlowState {
        name: flow.plan.name.clone(),
        is_up: flow.is_up,
        lsp: flow.active,
        next: flow.next,
        hops,
        error: flow.error.map(|error| ErrorState {
            router: named(routers, error.node),
            code: error.cause.code,
            value: error.cause.value,
            message: cause::words(error.cause).to_owned(),
        }),
    }
}
