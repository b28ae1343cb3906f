//! Changes of packets in place.

pub(crate) mod align;
pub(crate) mod anonymize_ip_addr;
pub(crate) mod dec_ip6_hlim;
pub(crate) mod dec_ip_ttl;
pub(crate) mod erase_ip_payload;
pub(crate) mod fix_ip_src;
pub(crate) mod get_ip6_address;
pub(crate) mod get_ip_address;
pub(crate) mod ip6_mirror;
pub(crate) mod ip_mirror;
pub(crate) mod mark_ip6_header;
pub(crate) mod mark_ip_ce;
pub(crate) mod mark_ip_header;
pub(crate) mod mark_mac_header;
pub(crate) mod pad;
pub(crate) mod paint;
pub(crate) mod random_bit_errors;
pub(crate) mod resize;
pub(crate) mod set_anno_byte;
pub(crate) mod set_filter_key;
pub(crate) mod set_ip6_address;
pub(crate) mod set_ip6_dscp;
pub(crate) mod set_ip_address;
pub(crate) mod set_ip_checksum;
pub(crate) mod set_ip_dscp;
pub(crate) mod set_ip_ecn;
pub(crate) mod set_packet_type;
pub(crate) mod set_queue;
pub(crate) mod set_rand_ip_address;
pub(crate) mod set_tcp_checksum;
pub(crate) mod set_udp_checksum;
pub(crate) mod store_data;
pub(crate) mod store_ether_address;
pub(crate) mod store_ip_address;
pub(crate) mod store_timestamp;
pub(crate) mod strip;
pub(crate) mod strip_ip_header;
pub(crate) mod strip_to_network_header;
pub(crate) mod strip_transport_header;
pub(crate) mod truncate;
pub(crate) mod truncate_ip_payload;
pub(crate) mod unstrip;
pub(crate) mod unstrip_ip_header;

use europa_engine::{Arguments, ConfigError, Names, Packet, Value};

use crate::shared::fields::network;

/// Moves the start of a packet to an offset, which may be before its first byte.
fn start_at(packet: &mut Packet, offset: Option<isize>) {
    // Both calls fail only for an offset outside the buffer, which no annotation contains.
    let _ = match offset {
        Some(offset) if offset < 0 => packet.push(offset.unsigned_abs()).map(|_| ()),
        Some(offset) => packet.pull(offset.unsigned_abs()),
        None => None,
    };
}

/// Length of a packet's TCP, UDP or ICMP header, 0 for other protocols.
fn transport_header_len(packet: &Packet) -> usize {
    let Some((header, rest)) = network(packet) else { return 0 };
    match header.get(9) {
        Some(6) => usize::from(rest.get(12).copied().unwrap_or(0) >> 4).max(5) * 4,
        Some(17) => 8,
        Some(1) => match rest.first() {
            Some(13 | 14) => 20,
            _ => 8,
        },
        _ => 0,
    }
}

/// The place to which an address is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// At this byte of the packet.
    Offset(usize),
    /// At this byte of the header.
    Header(usize),
}

impl Default for Place {
    fn default() -> Place {
        Place::Offset(0)
    }
}

impl Place {
    /// Reads an offset, or `src` or `dst` for these bytes of the header.
    fn read(
        arguments: &Arguments<'_>,
        text: &str,
        source: usize,
        destination: usize,
    ) -> Result<Place, ConfigError> {
        match text.to_ascii_lowercase().as_str() {
            "src" => Ok(Place::Header(source)),
            "dst" => Ok(Place::Header(destination)),
            _ => arguments.value("OFFSET", 0, text).map(Place::Offset).map_err(|_| {
                let wanted = "offset, 'src' or 'dst'".to_owned();
                let (name, found) = ("OFFSET".to_owned(), text.to_owned());
                ConfigError::Value { name, index: None, found, wanted }
            }),
        }
    }
}

/// A number up to MOST.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bits<const MOST: u8>(pub(crate) u8);

impl<const MOST: u8> Value for Bits<MOST> {
    const WANTED: &'static str = "small unsigned integer";

    fn parse(text: &str, names: &Names) -> Option<Self> {
        u8::parse(text, names).filter(|value| *value <= MOST).map(Bits)
    }
}

impl<const MOST: u8> std::fmt::Display for Bits<MOST> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
