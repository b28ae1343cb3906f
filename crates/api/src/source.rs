//! Files and positions in them.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};

/// The text of one YAML file.
#[derive(Clone, Debug)]
pub struct Source {
    /// The file's name in error messages; files that the YAML names are looked up in the same
    /// folder.
    pub path: PathBuf,
    /// The file's content.
    pub text: String,
}

/// A range of bytes in one of the files that were read together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The file: its index in the list of sources.
    pub source: u32,
    /// First byte.
    pub start: u32,
    /// The position after the last byte.
    pub end: u32,
}

/// A value and its place in the text. Two of them are equal if their values are.
#[derive(Clone, Copy)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// The value's place.
    pub place: Place,
}

impl<T> Deref for At<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: PartialEq> PartialEq for At<T> {
    fn eq(&self, other: &At<T>) -> bool {
        self.value == other.value
    }
}

impl<T: Eq> Eq for At<T> {}

impl<T: fmt::Debug> fmt::Debug for At<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl<T: fmt::Display> fmt::Display for At<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl<T: Serialize> Serialize for At<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

impl<T: JsonSchema> JsonSchema for At<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}
