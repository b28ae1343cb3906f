//! Routes and next hop objects.

use europa_port::netlink::{attribute, attributes, number};

use super::address::{Address, Gateway, MPLS};

pub(crate) const RTA_DST: u16 = 1;
pub(crate) const RTA_OIF: u16 = 4;
pub(crate) const RTA_GATEWAY: u16 = 5;
pub(super) const RTA_PRIORITY: u16 = 6;
pub(super) const RTA_METRICS: u16 = 8;
pub(super) const RTA_MULTIPATH: u16 = 9;
pub(super) const RTA_TABLE: u16 = 15;
pub(super) const RTA_VIA: u16 = 18;
pub(super) const RTA_ENCAP: u16 = 22;
pub(super) const RTA_NH_ID: u16 = 30;
pub(super) const RTAX_MTU: u16 = 2;

pub(crate) const RTN_UNICAST: u8 = 1;
pub(crate) const RTN_BLACKHOLE: u8 = 6;

pub(super) const RTM_F_CLONED: u32 = 0x200;
pub(super) const RTNH_F_DEAD: u8 = 1;

const NHA_ID: u16 = 1;
const NHA_GROUP: u16 = 2;
const NHA_BLACKHOLE: u16 = 4;
const NHA_OIF: u16 = 5;
const NHA_GATEWAY: u16 = 6;
const NHA_ENCAP: u16 = 8;

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
    /// Linux decides: its own addresses, unreachable destinations.
    Host,
    /// Linux puts a header in front: labels (RFC 3031), a tunnel, segments (RFC 8986).
    Encapsulated,
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
    /// It is for some packets to these destinations only: for a type of service, for sources.
    pub(crate) narrow: bool,
    pub(crate) metric: u32,
    pub(crate) way: Way<A>,
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
        let (mut several, mut object) = (Vec::new(), None);
        let (mut foreign, mut is_encapsulated) = (false, false);
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
                RTA_ENCAP => is_encapsulated = true,
                RTA_NH_ID => object = number(value, 0),
                RTA_MULTIPATH => match hops(value, &mut several) {
                    Ok(()) => {}
                    Err(Unfollowed::Encapsulation) => is_encapsulated = true,
                    Err(Unfollowed::Foreign) => foreign = true,
                },
                _ => {}
            }
        }
        route.way = match kind {
            RTN_BLACKHOLE => Way::Discard,
            RTN_UNICAST if is_encapsulated => Way::Encapsulated,
            RTN_UNICAST if foreign => Way::Host,
            RTN_UNICAST if !several.is_empty() => Way::Hops(several),
            RTN_UNICAST if single.device != 0 => Way::Hops(vec![single]),
            RTN_UNICAST => object.map_or(Way::Host, Way::Object),
            _ => Way::Host,
        };
        Some(route)
    }
}

/// Why the fast path cannot follow a next hop.
enum Unfollowed {
    /// Linux puts a header in front: labels, a tunnel, segments.
    Encapsulation,
    /// A gateway of another family, or an unknown form.
    Foreign,
}

/// Reads the entries of a multipath attribute.
fn hops<A: Address>(mut bytes: &[u8], to: &mut Vec<Hop<A>>) -> Result<(), Unfollowed> {
    while let Some(&[low, high, flags, weight, ..]) = bytes.first_chunk::<8>() {
        let length = usize::from(u16::from_ne_bytes([low, high]));
        let (Some(entry), Some(device)) = (bytes.get(..length), number(bytes, 4)) else {
            return Err(Unfollowed::Foreign);
        };
        let mut hop = Hop { gateway: Gateway::None, device, weight: u16::from(weight) + 1 };
        for (kind, value) in attributes(entry, 8) {
            let gateway = match kind {
                RTA_GATEWAY => Gateway::from_octets(value),
                RTA_VIA => Gateway::from_via(value),
                RTA_ENCAP => return Err(Unfollowed::Encapsulation),
                _ => continue,
            };
            hop.gateway = gateway.ok_or(Unfollowed::Foreign)?;
        }
        if flags & RTNH_F_DEAD == 0 {
            to.push(hop);
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(())
}

/// A next hop object, as FRR makes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Object {
    Blackhole,
    /// Linux puts a header in front.
    Encapsulated,
    /// Gateway in network order, with its family's length; empty for none.
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
                NHA_ENCAP => special = Some(Object::Encapsulated),
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

/// The weight of an entry of a group: a byte, in newer kernels followed by a higher one.
fn weight(entry: &[u8]) -> Option<u16> {
    u16::from_le_bytes([*entry.get(4)?, *entry.get(5)?]).checked_add(1)
}

/// The incoming label of a route of the label table (`ip -f mpls route`): a label stack entry of
/// which the kernel sets the label and the end of the stack only (RFC 3032 section 2.1).
pub(crate) fn label(message: &[u8]) -> Option<u32> {
    if message.first() != Some(&MPLS) {
        return None;
    }
    let entry: [u8; 4] = attribute(message, 12, RTA_DST)?.try_into().ok()?;
    Some(u32::from_be_bytes(entry) >> 12)
}
