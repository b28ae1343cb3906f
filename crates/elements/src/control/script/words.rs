//! Words and quotes of Click's configuration strings.

/// Takes the first word off `text`, which ends at a space outside quotes.
pub(crate) fn shift_word<'a>(text: &mut &'a str) -> &'a str {
    let rest = text.trim_start();
    let end = word_end(rest);
    let (word, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
    *text = after.trim_start();
    word
}

/// End of the first word of `text`, in bytes.
fn word_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut quote) = (0, None);
    while let Some(byte) = bytes.get(at) {
        match (byte, quote) {
            (b'\\', None) if bytes.get(at + 1) == Some(&b'<') => {
                let angle = bytes.get(at..).and_then(|rest| rest.iter().position(|b| *b == b'>'));
                at += angle.unwrap_or(bytes.len() - at - 1);
            }
            (b'\\', Some(b'"')) => at += 1,
            (b'"' | b'\'', None) => quote = Some(*byte),
            (b'"' | b'\'', Some(open)) if *byte == open => quote = None,
            (b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c, None) => break,
            _ => {}
        }
        at += 1;
    }
    at.min(bytes.len())
}

/// Quotes a value with double quotes, so that [`unquoted`] restores it.
pub(crate) fn quoted(value: &str) -> String {
    let mut out = String::with_capacity(value.len() + 2);
    out.push('"');
    for c in value.chars() {
        if matches!(c, '"' | '\\' | '$') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
    out
}

/// Removes a layer of quotes; a text with unbalanced quotes is unchanged.
pub(crate) fn unquoted(text: &str) -> String {
    match europa_engine::unquote(text.trim()) {
        Some(bytes) => String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_end_at_spaces_outside_of_quotes() {
        for (text, word, rest) in [
            ("a b", "a", "b"),
            ("  a", "a", ""),
            ("", "", ""),
            (r#""a b" c"#, r#""a b""#, "c"),
            (r#""a\" b" c"#, r#""a\" b""#, "c"),
            (r"\<0a 0b> c", r"\<0a 0b>", "c"),
            ("'a b'c d", "'a b'c", "d"),
            ("\"open a", "\"open a", ""),
        ] {
            let mut left = text;
            assert_eq!((shift_word(&mut left), left), (word, rest), "{text}");
        }
    }

    proptest! {
        #[test]
        fn quotes_are_undone(text in ".{0,40}") {
            prop_assert_eq!(unquoted(&quoted(&text)), text);
        }

        #[test]
        fn any_text_has_words(text in "[ \\\\<>\"'a$()]{0,30}") {
            let mut rest = text.as_str();
            while !rest.is_empty() {
                let before = rest.len();
                shift_word(&mut rest);
                prop_assert!(rest.len() < before);
            }
        }
    }
}
