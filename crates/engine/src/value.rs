//! Values in configurations and handlers, written as Click writes them.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::handler::HandlerError;
use crate::names::{Named, Names};

/// Reads a value written to a handler.
///
/// # Errors
/// If the text is invalid.
pub fn parse<T: Value>(handler: &str, text: &str) -> Result<T, HandlerError> {
    T::parse(text.trim(), &Names::default())
        .ok_or_else(|| HandlerError::value(handler, text, T::WANTED))
}

/// A type that can be read from one argument.
pub trait Value: Sized {
    /// The text after "expected".
    const WANTED: &'static str;

    /// Reads a value; `None` if the text is invalid.
    fn parse(text: &str, names: &Names) -> Option<Self>;

    /// A text that stands for the value in configurations, if it has one. The documentation shows
    /// defaults in this form.
    fn text(&self) -> Option<String> {
        None
    }
}

macro_rules! integers {
    ($($type:ty: $wanted:literal),*) => {$(
        impl Value for $type {
            const WANTED: &'static str = $wanted;

            fn parse(text: &str, _: &Names) -> Option<Self> {
                Self::try_from(integer(text)?).ok()
            }

            fn text(&self) -> Option<String> {
                Some(self.to_string())
            }
        }
    )*};
}

integers! {
    u8: "unsigned integer up to 255", u16: "unsigned integer up to 65535",
    u32: "unsigned integer", u64: "unsigned integer", usize: "unsigned integer",
    i32: "integer", i64: "integer"
}

/// Decimal, `0x` hexadecimal, or octal with a leading 0.
fn integer(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    // `from_str_radix` would accept a second sign.
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let value = if let Some(hex) = digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        i128::from(u64::from_str_radix(hex, 16).ok().filter(|_| !hex.starts_with('+'))?)
    } else if digits.len() > 1 && digits.starts_with('0') {
        i128::from(u64::from_str_radix(digits, 8).ok()?)
    } else {
        i128::from(digits.parse::<u64>().ok()?)
    };
    Some(if negative { -value } else { value })
}

impl Value for bool {
    const WANTED: &'static str = "true or false";

    fn parse(text: &str, _: &Names) -> Option<bool> {
        match text {
            "1" | "true" | "t" | "yes" | "y" => Some(true),
            "0" | "false" | "f" | "no" | "n" => Some(false),
            _ => None,
        }
    }

    fn text(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Value for f64 {
    const WANTED: &'static str = "number";

    fn parse(text: &str, _: &Names) -> Option<f64> {
        text.parse().ok().filter(|value: &f64| value.is_finite())
    }

    fn text(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Value for String {
    const WANTED: &'static str = "string";

    fn parse(text: &str, _: &Names) -> Option<String> {
        unquote(text).and_then(|bytes| String::from_utf8(bytes).ok())
    }

    fn text(&self) -> Option<String> {
        Some(format!("{self:?}"))
    }
}

impl Value for Vec<u8> {
    const WANTED: &'static str = "string or \\<hex bytes>";

    fn parse(text: &str, _: &Names) -> Option<Vec<u8>> {
        unquote(text)
    }
}

/// A span of time: a number of seconds, or a number with a unit: `ns us ms s m min h d`.
impl Value for Duration {
    const WANTED: &'static str = "time in seconds";

    fn parse(text: &str, _: &Names) -> Option<Duration> {
        let unit = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
        let (number, unit) = text.split_at_checked(unit)?;
        let seconds = match unit {
            "" | "s" | "sec" => 1.0,
            "ms" | "msec" => 1e-3,
            "us" | "usec" => 1e-6,
            "ns" | "nsec" => 1e-9,
            "m" | "min" => 60.0,
            "h" | "hr" => 3600.0,
            "d" | "day" => 86400.0,
            _ => return None,
        };
        Duration::try_from_secs_f64(number.trim_end().parse::<f64>().ok()? * seconds).ok()
    }

    fn text(&self) -> Option<String> {
        let (ns, units) =
            (self.as_nanos(), [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")]);
        let (unit, name) = units.into_iter().find(|(unit, _)| ns % unit == 0).unwrap_or((1, "ns"));
        Some(format!("{}{name}", ns / unit))
    }
}

/// An Ethernet address.
impl Value for [u8; 6] {
    const WANTED: &'static str = "Ethernet address";

    fn parse(text: &str, names: &Names) -> Option<[u8; 6]> {
        let mut address = [0; 6];
        let mut parts = text.split([':', '-']);
        for byte in &mut address {
            match parts.next().filter(|part| matches!(part.len(), 1 | 2)) {
                Some(part) => match u8::from_str_radix(part, 16) {
                    Ok(value) if !part.starts_with('+') => *byte = value,
                    _ => return named(text, names, ":eth")?.mac,
                },
                None => return named(text, names, ":eth")?.mac,
            }
        }
        parts.next().is_none().then_some(address)
    }

    fn text(&self) -> Option<String> {
        Some(self.map(|byte| format!("{byte:02x}")).join(":"))
    }
}

impl Value for Ipv4Addr {
    const WANTED: &'static str = "IP address";

    fn parse(text: &str, names: &Names) -> Option<Ipv4Addr> {
        if let Ok(address) = text.parse() {
            return Some(address);
        }
        let (name, kind) = text.rsplit_once(':').unwrap_or((text, "ip"));
        match kind {
            "ip" | "ip4" => names.get(name)?.ipv4,
            "bcast" => {
                let prefix = Ipv4Prefix::named(name, names)?;
                Some(Ipv4Addr::from(u32::from(prefix.address) | !prefix.mask()))
            }
            // The known gateway, or the first address of the prefix, as in Click.
            "gw" => names
                .get(name)?
                .gateway
                .or_else(|| Some(Ipv4Addr::from(Ipv4Prefix::named(name, names)?.network() | 1))),
            _ => names.get(text)?.ipv4,
        }
    }

    fn text(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Value for Ipv6Addr {
    const WANTED: &'static str = "IPv6 address";

    fn parse(text: &str, names: &Names) -> Option<Ipv6Addr> {
        text.parse().ok().or_else(|| named(text, names, ":ip6")?.ipv6)
    }

    fn text(&self) -> Option<String> {
        Some(self.to_string())
    }
}

/// An IPv4 address and the length of its prefix: `10.0.0.1/8`, `10.0.0.1/255.0.0.0`, or an
/// address alone for 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Prefix {
    /// The address, with all its bits.
    pub address: Ipv4Addr,
    /// Number of bits, up to 32.
    pub length: u8,
}

impl Ipv4Prefix {
    /// The bits that count.
    pub fn mask(self) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(self.length)).unwrap_or(0)
    }

    /// The address with all other bits zero.
    pub fn network(self) -> u32 {
        u32::from(self.address) & self.mask()
    }

    /// The prefix of a name, which may have the suffix `:ipnet`.
    pub fn named(text: &str, names: &Names) -> Option<Ipv4Prefix> {
        let (name, kind) = text.rsplit_once(':').unwrap_or((text, "net"));
        let name = if matches!(kind, "net" | "ipnet" | "ip4net") { name } else { text };
        let (address, length) = names.get(name)?.ipv4_prefix?;
        Some(Ipv4Prefix { address, length })
    }
}

impl Value for Ipv4Prefix {
    const WANTED: &'static str = "IP address or prefix";

    fn parse(text: &str, names: &Names) -> Option<Ipv4Prefix> {
        let Some((address, length)) = text.split_once('/') else {
            return match Ipv4Addr::parse(text, names) {
                Some(address) => Some(Ipv4Prefix { address, length: 32 }),
                None => Ipv4Prefix::named(text, names),
            };
        };
        // `18.26/16` is short for `18.26.0.0/16`.
        let parts = address.split('.').count();
        let whole = format!("{address}{}", ".0".repeat(4usize.saturating_sub(parts)));
        let address = whole.parse().ok().or_else(|| Ipv4Addr::parse(address, names))?;
        let length = match length.parse::<u8>() {
            Ok(length) => length,
            Err(_) => {
                let mask = u32::from(length.parse::<Ipv4Addr>().ok()?);
                let length = mask.leading_ones();
                (mask == u32::MAX.checked_shl(32 - length).unwrap_or(0)).then_some(length as u8)?
            }
        };
        (length <= 32).then_some(Ipv4Prefix { address, length })
    }
}

/// An IPv6 address and the length of its prefix; an address alone has 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Prefix {
    /// The address, with all its bits.
    pub address: Ipv6Addr,
    /// Number of bits, up to 128.
    pub length: u8,
}

impl Value for Ipv6Prefix {
    const WANTED: &'static str = "IPv6 address or prefix";

    fn parse(text: &str, names: &Names) -> Option<Ipv6Prefix> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, length.parse().ok().filter(|l| *l <= 128)?),
            None => match Ipv6Addr::parse(text, names) {
                Some(address) => return Some(Ipv6Prefix { address, length: 128 }),
                None => {
                    let name = text.strip_suffix(":ip6net").unwrap_or(text);
                    let (address, length) = names.get(name)?.ipv6_prefix?;
                    return Some(Ipv6Prefix { address, length });
                }
            },
        };
        Some(Ipv6Prefix { address: Ipv6Addr::parse(address, names)?, length })
    }
}

/// A name, bare or with the kind of address behind it (`eth0:ip`).
fn named<'a>(text: &str, names: &'a Names, kind: &str) -> Option<&'a Named> {
    names.get(text.strip_suffix(kind).unwrap_or(text))
}

/// Removes Click's quotes: `"..."` with the backslash escapes of C, `'...'` as it stands,
/// `\<0a 0b>` for bytes, with comments. `None` if a quote or angle is not closed.
pub fn unquote(text: &str) -> Option<Vec<u8>> {
    europa_click::unquote_strictly(text)
}

#[cfg(test)]
mod tests;
