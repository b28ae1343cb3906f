//! Ports of the machine: no two slices reserve the same, and routers use those of their slice.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::documents::Documents;
use crate::draft::Draft;
use crate::machine_port::{InsidePort, MOST_MACHINE_PORTS, MachinePort, PortNumber, PortProtocol};
use crate::problem::Problem;
use crate::router::Router;
use crate::slice::Slice;
use crate::source::Place;

/// All of them.
pub(super) fn all(draft: &Draft, problems: &mut Vec<Problem>) {
    reserved(&draft.documents, problems);
    for router in &draft.documents.routers {
        inside(router, problems);
    }
    // A reservation may be in an unreadable document.
    if draft.complete {
        used(&draft.documents, problems);
    }
}

fn of(slice: &Slice) -> impl Iterator<Item = &MachinePort> {
    let all = slice.reservation.iter().flat_map(|reservation| &reservation.machine_ports);
    all.map(|port| &port.value)
}

/// Reservations of slices: their number, their addresses, and no two of the same port.
fn reserved(documents: &Documents, problems: &mut Vec<Problem>) {
    let mut taken: HashMap<(PortProtocol, u16), Vec<(&MachinePort, Place)>> = HashMap::new();
    for slice in &documents.slices {
        if let Some(more) = of(slice).nth(MOST_MACHINE_PORTS) {
            let message = format!("a slice reserves at most {MOST_MACHINE_PORTS} ports");
            let place = more.port.place;
            problems.push(Problem::new(place, message).label("the first too many"));
        }
        for port in of(slice) {
            for address in &port.addresses {
                if address.is_loopback() || address.is_unspecified() || address.is_multicast() {
                    let message = format!("{} is no address that others reach", address.value);
                    let problem = Problem::new(address.place, message).label("cannot be reserved");
                    problems.push(problem.help("leave `addresses` out for all of the node"));
                }
            }
            let PortNumber::Fixed(number) = port.port.value else { continue };
            let same = taken.entry((port.protocol.value, number)).or_default();
            if let Some((_, first)) = same.iter().find(|(other, _)| overlap(other, port)) {
                let protocol = port.protocol.value.word();
                let message = format!("{protocol} port {number} is reserved twice");
                let problem = Problem::new(port.port.place, message).label("the second");
                problems.push(problem.also(*first, "the first"));
            }
            same.push((port, port.port.place));
        }
    }
}

/// Whether both reservations have an address in common.
fn overlap(one: &MachinePort, other: &MachinePort) -> bool {
    let has = |all: &MachinePort, address: IpAddr| {
        all.addresses.is_empty() || all.addresses.iter().any(|own| own.value == address)
    };
    one.addresses.is_empty()
        || other.addresses.is_empty()
        || one.addresses.iter().any(|address| has(other, address.value))
}

/// Ports of one slow path: it has an uplink, and none is there twice.
fn inside(router: &Router, problems: &mut Vec<Problem>) {
    let Some(slow_path) = &router.slow_path else { return };
    if let (Some(first), false) = (slow_path.machine_ports.first(), slow_path.has_uplink()) {
        let problem = Problem::new(first.place, "ports of the machine come in by the uplink")
            .label("this slow path has none");
        problems.push(problem.help("add `uplink: true`"));
    }
    for (index, port) in slow_path.machine_ports.iter().enumerate() {
        let earlier = slow_path.machine_ports.iter().take(index);
        let mut same = earlier.filter(|other| {
            other.protocol == port.protocol
                && other.inside == port.inside
                && other.port == port.port
        });
        if let Some(first) = same.next() {
            let problem =
                Problem::new(port.inside.place, "the same port twice").label("the second");
            problems.push(problem.also(first.inside.place, "the first"));
        }
    }
}

/// Routers use only what their slice reserves, each reservation once.
fn used(documents: &Documents, problems: &mut Vec<Problem>) {
    for slice in &documents.slices {
        let own = documents.routers.iter().filter(|router| router.slice == slice.name);
        let slow_paths = own.filter_map(|router| router.slow_path.as_ref());
        let wanted: Vec<&InsidePort> =
            slow_paths.flat_map(|one| &one.machine_ports).map(|port| &port.value).collect();
        for (index, port) in wanted.iter().enumerate() {
            let same = |one: &&&InsidePort| one.protocol == port.protocol && one.port == port.port;
            let earlier = wanted.iter().take(index).filter(same).count();
            let reserved = of(slice)
                .filter(|one| one.protocol == port.protocol && one.port == port.port)
                .count();
            if earlier < reserved {
                continue;
            }
            let (protocol, number) = (port.protocol.value.word(), port.port.value);
            let message = match reserved {
                0 => format!("slice {} does not reserve {protocol} port {number}", slice.name),
                _ => format!("{protocol} port {number} of slice {} is used already", slice.name),
            };
            let help = format!(
                "the slice's `reservation` has `machine_ports: [{{protocol: {protocol}, port: {number}}}]`"
            );
            problems.push(Problem::new(port.port.place, message).label("not reserved").help(help));
        }
    }
}
