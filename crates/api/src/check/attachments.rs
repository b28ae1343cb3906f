//! Checks links, which have at most two ends, and ports, on which each packet belongs to one
//! interface.

use std::collections::{BTreeMap, HashMap};

use crate::decode::nearest;
use crate::documents::Documents;
use crate::draft::Draft;
use crate::ends::End;
use crate::interface::{Interface, Selector};
use crate::problem::Problem;
use crate::router::Router;
use crate::source::Place;

/// Links and their ends.
pub(super) type Ends<'d> = BTreeMap<&'d str, Vec<End<'d>>>;

/// A link joins at most two interfaces, with different addresses. A link may have only one end,
/// because objects are applied and deleted one by one.
pub(super) fn links(draft: &Draft, ends: &Ends<'_>, problems: &mut Vec<Problem>) {
    for (name, ends) in ends {
        let [first, second, rest @ ..] = ends.as_slice() else { continue };
        if rest.is_empty() {
            alike(name, first, second, problems);
        }
        problems.extend(rest.iter().map(|third| {
            let message = format!("link {name:?} joins two interfaces, not {}", ends.len());
            Problem::new(third.link.place, message)
                .label("one too many")
                .also(first.link.place, "the first end")
                .also(second.link.place, "the second end")
        }));
    }
    // An end may be in an unreadable document.
    for link in draft.documents.links.iter().filter(|_| draft.complete) {
        if ends.contains_key(&**link.name) {
            continue;
        }
        let message = format!("no interface names link {:?}", &**link.name);
        let problem = Problem::new(link.name.place, message).label("a link without ends");
        problems.push(match nearest(&link.name, ends.keys().copied()) {
            Some(near) => problem.help(format!("did you mean {near:?}?")),
            None => problem.help(format!("the interfaces that it joins say `link: {}`", link.name)),
        });
    }
}

/// Reports two ends of a link that have the same address.
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

/// An entry of a port's table that only one interface of a port and VLAN can have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Mac([u8; 6]),
    Prefix(ipnet::IpNet),
    Udp(u16),
    Vni(u32),
    Mpls(u32),
    All,
}

/// Reports two interfaces that match the same packets of a port equally well.
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
                // Two interfaces that match the whole port are reported below.
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
