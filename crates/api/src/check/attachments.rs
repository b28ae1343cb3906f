//! Links have two ends, and no packet of a port belongs to two interfaces.

use std::collections::{BTreeMap, HashMap};

use ipnet::IpNet;

use crate::documents::{Documents, Draft};
use crate::interface::{Interface, Selector};
use crate::problem::Problem;
use crate::router::Router;
use crate::source::{At, Place};
use crate::values::Mac;

/// An interface at one end of a link.
struct End<'d> {
    link: Place,
    mac: Option<At<Mac>>,
    addresses: &'d [At<IpNet>],
}

/// Every link joins exactly two interfaces, which can tell each other apart.
pub(super) fn links(draft: &Draft, problems: &mut Vec<Problem>) {
    let mut ends: BTreeMap<&str, Vec<End<'_>>> = BTreeMap::new();
    for router in &draft.documents.routers {
        for (_, interface) in &router.interfaces.0 {
            if let Some(link) = &interface.link {
                let (mac, addresses) = (interface.written_mac(), &interface.addresses);
                ends.entry(link).or_default().push(End { link: link.place, mac, addresses });
            }
        }
    }
    for host in &draft.documents.hosts {
        for (_, interface) in &host.interfaces.0 {
            if let Some(link) = &interface.link {
                let (mac, addresses) = (interface.mac, &interface.addresses);
                ends.entry(link).or_default().push(End { link: link.place, mac, addresses });
            }
        }
    }
    for (name, ends) in &ends {
        if let [first, second] = ends.as_slice() {
            alike(name, first, second, problems);
        }
    }
    for (name, ends) in &ends {
        let places: Vec<Place> = ends.iter().map(|end| end.link).collect();
        match places.as_slice() {
            // The other end may stand in a document that could not be read.
            [only] if draft.complete => problems.push(
                Problem::new(*only, format!("link {name:?} has one end and needs two"))
                    .label("the only interface that names it"),
            ),
            [first, second, rest @ ..] => problems.extend(rest.iter().map(|third| {
                Problem::new(
                    *third,
                    format!("link {name:?} joins two interfaces, not {}", places.len()),
                )
                .label("one too many")
                .also(*first, "the first end")
                .also(*second, "the second end")
            })),
            _ => {}
        }
    }
    for link in draft.documents.links.iter().filter(|_| draft.complete) {
        if !ends.contains_key(&**link.name) {
            problems.push(
                Problem::new(
                    link.name.place,
                    format!("no interface names link {:?}", &**link.name),
                )
                .label("a link without ends")
                .help(format!("two interfaces say `link: {}`", link.name)),
            );
        }
    }
}

/// Two ends of a link that have the same address.
fn alike(link: &str, first: &End<'_>, second: &End<'_>, problems: &mut Vec<Problem>) {
    let mut same = |what: String, one: Place, other: Place| {
        problems.push(
            Problem::new(other, format!("both ends of link {link:?} have {what}"))
                .label("the second end")
                .also(one, "the first end"),
        );
    };
    if let (Some(one), Some(other)) = (first.mac, second.mac)
        && one.value == other.value
    {
        same(format!("the Ethernet address {one}"), one.place, other.place);
    }
    for one in first.addresses {
        for other in second.addresses.iter().filter(|other| other.addr() == one.addr()) {
            same(format!("the address {}", one.addr()), one.place, other.place);
        }
    }
}

/// A table entry that only one interface of a port and VLAN can have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Mac([u8; 6]),
    Prefix(ipnet::IpNet),
    Udp(u16),
    Vni(u32),
    Mpls(u32),
    All,
}

/// No two interfaces match the same packets of a port equally well.
pub(super) fn matches(documents: &Documents, problems: &mut Vec<Problem>) {
    let mut entries: HashMap<(&str, Option<u16>, Key), Place> = HashMap::new();
    let mut wholes: HashMap<&str, Place> = HashMap::new();
    let mut others: HashMap<&str, Vec<Place>> = HashMap::new();
    for router in &documents.routers {
        for (name, interface) in &router.interfaces.0 {
            let Some(port) = &interface.port else { continue };
            let fallback = interface.matches.as_ref().map_or(name.place, |m| m.place);
            if interface.selector() == Selector::All && interface.vlan().is_none() {
                if let Some(first) = wholes.insert(port, fallback) {
                    others.entry(port).or_default().push(first);
                }
            } else {
                others.entry(port).or_default().push(fallback);
            }
            for (key, shown, place) in keys(router, name, interface, fallback) {
                // Two that want the whole port are reported below.
                if key == Key::All && interface.vlan().is_none() {
                    continue;
                }
                if let Some(first) = entries.insert((port, interface.vlan(), key), place) {
                    let vlan = interface.vlan().map_or(String::new(), |id| format!(", VLAN {id}"));
                    let message =
                        format!("two interfaces of port {:?}{vlan} match {shown}", &***port);
                    problems.push(
                        Problem::new(place, message).label("the second").also(first, "the first"),
                    );
                }
            }
        }
    }
    for (port, whole) in wholes {
        for other in others.get(port).into_iter().flatten() {
            problems.push(
                Problem::new(*other, format!("port {port:?} belongs to one interface as a whole"))
                    .label("another interface on it")
                    .also(whole, "`all` takes the whole port")
                    .help(
                        "give one of them another port, or take a whole VLAN: {vlan: N, all: true}",
                    ),
            );
        }
    }
}

fn keys(
    router: &Router,
    name: &str,
    interface: &Interface,
    fallback: Place,
) -> Vec<(Key, String, Place)> {
    match interface.selector() {
        Selector::Mac => {
            let mac = router.mac(name, interface);
            let place = interface.written_mac().map_or(fallback, |mac| mac.place);
            vec![(Key::Mac(mac.0), format!("the Ethernet address {mac}"), place)]
        }
        Selector::Prefix(prefixes) => prefixes
            .iter()
            .map(|p| (Key::Prefix(p.trunc()), format!("the prefix {}", p.trunc()), p.place))
            .collect(),
        Selector::Udp(ports) => {
            ports.iter().map(|p| (Key::Udp(p.value), format!("UDP port {p}"), p.place)).collect()
        }
        Selector::Vxlan(vxlan) => {
            vec![(Key::Vni(vxlan.vni.value), format!("the VNI {}", vxlan.vni), vxlan.vni.place)]
        }
        Selector::Mpls(labels) => {
            labels.iter().map(|l| (Key::Mpls(l.value), format!("the label {l}"), l.place)).collect()
        }
        Selector::All => vec![(Key::All, "everything".to_owned(), fallback)],
    }
}
