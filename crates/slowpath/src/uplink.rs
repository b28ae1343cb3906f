//! Uplinks: a veth pair between a slow path and the namespace in which the node runs.
//!
//! Its routes are in a separate table. A rule `iif lo` leads there, after the tables `main` and
//! `default`: only packets that Linux itself sends use it, and the router's own routes have
//! precedence.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use europa_port::netlink::{CREATE, Netlink, Request, attribute, number};
use europa_port::{End, Namespace, add_address, delete_device, make_quiet_veth, set_up};
use ipnet::IpNet;

use crate::device::{index_of, octets};
use crate::message::{INET, INET6, RTA_GATEWAY, RTA_OIF, RTN_UNICAST, kind};

/// The name of its end in the slow path.
pub const DEVICE: &str = "uplink";
/// The prefix of the names of all other ends.
pub const OUTER: &str = "europa-";

/// The first address of all pairs: 100.127.224.0/19, the end of the range that RFC 6598 shares.
const FIRST_V4: Ipv4Addr = Ipv4Addr::new(100, 127, 224, 0);
/// The same of IPv6: unique local addresses (RFC 4193).
const FIRST_V6: Ipv6Addr = Ipv6Addr::new(0xfd65, 0x7572, 0x6f70, 0, 0, 0, 0, 0);
const MTU: u32 = 1500;

/// The table with the routes by the uplink.
const TABLE: u8 = 100;
/// The rule follows those of the tables `main` and `default`.
const PRIORITY: u32 = 33_000;
const PROTOCOL_STATIC: u8 = 4;
const RTA_PREFSRC: u16 = 7;
const RTNH_F_ONLINK: u32 = 4;
const FRA_IIFNAME: u16 = 3;
const FRA_PRIORITY: u16 = 6;
const FR_ACT_TO_TBL: u8 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_LINK: u16 = 5;

/// The addresses of an uplink: of a pair, the node has the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// IPv4 in the slow path.
    pub v4: Ipv4Addr,
    /// The gateway of IPv4.
    pub gateway4: Ipv4Addr,
    /// IPv6 in the slow path.
    pub v6: Ipv6Addr,
    /// The gateway of IPv6.
    pub gateway6: Ipv6Addr,
}

impl Addresses {
    /// The addresses of the slow path with this number, which is unique on the machine; less than
    /// 4096.
    pub fn of(slow_path: u32) -> Addresses {
        let pair = slow_path % 4096 * 2;
        let v4 = |end: u32| Ipv4Addr::from_bits(FIRST_V4.to_bits() + pair + end);
        let v6 = |end: u32| Ipv6Addr::from_bits(FIRST_V6.to_bits() + u128::from(pair + end));
        Addresses { v4: v4(1), gateway4: v4(0), v6: v6(1), gateway6: v6(0) }
    }
}

/// The name of the outer end of the slow path with this number.
pub fn outer_name(slow_path: u32) -> String {
    format!("{OUTER}{slow_path}")
}

/// Makes the uplink of a slow path, whose namespace is `inside`.
///
/// # Errors
/// Its outer end exists, or the kernel refuses.
pub fn make(inside: &Namespace, outside: &Namespace, slow_path: u32) -> io::Result<()> {
    let outer = outer_name(slow_path);
    let own = Addresses::of(slow_path);
    // A program there may have used the name.
    delete_device(inside, DEVICE)?;
    let here = End { namespace: inside, name: DEVICE, mac: None };
    make_quiet_veth(here, End { namespace: outside, name: &outer, mac: None }, MTU)?;
    settle(outside, &outer)?;
    let has_v6 = Path::new("/proc/sys/net/ipv6").exists();
    add_address(outside, &outer, net(own.gateway4.into(), 31)?)?;
    if has_v6 {
        add_address(outside, &outer, net(own.gateway6.into(), 127)?)?;
    }
    set_up(outside, &outer)?;
    set_up(inside, DEVICE)?;
    connect(inside, own.v4.into(), own.gateway4.into())?;
    if has_v6 && let Err(error) = connect(inside, own.v6.into(), own.gateway6.into()) {
        // A program there may have disabled IPv6.
        tracing::warn!("the uplink {outer} has no IPv6: {error}");
    }
    Ok(())
}

/// Adds an address to the inner end, and a default route to Linux there.
fn connect(inside: &Namespace, address: IpAddr, gateway: IpAddr) -> io::Result<()> {
    add_address(inside, DEVICE, net(address, if address.is_ipv4() { 32 } else { 128 })?)?;
    add_default(&mut Netlink::route(inside)?, address, gateway)
}

fn net(address: IpAddr, length: u8) -> io::Result<IpNet> {
    IpNet::new(address, length).map_err(io::Error::other)
}

/// Parameters of the outer end: it forwards, and its other end changes nothing of the machine.
fn settle(outside: &Namespace, outer: &str) -> io::Result<()> {
    outside.sysctl(&format!("net.ipv4.conf.{outer}.forwarding"), "1")?;
    for (name, value) in [
        ("ipv4.conf.*.rp_filter", "1"),
        // It does not answer for the machine's other addresses.
        ("ipv4.conf.*.arp_ignore", "1"),
        ("ipv4.conf.*.accept_redirects", "0"),
        ("ipv4.conf.*.send_redirects", "0"),
        ("ipv6.conf.*.accept_ra", "0"),
        ("ipv6.conf.*.accept_redirects", "0"),
        ("ipv6.conf.*.accept_dad", "0"),
        ("ipv6.conf.*.forwarding", "1"),
    ] {
        // A machine without IPv6 has none of its parameters.
        if let Err(error) = outside.sysctl(&format!("net.{}", name.replace('*', outer)), value) {
            tracing::debug!("{name} of {outer}: {error}");
        }
    }
    Ok(())
}

/// A default route for packets that Linux sends, and the rule that selects it.
fn add_default(netlink: &mut Netlink, address: IpAddr, gateway: IpAddr) -> io::Result<()> {
    let index = index_of(netlink, DEVICE)?;
    let family = if address.is_ipv4() { INET } else { INET6 };
    let mut body = vec![family, 0, 0, 0, TABLE, PROTOCOL_STATIC, 0, RTN_UNICAST];
    body.extend(RTNH_F_ONLINK.to_ne_bytes());
    let mut route = Request::new(kind::NEWROUTE, CREATE, &body)
        .with(RTA_GATEWAY, &octets(gateway).1)
        .with(RTA_PREFSRC, &octets(address).1)
        .with(RTA_OIF, &index.to_ne_bytes());
    there_or(netlink.talk(&mut route, |_, _| ()))?;
    there_or(netlink.talk(&mut rule(family, kind::NEWRULE, CREATE), |_, _| ()))
}

/// A request about the rule that leads to the routes by the uplink.
fn rule(family: u8, kind: u16, flags: u16) -> Request {
    let mut body = vec![family, 0, 0, 0, TABLE, 0, 0, FR_ACT_TO_TBL];
    body.extend([0; 4]);
    Request::new(kind, flags, &body)
        .with(FRA_IIFNAME, b"lo\0")
        .with(FRA_PRIORITY, &PRIORITY.to_ne_bytes())
}

/// Removes the outer end of a slow path's uplink, and with it the inner end and its routes. Does
/// nothing if it is missing.
///
/// # Errors
/// When it cannot be removed.
pub fn remove(outside: &Namespace, slow_path: u32) -> io::Result<()> {
    delete_device(outside, &outer_name(slow_path))
}

/// Removes the rules of an uplink from a slow path that stays.
///
/// # Errors
/// The namespace cannot be entered.
pub fn remove_rules(inside: &Namespace) -> io::Result<()> {
    let mut netlink = Netlink::route(inside)?;
    for family in [INET, INET6] {
        // A program there may have removed it.
        let _ = netlink.talk(&mut rule(family, kind::DELRULE, 0), |_, _| ());
    }
    Ok(())
}

/// The rule outlives the device, so it may exist.
fn there_or(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Whether both ends exist and belong together.
///
/// # Errors
/// A namespace cannot be entered.
pub fn is_there(inside: &Namespace, outside: &Namespace, slow_path: u32) -> io::Result<bool> {
    let name = outer_name(slow_path);
    let request =
        Request::new(kind::GETLINK, 0, &[0; 16]).with(IFLA_IFNAME, format!("{name}\0").as_bytes());
    let Some((outer, its_peer)) = ends(&mut Netlink::route(outside)?, request) else {
        return Ok(false);
    };
    // A program there may have renamed it.
    let mut body = [0; 16];
    body[4..8].copy_from_slice(&its_peer.to_ne_bytes());
    let request = Request::new(kind::GETLINK, 0, &body);
    let inner = ends(&mut Netlink::route(inside)?, request);
    Ok(inner == Some((its_peer, outer)))
}

/// The numbers of a device and of its other end.
fn ends(netlink: &mut Netlink, request: Request) -> Option<(u32, u32)> {
    let link = netlink.ask(request).ok()?;
    Some((number(&link, 4)?, number(attribute(&link, 16, IFLA_LINK)?, 0)?))
}

/// The device of the IPv4 default route in this thread's namespace, if Linux does not forward
/// packets from it.
pub fn unforwarded() -> Option<String> {
    let routes = fs::read_to_string("/proc/thread-self/net/route").ok()?;
    let device = default_device(&routes)?;
    let path = format!("/proc/sys/net/ipv4/conf/{device}/forwarding");
    let value = fs::read_to_string(path).ok()?;
    (value.trim() == "0").then_some(device)
}

/// The device of the best default route in a text of `/proc/net/route`.
fn default_device(routes: &str) -> Option<String> {
    let of = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [device, to, _, _, _, _, metric, mask, ..] = words.as_slice() else { return None };
        let is_default = *to == "00000000" && *mask == "00000000";
        Some((metric.parse::<u32>().ok()?, (*device).to_owned())).filter(|_| is_default)
    };
    routes.lines().skip(1).filter_map(of).min().map(|(_, device)| device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_do_not_overlap() {
        let first = Addresses::of(0);
        assert_eq!(first.gateway4.to_string(), "100.127.224.0");
        assert_eq!(first.v4.to_string(), "100.127.224.1");
        assert_eq!(first.v6.to_string(), "fd65:7572:6f70::1");
        assert_eq!(Addresses::of(1).gateway4.to_string(), "100.127.224.2");
        let last = Addresses::of(4095);
        assert_eq!(last.v4.to_string(), "100.127.255.255", "the end of the range");
        assert_eq!(last.gateway6.to_string(), "fd65:7572:6f70::1ffe");
        assert!(outer_name(4095).len() <= 15);
    }

    #[test]
    fn the_device_of_the_default_route() {
        let text = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n\
                    eth1\t00000000\t0100000A\t3\t0\t0\t200\t00000000\t0\t0\t0\n\
                    eth2\t00000000\t00000000\t1\t0\t0\t0\t00000080\t0\t0\t0\n\
                    eth0\t00000000\t0100000A\t3\t0\t0\t100\t00000000\t0\t0\t0\n";
        assert_eq!(default_device(text).as_deref(), Some("eth0"), "the lowest metric");
        assert_eq!(default_device(text.lines().next().unwrap_or_default()), None);
    }
}
