//! The kernel's messages about links, neighbours, next hops and routes: converts bytes to values.
//!
//! Numbers are from `linux/rtnetlink.h`, `neighbour.h`, `nexthop.h`.

use europa_port::netlink::{attributes, number, text};

use crate::device::libc_family::{INET, INET6};

/// Types of messages.
pub(crate) mod kind {
    pub(crate) const NEWLINK: u16 = 16;
    pub(crate) const DELLINK: u16 = 17;
    pub(crate) const GETLINK: u16 = 18;
    pub(crate) const DELADDR: u16 = 21;
    pub(crate) const NEWROUTE: u16 = 24;
    pub(crate) const DELROUTE: u16 = 25;
    pub(crate) const GETROUTE: u16 = 26;
    pub(crate) const NEWNEIGH: u16 = 28;
    pub(crate) const DELNEIGH: u16 = 29;
    pub(crate) const GETNEIGH: u16 = 30;
    pub(crate) const NEWNEXTHOP: u16 = 104;
    pub(crate) const DELNEXTHOP: u16 = 105;
    pub(crate) const GETNEXTHOP: u16 = 106;
    pub(crate) const NEWADDR: u16 = 20;
    pub(crate) const GETADDR: u16 = 22;
    pub(crate) const NEWRULE: u16 = 32;
    pub(crate) const DELRULE: u16 = 33;
    pub(crate) const GETRULE: u16 = 34;
    pub(crate) const NEWQDISC: u16 = 36;
    pub(crate) const DELQDISC: u16 = 37;
    pub(crate) const GETQDISC: u16 = 38;
    pub(crate) const NEWNETCONF: u16 = 80;
    pub(crate) const DELNETCONF: u16 = 81;
    pub(crate) const GETNETCONF: u16 = 82;
}

pub(crate) const RTA_DST: u16 = 1;
pub(crate) const RTA_OIF: u16 = 4;
pub(crate) const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_METRICS: u16 = 8;
const RTA_MULTIPATH: u16 = 9;
const RTA_TABLE: u16 = 15;
const RTA_VIA: u16 = 18;
const RTA_ENCAP: u16 = 22;
const RTA_NH_ID: u16 = 30;
const RTAX_MTU: u16 = 2;

pub(crate) const RTN_UNICAST: u8 = 1;
pub(crate) const RTN_BLACKHOLE: u8 = 6;

const RTM_F_CLONED: u32 = 0x200;
const RTNH_F_DEAD: u8 = 1;

pub(crate) const NDA_DST: u16 = 1;
pub(crate) const NDA_LLADDR: u16 = 2;
pub(crate) const NTF_USE: u8 = 1;
const NTF_PROXY: u8 = 8;
pub(crate) const NUD_PERMANENT: u16 = 0x80;
pub(crate) const NUD_STALE: u16 = 4;
/// Reachable, stale, delay, probe, no ARP, permanent: the neighbour has an address to which packets
/// can be sent.
const NUD_VALID: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | NUD_PERMANENT;

const NHA_ID: u16 = 1;
const NHA_GROUP: u16 = 2;
const NHA_BLACKHOLE: u16 = 4;
const NHA_OIF: u16 = 5;
const NHA_GATEWAY: u16 = 6;
const NHA_ENCAP: u16 = 8;

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_PROMISCUITY: u16 = 30;
const IFLA_LINK_NETNSID: u16 = 37;
const IFLA_XDP: u16 = 43;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_MACVLAN_MODE: u16 = 1;
const IFLA_XDP_ATTACHED: u16 = 2;
/// Modes of a macvlan that also receives frames to other addresses than its own: all frames, or
/// those from certain stations.
const MACVLAN_MODE_PASSTHRU: u32 = 8;
const MACVLAN_MODE_SOURCE: u32 = 16;
const IFF_UP: u32 = 1;
const IFF_RUNNING: u32 = 0x40;

/// An IP address of either family as a number.
pub(crate) trait Address: Copy + Eq + Ord + std::hash::Hash + std::fmt::Debug {
    /// The family's number.
    const FAMILY: u8;
    /// Number of bits.
    const BITS: u8;
    /// Reads an address in network order; `None` for another family.
    fn from_octets(octets: &[u8]) -> Option<Self>;
    /// In the usual notation.
    fn write(self, to: &mut String);
    /// The address with all but its first `bits` bits cleared.
    fn masked(self, bits: u8) -> Self;
}

impl Address for u32 {
    const FAMILY: u8 = INET;
    const BITS: u8 = 32;

    fn from_octets(octets: &[u8]) -> Option<u32> {
        octets.try_into().ok().map(u32::from_be_bytes)
    }

    fn write(self, to: &mut String) {
        use std::fmt::Write as _;
        let _ = write!(to, "{}", std::net::Ipv4Addr::from(self));
    }

    fn masked(self, bits: u8) -> u32 {
        self & !u32::MAX.checked_shr(bits.into()).unwrap_or(0)
    }
}

impl Address for u128 {
    const FAMILY: u8 = INET6;
    const BITS: u8 = 128;

    fn from_octets(octets: &[u8]) -> Option<u128> {
        octets.try_into().ok().map(u128::from_be_bytes)
    }

    fn write(self, to: &mut String) {
        use std::fmt::Write as _;
        let _ = write!(to, "{}", std::net::Ipv6Addr::from(self));
    }

    fn masked(self, bits: u8) -> u128 {
        self & !u128::MAX.checked_shr(bits.into()).unwrap_or(0)
    }
}

/// The next router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Gateway<A> {
    /// There is no next hop: the destinations are neighbours.
    None,
    /// A router of the route's own family.
    Own(A),
    /// An IPv6 router of an IPv4 route.
    V6(u128),
}

impl<A: Address> Gateway<A> {
    /// From network order.
    pub(crate) fn from_octets(octets: &[u8]) -> Option<Gateway<A>> {
        match A::from_octets(octets) {
            Some(address) => Some(Gateway::Own(address)),
            None if A::FAMILY == INET => u128::from_octets(octets).map(Gateway::V6),
            None => None,
        }
    }

    /// Reads the attribute `RTA_VIA`: family and address.
    fn from_via(via: &[u8]) -> Option<Gateway<A>> {
        Gateway::from_octets(via.get(2..)?)
    }
}

/// One next hop of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Hop<A> {
    pub(crate) gateway: Gateway<A>,
    /// Number of the device.
    pub(crate) device: u32,
    /// Share of the flows.
    pub(crate) weight: u16,
}

/// The treatment of a route's packets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Way<A> {
    /// Linux decides: addresses of its own, unreachable destinations, encapsulations.
    Host,
    /// Packets are dropped without an error.
    Discard,
    /// Packets are sent.
    Hops(Vec<Hop<A>>),
    /// Defined by a next hop object.
    Object(u32),
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route<A> {
    pub(crate) prefix: (A, u8),
    pub(crate) table: u32,
    /// The route applies only to some packets to these destinations: to a type of service or to
    /// sources.
    pub(crate) narrow: bool,
    pub(crate) metric: u32,
    pub(crate) way: Way<A>,
}

/// The family of a route message.
pub(crate) fn family(message: &[u8]) -> u8 {
    message.first().copied().unwrap_or(0)
}

impl<A: Address> Route<A> {
    /// Reads the payload of a message; `None` for a route that applies to no packets.
    pub(crate) fn parse(message: &[u8]) -> Option<Route<A>> {
        let &[_, length, source_length, tos, table, _, _, kind, ..] =
            message.get(..12)?.first_chunk::<12>()?;
        let flags = number(message, 8)?;
        if flags & RTM_F_CLONED != 0 || length > A::BITS {
            return None;
        }
        let mut route = Route {
            prefix: (A::from_octets(&[0; 16][..usize::from(A::BITS / 8)])?, length),
            table: table.into(),
            narrow: tos != 0 || source_length != 0,
            metric: 0,
            way: Way::Host,
        };
        let mut single = Hop { gateway: Gateway::None, device: 0, weight: 1 };
        let (mut several, mut object, mut foreign) = (Vec::new(), None, false);
        for (kind, value) in attributes(message, 12) {
            match kind {
                RTA_DST => route.prefix.0 = A::from_octets(value)?,
                RTA_OIF => single.device = number(value, 0)?,
                RTA_GATEWAY => single.gateway = Gateway::from_octets(value)?,
                RTA_PRIORITY => route.metric = number(value, 0)?,
                RTA_TABLE => route.table = number(value, 0)?,
                RTA_VIA => match Gateway::from_via(value) {
                    Some(gateway) => single.gateway = gateway,
                    None => foreign = true,
                },
                // Routes with their own MTU: Linux informs senders.
                RTA_METRICS => foreign |= attributes(value, 0).any(|(kind, _)| kind == RTAX_MTU),
                RTA_ENCAP => foreign = true,
                RTA_NH_ID => object = number(value, 0),
                RTA_MULTIPATH => foreign |= !hops(value, &mut several),
                _ => {}
            }
        }
        route.way = match kind {
            RTN_BLACKHOLE => Way::Discard,
            RTN_UNICAST if foreign => Way::Host,
            RTN_UNICAST if !several.is_empty() => Way::Hops(several),
            RTN_UNICAST if single.device != 0 => Way::Hops(vec![single]),
            RTN_UNICAST => object.map_or(Way::Host, Way::Object),
            _ => Way::Host,
        };
        Some(route)
    }
}

/// Reads the entries of a multipath attribute. Returns false if the fast path cannot use one of
/// them.
fn hops<A: Address>(mut bytes: &[u8], to: &mut Vec<Hop<A>>) -> bool {
    while let Some(&[low, high, flags, weight, ..]) = bytes.first_chunk::<8>() {
        let length = usize::from(u16::from_ne_bytes([low, high]));
        let (Some(entry), Some(device)) = (bytes.get(..length), number(bytes, 4)) else {
            return false;
        };
        let mut hop = Hop { gateway: Gateway::None, device, weight: u16::from(weight) + 1 };
        for (kind, value) in attributes(entry, 8) {
            let gateway = match kind {
                RTA_GATEWAY => Gateway::from_octets(value),
                RTA_VIA => Gateway::from_via(value),
                RTA_ENCAP => None,
                _ => continue,
            };
            let Some(gateway) = gateway else { return false };
            hop.gateway = gateway;
        }
        if flags & RTNH_F_DEAD == 0 {
            to.push(hop);
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    true
}

/// A next hop object, such as those that FRR makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Object {
    Blackhole,
    /// An object with an encapsulation or similar properties.
    Foreign,
    /// The gateway in network order, in the length of its family; empty without a gateway.
    Single {
        gateway: Vec<u8>,
        device: u32,
    },
    /// Number and weight of each.
    Group(Vec<(u32, u16)>),
}

impl Object {
    /// Number and object.
    pub(crate) fn parse(message: &[u8]) -> Option<(u32, Object)> {
        let (mut id, mut device, mut gateway) = (None, 0, Vec::new());
        let mut special = None;
        for (kind, value) in attributes(message, 8) {
            match kind {
                NHA_ID => id = number(value, 0),
                NHA_OIF => device = number(value, 0)?,
                NHA_GATEWAY => gateway = value.to_vec(),
                NHA_BLACKHOLE => special = Some(Object::Blackhole),
                NHA_ENCAP => special = Some(Object::Foreign),
                NHA_GROUP => {
                    let entry = |entry: &[u8]| Some((number(entry, 0)?, weight(entry)?));
                    special =
                        Some(Object::Group(value.chunks_exact(8).filter_map(entry).collect()));
                }
                _ => {}
            }
        }
        Some((id?, special.unwrap_or(Object::Single { gateway, device })))
    }
}

/// The weight of a group's entry: one byte; newer kernels add a second byte for the upper half.
fn weight(entry: &[u8]) -> Option<u16> {
    u16::from_le_bytes([*entry.get(4)?, *entry.get(5)?]).checked_add(1)
}

/// A neighbour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Neighbour {
    pub(crate) device: u32,
    /// The address in network order, 4 or 16 bytes.
    pub(crate) address: Vec<u8>,
    pub(crate) state: u16,
    /// The neighbour's Ethernet address, if it has a usable one.
    pub(crate) mac: Option<[u8; 6]>,
}

impl Neighbour {
    pub(crate) fn parse(message: &[u8]) -> Option<Neighbour> {
        let head = message.first_chunk::<12>()?;
        let state = u16::from_ne_bytes([head[8], head[9]]);
        if head[10] & NTF_PROXY != 0 || !matches!(head[0], INET | INET6) {
            return None;
        }
        let (mut address, mut mac) = (None, None);
        for (kind, value) in attributes(message, 12) {
            match kind {
                NDA_DST => address = Some(value.to_vec()),
                NDA_LLADDR => mac = value.try_into().ok(),
                _ => {}
            }
        }
        let mac = mac.filter(|_| state & NUD_VALID != 0);
        Some(Neighbour { device: number(message, 4)?, address: address?, state, mac })
    }
}

/// A link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) name: String,
    /// The device is set up (IFF_UP).
    pub(crate) up: bool,
    /// It is up and has a carrier.
    pub(crate) running: bool,
    /// Its Ethernet address.
    pub(crate) mac: Option<[u8; 6]>,
    pub(crate) mtu: u32,
    /// The bridge, bond or VRF that the device belongs to.
    pub(crate) master: Option<u32>,
    /// The device below it, if it is in the same namespace.
    pub(crate) lower: Option<u32>,
    /// `bridge`, `macvlan` and so on.
    pub(crate) kind: String,
    /// Whether the device takes all frames of the device below it.
    pub(crate) takes_all: bool,
    /// Whether the device receives frames for other stations.
    pub(crate) promiscuous: bool,
    /// Whether an eBPF program gets the device's frames first.
    pub(crate) has_program: bool,
}

impl Link {
    pub(crate) fn parse(message: &[u8]) -> Option<Link> {
        let flags = number(message, 8)?;
        let mut link = Link {
            index: number(message, 4)?,
            up: flags & IFF_UP != 0,
            running: flags & (IFF_UP | IFF_RUNNING) == IFF_UP | IFF_RUNNING,
            ..Link::default()
        };
        let (mut name, mut is_elsewhere) = (None, false);
        for (kind, value) in attributes(message, 16) {
            match kind {
                IFLA_IFNAME => name = Some(text(value)),
                IFLA_ADDRESS => link.mac = value.try_into().ok(),
                IFLA_MTU => link.mtu = number(value, 0)?,
                IFLA_LINK => link.lower = number(value, 0).filter(|lower| *lower != 0),
                IFLA_LINK_NETNSID => is_elsewhere = true,
                IFLA_MASTER => link.master = number(value, 0).filter(|master| *master != 0),
                IFLA_PROMISCUITY => link.promiscuous = number(value, 0) != Some(0),
                IFLA_XDP => {
                    let attached =
                        attributes(value, 0).find(|(kind, _)| *kind == IFLA_XDP_ATTACHED);
                    link.has_program = attached.is_some_and(|(_, how)| how.first() != Some(&0));
                }
                IFLA_LINKINFO => link.read_kind(value),
                _ => {}
            }
        }
        link.name = name?;
        link.lower = link.lower.filter(|_| !is_elsewhere);
        Some(link)
    }

    fn read_kind(&mut self, info: &[u8]) {
        let mut data = &[][..];
        for (kind, value) in attributes(info, 0) {
            match kind {
                IFLA_INFO_KIND => self.kind = text(value),
                IFLA_INFO_DATA => data = value,
                _ => {}
            }
        }
        let mode = attributes(data, 0).find(|(kind, _)| *kind == IFLA_MACVLAN_MODE);
        let mode = mode.and_then(|(_, value)| number(value, 0));
        self.takes_all = match self.kind.as_str() {
            "macvlan" | "macvtap" => {
                matches!(mode, Some(MACVLAN_MODE_PASSTHRU | MACVLAN_MODE_SOURCE))
            }
            "ipvlan" | "ipvtap" | "macsec" => true,
            _ => false,
        };
    }
}

#[cfg(test)]
mod tests;
