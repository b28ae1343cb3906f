//! `sprintf`: C's format strings.

use super::functions::integer;
use super::words::{shift_word, unquoted};

/// Widest field: a short format string cannot ask for much memory.
const MAX_WIDTH: usize = 4096;

/// One conversion of a format string.
#[derive(Default)]
struct Conversion {
    left: bool,
    zeros: bool,
    plus: bool,
    space: bool,
    alternative: bool,
    width: usize,
    precision: Option<usize>,
    short: bool,
}

impl Conversion {
    /// A number with sign or prefix, precision and width.
    fn number(&self, prefix: &str, digits: &str) -> String {
        let zeros = self.precision.unwrap_or(0).saturating_sub(digits.len());
        let mut body = "0".repeat(zeros) + digits;
        if self.zeros && !self.left && self.precision.is_none() {
            body = "0".repeat(self.width.saturating_sub(prefix.len() + body.len())) + &body;
        }
        self.padded(&format!("{prefix}{body}"))
    }

    fn padded(&self, text: &str) -> String {
        let width = self.width;
        if self.left { format!("{text:<width$}") } else { format!("{text:>width$}") }
    }
}

/// Formats the arguments that follow a format string.
pub(super) fn sprintf(mut text: &str) -> Result<String, String> {
    let error = || "syntax error".to_owned();
    let format = unquoted(shift_word(&mut text));
    let mut chars = format.chars().peekable();
    let mut out = String::new();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut conversion = Conversion::default();
        while let Some(flag) = chars.next_if(|c| "0#- +".contains(*c)) {
            match flag {
                '0' => conversion.zeros = true,
                '#' => conversion.alternative = true,
                '-' => conversion.left = true,
                ' ' => conversion.space = true,
                _ => conversion.plus = true,
            }
        }
        let mut count = |chars: &mut std::iter::Peekable<std::str::Chars<'_>>| {
            if chars.next_if_eq(&'*').is_some() {
                return integer(shift_word(&mut text)).ok_or_else(error);
            }
            let mut value = 0i64;
            while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
                chars.next();
                value = (value * 10 + i64::from(digit)).min(MAX_WIDTH as i64);
            }
            Ok(value)
        };
        let width = count(&mut chars)?;
        conversion.left |= width < 0;
        conversion.width = (width.unsigned_abs() as usize).min(MAX_WIDTH);
        if chars.next_if_eq(&'.').is_some() {
            let precision = usize::try_from(count(&mut chars)?).map_err(|_| error())?;
            conversion.precision = Some(precision.min(MAX_WIDTH));
        }
        while let Some(size) = chars.next_if(|c| "hlLq".contains(*c)) {
            conversion.short = size == 'h';
        }
        match chars.next() {
            Some('%') => out.push('%'),
            Some('s') => {
                let value = unquoted(shift_word(&mut text));
                let shown = conversion.precision.unwrap_or(usize::MAX);
                out += &conversion.padded(&value.chars().take(shown).collect::<String>());
            }
            Some('d' | 'i') => {
                let value = integer(shift_word(&mut text)).ok_or_else(error)?;
                let value = if conversion.short { i64::from(value as i16) } else { value };
                let sign = match value {
                    ..0 => "-",
                    _ if conversion.plus => "+",
                    _ if conversion.space => " ",
                    _ => "",
                };
                out += &conversion.number(sign, &value.unsigned_abs().to_string());
            }
            Some(kind @ ('o' | 'x' | 'X' | 'u')) => {
                let value = integer(shift_word(&mut text)).ok_or_else(error)? as u64;
                let value = if conversion.short { u64::from(value as u16) } else { value };
                let prefix = |text| if conversion.alternative && value != 0 { text } else { "" };
                out += &match kind {
                    'o' => conversion.number(prefix("0"), &format!("{value:o}")),
                    'x' => conversion.number(prefix("0x"), &format!("{value:x}")),
                    'X' => conversion.number(prefix("0X"), &format!("{value:X}")),
                    _ => conversion.number("", &value.to_string()),
                };
            }
            _ => return Err(error()),
        }
    }
    if text.is_empty() { Ok(out) } else { Err(error()) }
}

#[cfg(test)]
mod tests {
    use super::sprintf;
    use proptest::prelude::*;

    #[test]
    fn formats_are_those_of_c() {
        for (text, expected) in [
            (r#""%05X" 127"#, Some("0007F")),
            (r#""%d%%" 5"#, Some("5%")),
            (r#""%-4d|" 5"#, Some("5   |")),
            (r#""%+d %#x" 5 255"#, Some("+5 0xff")),
            (r#""%*d" 4 7"#, Some("   7")),
            (r#""%.3d" 7"#, Some("007")),
            (r#""%s-%5s" a "b c""#, Some("a-  b c")),
            (r#""%d""#, None),
            (r#""%d" 1 2"#, None),
            (r#""%q""#, None),
        ] {
            assert_eq!(sprintf(text).ok().as_deref(), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_format_ends(text in "[\"%0-9.*# +hldxs' ]{0,30}") {
            let _ = sprintf(&text);
        }
    }
}
