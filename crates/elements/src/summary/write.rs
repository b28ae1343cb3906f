//! Packets as lines and records of a summary dump.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use europa_engine::Packet;

use super::field::{Field, TCP_FLAGS, Width};
use super::md5;
use super::options::{self, Wanted};
use crate::shared::fields::{Annotations, be16, be32, bytes};
use crate::shared::icmp_names;
use crate::shared::values::Time;

/// Which data of packets is trusted and shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Report packets that are shorter than their IP length, even with the extra length annotation.
    pub(crate) careful: bool,
    /// Count the extra length annotation.
    pub(crate) extra_length: bool,
}

/// The value of a packet's field.
enum Found<'a> {
    Number(u64),
    Time(u64),
    Ether([u8; 6]),
    /// Options or payload.
    Bytes(&'a [u8]),
}

/// The reason why a field has no value.
#[derive(Clone, Copy)]
enum Missing {
    Ethernet,
    Ip,
    /// A transport header of this protocol, with this number of bytes.
    Transport(u8, usize),
    /// Ports, in this number of bytes.
    Ports(usize),
    /// The field does not apply to the packet, which is no mistake.
    Silent,
}

/// A packet, looked at.
struct View<'a> {
    packet: &'a Packet,
    /// From the IP header to the end of the IP packet, as far as it is present.
    ip: Option<&'a [u8]>,
    header_len: usize,
    /// The transport header and the bytes after it, if the packet has one.
    transport: Option<&'a [u8]>,
    /// Bytes behind the IP packet.
    tail: usize,
    /// The part of the extra length annotation that is not yet accounted for.
    extra: u64,
    bad: Option<String>,
}

impl<'a> View<'a> {
    fn new(packet: &'a Packet, options: Options) -> View<'a> {
        let mut view = View {
            packet,
            ip: None,
            header_len: 0,
            transport: None,
            tail: 0,
            extra: u64::from(packet.extra_length()),
            bad: None,
        };
        let Some(data) =
            packet.network_header().filter(|data| !data.is_empty() || packet.len() == 0)
        else {
            return view;
        };
        let first = data.first().copied().unwrap_or(0);
        let (version, header_len) = (first >> 4, usize::from(first & 15) * 4);
        let length = be16(data, 2).map_or(0, usize::from);
        view.bad = if data.len() < 4 {
            Some("truncated IP header".to_owned())
        } else if version != 4 {
            Some(format!("IP version {version}"))
        } else if header_len < 20 {
            Some(format!("IP header length {}", header_len / 4))
        } else if length < header_len {
            Some(format!("IP length {length}"))
        } else {
            None
        };
        if view.bad.is_some() {
            return view;
        }
        if data.len() > length {
            view.tail = data.len() - length;
            view.extra += view.tail as u64;
        } else if options.careful && data.len() as u64 + view.extra < length as u64 {
            let missing = length - data.len() - view.extra as usize;
            view.bad = Some(format!("truncated IP missing {missing}"));
        }
        let ip = data.get(..data.len() - view.tail).unwrap_or_default();
        let full = ip.len() as u64 + view.extra;
        // Lengths come from the header, so the annotation counts only for packets beyond the
        // header's largest length.
        view.extra = if length != 0xffff || full <= 0xffff { 0 } else { full - 0xffff };
        (view.ip, view.header_len) = (Some(ip), header_len);
        let first = be16(ip, 6).is_none_or(|field| field & 0x1fff == 0);
        view.transport = ip.get(header_len..).filter(|rest| first && !rest.is_empty());
        if let (Some(6), Some(rest)) = (view.protocol(), view.transport)
            && rest.len() > 12
            && rest.get(12).is_some_and(|byte| byte >> 4 < 5)
        {
            let words = rest.get(12).map_or(0, |byte| byte >> 4);
            view.note(format!("TCP header length {words}"));
            view.transport = None;
        }
        view
    }

    fn note(&mut self, text: String) {
        self.bad.get_or_insert(text);
    }

    fn protocol(&self) -> Option<u8> {
        self.ip.and_then(|ip| ip.get(9)).copied()
    }

    /// The mistake of a packet with a missing part.
    fn complain(&mut self, missing: Missing) {
        let name = |protocol| match protocol {
            6 => "TCP",
            17 => "UDP",
            _ => "ICMP",
        };
        let (name, wrong, length) = match missing {
            Missing::Silent => return,
            Missing::Ethernet => return self.note("Ethernet header".to_owned()),
            _ if self.ip.is_none() => return self.note("no IP header".to_owned()),
            Missing::Ip => return self.note("truncated IP header capture".to_owned()),
            Missing::Transport(protocol, length) => {
                (name(protocol), self.protocol().is_some_and(|p| p != protocol), length)
            }
            Missing::Ports(length) => {
                ("TCP/UDP", self.protocol().is_some_and(|p| !matches!(p, 6 | 17)), length)
            }
        };
        // A packet of another protocol is not a bad one.
        if wrong {
            return;
        }
        let there = self.ip.map_or(0, |ip| ip.len().saturating_sub(self.header_len));
        if self.ip.and_then(|ip| be16(ip, 6)).is_some_and(|field| field & 0x1fff != 0) {
            self.note(format!("fragmented {name} header"));
        } else if there + self.extra as usize >= length {
            self.note(format!("truncated {name} header capture"));
        } else {
            self.note(format!("truncated {name} header"));
        }
    }

    /// `N` bytes of the IP header.
    fn net<const N: usize>(&self, at: usize) -> Result<[u8; N], Missing> {
        self.ip.and_then(|ip| bytes(ip, at)).ok_or(Missing::Ip)
    }

    /// The transport header, if it is of this protocol and has `length` bytes.
    fn segment(&self, protocol: u8, length: usize) -> Result<&'a [u8], Missing> {
        let segment = self.transport.filter(|_| self.protocol() == Some(protocol));
        segment.filter(|s| s.len() >= length).ok_or(Missing::Transport(protocol, length))
    }

    /// `N` bytes of the transport header.
    fn part<const N: usize>(&self, protocol: u8, at: usize) -> Result<[u8; N], Missing> {
        let segment = self.segment(protocol, at + N)?;
        bytes(segment, at).ok_or(Missing::Silent)
    }

    fn port(&self, at: usize) -> Result<u64, Missing> {
        let has_ports = matches!(self.protocol(), Some(6 | 17 | 33 | 136));
        let segment = self.transport.filter(|_| has_ports);
        // A TCP header with other mistakes still has ports.
        let segment = segment.or_else(|| {
            let first = self.ip.and_then(|ip| be16(ip, 6)).is_some_and(|f| f & 0x1fff == 0);
            self.ip.and_then(|ip| ip.get(self.header_len..)).filter(|_| first && has_ports)
        });
        segment.and_then(|s| be16(s, at)).map(u64::from).ok_or(Missing::Ports(at + 2))
    }

    fn ethernet(&self) -> Result<&'a [u8], Missing> {
        let packet = self.packet;
        let network = packet.network_offset().unwrap_or(packet.len() as isize);
        let mac = match packet.mac_offset() {
            Some(offset) => Some(offset),
            None if network > 0 || packet.network_offset().is_none() => Some(0),
            None => None,
        };
        let frame = match packet.mac_offset() {
            Some(_) => packet.mac_header(),
            None => Some(packet.data()),
        };
        let frame = frame.and_then(|frame| frame.get(..14));
        frame.filter(|_| mac.is_some_and(|mac| mac + 14 == network)).ok_or(Missing::Ethernet)
    }

    fn tcp_options(&self, without_time: bool) -> Result<&'a [u8], Missing> {
        let there = self.transport.map_or(0, <[u8]>::len);
        let missing = Missing::Transport(6, there + 1);
        let segment = self.segment(6, 13).map_err(|_| missing)?;
        let length = segment.get(12).map_or(0, |byte| usize::from(byte >> 4) * 4);
        // The usual timestamp option is recognised without the whole header.
        let usual = without_time && length == 32 && be32(segment, 20) == Some(0x0101_080a);
        if length <= 20 || usual {
            return Ok(&[]);
        }
        segment.get(20..length).ok_or(missing)
    }

    /// ICMP messages that have an identifier.
    fn sequenced(&self, at: usize) -> Result<u64, Missing> {
        let [kind] = self.part::<1>(1, 0)?;
        if !icmp_names::has_identifier(kind) {
            return Err(Missing::Silent);
        }
        self.part(1, at).map(|field| u16::from_be_bytes(field).into())
    }

    /// Where the payload starts, from the packet's first byte, and how long it is.
    fn payload(&self) -> (usize, u64) {
        let Some(ip) = self.ip else {
            return (0, (self.packet.len() - self.tail) as u64);
        };
        let length = be16(ip, 2).map_or(0, u64::from);
        let first = be16(ip, 6).is_none_or(|field| field & 0x1fff == 0);
        let rest = ip.get(self.header_len..).unwrap_or_default();
        let transport = match self.protocol() {
            Some(6) if first => rest.get(12).map_or(20, |byte| usize::from(byte >> 4) * 4).max(20),
            Some(17 | 136) if first => 8,
            _ => 0,
        };
        let headers = self.header_len + transport;
        let start = self.packet.network_offset().unwrap_or(0) + headers as isize;
        (usize::try_from(start).unwrap_or(0), length.saturating_sub(headers as u64))
    }

    fn payload_bytes(&self) -> Result<&'a [u8], Missing> {
        let (start, length) = self.payload();
        let data = self.packet.data();
        if length == 0 {
            return Ok(&[]);
        }
        let end = (start + length as usize).min(data.len() - self.tail.min(data.len()));
        data.get(start..end).filter(|_| start < data.len()).ok_or(Missing::Silent)
    }

    fn find(&self, field: Field, options: Options) -> Result<Found<'a>, Missing> {
        let packet = self.packet;
        let time = packet.timestamp_ns();
        let extra = |of: bool| if of && options.extra_length { self.extra } else { 0 };
        let be = |field: [u8; 2]| u64::from(u16::from_be_bytes(field));
        let be4 = |field: [u8; 4]| u64::from(u32::from_be_bytes(field));
        let byte = |[byte]: [u8; 1]| u64::from(byte);
        let number = match field {
            Field::Timestamp | Field::NanoTimestamp => return Ok(Found::Time(time)),
            Field::FirstTimestamp | Field::FirstNanoTimestamp => {
                return Ok(Found::Time(packet.first_timestamp_ns()));
            }
            Field::Seconds => time / 1_000_000_000,
            Field::Microseconds => time % 1_000_000_000 / 1000,
            Field::AllMicroseconds => time / 1000,
            Field::Count => u64::from(packet.extra_packets()) + 1,
            Field::Link | Field::Paint | Field::Direction => packet.paint().into(),
            Field::Aggregate => packet.aggregate().into(),
            Field::WireLen => packet.len() as u64,
            Field::EthSrc | Field::EthDst => {
                let at = if field == Field::EthSrc { 6 } else { 0 };
                let address = bytes(self.ethernet()?, at);
                return address.map(Found::Ether).ok_or(Missing::Ethernet);
            }
            Field::EthType => be16(self.ethernet()?, 12).map_or(0, u64::from),
            Field::IpSrc => be4(self.net(12)?),
            Field::IpDst => be4(self.net(16)?),
            Field::IpTos => byte(self.net(1)?),
            Field::IpDscp => byte(self.net(1)?) >> 2,
            Field::IpEcn => byte(self.net(1)?) & 3,
            Field::IpTtl => byte(self.net(8)?),
            Field::IpFrag => {
                let field = u16::from_be_bytes(self.net(6)?);
                u64::from(match (field & 0x3fff != 0, field & 0x1fff, field & 0x4000) {
                    (true, 0, _) => b'F',
                    (true, ..) => b'f',
                    (false, _, 0) => b'.',
                    _ => b'!',
                })
            }
            Field::IpFragOff => be(self.net(6)?),
            Field::IpId => be(self.net(4)?),
            Field::IpSum => be(self.net(10)?),
            Field::IpProto => byte(self.net(9)?),
            Field::IpHl => self.ip.map(|_| self.header_len as u64).ok_or(Missing::Ip)?,
            Field::IpLen => {
                let length = self.ip.and_then(|ip| be16(ip, 2)).map(u64::from);
                length.unwrap_or((packet.len() - self.tail) as u64) + extra(true)
            }
            Field::IpCaptureLen => match self.ip {
                Some(ip) => ip.len() as u64,
                None => packet.len() as u64,
            },
            Field::IpOpt => {
                let options = self.ip.and_then(|ip| ip.get(20..self.header_len));
                return options.map(Found::Bytes).ok_or(Missing::Ip);
            }
            Field::SrcPort => self.port(0)?,
            Field::DstPort => self.port(2)?,
            Field::TcpSeq => be4(self.part(6, 4)?),
            Field::TcpAck => be4(self.part(6, 8)?),
            Field::TcpOff => byte(self.part(6, 12)?) >> 4 << 2,
            Field::TcpFlags => be(self.part(6, 12)?) & 0x1ff,
            Field::TcpWindow => be(self.part(6, 14)?),
            Field::TcpUrp => be(self.part(6, 18)?),
            Field::TcpOpt => return self.tcp_options(false).map(Found::Bytes),
            Field::TcpNtOpt | Field::TcpSack => return self.tcp_options(true).map(Found::Bytes),
            Field::UdpLen => be(self.part(17, 4)?),
            Field::IcmpType | Field::IcmpTypeName => byte(self.part(1, 0)?),
            Field::IcmpCode | Field::IcmpCodeName => byte(self.part(1, 1)?),
            Field::IcmpFlowId => self.sequenced(4)?,
            Field::IcmpSeq => self.sequenced(6)?,
            Field::IcmpNextMtu => match self.part(1, 0)? {
                [3, 4] => be(self.part(1, 6)?),
                _ => return Err(Missing::Silent),
            },
            Field::PayloadLen => self.payload().1 + extra(true),
            Field::Payload | Field::PayloadMd5 | Field::PayloadMd5Hex => {
                return self.payload_bytes().map(Found::Bytes);
            }
            Field::None => return Err(Missing::Silent),
        };
        Ok(Found::Number(number))
    }
}

/// A string in double quotes, with ambiguous characters escaped.
pub(crate) fn quote(text: &[u8], out: &mut String) {
    out.push('"');
    for byte in text {
        let _ = match byte {
            b'\\' | b'"' | b'$' => write!(out, "\\{}", char::from(*byte)),
            b'\t' => write!(out, "\\t"),
            b'\r' => write!(out, "\\r"),
            b'\n' => write!(out, "\\n"),
            32..127 => write!(out, "{}", char::from(*byte)),
            _ => write!(out, "\\{byte:03o}"),
        };
    }
    out.push('"');
}

/// Writes a value in the form of its field. Writing to a String cannot fail.
fn text(field: Field, found: &Found<'_>, view: &View<'_>, out: &mut String) {
    let _ = match (field, found) {
        (_, Found::Time(time)) => write!(out, "{}", Time::of(*time)),
        (_, Found::Ether(address)) => {
            write!(out, "{}", europa_packet::MacAddr(*address).dashed())
        }
        (Field::IpOpt, Found::Bytes(bytes)) => write!(out, "{}", options::ip_text(bytes)),
        (Field::TcpOpt, Found::Bytes(b)) => write!(out, "{}", options::tcp_text(b, Wanted::All)),
        (Field::TcpNtOpt, Found::Bytes(b)) => {
            write!(out, "{}", options::tcp_text(b, Wanted::NoTime))
        }
        (Field::TcpSack, Found::Bytes(b)) => write!(out, "{}", options::tcp_text(b, Wanted::Sack)),
        (Field::PayloadMd5, Found::Bytes(b)) => write!(out, "{}", md5::letters(md5::digest(b))),
        (Field::PayloadMd5Hex, Found::Bytes(b)) => write!(out, "{}", md5::hex(md5::digest(b))),
        (_, Found::Bytes(bytes)) => {
            quote(bytes, out);
            Ok(())
        }
        (Field::Direction, Found::Number(0)) => write!(out, ">"),
        (Field::Direction, Found::Number(1)) => write!(out, "<"),
        (Field::IpSrc | Field::IpDst, Found::Number(address)) => {
            write!(out, "{}", Ipv4Addr::from(*address as u32))
        }
        (Field::EthType, Found::Number(number)) => write!(out, "{number:04X}"),
        (Field::IpFrag, Found::Number(letter)) => write!(out, "{}", char::from(*letter as u8)),
        (Field::IpFragOff, Found::Number(number)) => {
            let more = if number & 0x2000 != 0 { "+" } else { "" };
            let whole = if number & 0x4000 != 0 { "!" } else { "" };
            write!(out, "{}{more}{whole}", (number & 0x1fff) << 3)
        }
        (Field::IpProto, Found::Number(6)) => write!(out, "T"),
        (Field::IpProto, Found::Number(17)) => write!(out, "U"),
        (Field::IpProto, Found::Number(1)) => write!(out, "I"),
        (Field::IpEcn, Found::Number(number)) => {
            write!(out, "{}", ["no", "ect1", "ect2", "ce"].get(*number as usize).unwrap_or(&"no"))
        }
        (Field::TcpFlags, Found::Number(0)) => write!(out, "."),
        (Field::TcpFlags, Found::Number(flags)) => {
            let set = TCP_FLAGS.chars().enumerate().filter(|(bit, _)| flags >> bit & 1 != 0);
            out.extend(set.map(|(_, letter)| letter));
            Ok(())
        }
        (Field::IcmpTypeName, Found::Number(kind)) => {
            write!(out, "{}", icmp_names::type_name(*kind as u8))
        }
        (Field::IcmpCodeName, Found::Number(code)) => {
            let [kind] = view.part(1, 0).unwrap_or([0]);
            write!(out, "{}", icmp_names::code_name(kind, *code as u8))
        }
        (_, Found::Number(number)) => write!(out, "{number}"),
    };
}

/// Adds the line of a packet. Returns the packet's mistake, if it has one.
pub(crate) fn line(
    fields: &[Field],
    packet: &Packet,
    options: Options,
    out: &mut String,
) -> Option<String> {
    let mut view = View::new(packet, options);
    for (at, field) in fields.iter().enumerate() {
        if at > 0 {
            out.push(' ');
        }
        match view.find(*field, options) {
            Ok(found) => text(*field, &found, &view, out),
            Err(missing) => {
                view.complain(missing);
                out.push('-');
            }
        }
    }
    out.push('\n');
    view.bad
}

/// Adds the binary record of a packet. Returns the packet's mistake, if it has one.
pub(crate) fn record(
    fields: &[Field],
    packet: &Packet,
    options: Options,
    out: &mut Vec<u8>,
) -> Option<String> {
    let mut view = View::new(packet, options);
    let start = out.len();
    out.extend([0; 4]);
    for field in fields {
        let found = view.find(*field, options).map_err(|missing| view.complain(missing)).ok();
        match (field.width(), found) {
            (Width::Text, _) => {}
            (Width::Bytes(8), Some(Found::Time(time))) => {
                let part = time % 1_000_000_000;
                let nano = matches!(field, Field::NanoTimestamp | Field::FirstNanoTimestamp);
                out.extend(((time / 1_000_000_000) as u32).to_be_bytes());
                out.extend((if nano { part } else { part / 1000 } as u32).to_be_bytes());
            }
            (Width::Bytes(_), Some(Found::Ether(address))) => out.extend(address),
            (Width::Bytes(16), Some(Found::Bytes(bytes))) => out.extend(md5::digest(bytes)),
            (Width::Bytes(count), Some(Found::Number(number))) => {
                out.extend(number.to_be_bytes().iter().skip(8 - count.min(8)));
            }
            (Width::Bytes(count), _) => out.resize(out.len() + count, 0),
            (Width::Counted, found) => {
                let bytes = match (field, found) {
                    (Field::TcpNtOpt, Some(Found::Bytes(b))) => {
                        options::tcp_bytes(b, Wanted::NoTime)
                    }
                    (Field::TcpSack, Some(Found::Bytes(b))) => options::tcp_bytes(b, Wanted::Sack),
                    (_, Some(Found::Bytes(bytes))) => bytes.to_vec(),
                    _ => Vec::new(),
                };
                // Options have at most 40 bytes.
                out.push(bytes.len() as u8);
                out.extend(bytes);
            }
        }
    }
    let length = (out.len() - start) as u32;
    crate::shared::fields::set(out, start, length.to_be_bytes());
    view.bad
}
