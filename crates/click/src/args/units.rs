//! Times and bandwidths: decimal numbers with a unit.

use std::borrow::Cow;
use std::time::Duration;

use super::{BadArg, FromArg};

/// A rate in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bandwidth {
    /// The rate.
    pub bytes_per_second: u64,
    /// Whether no unit was written; bytes per second are then assumed.
    pub unitless: bool,
}

/// A unit: its spelling, what it multiplies by, and a power of ten.
type Unit = (&'static str, u128, i32);

const SECONDS: &[Unit] = &[
    ("s", 1, 0),
    ("sec", 1, 0),
    ("m", 60, 0),
    ("min", 60, 0),
    ("h", 3600, 0),
    ("hr", 3600, 0),
    ("d", 86400, 0),
    ("day", 86400, 0),
];
const SECOND_PREFIXES: &[(char, i32)] = &[('m', -3), ('u', -6), ('n', -9)];

const BYTES: &[Unit] =
    &[("baud", 125, -3), ("bps", 125, -3), ("b/s", 125, -3), ("Bps", 1, 0), ("B/s", 1, 0)];
const BYTE_PREFIXES: &[(char, i32)] = &[('k', 3), ('K', 3), ('M', 6), ('G', 9)];

/// Cuts the unit off: the number, what to multiply it by, whether there was a unit.
fn cut_unit<'a>(
    text: &'a str,
    units: &[Unit],
    prefixes: &[(char, i32)],
) -> (&'a str, u128, i32, bool) {
    for &(spelling, factor, power) in units {
        let Some(number) = text.strip_suffix(spelling) else {
            continue;
        };
        for &(prefix, more) in prefixes {
            if let Some(number) = number.strip_suffix(prefix) {
                return (number.trim_end(), factor, power + more, true);
            }
        }
        return (number.trim_end(), factor, power, true);
    }
    (text, 1, 0, false)
}

/// A decimal number as digits and a power of ten.
fn parse_decimal(text: &str) -> Option<(u128, i32)> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    // A larger one cannot give a value in range, and sums below must not overflow.
    let exponent = exponent.clamp(-1000, 1000);
    let (mut value, mut power, mut point, mut any) = (0u128, exponent, false, false);
    for byte in number.bytes() {
        match byte {
            b'0'..=b'9' => {
                any = true;
                let more = value.checked_mul(10);
                match more.and_then(|v| v.checked_add(u128::from(byte - b'0'))) {
                    Some(more) => {
                        value = more;
                        power -= i32::from(point);
                    }
                    // Digits beyond the 38th only count by their place.
                    None => power += i32::from(!point),
                }
            }
            b'.' if !point => point = true,
            _ => return None,
        }
    }
    any.then_some((value, power))
}

/// `value * factor * 10^power`, rounded; `None` if it does not fit.
fn scale(value: u128, factor: u128, power: i32) -> Option<u64> {
    let mut value = value;
    let mut power = power;
    // Room for the factor, at the cost of digits nobody can see.
    while value > u128::MAX / factor.max(1) {
        value /= 10;
        power += 1;
    }
    value *= factor;
    if value == 0 {
        return Some(0);
    }
    while power > 0 {
        value = value.checked_mul(10)?;
        power -= 1;
    }
    while power < -1 && value > 0 {
        value /= 10;
        power += 1;
    }
    if power == -1 {
        value = value / 10 + u128::from(value % 10 >= 5);
    }
    u64::try_from(value).ok()
}

impl FromArg for Duration {
    fn wanted() -> Cow<'static, str> {
        "a time such as '1.5s', '10ms' or '2min'".into()
    }

    fn from_arg(text: &str) -> Result<Duration, BadArg> {
        let (number, factor, power, _) = cut_unit(text, SECONDS, SECOND_PREFIXES);
        let (value, shift) = parse_decimal(number).ok_or(BadArg::Malformed)?;
        // Nanoseconds in 64 bits are 584 years.
        let nanoseconds = scale(value, factor, power + shift + 9);
        let too_long = || BadArg::OutOfRange(String::new());
        Ok(Duration::from_nanos(nanoseconds.ok_or_else(too_long)?))
    }
}

impl FromArg for Bandwidth {
    fn wanted() -> Cow<'static, str> {
        "a bandwidth such as '10Mbps', '1.5Gbps' or '100kBps'".into()
    }

    fn from_arg(text: &str) -> Result<Bandwidth, BadArg> {
        let (number, factor, power, has_unit) = cut_unit(text, BYTES, BYTE_PREFIXES);
        let (value, shift) = parse_decimal(number).ok_or(BadArg::Malformed)?;
        let rate = scale(value, factor, power + shift);
        let too_fast = || BadArg::OutOfRange(String::new());
        Ok(Bandwidth { bytes_per_second: rate.ok_or_else(too_fast)?, unitless: !has_unit })
    }
}
