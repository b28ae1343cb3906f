//! The routes of a router, from its addresses and from its given routes.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::{Description, Next, Problem};

/// Outputs of a look-up after those of the interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    Interface(usize),
    /// The router itself.
    Local,
    /// Dropped in silence.
    Discard,
    /// There is no route.
    Unreachable,
}

impl Output {
    /// The number of this output in a router with this number of interfaces.
    pub(super) fn number(self, interfaces: usize) -> usize {
        match self {
            Output::Interface(index) => index,
            Output::Local => interfaces,
            Output::Discard => interfaces + 1,
            Output::Unreachable => interfaces + 2,
        }
    }
}

/// Gateway, if any, and output.
type Hop = (Option<IpAddr>, Output);

/// Destinations that are never forwarded (RFC 1812 sections 4.2.2.11 and 5.3.7; RFC 6890).
/// `DropMartians` drops packets to the nets from 224 on.
const MARTIANS: [&str; 2] = ["0.0.0.0/8", "127.0.0.0/8"];
const MARTIANS6: [&str; 4] = ["ff00::/8", "fe80::/10", "::ffff:0:0/96", "::/128"];

/// The link-local address made of an Ethernet address (RFC 4291 appendix A).
pub(super) fn link_local(mac: [u8; 6]) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac;
    Ipv6Addr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

/// Addresses of an interface by family.
pub(super) fn ipv4(addresses: &[IpNet]) -> impl Iterator<Item = Ipv4Net> + '_ {
    addresses.iter().filter_map(|net| match net {
        IpNet::V4(net) => Some(*net),
        IpNet::V6(_) => None,
    })
}

pub(super) fn ipv6(addresses: &[IpNet]) -> impl Iterator<Item = Ipv6Net> + '_ {
    addresses.iter().filter_map(|net| match net {
        IpNet::V6(net) => Some(*net),
        IpNet::V4(_) => None,
    })
}

/// The addresses of a subnet that belong to no host: all zeros, all ones. Subnets with 31 and 32
/// bits have none (RFC 3021).
pub(super) fn reserved(net: Ipv4Net) -> Vec<Ipv4Addr> {
    if net.prefix_len() >= 31 { Vec::new() } else { vec![net.network(), net.broadcast()] }
}

/// All own IPv6 addresses of an interface: the given ones, the anycast addresses of their subnets'
/// routers (RFC 4291 section 2.6.1), and the link-local one.
pub(super) fn own6(addresses: &[IpNet], mac: [u8; 6]) -> Vec<Ipv6Addr> {
    let mut own: Vec<Ipv6Addr> = ipv6(addresses).map(|net| net.addr()).collect();
    if own.is_empty() {
        return own;
    }
    own.push(link_local(mac));
    own.extend(anycast6(addresses).into_iter().map(|[anycast, _]| anycast));
    own
}

/// The anycast addresses of the routers of an interface's subnets, each with the interface's own
/// address there, the source of answers.
pub(super) fn anycast6(addresses: &[IpNet]) -> Vec<[Ipv6Addr; 2]> {
    let mut pairs: Vec<[Ipv6Addr; 2]> = Vec::new();
    for net in ipv6(addresses).filter(|net| net.prefix_len() < 127) {
        let known = pairs.iter().any(|[anycast, _]| *anycast == net.network());
        if !known && ipv6(addresses).all(|own| own.addr() != net.network()) {
            pairs.push([net.network(), net.addr()]);
        }
    }
    pairs
}

/// A route's output and gateway.
fn hop(description: &Description, to: IpNet, next: Next) -> Result<Hop, Problem> {
    let is_v4 = to.addr().is_ipv4();
    let family = if is_v4 { "IPv4" } else { "IPv6" };
    let has = |index: usize| {
        let interface = description.interfaces.get(index);
        let known =
            interface.is_some_and(|i| i.addresses.iter().any(|net| net.addr().is_ipv4() == is_v4));
        let what = format!("route to {to}");
        known.then_some(index).ok_or(Problem::Interface { what, interface: index, family })
    };
    match next {
        Next::Blackhole => Ok((None, Output::Discard)),
        Next::Interface(index) => Ok((None, Output::Interface(has(index)?))),
        Next::Via { address, .. } if address.is_ipv4() != is_v4 => {
            Err(Problem::Mixed { to, via: address })
        }
        Next::Via { address, interface: Some(index) } => {
            Ok((Some(address), Output::Interface(has(index)?)))
        }
        Next::Via { address, interface: None } => {
            let subnets = description.interfaces.iter().enumerate().flat_map(|(index, i)| {
                let nets = i.addresses.iter().filter(|net| net.contains(&address));
                nets.map(move |net| (net.prefix_len(), index))
            });
            // The smallest subnet counts.
            let found = subnets.max_by_key(|(length, _)| *length);
            let (_, index) = found.ok_or(Problem::Unreachable { to, via: address })?;
            Ok((Some(address), Output::Interface(index)))
        }
    }
}

/// All routes of one family, as arguments of a look-up element.
pub(super) fn routes(description: &Description, is_v4: bool) -> Result<Vec<String>, Problem> {
    let mut table: BTreeMap<IpNet, Hop> = BTreeMap::new();
    let martians = if is_v4 { &MARTIANS[..] } else { &MARTIANS6 };
    for net in martians.iter().filter_map(|text| text.parse().ok()) {
        table.insert(net, (None, Output::Discard));
    }
    let everything = match is_v4 {
        true => IpNet::V4(Ipv4Net::default()),
        false => IpNet::V6(Ipv6Net::default()),
    };
    table.insert(everything, (None, Output::Unreachable));
    for (index, interface) in description.interfaces.iter().enumerate() {
        for net in interface.addresses.iter().filter(|net| net.addr().is_ipv4() == is_v4) {
            // If several interfaces are in the same subnet, the first one has the route.
            table.entry(net.trunc()).or_insert((None, Output::Interface(index)));
        }
    }
    for route in description.routes.iter().filter(|route| route.to.addr().is_ipv4() == is_v4) {
        table.insert(route.to.trunc(), hop(description, route.to, route.next)?);
    }
    for interface in &description.interfaces {
        if is_v4 {
            for address in ipv4(&interface.addresses).flat_map(reserved) {
                table.insert(IpAddr::from(address).into(), (None, Output::Discard));
            }
        } else {
            for address in own6(&interface.addresses, interface.mac.0) {
                table.insert(IpAddr::from(address).into(), (None, Output::Local));
            }
        }
    }
    // Own addresses come last, so that they are the router's in any case.
    for net in description.interfaces.iter().flat_map(|interface| &interface.addresses) {
        if net.addr().is_ipv4() == is_v4 {
            table.insert(net.addr().into(), (None, Output::Local));
        }
    }
    let count = description.interfaces.len();
    let line = |(net, (gateway, output)): (IpNet, Hop)| {
        let gateway = gateway.map_or_else(|| "-".to_owned(), |address| address.to_string());
        format!("{net} {gateway} {}", output.number(count))
    };
    Ok(table.into_iter().map(line).collect())
}
