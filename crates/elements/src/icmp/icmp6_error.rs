//! # ICMP6Error
//!
//! ## Synopsis
//! `ICMP6Error(SRC, TYPE [, CODE, keywords])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Answers each IPv6 packet, whose header annotations must be set, with an ICMPv6 error: an IPv6
//! packet to its source that quotes as much of it as fits into 1280 bytes. The destination
//! annotation is set and the paint annotation kept, so put the element before the look-up.
//!
//! No error is sent (RFC 4443 section 2.4) about an ICMPv6 error or redirect, nor about a packet
//! whose source is not one node. None is sent about a packet to a group, or a packet that came as a
//! link-level broadcast or multicast. Packet-too-big is sent about these two, because path MTU
//! discovery needs it. Errors beyond RATE are not sent either.
//!
//! ## Arguments
//! - SRC: source address.
//! - TYPE: `unreachable`, `packettoobig`, `timeexceeded`, `parameterproblem`, or its number.
//! - CODE: default 0. A number, or for `unreachable`: `noroute adminprohib beyondscope address
//!   port`.
//! - PMTU: the MTU in packet-too-big errors, at least 1280.
//! - MTU: longest error, default 1280 bytes.
//! - SOURCES: addresses, with blanks between them. An error about a packet of paint n has the nth
//!   address, counted from 0, as source. So an error comes from the interface by which the packet
//!   came.
//! - FROM_DESTINATION: whether the error's source is the packet's destination, default false; for
//!   errors about packets to the router itself (RFC 4443 section 2.2).
//! - ANYCAST: `ADDRESS OWN ADDRESS OWN ...`: with FROM_DESTINATION, errors about packets to the
//!   anycast address ADDRESS come from OWN.
//! - RATE: most errors a second, default 1000, with bursts of a tenth; 0 for no bound.
//!
//! A parameter problem points at the byte of the "ICMP parameter problem" annotation.
//!
//! ## Handlers
//! - `src`, `pmtu` (read, write): as the arguments.
//! - `errors`, `limited` (read): errors sent; errors not sent because of RATE.
//!
//! ## See also
//! `DecIP6HLIM`, `CheckLength`, `ICMPError`

use std::net::Ipv6Addr;

use europa_engine::{
    Batch, Class, ClassInfo, ConfigError, Context, Element, Names, Packet, PacketType, Value,
    arguments, handlers, parse,
};
use europa_packet::icmp6::{Icmp6Type, unreachable};
use europa_packet::ipv6::MIN_MTU;
use europa_packet::{Header, Icmp6Header, IpProtocol, Ipv6Header, Ipv6Packet, checksum};
use europa_pool::packet::annotation::{DST_IP6, ICMP_PARAMETER_PROBLEM};
use zerocopy::IntoBytes;
use zerocopy::network_endian::{U16, U32};

use crate::shared::common::Anycast;
use crate::shared::made::{make, write};
use crate::shared::rate::Rate;

/// Answers packets with ICMPv6 errors.
pub(crate) struct ICMP6Error {
    source: Ipv6Addr,
    sources: Vec<Ipv6Addr>,
    from_destination: bool,
    anycast: Anycast,
    kind: Icmp6Type,
    code: u8,
    mtu: usize,
    pmtu: u32,
    rate: Rate,
    errors: u64,
    limited: u64,
    /// Packets that were not answered.
    silent: u64,
}

impl Default for ICMP6Error {
    fn default() -> ICMP6Error {
        ICMP6Error {
            source: Ipv6Addr::UNSPECIFIED,
            sources: Vec::new(),
            from_destination: false,
            anycast: Anycast::default(),
            kind: Icmp6Type::UNREACHABLE,
            code: 0,
            mtu: MIN_MTU,
            pmtu: MIN_MTU as u32,
            rate: Rate::new(1000),
            errors: 0,
            limited: 0,
            silent: 0,
        }
    }
}

impl Class for ICMP6Error {
    const INFO: ClassInfo = ClassInfo::new("ICMP6Error", "1/1").inline().consumes().keeps_long();
}

/// The largest hop limit, as in Click.
const HOP_LIMIT: u8 = 255;

/// A type by name.
struct Kind(Icmp6Type);

impl Value for Kind {
    const WANTED: &'static str = "ICMPv6 error type";

    fn parse(text: &str, names: &Names) -> Option<Kind> {
        let kind = match text {
            "unreachable" => Icmp6Type::UNREACHABLE,
            "packettoobig" => Icmp6Type::PACKET_TOO_BIG,
            "timeexceeded" => Icmp6Type::TIME_EXCEEDED,
            "parameterproblem" => Icmp6Type::PARAMETER_PROBLEM,
            number => Icmp6Type(u8::parse(number, names)?),
        };
        (1..=4).contains(&kind.0).then_some(Kind(kind))
    }
}

/// A code by name.
fn code(kind: Icmp6Type, text: &str) -> Option<u8> {
    let known = match (kind, text) {
        (Icmp6Type::UNREACHABLE, "noroute") => Some(unreachable::NO_ROUTE),
        (Icmp6Type::UNREACHABLE, "adminprohib") => Some(unreachable::ADMINISTRATIVELY_PROHIBITED),
        (Icmp6Type::UNREACHABLE, "beyondscope") => Some(unreachable::BEYOND_SCOPE),
        (Icmp6Type::UNREACHABLE, "address") => Some(unreachable::ADDRESS),
        (Icmp6Type::UNREACHABLE, "port") => Some(unreachable::PORT),
        _ => None,
    };
    known.or_else(|| u8::parse(text, &Names::default()))
}

impl ICMP6Error {
    /// Whether a packet is answered.
    fn concerns(&self, packet: &Packet, whole: &Ipv6Packet<'_>) -> bool {
        let source = whole.header.source_addr();
        let one = !source.is_multicast() && !source.is_unspecified() && !source.is_loopback();
        let to_many = whole.header.destination_addr().is_multicast()
            || matches!(packet.packet_type(), PacketType::Broadcast | PacketType::Multicast);
        let may_be_error = match whole.upper() {
            Ok(upper) if upper.protocol == IpProtocol::ICMP6 => {
                let middle = upper.fragment.is_some_and(|fragment| fragment.offset() > 0);
                let kind = upper.payload.first().map(|kind| Icmp6Type(*kind));
                middle || kind.is_none_or(|kind| kind.is_error() || kind == Icmp6Type::REDIRECT)
            }
            Ok(_) => false,
            Err(_) => true,
        };
        one && !may_be_error && (!to_many || self.kind == Icmp6Type::PACKET_TOO_BIG)
    }

    /// The part of the ICMPv6 header that depends on the type.
    fn rest(&self, packet: &Packet) -> u32 {
        match self.kind {
            Icmp6Type::PACKET_TOO_BIG => self.pmtu,
            Icmp6Type::PARAMETER_PROBLEM => {
                let [byte] = packet.annotation(ICMP_PARAMETER_PROBLEM);
                byte.into()
            }
            _ => 0,
        }
    }

    /// The error about a packet, if the packet gets one.
    fn error(&mut self, packet: &Packet, context: &Context<'_>) -> Option<Packet> {
        let bytes = packet.network_header()?;
        let whole = Ipv6Packet::parse(bytes).ok()?;
        if !self.concerns(packet, &whole) {
            return None;
        }
        if !self.rate.allows(context.now_ns()) {
            self.limited += 1;
            return None;
        }
        let to = whole.header.source_addr();
        let destination = whole.header.destination_addr();
        let from = match self.sources.get(usize::from(packet.paint())) {
            _ if self.from_destination && !destination.is_multicast() => {
                self.anycast.own(destination).unwrap_or(destination)
            }
            Some(source) => *source,
            None => self.source,
        };
        let quoted = bytes.get(..Ipv6Header::LEN + whole.payload.len())?;
        let room = self.mtu.saturating_sub(Ipv6Header::LEN + Icmp6Header::LEN);
        let quoted = quoted.get(..room).unwrap_or(quoted);
        let length = Icmp6Header::LEN + quoted.len();
        let mut header = Ipv6Header::new(from, to, IpProtocol::ICMP6, length)?;
        header.hop_limit = HOP_LIMIT;
        let mut message = Icmp6Header {
            kind: self.kind,
            code: self.code,
            checksum: U16::new(0),
            rest: U32::new(self.rest(packet)),
        };
        let sum = checksum::pseudo_v6(from, to, IpProtocol::ICMP6, length as u32)
            + checksum::sum(message.as_bytes())
            + checksum::sum(quoted);
        message.checksum.set(sum.checksum());
        let mut error = make(context, Ipv6Header::LEN + length)?;
        let rest = write(error.data_mut(), header.as_bytes());
        let rest = write(rest, message.as_bytes());
        write(rest, quoted);
        error.set_network_header(0, Ipv6Header::LEN);
        error.set_annotation(DST_IP6, to.octets());
        error.set_interface(packet.interface());
        error.set_paint(packet.paint());
        self.errors += 1;
        Some(error)
    }
}

impl Element for ICMP6Error {
    arguments! { this, given;
        mandatory "SRC": Ipv6Addr => this.source;
        mandatory "TYPE": Kind => Kind(this.kind);
        let text = positional "CODE": String = "0".to_owned();
        keyword "MTU": usize = MIN_MTU, with |mtu| mtu.clamp(128, MIN_MTU) => this.mtu;
        keyword "PMTU": u32 = MIN_MTU as u32, with |mtu| mtu.max(MIN_MTU as u32) => this.pmtu;
        keyword "RATE": u32 = 1000, with Rate::new => this.rate;
        keyword "FROM_DESTINATION": bool = false => this.from_destination;
        keyword "ANYCAST": "pairs of addresses", by Anycast::read => this.anycast;
        keyword_list "SOURCES": Ipv6Addr => this.sources;
        then {
            this.code = code(this.kind, &text).ok_or_else(|| ConfigError::Value {
                name: "CODE".to_owned(),
                index: Some(2),
                found: text,
                wanted: "ICMPv6 code of this type".to_owned(),
            })?;
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
        both "pmtu" => this.pmtu, set {
            this.pmtu = parse::<u32>("pmtu", value)?.max(MIN_MTU as u32);
        };
        read "errors" => this.errors;
        read "limited" => this.limited;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use europa_packet::Frame;

    const OWN: &str = "2001:db8::1";

    fn address(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }

    fn run(arguments: &[&str], bytes: &[u8], prepare: impl Fn(&mut Packet)) -> Option<Vec<u8>> {
        let mut bench = Bench::new("ICMP6Error", &[&[OWN], arguments].concat());
        let mut packet = bench.arena.packet(bytes).unwrap();
        packet.set_network_header(0, 40);
        prepare(&mut packet);
        Some(bench.push_packets(0, vec![packet]).pop()?.1)
    }

    fn wanted(from: &str, kind: u8, code: u8, rest: u32, quoted: &[u8]) -> Vec<u8> {
        let mut message = vec![kind, code, 0, 0];
        message.extend(rest.to_be_bytes());
        message.extend(quoted);
        Frame::bare().ipv6(address(from), address("2001:db8::9")).ttl(HOP_LIMIT).icmp6(&message)
    }

    fn packet(from: &str, to: &str, length: usize) -> Vec<u8> {
        Frame::bare().ipv6(address(from), address(to)).udp(1, 2, &vec![7; length])
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let bytes = packet("2001:db8::9", "2001:db8:1::9", 10);
        for (arguments, from, kind, code, rest) in [
            (&["timeexceeded"][..], OWN, 3, 0, 0),
            (&["unreachable", "port"], OWN, 1, 4, 0),
            (&["unreachable", "port", "FROM_DESTINATION true"], "2001:db8:1::9", 1, 4, 0),
            (
                &["unreachable", "port", "FROM_DESTINATION true", "ANYCAST 2001:db8:1::9 fe80::5"],
                "fe80::5",
                1,
                4,
                0,
            ),
            (&["packettoobig", "PMTU 1400"], OWN, 2, 0, 1400),
            (&["packettoobig", "PMTU 1000"], OWN, 2, 0, 1280),
            (&["parameterproblem", "1"], OWN, 4, 1, 6),
            (&["timeexceeded", "SOURCES fe80::1 fe80::2 fe80::3"], "fe80::3", 3, 0, 0),
        ] {
            let error = run(arguments, &bytes, |packet| {
                packet.set_paint(2);
                packet.set_annotation(ICMP_PARAMETER_PROBLEM, [6]);
            });
            assert_eq!(error, Some(wanted(from, kind, code, rest, &bytes)), "{arguments:?}");
        }
        for length in [1184, 1185, 1400] {
            let bytes = packet("2001:db8::9", "2001:db8:1::9", length);
            let error = run(&["timeexceeded"], &bytes, |_| {});
            assert_eq!(error, Some(wanted(OWN, 3, 0, 0, &bytes[..1232])), "{length}");
        }
    }

    #[test]
    fn some_packets_are_not_answered() {
        let (a, b) = ("2001:db8::9", "2001:db8:1::9");
        let icmp = |kind: u8| {
            let frame = Frame::bare().ipv6(address(a), address(b));
            frame.icmp6(&[kind, 0, 0, 0, 0, 0, 0, 0])
        };
        let fragment = |offset: u8, kind: u8| {
            let frame = Frame::bare().ipv6(address(a), address(b));
            let payload = [58, 0, 0, offset, 0, 0, 0, 1, kind, 0, 0, 0, 0, 0, 0, 0];
            frame.transport(IpProtocol::FRAGMENT, &payload)
        };
        // packet, answered with time exceeded, with packet too big
        for (name, bytes, time, size) in [
            ("UDP", packet(a, b, 1), true, true),
            ("ping", icmp(128), true, true),
            ("unreachable", icmp(1), false, false),
            ("redirect", icmp(137), false, false),
            ("first fragment of a ping", fragment(0, 128), true, true),
            ("first fragment of an error", fragment(0, 1), false, false),
            ("later fragment of ICMP", fragment(8, 128), false, false),
            ("to a group", packet(a, "ff0e::1", 1), false, true),
            ("from a group", packet("ff0e::1", b, 1), false, false),
            ("from nobody", packet("::", b, 1), false, false),
            ("short", packet(a, b, 1)[..39].to_vec(), false, false),
        ] {
            for (kind, answered) in [("timeexceeded", time), ("packettoobig", size)] {
                assert_eq!(run(&[kind], &bytes, |_| {}).is_some(), answered, "{name}: {kind}");
            }
        }
        let bytes = packet(a, b, 1);
        for (kind, answered) in [("timeexceeded", false), ("packettoobig", true)] {
            let error = run(&[kind], &bytes, |p| p.set_packet_type(PacketType::Multicast));
            assert_eq!(error.is_some(), answered);
        }
    }
}
