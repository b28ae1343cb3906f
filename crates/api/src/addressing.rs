//! Generated addresses of links: always the same for the same names.
//!
//! A link gets generated addresses if both of its ends need addresses and have none: hosts that
//! Europa makes, and routers with `builtin: ipv4`. Its /31 (RFC 3021) and /127 (RFC 6164) follow
//! from a hash of the link's name in the slice's range. If two names collide, or the documents
//! already use the address, the next free one is taken, in the order of the names. The end whose
//! name sorts first has the lower address. While a link has only one end, that end has the lower
//! address if it needs one, and the other address stays free.
//!
//! A route through such an interface without a next hop leads to the other end. If a host has no
//! other interface and no route, all its traffic goes to the other end.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::documents::Documents;
use crate::fast_path::Builtin;
use crate::link::Addressing;
use crate::source::{At, Place};
use crate::values::hash;

/// Shared address space (RFC 6598): it is not routed between networks.
pub(crate) const DEFAULT_IPV4: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(100, 64, 0, 0), 10);

/// One end of a link: its name for sorting, and the interface that gets the addresses.
struct End {
    name: String,
    place: Place,
    /// Host or router, and the interface's index.
    of: Of,
    wants: bool,
    slice: Option<String>,
}

#[derive(Clone, Copy)]
enum Of {
    Router(usize, usize),
    Host(usize, usize),
}

/// Gives addresses to links that have none. Returns slice and name of each link whose slice's range
/// is full.
pub(crate) fn assign(documents: &mut Documents) -> Vec<(String, String)> {
    let mut without = Vec::new();
    let mut links: BTreeMap<String, Vec<End>> = BTreeMap::new();
    for (number, router) in documents.routers.iter().enumerate() {
        let ipv4 = router.fast_path.builtin.is_some_and(|b| b.value == Builtin::Ipv4);
        for (index, (key, interface)) in router.interfaces.0.iter().enumerate() {
            let Some(link) = &interface.link else { continue };
            links.entry(link.to_string()).or_default().push(End {
                name: format!("{}.{}", router.full_name(), key.value),
                place: key.place,
                of: Of::Router(number, index),
                wants: ipv4 && interface.addresses.is_empty(),
                slice: Some(router.slice.to_string()),
            });
        }
    }
    for (number, host) in documents.hosts.iter().enumerate() {
        for (index, (key, interface)) in host.interfaces.0.iter().enumerate() {
            let Some(link) = &interface.link else { continue };
            links.entry(link.to_string()).or_default().push(End {
                name: format!("{}.{}", host.name, key.value),
                place: key.place,
                of: Of::Host(number, index),
                wants: interface.addresses.is_empty(),
                slice: None,
            });
        }
    }
    let mut taken = written(documents);
    for (name, mut ends) in links {
        ends.sort_by(|a, b| a.name.cmp(&b.name));
        if !matches!(ends.len(), 1 | 2) || !ends.iter().all(|end| end.wants) {
            continue;
        }
        let document = documents.links.iter().find(|link| *link.name.value == *name);
        let addressing = document.and_then(|link| link.addresses).map(|a| a.value);
        // The other end of a tunnel is unknown here, and would choose the same address.
        let elsewhere = document.is_some_and(|link| link.tunnel.is_some());
        if elsewhere || addressing == Some(Addressing::None) {
            continue;
        }
        let slice = ends.iter().find_map(|end| end.slice.as_ref());
        let (ipv4, ipv6) = ranges(documents, slice.map(String::as_str));
        let hash = hash(&name);
        let pairs = [pair4(ipv4, hash, &taken), ipv6.and_then(|net| pair6(net, hash, &taken))];
        if let ([None, _], Some(slice)) = (&pairs, slice) {
            without.push((slice.clone(), name.clone()));
        }
        for pair in pairs.into_iter().flatten() {
            taken.extend(pair);
            let [first, second] = pair.map(|address| address.addr());
            for ((end, address), other) in ends.iter().zip(pair).zip([second, first]) {
                lead(documents, end, other);
                let address = At { value: address, place: end.place };
                if let Some(addresses) = addresses(documents, end.of) {
                    addresses.push(address);
                }
            }
        }
    }
    without
}

/// The addresses of an interface.
fn addresses(documents: &mut Documents, of: Of) -> Option<&mut Vec<At<IpNet>>> {
    match of {
        Of::Router(router, index) => {
            let (_, interface) = documents.routers.get_mut(router)?.interfaces.0.get_mut(index)?;
            Some(&mut interface.value.addresses)
        }
        Of::Host(host, index) => {
            let (_, interface) = documents.hosts.get_mut(host)?.interfaces.0.get_mut(index)?;
            Some(&mut interface.value.addresses)
        }
    }
}

/// Gives routes through an interface the other end of its link as next hop.
fn lead(documents: &mut Documents, end: &End, other: IpAddr) {
    let via = Some(At { value: other, place: end.place });
    match end.of {
        Of::Router(router, index) => {
            let Some(router) = documents.routers.get_mut(router) else { return };
            let Some((name, _)) = router.interfaces.0.get(index) else { return };
            for route in &mut router.fast_path.value.routes {
                let route = &mut route.value;
                let through = route.interface.as_ref().is_some_and(|i| i.value == name.value);
                let same_family = route.to.addr().is_ipv4() == other.is_ipv4();
                if through && same_family && route.via.is_none() {
                    route.via = via;
                }
            }
        }
        Of::Host(host, index) => {
            let Some(host) = documents.hosts.get_mut(host) else { return };
            let Some((name, _)) = host.interfaces.0.get(index) else { return };
            for route in &mut host.routes {
                let route = &mut route.value;
                let through = route.interface.as_ref().is_some_and(|i| i.value == name.value);
                let same_family = route.to.addr().is_ipv4() == other.is_ipv4();
                if through && same_family && route.via.is_none() {
                    route.via = via;
                }
            }
            let alone = host.interfaces.0.len() == 1 && host.routes.is_empty();
            let led = host.gateway.iter().any(|gateway| gateway.is_ipv4() == other.is_ipv4());
            if alone && !led {
                host.gateway.extend(via);
            }
        }
    }
}

/// Every prefix that is written.
fn written(documents: &Documents) -> Vec<IpNet> {
    let routers = documents.routers.iter().flat_map(|router| &router.interfaces.0);
    let hosts = documents.hosts.iter().flat_map(|host| &host.interfaces.0);
    routers
        .flat_map(|(_, interface)| &interface.addresses)
        .chain(hosts.flat_map(|(_, interface)| &interface.addresses))
        .map(|address| address.value)
        .collect()
}

fn ranges(documents: &Documents, slice: Option<&str>) -> (Ipv4Net, Option<Ipv6Net>) {
    let slice = documents.slices.iter().find(|s| Some(&**s.name) == slice);
    let ranges = slice.and_then(|slice| slice.links.as_ref());
    let ipv4 = ranges.and_then(|ranges| ranges.ipv4).map_or(DEFAULT_IPV4, |net| net.value);
    (ipv4, ranges.and_then(|ranges| ranges.ipv6).map(|net| net.value))
}

fn is_free(pair: &[IpNet; 2], taken: &[IpNet]) -> bool {
    !taken.iter().any(|net| pair.iter().any(|own| net.contains(&own.addr())))
}

/// The first free pair, beginning at the hash; `None` if the range is full.
fn pair4(range: Ipv4Net, hash: u64, taken: &[IpNet]) -> Option<[IpNet; 2]> {
    let pairs = 1_u64 << (32 - u32::from(range.prefix_len())).saturating_sub(1);
    let base = u32::from(range.network());
    (0..pairs.min(1 << 16)).find_map(|step| {
        // The result is below 2^32: there are at most 2^31 pairs.
        let offset = ((hash.wrapping_add(step) % pairs) * 2) as u32;
        let address = |end: u32| IpAddr::V4(Ipv4Addr::from(base + offset + end));
        let pair = [0, 1].map(|end| IpNet::new(address(end), 31)).map(Result::ok);
        let [Some(first), Some(second)] = pair else { return None };
        Some([first, second]).filter(|pair| is_free(pair, taken))
    })
}

fn pair6(range: Ipv6Net, hash: u64, taken: &[IpNet]) -> Option<[IpNet; 2]> {
    let pairs = 1_u128 << (128 - u32::from(range.prefix_len())).saturating_sub(1).min(64);
    let base = u128::from(range.network());
    (0..pairs.min(1 << 16)).find_map(|step| {
        let offset = (u128::from(hash).wrapping_add(step) % pairs) * 2;
        let address = |end: u128| IpAddr::V6(Ipv6Addr::from(base + offset + end));
        let pair = [0, 1].map(|end| IpNet::new(address(end), 127)).map(Result::ok);
        let [Some(first), Some(second)] = pair else { return None };
        Some([first, second]).filter(|pair| is_free(pair, taken))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Source, parse};

    fn assigned(text: &str) -> Documents {
        let source = Source { path: "t.yaml".into(), text: text.to_owned() };
        let mut documents = parse(&[source]).unwrap_or_else(|p| panic!("{}", p.render(false)));
        assign(&mut documents);
        documents
    }

    fn router(name: &str, interfaces: &str, routes: &str) -> String {
        format!(
            "---\nkind: router\nname: {name}\nslice: s\ninterfaces: {{{interfaces}}}\n\
             fast_path: {{builtin: ipv4, routes: [{routes}]}}\n"
        )
    }

    const SLICE: &str = "kind: slice\nname: s\nlinks: {ipv4: 10.9.0.0/24, ipv6: \"fd09::/64\"}\n";

    #[test]
    fn both_ends_get_neighbouring_addresses_and_routes_follow() {
        let text = SLICE.to_owned()
            + &router("b", "e: {link: l}", "{to: 10.1.0.0/16, interface: e}")
            + &router("a", "e: {link: l}, f: {link: m}", "")
            + "---\nkind: host\nname: h\ninterfaces: {eth0: {link: m}}\n";
        let documents = assigned(&text);
        let of = |router: usize, index: usize| -> Vec<IpNet> {
            let (_, interface) = &documents.routers[router].interfaces.0[index];
            interface.addresses.iter().map(|a| a.value).collect()
        };
        let (a, b) = (of(1, 0), of(0, 0));
        let range: IpNet = "10.9.0.0/24".parse().expect("a range");
        assert_eq!((a.len(), b.len()), (2, 2));
        assert!(range.contains(&a[0]) && a[0].prefix_len() == 31 && a[1].prefix_len() == 127);
        // s/a sorts before s/b.
        assert_eq!((a[0].network(), b[0].broadcast()), (a[0].addr(), b[0].addr()));
        assert_eq!(a[0].trunc(), b[0].trunc());
        let via = documents.routers[0].fast_path.routes[0].via.map(|via| via.value);
        assert_eq!(via, Some(a[0].addr()));
        let host = &documents.hosts[0];
        let gateways: Vec<IpAddr> = host.gateway.iter().map(|g| g.value).collect();
        assert_eq!(gateways, [of(1, 1)[0].addr(), of(1, 1)[1].addr()]);
        assert_eq!(assigned(&text), documents, "always the same");
    }

    #[test]
    fn what_is_written_stays_and_is_not_taken() {
        let two = |a: &str, b: &str| router("a", a, "") + &router("b", b, "");
        let free = assigned(&(SLICE.to_owned() + &two("e: {link: l}", "e: {link: l}")));
        let taken = free.routers[0].interfaces.0[0].1.addresses[0].value;
        let text = SLICE.to_owned()
            + &two(
                &format!("e: {{link: l}}, x: {{link: k, addresses: [\"{taken}\"]}}"),
                "e: {link: l}, x: {link: k}",
            );
        let documents = assigned(&text);
        let [a, b] = documents.routers.as_slice() else { panic!("two routers") };
        assert_ne!(a.interfaces.0[0].1.addresses[0].value.trunc(), taken.trunc());
        assert_eq!(a.interfaces.0[1].1.addresses.len(), 1);
        assert!(b.interfaces.0[1].1.addresses.is_empty(), "only one end says something");
        let text = "kind: link\nname: l\naddresses: none\n---\n".to_owned()
            + SLICE
            + &two("e: {link: l}", "e: {link: l}");
        let documents = assigned(&text);
        assert!(documents.routers[0].interfaces.0[0].1.addresses.is_empty(), "none are wanted");
    }

    #[test]
    fn one_end_alone_has_the_lower_address_until_the_other_comes() {
        let one = SLICE.to_owned()
            + &router("a", "e: {link: l}", "{to: 10.1.0.0/16, interface: e}")
            + "---\nkind: host\nname: h\ninterfaces: {eth0: {link: m}}\n";
        let alone = assigned(&one);
        let both = assigned(&(one + &router("b", "e: {link: l}, f: {link: m}", "")));
        // s/a sorts before s/b: its addresses stay the same.
        assert_eq!(alone.routers[0], both.routers[0]);
        assert!(alone.routers[0].fast_path.routes[0].via.is_some());
        let host = &alone.hosts[0];
        let own = host.interfaces.0[0].1.addresses.iter().map(|a| a.value.addr());
        let gateways = host.gateway.iter().map(|gateway| gateway.value);
        assert!(own.zip(gateways).all(|(own, gateway)| own < gateway), "{host:?}");
        assert_eq!(host.gateway.len(), 1, "its slice is not known: the default is IPv4 alone");
        let none = assigned(
            &("kind: link\nname: l\naddresses: none\n---\n".to_owned()
                + SLICE
                + &router("a", "e: {link: l}", "")),
        );
        assert!(none.routers[0].interfaces.0[0].1.addresses.is_empty());
    }

    #[test]
    fn a_range_is_used_up_to_its_end() {
        let interfaces: Vec<String> = (0..8).map(|i| format!("e{i}: {{link: l{i}}}")).collect();
        let slice = "kind: slice\nname: s\nlinks: {ipv4: 10.9.0.0/28}\n";
        let text = slice.to_owned()
            + &router("a", &interfaces.join(", "), "")
            + &router("b", &interfaces.join(", "), "");
        let mut all: Vec<IpNet> = assigned(&text)
            .routers
            .iter()
            .flat_map(|router| &router.interfaces.0)
            .flat_map(|(_, interface)| &interface.addresses)
            .map(|address| address.value)
            .collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 16, "eight links have addresses; a ninth is a mistake");
    }
}
