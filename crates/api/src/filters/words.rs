//! The words for fields of IP packets in rules.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::decode::{Context, Decode, from_text};
use crate::problem::Problem;
use crate::tree::{Node, Value};
use crate::values::{InterfaceName, Name};

/// A protocol in IP, by name or number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(try_from = "Written")]
#[schemars(inline, with = "Written")]
pub struct Protocol(pub u8);

/// A port or a range of ports: `443`, `1024-65535`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(try_from = "Written")]
#[schemars(inline, with = "Written")]
pub struct Ports(pub RangeInclusive<u16>);

/// A differentiated services code point, by name or number: `ef`, `af21`, `10`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(try_from = "Written")]
#[schemars(inline, with = "Written")]
pub struct Dscp(pub u8);

/// TCP flags that must be set, and flags that must not: `+syn-ack`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(try_from = "Written")]
#[schemars(inline, with = "String")]
pub struct TcpFlags {
    /// The flags that must be set.
    pub set: u8,
    /// Flags that must not be set.
    pub clear: u8,
}

/// An interface of a router of the slice: `ROUTER.INTERFACE`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(try_from = "Written")]
#[schemars(inline, with = "String")]
pub struct InterfaceOf {
    /// The router, without its slice.
    pub router: Name,
    /// Its interface.
    pub interface: InterfaceName,
}

/// Values written as a number or as a text.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
enum Written {
    /// A number.
    Number(u32),
    /// A text.
    Text(String),
}

const PROTOCOLS: [(&str, u8); 13] = [
    ("icmp", 1),
    ("igmp", 2),
    ("ipip", 4),
    ("tcp", 6),
    ("udp", 17),
    ("dccp", 33),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmpv6", 58),
    ("ospf", 89),
    ("sctp", 132),
    ("udplite", 136),
];

impl Protocol {
    /// TCP.
    pub const TCP: Protocol = Protocol(6);

    /// Whether its packets have ports.
    pub fn has_ports(self) -> bool {
        matches!(self.0, 6 | 17 | 33 | 132 | 136)
    }
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Protocol, String> {
        let named = PROTOCOLS.iter().find(|(name, _)| *name == text).map(|(_, number)| *number);
        named.or_else(|| text.parse().ok()).map(Protocol).ok_or_else(|| {
            let names: Vec<&str> = PROTOCOLS.iter().map(|(name, _)| *name).collect();
            format!("one is a number of at most 255 or one of {}", names.join(", "))
        })
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match PROTOCOLS.iter().find(|(_, number)| *number == self.0) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

impl FromStr for Ports {
    type Err = String;

    fn from_str(text: &str) -> Result<Ports, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let port = |text: &str| text.trim().parse::<u16>().ok();
        match (port(first), port(last)) {
            (Some(first), Some(last)) if first <= last => Ok(Ports(first..=last)),
            (Some(_), Some(_)) => Err("the first port is higher than the last".to_owned()),
            _ => Err("one is a number of at most 65535, or two like 1024-65535".to_owned()),
        }
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.start(), self.0.end()) {
            (first, last) if first == last => write!(f, "{first}"),
            (first, last) => write!(f, "{first}-{last}"),
        }
    }
}

/// Named code points that are neither class selectors nor assured forwarding (RFC 3246, 5865,
/// 8622).
const DSCPS: [(&str, u8); 4] = [("default", 0), ("ef", 46), ("va", 44), ("le", 1)];

impl FromStr for Dscp {
    type Err = String;

    fn from_str(text: &str) -> Result<Dscp, String> {
        let digits = |name: &str| -> Option<Vec<u8>> {
            text.strip_prefix(name)?.bytes().map(|b| b.checked_sub(b'0')).collect()
        };
        let named = || DSCPS.iter().find(|(name, _)| *name == text).map(|(_, number)| *number);
        let found = match (digits("cs").as_deref(), digits("af").as_deref()) {
            // RFC 2474 section 4.2.2.2.
            (Some([class @ 0..=7]), _) => Some(class * 8),
            // RFC 2597 section 6.
            (_, Some([class @ 1..=4, drop @ 1..=3])) => Some(class * 8 + drop * 2),
            _ => named().or_else(|| text.parse().ok().filter(|number| *number < 64)),
        };
        found.map(Dscp).ok_or_else(|| {
            "one is a number of at most 63 or one of default, ef, va, le, cs0 to cs7, af11 to af43"
                .to_owned()
        })
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = DSCPS.iter().find(|(_, number)| *number == self.0);
        match (named, self.0 / 8, self.0 % 8) {
            (Some((name, _)), ..) => f.write_str(name),
            (_, class, 0) => write!(f, "cs{class}"),
            (_, class @ 1..=4, drop @ (2 | 4 | 6)) => write!(f, "af{class}{}", drop / 2),
            _ => write!(f, "{}", self.0),
        }
    }
}

const FLAGS: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];

impl FromStr for TcpFlags {
    type Err = String;

    fn from_str(text: &str) -> Result<TcpFlags, String> {
        let mut flags = TcpFlags { set: 0, clear: 0 };
        let spaced = text.replace('+', " +").replace('-', " -");
        for word in spaced.split_whitespace() {
            let (kind, name) = match word.strip_prefix('-') {
                Some(name) => (&mut flags.clear, name),
                None => (&mut flags.set, word.strip_prefix('+').unwrap_or(word)),
            };
            let bit = FLAGS.iter().position(|flag| *flag == name);
            let bit =
                bit.ok_or_else(|| format!("{name:?} is no flag of TCP: {}", FLAGS.join(", ")))?;
            *kind |= 1 << bit;
        }
        match flags {
            TcpFlags { set: 0, clear: 0 } => Err("one looks like +syn-ack".to_owned()),
            _ if flags.set & flags.clear != 0 => Err("a flag is to be set and not set".to_owned()),
            _ => Ok(flags),
        }
    }
}

impl fmt::Display for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (sign, bits) in [('+', self.set), ('-', self.clear)] {
            for (bit, name) in FLAGS.iter().enumerate() {
                if bits & 1 << bit != 0 {
                    write!(f, "{sign}{name}")?;
                }
            }
        }
        Ok(())
    }
}

impl FromStr for InterfaceOf {
    type Err = String;

    fn from_str(text: &str) -> Result<InterfaceOf, String> {
        let (router, interface) =
            text.split_once('.').ok_or("one is written ROUTER.INTERFACE, both of the slice")?;
        Ok(InterfaceOf { router: router.parse()?, interface: interface.parse()? })
    }
}

impl fmt::Display for InterfaceOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.router, self.interface)
    }
}

macro_rules! written {
    ($($type:ty, $what:literal;)*) => { $(
        impl TryFrom<Written> for $type {
            type Error = String;

            fn try_from(written: Written) -> Result<Self, String> {
                let text = match written {
                    Written::Number(number) => number.to_string(),
                    Written::Text(text) => text,
                };
                text.parse().map_err(|why| format!("{text:?} is not {}: {why}", $what))
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl Decode for $type {
            fn decode(node: &Node, context: &mut Context) -> Option<Self> {
                let Value::Integer(number) = node.value else {
                    return from_text(node, context, $what);
                };
                let parsed = number.to_string().parse();
                parsed.map_err(|why: String| {
                    let message = format!("{number} is not {}: {why}", $what);
                    let problem = Problem::new(context.place(node), message);
                    context.report(problem.label(concat!("not ", $what)));
                }).ok()
            }
        }
    )* };
}
written! {
    Protocol, "a protocol";
    Ports, "a range of ports";
    Dscp, "a code point";
    TcpFlags, "a set of TCP's flags";
    InterfaceOf, "an interface of the slice";
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a value, and writes it again.
    fn again<T: FromStr<Err = String> + fmt::Display>(text: &str) -> Result<String, String> {
        text.parse::<T>().map(|value| value.to_string())
    }

    #[test]
    fn words_are_written_as_they_are_read() {
        let ok = |text: &str| Ok(text.to_owned());
        for (text, wanted) in [("tcp", "tcp"), ("6", "tcp"), ("254", "254")] {
            assert_eq!(again::<Protocol>(text), ok(wanted));
        }
        for (text, wanted) in [("80", "80"), ("80-80", "80"), ("1024 - 65535", "1024-65535")] {
            assert_eq!(again::<Ports>(text), ok(wanted));
        }
        for (text, wanted) in [
            ("ef", "ef"),
            ("46", "ef"),
            ("af21", "af21"),
            ("18", "af21"),
            ("cs6", "cs6"),
            ("3", "3"),
        ] {
            assert_eq!(again::<Dscp>(text), ok(wanted));
        }
        assert_eq!("af43".parse::<Dscp>(), Ok(Dscp(38)));
        for (text, wanted) in [("+syn-ack", "+syn-ack"), ("syn -ack", "+syn-ack"), ("-cwr", "-cwr")]
        {
            assert_eq!(again::<TcpFlags>(text), ok(wanted));
        }
        assert_eq!("+syn-ack".parse(), Ok(TcpFlags { set: 2, clear: 16 }));
        assert_eq!(again::<InterfaceOf>("r1.out"), ok("r1.out"));
    }

    #[test]
    fn mistakes() {
        assert!(again::<Protocol>("tpc").unwrap_err().contains("icmp"));
        assert!(again::<Protocol>("256").is_err());
        assert!(again::<Ports>("9-8").unwrap_err().contains("higher"));
        assert!(again::<Ports>("65536").is_err());
        for wrong in ["64", "af44", "af5", "cs8", "ef1", ""] {
            assert!(again::<Dscp>(wrong).is_err(), "{wrong}");
        }
        assert!(again::<TcpFlags>("+syn-syn").unwrap_err().contains("not set"));
        assert!(again::<TcpFlags>("+sin").unwrap_err().contains("sin"));
        assert!(again::<TcpFlags>("").is_err());
        assert!(again::<InterfaceOf>("out").is_err());
    }
}
