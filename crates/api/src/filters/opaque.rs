//! Keys that routers write themselves, and results of rules: bytes as hexadecimal digits.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::decode::{Context, Decode, from_text};
use crate::problem::Problem;
use crate::tree::{Node, Value};

/// Bytes that a key may have.
pub const MOST_KEY_BYTES: usize = 40;
/// Bytes that a result may have.
pub const MOST_RESULT_BYTES: usize = 16;

/// A value of a key that a router writes itself: hexadecimal digits from its first byte on, `?` for
/// any digit, and after `%` a mask for single bits. The rest of the key may have any value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(inline, with = "String")]
pub struct OwnKey {
    /// The values of the compared bits; others are zero.
    pub value: Box<[u8]>,
    /// Mask of the compared bits, of the same length.
    pub mask: Box<[u8]>,
}

/// Bytes, as hexadecimal digits; zeros follow.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(inline, with = "String")]
pub struct RuleResult(pub Box<[u8]>);

/// Values and masks of digits, without blanks; `?` matches any digit.
fn digits(text: &str, most: usize) -> Result<Vec<(u8, u8)>, String> {
    let digit = |c: char| match c {
        '?' => Ok((0, 0)),
        c => c.to_digit(16).map(|digit| (digit as u8, 0xf)).ok_or(c),
    };
    let nibbles: Result<Vec<(u8, u8)>, char> =
        text.chars().filter(|c| !c.is_whitespace()).map(digit).collect();
    let nibbles = nibbles.map_err(|c| format!("{c:?} is no hexadecimal digit"))?;
    if nibbles.is_empty() || !nibbles.len().is_multiple_of(2) {
        return Err("one has an even number of hexadecimal digits".to_owned());
    }
    let byte =
        |pair: &[(u8, u8)]| pair.iter().fold((0, 0), |all, n| (all.0 << 4 | n.0, all.1 << 4 | n.1));
    let bytes: Vec<(u8, u8)> = nibbles.chunks(2).map(byte).collect();
    match bytes.len() > most {
        true => Err(format!("one has at most {most} bytes, this has {}", bytes.len())),
        false => Ok(bytes),
    }
}

impl FromStr for OwnKey {
    type Err = String;

    fn from_str(text: &str) -> Result<OwnKey, String> {
        let (value, mask) = text.split_once('%').map_or((text, None), |(v, m)| (v, Some(m)));
        let written = digits(value, MOST_KEY_BYTES)?;
        let mut mask: Vec<u8> = match mask {
            None => vec![0xff; written.len()],
            Some(mask) => {
                let mask = digits(mask, MOST_KEY_BYTES)?;
                if mask.len() != written.len() || mask.iter().any(|(_, known)| *known != 0xff) {
                    return Err("the mask is to have as many digits as the value".to_owned());
                }
                mask.into_iter().map(|(value, _)| value).collect()
            }
        };
        mask.iter_mut().zip(&written).for_each(|(mask, (_, known))| *mask &= known);
        let value = written.iter().zip(&mask).map(|((value, _), mask)| value & mask).collect();
        Ok(OwnKey { value, mask: mask.into() })
    }
}

impl fmt::Display for OwnKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |nibble: u8| matches!(nibble, 0 | 0xf);
        let plain = self.mask.iter().all(|mask| whole(mask >> 4) && whole(mask & 0xf));
        for (value, mask) in self.value.iter().zip(&self.mask) {
            for shift in [4, 0] {
                match mask >> shift & 0xf {
                    0 if plain => f.write_str("?")?,
                    _ => write!(f, "{:x}", value >> shift & 0xf)?,
                }
            }
        }
        if !plain {
            f.write_str("%")?;
            self.mask.iter().try_for_each(|mask| write!(f, "{mask:02x}"))?;
        }
        Ok(())
    }
}

impl FromStr for RuleResult {
    type Err = String;

    fn from_str(text: &str) -> Result<RuleResult, String> {
        let bytes = digits(text, MOST_RESULT_BYTES)?;
        match bytes.iter().all(|(_, known)| *known == 0xff) {
            true => Ok(RuleResult(bytes.into_iter().map(|(value, _)| value).collect())),
            false => Err("'?' is no hexadecimal digit".to_owned()),
        }
    }
}

impl fmt::Display for RuleResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

macro_rules! bytes {
    ($($type:ty, $what:literal;)*) => { $(
        impl TryFrom<String> for $type {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
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
                if let Value::Integer(_) | Value::Float(_) = node.value {
                    // Zeros in front of it are lost.
                    let problem = Problem::new(context.place(node), concat!("a number is not ", $what));
                    context.report(problem.label("a number").help("write it in quotes: \"0a01\""));
                    return None;
                }
                from_text(node, context, $what)
            }
        }
    )* };
}
bytes! {
    OwnKey, "a key";
    RuleResult, "a result";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_as_they_are_read() {
        for (text, wanted) in [
            ("0A00 ??1?", "0a00??1?"),
            ("0aff%0ff0", "?af?"),
            ("0a%ff", "0a"),
            ("0a12%ff00", "0a??"),
            ("??ff%ff80", "0080%0080"),
        ] {
            let key: OwnKey = text.parse().unwrap();
            assert_eq!(key.to_string(), wanted, "{text}");
            assert_eq!(wanted.parse(), Ok(key));
        }
        let key: OwnKey = "0a?1".parse().unwrap();
        assert_eq!((&*key.value, &*key.mask), (&[0x0a, 1][..], &[0xff, 0xf][..]));
        assert_eq!("0 a 0b".parse::<RuleResult>().unwrap().to_string(), "0a0b");
    }

    #[test]
    fn mistakes() {
        let long = "00".repeat(MOST_KEY_BYTES + 1);
        for (text, wanted) in [
            ("", "even number"),
            ("0", "even number"),
            ("0g", "'g' is no hexadecimal"),
            ("00%0", "even number"),
            ("0000%ff", "as many digits"),
            ("00%?f", "as many digits"),
            (&*long, "at most 40 bytes, this has 41"),
        ] {
            assert!(text.parse::<OwnKey>().unwrap_err().contains(wanted), "{text}");
        }
        assert!("0?".parse::<RuleResult>().is_err());
        assert!(long.parse::<RuleResult>().unwrap_err().contains("at most 16"));
    }
}
