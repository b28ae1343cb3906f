//! Checks routes and neighbours: next hops must be reachable, and each must be unique.

use std::collections::HashMap;
use std::net::IpAddr;

use super::routers::{family, host_bits};
use crate::problem::Problem;
use crate::router::Router;
use crate::source::{At, Place};

/// Checks routes and neighbours of the built-in router.
pub(super) fn all(router: &Router, problems: &mut Vec<Problem>) {
    let unknown = |name: &At<crate::values::InterfaceName>| {
        let names: Vec<&str> = router.interfaces.0.iter().map(|(name, _)| &***name).collect();
        let problem =
            Problem::new(name.place, format!("the router has no interface {:?}", name.to_string()))
                .label("unknown interface");
        match crate::decode::nearest(name, names.iter().copied()) {
            Some(near) => problem.help(format!("did you mean {near:?}?")),
            None => problem.help(format!("its interfaces are {}", names.join(", "))),
        }
    };
    let off_link = |address: &At<IpAddr>, place: Option<Place>| {
        let problem = Problem::new(
            address.place,
            format!("{} is on no subnet of the interface", address.value),
        )
        .label("cannot be reached directly")
        .help("a next hop stands in one of the subnets of `addresses`");
        match place {
            Some(place) => problem.also(place, "the interface"),
            None => problem,
        }
    };
    twice(router, problems);
    for route in &router.fast_path.routes {
        host_bits(&route.to, problems);
        let interface = route.interface.as_ref().map(|name| (name, router.interface(name)));
        if let Some((name, None)) = interface {
            problems.push(unknown(name));
        }
        let Some(via) = &route.via else { continue };
        if via.is_ipv4() != route.to.addr().is_ipv4() {
            problems.push(
                Problem::new(via.place, "destination and next hop are of different families")
                    .label(family(via.value))
                    .also(route.to.place, family(route.to.addr())),
            );
            continue;
        }
        match interface {
            Some((name, Some((_, interface))))
                if !link_local(via.value) && !interface.reaches(via.value) =>
            {
                problems.push(off_link(via, Some(name.place)));
            }
            Some(_) => {}
            None if link_local(via.value) => problems.push(
                Problem::new(via.place, "a link-local next hop needs `interface`")
                    .label("stands on every interface"),
            ),
            None if router.route_interface(route).is_none() => problems.push(off_link(via, None)),
            None => {}
        }
        next_hop(via, router, problems);
    }
    for neighbour in &router.fast_path.neighbours {
        match router.interface(&neighbour.interface) {
            None => problems.push(unknown(&neighbour.interface)),
            Some((_, interface)) => {
                let address = neighbour.address.value;
                if !link_local(address) && !interface.reaches(address) {
                    problems.push(off_link(&neighbour.address, Some(neighbour.interface.place)));
                }
            }
        }
    }
}

/// Reports several routes to one prefix, because only one could apply, and several neighbours with
/// one address.
fn twice(router: &Router, problems: &mut Vec<Problem>) {
    let mut routes = HashMap::new();
    for route in &router.fast_path.routes {
        let to = route.to.trunc();
        if let Some(first) = routes.insert(to, route.to.place) {
            problems.push(
                Problem::new(route.to.place, format!("the router has two routes to {to}"))
                    .label("the second")
                    .also(first, "the first")
                    .help("of routes to one prefix only one can be taken"),
            );
        }
    }
    let mut neighbours = HashMap::new();
    for neighbour in &router.fast_path.neighbours {
        let key = (neighbour.address.value, &neighbour.interface.value);
        let place = neighbour.address.place;
        if let Some(first) = neighbours.insert(key, place) {
            let message = format!("the router has neighbour {} twice", neighbour.address.value);
            problems
                .push(Problem::new(place, message).label("the second").also(first, "the first"));
        }
    }
}

/// A next hop must be another station, not the router itself or a whole subnet.
fn next_hop(via: &At<IpAddr>, router: &Router, problems: &mut Vec<Problem>) {
    let interfaces = router.interfaces.0.iter();
    for address in interfaces.flat_map(|(_, interface)| &interface.addresses) {
        let is_subnet = via.is_ipv4() && address.prefix_len() + 1 < address.max_prefix_len();
        let what = if via.value == address.addr() {
            "the router's own address"
        } else if is_subnet && via.value == address.network() {
            "the address of the subnet itself"
        } else if is_subnet && via.value == address.broadcast() {
            "the broadcast address of the subnet"
        } else {
            continue;
        };
        problems.push(
            Problem::new(via.place, format!("{} cannot be a next hop", via.value))
                .label(format!("this is {what}"))
                .also(address.place, "the interface's address"),
        );
        return;
    }
}

/// fe80::/10 (RFC 4291, section 2.5.6), which every interface's link has.
fn link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(ip) if ip.is_unicast_link_local())
}
