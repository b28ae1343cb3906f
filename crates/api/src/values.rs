//! The small values of the YAML: names, hardware addresses, rates.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The name of a slice, router, port or link: `[a-z][a-z0-9-]*`, at most 32 characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Name(#[schemars(regex(pattern = "^[a-z][a-z0-9-]{0,31}$"))] String);

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Name, String> {
        if !text.starts_with(|c: char| c.is_ascii_lowercase()) {
            return Err("a name begins with a lower-case letter".to_owned());
        }
        if let Some(c) = text.chars().find(|c| !matches!(c, 'a'..='z' | '0'..='9' | '-')) {
            return Err(format!("{c:?} cannot stand in a name: letters a-z, digits and '-' can"));
        }
        if text.len() > 32 {
            return Err(format!("a name has at most 32 characters, this one has {}", text.len()));
        }
        Ok(Name(text.to_owned()))
    }
}

impl Name {
    /// A name that no user can write, for objects without a file.
    pub fn hidden(text: String) -> Name {
        Name(text)
    }
}

/// The name of a router's interface, which is also that of the Linux device in its slow
/// path: `[A-Za-z][A-Za-z0-9_-]*`, at most 15 characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct InterfaceName(#[schemars(regex(pattern = "^[A-Za-z][A-Za-z0-9_-]{0,14}$"))] String);

impl FromStr for InterfaceName {
    type Err = String;

    fn from_str(text: &str) -> Result<InterfaceName, String> {
        if !text.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Err("an interface's name begins with a letter".to_owned());
        }
        let allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if let Some(c) = text.chars().find(|c| !allowed(c)) {
            return Err(format!(
                "{c:?} cannot stand in an interface's name: letters, digits, '_' and '-' can"
            ));
        }
        if text.len() > 15 {
            return Err(format!(
                "an interface's name has at most 15 characters, as in Linux; this one has {}",
                text.len()
            ));
        }
        Ok(InterfaceName(text.to_owned()))
    }
}

impl InterfaceName {
    /// The suffix in the name of a hidden interface to the switch's queues.
    pub const QUEUE_SIDE: &str = "@queue";

    /// The name of the hidden interface to the router's own Linux.
    pub fn host_side(&self) -> InterfaceName {
        InterfaceName(format!("{}{HOST_SIDE}", self.0))
    }

    /// Whether this is a hidden interface to Linux.
    pub fn is_host_side(&self) -> bool {
        self.0.ends_with(HOST_SIDE)
    }

    /// The name of the hidden interface to a kernel router's process: the process gets the frames
    /// that leave by this interface.
    pub fn queue_side(&self) -> InterfaceName {
        InterfaceName(format!("{}{}", self.0, Self::QUEUE_SIDE))
    }

    /// The name of the interface by which the frames of a hidden interface leave.
    pub fn queue_of(&self) -> Option<&str> {
        self.0.strip_suffix(Self::QUEUE_SIDE)
    }

    /// Whether no user has written it.
    pub fn is_hidden(&self) -> bool {
        self.is_host_side() || self.queue_of().is_some()
    }
}

/// The suffix in the name of a hidden interface to Linux.
const HOST_SIDE: &str = "@host";

macro_rules! text {
    ($type:ty) => {
        impl Deref for $type {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}
text!(Name);
text!(InterfaceName);

/// An Ethernet address, written `02:00:00:00:00:01`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema)]
#[schemars(inline, with = "String")]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Whether the address denotes a group of stations, which no interface may have.
    pub fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// The same locally administered address for the same text, on every machine and in every
    /// version.
    pub fn generated(text: &str) -> Mac {
        let [a, b, c, d, e, f, g, h] = hash(text).to_be_bytes();
        Mac([0x02, a ^ f, b ^ g, c ^ h, d, e])
    }
}

/// A number that is always the same for the same text (FNV-1a).
pub fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, b| (hash ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

impl FromStr for Mac {
    type Err = String;

    fn from_str(text: &str) -> Result<Mac, String> {
        let mut bytes = [0; 6];
        let mut parts = text.split([':', '-']);
        for byte in &mut bytes {
            *byte = parts
                .next()
                .filter(|part| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit()))
                .and_then(|part| u8::from_str_radix(part, 16).ok())
                .ok_or("an Ethernet address is six bytes like 02:00:00:00:00:01")?;
        }
        match parts.next() {
            None => Ok(Mac(bytes)),
            Some(_) => Err("an Ethernet address has six bytes, this one has more".to_owned()),
        }
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<'de> Deserialize<'de> for Mac {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Mac, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for Mac {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A rate, written `10Gb/s`, `2.5Gb/s`, `100Mb/s`, `64kb/s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
#[schemars(inline, with = "String")]
pub struct Rate {
    /// Bits a second.
    pub bits_per_second: u64,
}

const RATE_UNITS: [(&str, u64); 5] = [
    ("Tb/s", 1_000_000_000_000),
    ("Gb/s", 1_000_000_000),
    ("Mb/s", 1_000_000),
    ("kb/s", 1_000),
    ("b/s", 1),
];

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        let wanted =
            || "a rate is a number and one of b/s, kb/s, Mb/s, Gb/s, Tb/s, like 10Gb/s".to_owned();
        let (number, unit) = RATE_UNITS
            .iter()
            .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?.trim_end(), *factor)))
            .ok_or_else(wanted)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 9 {
            return Err(wanted());
        }
        let too_much = || "a rate of more than 1000Tb/s is none".to_owned();
        let scale = 10_u128.pow(fraction.len() as u32);
        let value: u128 = format!("{whole}{fraction}").parse().map_err(|_| too_much())?;
        let bits = value.checked_mul(u128::from(unit)).ok_or_else(too_much)? / scale;
        match u64::try_from(bits) {
            Ok(0) => Err("a rate of nothing lets nothing through".to_owned()),
            Ok(bits_per_second) if bits_per_second <= 1_000_000_000_000_000 => {
                Ok(Rate { bits_per_second })
            }
            _ => Err(too_much()),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.bits_per_second;
        let (unit, factor) = RATE_UNITS
            .into_iter()
            .find(|(_, factor)| bits >= *factor && bits.is_multiple_of(*factor))
            .unwrap_or(("b/s", 1));
        write!(f, "{}{unit}", bits / factor)
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        for (text, bits) in [
            ("10Gb/s", Some(10_000_000_000)),
            ("2.5 Gb/s", Some(2_500_000_000)),
            ("64kb/s", Some(64_000)),
            ("1b/s", Some(1)),
            ("0b/s", None),
            ("10", None),
            ("10 Gbit", None),
            ("-1Gb/s", None),
            (".5Gb/s", None),
            ("999999Tb/s", None),
            ("99999999999999999999999999999999999999999Tb/s", None),
        ] {
            let rate = text.parse::<Rate>().ok();
            assert_eq!(rate.map(|r| r.bits_per_second), bits, "{text}");
            if let Some(rate) = rate {
                assert_eq!(rate.to_string().parse::<Rate>(), Ok(rate), "{text}");
            }
        }
    }

    #[test]
    fn macs() {
        for (text, bytes) in [
            ("02:00:00:00:00:0a", Some([2, 0, 0, 0, 0, 10])),
            ("02-00-00-00-00-0A", Some([2, 0, 0, 0, 0, 10])),
            ("02:00:00:00:00", None),
            ("02:00:00:00:00:01:02", None),
            ("2:0:0:0:0:1", None),
            ("+2:00:00:00:00:01", None),
            ("", None),
        ] {
            assert_eq!(text.parse::<Mac>().ok(), bytes.map(Mac), "{text}");
        }
    }

    #[test]
    fn generated_addresses_are_stable_local_and_single() {
        // A change here would change the addresses of every running router.
        assert_eq!(Mac::generated("red/r1/in").to_string(), "02:e1:d7:75:8c:5a");
        assert_ne!(Mac::generated("red/r1/in"), Mac::generated("red/r1/out"));
        for i in 0..1000 {
            let mac = Mac::generated(&i.to_string());
            assert_eq!(mac.0[0], 2);
        }
    }

    #[test]
    fn names() {
        for (text, ok) in [
            ("red", true),
            ("a-1", true),
            ("Red", false),
            ("1a", false),
            ("", false),
            ("a.b", false),
            ("é", false),
            ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", true),
            ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
        ] {
            assert_eq!(text.parse::<Name>().is_ok(), ok, "{text}");
        }
        for (text, ok) in
            [("eth1", true), ("abcdefghijklmno", true), ("abcdefghijklmnop", false), ("a/b", false)]
        {
            assert_eq!(text.parse::<InterfaceName>().is_ok(), ok, "{text}");
        }
    }
}
