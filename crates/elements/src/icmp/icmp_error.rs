//! # ICMPError
//!
//! ## Synopsis
//! `ICMPError(SRC, TYPE [, CODE, BADADDRS, keywords])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Answers each IP packet, whose header annotations must be set, with an ICMP error: an IP packet
//! to its source that quotes it. The error's destination annotation is set, so put the element
//! before the look-up. By default it marks the error for `FixIPSrc`, which sets the address of the
//! interface by which the error leaves.
//!
//! No error is sent (RFC 1812 section 4.3.2.7) about an ICMP error, a broken ICMP message, a
//! fragment other than the first, or a packet whose source is not one host. None is sent about a
//! packet that came or goes as a broadcast or to a group. A redirect is not sent about a
//! source-routed packet. Errors beyond RATE are not sent either.
//!
//! If the packet has a source route, the error carries it reversed.
//!
//! ## Arguments
//! - SRC: source address.
//! - TYPE: `unreachable`, `sourcequench`, `redirect`, `timeexceeded`, `parameterproblem`, or
//!   the number of one of them.
//! - CODE: default 0. A number, or a name. Names for `unreachable`: `net host protocol port
//!   needfrag sourceroutefailed adminprohib`; for `redirect`: `net host`; for `timeexceeded`:
//!   `transit reassembly`; for `parameterproblem`: `erroratptr missingopt length`.
//! - BADADDRS: addresses, separated by blanks, that get no errors: the subnets' broadcast
//!   addresses.
//! - MTU: longest error, default 576 bytes.
//! - PMTU: the MTU in needfrag errors.
//! - SET_FIX_ANNO (USE_FIX_ANNO): whether to ask `FixIPSrc`, default true.
//! - FROM: prefixes, with blanks between them: only packets from there get errors. Redirects are
//!   for neighbours only (RFC 1812 section 5.2.7.2), so for a redirect the next hop must be in the
//!   same prefix as the sender. If the prefix is written as an address of the router, such as
//!   10.0.0.1/24, the redirect comes from that address.
//! - PRECEDENCE: precedence of errors other than source quench, which then also have the packet's
//!   TOS; RFC 1812 section 4.3.2.5 requires 6 or 7. Without this argument the whole byte is 0, as
//!   in Click.
//! - RATE: most errors a second, default 1000, with bursts of a tenth; 0 for no bound.
//!
//! A parameter problem points at the byte that `IPGWOptions` annotated; a redirect names the
//! gateway of the destination annotation.
//!
//! ## Handlers
//! - `src`, `mtu`, `pmtu` (read, write): as the arguments.
//! - `errors`, `limited` (read): errors sent; errors not sent because of RATE.
//!
//! ## See also
//! `DecIPTTL`, `FixIPSrc`, `IPFragmenter`, `IPGWOptions`, `ICMP6Error`

use std::net::Ipv4Addr;

use europa_engine::{
    Batch, Class, ClassInfo, ConfigError, Context, Element, Ipv4Prefix, Names, Packet, PacketType,
    Value, arguments, handlers, parse,
};
use europa_packet::icmp::{self, IcmpType};
use europa_packet::ipv4::option;
use europa_packet::{Header, IcmpHeader, IpProtocol, Ipv4Header, Ipv4Packet, checksum};
use europa_pool::packet::annotation::{FIX_IP_SRC, ICMP_PARAMETER_PROBLEM};
use zerocopy::IntoBytes;
use zerocopy::network_endian::{U16, U32};

use crate::shared::made::{make, write};
use crate::shared::rate::Rate;

/// Answers packets with ICMP errors.
pub(crate) struct ICMPError {
    source: Ipv4Addr,
    kind: IcmpType,
    code: u8,
    bad: Vec<u32>,
    /// Only these hosts get answers; if empty, all hosts do.
    from: Vec<Ipv4Prefix>,
    mtu: usize,
    pmtu: u16,
    fix_source: bool,
    precedence: Option<u8>,
    rate: Rate,
    id: u16,
    errors: u64,
    limited: u64,
    /// Packets that were not answered.
    silent: u64,
}

impl Default for ICMPError {
    fn default() -> ICMPError {
        ICMPError {
            source: Ipv4Addr::UNSPECIFIED,
            kind: IcmpType::UNREACHABLE,
            code: 0,
            bad: Vec::new(),
            from: Vec::new(),
            mtu: 576,
            pmtu: 0,
            fix_source: true,
            precedence: None,
            rate: Rate::new(1000),
            id: 0,
            errors: 0,
            limited: 0,
            silent: 0,
        }
    }
}

impl Class for ICMPError {
    const INFO: ClassInfo = ClassInfo::new("ICMPError", "1/1").inline().consumes().keeps_long();
}

/// Smallest MTU: two headers of 60 bytes and 16 of ICMP.
const LEAST: usize = 136;
/// TTL of errors, as Click has it.
const TTL: u8 = 200;

/// A type by name.
struct Kind(IcmpType);

impl Value for Kind {
    const WANTED: &'static str = "ICMP error type";

    fn parse(text: &str, names: &Names) -> Option<Kind> {
        let kind = match text {
            "unreachable" => IcmpType::UNREACHABLE,
            "sourcequench" => IcmpType::SOURCE_QUENCH,
            "redirect" => IcmpType::REDIRECT,
            "timeexceeded" => IcmpType::TIME_EXCEEDED,
            "parameterproblem" => IcmpType::PARAMETER_PROBLEM,
            number => IcmpType(u8::parse(number, names)?),
        };
        kind.is_error().then_some(Kind(kind))
    }
}

/// A code by name.
fn code(kind: IcmpType, text: &str) -> Option<u8> {
    let names: &[(&str, u8)] = match kind {
        IcmpType::UNREACHABLE => &[
            ("net", icmp::unreachable::NET),
            ("host", icmp::unreachable::HOST),
            ("protocol", icmp::unreachable::PROTOCOL),
            ("port", icmp::unreachable::PORT),
            ("needfrag", icmp::unreachable::FRAGMENTATION_NEEDED),
            ("sourceroutefailed", icmp::unreachable::SOURCE_ROUTE_FAILED),
            ("adminprohib", icmp::unreachable::ADMINISTRATIVELY_PROHIBITED),
        ],
        IcmpType::REDIRECT => &[("net", icmp::redirect::NET), ("host", icmp::redirect::HOST)],
        IcmpType::TIME_EXCEEDED => &[
            ("transit", icmp::time_exceeded::TRANSIT),
            ("reassembly", icmp::time_exceeded::REASSEMBLY),
        ],
        IcmpType::PARAMETER_PROBLEM => &[("erroratptr", 0), ("missingopt", 1), ("length", 2)],
        _ => &[],
    };
    let known = names.iter().find(|(name, _)| *name == text).map(|(_, code)| *code);
    known.or_else(|| u8::parse(text, &Names::default()))
}

/// A valid source route option: its offset in the options and its bytes.
fn source_route<'a>(packet: &Ipv4Packet<'a>) -> Option<(usize, &'a [u8])> {
    for found in packet.options() {
        let found = found.ok()?;
        if !matches!(found.kind, option::LOOSE_SOURCE_ROUTE | option::STRICT_SOURCE_ROUTE) {
            continue;
        }
        let bytes = packet.options.get(found.offset..found.offset + found.data.len() + 2)?;
        let pointer = usize::from(*bytes.get(2)?);
        let in_order = pointer >= 4 && pointer.is_multiple_of(4) && pointer <= bytes.len() + 1;
        return in_order.then_some((found.offset, bytes));
    }
    None
}

impl ICMPError {
    /// Whether packets from or to an address concern a single host.
    fn is_unicast(&self, address: u32) -> bool {
        address >> 28 != 0xe && address != u32::MAX && !self.bad.contains(&address)
    }

    /// Whether errors may be sent to an address (RFC 1812 section 5.3.7).
    fn is_host(&self, address: u32) -> bool {
        let net = address >> 24;
        self.is_unicast(address) && net != 0 && net != 127 && net < 0xf0
    }

    /// The source address of the error, if FROM asks for it.
    fn source(&self, sender: u32, packet: &Packet) -> Option<Ipv4Addr> {
        if self.from.is_empty() {
            return Some(self.source);
        }
        let holds = |prefix: &Ipv4Prefix, address| address & prefix.mask() == prefix.network();
        if self.kind != IcmpType::REDIRECT {
            return self.from.iter().any(|prefix| holds(prefix, sender)).then_some(self.source);
        }
        let next_hop = packet.dst_ip();
        let both = |prefix: &&Ipv4Prefix| holds(prefix, sender) && holds(prefix, next_hop);
        let own = self.from.iter().find(both)?;
        let is_address = own.length == 32 || u32::from(own.address) != own.network();
        Some(if is_address { own.address } else { self.source })
    }

    /// The type of service of an error about a packet with this type of service.
    fn tos(&self, tos: u8) -> u8 {
        match self.precedence {
            _ if self.kind == IcmpType::SOURCE_QUENCH => tos & 0xe0,
            Some(precedence) => precedence << 5 | tos & 0x1c,
            None => 0,
        }
    }

    /// Whether a packet is answered; returns its source route, if the error needs it.
    fn concerns<'a>(&self, packet: &Packet, whole: &Ipv4Packet<'a>) -> Option<Option<&'a [u8]>> {
        let header = whole.header;
        let about_icmp = header.protocol == IpProtocol::ICMP;
        let link = packet.packet_type();
        if !self.is_unicast(header.destination.get())
            || !self.is_host(header.source.get())
            || header.fragment_offset() != 0
            || matches!(link, PacketType::Broadcast | PacketType::Multicast)
            || about_icmp && whole.payload.first().is_none_or(|kind| IcmpType(*kind).is_error())
        {
            return None;
        }
        let Some((offset, route)) = source_route(whole) else { return Some(None) };
        if self.kind == IcmpType::REDIRECT {
            return None;
        }
        // The route itself may be wrong.
        let [byte] = packet.annotation(ICMP_PARAMETER_PROBLEM);
        let at = usize::from(byte).wrapping_sub(Ipv4Header::LEN + offset);
        let guilty = self.kind == IcmpType::PARAMETER_PROBLEM && self.code == 0;
        Some((!guilty || at >= route.len()).then_some(route))
    }

    /// The part of the ICMP header that depends on the type.
    fn rest(&self, packet: &Packet) -> u32 {
        match (self.kind, self.code) {
            (IcmpType::PARAMETER_PROBLEM, 0) => {
                let [byte] = packet.annotation(ICMP_PARAMETER_PROBLEM);
                u32::from(byte) << 24
            }
            (IcmpType::REDIRECT, _) => packet.dst_ip(),
            (IcmpType::UNREACHABLE, icmp::unreachable::FRAGMENTATION_NEEDED) => {
                u32::from(self.pmtu)
            }
            _ => 0,
        }
    }

    /// The error about a packet, if the packet gets one.
    fn error(&mut self, packet: &Packet, context: &Context<'_>) -> Option<Packet> {
        let bytes = packet.network_header()?;
        // The packet may be cut short, but the header must be whole.
        let whole = match Ipv4Packet::parse(bytes) {
            Ok(whole) => whole,
            Err(_) => return None,
        };
        let route = self.concerns(packet, &whole)?;
        let source = self.source(whole.header.source.get(), packet)?;
        if !self.rate.allows(context.now_ns()) {
            self.limited += 1;
            return None;
        }
        let mut options = [0; 40];
        let options_len = route.map_or(0, |route| reversed(route, &mut options));
        let header_len = Ipv4Header::LEN + options_len;
        let quoted = bytes.get(..usize::from(whole.header.total_len.get()))?;
        let room = self.mtu.saturating_sub(header_len + IcmpHeader::LEN);
        let quoted = quoted.get(..room).unwrap_or(quoted);
        let message_len = IcmpHeader::LEN + quoted.len();

        let mut error = make(context, header_len + message_len)?;
        self.id = self.id.wrapping_add(1);
        let destination = whole.header.source_addr();
        let mut header = Ipv4Header {
            version_ihl: 0x40 | (header_len / 4) as u8,
            total_len: U16::new((header_len + message_len) as u16),
            id: U16::new(self.id),
            ttl: TTL,
            checksum: U16::new(0),
            tos: self.tos(whole.header.tos),
            ..Ipv4Header::new(source, destination, IpProtocol::ICMP, 0)?
        };
        let options = options.get(..options_len)?;
        let sum = checksum::sum(header.as_bytes()) + checksum::sum(options);
        header.checksum.set(sum.checksum());
        let mut message = IcmpHeader {
            kind: self.kind,
            code: self.code,
            checksum: U16::new(0),
            rest: U32::new(self.rest(packet)),
        };
        let sum = checksum::sum(message.as_bytes()) + checksum::sum(quoted);
        message.checksum.set(sum.checksum());
        let rest = write(error.data_mut(), header.as_bytes());
        let rest = write(rest, options);
        let rest = write(rest, message.as_bytes());
        write(rest, quoted);
        error.set_network_header(0, header_len);
        error.set_dst_ip(destination.into());
        error.set_interface(packet.interface());
        if self.fix_source {
            error.set_annotation(FIX_IP_SRC, [1]);
        }
        self.errors += 1;
        Some(error)
    }
}

/// Writes a source route backwards, from the routers passed, and returns its padded length.
fn reversed(route: &[u8], to: &mut [u8; 40]) -> usize {
    let passed = route.get(2).map_or(0, |pointer| usize::from(*pointer)).saturating_sub(4);
    let length = passed + 3;
    let rest = write(to, &[route.first().copied().unwrap_or(0), length as u8, 4]);
    let routers = route.get(3..3 + passed).unwrap_or_default();
    routers.rchunks(4).fold(rest, |rest, router| write(rest, router));
    length.next_multiple_of(4).min(40)
}

impl Element for ICMPError {
    arguments! { this, given;
        mandatory "SRC": Ipv4Addr => this.source;
        mandatory "TYPE": Kind => Kind(this.kind);
        let text = positional "CODE": String = "0".to_owned();
        let bad = positional_list "BADADDRS": Ipv4Addr;
        keyword "SET_FIX_ANNO" | "USE_FIX_ANNO": bool = true => this.fix_source;
        keyword "MTU": usize = 576, with |mtu| mtu.max(LEAST) => this.mtu;
        keyword "PMTU": u16 = 0 => this.pmtu;
        keyword_list "FROM": Ipv4Prefix => this.from;
        keyword "PRECEDENCE": u8 => this.precedence;
        keyword "RATE": u32 = 1000, with Rate::new => this.rate;
        then {
            if this.precedence.is_some_and(|precedence| precedence > 7) {
                return Err(ConfigError::other("PRECEDENCE: at most 7"));
            }
            this.code = code(this.kind, &text).ok_or_else(|| ConfigError::Value {
                name: "CODE".to_owned(),
                index: Some(2),
                found: text,
                wanted: "ICMP code of this type".to_owned(),
            })?;
            this.bad = bad.into_iter().map(u32::from).collect();
        }
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        batch.retain(|packet| match self.error(packet, context) {
            Some(error) => {
                *packet = error;
                true
            }
            None => {
                self.silent += 1;
                false
            }
        });
    }

    fn lost(&self) -> u64 {
        self.silent
    }

    handlers! { this, context, value;
        both "src" => this.source;
        both "mtu" => this.mtu, set { this.mtu = parse::<usize>("mtu", value)?.max(LEAST); };
        both "pmtu" => this.pmtu;
        read "errors" => this.errors;
        read "limited" => this.limited;
    }
}

#[cfg(test)]
mod tests;
