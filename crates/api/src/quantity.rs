//! Quantities of links: times, shares, lengths of queues.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::decode::{Context, Decode, from_text};
use crate::problem::Problem;
use crate::tree::{Node, Value};

/// A time, written `20ms`, `1.5ms`, `250us` or `2s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
#[schemars(inline, with = "String")]
pub struct Time {
    /// Nanoseconds.
    pub ns: u64,
}

/// A share of packets, written `1%` or `0.05%`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, JsonSchema)]
#[schemars(inline, with = "String")]
pub struct Share(f64);

/// The length of a queue, written `100 packets` or `64kB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(inline, with = "String")]
pub enum QueueLength {
    /// A number of packets.
    Packets(u32),
    /// A number of bytes.
    Bytes(u64),
}

/// A number of bytes, written `300kB` or `1.5MB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
#[schemars(inline, with = "String")]
pub struct Bytes(pub u64);

/// CPU time, in cores, written `0.25`, `1` or `2.5`; exact to a thousandth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
#[schemars(inline, with = "f64")]
pub struct Cores(u32);

const TIME_UNITS: [(&str, u64); 4] =
    [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
/// Longer delays are mistakes.
const LONGEST_NS: u64 = 60_000_000_000;
const BYTE_UNITS: [(&str, u64); 4] =
    [("kB", 1000), ("MB", 1_000_000), ("GB", 1_000_000_000), ("B", 1)];
const MOST_BYTES: u64 = 1_000_000_000_000_000;
/// The kernel accounts at least 1 ms in each period of 5 ms.
const LEAST_CORES: u32 = 200;

/// A decimal number and its unit, multiplied and rounded down.
fn measured(text: &str, units: &[(&str, u64)]) -> Option<u128> {
    let (number, factor) =
        units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))?;
    let number = number.trim_end();
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || whole.len() + fraction.len() > 18
    {
        return None;
    }
    let value: u128 = format!("{whole}{fraction}").parse().ok()?;
    Some(value * u128::from(factor) / 10_u128.pow(fraction.len() as u32))
}

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Time, String> {
        let ns = measured(text, &TIME_UNITS)
            .ok_or("a time is a number and one of us, ms, s, like 20ms")?;
        match u64::try_from(ns) {
            Ok(ns) if ns <= LONGEST_NS => Ok(Time { ns }),
            _ => Err("a link does not take longer than 60s".to_owned()),
        }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, factor) = TIME_UNITS
            .into_iter()
            .rev()
            .find(|(_, factor)| self.ns >= *factor && self.ns.is_multiple_of(*factor))
            .unwrap_or(("ms", 1_000_000));
        write!(f, "{}{unit}", self.ns / factor)
    }
}

impl Cores {
    /// A number of cores in thousandths.
    pub fn new(thousandths: u32) -> Cores {
        Cores(thousandths)
    }

    /// In thousandths of a core.
    pub fn thousandths(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", f64::from(self.0) / 1000.0)
    }
}

impl Serialize for Cores {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.is_multiple_of(1000) {
            true => serializer.serialize_u32(self.0 / 1000),
            false => serializer.serialize_f64(f64::from(self.0) / 1000.0),
        }
    }
}

impl Decode for Cores {
    fn decode(node: &Node, context: &mut Context) -> Option<Cores> {
        let cores = match node.value {
            Value::Integer(whole) => whole as f64,
            Value::Float(number) => number,
            _ => {
                context.wrong_type(node, "a number of CPU cores, like 0.25");
                return None;
            }
        };
        let thousandths = (cores * 1000.0).round();
        if (f64::from(LEAST_CORES)..=1e7).contains(&thousandths) {
            return Some(Cores(thousandths as u32));
        }
        let least = Cores(LEAST_CORES);
        let message = format!("{cores} is no number of CPU cores from {least} to 10000");
        let problem = Problem::new(context.place(node), message)
            .label("out of range")
            .help("the kernel measures no less than 1 ms of CPU time, and gives it every 5 ms");
        context.report(problem);
        None
    }
}

impl Share {
    /// The share as a fraction of one: 1% is 0.01.
    pub fn of_one(self) -> f64 {
        self.0
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Share, String> {
        let wanted = || "a share is a number with %, like 0.5%".to_owned();
        let number = text.strip_suffix('%').ok_or_else(wanted)?.trim_end();
        if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
            return Err(wanted());
        }
        let percent: f64 = number.parse().map_err(|_| wanted())?;
        if percent > 100.0 {
            Err("a share is at most 100%".to_owned())
        } else {
            Ok(Share(percent / 100.0))
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Twelve digits: the division by 100 keeps these digits of the written number.
        let text = format!("{:.12}", self.0 * 100.0);
        write!(f, "{}%", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl FromStr for QueueLength {
    type Err = String;

    fn from_str(text: &str) -> Result<QueueLength, String> {
        let wanted = || "a queue's length is like 100 packets or 64kB".to_owned();
        let packets = text.strip_suffix("packets").or_else(|| text.strip_suffix("packet"));
        let length = match packets {
            Some(number) => QueueLength::Packets(number.trim_end().parse().map_err(|_| wanted())?),
            None => {
                let bytes = measured(text, &BYTE_UNITS).ok_or_else(wanted)?;
                QueueLength::Bytes(u64::try_from(bytes).map_err(|_| wanted())?)
            }
        };
        match length {
            QueueLength::Packets(0) | QueueLength::Bytes(0) => {
                Err("a queue without room lets nothing through".to_owned())
            }
            length => Ok(length),
        }
    }
}

impl fmt::Display for QueueLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueueLength::Packets(1) => f.write_str("1 packet"),
            QueueLength::Packets(packets) => write!(f, "{packets} packets"),
            QueueLength::Bytes(bytes) => write!(f, "{bytes}B"),
        }
    }
}

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Bytes, String> {
        let bytes = measured(text, &BYTE_UNITS)
            .ok_or("bytes are a number and one of B, kB, MB, GB, like 300kB")?;
        match u64::try_from(bytes) {
            Ok(0) => Err("a queue without room lets nothing through".to_owned()),
            Ok(bytes) if bytes <= MOST_BYTES => Ok(Bytes(bytes)),
            _ => Err("nothing here has more than 1000000GB".to_owned()),
        }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, factor) = [("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1000)]
            .into_iter()
            .find(|(_, factor)| self.0.is_multiple_of(*factor))
            .unwrap_or(("B", 1));
        write!(f, "{}{unit}", self.0 / factor)
    }
}

macro_rules! as_text {
    ($type:ty, $what:literal) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl Decode for $type {
            fn decode(node: &Node, context: &mut Context) -> Option<$type> {
                from_text(node, context, $what)
            }
        }
    };
}
as_text!(Time, "a time");
as_text!(Share, "a share of packets");
as_text!(Bytes, "a number of bytes");

impl Serialize for QueueLength {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Decode for QueueLength {
    fn decode(node: &Node, context: &mut Context) -> Option<QueueLength> {
        if let Value::Integer(number) = node.value {
            let text = Node::new(Value::Text(format!("{number} packets")), node.span.clone());
            return from_text(&text, context, "a queue's length");
        }
        from_text(node, context, "a queue's length")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, ns) in [
            ("20ms", Some(20_000_000)),
            ("1.5 ms", Some(1_500_000)),
            ("250us", Some(250_000)),
            ("2s", Some(2_000_000_000)),
            ("0ms", Some(0)),
            ("1ns", Some(1)),
            ("61s", None),
            ("20", None),
            ("-1ms", None),
            ("ms", None),
            ("99999999999999999999s", None),
        ] {
            let time = text.parse::<Time>().ok();
            assert_eq!(time.map(|time| time.ns), ns, "{text}");
            if let Some(time) = time {
                assert_eq!(time.to_string().parse::<Time>(), Ok(time), "{text}");
            }
        }
    }

    #[test]
    fn shares() {
        for (text, share) in [
            ("1%", Some(0.01)),
            ("0.05 %", Some(0.0005)),
            ("100%", Some(1.0)),
            ("0%", Some(0.0)),
            ("101%", None),
            ("0.01", None),
            ("-1%", None),
            ("%", None),
            ("inf%", None),
            ("1.2.3%", None),
        ] {
            let found = text.parse::<Share>().ok();
            assert_eq!(found.map(Share::of_one), share, "{text}");
            if let Some(found) = found {
                assert_eq!(found.to_string().parse::<Share>(), Ok(found), "{text}");
            }
        }
    }

    #[test]
    fn bytes() {
        for (text, bytes) in [
            ("300kB", Some(300_000)),
            ("1.5 MB", Some(1_500_000)),
            ("1514B", Some(1514)),
            ("0B", None),
            ("300", None),
            ("5GB", Some(5_000_000_000)),
            ("1000001GB", None),
        ] {
            let found = text.parse::<Bytes>().ok();
            assert_eq!(found.map(|bytes| bytes.0), bytes, "{text}");
            if let Some(found) = found {
                assert_eq!(found.to_string().parse::<Bytes>(), Ok(found), "{text}");
            }
        }
    }

    #[test]
    fn queue_lengths() {
        for (text, length) in [
            ("100 packets", Some(QueueLength::Packets(100))),
            ("1packet", Some(QueueLength::Packets(1))),
            ("64kB", Some(QueueLength::Bytes(64_000))),
            ("1.5 MB", Some(QueueLength::Bytes(1_500_000))),
            ("0 packets", None),
            ("0B", None),
            ("64", None),
            ("64kb", None),
        ] {
            let found = text.parse::<QueueLength>().ok();
            assert_eq!(found, length, "{text}");
            if let Some(found) = found {
                assert_eq!(found.to_string().parse::<QueueLength>(), Ok(found), "{text}");
            }
        }
    }
}
