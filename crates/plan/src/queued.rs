//! Interfaces of kernel routers whose frames must pass the switch.
//!
//! Frames of a kernel router's program leave from the kernel. If frames must pass filters, queues,
//! a rate or a line, they enter the pool of the router's process by a hidden interface
//! `NAME@queue`. The process sends them by the named interface, like every other router.

use europa_api::{At, Documents, Interface, InterfaceName, Queues, Router, Run};

use crate::ids::RouterId;
use crate::links::impairment;

/// Adds the hidden interfaces that kernel routers need.
pub(crate) fn expand(documents: &mut Documents) {
    let hidden =
        documents.routers.iter().map(|router| names(documents, router)).collect::<Vec<_>>();
    for (router, names) in documents.routers.iter_mut().zip(hidden) {
        router.interfaces.0.extend(names.into_iter().map(|name| (at(name), at(nowhere()))));
    }
}

/// The hidden interfaces of a router.
fn names(documents: &Documents, router: &Router) -> Vec<InterfaceName> {
    if router.run != Run::Kernel {
        return Vec::new();
    }
    let all = router.interfaces.0.iter().filter(|(name, _)| !name.value.is_hidden());
    let queued = all.filter(|(_, interface)| is_queued(documents, router, &interface.value));
    queued.map(|(name, _)| name.value.queue_side()).collect()
}

/// Whether frames that a kernel router sends by an interface must pass the switch.
fn is_queued(documents: &Documents, router: &Router, interface: &Interface) -> bool {
    let has_filters = documents.filters.iter().any(|filters| filters.slice == router.slice);
    has_filters
        || !interface.queues.0.is_empty()
        || interface.port.as_ref().is_some_and(|port| is_shared_out(documents, port))
        || interface
            .link
            .as_ref()
            .is_some_and(|link| impairment(documents, link, &RouterId::of(router)).is_some())
}

/// Whether a port has a rate, or slices have reservations on it.
fn is_shared_out(documents: &Documents, port: &str) -> bool {
    let rate = documents.port_rates().any(|(name, rate)| *name.value == *port && rate.is_some());
    let parts = documents.slices.iter().filter_map(|slice| slice.reservation.as_ref()?.port(port));
    rate || parts.into_iter().any(|part| part.sends())
}

/// An interface that leads nowhere: its frames come from the kernel.
fn nowhere() -> Interface {
    Interface {
        port: None,
        standby: None,
        link: None,
        matches: None,
        mac: None,
        addresses: Vec::new(),
        mtu: None,
        bind: Vec::new(),
        queues: Queues::default(),
        signalling: None,
    }
}

fn at<T>(value: T) -> At<T> {
    At { value, place: Default::default() }
}

#[cfg(test)]
mod tests {
    use europa_api::{Source, parse};

    use super::*;

    #[test]
    fn what_the_switch_has_to_see_is_queued() {
        let text = "kind: slice\nname: s\nprograms: operator\nRESERVATION---\n\
             kind: port\nname: p\ndevice: d1\nRATE---\nkind: port\nname: q\ndevice: d2\n---\n\
             kind: link\nname: l\nLINE---\n\
             kind: router\nname: y\nslice: s\ninterfaces: {e: {link: l}}\n\
             fast_path: {builtin: ipv4}\n---\n\
             kind: router\nname: x\nslice: s\nrun: kernel\n\
             interfaces: {a: {port: p}, b: {port: q QUEUES}, c: {link: l}}\n\
             fast_path: {xdp: {object: x.o}}\nFILTERS";
        for (what, written, wanted) in [
            ("", "", &[][..]),
            ("RESERVATION", "reservation: {ports: {q: {weight: 3}}}\n", &["b@queue"]),
            ("RESERVATION", "reservation: {ports: {q: {rate_in: 1Mb/s}}}\n", &[]),
            ("RATE", "rate: 1Gb/s\n", &["a@queue"]),
            ("LINE", "delay: 1ms\n", &["c@queue"]),
            ("QUEUES", ", queues: {1: {weight: 2}}", &["b@queue"]),
            (
                "FILTERS",
                "---\nkind: filters\nname: f\nslice: s\nrules: [{protocol: udp, action: count}]\n",
                &["a@queue", "b@queue", "c@queue"],
            ),
        ] {
            let mut text = text.to_owned();
            for place in ["RESERVATION", "RATE", "LINE", " QUEUES", "FILTERS"] {
                let new = if place.trim() == what { written } else { "" };
                text = text.replace(place, new);
            }
            let source = Source { path: "x.yaml".into(), text };
            let documents = parse(&[source]).unwrap_or_else(|p| panic!("{}", p.render(false)));
            let router = documents.routers.iter().find(|router| router.run == Run::Kernel);
            let names = names(&documents, router.expect("a kernel router"));
            assert_eq!(names.iter().map(|name| &**name).collect::<Vec<_>>(), wanted, "{written}");
        }
    }
}
