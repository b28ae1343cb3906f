//! Packets from lines and records of a summary dump.

use std::net::Ipv4Addr;

use europa_engine::{Names, Packet, Value, unquote};

use super::field::{Field, Width, tcp_flag};
use super::options;
use crate::shared::fields::{Annotations, be16, grow_front, grow_tail, set, set_ip_checksum};
use crate::shared::icmp_names;
use crate::shared::values::Time;

/// Default addresses and ports of packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flow {
    pub(crate) source: [u8; 4],
    pub(crate) destination: [u8; 4],
    pub(crate) ports: [u16; 2],
}

/// Values that apply to all packets of a dump.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Defaults {
    pub(crate) protocol: u8,
    pub(crate) flow: Option<Flow>,
    /// Whether fragment offsets count in bytes, as in version 1.1 and later.
    pub(crate) byte_offsets: bool,
    pub(crate) checksum: bool,
}

/// The value of a field of a line.
pub(crate) enum Given {
    Number(u64),
    Ether([u8; 6]),
    Bytes(Vec<u8>),
}

/// A packet to which fields are added. `None` from any step means that it does not fit into a
/// buffer.
pub(crate) struct Builder<'a> {
    packet: Packet,
    names: &'a Names,
    defaults: Defaults,
    is_ip: bool,
    have_ip_hl: bool,
    have_tcp_off: bool,
    icmp_type: Option<u8>,
    icmp_code: Option<u8>,
    /// Length that the packet should have, with the missing bytes; 0 if unknown.
    want: u64,
}

fn has_ports(protocol: u8) -> bool {
    matches!(protocol, 6 | 17 | 33 | 136)
}

impl<'a> Builder<'a> {
    pub(crate) fn new(packet: Packet, names: &'a Names, defaults: Defaults) -> Builder<'a> {
        Builder {
            packet,
            names,
            defaults,
            is_ip: true,
            have_ip_hl: false,
            have_tcp_off: false,
            icmp_type: None,
            icmp_code: None,
            want: 0,
        }
    }

    /// Reads a word of a line. `None` if it is not valid for this field.
    pub(crate) fn parse(&self, field: Field, text: &str) -> Option<Given> {
        let number = |most: u64| u64::parse(text, self.names).filter(|number| *number <= most);
        Some(Given::Number(match field {
            Field::Timestamp
            | Field::NanoTimestamp
            | Field::FirstTimestamp
            | Field::FirstNanoTimestamp => Time::parse(text, self.names)?.nanoseconds(),
            Field::Link | Field::Paint | Field::Direction => match text {
                ">" | "L" => 0,
                "<" | "R" | "X" => 1,
                _ => number(255)?,
            },
            Field::EthSrc | Field::EthDst => {
                return <[u8; 6]>::parse(text, self.names).map(Given::Ether);
            }
            Field::EthType => u64::from_str_radix(text, 16).ok().filter(|n| *n <= 0xffff)?,
            Field::IpSrc | Field::IpDst => u32::from(Ipv4Addr::parse(text, self.names)?).into(),
            Field::IpFrag | Field::IpFragOff => self.fragment(text)?,
            Field::IpProto => match text {
                "T" => 6,
                "U" => 17,
                "I" => 1,
                _ => number(255)?,
            },
            Field::IpEcn => match text {
                "no" => 0,
                "ect1" | "ECT(1)" => 1,
                "ect2" | "ECT(0)" => 2,
                "ce" | "CE" => 3,
                _ => number(3)?,
            },
            Field::IpOpt => return options::ip_parse(text).map(Given::Bytes),
            Field::TcpOpt | Field::TcpNtOpt | Field::TcpSack => {
                return options::tcp_parse(text).map(Given::Bytes);
            }
            Field::TcpFlags => match text {
                "." => 0,
                _ if text.starts_with(|c: char| c.is_ascii_digit()) => number(0xfff)?,
                _ => text
                    .chars()
                    .try_fold(0, |flags, letter| Some(flags | tcp_flag(letter)?))?
                    .into(),
            },
            Field::IcmpType | Field::IcmpTypeName => icmp_names::parse_type(text)?.into(),
            Field::IcmpCode | Field::IcmpCodeName => match self.icmp_type {
                Some(kind) => icmp_names::parse_code(kind, text)?.into(),
                None => number(255)?,
            },
            Field::Payload => return unquote(text).map(Given::Bytes),
            Field::PayloadMd5 | Field::PayloadMd5Hex | Field::None => return None,
            _ => match field.width() {
                Width::Bytes(1) => number(0xff)?,
                Width::Bytes(2) => number(0xffff)?,
                Width::Bytes(4) => number(0xffff_ffff)?,
                _ => number(u64::MAX)?,
            },
        }))
    }

    /// The field with flags and offset, from one letter or a number.
    fn fragment(&self, text: &str) -> Option<u64> {
        match text {
            "." => return Some(0),
            "!" => return Some(0x4000),
            "F" => return Some(0x2000),
            // Any offset will do.
            "f" => return Some(100),
            _ => {}
        }
        let digits = text.trim_end_matches(['!', '+']);
        let mut field = if digits.is_empty() { 0 } else { u64::parse(digits, self.names)? };
        if self.defaults.byte_offsets {
            field >>= 3;
        }
        let flags = text.get(digits.len()..)?;
        let flag = |letter, bit| if flags.contains(letter) { bit } else { 0 };
        (!text.is_empty()).then_some(field & 0x1fff | flag('!', 0x4000) | flag('+', 0x2000))
    }

    /// Reads a field at the front of a binary record. `None` if the record is too short.
    pub(crate) fn take(field: Field, record: &mut &[u8]) -> Option<Option<Given>> {
        let mut split = |count: usize| {
            let (front, rest) = record.split_at_checked(count)?;
            *record = rest;
            Some(front)
        };
        let number =
            |bytes: &[u8]| bytes.iter().fold(0u64, |all, byte| all << 8 | u64::from(*byte));
        Some(Some(match (field.width(), field) {
            (Width::Text, _) => return None,
            (Width::Counted, _) => {
                let count = split(1)?.first().map_or(0, |count| usize::from(*count));
                Given::Bytes(split(count)?.to_vec())
            }
            (Width::Bytes(6), _) => Given::Ether(*split(6)?.first_chunk()?),
            (
                Width::Bytes(8),
                Field::Timestamp
                | Field::NanoTimestamp
                | Field::FirstTimestamp
                | Field::FirstNanoTimestamp,
            ) => {
                let (seconds, part) = (number(split(4)?), number(split(4)?));
                let nano = matches!(field, Field::NanoTimestamp | Field::FirstNanoTimestamp);
                Given::Number(seconds * 1_000_000_000 + part * if nano { 1 } else { 1000 })
            }
            (Width::Bytes(count), _) => {
                let bytes = split(count)?;
                if field.order() == 0 {
                    return Some(None);
                }
                Given::Number(number(bytes))
            }
        }))
    }

    fn ip(&mut self) -> &mut [u8] {
        self.packet.network_header_mut().unwrap_or_default()
    }

    fn ip_byte(&self, at: usize) -> u8 {
        self.packet.network_header().and_then(|ip| ip.get(at)).copied().unwrap_or(0)
    }

    fn protocol(&self) -> u8 {
        self.ip_byte(9)
    }

    fn is_first(&self) -> bool {
        self.packet.network_header().and_then(|ip| be16(ip, 6)).is_none_or(|f| f & 0x1fff == 0)
    }

    fn network_at(&self) -> usize {
        self.packet.network_offset().and_then(|at| usize::try_from(at).ok()).unwrap_or(0)
    }

    fn transport_at(&self) -> usize {
        self.network_at() + usize::from(self.ip_byte(0) & 15) * 4
    }

    fn transport(&mut self) -> &mut [u8] {
        let at = self.transport_at();
        self.packet.data_mut().get_mut(at..).unwrap_or_default()
    }

    /// Extends the packet up to this byte.
    fn reach(&mut self, length: usize) -> Option<()> {
        match length.checked_sub(self.packet.len()) {
            Some(more) if more > 0 => grow_tail(&mut self.packet, more),
            _ => Some(()),
        }
    }

    /// Sets the header length and the header annotations.
    fn set_ip_hl(&mut self, length: usize) {
        let (at, first) = (self.network_at(), self.ip_byte(0));
        set(self.ip(), 0, [first & 0xf0 | (length / 4) as u8]);
        self.packet.set_network_header(at, length);
    }

    /// Makes an IP header if there is none. `Some(false)` if that is impossible, or the packet has
    /// another protocol.
    fn make_ip(&mut self, protocol: Option<u8>) -> Option<bool> {
        if !self.is_ip {
            return Some(false);
        }
        let at = self.network_at();
        if self.packet.network_offset().is_none() || self.packet.len() < at + 20 {
            self.reach(at + 20)?;
            self.packet.set_network_header(at, 20);
            let (protocol, flow) = (self.defaults.protocol, self.defaults.flow);
            let ip = self.ip();
            set(ip, 0, [0x45]);
            set(ip, 8, [100, protocol]);
            if let Some(flow) = flow {
                set(ip, 12, flow.source);
                set(ip, 16, flow.destination);
            }
        }
        let found = self.protocol();
        Some(found == 0 || protocol.is_none_or(|protocol| protocol == found))
    }

    /// Makes a transport header if there is none. `Some(false)` if the packet has none.
    fn make_transport(&mut self) -> Option<bool> {
        if !self.is_first() {
            return Some(false);
        }
        let at = self.transport_at();
        let mut length = match self.protocol() {
            6 => 20,
            17 | 136 | 1 => 8,
            33 => 12,
            _ => return Some(true),
        };
        if self.want > 0 && self.want < (at + length) as u64 {
            length = (self.want as usize).saturating_sub(at);
        }
        if self.packet.len() < at + length && self.packet.len() < at + 8 {
            self.reach(at + length.max(4))?;
            let (protocol, flow) = (self.protocol(), self.defaults.flow);
            let segment = self.transport();
            if protocol == 6 && length >= 13 {
                set(segment, 12, [5 << 4]);
            }
            if let Some(Flow { ports: [source, destination], .. }) = flow {
                set(segment, 0, source.to_be_bytes());
                set(segment, 2, destination.to_be_bytes());
            }
            if length < 4 {
                self.packet.take(4 - length)?;
            }
        }
        Some(true)
    }

    /// Puts a field into the packet.
    pub(crate) fn inject(&mut self, field: Field, given: Given) -> Option<()> {
        let number = match &given {
            Given::Number(number) => *number,
            _ => 0,
        };
        // Larger numbers were refused when they were read.
        let (byte, short, word) = (number as u8, number as u16, number as u32);
        match field.order() {
            0..200 => self.annotate(field, number),
            200..297 => self.inject_ethernet(field, &given)?,
            297..350 => {
                if self.make_ip(None)? {
                    self.inject_ip(field, &given, byte, short, word)?;
                }
            }
            350..450 => match field {
                Field::SrcPort | Field::DstPort => {
                    if self.make_ip(None)? && self.make_transport()? {
                        let protocol = self.protocol();
                        if protocol == 0 || has_ports(protocol) {
                            let at = if field == Field::SrcPort { 0 } else { 2 };
                            set(self.transport(), at, short.to_be_bytes());
                        }
                    }
                }
                Field::UdpLen => {
                    if self.make_ip(None)?
                        && self.make_transport()?
                        && matches!(self.protocol(), 0 | 17 | 136)
                    {
                        self.reach(self.transport_at() + 8)?;
                        set(self.transport(), 4, short.to_be_bytes());
                    }
                }
                Field::IcmpType
                | Field::IcmpTypeName
                | Field::IcmpCode
                | Field::IcmpCodeName
                | Field::IcmpFlowId
                | Field::IcmpSeq
                | Field::IcmpNextMtu => {
                    if self.make_ip(Some(1))? && self.make_transport()? {
                        self.inject_icmp(field, byte, short)?;
                    }
                }
                _ => {
                    if self.make_ip(Some(6))? && self.make_transport()? {
                        self.inject_tcp(field, &given, byte, short, word)?;
                    }
                }
            },
            _ => self.inject_payload(field, &given)?,
        }
        Some(())
    }

    fn annotate(&mut self, field: Field, number: u64) {
        let time = self.packet.timestamp_ns();
        match field {
            Field::Timestamp | Field::NanoTimestamp => self.packet.set_timestamp_ns(number),
            Field::Seconds => {
                let seconds = number.saturating_mul(1_000_000_000);
                self.packet.set_timestamp_ns(seconds.saturating_add(time % 1_000_000_000));
            }
            Field::Microseconds => {
                let seconds = time - time % 1_000_000_000;
                self.packet.set_timestamp_ns(seconds.saturating_add(number * 1000));
            }
            Field::AllMicroseconds => self.packet.set_timestamp_ns(number.saturating_mul(1000)),
            Field::FirstTimestamp | Field::FirstNanoTimestamp => {
                self.packet.set_first_timestamp_ns(number);
            }
            Field::Count => self.packet.set_extra_packets((number as u32).saturating_sub(1)),
            Field::Link | Field::Paint | Field::Direction => self.packet.set_paint(number as u8),
            Field::Aggregate => self.packet.set_aggregate(number as u32),
            Field::WireLen => self.want = number,
            _ => {}
        }
    }

    fn inject_ethernet(&mut self, field: Field, given: &Given) -> Option<()> {
        if self.packet.mac_offset().is_none() {
            grow_front(&mut self.packet, 14)?;
            self.packet.set_mac_header(0);
            self.packet.set_network_header(14, 0);
            set(self.packet.data_mut(), 12, [8, 0]);
        }
        let data = self.packet.data_mut();
        match (field, given) {
            (Field::EthSrc, Given::Ether(address)) => drop(set(data, 6, *address)),
            (Field::EthDst, Given::Ether(address)) => drop(set(data, 0, *address)),
            (_, Given::Number(kind)) => {
                set(data, 12, (*kind as u16).to_be_bytes());
                self.is_ip &= matches!(kind, 0x0800 | 0x86dd);
            }
            _ => {}
        }
        Some(())
    }

    fn inject_ip(
        &mut self,
        field: Field,
        given: &Given,
        byte: u8,
        short: u16,
        word: u32,
    ) -> Option<()> {
        let tos = self.ip_byte(1);
        match field {
            Field::IpSrc => drop(set(self.ip(), 12, word.to_be_bytes())),
            Field::IpDst => drop(set(self.ip(), 16, word.to_be_bytes())),
            Field::IpTos => drop(set(self.ip(), 1, [byte])),
            Field::IpDscp => drop(set(self.ip(), 1, [tos & 3 | byte << 2])),
            Field::IpEcn => drop(set(self.ip(), 1, [tos & 0xfc | byte & 3])),
            Field::IpTtl => drop(set(self.ip(), 8, [byte])),
            Field::IpFrag | Field::IpFragOff => drop(set(self.ip(), 6, short.to_be_bytes())),
            Field::IpId => drop(set(self.ip(), 4, short.to_be_bytes())),
            Field::IpSum => drop(set(self.ip(), 10, short.to_be_bytes())),
            Field::IpProto => drop(set(self.ip(), 9, [byte])),
            Field::IpLen => self.want = self.network_at() as u64 + u64::from(word),
            Field::IpHl => {
                self.have_ip_hl = true;
                let (old, new) = (
                    self.transport_at() - self.network_at(),
                    usize::from(byte).next_multiple_of(4).min(60),
                );
                if new > old {
                    self.reach(self.packet.len() + new - old)?;
                }
                self.set_ip_hl(new);
            }
            Field::IpOpt => {
                self.have_ip_hl = true;
                if let Given::Bytes(options) = given
                    && !options.is_empty()
                {
                    let length = (20 + options.len()).next_multiple_of(4).min(60);
                    self.reach(self.network_at() + length)?;
                    if length > self.transport_at() - self.network_at() {
                        self.set_ip_hl(length);
                    }
                    let place = self.ip().get_mut(20..length)?;
                    let (front, rest) = place.split_at_mut_checked(options.len())?;
                    front.copy_from_slice(options);
                    rest.fill(0);
                }
            }
            _ => {}
        }
        Some(())
    }

    fn inject_tcp(
        &mut self,
        field: Field,
        given: &Given,
        byte: u8,
        short: u16,
        word: u32,
    ) -> Option<()> {
        let segment = self.transport();
        let offset = segment.get(12).copied().unwrap_or(0);
        match field {
            Field::TcpSeq => drop(set(segment, 4, word.to_be_bytes())),
            Field::TcpAck => drop(set(segment, 8, word.to_be_bytes())),
            Field::TcpWindow => drop(set(segment, 14, short.to_be_bytes())),
            Field::TcpUrp => drop(set(segment, 18, short.to_be_bytes())),
            Field::TcpFlags => {
                set(segment, 12, [offset & 0xf0 | (short >> 8) as u8 & 15]);
                set(segment, 13, [byte]);
            }
            Field::TcpOff => {
                let (old, new) =
                    (usize::from(offset >> 4) * 4, usize::from(byte).next_multiple_of(4).min(60));
                if new > old {
                    self.reach(self.packet.len() + new - old)?;
                }
                set(self.transport(), 12, [(new as u8 / 4) << 4 | offset & 15]);
            }
            _ => {
                self.have_tcp_off = true;
                if let Given::Bytes(options) = given
                    && !options.is_empty()
                {
                    let length = (20 + options.len()).next_multiple_of(4).min(60);
                    self.reach(self.transport_at() + length)?;
                    let segment = self.transport();
                    if length > usize::from(offset >> 4) * 4 {
                        set(segment, 12, [(length as u8 / 4) << 4 | offset & 15]);
                    }
                    let (front, rest) =
                        segment.get_mut(20..length)?.split_at_mut_checked(options.len())?;
                    front.copy_from_slice(options);
                    rest.fill(0);
                }
            }
        }
        Some(())
    }

    fn inject_icmp(&mut self, field: Field, byte: u8, short: u16) -> Option<()> {
        let at = self.transport_at();
        self.reach(at + 8)?;
        let sequenced = self.icmp_type.is_none_or(icmp_names::has_identifier);
        let too_big = self.icmp_type.is_none_or(|kind| kind == 3)
            && self.icmp_code.is_none_or(|code| code == 4);
        match field {
            Field::IcmpType | Field::IcmpTypeName => {
                self.icmp_type = Some(byte);
                self.reach(at + icmp_names::header_len(byte))?;
                set(self.transport(), 0, [byte]);
            }
            Field::IcmpCode | Field::IcmpCodeName => {
                self.icmp_code = Some(byte);
                set(self.transport(), 1, [byte]);
            }
            Field::IcmpFlowId if sequenced => drop(set(self.transport(), 4, short.to_be_bytes())),
            Field::IcmpSeq if sequenced => drop(set(self.transport(), 6, short.to_be_bytes())),
            Field::IcmpNextMtu if too_big => drop(set(self.transport(), 6, short.to_be_bytes())),
            _ => {}
        }
        Some(())
    }

    fn inject_payload(&mut self, field: Field, given: &Given) -> Option<()> {
        if self.make_ip(None)? {
            self.make_transport()?;
        }
        let length = match given {
            Given::Bytes(bytes) if bytes.is_empty() => return Some(()),
            Given::Bytes(bytes) => bytes.len() as u64,
            Given::Number(number) if field == Field::PayloadLen => *number,
            _ => return Some(()),
        };
        let start = self.payload_at();
        self.stretch(start, length)?;
        if let Given::Bytes(bytes) = given {
            let start = self.payload_at();
            self.reach(start + bytes.len())?;
            self.packet.data_mut().get_mut(start..start + bytes.len())?.copy_from_slice(bytes);
        }
        Some(())
    }

    fn payload_at(&self) -> usize {
        if !self.is_ip {
            return 0;
        }
        let at = self.transport_at();
        let transport = match self.protocol() {
            6 if self.is_first() => {
                let offset = self.packet.data().get(at + 12).map_or(0, |byte| byte >> 4);
                usize::from(offset).max(5) * 4
            }
            17 | 136 if self.is_first() => 8,
            _ => 0,
        };
        at + transport
    }

    /// Lengthens the headers: if the IP length is larger than headers and payload, the headers must
    /// have had options.
    fn stretch(&mut self, start: usize, length: u64) -> Option<()> {
        let stored = self.packet.network_header().and_then(|ip| be16(ip, 2)).unwrap_or(0);
        if !self.is_ip || stored == 0 && self.want == 0 {
            self.want = start as u64 + length;
            return Some(());
        }
        let end = match stored {
            0 => self.want,
            stored => self.network_at() as u64 + u64::from(stored),
        };
        let mut more = usize::try_from(end.saturating_sub(start as u64 + length)).unwrap_or(0) & !3;
        let at = self.transport_at();
        if more > 0
            && self.is_first()
            && self.protocol() == 6
            && !self.have_tcp_off
            && start == at + 20
        {
            let count = more.min(40);
            self.insert(at + 20, count)?;
            set(self.transport(), 12, [((20 + count) as u8 / 4) << 4]);
            more -= count;
        }
        if more > 0 && !self.have_ip_hl && at == self.network_at() + 20 {
            let count = more.min(40);
            self.insert(at, count)?;
            self.set_ip_hl(20 + count);
        }
        Some(())
    }

    /// Makes room for zeros in the middle.
    fn insert(&mut self, at: usize, count: usize) -> Option<()> {
        self.reach(self.packet.len() + count)?;
        let tail = self.packet.data_mut().get_mut(at..)?;
        tail.rotate_right(count);
        tail.get_mut(..count)?.fill(0);
        Some(())
    }

    /// The packet, with lengths, annotations and, if requested, checksums.
    pub(crate) fn finish(mut self) -> Option<Packet> {
        if self.defaults.flow.is_some() {
            self.make_ip(None)?;
        }
        if self.is_ip
            && self.packet.network_offset().is_some()
            && self.packet.len() >= self.network_at() + 20
        {
            self.make_transport()?;
            self.finish_ip()?;
        }
        let missing = self.want.saturating_sub(self.packet.len() as u64);
        self.packet.set_extra_length(u32::try_from(missing).unwrap_or(u32::MAX));
        Some(self.packet)
    }

    fn finish_ip(&mut self) -> Option<()> {
        let (at, transport) = (self.network_at(), self.transport_at());
        let there = self.packet.len() - at;
        let stored = be16(self.ip(), 2).unwrap_or(0);
        let length = match stored {
            0 => {
                let wanted = self.want.saturating_sub(at as u64).min(0xffff) as usize;
                if wanted == 0 { there } else { wanted }
            }
            stored => usize::from(stored),
        };
        set(self.ip(), 2, (length as u16).to_be_bytes());
        if self.protocol() == 17 && self.is_first() && be16(self.transport(), 4) == Some(0) {
            let length = length.saturating_sub(transport - at) as u16;
            set(self.transport(), 4, length.to_be_bytes());
        }
        let destination = crate::shared::fields::bytes::<4>(self.ip(), 16).unwrap_or([0; 4]);
        self.packet.set_annotation(europa_pool::packet::annotation::DST_IP, destination);
        if self.defaults.checksum {
            self.reach(at + length)?;
            self.set_checksums();
        }
        Some(())
    }

    fn set_checksums(&mut self) {
        set_ip_checksum(self.ip());
        let Some((header, segment)) = crate::shared::fields::network_mut(&mut self.packet) else {
            return;
        };
        let at = match header.get(9) {
            _ if crate::shared::fields::is_fragment(header) => return,
            Some(6) => 16,
            Some(17) => 6,
            Some(1) => 2,
            _ => return,
        };
        if set(segment, at, [0; 2]) {
            let check = match at {
                2 => europa_packet::checksum::checksum(segment),
                6 => europa_packet::checksum::udp(crate::shared::fields::segment_checksum(
                    header, segment,
                )),
                _ => crate::shared::fields::segment_checksum(header, segment),
            };
            set(segment, at, check.to_be_bytes());
        }
    }
}
