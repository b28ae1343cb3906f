//! Next hops of hosts: reports gateways and routes that Linux would refuse.
//!
//! Linux accepts a next hop only if it can be reached without another next hop: over a subnet of an
//! interface, or over an earlier route without a next hop. Routes are set in the order of the file;
//! gateways come last.

use std::net::IpAddr;

use ipnet::IpNet;

use super::routers::{family, host_bits};
use crate::addressing;
use crate::documents::Documents;
use crate::draft::Draft;
use crate::host::{Host, HostInterface, HostPlace, HostRoute};
use crate::problem::Problem;
use crate::source::{At, Place};

/// Checks routes and gateways of every host.
pub(super) fn all(draft: &Draft, problems: &mut Vec<Problem>) {
    for (host, whole) in draft.documents.hosts.iter().zip(&draft.whole_hosts) {
        gateways(host, problems);
        host.routes.iter().for_each(|route| values(host, route, problems));
        // An unreadable address might be in the next hop's subnet.
        if *whole && !host.interfaces.0.iter().any(|(_, interface)| is_bare(interface)) {
            reachable(host, problems);
        }
    }
}

/// The same check for hosts with generated addresses on some interfaces. All other checks have
/// passed.
pub(super) fn assigned(documents: &Documents, problems: &mut Vec<Problem>) {
    let says = |host: &Host| {
        let via = host.routes.iter().any(|route| route.via.is_some());
        (via || !host.gateway.is_empty()) && host.interfaces.0.iter().any(|(_, i)| is_bare(i))
    };
    if !documents.hosts.iter().any(says) {
        return;
    }
    let mut complete = documents.clone();
    addressing::assign(&mut complete);
    for (written, host) in documents.hosts.iter().zip(&complete.hosts) {
        if says(written) {
            reachable(host, problems);
        }
    }
}

/// Whether an interface may get automatic addresses.
fn is_bare(interface: &HostInterface) -> bool {
    interface.link.is_some() && interface.addresses.is_empty()
}

/// A host may have one gateway of each family at most, and none that is reachable on every link.
fn gateways(host: &Host, problems: &mut Vec<Problem>) {
    for (index, gateway) in host.gateway.iter().enumerate() {
        let mut before = host.gateway[..index].iter();
        if before.any(|other| other.is_ipv4() == gateway.is_ipv4()) {
            problems.push(
                Problem::new(gateway.place, "a host has one gateway of each family")
                    .label("the second of its family"),
            );
        }
        if is_link_local(gateway.value) {
            let interface = host.interfaces.0.first().map_or("eth0", |(name, _)| name);
            problems.push(
                Problem::new(gateway.place, "a link-local gateway needs an interface")
                    .label("on which link?")
                    .help(format!(
                        "say `routes: [{{to: \"::/0\", via: \"{}\", interface: {interface}}}]`",
                        gateway.value
                    )),
            );
        }
    }
}

/// Mistakes of a route by itself.
fn values(host: &Host, route: &At<HostRoute>, problems: &mut Vec<Problem>) {
    host_bits(&route.to, problems);
    if let Some(via) = route.via.filter(|via| via.is_ipv4() != route.to.addr().is_ipv4()) {
        problems.push(
            Problem::new(via.place, "the next hop is of another family than the destination")
                .label("of another family")
                .also(route.to.place, "the destination"),
        );
    }
    if let Some(interface) = &route.interface
        && !host.interfaces.0.iter().any(|(name, _)| **name == **interface)
    {
        let message = format!("the host has no interface {:?}", &***interface);
        problems.push(Problem::new(interface.place, message).label("unknown interface"));
    }
    if let (Some(via), None) = (route.via, &route.interface)
        && is_link_local(via.value)
    {
        problems.push(
            Problem::new(route.place, "a link-local next hop needs an `interface`")
                .label("on which link?"),
        );
    }
}

/// Reports next hops that Linux would refuse. The addresses and routes of existing hosts are
/// unknown here.
fn reachable(host: &Host, problems: &mut Vec<Problem>) {
    if host.place() != HostPlace::Own {
        return;
    }
    // Prefixes that an interface reaches without a next hop: subnets, and earlier routes.
    let mut direct: Vec<(&str, IpNet)> = Vec::new();
    for (name, interface) in &host.interfaces.0 {
        direct.extend(interface.addresses.iter().map(|own| (&***name, own.trunc())));
    }
    for route in &host.routes {
        let interface = route.interface.as_ref().map(|name| (&***name, name.place));
        match (&route.via, interface) {
            (Some(via), _) if via.is_ipv4() == route.to.addr().is_ipv4() => {
                problems.extend(next_hop(host, via, interface, &direct));
            }
            (None, Some((name, _))) => direct.push((name, route.to.trunc())),
            _ => {}
        }
    }
    for gateway in &host.gateway {
        problems.extend(next_hop(host, gateway, None, &direct));
    }
}

/// The mistake of a next hop, through any interface or through this one.
fn next_hop(
    host: &Host,
    via: &At<IpAddr>,
    through: Option<(&str, Place)>,
    direct: &[(&str, IpNet)],
) -> Option<Problem> {
    if is_link_local(via.value) {
        return None;
    }
    let own = host.interfaces.0.iter().flat_map(|(_, interface)| &interface.addresses);
    for address in own.filter(|own| own.contains(&via.value)) {
        let is_subnet = via.is_ipv4() && address.prefix_len() + 1 < address.max_prefix_len();
        let what = if via.value == address.addr() {
            "the host's own address"
        } else if is_subnet && via.value == address.broadcast() {
            "the broadcast address of the subnet"
        } else {
            continue;
        };
        let message = format!("{} cannot be a next hop", via.value);
        let problem = Problem::new(via.place, message).label(format!("this is {what}"));
        return Some(problem.also(address.place, "the interface's address"));
    }
    let is_through = |name: &str| through.is_none_or(|(wanted, _)| wanted == name);
    if direct.iter().any(|(name, net)| is_through(name) && net.contains(&via.value)) {
        return None;
    }
    let of = match through {
        Some((name, _)) => format!("interface {name:?}"),
        None => format!("host {:?}", &**host.name),
    };
    let problem = Problem::new(via.place, format!("{} is on no subnet of {of}", via.value))
        .label("cannot be reached directly")
        .help(remedy(host, via.value, through.map(|(name, _)| name)));
    Some(match through {
        Some((_, place)) => problem.also(place, "the interface"),
        None => problem,
    })
}

/// A remedy for a next hop that is in no subnet.
fn remedy(host: &Host, via: IpAddr, through: Option<&str>) -> String {
    let interfaces = host.interfaces.0.iter();
    let through_it = interfaces.filter(|(name, _)| through.is_none_or(|wanted| &***name == wanted));
    let subnets = through_it.flat_map(|(_, interface)| &interface.addresses);
    let same = subnets.filter(|net| net.addr().is_ipv4() == via.is_ipv4());
    let known: Vec<String> = same.map(|net| net.trunc().to_string()).collect();
    let first = host.interfaces.0.first().map_or("eth0", |(name, _)| name);
    let interface = through.unwrap_or(first);
    let bits = if via.is_ipv4() { 32 } else { 128 };
    let subnets = match known.as_slice() {
        [] => format!("no interface has an {} address", family(via)),
        known => format!("its subnets are {}", known.join(", ")),
    };
    format!(
        "{subnets}; a next hop outside them needs a route to itself before: `{{to: \
         \"{via}/{bits}\", interface: {interface}}}`"
    )
}

/// fe80::/10 (RFC 4291, section 2.5.6), which every interface's link has.
fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(ip) if ip.is_unicast_link_local())
}
