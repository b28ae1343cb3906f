//! Links to other machines.

use std::collections::HashMap;
use std::net::IpAddr;

use super::attachments::Ends;
use super::routers::family;
use crate::draft::Draft;
use crate::ends::Owner;
use crate::link::Link;
use crate::problem::Problem;
use crate::router::Run;
use crate::source::At;
use crate::tunnel::LinkTunnel;

/// Checks that every tunnel is valid, differs from all others, and has one end on this node.
pub(super) fn all(draft: &Draft, ends: &Ends<'_>, problems: &mut Vec<Problem>) {
    let mut seen = HashMap::new();
    for link in &draft.documents.links {
        let Some(tunnel) = &link.tunnel else { continue };
        values(tunnel, problems);
        one_end(link, tunnel, ends, problems);
        let key = (tunnel.local.value, tunnel.remote.value, tunnel.port(), tunnel.id.value);
        if let Some(first) = seen.insert(key, tunnel.id.place) {
            let message = format!(
                "two links have the number {} between {} and {}, port {}",
                tunnel.id,
                tunnel.local,
                tunnel.remote,
                tunnel.port()
            );
            let problem = Problem::new(tunnel.id.place, message).label("the second");
            problems.push(problem.also(first, "the first").help("give one of them another `id`"));
        }
    }
}

fn values(tunnel: &LinkTunnel, problems: &mut Vec<Problem>) {
    let LinkTunnel { local, remote, port, id, send_key, receive_key, .. } = tunnel;
    for address in [local, remote] {
        problems.extend(no_node(address));
    }
    if local.is_ipv4() != remote.is_ipv4() {
        let message = "a tunnel's two ends have addresses of one family";
        let problem = Problem::new(remote.place, message).label(family(remote.value));
        problems.push(
            problem
                .also(local.place, family(local.value))
                .help("take an IPv4 address of both nodes, or an IPv6 address of both"),
        );
    } else if local.value == remote.value {
        problems.push(
            Problem::new(remote.place, "a tunnel's two ends have two addresses")
                .label("the same address")
                .also(local.place, "this end")
                .help("between two interfaces of one node, leave `tunnel` out"),
        );
    }
    if let Some(port) = port.filter(|port| port.value == 0) {
        problems.push(Problem::new(port.place, "there is no UDP port 0").label("1 to 65535"));
    }
    if id.value > 0xff_ffff {
        problems.push(
            Problem::new(id.place, format!("a link's number is 0 to {}, not {id}", 0xff_ffff))
                .label("out of range"),
        );
    }
    if send_key.value == receive_key.value {
        problems.push(
            Problem::new(receive_key.place, "both directions of the tunnel have one key")
                .label("the same key")
                .also(send_key.place, "the other direction")
                .help("with one key, this node would take its own packets for the other node's"),
        );
    }
}

/// A mistake if an address is not a node's.
fn no_node(address: &At<IpAddr>) -> Option<Problem> {
    let problem =
        || Problem::new(address.place, format!("a tunnel cannot end at {}", address.value));
    if address.is_multicast() || address.is_unspecified() || address.is_loopback() {
        return Some(problem().label("not the address of one node"));
    }
    let is_mapped = matches!(address.value, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some());
    if is_mapped {
        return Some(problem().label("an IPv4 address as IPv6").help("write it as IPv4"));
    }
    let is_of_a_link = matches!(address.value, IpAddr::V6(ip) if ip.is_unicast_link_local());
    is_of_a_link.then(|| {
        problem()
            .label("a link-local address")
            .help("take an address that is valid beyond one network: it names no device")
    })
}

/// Exactly one interface of this node must be on the link, and the switch must forward its frames.
fn one_end(link: &Link, tunnel: &LinkTunnel, ends: &Ends<'_>, problems: &mut Vec<Problem>) {
    // A link without ends, or with three, is reported elsewhere.
    let Some(ends) = ends.get(&**link.name) else { return };
    if let [first, second] = ends.as_slice() {
        let message = format!("both ends of link {:?} are here, and it has a tunnel", &**link.name);
        problems.push(
            Problem::new(tunnel.remote.place, message)
                .label("the other end is there")
                .also(first.link.place, "an end")
                .also(second.link.place, "another end")
                .help("leave `tunnel` out, or take one of the interfaces from the link"),
        );
    }
    for end in ends {
        let Owner::Router(router) = end.owner else { continue };
        if router.run == Run::Kernel {
            let message = format!("kernel router {} has no tunnel", router.full_name());
            problems.push(
                Problem::new(end.link.place, message)
                    .label("a link to another machine")
                    .help("its frames pass the kernel only: use `run: isolated` or `run: inline`"),
            );
        }
    }
}
