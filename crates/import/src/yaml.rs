//! A YAML tree in which every value has its line.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use crate::ImportError;

/// A value and the line it begins at.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) line: u64,
    pub(crate) value: Value,
}

/// The kind of a value. Numbers and truth values are texts in their written form.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Null,
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl Node {
    /// The value of a key of a mapping.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.entries().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// Whether it is a mapping.
    pub(crate) fn is_map(&self) -> bool {
        matches!(self.value, Value::Map(_))
    }

    /// Keys and values of a mapping; empty for other values.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &Node)> {
        let entries = match &self.value {
            Value::Map(entries) => entries.as_slice(),
            _ => &[],
        };
        entries.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The entries of a list; empty for other values.
    pub(crate) fn items(&self) -> &[Node] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    /// A text, or a number in its written form.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Parses one document.
pub(crate) fn parse(text: &str) -> Result<Node, ImportError> {
    let spanned = serde_saphyr::from_str::<Spanned<Parsed>>(text).map_err(|error| ImportError {
        line: error.location().map_or(1, |location| location.line()),
        message: error.without_snippet().to_string(),
    })?;
    Ok(node(spanned, text))
}

/// A value in the parser's form. The characters of numbers and truth values are taken from the
/// source text.
enum Parsed {
    Null,
    Text(String),
    /// A number or truth value.
    Plain(String),
    List(Vec<Spanned<Parsed>>),
    Map(Vec<(Spanned<Parsed>, Spanned<Parsed>)>),
}

/// The scalar in its written form: `01`, `NO` and `1.10` are names and texts here.
fn scalar(spanned: &Spanned<Parsed>, text: &str) -> Option<String> {
    match &spanned.value {
        Parsed::Text(value) => Some(value.clone()),
        Parsed::Plain(value) => {
            let span = spanned.defined.span();
            let bytes = span.byte_offset().zip(span.byte_len());
            let written = bytes.and_then(|(start, length)| {
                text.get(start as usize..(start + length) as usize).map(str::trim)
            });
            let written = written.filter(|written| !written.is_empty());
            Some(written.map_or_else(|| value.clone(), str::to_owned))
        }
        _ => None,
    }
}

fn node(spanned: Spanned<Parsed>, text: &str) -> Node {
    let line = spanned.referenced.line();
    let value = match (scalar(&spanned, text), spanned.value) {
        (Some(scalar), _) => Value::Text(scalar),
        (None, Parsed::List(items)) => {
            Value::List(items.into_iter().map(|item| node(item, text)).collect())
        }
        (None, Parsed::Map(entries)) => {
            let entry = |(key, value): (Spanned<Parsed>, Spanned<Parsed>)| {
                let name = scalar(&key, text)?;
                // A note names the line of the key, because a block's first line may be far below
                // it.
                Some((name, Node { line: key.referenced.line(), ..node(value, text) }))
            };
            Value::Map(entries.into_iter().filter_map(entry).collect())
        }
        (None, _) => Value::Null,
    };
    Node { line, value }
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
        Ok(Parsed::Null)
    }

    fn visit_none<E>(self) -> Result<Parsed, E> {
        Ok(Parsed::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Parsed, D::Error> {
        deserializer.deserialize_any(Builder)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Parsed, E> {
        Ok(Parsed::Plain(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Parsed, E> {
        Ok(Parsed::Plain(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Parsed, E> {
        Ok(Parsed::Plain(value.to_string()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Parsed, E> {
        Ok(Parsed::Plain(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Parsed, E> {
        Ok(Parsed::Plain(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Parsed, E> {
        Ok(Parsed::Text(value.to_owned()))
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
        while let Some(entry) = map.next_entry::<Spanned<Parsed>, Spanned<Parsed>>()? {
            entries.push(entry);
        }
        Ok(Parsed::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_are_their_characters() {
        let text = "01: [NO, 1.10, 007, 1e3, yes, 0x1F, 'q', +5]\nk: {a: 1_0, b: true}\n";
        let root = parse(text).expect("a document");
        let items: Vec<&str> =
            root.get("01").map_or(&[][..], Node::items).iter().filter_map(Node::text).collect();
        assert_eq!(items, ["NO", "1.10", "007", "1e3", "yes", "0x1F", "q", "+5"]);
        let inner = root.get("k").expect("a mapping");
        assert_eq!(inner.get("a").and_then(Node::text), Some("1_0"));
        assert_eq!(inner.get("b").and_then(Node::text), Some("true"));
    }
}
