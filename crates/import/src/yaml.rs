//! A YAML tree in which every value knows its line.

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

/// The kind of a value. Numbers and truth values are kept as they read.
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

    /// Keys and values of a mapping; nothing else has any.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &Node)> {
        let entries = match &self.value {
            Value::Map(entries) => entries.as_slice(),
            _ => &[],
        };
        entries.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The entries of a list; nothing else has any.
    pub(crate) fn items(&self) -> &[Node] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    /// A text, or a number as it reads.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Parses one document.
pub(crate) fn parse(text: &str) -> Result<Node, ImportError> {
    let spanned = serde_saphyr::from_str::<Spanned<Value>>(text).map_err(|error| ImportError {
        line: error.location().map_or(1, |location| location.line()),
        message: error.without_snippet().to_string(),
    })?;
    Ok(node(spanned))
}

fn node(spanned: Spanned<Value>) -> Node {
    Node { line: spanned.referenced.line(), value: spanned.value }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(Builder)
    }
}

struct Builder;

impl<'de> Visitor<'de> for Builder {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(Builder)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Text(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Text(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Text(value.to_string()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Value, E> {
        Ok(Value::Text(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Text(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element::<Spanned<Value>>()? {
            items.push(node(item));
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = map.next_entry::<Spanned<Value>, Spanned<Value>>()? {
            let mut value = node(value);
            if let Value::Text(name) = key.value {
                // A note points at the key: a block's first line may be far below it.
                value.line = key.referenced.line();
                entries.push((name, value));
            }
        }
        Ok(Value::Map(entries))
    }
}
