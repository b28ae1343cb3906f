//! Compares with `etherparse`: each parses the frames that the other builds.

use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use europa_packet::{
    EtherType, EthernetHeader, Frame, Header, IpProtocol, Ipv4Packet, Ipv6Packet, MacAddr,
    TcpHeader, UdpHeader, ethernet, tcp,
};
use proptest::prelude::*;

const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

proptest! {
    #[test]
    fn udp_over_ipv4(
        source: [u8; 4], to: [u8; 4], ttl: u8, ports: (u16, u16), vlan in prop::option::of(0u16..4096),
        payload in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let mut frame = Frame::new(A, B);
        if let Some(id) = vlan {
            frame = frame.vlan(id);
        }
        let ours = frame.ipv4(source, to).ttl(ttl).udp(ports.0, ports.1, &payload);
        let mut theirs = Vec::new();
        let builder = PacketBuilder::ethernet2(A.0, B.0);
        match vlan {
            Some(id) => builder
                .single_vlan(id.try_into().unwrap())
                .ipv4(source, to, ttl)
                .udp(ports.0, ports.1)
                .write(&mut theirs, &payload),
            None => builder.ipv4(source, to, ttl).udp(ports.0, ports.1).write(&mut theirs, &payload),
        }
        .unwrap();
        // `etherparse` sets "do not fragment".
        let offset = ethernet::payload(&theirs).unwrap().1;
        prop_assert_eq!(ethernet::payload(&theirs).unwrap(), (EtherType::IPV4, offset, vlan));
        let packet = Ipv4Packet::parse(&theirs[offset..]).unwrap();
        prop_assert!(packet.checksum_is_valid());
        let flags = packet.header.flags_fragment.get();
        let mut frame = Frame::new(A, B);
        if let Some(id) = vlan {
            frame = frame.vlan(id);
        }
        let with_flags = frame
            .ipv4(source, to)
            .ttl(ttl)
            .flags_fragment(flags)
            .udp(ports.0, ports.1, &payload);
        prop_assert_eq!(&with_flags, &theirs);
        let sliced = SlicedPacket::from_ethernet(&ours).unwrap();
        let Some(NetSlice::Ipv4(ip)) = sliced.net else { panic!("{sliced:?}") };
        let header = ip.header().to_header();
        prop_assert_eq!(header.header_checksum, header.calc_header_checksum());
    }

    #[test]
    fn tcp_over_ipv6(
        source: [u8; 16], to: [u8; 16], ttl: u8, ports: (u16, u16), sequence: u32,
        payload in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let ours = Frame::new(A, B)
            .ipv6(source, to)
            .ttl(ttl)
            .tcp(ports.0, ports.1, sequence, tcp::flag::SYN, &payload);
        let mut theirs = Vec::new();
        PacketBuilder::ethernet2(A.0, B.0)
            .ipv6(source, to, ttl)
            .tcp(ports.0, ports.1, sequence, 0xffff)
            .syn()
            .write(&mut theirs, &payload)
            .unwrap();
        prop_assert_eq!(&ours, &theirs);
        let upper = Ipv6Packet::parse(&theirs[EthernetHeader::LEN..]).unwrap().upper().unwrap();
        prop_assert_eq!(upper.protocol, IpProtocol::TCP);
        let (header, rest) = TcpHeader::parse(upper.payload).unwrap();
        prop_assert_eq!((header.header_len(), rest), (20, &payload[..]));
    }

    #[test]
    fn echo_requests(
        source: [u8; 16], to: [u8; 16], identifier: u16, sequence: u16,
        payload in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let ours = Frame::new(A, B).ipv6(source, to).echo(identifier, sequence, &payload);
        let mut theirs = Vec::new();
        PacketBuilder::ethernet2(A.0, B.0)
            .ipv6(source, to, 64)
            .icmpv6_echo_request(identifier, sequence)
            .write(&mut theirs, &payload)
            .unwrap();
        prop_assert_eq!(&ours, &theirs);
        let (four, five) = (source[..4].first_chunk().unwrap(), to[..4].first_chunk().unwrap());
        let ours = Frame::bare().ipv4(*four, *five).flags_fragment(0x4000).echo(identifier, sequence, &payload);
        let mut theirs = Vec::new();
        PacketBuilder::ipv4(*four, *five, 64)
            .icmpv4_echo_request(identifier, sequence)
            .write(&mut theirs, &payload)
            .unwrap();
        prop_assert_eq!(&ours, &theirs);
    }

    /// Random bytes that claim to be IP: both refuse them, or both find the same payload.
    #[test]
    fn garbage(mut bytes in prop::collection::vec(any::<u8>(), 0..120), first in 0usize..6, len in 0u16..130) {
        let first = [0x45, 0x46, 0x4f, 0x60, 0x44, 0x65][first];
        if let [at, _, high, low, ..] = &mut bytes[..] {
            *at = first;
            if first < 0x60 {
                [*high, *low] = len.to_be_bytes();
            }
        }
        if first >= 0x60 && let Some(field) = bytes.get_mut(4..6) {
            field.copy_from_slice(&len.to_be_bytes());
        }
        let theirs = etherparse::Ipv4Slice::from_slice(&bytes);
        match Ipv4Packet::parse(&bytes) {
            Ok(packet) => {
                // `etherparse` also parses an authentication header.
                if packet.header.protocol != IpProtocol::AUTHENTICATION {
                    let theirs = theirs.unwrap();
                    prop_assert_eq!(theirs.header().options(), packet.options);
                    prop_assert_eq!(theirs.payload().payload, packet.payload);
                }
                for option in packet.options() {
                    prop_assert!(option.is_err() || packet.options.len() > 1);
                }
            }
            Err(error) => prop_assert!(theirs.is_err(), "{error}: {theirs:?}"),
        }
        if let Ok(packet) = Ipv6Packet::parse(&bytes) {
            prop_assert_eq!(usize::from(packet.header.payload_len.get()), packet.payload.len());
            if let (Ok(upper), Ok(theirs)) = (packet.upper(), etherparse::Ipv6Slice::from_slice(&bytes)) {
                // `etherparse` treats a length of 0 as "the rest", as in a jumbogram.
                if !packet.payload.is_empty() && upper.protocol != IpProtocol::MOBILITY {
                    prop_assert!(packet.payload.ends_with(upper.payload));
                    prop_assert_eq!(upper.extensions_len + upper.payload.len(), packet.payload.len());
                    let same = theirs.payload().ip_number.0 == upper.protocol.0;
                    prop_assert!(!same || theirs.payload().payload == upper.payload);
                }
            }
        }
    }
}

#[test]
fn udp_is_seen_by_both() {
    let frame = Frame::new(A, B).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1, 2, b"data");
    let sliced = SlicedPacket::from_ethernet(&frame).unwrap();
    let Some(TransportSlice::Udp(udp)) = sliced.transport else { panic!("{sliced:?}") };
    let ours = UdpHeader::at(&frame, 34).unwrap();
    assert_eq!(
        (udp.source_port(), udp.destination_port()),
        (ours.source.get(), ours.destination.get())
    );
    assert_eq!((udp.length(), udp.checksum()), (ours.len.get(), ours.checksum.get()));
}
