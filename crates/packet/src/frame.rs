//! Whole frames with valid lengths and checksums, for tests. Allocates.
//!
//! ```
//! use europa_packet::{Frame, MacAddr};
//!
//! let (a, b) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
//! let frame = Frame::new(a, b).vlan(7).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).ttl(3).udp(4000, 53, b"?");
//! assert_eq!(frame.len(), 14 + 4 + 20 + 8 + 1);
//! ```

use std::net::{Ipv4Addr, Ipv6Addr};

use zerocopy::IntoBytes;
use zerocopy::network_endian::{U16, U32};

use crate::checksum::{self, Sum};
use crate::icmp6::Icmp6Type;
use crate::{
    ArpPacket, EtherType, EthernetHeader, Header, Icmp6Header, IcmpHeader, IpProtocol, Ipv4Header,
    Ipv6Header, LabelEntry, MacAddr, TcpHeader, UdpHeader, VlanTag, icmp,
};

/// A frame being built from the outside inwards; the innermost layer finishes it.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Headers that are complete except for the type of the next one.
    outer: Vec<u8>,
    ip: Option<Ip>,
}

#[derive(Clone, Debug)]
enum Ip {
    V4(Ipv4Header),
    V6(Ipv6Header),
}

impl Frame {
    /// An Ethernet frame.
    pub fn new(source: MacAddr, destination: MacAddr) -> Self {
        let header = EthernetHeader { destination, source, ether_type: EtherType::default() };
        Self { outer: header.as_bytes().into(), ip: None }
    }

    /// Starts a packet without Ethernet header, as after `Strip(14)`.
    pub fn bare() -> Self {
        Self { outer: Vec::new(), ip: None }
    }

    /// Puts the type of the next layer into the last header.
    fn next(&mut self, ether_type: EtherType) {
        if let Some(field) = self.outer.last_chunk_mut::<2>() {
            *field = ether_type.0;
        }
    }

    /// Adds a VLAN tag.
    pub fn vlan(mut self, id: u16) -> Self {
        self.next(EtherType::VLAN);
        let tag = VlanTag { control: U16::new(id), ether_type: EtherType::default() };
        self.outer.extend(tag.as_bytes());
        self
    }

    /// Starts an IPv4 packet: TTL 64, identification 0, no flags.
    pub fn ipv4(mut self, source: impl Into<Ipv4Addr>, to: impl Into<Ipv4Addr>) -> Self {
        self.ip = Ipv4Header::new(source.into(), to.into(), IpProtocol(0), 0).map(Ip::V4);
        self
    }

    /// Starts an IPv6 packet: hop limit 64.
    pub fn ipv6(mut self, source: impl Into<Ipv6Addr>, to: impl Into<Ipv6Addr>) -> Self {
        self.ip = Ipv6Header::new(source.into(), to.into(), IpProtocol(0), 0).map(Ip::V6);
        self
    }

    /// Sets TTL or hop limit.
    pub fn ttl(mut self, ttl: u8) -> Self {
        match &mut self.ip {
            Some(Ip::V4(header)) => header.ttl = ttl,
            Some(Ip::V6(header)) => header.hop_limit = ttl,
            None => {}
        }
        self
    }

    /// Sets the identification of an IPv4 packet.
    pub fn id(mut self, id: u16) -> Self {
        if let Some(Ip::V4(header)) = &mut self.ip {
            header.id.set(id);
        }
        self
    }

    /// Sets flags and fragment offset of an IPv4 packet; see [`crate::ipv4`].
    pub fn flags_fragment(mut self, bits: u16) -> Self {
        if let Some(Ip::V4(header)) = &mut self.ip {
            header.flags_fragment.set(bits);
        }
        self
    }

    /// Sets type of service or traffic class.
    pub fn tos(mut self, tos: u8) -> Self {
        match &mut self.ip {
            Some(Ip::V4(header)) => header.tos = tos,
            Some(Ip::V6(header)) => {
                header.version_class_flow.set(6 << 28 | u32::from(tos) << 20);
            }
            None => {}
        }
        self
    }

    /// Finishes with a UDP datagram.
    pub fn udp(self, source: u16, destination: u16, payload: &[u8]) -> Vec<u8> {
        let header = UdpHeader {
            source: U16::new(source),
            destination: U16::new(destination),
            len: U16::new(len(UdpHeader::LEN + payload.len())),
            checksum: U16::new(0),
        };
        let mut segment = [header.as_bytes(), payload].concat();
        let check = self.pseudo(IpProtocol::UDP, &segment) + checksum::sum(&segment);
        if let Some(header) = UdpHeader::at_mut(&mut segment, 0) {
            header.checksum.set(checksum::udp(check.checksum()));
        }
        self.transport(IpProtocol::UDP, &segment)
    }

    /// Finishes with a TCP segment; see [`crate::tcp::flag`].
    pub fn tcp(
        self,
        source: u16,
        destination: u16,
        sequence: u32,
        flags: u8,
        payload: &[u8],
    ) -> Vec<u8> {
        let header = TcpHeader {
            source: U16::new(source),
            destination: U16::new(destination),
            sequence: U32::new(sequence),
            data_offset: 5 << 4,
            flags,
            window: U16::new(0xffff),
            ..TcpHeader::default()
        };
        let mut segment = [header.as_bytes(), payload].concat();
        let check = self.pseudo(IpProtocol::TCP, &segment) + checksum::sum(&segment);
        if let Some(header) = TcpHeader::at_mut(&mut segment, 0) {
            header.checksum.set(check.checksum());
        }
        self.transport(IpProtocol::TCP, &segment)
    }

    /// Finishes with an echo request, of ICMP or ICMPv6.
    pub fn echo(self, identifier: u16, sequence: u16, payload: &[u8]) -> Vec<u8> {
        let rest = IcmpHeader::echo(identifier, sequence);
        match self.ip {
            Some(Ip::V6(_)) => {
                let kind = Icmp6Type::ECHO_REQUEST;
                let header = Icmp6Header { kind, rest, ..Icmp6Header::default() };
                self.icmp6(&[header.as_bytes(), payload].concat())
            }
            _ => {
                let kind = icmp::IcmpType::ECHO_REQUEST;
                let header = IcmpHeader { kind, rest, ..IcmpHeader::default() };
                self.icmp(&[header.as_bytes(), payload].concat())
            }
        }
    }

    /// Finishes with this ICMP message; its checksum is set.
    pub fn icmp(self, message: &[u8]) -> Vec<u8> {
        let mut message = message.to_vec();
        if let Some(header) = IcmpHeader::at_mut(&mut message, 0) {
            header.checksum.set(0);
        }
        let check = checksum::checksum(&message);
        if let Some(header) = IcmpHeader::at_mut(&mut message, 0) {
            header.checksum.set(check);
        }
        self.transport(IpProtocol::ICMP, &message)
    }

    /// Finishes with this ICMPv6 message; its checksum is set.
    pub fn icmp6(self, message: &[u8]) -> Vec<u8> {
        let mut message = message.to_vec();
        if let Some(header) = Icmp6Header::at_mut(&mut message, 0) {
            header.checksum.set(0);
        }
        let check = self.pseudo(IpProtocol::ICMP6, &message) + checksum::sum(&message);
        if let Some(header) = Icmp6Header::at_mut(&mut message, 0) {
            header.checksum.set(check.checksum());
        }
        self.transport(IpProtocol::ICMP6, &message)
    }

    /// Ends with any payload of the IP packet, unchanged.
    pub fn transport(mut self, protocol: IpProtocol, payload: &[u8]) -> Vec<u8> {
        match self.ip.take() {
            Some(Ip::V4(mut header)) => {
                header.protocol = protocol;
                header.total_len.set(len(Ipv4Header::LEN + payload.len()));
                header.checksum.set(0);
                header.checksum.set(checksum::checksum(header.as_bytes()));
                self.payload(EtherType::IPV4, &[header.as_bytes(), payload].concat())
            }
            Some(Ip::V6(mut header)) => {
                header.next_header = protocol;
                header.payload_len.set(len(payload.len()));
                self.payload(EtherType::IPV6, &[header.as_bytes(), payload].concat())
            }
            None => self.payload(EtherType::default(), payload),
        }
    }

    /// Finishes with an ARP packet.
    pub fn arp(self, packet: &ArpPacket) -> Vec<u8> {
        self.payload(EtherType::ARP, packet.as_bytes())
    }

    /// Finishes with a labelled packet. The first label is the outermost; the last one gets the
    /// bottom bit. TTL 64.
    pub fn mpls(self, labels: &[u32], packet: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (index, &label) in labels.iter().enumerate() {
            let bottom = index + 1 == labels.len();
            bytes.extend(LabelEntry::new(label, 0, bottom, 64).as_bytes());
        }
        bytes.extend(packet);
        self.payload(EtherType::MPLS, &bytes)
    }

    /// Ends with any payload of the Ethernet frame, unchanged and not padded.
    pub fn payload(mut self, ether_type: EtherType, payload: &[u8]) -> Vec<u8> {
        self.next(ether_type);
        self.outer.extend(payload);
        self.outer
    }

    fn pseudo(&self, protocol: IpProtocol, segment: &[u8]) -> Sum {
        let length = len(segment.len());
        match &self.ip {
            Some(Ip::V4(h)) => {
                checksum::pseudo_v4(h.source_addr(), h.destination_addr(), protocol, length)
            }
            Some(Ip::V6(h)) => {
                let length = u32::from(length);
                checksum::pseudo_v6(h.source_addr(), h.destination_addr(), protocol, length)
            }
            None => Sum::default(),
        }
    }
}

/// A length field; a larger length than fits becomes the largest.
fn len(bytes: usize) -> u16 {
    u16::try_from(bytes).unwrap_or(u16::MAX)
}
