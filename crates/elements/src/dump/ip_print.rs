//! # IPPrint
//!
//! ## Synopsis
//! `IPPrint([LABEL, CONTENTS, PAYLOAD, MAXLENGTH, ID, TTL, TOS, LENGTH, TIMESTAMP, AGGREGATE, PAINT, SWAP, ACTIVE])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Writes a line about each IPv4 packet to the router's log: addresses, protocol, ports, flags.
//! Packets without the IP header annotation pass and are not printed. Use it for tests only: it
//! allocates memory and writes on the packet path.
//!
//! ## Arguments
//! - LABEL: text in front.
//! - CONTENTS, PAYLOAD (keywords): print the bytes of the packet, or of the payload behind the
//!   headers of IP, TCP and UDP, as `HEX` or `ASCII`; default `NONE`.
//! - MAXLENGTH (keyword): most bytes to print, default 1500; negative means all.
//! - ID, TTL, TOS, LENGTH, AGGREGATE, PAINT (keywords): print these fields or annotations as well;
//!   default false.
//! - SWAP (keyword): print identifier and sequence number of ICMP echo in network byte order;
//!   default true.
//! - TIMESTAMP (keyword): print the time of reception; default true.
//! - ETHER (keyword): accepted; no effect.
//! - ACTIVE (keyword): whether to print; default true.
//!
//! ## Handlers
//! - `active` (read, write): see ACTIVE.
//!
//! ## See also
//! `Print`, `CheckIPHeader`

use std::fmt::Write as _;

use europa_engine::{
    Batch, Class, ClassInfo, ConfigError, Context, Element, Packet, arguments, handlers,
};

use europa_packet::{Header, IpProtocol, Ipv4Header};

use crate::dump::print::{Contents, seconds};
use crate::shared::fields::Annotations;
use crate::shared::icmp_names;

/// Writes IPv4 packets to the log.
#[derive(Default)]
pub(crate) struct IPPrint {
    label: String,
    contents: Option<Contents>,
    payload: Option<Contents>,
    max_length: Option<usize>,
    id: bool,
    ttl: bool,
    tos: bool,
    length: bool,
    timestamp: bool,
    aggregate: bool,
    paint: bool,
    swap: bool,
    active: bool,
}

impl Class for IPPrint {
    const INFO: ClassInfo = ClassInfo::new("IPPrint", "1/1").inline();
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|field| u16::from_be_bytes(*field))
}

/// Addresses, protocol and the fields of the transport header; `length` is that of the packet.
fn describe(header: &Ipv4Header, transport: &[u8], length: usize, swap: bool, out: &mut String) {
    let (from, to) = (header.source_addr(), header.destination_addr());
    let first = header.fragment_offset() == 0;
    let ports = be16(transport, 0).zip(be16(transport, 2)).filter(|_| first);
    let addresses = format!("{from} > {to}: ");
    let name = match header.protocol.0 {
        6 => "tcp",
        17 => "udp",
        1 => {
            *out += &addresses;
            *out += &if first { icmp(transport, swap) } else { "icmp".to_owned() };
            return;
        }
        other => {
            *out += &format!("{addresses}ip-proto-{other}");
            return;
        }
    };
    let Some((source, destination)) = ports else {
        *out += &format!("{addresses}{}{name}", if first { "truncated-" } else { "" });
        return;
    };
    *out += &format!("{from}.{source} > {to}.{destination}: ");
    let known = match name {
        "tcp" => tcp(header, transport, length, out),
        _ => be16(transport, 4).filter(|_| transport.len() >= 8).map(|length| {
            *out += &format!("udp {length}");
        }),
    };
    if known.is_none() {
        *out += &format!("truncated-{name}");
    }
}

/// Flags, sequence numbers, acknowledgement and window, as far as the packet has them.
fn tcp(header: &Ipv4Header, transport: &[u8], length: usize, out: &mut String) -> Option<()> {
    let word = |at: usize| transport.get(at..)?.first_chunk().map(|f| u32::from_be_bytes(*f));
    let (flags, sequence, ack) = (*transport.get(13)?, word(4)?, word(8)?);
    let (syn, fin) = (flags >> 1 & 1, flags & 1);
    let names = [(syn, 'S'), (fin, 'F'), (flags >> 2 & 1, 'R'), (flags >> 3 & 1, 'P')];
    let set: String = names.iter().filter(|(set, _)| *set != 0).map(|(_, name)| *name).collect();
    let total = header.total_len.get();
    let offset = usize::from(transport.get(12)? >> 4) * 4;
    // Each flag takes one number. Lengths in a damaged packet may contradict each other.
    let bytes = i64::from(total) - (header.header_len() + offset) as i64 + i64::from(syn + fin);
    let end = sequence.wrapping_add(bytes as u32);
    *out += if set.is_empty() { "." } else { &set };
    *out += &format!(" {sequence}:{end}({bytes},{length},{total})");
    if flags & 16 != 0 {
        *out += &format!(" ack {ack}");
    }
    *out += &format!(" win {}", be16(transport, 14)?);
    Some(())
}

/// The bytes after the header of TCP or UDP; of other protocols, all bytes.
fn payload<'a>(header: &Ipv4Header, transport: &'a [u8]) -> Option<&'a [u8]> {
    let length = match header.protocol {
        IpProtocol::TCP => usize::from(transport.get(12)? >> 4) * 4,
        IpProtocol::UDP => 8,
        _ => 0,
    };
    transport.get(length..)
}

/// The text of an ICMP message.
fn icmp(message: &[u8], swap: bool) -> String {
    let [kind, code, ..] = message else { return "truncated-icmp".to_owned() };
    let (kind, code) = (*kind, *code);
    let code_name = icmp_names::name_of_code(kind, code);
    match kind {
        0 | 8 => {
            let name = if kind == 0 { "icmp echo-reply" } else { "icmp echo" };
            let numbers = be16(message, 4).zip(be16(message, 6));
            let shown = |number: u16| if swap { number } else { number.swap_bytes() };
            match numbers {
                Some((id, sequence)) => format!("{name} ({}, {})", shown(id), shown(sequence)),
                None => format!("{name} truncated-icmp"),
            }
        }
        3 => {
            let code_name = code_name.map_or_else(|| format!("code {code}"), str::to_owned);
            let Some((inner, rest)) = message.get(8..).and_then(Ipv4Header::parse) else {
                return format!("icmp unreachable {code_name} truncated-icmp");
            };
            let start = format!("icmp {} unreachable {code_name}", inner.destination_addr());
            let protocol = inner.protocol.0;
            let name = crate::shared::values::protocol_name(protocol);
            match code {
                2 => format!("{start} {}", name.map_or(protocol.to_string(), str::to_owned)),
                3 => {
                    let name = name.map_or_else(|| format!("protocol {protocol}"), str::to_owned);
                    let options = inner.header_len() - 20;
                    match be16(rest, options + 2) {
                        Some(port) => format!("{start} {name}/{port}"),
                        None => format!("{start} {name}truncated-icmp"),
                    }
                }
                4 => match be16(message, 6) {
                    Some(0) | None => start,
                    Some(mtu) => format!("{start} (mtu {mtu})"),
                },
                _ => start,
            }
        }
        _ => {
            let name = icmp_names::name_of_type(kind);
            let name = name.map_or_else(|| format!("type {kind}"), str::to_owned);
            match (code_name, code) {
                (Some(code), _) => format!("icmp {name} {code}"),
                (None, 0) => format!("icmp {name}"),
                (None, code) => format!("icmp {name} code {code}"),
            }
        }
    }
}

impl IPPrint {
    fn line(&self, packet: &Packet) -> Option<String> {
        let bytes = packet.network_header()?;
        let mut line = self.label.clone();
        if !line.is_empty() {
            line += ": ";
        }
        if self.timestamp {
            line = line + &seconds(packet.timestamp_ns()) + ": ";
        }
        // Writing to a String cannot fail.
        let _ = match (self.aggregate.then(|| packet.aggregate()), self.paint) {
            (None, false) => Ok(()),
            (None, true) => write!(line, "paint {}: ", packet.paint()),
            (Some(aggregate), false) => write!(line, "#{aggregate}: "),
            (Some(aggregate), true) => write!(line, "#{aggregate}.{}: ", packet.paint()),
        };
        let Some((header, _)) = Ipv4Header::parse(bytes) else {
            return Some(line + "truncated-ip");
        };
        for (wanted, name, value) in [
            (self.id, "id", u32::from(header.id.get())),
            (self.ttl, "ttl", u32::from(header.ttl)),
            (self.tos, "tos", u32::from(header.tos)),
            (self.length, "length", u32::from(header.total_len.get())),
        ] {
            if wanted {
                let _ = write!(line, "{name} {value} ");
            }
        }
        let end = usize::from(header.total_len.get()).min(bytes.len());
        let transport = bytes.get(header.header_len()..end).unwrap_or_default();
        describe(header, transport, packet.len(), self.swap, &mut line);
        if header.is_fragment() {
            let more = if header.more_fragments() { "+" } else { "" };
            let (id, offset) = (header.id.get(), header.fragment_offset());
            let _ = write!(line, " (frag {id}:{}@{offset}{more})", transport.len());
        }
        let payload = match header.fragment_offset() {
            0 => bytes.get(header.header_len()..).and_then(|bytes| payload(header, bytes)),
            _ => bytes.get(header.header_len()..),
        };
        let payload = payload.unwrap_or_default();
        for (contents, bytes) in [(self.contents, packet.data()), (self.payload, payload)] {
            if let Some(contents) = contents.filter(|contents| *contents != Contents::None) {
                let count = self.max_length.unwrap_or(usize::MAX).min(bytes.len());
                contents.lines(bytes.get(..count).unwrap_or_default(), &mut line);
            }
        }
        Some(line)
    }
}

impl Element for IPPrint {
    arguments! { this, given;
        positional "LABEL": String = String::new() => this.label;
        keyword "CONTENTS": "NONE, HEX or ASCII", by Contents::read => this.contents;
        keyword "PAYLOAD": "NONE, HEX or ASCII", by Contents::read => this.payload;
        keyword "ETHER": bool => _;
        keyword "MAXLENGTH": i64 = 1500, with |length| usize::try_from(length).ok() => this.max_length;
        keyword "ID": bool = false => this.id;
        keyword "TTL": bool = false => this.ttl;
        keyword "TOS": bool = false => this.tos;
        keyword "LENGTH": bool = false => this.length;
        keyword "AGGREGATE": bool = false => this.aggregate;
        keyword "PAINT": bool = false => this.paint;
        keyword "TIMESTAMP": bool = true => this.timestamp;
        keyword "SWAP": bool = true => this.swap;
        keyword "ACTIVE": bool = true => this.active;
        then {
            if this.contents.is_some() && this.payload.is_some() {
                return Err(ConfigError::other("give CONTENTS or PAYLOAD, not both"));
            }
        }
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        if self.active {
            for packet in batch.iter() {
                context.log_with(|_| self.line(packet));
            }
        }
    }

    handlers! { this, context, value;
        both "active" [CHECKBOX] => this.active;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, ip_packet};

    #[test]
    fn lines_say_who_and_what() {
        let udp = ip_packet(0x0a00_0001, 0x0a00_0002, 64, &[0, 5, 0, 6, 0, 8, 0, 0]);
        let mut icmp = ip_packet(0x0a00_0001, 0x0a00_0002, 64, &[8, 0, 0, 0, 0, 1, 0, 2]);
        icmp[9] = 1;
        let mut tcp = ip_packet(
            0x0a00_0001,
            0x0a00_0002,
            64,
            &[0, 5, 0, 6, 0, 0, 0, 9, 0, 0, 0, 7, 0x50, 0x12, 0, 3, 0, 0, 0, 0, 1],
        );
        tcp[9] = 6;
        let inner = ip_packet(1, 0x0a00_0003, 64, &[0, 5, 0, 6, 0, 0, 0, 0]);
        let error = |code| {
            let mut error = ip_packet(
                0x0a00_0001,
                0x0a00_0002,
                64,
                &[&[3, code, 0, 0, 0, 0, 0, 9], &inner[..]].concat(),
            );
            error[9] = 1;
            error
        };
        let (port, needfrag) = (error(3), error(4));
        let text = ip_packet(0x0a00_0001, 0x0a00_0002, 64, b"\0\x05\0\x06\0\x0b\0\0abc");
        let mut other = udp.clone();
        (other[6], other[9]) = (0x20, 99);
        for (arguments, packet, line) in [
            (&["TIMESTAMP false"][..], &udp, "10.0.0.1.5 > 10.0.0.2.6: udp 8"),
            (
                &["x", "TIMESTAMP false", "TTL true"],
                &udp,
                "x: ttl 64 10.0.0.1.5 > 10.0.0.2.6: udp 8",
            ),
            (&["x"], &icmp, "x: 0.000000: 10.0.0.1 > 10.0.0.2: icmp echo (1, 2)"),
            (&["TIMESTAMP 0"], &tcp, "10.0.0.1.5 > 10.0.0.2.6: S 9:11(2,41,41) ack 7 win 3"),
            (&["TIMESTAMP 0"], &port, "10.0.0.1 > 10.0.0.2: icmp 10.0.0.3 unreachable port udp/6"),
            (
                &["TIMESTAMP 0"],
                &needfrag,
                "10.0.0.1 > 10.0.0.2: icmp 10.0.0.3 unreachable needfrag (mtu 9)",
            ),
            (&["TIMESTAMP false"], &other, "10.0.0.1 > 10.0.0.2: ip-proto-99 (frag 0:8@0+)"),
            (
                &["TIMESTAMP 0", "PAYLOAD HEX"],
                &other,
                "10.0.0.1 > 10.0.0.2: ip-proto-99 (frag 0:8@0+)\n  00050006 00080000",
            ),
            (&["TIMESTAMP 0", "PAYLOAD ASCII"], &text, "10.0.0.1.5 > 10.0.0.2.6: udp 11\n  abc"),
        ] {
            let mut bench = Bench::new("IPPrint", arguments);
            let log = bench.log();
            let mut packet = bench.arena.packet(packet).unwrap();
            packet.set_network_header(0, 20);
            bench.push_packets(0, vec![packet]);
            bench.push(0, &[b"no header"]);
            assert_eq!(*log.borrow(), [line]);
        }
    }
}
