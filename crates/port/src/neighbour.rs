//! The path to an address: device, source address, next hop's MAC.

use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::device::identity;
use crate::error::PortError;
use crate::namespace::Namespace;
use crate::netlink::{Netlink, REPLACE, Request, attribute, number};

const NEWNEIGH: u16 = 28;
const GETNEIGH: u16 = 30;
const GETROUTE: u16 = 26;

const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PREFSRC: u16 = 7;
const RTA_VIA: u16 = 18;
/// Length of `struct rtmsg`, which has the route's type at byte 7.
const ROUTE_BYTES: usize = 12;
const ROUTE_TYPE: usize = 7;
const UNICAST: u8 = 1;

const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// Length of `struct ndmsg`, which has the state at bytes 8 and 9.
const NEIGHBOUR_BYTES: usize = 12;
/// "Use it now": the kernel starts to resolve, as if a packet was waiting.
const NTF_USE: u8 = 1;
/// Reachable, stale, delay, probe, permanent, no ARP: the address is known.
const KNOWN: u8 = 0x02 | STALE | 0x08 | 0x10 | 0x40 | 0x80;
/// Known, but not confirmed recently.
const STALE: u8 = 0x04;

const POLL: Duration = Duration::from_millis(5);

/// How to reach an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// Number of the device that leads to the next hop.
    pub device: u32,
    /// The source address that Linux would use.
    pub source: IpAddr,
    /// The address to resolve: a gateway, or the destination itself.
    pub hop: IpAddr,
    /// Its Ethernet address.
    pub mac: [u8; 6],
}

/// Looks up an address in a namespace's routes and neighbours, and starts ARP or neighbour
/// discovery if necessary. It waits for the answer at most for `patience`. In three seconds the
/// kernel can send three requests. On a device that has just been set up, neighbour discovery
/// begins after a second or two, when the device has a source address.
///
/// # Errors
/// If the address has no route, the route is not a remote one, or no neighbour answers.
pub fn next_hop(
    namespace: &Namespace,
    to: IpAddr,
    patience: Duration,
) -> Result<NextHop, PortError> {
    let mut netlink = Netlink::route(namespace)
        .map_err(|source| PortError::Namespace { namespace: namespace.label(), source })?;
    let no_route = |source| PortError::NoRoute { to, namespace: namespace.label(), source };
    let mut body = [0; ROUTE_BYTES];
    body[0] = family(to);
    body[1] = if to.is_ipv4() { 32 } else { 128 };
    let route = netlink
        .ask(Request::new(GETROUTE, 0, &body).with(RTA_DST, &octets(to)))
        .map_err(no_route)?;
    let kind = route.get(ROUTE_TYPE).copied().unwrap_or(0);
    if kind != UNICAST {
        let found = match kind {
            2 => "local (an address of this namespace)",
            3 => "broadcast",
            5 => "multicast",
            _ => "a refusal",
        };
        return Err(PortError::NotRemote { to, namespace: namespace.label(), found });
    }
    let get = |kind| attribute(&route, ROUTE_BYTES, kind);
    let device = get(RTA_OIF).and_then(|device| number(device, 0));
    let source = get(RTA_PREFSRC).and_then(address);
    let (Some(device), Some(source)) = (device, source) else {
        return Err(no_route(io::Error::other("it names no device or no source address")));
    };
    // The attribute of a gateway of the other family begins with two bytes for the family.
    let gateway = get(RTA_GATEWAY).or_else(|| get(RTA_VIA)?.get(2..)).and_then(address);
    let hop = gateway.unwrap_or(to);
    match resolve(&mut netlink, device, hop, patience) {
        Some(mac) => Ok(NextHop { device, source, hop, mac }),
        None => Err(PortError::NoNeighbour {
            to,
            hop,
            device: identity(&mut netlink, device).map(|device| device.name).unwrap_or_default(),
            namespace: namespace.label(),
        }),
    }
}

/// The MAC of a neighbour, resolved if it is not yet known.
fn resolve(netlink: &mut Netlink, device: u32, hop: IpAddr, patience: Duration) -> Option<[u8; 6]> {
    let mut body = [0; NEIGHBOUR_BYTES];
    body[0] = family(hop);
    body[4..8].copy_from_slice(&device.to_ne_bytes());
    let request =
        |kind, flags, body: &[u8]| Request::new(kind, flags, body).with(NDA_DST, &octets(hop));
    let end = Instant::now() + patience;
    let mut asked = false;
    loop {
        let entry = netlink.ask(request(GETNEIGH, 0, &body)).ok();
        let state = entry.as_ref().and_then(|entry| entry.get(8)).copied().unwrap_or(0);
        // A stale entry may still be valid, but Linux would not confirm it: frames that do not pass
        // Linux do not count as its use.
        if !asked && (state & KNOWN == 0 || state & STALE != 0) {
            body[10] = NTF_USE;
            let wake = netlink.talk(&mut request(NEWNEIGH, REPLACE, &body), |_, _| ());
            body[10] = 0;
            wake.ok()?;
            asked = true;
        }
        if let Some(entry) = entry.filter(|_| state & KNOWN != 0) {
            return attribute(&entry, NEIGHBOUR_BYTES, NDA_LLADDR)?.try_into().ok();
        }
        if Instant::now() >= end {
            return None;
        }
        std::thread::sleep(POLL);
    }
}

fn family(address: IpAddr) -> u8 {
    // AF_INET and AF_INET6
    if address.is_ipv4() { 2 } else { 10 }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}
