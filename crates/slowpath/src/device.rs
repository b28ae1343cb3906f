//! Devices, addresses, static routes and neighbours of a router's namespace.

use std::io;
use std::net::IpAddr;

use europa_port::netlink::{self, Netlink, REPLACE, Request};
use europa_port::{End, Namespace, add_address, make_veth};
use ipnet::IpNet;
use nix::errno::Errno;

use crate::message::{INET, INET6, kind};

const IFLA_IFNAME: u16 = 3;
const UP: u32 = 1;

/// One interface of a router in its Linux.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inner {
    /// Its name.
    pub name: String,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Longest packet in bytes, without the Ethernet header.
    pub mtu: u32,
    /// The interface's addresses with the prefix lengths of their subnets.
    pub addresses: Vec<IpNet>,
}

/// A route or neighbour that the router's document asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticRoute {
    /// Destinations.
    pub to: IpNet,
    /// The next hop.
    pub via: Option<IpAddr>,
    /// Name of the interface; with neither, packets are dropped.
    pub interface: Option<String>,
}

/// A static neighbour: the router sends no requests for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticNeighbour {
    /// Its address.
    pub address: IpAddr,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Name of the interface.
    pub interface: String,
}

/// Makes a pair: `inner` in `inside`, with its addresses, and `outer` in `outside`; sets both up.
///
/// # Errors
/// One of the names is in use, or an address is invalid.
pub fn create(
    inside: &Namespace,
    inner: &Inner,
    outside: &Namespace,
    outer: &str,
) -> io::Result<()> {
    let here = End { namespace: inside, name: &inner.name, mac: Some(inner.mac) };
    make_veth(here, End { namespace: outside, name: outer, mac: None }, inner.mtu)?;
    for address in &inner.addresses {
        add_address(inside, &inner.name, *address)
            .map_err(|error| told(error, format!("address {address}")))?;
    }
    Ok(())
}

/// Sets a device up or down, by its number.
///
/// # Errors
/// When there is none.
pub(crate) fn set_state(netlink: &mut Netlink, index: u32, up: bool) -> io::Result<()> {
    let mut body = [0; 16];
    body[4..8].copy_from_slice(&index.to_ne_bytes());
    body[8..12].copy_from_slice(&(if up { UP } else { 0 }).to_ne_bytes());
    body[12..16].copy_from_slice(&UP.to_ne_bytes());
    netlink.talk(&mut Request::new(kind::NEWLINK, 0, &body), |_, _| ())
}

/// The number of a device.
///
/// # Errors
/// There is no device of that name.
pub(crate) fn index_of(netlink: &mut Netlink, device: &str) -> io::Result<u32> {
    let request = Request::new(kind::GETLINK, 0, &[0; 16])
        .with(IFLA_IFNAME, format!("{device}\0").as_bytes());
    netlink::number(&netlink.ask(request)?, 4).ok_or_else(|| io::Error::other("a short answer"))
}

/// The family of an address, and its bytes.
pub(crate) fn octets(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(address) => (INET, address.octets().to_vec()),
        IpAddr::V6(address) => (INET6, address.octets().to_vec()),
    }
}

/// Adds the routes and neighbours of the router's document to a namespace.
///
/// # Errors
/// The kernel's error, and the operation.
pub fn add_static(
    namespace: &Namespace,
    routes: &[StaticRoute],
    neighbours: &[StaticNeighbour],
) -> io::Result<()> {
    let mut netlink = Netlink::route(namespace)?;
    for neighbour in neighbours {
        change_neighbour(&mut netlink, neighbour, true)
            .map_err(|error| told(error, format!("neighbour {}", neighbour.address)))?;
    }
    for route in routes {
        change_route(&mut netlink, route, true)
            .map_err(|error| told(error, format!("route to {}", route.to)))?;
    }
    Ok(())
}

/// Removes a route of the router's document; it may be missing already.
///
/// # Errors
/// The namespace cannot be entered.
pub fn remove_static(namespace: &Namespace, route: &StaticRoute) -> io::Result<()> {
    let mut netlink = Netlink::route(namespace)?;
    match change_route(&mut netlink, route, false) {
        Err(error) if error.raw_os_error() == Some(Errno::ESRCH as i32) => Ok(()),
        other => other,
    }
}

/// Removes a neighbour of the router's document; it may be missing already.
///
/// # Errors
/// The namespace cannot be entered.
pub fn remove_neighbour(namespace: &Namespace, neighbour: &StaticNeighbour) -> io::Result<()> {
    let mut netlink = Netlink::route(namespace)?;
    match change_neighbour(&mut netlink, neighbour, false) {
        Err(error) if error.raw_os_error() == Some(Errno::ENOENT as i32) => Ok(()),
        other => other,
    }
}

fn told(error: io::Error, what: String) -> io::Error {
    io::Error::other(format!("{what}: {error}"))
}

fn change_neighbour(
    netlink: &mut Netlink,
    neighbour: &StaticNeighbour,
    add: bool,
) -> io::Result<()> {
    let index = index_of(netlink, &neighbour.interface)?;
    let (family, bytes) = octets(neighbour.address);
    let mut body = vec![family, 0, 0, 0];
    body.extend(index.to_ne_bytes());
    body.extend(crate::message::NUD_PERMANENT.to_ne_bytes());
    body.extend([0, 0]);
    let (kind, flags) = if add { (kind::NEWNEIGH, REPLACE) } else { (kind::DELNEIGH, 0) };
    let mut request = Request::new(kind, flags, &body).with(crate::message::NDA_DST, &bytes);
    if add {
        request = request.with(crate::message::NDA_LLADDR, &neighbour.mac);
    }
    netlink.talk(&mut request, |_, _| ())
}

fn change_route(netlink: &mut Netlink, route: &StaticRoute, add: bool) -> io::Result<()> {
    const MAIN: u8 = 254;
    const PROTOCOL_STATIC: u8 = 4;
    const SCOPE_LINK: u8 = 253;
    let (family, to) = octets(route.to.trunc().addr());
    let kind_of_route = match (&route.via, &route.interface) {
        (None, None) => crate::message::RTN_BLACKHOLE,
        _ => crate::message::RTN_UNICAST,
    };
    let direct = route.via.is_none() && route.interface.is_some() && family == INET;
    let scope = if direct { SCOPE_LINK } else { 0 };
    let length = route.to.prefix_len();
    let body = [family, length, 0, 0, MAIN, PROTOCOL_STATIC, scope, kind_of_route, 0, 0, 0, 0];
    let (kind, flags) = if add { (kind::NEWROUTE, REPLACE) } else { (kind::DELROUTE, 0) };
    let mut request = Request::new(kind, flags, &body).with(crate::message::RTA_DST, &to);
    if let Some(via) = route.via {
        request = request.with(crate::message::RTA_GATEWAY, &octets(via).1);
    }
    if let Some(interface) = &route.interface {
        let index = index_of(netlink, interface)?;
        request = request.with(crate::message::RTA_OIF, &index.to_ne_bytes());
    }
    netlink.talk(&mut request, |_, _| ())
}
