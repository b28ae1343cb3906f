//! Identifiers of 256 bits. Their first 192 bits decide the server.
//!
//! The layout is that of the public code's `i3.h`: 8 bytes of prefix, 16 bytes of key, 8 bytes of
//! suffix. The last bit of the first 8 bytes is 1 in public identifiers.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

/// Bytes of an identifier.
pub(crate) const ID_BYTES: usize = 32;
/// Least number of first bits in which a packet's id and a trigger's id agree.
pub const LEAST_PREFIX_BITS: u16 = 192;
/// Bits of an identifier.
pub const ID_BITS: u16 = 256;
const KEY_AT: usize = 8;
const SUFFIX_AT: usize = 24;

/// An identifier of 256 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub [u8; ID_BYTES]);

/// The 128 bits that constraints of triggers compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub [u8; 16]);

/// The first 192 bits of an identifier, which are a position on the ring of servers.
///
/// All identifiers with the same prefix are on one server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix(pub [u8; SUFFIX_AT]);

impl Id {
    /// The part that determines the server.
    pub fn prefix(&self) -> Prefix {
        let mut prefix = [0; SUFFIX_AT];
        prefix.copy_from_slice(&self.0[..SUFFIX_AT]);
        Prefix(prefix)
    }

    /// The last 64 bits, which anycast compares.
    pub fn suffix(&self) -> u64 {
        let mut suffix = [0; 8];
        suffix.copy_from_slice(&self.0[SUFFIX_AT..]);
        u64::from_be_bytes(suffix)
    }

    /// The same identifier with other last 64 bits.
    #[must_use]
    pub fn with_suffix(mut self, suffix: u64) -> Id {
        self.0[SUFFIX_AT..].copy_from_slice(&suffix.to_be_bytes());
        self
    }

    /// The part that constraints compare.
    pub fn key(&self) -> Key {
        let mut key = [0; 16];
        key.copy_from_slice(&self.0[KEY_AT..SUFFIX_AT]);
        Key(key)
    }

    /// The same with another key.
    #[must_use]
    pub fn with_key(mut self, key: Key) -> Id {
        self.0[KEY_AT..SUFFIX_AT].copy_from_slice(&key.0);
        self
    }

    /// Whether the identifier is public: then a trigger needs the left constraint.
    pub fn is_public(&self) -> bool {
        self.0[KEY_AT - 1] & 1 == 1
    }

    /// The same, public or private.
    #[must_use]
    pub fn with_public(mut self, public: bool) -> Id {
        self.0[KEY_AT - 1] = self.0[KEY_AT - 1] & !1 | u8::from(public);
        self
    }

    /// Number of first bits in which two identifiers agree, 0 to 256.
    pub fn common_bits(&self, other: &Id) -> u16 {
        let mut bits = 0;
        for (a, b) in self.0.iter().zip(&other.0) {
            let different = a ^ b;
            bits += different.leading_zeros();
            if different != 0 {
                break;
            }
        }
        u16::try_from(bits).unwrap_or(ID_BITS)
    }
}

impl Prefix {
    /// The hash of a text, for positions on the ring.
    pub fn of_text(text: &str) -> Prefix {
        let digest = Sha256::digest(text.as_bytes());
        let mut prefix = [0; SUFFIX_AT];
        prefix.copy_from_slice(&digest[..SUFFIX_AT]);
        Prefix(prefix)
    }

    /// Whether this position is on the arc after `from` up to and including `to`. The arc from a
    /// position to itself is the whole ring.
    pub fn is_after_up_to(&self, from: &Prefix, to: &Prefix) -> bool {
        if from < to { from < self && self <= to } else { from < self || self <= to }
    }

    /// Whether this position is on the arc strictly between two positions. Between a position and
    /// itself is the rest of the ring.
    pub fn is_between(&self, from: &Prefix, to: &Prefix) -> bool {
        self != to && self.is_after_up_to(from, to) && self != from
    }

    /// The position that is 1 / 2^(`power` + 1) of the ring further.
    #[must_use]
    pub fn further(mut self, power: usize) -> Prefix {
        let mut carry = 0x80_u16 >> (power % 8);
        let first = (power / 8).min(SUFFIX_AT - 1);
        for byte in self.0[..=first].iter_mut().rev() {
            let sum = u16::from(*byte) + carry;
            *byte = (sum & 0xff) as u8;
            carry = sum >> 8;
        }
        self
    }
}

fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

fn read_hex<const N: usize>(text: &str) -> Result<[u8; N], String> {
    let wanted = format!("{text:?} is not {} hexadecimal digits", 2 * N);
    if text.len() != 2 * N || !text.is_ascii() {
        return Err(wanted);
    }
    let mut bytes = [0; N];
    for (at, byte) in bytes.iter_mut().enumerate() {
        let digits = text.get(2 * at..2 * at + 2).unwrap_or_default();
        let digit = |c: char| c.is_ascii_hexdigit();
        *byte = match digits.chars().all(digit) {
            true => u8::from_str_radix(digits, 16).map_err(|_| wanted.clone())?,
            false => return Err(wanted),
        };
    }
    Ok(bytes)
}

macro_rules! hexadecimal {
    ($type:ident) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_hex(&self.0, f)
            }
        }

        impl FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<$type, String> {
                read_hex(text).map($type)
            }
        }
    };
}

hexadecimal!(Id);
hexadecimal!(Key);
hexadecimal!(Prefix);

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0[..4], f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arcs() {
        let at = |first: u8| {
            let mut prefix = Prefix([0; 24]);
            prefix.0[0] = first;
            prefix
        };
        for (x, from, to, closed, open) in [
            (5, 1, 9, true, true),
            (9, 1, 9, true, false),
            (1, 1, 9, false, false),
            (0, 9, 1, true, true),
            (1, 9, 1, true, false),
            (5, 9, 1, false, false),
            (5, 7, 7, true, true),
            (7, 7, 7, true, false),
        ] {
            assert_eq!(at(x).is_after_up_to(&at(from), &at(to)), closed, "{x} {from} {to}");
            assert_eq!(at(x).is_between(&at(from), &at(to)), open, "{x} {from} {to}");
        }
    }

    #[test]
    fn further_positions() {
        let mut wanted = Prefix([0xff; 24]);
        wanted.0[0] = 0x7f;
        assert_eq!(Prefix([0xff; 24]).further(0), wanted);
        let mut wanted = Prefix([0xff; 24]);
        wanted.0[0] = 0;
        wanted.0[1] = 0x0f;
        let mut start = Prefix([0xff; 24]);
        start.0[1] = 0xef;
        assert_eq!(start.further(10), wanted);
        assert_eq!(Prefix([0xff; 24]).further(191), Prefix([0; 24]));
    }

    #[test]
    fn texts() {
        let id = Id([0xa5; 32]).with_suffix(7).with_public(false);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!("a5".parse::<Id>().is_err());
        assert!("+5".repeat(32).parse::<Id>().is_err());
        assert_eq!(id.common_bits(&id.with_suffix(6)), 255);
        assert_eq!(id.common_bits(&id), 256);
    }
}
