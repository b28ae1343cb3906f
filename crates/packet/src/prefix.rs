//! IP prefixes: [`ipnet`]'s networks, always normalised (no bit set behind the prefix), with errors
//! that name the mistake.

use std::fmt;
use std::net::{AddrParseError, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::{Ipv4Net, Ipv6Net};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The reason why a text or a pair is not a prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// No length behind the address.
    #[error("prefix \"{text}\" has no length: write {text}/{host_len} for a single address")]
    NoLength {
        /// The text.
        text: String,
        /// Length of a prefix with a single address.
        host_len: u8,
    },
    /// The address is invalid.
    #[error("prefix \"{text}\": \"{address}\" is not an IPv{version} address")]
    Address {
        /// The text.
        text: String,
        /// The part before the slash.
        address: String,
        /// 4 or 6.
        version: u8,
    },
    /// The length is not a number, or too large.
    #[error("prefix \"{text}\": length \"{length}\" is not a number from 0 to {most}")]
    Length {
        /// The text.
        text: String,
        /// The part behind the slash.
        length: String,
        /// Largest length.
        most: u8,
    },
}

macro_rules! prefix {
    ($(#[$doc:meta])* $name:ident, $net:ident, $addr:ident, $version:literal, $bits:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name($net);

        impl $name {
            /// All addresses.
            pub const DEFAULT: Self = Self($net::new_assert($addr::UNSPECIFIED, 0));

            /// The prefix of `prefix_len` bits that contains `addr`.
            pub fn new(addr: $addr, prefix_len: u8) -> Result<Self, PrefixError> {
                match $net::new(addr, prefix_len) {
                    Ok(net) => Ok(Self(net.trunc())),
                    Err(_) => Err(PrefixError::Length {
                        text: format!("{addr}/{prefix_len}"),
                        length: prefix_len.to_string(),
                        most: $bits,
                    }),
                }
            }

            /// The first address.
            pub fn addr(self) -> $addr {
                self.0.addr()
            }

            /// Number of bits that count.
            pub fn prefix_len(self) -> u8 {
                self.0.prefix_len()
            }

            /// Whether this prefix contains `addr`.
            pub fn contains(self, addr: $addr) -> bool {
                self.0.contains(&addr)
            }

            /// As the library's type.
            pub fn net(self) -> $net {
                self.0
            }
        }

        impl From<$net> for $name {
            /// Normalises.
            fn from(net: $net) -> Self {
                Self(net.trunc())
            }
        }

        impl From<$name> for $net {
            fn from(prefix: $name) -> Self {
                prefix.0
            }
        }

        impl From<$addr> for $name {
            /// The prefix that contains only this address.
            fn from(addr: $addr) -> Self {
                Self(addr.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = PrefixError;

            /// Reads `address/length`; bits behind the prefix are cleared.
            fn from_str(text: &str) -> Result<Self, PrefixError> {
                let Some((address, length)) = text.split_once('/') else {
                    return Err(PrefixError::NoLength { text: text.into(), host_len: $bits });
                };
                let addr: $addr = address.parse().map_err(|_: AddrParseError| {
                    PrefixError::Address {
                        text: text.into(),
                        address: address.into(),
                        version: $version,
                    }
                })?;
                let digits = length.bytes().all(|b| b.is_ascii_digit());
                let prefix_len = length.parse().ok().filter(|&l| digits && l <= $bits);
                let Some(prefix_len) = prefix_len else {
                    return Err(PrefixError::Length {
                        text: text.into(),
                        length: length.into(),
                        most: $bits,
                    });
                };
                Self::new(addr, prefix_len)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

prefix! {
    /// An IPv4 prefix. Its text form is `10.0.0.0/8`.
    Ipv4Prefix, Ipv4Net, Ipv4Addr, 4, 32
}

prefix! {
    /// An IPv6 prefix. Its text form is `2001:db8::/32`.
    Ipv6Prefix, Ipv6Net, Ipv6Addr, 6, 128
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read() {
        let table = [
            ("10.1.2.3/8", Ok("10.0.0.0/8")),
            ("10.1.2.3/32", Ok("10.1.2.3/32")),
            ("1.2.3.4/0", Ok("0.0.0.0/0")),
            ("10.1.2.3", Err("no length: write 10.1.2.3/32")),
            ("10.1.2/8", Err("\"10.1.2\" is not an IPv4 address")),
            ("::/8", Err("\"::\" is not an IPv4 address")),
            ("10.0.0.0/33", Err("length \"33\" is not a number from 0 to 32")),
            ("10.0.0.0/", Err("length \"\"")),
            ("10.0.0.0/+8", Err("length \"+8\"")),
            ("10.0.0.0/8/8", Err("length \"8/8\"")),
        ];
        for (text, wanted) in table {
            match (text.parse::<Ipv4Prefix>(), wanted) {
                (Ok(prefix), Ok(written)) => assert_eq!(prefix.to_string(), written),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (found, _) => panic!("{text}: {found:?}, not {wanted:?}"),
            }
        }
        let six: Ipv6Prefix = "2001:db8::1/32".parse().unwrap();
        assert_eq!(serde_json::to_string(&six).unwrap(), "\"2001:db8::/32\"");
        assert_eq!(serde_json::from_str::<Ipv6Prefix>("\"2001:db8::/32\"").unwrap(), six);
        let error = "2001:db8::/129".parse::<Ipv6Prefix>().unwrap_err().to_string();
        assert!(error.contains("0 to 128"), "{error}");
    }

    #[test]
    fn addresses_lie_in_prefixes() {
        let prefix = Ipv4Prefix::new([10, 1, 2, 3].into(), 12).unwrap();
        assert_eq!((prefix.addr(), prefix.prefix_len()), ([10, 0, 0, 0].into(), 12));
        assert!(prefix.contains([10, 15, 255, 255].into()));
        assert!(!prefix.contains([10, 16, 0, 0].into()));
        assert!(Ipv4Prefix::DEFAULT.contains([255; 4].into()));
        assert!(Ipv6Prefix::DEFAULT.contains(Ipv6Addr::LOCALHOST));
        assert_eq!(Ipv4Prefix::from(Ipv4Addr::LOCALHOST).prefix_len(), 32);
        assert!(Ipv4Prefix::new(Ipv4Addr::LOCALHOST, 33).is_err());
    }
}
