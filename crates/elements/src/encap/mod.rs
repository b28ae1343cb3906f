//! Headers: Ethernet, VLAN, IP, UDP.

pub(crate) mod ensure_ether;
pub(crate) mod ether_encap;
pub(crate) mod ether_mirror;
pub(crate) mod ether_rewrite;
pub(crate) mod ether_vlan_encap;
pub(crate) mod icmp_ip_encap;
pub(crate) mod icmp_ping_encap;
pub(crate) mod ip6_encap;
pub(crate) mod ip_encap;
pub(crate) mod set_vlan_anno;
pub(crate) mod strip_ether_vlan_header;
pub(crate) mod udp_ip6_encap;
pub(crate) mod udp_ip_encap;
pub(crate) mod vlan_decap;
pub(crate) mod vlan_encap;

use std::net::Ipv4Addr;

use europa_engine::{ArgumentSet, ConfigError, HandlerError, Packet, arguments, parse};
use europa_pool::packet::annotation;

use crate::shared::fields::{self, grow_front, set, set_ip_checksum};
use crate::shared::values::OrAnnotation;

/// An IPv4 header that elements put before packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ipv4 {
    tos: u8,
    dont_fragment: bool,
    ttl: u8,
    protocol: u8,
    pub(crate) source: Ipv4Addr,
    pub(crate) destination: OrAnnotation<Ipv4Addr>,
    /// Identification of the next packet.
    id: u16,
}

impl Ipv4 {
    fn new(protocol: u8, ttl: u8) -> Ipv4 {
        let source = Ipv4Addr::UNSPECIFIED;
        let destination = OrAnnotation::Fixed(source);
        Ipv4 { tos: 0, dont_fragment: false, ttl, protocol, source, destination, id: 0 }
    }

    /// Puts the header and `more` zero bytes before a packet. `None` if there is no room.
    fn push(&mut self, packet: &mut Packet, more: usize) -> Option<()> {
        let header = grow_front(packet, 20 + more)?;
        set(header, 0, [0x45, self.tos]);
        set(header, 4, self.id.to_be_bytes());
        set(header, 6, [if self.dont_fragment { 0x40 } else { 0 }, 0, self.ttl, self.protocol]);
        set(header, 12, self.source.octets());
        let length = u16::try_from(packet.len()).ok()?;
        set(packet.data_mut(), 2, length.to_be_bytes());
        let destination = match self.destination {
            OrAnnotation::Fixed(address) => {
                packet.set_annotation(annotation::DST_IP, address.octets());
                address.octets()
            }
            OrAnnotation::Annotation => packet.annotation(annotation::DST_IP),
        };
        set(packet.data_mut(), 16, destination);
        set_ip_checksum(packet.data_mut());
        packet.set_network_header(0, 20);
        self.id = self.id.wrapping_add(1);
        Some(())
    }
}

/// The packet's IPv4 header, and the bytes behind it.
fn parts(packet: &mut Packet) -> (&mut [u8], &mut [u8]) {
    fields::network_mut(packet).unwrap_or_default()
}

/// A VLAN tag from the arguments of several elements.
#[derive(Clone, Copy, Debug, Default)]
struct Tag {
    /// `None` for the annotation.
    tci: Option<u16>,
    /// VLAN that is sent without a tag.
    native: Option<u16>,
}

/// A number of a tag, if it is within bounds.
fn bounded(
    name: &str,
    value: i32,
    range: std::ops::RangeInclusive<i32>,
) -> Result<u16, ConfigError> {
    let bad =
        || ConfigError::other(format!("{name}: expected {} to {}", range.start(), range.end()));
    if range.contains(&value) { Ok(value as u16) } else { Err(bad()) }
}

impl ArgumentSet for Tag {
    arguments! { set this, given;
        let word = positional "VLAN_TCI": String;
        let priority = positional "VLAN_PCP": i32 = 0;
        let id = keyword "VLAN_ID": i32 = 0;
        let native = keyword "NATIVE_VLAN": i32 = 0;
        then {
            let id = bounded("VLAN_ID", id, 0..=0xfff)?;
            bounded("NATIVE_VLAN", native, -1..=0xfff)?;
            let priority = bounded("VLAN_PCP", priority, 0..=7)?;
            this.tci = match word.as_deref() {
                Some("ANNO") => None,
                Some(word) => Some(given.value::<u16>("VLAN_TCI", 0, word)? | priority << 13),
                None => Some(id | priority << 13),
            };
            this.native = u16::try_from(native).ok();
        }
    }
}

impl Tag {
    /// The tag for a packet; `None` if the packet gets no tag.
    fn of(self, packet: &Packet) -> Option<u16> {
        let tci = self.tci.unwrap_or_else(|| vlan_annotation(packet));
        (Some(tci & 0xfff) != self.native).then_some(tci)
    }

    /// Sets the native VLAN from a handler, -1 for none.
    fn set_native(&mut self, value: &str) -> Result<(), HandlerError> {
        let number: i32 = parse("native_vlan", value)?;
        if !(-1..=0xfff).contains(&number) {
            return Err(HandlerError::value("native_vlan", value, "-1 to 4095"));
        }
        self.native = u16::try_from(number).ok();
        Ok(())
    }

    /// The settings as text for a handler.
    fn text(self) -> String {
        self.tci.map_or_else(|| "ANNO".to_owned(), |tci| tci.to_string())
    }

    /// The part of the tag that a handler shows.
    fn part(self, shift: u32, mask: u16) -> u16 {
        self.tci.unwrap_or(0) >> shift & mask
    }

    /// Sets a part of the tag from a handler.
    fn set(&mut self, shift: u32, mask: u16, value: u16) {
        self.tci = Some(self.tci.unwrap_or(0) & !(mask << shift) | (value & mask) << shift);
    }
}

fn vlan_annotation(packet: &Packet) -> u16 {
    u16::from_be_bytes(packet.annotation(annotation::VLAN_TCI))
}

fn set_vlan_annotation(packet: &mut Packet, tci: u16) {
    packet.set_annotation(annotation::VLAN_TCI, tci.to_be_bytes());
}
