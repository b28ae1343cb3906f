//! Splits configuration strings, and removes comments.
//!
//! A configuration string is a comma-separated list of arguments; quotes, `\<hex data>` and
//! comments hide commas. All functions work on any text and split only at ASCII characters, so
//! slices stay valid UTF-8.

use crate::source::Span;

/// One argument of a configuration string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// The argument without surrounding space; each inner comment is replaced by a space.
    pub text: String,
    /// Its position in the configuration string.
    pub span: Span,
}

/// C's `isspace` in the C locale, which includes the vertical tab.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

pub(crate) fn at(bytes: &[u8], index: usize) -> u8 {
    bytes.get(index).copied().unwrap_or(0)
}

pub(crate) fn comment_starts(bytes: &[u8], index: usize) -> bool {
    at(bytes, index) == b'/' && matches!(at(bytes, index + 1), b'/' | b'*')
}

/// The index after the comment that starts at `start`; a line comment includes the end of its line.
pub(crate) fn skip_comment(bytes: &[u8], start: usize) -> usize {
    let mut i = start + 2;
    if at(bytes, start + 1) == b'/' {
        while i < bytes.len() {
            match bytes[i] {
                b'\n' => return i + 1,
                b'\r' if at(bytes, i + 1) == b'\n' => return i + 2,
                b'\r' => return i + 1,
                _ => i += 1,
            }
        }
    } else {
        while i < bytes.len() {
            if bytes[i] == b'*' && at(bytes, i + 1) == b'/' {
                return i + 2;
            }
            i += 1;
        }
    }
    bytes.len()
}

/// The index after `\<...>` that starts at `start`.
pub(crate) fn skip_data(bytes: &[u8], start: usize) -> usize {
    let mut i = start + 2;
    while i < bytes.len() {
        if bytes[i] == b'>' {
            return i + 1;
        }
        i = if comment_starts(bytes, i) { skip_comment(bytes, i) } else { i + 1 };
    }
    bytes.len()
}

/// The index after the quoted string that starts at `start`.
pub(crate) fn skip_quote(bytes: &[u8], start: usize) -> usize {
    let quote = at(bytes, start);
    let mut i = start + 1;
    while i < bytes.len() {
        match bytes[i] {
            b'\\' if quote == b'"' && at(bytes, i + 1) == b'<' => i = skip_data(bytes, i),
            b'\\' if quote == b'"' => i += 2,
            c if c == quote => return i + 1,
            _ => i += 1,
        }
    }
    bytes.len()
}

fn skip_item(bytes: &[u8], i: usize) -> usize {
    match bytes[i] {
        b'\'' | b'"' => skip_quote(bytes, i),
        b'\\' if at(bytes, i + 1) == b'<' => skip_data(bytes, i),
        _ => i + 1,
    }
}

/// Reads from `start` to the next comma outside of quotes (if `commas`) or to the end. Returns the
/// argument and the end of reading.
pub(crate) fn uncomment(config: &str, start: usize, commas: bool) -> (Argument, usize) {
    let bytes = config.as_bytes();
    let mut text = String::new();
    let mut i = start;
    // The piece that is being read, and whether a comment ended it.
    let (mut left, mut right, mut first) = (None, start, None);
    let mut closed = false;
    while i < bytes.len() {
        if is_space(bytes[i]) {
            i += 1;
        } else if comment_starts(bytes, i) {
            i = skip_comment(bytes, i);
            closed = left.is_some();
        } else if bytes[i] == b',' && commas {
            break;
        } else {
            if closed && let Some(from) = left {
                text.push_str(config.get(from..right).unwrap_or_default());
                text.push(' ');
                left = None;
                closed = false;
            }
            left.get_or_insert(i);
            first.get_or_insert(i);
            i = skip_item(bytes, i).min(bytes.len());
            right = i;
        }
    }
    if let Some(from) = left {
        text.push_str(config.get(from..right).unwrap_or_default());
    }
    let span = Span::new(first.unwrap_or(i), right.max(first.unwrap_or(i)));
    (Argument { text, span }, i)
}

/// Splits a configuration string at its top-level commas. An empty last argument does not count:
/// `1, ` has one argument, `, 1` has two.
pub fn split_arguments(config: &str) -> Vec<Argument> {
    let mut arguments = Vec::new();
    let mut position = 0;
    while position < config.len() {
        let (argument, stop) = uncomment(config, position, true);
        if !argument.text.is_empty() || stop < config.len() {
            arguments.push(argument);
        }
        position = stop + 1;
    }
    arguments
}

/// Joins arguments into a configuration string.
pub fn join_arguments<S: AsRef<str>>(arguments: &[S]) -> String {
    let parts: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
    parts.join(", ")
}

/// Splits an argument into its space-separated words; quotes are kept.
pub fn split_words(text: &str) -> Vec<Argument> {
    let bytes = text.as_bytes();
    let mut words = Vec::new();
    let mut i = 0;
    while i < bytes.len() {
        if is_space(bytes[i]) {
            i += 1;
        } else if comment_starts(bytes, i) {
            i = skip_comment(bytes, i);
        } else {
            let start = i;
            while i < bytes.len() && !is_space(bytes[i]) && !comment_starts(bytes, i) {
                i = skip_item(bytes, i).min(bytes.len());
            }
            words.push(Argument {
                text: text.get(start..i).unwrap_or_default().to_owned(),
                span: Span::new(start, i),
            });
        }
    }
    words
}

/// The keyword at the start of an argument (`LIMIT` in `LIMIT 5`) and the offset of its value, if
/// the argument seems to have a keyword.
pub(crate) fn leading_keyword(text: &str) -> Option<(&str, usize)> {
    let length = text
        .bytes()
        .position(|b| !(b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b':' | b'?' | b'!')))
        .unwrap_or(text.len());
    let word = text.get(..length)?;
    let rest = text.get(length..)?;
    let spaces = rest.bytes().take_while(|&b| is_space(b)).count();
    let valid = !word.is_empty() && (rest.is_empty() || spaces > 0);
    valid.then_some((word, length + spaces))
}
