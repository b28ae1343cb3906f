//! Integers, real numbers and truth values.

use std::borrow::Cow;

use super::{BadArg, FromArg};

/// Reads an integer: decimal, `0x` hexadecimal, `0b` binary or `0` octal, with
/// underscores between digits. What is too large becomes the largest `i128`.
pub(crate) fn parse_integer(text: &str, signed: bool) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) if signed => (true, digits),
        Some(_) => return None,
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let prefixed = |letter: char| {
        let rest = digits.strip_prefix('0')?;
        rest.strip_prefix([letter, letter.to_ascii_uppercase()])
    };
    let (base, digits) = if let Some(digits) = prefixed('x') {
        (16, digits)
    } else if let Some(digits) = prefixed('b') {
        (2, digits)
    } else if digits.starts_with('0') {
        (8, digits)
    } else {
        (10, digits)
    };
    let mut value = 0i128;
    let mut after_digit = false;
    for c in digits.chars() {
        match c.to_digit(base) {
            Some(digit) => {
                let more = value.checked_mul(i128::from(base));
                let more = more.and_then(|v| v.checked_add(i128::from(digit)));
                value = more.unwrap_or(i128::MAX);
                after_digit = true;
            }
            None if c == '_' && after_digit => after_digit = false,
            None => return None,
        }
    }
    // An underscore must have a digit on both sides, and there must be a digit.
    after_digit.then_some(if negative { -value } else { value })
}

macro_rules! integers {
    ($($type:ty, $signed:expr;)*) => {$(
        impl FromArg for $type {
            fn wanted() -> Cow<'static, str> {
                format!("an integer from {} to {}", <$type>::MIN, <$type>::MAX).into()
            }

            fn from_arg(text: &str) -> Result<$type, BadArg> {
                let value = parse_integer(text, $signed).ok_or(BadArg::Malformed)?;
                <$type>::try_from(value).map_err(|_| {
                    let bound = if value < 0 { <$type>::MIN } else { <$type>::MAX };
                    BadArg::OutOfRange(bound.to_string())
                })
            }
        }
    )*};
}

integers! {
    u8, false;
    u16, false;
    u32, false;
    u64, false;
    usize, false;
    i8, true;
    i16, true;
    i32, true;
    i64, true;
}

impl FromArg for f64 {
    fn wanted() -> Cow<'static, str> {
        "a real number".into()
    }

    fn from_arg(text: &str) -> Result<f64, BadArg> {
        // Rust also reads `inf` and `nan`, which no element can use.
        let plain = text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
        match text.parse::<f64>() {
            Ok(value) if plain && value.is_infinite() => {
                let bound = if value > 0.0 { f64::MAX } else { f64::MIN };
                Err(BadArg::OutOfRange(format!("{bound:e}")))
            }
            Ok(value) if plain => Ok(value),
            _ => Err(BadArg::Malformed),
        }
    }
}

impl FromArg for bool {
    fn wanted() -> Cow<'static, str> {
        "'true' or 'false'".into()
    }

    fn from_arg(text: &str) -> Result<bool, BadArg> {
        match text {
            "1" | "true" | "yes" | "t" | "y" => Ok(true),
            "0" | "false" | "no" | "f" | "n" => Ok(false),
            _ => Err(BadArg::Malformed),
        }
    }
}
