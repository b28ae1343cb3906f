//! One YAML document as a tree of values with their places.
//!
//! The decoder works on this tree and not on the text, so that one pass can report all mistakes
//! with their places; serde's derived decoders stop at the first mistake.

use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

/// The kinds of a YAML value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// An empty value, `~` or `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i128),
    /// A number with a point or an exponent.
    Float(f64),
    /// Any other word or text.
    Text(String),
    /// `[…]` or lines that begin with `-`.
    List(Vec<Node>),
    /// `{…}` or lines with `key:`, in the order of the file.
    Map(Vec<(Node, Node)>),
}

/// A value and its place: bytes of the whole file's text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) span: Range<usize>,
    /// The characters of a number or truth value, because the same value can be written in several
    /// forms: `007`, `1.10`, `1e3`.
    pub(crate) written: Option<Box<str>>,
}

impl Node {
    /// A value at a place of the file.
    pub(crate) fn new(value: Value, span: Range<usize>) -> Node {
        Node { value, span, written: None }
    }
}

/// A value in the parser's form, before its places are converted.
enum Parsed {
    Scalar(Value),
    List(Vec<Spanned<Parsed>>),
    Map(Vec<(Spanned<Parsed>, Spanned<Parsed>)>),
}

/// The reason why a text is not YAML, and the place.
#[derive(Debug)]
pub(crate) struct SyntaxError {
    pub(crate) message: String,
    pub(crate) help: &'static str,
    pub(crate) span: Range<usize>,
}

/// Beginnings of the parser's messages, each with its meaning for the author of a file, and a
/// remedy. The texts avoid terms of the YAML specification.
const MEANINGS: &[(&str, &str, &str)] = &[
    (
        "mapping values are not allowed",
        "a second `field: value` cannot begin here",
        "fields that belong together are indented alike, one a line; in one line they stand in \
         braces, {a: 1, b: 2}; a text with `: ` in it needs quotes",
    ),
    (
        "did not find expected <document start>",
        "this line is not indented like those that it belongs to",
        "fields that belong together are indented alike",
    ),
    (
        "simple key expected ':'",
        "a field and its `:` are expected here",
        "a field is written `name: value`, with a space after the colon",
    ),
    (
        "while parsing a block mapping, did not find expected key",
        "a field is expected to begin here",
        "fields that belong together are indented alike, one a line; in one line they stand in \
         braces, {a: 1, b: 2}",
    ),
    (
        "while parsing a block collection, did not find expected",
        "an entry of the list is expected here",
        "entries begin with `- `, all indented alike",
    ),
    ("misplaced bracket", "nothing opens this bracket", "is one missing before it?"),
    ("unclosed bracket", "this bracket is never closed", "add the one that closes it"),
    (
        "invalid trailing content after double-quoted scalar",
        "there is something behind a closing quote",
        "is a quote missing, here or in a line above?",
    ),
    (
        "alias references unknown anchor",
        "`*` begins the name of something that was not marked with `&`",
        "a text that begins with `*` needs quotes",
    ),
    (
        "non-finite float",
        "this is no number that can be counted with",
        "a text that looks like a number needs quotes",
    ),
    (
        "budget breached: Depth",
        "this is nested too deeply",
        "no configuration needs more than ten levels",
    ),
    (
        "budget breached",
        "this document grows too large when all that it says is written out",
        "say less with `*`, or cut the file into several",
    ),
    (
        "while scanning for the next token, found character that cannot start any token",
        "a value cannot begin with this character",
        "put the text into quotes",
    ),
];

impl SyntaxError {
    fn new(said: &str, span: Range<usize>) -> SyntaxError {
        const HELP: &str = "docs/reference.md has an example of every document";
        if let Some(key) = said.strip_prefix("duplicate mapping key: ") {
            let message = format!("`{key}` is written twice");
            return SyntaxError { message, help: "one of them has to go", span };
        }
        let known = MEANINGS.iter().find(|(begin, _, _)| said.starts_with(begin));
        match known {
            Some((_, message, help)) => SyntaxError { message: (*message).into(), help, span },
            None => SyntaxError { message: said.to_owned(), help: HELP, span },
        }
    }
}

impl Value {
    /// The value's type in a user's words.
    pub(crate) fn describe(&self) -> String {
        match self {
            Value::Null => "nothing".to_owned(),
            Value::Bool(b) => format!("the truth value {b}"),
            Value::Integer(i) => format!("the number {i}"),
            Value::Float(f) => format!("the number {f}"),
            Value::Text(t) if t.len() <= 40 && !t.contains('\n') => format!("the text {t:?}"),
            Value::Text(_) => "a text".to_owned(),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a mapping".to_owned(),
        }
    }
}

/// Splits a file into documents: byte ranges, each from its `---` line on.
///
/// Because files are split before they are parsed, every document can report its own syntax error.
/// This is safe: YAML allows `---` at the start of a line only between documents.
pub(crate) fn documents(text: &str) -> Vec<Range<usize>> {
    let mut starts = vec![0];
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let word = line.trim_end();
        if at > 0 && (word == "---" || line.starts_with("--- ") || line.starts_with("---\t")) {
            starts.push(at);
        }
        at += line.len();
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect()
}

/// Parses the document in `range` of `text`. An empty document is `Value::Null`.
pub(crate) fn parse(text: &str, range: Range<usize>) -> Result<Node, SyntaxError> {
    let piece = &text[range.clone()];
    let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
    match serde_saphyr::from_str_with_options::<Spanned<Parsed>>(piece, options) {
        Ok(parsed) => {
            let span = place(&parsed.referenced, piece);
            Ok(node(parsed, span, range.start, text))
        }
        Err(error) => {
            let span = error.location().map_or(0..0, |location| place(&location, piece));
            let message = error.without_snippet().to_string();
            // The report underlines the place. A line number counted within the document would be
            // wrong.
            let message = match message.rfind(" at line ") {
                Some(end) => message[..end].to_owned(),
                None => message,
            };
            let message = message.replace(", set DuplicateKeyPolicy in Options if acceptable", "");
            let span = tidy(span.start + range.start..span.end + range.start, text);
            Err(SyntaxError::new(&message, span))
        }
    }
}

/// A parsed value as a node, at `span` of the document that begins at byte `start` of `text`.
fn node(parsed: Spanned<Parsed>, span: Range<usize>, start: usize, text: &str) -> Node {
    // Every value inside the tree has byte offsets, so the text is not needed.
    let child = |parsed: Spanned<Parsed>| {
        let span = place(&parsed.referenced, "");
        node(parsed, span, start, text)
    };
    let span = tidy(span.start + start..span.end + start, text);
    let value = match parsed.value {
        Parsed::Scalar(value) => value,
        Parsed::List(items) => Value::List(items.into_iter().map(child).collect()),
        Parsed::Map(entries) => {
            let entry = |(key, value)| (child(key), child(value));
            Value::Map(entries.into_iter().map(entry).collect())
        }
    };
    // An alias stands in another place than its anchor.
    let written = || {
        let defined = place(&parsed.defined, "");
        let written = text.get(defined.start + start..defined.end + start)?.trim();
        (!written.is_empty()).then(|| written.into())
    };
    let is_text = matches!(value, Value::Bool(_) | Value::Integer(_) | Value::Float(_));
    Node { written: is_text.then(written).flatten(), value, span }
}

/// The bytes of `piece` that a location denotes. Values have byte offsets; the parser's own errors,
/// and containers of mapping keys, only have counts of characters.
fn place(location: &serde_saphyr::Location, piece: &str) -> Range<usize> {
    let span = location.span();
    if let (Some(start), Some(len)) = (span.byte_offset(), span.byte_len()) {
        return start as usize..(start + len) as usize;
    }
    let byte_of = |character: u64| {
        let index = usize::try_from(character).unwrap_or(usize::MAX);
        piece.char_indices().nth(index).map_or(piece.len(), |(byte, _)| byte)
    };
    byte_of(span.offset())..byte_of(span.offset().saturating_add(span.len()))
}

/// Most bytes that are underlined: a document may be one line, and each of its values is examined.
const MOST_UNDERLINED: usize = 256;

/// Adjusts a range for underlining: inside the text, on character boundaries, only on its first
/// line, and not empty unless the line ends there. Containers have no length of their own.
fn tidy(span: Range<usize>, text: &str) -> Range<usize> {
    let floor = |mut at: usize| {
        at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let start = floor(span.start);
    let line = &text[start..floor(start.saturating_add(MOST_UNDERLINED))];
    let line = line.lines().next().unwrap_or("").trim_end();
    let end = floor(span.end.max(start));
    if end > start {
        start..end.min(start + line.len()).max(start)
    } else {
        start..start + line.len()
    }
}

impl<'de> Deserialize<'de> for Parsed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Parsed, D::Error> {
        deserializer.deserialize_any(Builder)
    }
}

struct Builder;

impl<'de> Visitor<'de> for Builder {
    type Value = Parsed;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML value")
    }

    fn visit_unit<E>(self) -> Result<Parsed, E> {
        Ok(Parsed::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Parsed, E> {
        Ok(Parsed::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Parsed, D::Error> {
        deserializer.deserialize_any(Builder)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Parsed, E> {
        Ok(Parsed::Scalar(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Parsed, E> {
        Ok(Parsed::Scalar(Value::Integer(value.into())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Parsed, E> {
        Ok(Parsed::Scalar(Value::Integer(value.into())))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Parsed, E> {
        Ok(Parsed::Scalar(Value::Integer(value)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Parsed, E> {
        Ok(Parsed::Scalar(Value::Float(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Parsed, E> {
        Ok(Parsed::Scalar(Value::Text(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Parsed, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element::<Spanned<Parsed>>()? {
            items.push(item);
        }
        Ok(Parsed::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Parsed, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = map.next_entry()? {
            entries.push((key, value));
        }
        Ok(Parsed::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_without_end_are_told() {
        for yaml in ["a: 1e400", "a: .nan", "a: -.inf"] {
            let error = parse(yaml, 0..yaml.len()).expect_err("no number");
            assert_eq!(error.message, "this is no number that can be counted with", "{yaml}");
        }
    }

    #[test]
    fn numbers_and_truth_values_keep_what_is_written() {
        for (yaml, wanted) in [
            ("01", Some("01")),
            ("007", Some("007")),
            ("0o17", Some("0o17")),
            ("1.10", Some("1.10")),
            ("1e3", Some("1e3")),
            ("-5", Some("-5")),
            ("true", Some("true")),
            ("\"01\"", None),
            ("NO", None),
            ("text", None),
        ] {
            // The value stands as a document, in braces, in lines, behind an anchor and through an
            // alias.
            for (text, path) in [
                (format!("# é\n{yaml} # one\n"), &[][..]),
                (format!("{{é: {{b: {yaml} }}}}"), &[0, 0]),
                (format!("a:\n  b: {yaml}   # é\n"), &[0, 0]),
                (format!("a:\n  - &x {yaml}\n  - *x\n"), &[0, 0]),
                (format!("a:\n  - &x {yaml}\n  - *x\n"), &[0, 1]),
            ] {
                let text = format!("kind: none\n---\n{text}");
                let range = documents(&text).pop().expect("a document");
                let mut node = parse(&text, range).unwrap_or_else(|e| panic!("{text}: {e:?}"));
                for index in path {
                    node = match node.value {
                        Value::Map(mut entries) => entries.remove(*index).1,
                        Value::List(mut items) => items.remove(*index),
                        other => panic!("{text}: {other:?}"),
                    };
                }
                assert_eq!(node.written.as_deref(), wanted, "{text}");
            }
        }
    }
}
