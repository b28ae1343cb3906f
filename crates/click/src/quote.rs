//! Quotes, escapes and data in configuration strings.

use crate::text::{at, comment_starts, is_space, skip_comment, uncomment};

/// Removes quotes, escapes and comments. The result is bytes, because `"\xff"` and `\<ff>` denote
/// any byte.
pub fn unquote(text: &str) -> Vec<u8> {
    let (argument, _) = uncomment(text, 0, false);
    read(&argument.text).0
}

/// Removes quotes and escapes from text that is no configuration: comments are recognised only
/// inside `\<...>`. `None` if a quote or angle bracket is not closed, or if an angle bracket does
/// not contain whole bytes.
pub fn unquote_strictly(text: &str) -> Option<Vec<u8>> {
    let (bytes, whole) = read(text);
    whole.then_some(bytes)
}

/// Removes quotes and escapes. Returns whether all of them were valid.
fn read(text: &str) -> (Vec<u8>, bool) {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut whole = true;
    let mut quote = 0;
    let mut i = 0;
    while i < bytes.len() {
        match bytes[i] {
            c @ (b'"' | b'\'') if quote == 0 => {
                quote = c;
                i += 1;
            }
            c if c == quote && quote != 0 => {
                quote = 0;
                i += 1;
            }
            b'\\'
                if i + 1 < bytes.len()
                    && (quote == b'"' || (quote == 0 && bytes[i + 1] == b'<')) =>
            {
                i = match at(bytes, i + 1) {
                    b'<' => {
                        let (behind, good) = read_data(bytes, i, &mut out);
                        whole &= good;
                        behind
                    }
                    _ => unescape(bytes, i, &mut out),
                };
            }
            c => {
                out.push(c);
                i += 1;
            }
        }
    }
    (out, whole && quote == 0)
}

/// Like [`unquote`], but returns text; `None` if it is not UTF-8.
pub fn unquote_text(text: &str) -> Option<String> {
    String::from_utf8(unquote(text)).ok()
}

fn hex_digit(byte: u8) -> Option<u8> {
    // The radix limits the digit to 15.
    (byte as char).to_digit(16).map(|digit| digit as u8)
}

/// Handles the backslash at `start`, which is not the last byte. Returns the next position.
fn unescape(bytes: &[u8], start: usize, out: &mut Vec<u8>) -> usize {
    let c = at(bytes, start + 1);
    let mut i = start + 2;
    match c {
        b'\r' if at(bytes, i) == b'\n' => return i + 1,
        b'\r' | b'\n' => {}
        b'a' => out.push(7),
        b'b' => out.push(8),
        b'f' => out.push(12),
        b'n' => out.push(b'\n'),
        b'r' => out.push(b'\r'),
        b't' => out.push(b'\t'),
        b'v' => out.push(11),
        b'0'..=b'7' => {
            let mut value = c - b'0';
            while i < start + 4 && matches!(at(bytes, i), b'0'..=b'7') {
                value = value.wrapping_mul(8).wrapping_add(bytes[i] - b'0');
                i += 1;
            }
            out.push(value);
        }
        b'x' => {
            let mut value = 0u8;
            while let Some(digit) = bytes.get(i).copied().and_then(hex_digit) {
                value = value.wrapping_mul(16).wrapping_add(digit);
                i += 1;
            }
            out.push(value);
        }
        other => out.push(other),
    }
    i
}

/// Reads `\<...>`, which begins at `start`. Returns the next position, and whether it was closed
/// and contained only whole bytes.
fn read_data(bytes: &[u8], start: usize, out: &mut Vec<u8>) -> (usize, bool) {
    let (mut i, mut high, mut good) = (start + 2, None, true);
    while i < bytes.len() && bytes[i] != b'>' {
        if comment_starts(bytes, i) {
            i = skip_comment(bytes, i);
            continue;
        }
        match (hex_digit(bytes[i]), high.take()) {
            (Some(digit), None) => high = Some(digit),
            (Some(digit), Some(high)) => out.push(high << 4 | digit),
            (None, before) => {
                high = before;
                good &= is_space(bytes[i]);
            }
        }
        i += 1;
    }
    good &= i < bytes.len() && high.is_none();
    ((i + 1).min(bytes.len()), good)
}

/// Quotes text such that [`unquote`] restores it.
pub fn quote(bytes: &[u8]) -> String {
    let mut out = String::from("\"");
    for &byte in bytes {
        match byte {
            b'\\' | b'"' | b'$' => {
                out.push('\\');
                out.push(byte as char);
            }
            b'\t' => out.push_str("\\t"),
            b'\r' => out.push_str("\\r"),
            b'\n' => out.push_str("\\n"),
            32..127 => out.push(byte as char),
            _ => out.push_str(&format!("\\{byte:03o}")),
        }
    }
    out.push('"');
    out
}
