//! Integers as Click writes them.

/// Reads an integer that is not negative: decimal, `0x` hexadecimal, `0b` binary or `0` octal, with
/// underscores between digits. A number that is too large becomes the largest `u64`.
pub(crate) fn parse_integer(text: &str) -> Option<u64> {
    let digits = text.strip_prefix('+').unwrap_or(text);
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
    let mut value = 0u64;
    let mut after_digit = false;
    for c in digits.chars() {
        match c.to_digit(base) {
            Some(digit) => {
                let more = value.checked_mul(u64::from(base));
                let more = more.and_then(|v| v.checked_add(u64::from(digit)));
                value = more.unwrap_or(u64::MAX);
                after_digit = true;
            }
            None if c == '_' && after_digit => after_digit = false,
            None => return None,
        }
    }
    // An underscore must have a digit on both sides, and at least one digit must exist.
    after_digit.then_some(value)
}

#[cfg(test)]
mod tests {
    use super::parse_integer;

    #[test]
    fn integers_are_read_as_in_click() {
        for (text, value) in [
            ("0", Some(0)),
            ("+7", Some(7)),
            ("010", Some(8)),
            ("0x1F", Some(31)),
            ("0B101", Some(5)),
            ("1_000", Some(1000)),
            ("99999999999999999999", Some(u64::MAX)),
            ("-1", None),
            ("1_", None),
            ("_1", None),
            ("08", None),
            ("0x", None),
            ("", None),
        ] {
            assert_eq!(parse_integer(text), value, "{text}");
        }
    }
}
