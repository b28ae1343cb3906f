//! Neighbor Discovery messages: checked reading (RFC 4861 section 7.1) and writing.

use std::net::Ipv6Addr;

use europa_engine::{Context, Packet};
use europa_packet::icmp6::{
    Icmp6Type, NdOption, NeighborAdvertisement, NeighborSolicitation, nd_options, neighbor_flag,
    option, solicited_node,
};
use europa_packet::{
    EtherType, EthernetHeader, Header, Icmp6Header, IpProtocol, Ipv6Header, Ipv6Packet, MacAddr,
    checksum,
};
use zerocopy::IntoBytes;
use zerocopy::network_endian::{U16, U32};

use crate::shared::made::{make, write};

/// Only a neighbour's message arrives with this hop limit: every router subtracts one.
pub(crate) const HOP_LIMIT: u8 = 255;

/// The contents of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// Asks for the Ethernet address of the target.
    Solicitation {
        /// Ethernet address of the sender, if the message has it.
        source_mac: Option<MacAddr>,
    },
    /// Here is the target.
    Advertisement {
        solicited: bool,
        overrides: bool,
        /// Ethernet address of the target, if the message has it.
        target_mac: Option<MacAddr>,
    },
}

/// A valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) message: Message,
    pub(crate) source: Ipv6Addr,
    pub(crate) target: Ipv6Addr,
    /// Source address of the frame.
    pub(crate) from: MacAddr,
}

/// Reads a frame; `None` if it is no valid solicitation or advertisement.
pub(crate) fn hear(frame: &[u8]) -> Option<Heard> {
    let (ethernet, rest) = EthernetHeader::parse(frame)?;
    let packet = Ipv6Packet::parse(rest).ok()?;
    let header = packet.header;
    let (source, destination) = (header.source_addr(), header.destination_addr());
    // Both messages have the same shape.
    let (fixed, options) = NeighborSolicitation::parse(packet.payload)?;
    let target = Ipv6Addr::from(fixed.target);
    let length = packet.payload.len() as u32;
    let sum = checksum::pseudo_v6(source, destination, IpProtocol::ICMP6, length)
        + checksum::sum(packet.payload);
    if ethernet.ether_type != EtherType::IPV6
        || header.next_header != IpProtocol::ICMP6
        || header.hop_limit != HOP_LIMIT
        || fixed.icmp.code != 0
        || target.is_multicast()
        // The unspecified address is no sender's address (RFC 4291 section 2.7).
        || source.is_multicast()
        || !sum.is_valid()
    {
        return None;
    }
    let (mut source_mac, mut target_mac) = (None, None);
    for found in nd_options(options) {
        match found.ok()? {
            NdOption::SourceLinkLayer(mac) => source_mac = Some(mac),
            NdOption::TargetLinkLayer(mac) => target_mac = Some(mac),
            _ => {}
        }
    }
    let message = match fixed.icmp.kind {
        Icmp6Type::NEIGHBOR_SOLICITATION => {
            // A node without an address asks all nodes whether the address is free.
            let checks = source.is_unspecified();
            if checks && (destination != solicited_node(target) || source_mac.is_some()) {
                return None;
            }
            Message::Solicitation { source_mac }
        }
        Icmp6Type::NEIGHBOR_ADVERTISEMENT => {
            let flags = fixed.icmp.rest.get();
            let solicited = flags & neighbor_flag::SOLICITED != 0;
            if solicited && destination.is_multicast() {
                return None;
            }
            let overrides = flags & neighbor_flag::OVERRIDE != 0;
            Message::Advertisement { solicited, overrides, target_mac }
        }
        _ => return None,
    };
    Some(Heard { message, source, target, from: ethernet.source })
}

/// Destination and source of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) from_mac: MacAddr,
    pub(crate) to_mac: MacAddr,
    pub(crate) from: Ipv6Addr,
    pub(crate) to: Ipv6Addr,
}

/// Makes a frame with a message about `target` that contains `from_mac`.
fn message(
    context: &Context<'_>,
    ends: Ends,
    kind: Icmp6Type,
    flags: u32,
    target: Ipv6Addr,
) -> Option<Packet> {
    let option_kind = match kind {
        Icmp6Type::NEIGHBOR_SOLICITATION => option::SOURCE_LINK_LAYER,
        _ => option::TARGET_LINK_LAYER,
    };
    let [a, b, c, d, e, f] = ends.from_mac.0;
    let option = [option_kind, 1, a, b, c, d, e, f];
    let length = NeighborAdvertisement::LEN + option.len();
    let icmp = Icmp6Header { kind, code: 0, checksum: U16::new(0), rest: U32::new(flags) };
    let mut fixed = NeighborAdvertisement { icmp, target: target.octets() };
    let sum = checksum::pseudo_v6(ends.from, ends.to, IpProtocol::ICMP6, length as u32)
        + checksum::sum(fixed.as_bytes())
        + checksum::sum(&option);
    fixed.icmp.checksum.set(sum.checksum());
    let mut header = Ipv6Header::new(ends.from, ends.to, IpProtocol::ICMP6, length)?;
    header.hop_limit = HOP_LIMIT;
    let ethernet = EthernetHeader {
        destination: ends.to_mac,
        source: ends.from_mac,
        ether_type: EtherType::IPV6,
    };
    let mut packet = make(context, EthernetHeader::LEN + Ipv6Header::LEN + length)?;
    let rest = write(packet.data_mut(), ethernet.as_bytes());
    let rest = write(rest, header.as_bytes());
    let rest = write(rest, fixed.as_bytes());
    write(rest, &option);
    packet.set_mac_header(0);
    packet.set_network_header(EthernetHeader::LEN, Ipv6Header::LEN);
    Some(packet)
}

/// Asks for `target`.
pub(crate) fn solicitation(context: &Context<'_>, ends: Ends, target: Ipv6Addr) -> Option<Packet> {
    message(context, ends, Icmp6Type::NEIGHBOR_SOLICITATION, 0, target)
}

/// Announces the address of `target`; see [`neighbor_flag`].
pub(crate) fn advertisement(
    context: &Context<'_>,
    ends: Ends,
    flags: u32,
    target: Ipv6Addr,
) -> Option<Packet> {
    message(context, ends, Icmp6Type::NEIGHBOR_ADVERTISEMENT, flags, target)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use europa_packet::Frame;
    use proptest::prelude::*;

    /// Builds a message in the layout of RFC 4861 sections 4.3 and 4.4.
    pub(crate) fn frame(
        ends: Ends,
        kind: u8,
        flags: u8,
        target: Ipv6Addr,
        options: &[u8],
    ) -> Vec<u8> {
        let mut message = vec![kind, 0, 0, 0, flags, 0, 0, 0];
        message.extend(target.octets());
        message.extend(options);
        Frame::new(ends.from_mac, ends.to_mac).ipv6(ends.from, ends.to).ttl(255).icmp6(&message)
    }

    fn ends(from: &str, to: &str) -> Ends {
        Ends {
            from_mac: MacAddr([2, 0, 0, 0, 0, 0xa]),
            to_mac: MacAddr([2, 0, 0, 0, 0, 1]),
            from: from.parse().unwrap(),
            to: to.parse().unwrap(),
        }
    }

    #[test]
    fn messages_are_checked() {
        let target: Ipv6Addr = "2001:db8::1".parse().unwrap();
        let own = ends("2001:db8::9", "2001:db8::1");
        let nobody = ends("::", "ff02::1:ff00:1");
        let mac = [1, 1, 2, 0, 0, 0, 0, 0xa];
        let change = |at: usize, value: u8| {
            let mut bytes = frame(own, 135, 0, target, &mac);
            bytes[at] = value;
            bytes
        };
        let group = "ff02::1".parse().unwrap();
        for (name, bytes, valid) in [
            ("solicitation", frame(own, 135, 0, target, &mac), true),
            ("without option", frame(own, 135, 0, target, &[]), true),
            ("advertisement", frame(own, 136, 0x60, target, &mac), true),
            ("address check", frame(nobody, 135, 0, target, &[]), true),
            ("address check with option", frame(nobody, 135, 0, target, &mac), false),
            ("address check to one", frame(ends("::", "2001:db8::1"), 135, 0, target, &[]), false),
            ("target is a group", frame(own, 135, 0, group, &mac), false),
            ("from a group", frame(ends("ff02::1", "2001:db8::1"), 135, 0, target, &mac), false),
            ("option of no length", frame(own, 135, 0, target, &[1, 0, 0, 0, 0, 0, 0, 0]), false),
            (
                "solicited, to all",
                frame(ends("2001:db8::9", "ff02::1"), 136, 0x40, target, &[]),
                false,
            ),
            ("another message", frame(own, 133, 0, target, &mac), false),
            ("hop limit", change(21, 254), false),
            ("checksum", change(56, 1), false),
            ("type", change(13, 0), false),
        ] {
            assert_eq!(hear(&bytes).is_some(), valid, "{name}");
        }
        let whole = frame(own, 135, 0, target, &mac);
        for length in 0..whole.len() {
            assert_eq!(hear(&whole[..length]), None, "{length}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            let _ = hear(&bytes);
        }
    }
}
