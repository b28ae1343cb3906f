//! Tests about IPv6 packets.
//!
//! ```text
//! test  := [ip6] { src | dst | src and dst | src or dst } [host | net] ADDRESS[/LENGTH]
//!        | [tcp | udp] [sides] port RELATION PORT
//!        | ip6 FIELD RELATION NUMBER | nxt PROTOCOL | proto PROTOCOL | PROTOCOL | frag
//!        | [tcp] opt FLAG | icmp6 type RELATION NUMBER
//! ```
//!
//! The next header of the IPv6 header itself: extension headers are not followed.

use std::net::Ipv6Addr;

use europa_engine::{Ipv6Prefix, Value};

use super::compare::sides;
use super::{Parser, Primitive, Relation, Side, TCP_FLAGS};
use crate::filter::program::{Base, Expr, Test};
use crate::shared::values::{Port, Protocol};

/// Fields of the header: name, byte of their word, bits, and bits below them in the word.
const FIELDS: &[(&str, usize, usize, usize)] = &[
    ("vers", 0, 4, 28),
    ("class", 0, 8, 20),
    ("dscp", 0, 6, 22),
    ("flow", 0, 20, 0),
    ("plen", 4, 16, 16),
    ("nxt", 4, 8, 8),
    ("proto", 4, 8, 8),
    ("hlim", 4, 8, 0),
];

/// ICMPv6 types that have names (RFC 4443, RFC 4861).
const ICMP6_TYPES: &[(&str, u8)] = &[
    ("unreachable", 1),
    ("too-big", 2),
    ("time-exceeded", 3),
    ("parameter-problem", 4),
    ("echo", 128),
    ("echo-reply", 129),
    ("router-solicitation", 133),
    ("router-advertisement", 134),
    ("neighbour-solicitation", 135),
    ("neighbour-advertisement", 136),
];

const FRAGMENT: u8 = 44;
const ICMP6: u8 = 58;

/// The next header is this protocol.
fn next_header(protocol: u8) -> Expr {
    Expr::Test(Test::equal(Base::Network, 4, 0xff00, u32::from(protocol) << 8))
}

/// Comparisons of an address that starts at byte `at`, a word each.
fn address(at: usize, prefix: Ipv6Prefix) -> Vec<Test> {
    let bits = u128::MAX.checked_shl(128 - u32::from(prefix.length)).unwrap_or(0);
    let value = u128::from(prefix.address) & bits;
    let word = |all: u128, number: usize| (all >> (96 - 32 * number)) as u32;
    let tests =
        (0..4).map(|n| Test::equal(Base::Network, at + 4 * n, word(bits, n), word(value, n)));
    tests.filter(|test| test.mask != 0).collect()
}

impl<'a> Parser<'a> {
    pub(super) fn test6(&mut self) -> Result<Expr, String> {
        self.take(&["ip6"]);
        let mut transport = None;
        if let Some(name @ ("tcp" | "udp" | "icmp6" | "sctp" | "dccp")) = self.peek() {
            self.at += 1;
            // The name alone is a test.
            transport = Protocol::parse(name, self.names).map(|protocol| protocol.0);
        }
        let side = self.side6();
        let Some(word) = self.peek() else {
            return transport.map(next_header).ok_or_else(|| "partial directive".to_owned());
        };
        match word {
            "port" => {
                self.at += 1;
                self.port6(side.unwrap_or(Side::Or), transport)
            }
            "opt" if matches!(transport, None | Some(6)) => {
                self.at += 1;
                self.flag6()
            }
            "type" if transport == Some(ICMP6) => {
                self.at += 1;
                self.icmp6_type()
            }
            _ if transport.is_some() && side.is_none() => Ok(next_header(transport.unwrap_or(0))),
            _ if transport.is_some() => Err(format!("expected 'port' near '{word}'")),
            "host" | "net" => {
                self.at += 1;
                self.address6(side.unwrap_or(Side::Or))
            }
            "frag" if side.is_none() => {
                self.at += 1;
                Ok(next_header(FRAGMENT))
            }
            name if side.is_none() && FIELDS.iter().any(|(field, ..)| *field == name) => {
                self.at += 1;
                self.field6(name)
            }
            name => match Protocol::parse(name, self.names) {
                Some(protocol) if side.is_none() && u8::parse(name, self.names).is_none() => {
                    self.at += 1;
                    Ok(next_header(protocol.0))
                }
                _ => self.address6(side.unwrap_or(Side::Or)),
            },
        }
    }

    /// Source, destination or both.
    fn side6(&mut self) -> Option<Side> {
        let next = |at: usize| self.words.get(self.at + at).copied();
        let both = matches!(next(2), Some("dst" | "dest"));
        let (side, words) = match (next(0)?, next(1)) {
            ("src", Some("and" | "&&")) if both => (Side::And, 3),
            ("src", Some("or" | "||")) if both => (Side::Or, 3),
            ("src", _) => (Side::Source, 1),
            ("dst" | "dest", _) => (Side::Destination, 1),
            _ => return None,
        };
        self.at += words;
        Some(side)
    }

    /// Mask, relation and number of a test, as a primitive to compare by.
    fn primitive6(&mut self) -> Result<Primitive, String> {
        let mut primitive = Primitive {
            kind: None,
            side: None,
            transport: None,
            ether: None,
            mask: None,
            relation: Relation::Equal,
            negated: false,
            data: None,
        };
        if self.peek() == Some("&") && self.at + 1 < self.words.len() {
            self.mask(&mut primitive)?;
        }
        self.relation(&mut primitive);
        Ok(primitive)
    }

    fn value6(&mut self, what: &str) -> Result<&'a str, String> {
        let word = self.peek().ok_or_else(|| format!("'{what}': value missing"))?;
        self.at += 1;
        Ok(word)
    }

    fn address6(&mut self, side: Side) -> Result<Expr, String> {
        let primitive = self.primitive6()?;
        primitive.no_relation("ip6 host")?;
        let names = self.names;
        let word = self.value6("ip6 host")?;
        let prefix = Ipv6Prefix::parse(word, names).or_else(|| {
            let address = Ipv6Addr::parse(word, names)?;
            Some(Ipv6Prefix { address, length: 128 })
        });
        let prefix = prefix.ok_or_else(|| format!("'{word}' is no test and no IPv6 address"))?;
        if prefix.length == 0 {
            return Ok(Expr::Const(!primitive.negated));
        }
        Ok(sides(side, address(8, prefix), address(24, prefix), primitive.negated))
    }

    fn port6(&mut self, side: Side, transport: Option<u8>) -> Result<Expr, String> {
        let primitive = self.primitive6()?;
        let names = self.names;
        let word = self.value6("port")?;
        let Some(Port(port)) = Port::parse(word, names) else {
            return Err(format!("'port': expected a port, found '{word}'"));
        };
        let place = (Base::Transport, 0);
        let source = primitive.compare("port", place, 16, 16, port.into(), &mut self.warnings)?;
        let destination =
            primitive.compare("port", place, 16, 0, port.into(), &mut self.warnings)?;
        let ports = match (source, destination) {
            (Ok((source, negated)), Ok((destination, _))) => {
                sides(side, vec![source], vec![destination], negated)
            }
            (Err(always), _) | (_, Err(always)) => Expr::Const(always),
        };
        let protocol = match transport {
            Some(protocol @ (6 | 17 | 33 | 132)) => next_header(protocol),
            None => Expr::Or(vec![next_header(6), next_header(17)]),
            Some(_) => return Err("'port': bad protocol".to_owned()),
        };
        Ok(Expr::And(vec![protocol, ports]))
    }

    fn field6(&mut self, name: &str) -> Result<Expr, String> {
        let field = FIELDS.iter().find(|(field, ..)| *field == name);
        let (_, at, bits, shift) = *field.ok_or("no such field")?;
        let primitive = self.primitive6()?;
        let names = self.names;
        let word = self.value6(name)?;
        let number = match name {
            "nxt" | "proto" => Protocol::parse(word, names).map(|protocol| protocol.0.into()),
            _ => u32::parse(word, names),
        };
        let number =
            number.ok_or_else(|| format!("'ip6 {name}': expected a number, found '{word}'"))?;
        self.compared(&primitive, name, (Base::Network, at), (bits, shift), number)
    }

    fn icmp6_type(&mut self) -> Result<Expr, String> {
        let primitive = self.primitive6()?;
        let names = self.names;
        let word = self.value6("icmp6 type")?;
        let known = ICMP6_TYPES.iter().find(|(name, _)| *name == word).map(|(_, number)| *number);
        let number = known.or_else(|| u8::parse(word, names));
        let number = number.ok_or_else(|| format!("'icmp6 type': unknown type '{word}'"))?;
        let test =
            self.compared(&primitive, "icmp6 type", (Base::Transport, 0), (8, 24), number.into())?;
        Ok(Expr::And(vec![next_header(ICMP6), test]))
    }

    fn flag6(&mut self) -> Result<Expr, String> {
        let word = self.value6("tcp opt")?;
        let flag = TCP_FLAGS.iter().find(|(name, _)| *name == word);
        let (_, flag) = flag.ok_or_else(|| format!("'tcp opt': unknown flag '{word}'"))?;
        let bits = u32::from(*flag) << 16;
        let test = Expr::Test(Test::equal(Base::Transport, 12, bits, bits));
        Ok(Expr::And(vec![next_header(6), test]))
    }

    fn compared(
        &mut self,
        primitive: &Primitive,
        what: &str,
        place: (Base, usize),
        (bits, shift): (usize, usize),
        number: u32,
    ) -> Result<Expr, String> {
        Ok(match primitive.compare(what, place, bits, shift, number, &mut self.warnings)? {
            Ok((test, negated)) => Expr::Test(Test { negated, ..test }),
            Err(always) => Expr::Const(always),
        })
    }
}
