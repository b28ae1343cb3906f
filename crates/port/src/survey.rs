//! The actual contents of a network namespace: devices, their addresses, and routes.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::namespace::Namespace;
use crate::netlink::{DUMP, Netlink, Request, attribute, number, text};

const GETLINK: u16 = 18;
const GETADDR: u16 = 22;
const GETROUTE: u16 = 26;
const IFLA_IFNAME: u16 = 3;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
/// Flag of a device that is set up.
const UP: u32 = 1;
/// Bytes of the fixed parts of answers.
const LINK_BYTES: usize = 16;
const ADDRESS_BYTES: usize = 8;
const ROUTE_BYTES: usize = 12;
/// The main table, and the type of an ordinary route.
const MAIN: u8 = 254;
const UNICAST: u8 = 1;

/// A route of the main table: destination, next hop, device.
pub type SurveyedRoute = (IpNet, Option<IpAddr>, Option<String>);

/// A device with its present properties.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SurveyedDevice {
    /// Whether it is set up.
    pub up: bool,
    /// Its addresses.
    pub addresses: Vec<IpNet>,
}

/// The contents of a network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Devices by name.
    pub devices: BTreeMap<String, SurveyedDevice>,
    /// Routes of the main table.
    pub routes: Vec<SurveyedRoute>,
}

impl Survey {
    /// Looks at a namespace.
    ///
    /// # Errors
    /// The namespace cannot be entered, or the kernel does not answer.
    pub fn of(namespace: &Namespace) -> io::Result<Self> {
        let mut netlink = Netlink::route(namespace)?;
        let (mut names, mut devices) = (BTreeMap::new(), BTreeMap::<_, SurveyedDevice>::new());
        let mut request = Request::new(GETLINK, DUMP, &[0; LINK_BYTES]);
        netlink.talk(&mut request, |_, message| {
            if let (Some(index), Some(name)) =
                (number(message, 4), attribute(message, LINK_BYTES, IFLA_IFNAME))
            {
                let up = number(message, 8).is_some_and(|flags| flags & UP != 0);
                names.insert(index, text(name));
                devices.insert(text(name), SurveyedDevice { up, addresses: Vec::new() });
            }
        })?;
        let mut request = Request::new(GETADDR, DUMP, &[0; ADDRESS_BYTES]);
        netlink.talk(&mut request, |_, message| {
            let local = attribute(message, ADDRESS_BYTES, IFA_LOCAL);
            let local = local.or_else(|| attribute(message, ADDRESS_BYTES, IFA_ADDRESS));
            let name = number(message, 4).and_then(|index| names.get(&index));
            if let (Some(name), Some(address)) = (name, local.and_then(address))
                && let Some(length) = message.get(1)
                && let Ok(net) = IpNet::new(address, *length)
            {
                devices.entry(name.clone()).or_default().addresses.push(net);
            }
        })?;
        let mut routes = Vec::new();
        let mut request = Request::new(GETROUTE, DUMP, &[0; ROUTE_BYTES]);
        netlink.talk(&mut request, |_, message| {
            routes.extend(route(message, &names));
        })?;
        Ok(Self { devices, routes })
    }
}

fn route(message: &[u8], names: &BTreeMap<u32, String>) -> Option<SurveyedRoute> {
    let (family, length) = (*message.first()?, *message.get(1)?);
    if (*message.get(4)?, *message.get(7)?) != (MAIN, UNICAST) {
        return None;
    }
    let any: IpAddr = match i32::from(family) {
        libc::AF_INET => Ipv4Addr::UNSPECIFIED.into(),
        libc::AF_INET6 => Ipv6Addr::UNSPECIFIED.into(),
        _ => return None,
    };
    let to = attribute(message, ROUTE_BYTES, RTA_DST).map_or(Some(any), address)?;
    let via = attribute(message, ROUTE_BYTES, RTA_GATEWAY).and_then(address);
    let device = attribute(message, ROUTE_BYTES, RTA_OIF).and_then(|bytes| number(bytes, 0));
    Some((IpNet::new(to, length).ok()?, via, device.and_then(|index| names.get(&index).cloned())))
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}
