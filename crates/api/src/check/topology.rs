//! Hosts and links: ends, values that exclude each other, families.

use std::net::IpAddr;

use super::routers::{host_bits, linux_device};
use crate::documents::Documents;
use crate::host::{Host, HostAttachment, HostPlace};
use crate::link::{Line, Link, Loss};
use crate::problem::Problem;
use crate::source::At;
use crate::values::Name;

/// RFC 791 and the largest jumbo frames, as for routers.
const MTUS: std::ops::RangeInclusive<u32> = 68..=9216;

/// What a link says must fit together and to its ends.
pub(super) fn link(
    link: &Link,
    documents: &Documents,
    complete: bool,
    problems: &mut Vec<Problem>,
) {
    let directions = [link.a_to_b.as_ref(), link.b_to_a.as_ref()];
    line(&link.both, &Line::default(), problems);
    for own in directions.into_iter().flatten() {
        line(own, &link.both, problems);
    }
    let says = [Some(&link.both), link.a_to_b.as_deref(), link.b_to_a.as_deref()];
    let is_end =
        |own: &Option<At<Name>>| own.as_ref().is_some_and(|own| own.value == link.name.value);
    let mut of_routers = documents.routers.iter().flat_map(|router| &router.interfaces.0);
    let mut of_hosts = documents.hosts.iter().flat_map(|host| &host.interfaces.0);
    let hosts_only =
        of_hosts.any(|(_, i)| is_end(&i.link)) && !of_routers.any(|(_, i)| is_end(&i.link));
    if complete && hosts_only && says.into_iter().flatten().any(|line| !line.is_empty()) {
        problems.push(
            Problem::new(link.name.place, "a link between two hosts is a plain cable")
                .label("nobody would carry out what it says")
                .help("put a router with `builtin: bridge` between them"),
        );
    }
    let Some(a) = link.a.as_ref().filter(|_| complete) else { return };
    let ends = ends(documents, &link.name);
    if !ends.contains(&a.value) {
        problems.push(
            Problem::new(a.place, format!("link {:?} does not end at {:?}", &**link.name, a.value))
                .label("not one of its ends")
                .help(format!("its ends are {}", ends.join(" and "))),
        );
    } else if ends.iter().all(|end| *end == a.value) {
        problems.push(
            Problem::new(a.place, format!("both ends of link {:?} are at {a}", &**link.name))
                .label("says nothing")
                .help("directions cannot be told apart on a link from a router to itself"),
        );
    }
}

/// The names of whatever a link joins.
fn ends(documents: &Documents, link: &str) -> Vec<String> {
    let routers = documents.routers.iter().flat_map(|router| {
        let of = router
            .interfaces
            .0
            .iter()
            .filter(|(_, i)| i.link.as_ref().is_some_and(|l| &***l == link));
        of.map(|_| router.full_name()).collect::<Vec<_>>()
    });
    let hosts = documents.hosts.iter().flat_map(|host| {
        let of = host
            .interfaces
            .0
            .iter()
            .filter(|(_, i)| i.link.as_ref().is_some_and(|l| &***l == link));
        of.map(|_| host.name.to_string()).collect::<Vec<_>>()
    });
    routers.chain(hosts).collect()
}

fn line(own: &Line, both: &Line, problems: &mut Vec<Problem>) {
    let all = own.or(both);
    let mut needs = |place, what: &str, other: &str| {
        problems.push(
            Problem::new(place, format!("`{what}` needs `{other}`"))
                .label(format!("without `{other}` it does nothing")),
        );
    };
    if let (Some(jitter), None) = (own.jitter, all.delay) {
        needs(jitter.place, "jitter", "delay");
    }
    if let (Some(distribution), None) = (own.distribution, all.jitter) {
        needs(distribution.place, "distribution", "jitter");
    }
    if let (Some(reorder), None) = (own.reorder, all.delay) {
        needs(reorder.place, "reorder", "delay");
    }
    if let (Some(limit), None) = (own.limit, all.rate) {
        needs(limit.place, "limit", "rate");
    }
    if let Some(loss) = own.loss
        && let Loss::Bursts(bursts) = loss.value
        && bursts.end.of_one() == 0.0
    {
        problems.push(
            Problem::new(bursts.end.place, "a link that is bad stays bad")
                .label("it never becomes good again"),
        );
    }
}

/// Values of a host.
pub(super) fn host(host: &Host, problems: &mut Vec<Problem>) {
    let own = host.place() == HostPlace::Own;
    for (what, place) in [
        ("sysctls", host.sysctls.0.first().map(|(name, _)| name.place)),
        ("run", host.run.first().map(|line| line.place)),
        ("env", host.env.0.first().map(|(name, _)| name.place)),
    ] {
        if let Some(place) = place.filter(|_| !own) {
            problems.push(
                Problem::new(place, format!("`{what}` is for hosts that Europa makes"))
                    .label("this one is somebody else's"),
            );
        }
    }
    for (name, _) in &host.sysctls.0 {
        if !name.starts_with("net.") || name.contains("..") || name.contains(char::is_whitespace) {
            problems.push(
                Problem::new(
                    name.place,
                    format!("{:?} is no parameter of a network namespace", name.value),
                )
                .label("not below net."),
            );
        }
    }
    for (name, interface) in &host.interfaces.0 {
        if host
            .interfaces
            .0
            .iter()
            .find(|(n, _)| n == name)
            .is_some_and(|(n, _)| n.place != name.place)
        {
            problems.push(
                Problem::new(name.place, format!("two interfaces {:?}", &***name))
                    .label("the second"),
            );
        }
        if &***name == "lo" {
            problems
                .push(Problem::new(name.place, "every host has a `lo` of its own").label("taken"));
        }
        if let Some(mtu) = interface.mtu.filter(|mtu| !MTUS.contains(mtu)) {
            problems.push(
                Problem::new(mtu.place, format!("an MTU of {mtu} is out of range: 68 to 9216"))
                    .label("out of range"),
            );
        }
        if let Some(device) = &interface.device {
            linux_device(device, problems);
            if device.value == "lo" {
                problems.push(
                    Problem::new(device.place, "a `lo` stays in its namespace")
                        .label("cannot be moved"),
                );
            }
        }
        if let (Some(mac), Some(HostAttachment::Device(_))) =
            (interface.mac, interface.attachment())
        {
            problems.push(
                Problem::new(mac.place, "a device keeps its own Ethernet address")
                    .label("would have to be put back"),
            );
        }
    }
    let mut families = Vec::new();
    for gateway in &host.gateway {
        if families.contains(&gateway.is_ipv4()) {
            problems.push(
                Problem::new(gateway.place, "a host has one gateway of each family")
                    .label("the second of its family"),
            );
        }
        families.push(gateway.is_ipv4());
    }
    for route in &host.routes {
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
            problems.push(
                Problem::new(
                    interface.place,
                    format!("the host has no interface {:?}", &***interface),
                )
                .label("unknown interface"),
            );
        }
        if let (Some(IpAddr::V6(via)), None) = (route.via.map(|via| via.value), &route.interface)
            && via.is_unicast_link_local()
        {
            problems.push(
                Problem::new(route.place, "a link-local next hop needs an `interface`")
                    .label("on which link?"),
            );
        }
    }
}
