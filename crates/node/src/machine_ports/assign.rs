//! Which reservation has which number, and where its packets go: pure calculations.

use std::collections::BTreeMap;
use std::net::IpAddr;

use europa_api::{Documents, MachinePort, MappedBy, PortNumber, PortProtocol};
use serde::{Deserialize, Serialize};

/// A port of the machine that a slice reserves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reserved {
    pub(crate) slice: String,
    /// Its number in the slice, which it keeps.
    pub(crate) row: u32,
    pub(crate) protocol: PortProtocol,
    /// The node chooses the number.
    pub(crate) any: bool,
    /// 0: none yet.
    pub(crate) port: u16,
    /// Empty: all of the node.
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) place: Option<Place>,
    /// Why it cannot be had.
    pub(crate) message: Option<String>,
}

/// Where packets to a port go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    /// SLICE/ROUTER.
    pub(crate) router: String,
    /// The port in its slow path.
    pub(crate) inside: u16,
    pub(crate) by: MappedBy,
}

impl Place {
    fn is(&self, router: &str, inside: u16) -> bool {
        self.router == router && self.inside == inside
    }
}

impl Reserved {
    fn fits(&self, slice: &str, wanted: &MachinePort) -> bool {
        let same_port = match wanted.port.value {
            PortNumber::Any => self.any,
            PortNumber::Fixed(port) => !self.any && self.port == port,
        };
        let addresses = wanted.addresses.iter().map(|address| address.value);
        self.slice == slice
            && self.protocol == wanted.protocol.value
            && same_port
            && self.addresses.iter().copied().eq(addresses)
    }

    /// The number that rules and sockets have; `None` while it has none.
    pub(crate) fn number(&self) -> Option<u16> {
        (self.port != 0 && self.message.is_none()).then_some(self.port)
    }
}

/// The reservations of documents. Those that were there before keep row, number and place.
pub(crate) fn reserve(old: &[Reserved], documents: &Documents) -> Vec<Reserved> {
    let mut left: Vec<&Reserved> = old.iter().collect();
    let mut all = Vec::new();
    for slice in &documents.slices {
        let wanted = slice.reservation.iter().flat_map(|one| &one.machine_ports);
        for wanted in wanted {
            let known = left.iter().position(|one| one.fits(&slice.name, wanted));
            let known = known.map(|at| left.remove(at).clone());
            let (any, port) = match wanted.port.value {
                PortNumber::Any => (true, 0),
                PortNumber::Fixed(port) => (false, port),
            };
            all.push(known.unwrap_or_else(|| Reserved {
                slice: slice.name.to_string(),
                row: u32::MAX,
                protocol: wanted.protocol.value,
                any,
                port,
                addresses: wanted.addresses.iter().map(|address| address.value).collect(),
                place: None,
                message: None,
            }));
        }
    }
    for at in 0..all.len() {
        if all[at].row == u32::MAX {
            let own = || all.iter().filter(|one| one.slice == all[at].slice);
            let free = (0..).find(|row| !own().any(|one| one.row == *row));
            all[at].row = free.unwrap_or_default();
        }
    }
    all
}

/// Sets the places that documents say, and removes those of routers without an uplink. A place that
/// a document no longer says is free.
pub(crate) fn place(
    all: &mut [Reserved],
    documents: &Documents,
    has_uplink: impl Fn(&str) -> bool,
) {
    let before: Vec<Option<Place>> = all.iter().map(|one| one.place.clone()).collect();
    for one in all.iter_mut() {
        let goes = |place: &Place| place.by == MappedBy::Document || !has_uplink(&place.router);
        if one.place.as_ref().is_some_and(goes) {
            one.place = None;
        }
    }
    for router in &documents.routers {
        let name = router.full_name();
        if !has_uplink(&name) {
            continue;
        }
        for wanted in router.slow_path.iter().flat_map(|one| &one.machine_ports) {
            let inside = wanted.inside.value;
            // The place of before, then a free one, then one that a program has.
            let rank = |at: usize, one: &Reserved| {
                let is_same = before[at].as_ref().is_some_and(|place| place.is(&name, inside));
                match one.place.as_ref().map(|place| place.by) {
                    Some(MappedBy::Document) => 0,
                    _ if is_same => 4,
                    None => 3,
                    Some(MappedBy::Program) => 2,
                    Some(MappedBy::Request) => 1,
                }
            };
            let fits = |one: &Reserved| {
                one.slice == **router.slice
                    && one.protocol == wanted.protocol.value
                    && match wanted.port.value {
                        PortNumber::Any => one.any,
                        PortNumber::Fixed(port) => !one.any && one.port == port,
                    }
            };
            let best = all.iter().enumerate().filter(|(_, one)| fits(one));
            let best = best.map(|(at, one)| (rank(at, one), std::cmp::Reverse(at))).max();
            if let Some((1.., std::cmp::Reverse(at))) = best {
                all[at].place =
                    Some(Place { router: name.clone(), inside, by: MappedBy::Document });
            }
        }
    }
}

/// The reservation of a slice for a port inside: the one that it has already, the one of the same
/// number, or any. `bpf/binds.bpf.c` chooses in the same way.
pub(crate) fn choose(
    all: &[Reserved],
    slice: &str,
    protocol: PortProtocol,
    router: &str,
    inside: u16,
) -> Option<usize> {
    let rank = |one: &Reserved| match &one.place {
        Some(place) if place.is(router, inside) => 3,
        Some(_) => 0,
        None if one.port == inside => 2,
        None if one.any => 1,
        None => 0,
    };
    let own = all.iter().enumerate();
    let own = own.filter(|(_, one)| one.slice == slice && one.protocol == protocol);
    let ranked = own.map(|(at, one)| (rank(one), std::cmp::Reverse(at)));
    ranked.max().filter(|(rank, _)| *rank > 0).map(|(_, std::cmp::Reverse(at))| at)
}

/// The numbers of slices: existing ones are kept. Slices beyond `most` have none.
pub(crate) fn number(
    old: &BTreeMap<String, u32>,
    all: &[Reserved],
    most: u32,
) -> BTreeMap<String, u32> {
    let is_there = |slice: &str| all.iter().any(|one| one.slice == slice);
    let mut numbers: BTreeMap<String, u32> = old.clone();
    numbers.retain(|slice, _| is_there(slice));
    for one in all {
        if !numbers.contains_key(&one.slice)
            && let Some(free) = (0..most).find(|number| !numbers.values().any(|n| n == number))
        {
            numbers.insert(one.slice.clone(), free);
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use europa_api::{Source, parse};

    use super::*;

    fn documents(red: &str, blue: &str, inside: &str) -> Documents {
        let text = format!(
            "kind: slice\nname: red\nreservation: {{machine_ports: [{red}]}}\n---\n\
             kind: slice\nname: blue\nreservation: {{machine_ports: [{blue}]}}\n---\n\
             kind: router\nname: r\nslice: red\nslow_path: {{uplink: true, machine_ports: [{inside}]}}\n"
        );
        let source = Source { path: "t.yaml".into(), text };
        parse(&[source]).unwrap_or_else(|problems| panic!("{}", problems.render(false)))
    }

    const ANY: &str = "{protocol: tcp, port: any}";
    const WEB: &str = "{protocol: tcp, port: 8080}";

    #[test]
    fn reservations_keep_rows_and_numbers() {
        let mut all = reserve(&[], &documents(&format!("{WEB}, {ANY}"), ANY, ""));
        let rows = |all: &[Reserved]| -> Vec<(String, u32, u16)> {
            all.iter().map(|one| (one.slice.clone(), one.row, one.port)).collect()
        };
        let of = |slice: &str, row, port| (slice.to_owned(), row, port);
        assert_eq!(rows(&all), [of("red", 0, 8080), of("red", 1, 0), of("blue", 0, 0)]);
        all[1].port = 1024;
        // The first goes, another comes: the second keeps its row.
        let more = reserve(&all, &documents(&format!("{ANY}, {ANY}"), "", ""));
        assert_eq!(rows(&more), [of("red", 1, 1024), of("red", 0, 0)]);
        let numbers = number(&BTreeMap::from([("blue".into(), 7)]), &all, 256);
        assert_eq!(numbers, BTreeMap::from([("blue".into(), 7), ("red".into(), 0)]));
        assert_eq!(number(&BTreeMap::new(), &all, 1).len(), 1);
    }

    #[test]
    fn documents_place_before_programs() {
        let written =
            documents(&format!("{WEB}, {ANY}"), "", "{protocol: tcp, port: any, inside: 80}");
        let mut all = reserve(&[], &written);
        let by_program = Place { router: "red/r".into(), inside: 22, by: MappedBy::Program };
        all[1].place = Some(by_program);
        place(&mut all, &written, |_| true);
        let inside = |all: &[Reserved]| all[1].place.as_ref().map(|place| (place.inside, place.by));
        assert_eq!(inside(&all), Some((80, MappedBy::Document)));
        assert_eq!(all[0].place, None);
        // A document that says nothing leaves it free.
        place(&mut all, &documents(&format!("{WEB}, {ANY}"), "", ""), |_| true);
        assert_eq!(inside(&all), None);
        // Without an uplink there is no way.
        place(&mut all, &written, |_| false);
        assert_eq!(inside(&all), None);
    }

    #[test]
    fn programs_get_their_own_number_or_any() {
        let mut all = reserve(&[], &documents(&format!("{ANY}, {WEB}"), ANY, ""));
        let chosen =
            |all: &[Reserved], inside| choose(all, "red", PortProtocol::Tcp, "red/r", inside);
        assert_eq!(chosen(&all, 8080), Some(1), "its own number");
        assert_eq!(chosen(&all, 22), Some(0), "any");
        assert_eq!(choose(&all, "red", PortProtocol::Udp, "red/r", 22), None);
        all[0].place = Some(Place { router: "red/r".into(), inside: 22, by: MappedBy::Program });
        assert_eq!(chosen(&all, 22), Some(0), "what it has");
        assert_eq!(chosen(&all, 80), None, "8080 is for 8080 only");
        assert_eq!(choose(&all, "red", PortProtocol::Tcp, "red/other", 22), None);
    }
}
