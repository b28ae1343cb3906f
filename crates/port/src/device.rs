//! The facts about a kernel device.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use crate::error::PortError;
use crate::ethtool::Ethtool;
use crate::namespace::Namespace;
use crate::netlink::{DUMP, Netlink, Request, attribute, long_number, number, text};
use crate::xdp::{self, XdpFeatures};

const NEWLINK: u16 = 16;
const GETLINK: u16 = 18;
const GETNSID: u16 = 90;

const IFLA_ADDRESS: u16 = 1;
const IFLA_STATS64: u16 = 23;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINK: u16 = 5;
const IFLA_LINKINFO: u16 = 18;
const IFLA_CARRIER: u16 = 33;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_NUM_TX_QUEUES: u16 = 31;
const IFLA_NUM_RX_QUEUES: u16 = 32;
const IFLA_LINK_NETNSID: u16 = 37;
const IFLA_ALT_IFNAME: u16 = 53;
const NETNSA_NSID: u16 = 1;
const NETNSA_FD: u16 = 3;

/// Length of `struct ifinfomsg`.
const LINK_BYTES: usize = 16;
const UP: u32 = libc::IFF_UP.cast_unsigned();

/// The kind of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One end of a pair.
    Veth,
    /// An Ethernet device whose other end is a file descriptor.
    Tap,
    /// A layer 3 device whose other end is a file descriptor.
    Tun,
    /// Hardware, or a virtual machine's device.
    Physical {
        /// Its driver's name.
        driver: String,
    },
    /// `lo`.
    Loopback,
    /// A software bridge.
    Bridge,
    /// A second MAC address on another device.
    Macvlan,
    /// Any other device, by the kernel's name for its kind.
    Other(String),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Veth => f.write_str("veth"),
            Self::Tap => f.write_str("tap"),
            Self::Tun => f.write_str("tun"),
            Self::Physical { driver } => write!(f, "physical ({driver})"),
            Self::Loopback => f.write_str("loopback"),
            Self::Bridge => f.write_str("bridge"),
            Self::Macvlan => f.write_str("macvlan"),
            Self::Other(kind) => f.write_str(kind),
        }
    }
}

/// The other end of a veth pair.
#[derive(Clone, Debug, PartialEq)]
pub enum Peer {
    /// The device is not one of a pair.
    None,
    /// The other end.
    At {
        /// Where it is.
        namespace: Namespace,
        /// Its number there.
        index: u32,
        /// Its name there.
        name: String,
    },
    /// The other end is in a namespace that cannot be reached from here.
    Unreachable {
        /// Its number there.
        index: u32,
    },
}

/// A kernel device, with its properties when it was opened.
#[derive(Clone, Debug)]
pub struct Device {
    /// Where it is.
    pub namespace: Namespace,
    /// Its name there.
    pub name: String,
    /// Its number there.
    pub index: u32,
    /// The device's Ethernet address; zero if it has none.
    pub mac: [u8; 6],
    /// The longest packet without its Ethernet header, in bytes.
    pub mtu: u32,
    /// The device is set up (IFF_UP).
    pub up: bool,
    /// Its kind.
    pub kind: Kind,
    /// Whether the device carries Ethernet frames.
    pub ethernet: bool,
    /// Receive queues in use.
    pub receive_queues: u32,
    /// Transmit queues in use.
    pub transmit_queues: u32,
    /// The other end of a veth pair.
    pub peer: Peer,
}

impl Device {
    /// Finds a device by name and reads its properties.
    ///
    /// # Errors
    /// If no device has that name, or the namespace cannot be entered.
    pub fn open(namespace: &Namespace, name: &str) -> Result<Self, PortError> {
        let mut netlink = Netlink::route(namespace)
            .map_err(|source| PortError::Namespace { namespace: namespace.label(), source })?;
        // A name that is too long for the kernel's 16 bytes can only be an alternative name.
        let by = if name.len() < libc::IFNAMSIZ { IFLA_IFNAME } else { IFLA_ALT_IFNAME };
        let request =
            Request::new(GETLINK, 0, &[0; LINK_BYTES]).with(by, format!("{name}\0").as_bytes());
        let link = match netlink.ask(request) {
            Ok(link) => link,
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {
                return Err(PortError::NoDevice {
                    device: name.to_owned(),
                    namespace: namespace.label(),
                    found: names(&mut netlink).unwrap_or_default(),
                });
            }
            Err(source) => {
                return Err(PortError::Kernel {
                    device: name.to_owned(),
                    namespace: namespace.label(),
                    doing: "ask for its facts".to_owned(),
                    source,
                });
            }
        };
        Ok(Self::describe(namespace, &mut netlink, &link))
    }

    fn describe(namespace: &Namespace, netlink: &mut Netlink, link: &[u8]) -> Self {
        let get = |kind| attribute(link, LINK_BYTES, kind);
        let get_number = |kind| get(kind).and_then(|value| number(value, 0));
        let name = get(IFLA_IFNAME).map(text).unwrap_or_default();
        let hardware = u16::from_ne_bytes([link[2], link[3]]);
        let index = number(link, 4).unwrap_or(0);
        let ethernet = hardware == libc::ARPHRD_ETHER;
        let ethtool = Ethtool::new(netlink.as_fd(), &name);
        let kind = get(IFLA_LINKINFO).and_then(|info| attribute(info, 0, IFLA_INFO_KIND));
        let kind = match kind.map(text).as_deref() {
            Some("veth") => Kind::Veth,
            Some("tun") if ethernet => Kind::Tap,
            Some("tun") => Kind::Tun,
            Some("bridge") => Kind::Bridge,
            Some("macvlan" | "macvtap") => Kind::Macvlan,
            Some(other) => Kind::Other(other.to_owned()),
            None if hardware == libc::ARPHRD_LOOPBACK => Kind::Loopback,
            None => Kind::Physical { driver: ethtool.driver().unwrap_or_default() },
        };
        // Netlink shows the number of allocated queues. Only the driver knows those in use, and not
        // every driver reports them.
        let (receive_queues, transmit_queues) = ethtool.queues().unwrap_or_else(|_| {
            let allocated = |kind| get_number(kind).unwrap_or(1);
            (allocated(IFLA_NUM_RX_QUEUES), allocated(IFLA_NUM_TX_QUEUES))
        });
        let peer = match get_number(IFLA_LINK) {
            Some(peer) if kind == Kind::Veth => {
                find_peer(namespace, netlink, peer, get_number(IFLA_LINK_NETNSID))
            }
            _ => Peer::None,
        };
        Self {
            namespace: namespace.clone(),
            index,
            mac: get(IFLA_ADDRESS).and_then(|mac| mac.try_into().ok()).unwrap_or_default(),
            mtu: get_number(IFLA_MTU).unwrap_or(0),
            up: is_up(link),
            name,
            kind,
            ethernet,
            receive_queues,
            transmit_queues,
            peer,
        }
    }

    /// The driver's present XDP features. `None` on a kernel that cannot report them (before 6.3).
    ///
    /// # Errors
    /// If the device no longer exists or the namespace cannot be entered.
    pub fn xdp_features(&self) -> Result<Option<XdpFeatures>, PortError> {
        xdp::features(&self.namespace, self.index)
            .map_err(|source| self.refused("ask for its XDP features", source))
    }

    pub(crate) fn refused(&self, doing: &str, source: io::Error) -> PortError {
        PortError::Kernel {
            device: self.name.clone(),
            namespace: self.namespace.label(),
            doing: doing.to_owned(),
            source,
        }
    }
}

/// The link of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// The device is set up, and has a carrier.
    Up,
    /// One of both is missing.
    Down,
    /// There is no such device.
    Gone,
}

/// The facts about a device that may change while it is a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Of its link.
    pub state: LinkState,
    /// The name of the device; empty if the device no longer exists.
    pub name: String,
    /// The longest packet without its Ethernet header, in bytes; 0 if the device no longer exists.
    pub mtu: u32,
}

/// Looks at devices, through one socket for each of their namespaces.
#[derive(Default)]
pub struct Links(HashMap<u64, Netlink>);

impl Links {
    /// Looks at device `index` of a namespace.
    ///
    /// # Errors
    /// When the namespace cannot be entered.
    pub fn link(&mut self, namespace: &Namespace, index: u32) -> Result<Link, PortError> {
        let netlink = match self.0.entry(namespace.inode) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(free) => {
                free.insert(Netlink::route(namespace).map_err(|source| PortError::Namespace {
                    namespace: namespace.label(),
                    source,
                })?)
            }
        };
        let mut body = [0; LINK_BYTES];
        body[4..8].copy_from_slice(&index.to_ne_bytes());
        let Ok(link) = netlink.ask(Request::new(GETLINK, 0, &body)) else {
            return Ok(Link { state: LinkState::Gone, name: String::new(), mtu: 0 });
        };
        let get = |kind| attribute(&link, LINK_BYTES, kind);
        let carrier = get(IFLA_CARRIER).and_then(|value| value.first());
        let up = is_up(&link) && carrier.is_none_or(|carrier| *carrier != 0);
        Ok(Link {
            state: if up { LinkState::Up } else { LinkState::Down },
            name: get(IFLA_IFNAME).map(text).unwrap_or_default(),
            mtu: get(IFLA_MTU).and_then(|mtu| number(mtu, 0)).unwrap_or(0),
        })
    }
}

/// Looks at device `index` of a namespace.
///
/// # Errors
/// If the namespace cannot be entered.
pub fn link(namespace: &Namespace, index: u32) -> Result<Link, PortError> {
    Links::default().link(namespace, index)
}

/// The names of all devices of a namespace.
fn names(netlink: &mut Netlink) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    netlink.talk(&mut Request::new(GETLINK, DUMP, &[0; LINK_BYTES]), |_, link| {
        found.extend(attribute(link, LINK_BYTES, IFLA_IFNAME).map(text));
    })?;
    Ok(found)
}

/// The identity of a device, and whether it is up.
pub(crate) struct Identity {
    pub(crate) name: String,
    pub(crate) mac: [u8; 6],
    pub(crate) up: bool,
    /// Packets that it has sent.
    pub(crate) sent: u64,
}

/// The present identity of a device, by number.
pub(crate) fn identity(netlink: &mut Netlink, index: u32) -> io::Result<Identity> {
    let mut body = [0; LINK_BYTES];
    body[4..8].copy_from_slice(&index.to_ne_bytes());
    let link = netlink.ask(Request::new(GETLINK, 0, &body))?;
    let get = |kind| attribute(&link, LINK_BYTES, kind);
    Ok(Identity {
        name: get(IFLA_IFNAME).map(text).unwrap_or_default(),
        mac: get(IFLA_ADDRESS).and_then(|mac| mac.try_into().ok()).unwrap_or_default(),
        up: is_up(&link),
        // The second number of `struct rtnl_link_stats64`.
        sent: get(IFLA_STATS64).and_then(|stats| long_number(stats, 8)).unwrap_or(0),
    })
}

fn is_up(link: &[u8]) -> bool {
    number(link, 8).is_some_and(|flags| flags & UP != 0)
}

/// Sets a device up or down.
pub(crate) fn set_up(netlink: &mut Netlink, index: u32, up: bool) -> io::Result<()> {
    let mut body = [0; LINK_BYTES];
    body[4..8].copy_from_slice(&index.to_ne_bytes());
    body[8..12].copy_from_slice(&(if up { UP } else { 0 }).to_ne_bytes());
    body[12..16].copy_from_slice(&UP.to_ne_bytes()); // which flags to change
    netlink.talk(&mut Request::new(NEWLINK, 0, &body), |_, _| ())
}

/// The kernel names a peer's namespace only by a number that is private to this namespace. This
/// function finds the visible namespace with that number.
fn find_peer(home: &Namespace, netlink: &mut Netlink, index: u32, id: Option<u32>) -> Peer {
    let namespace = match id {
        None => Some(home.clone()),
        Some(id) => Namespace::visible().find(|candidate| {
            let descriptor = candidate.as_fd().as_raw_fd().to_ne_bytes();
            netlink.ask(Request::new(GETNSID, 0, &[0; 4]).with(NETNSA_FD, &descriptor)).is_ok_and(
                |answer| {
                    attribute(&answer, 4, NETNSA_NSID).and_then(|found| number(found, 0))
                        == Some(id)
                },
            )
        }),
    };
    let found = namespace.and_then(|namespace| {
        let name = identity(&mut Netlink::route(&namespace).ok()?, index).ok()?.name;
        Some(Peer::At { namespace, index, name })
    });
    found.unwrap_or(Peer::Unreachable { index })
}
