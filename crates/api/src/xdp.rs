//! `fast_path: {xdp: …}`: an XDP program as a router's fast path.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::decode::{Context, Decode, Fields, entries};
use crate::host::{Texts, Word};
use crate::source::At;
use crate::tree::Node;

/// An XDP program: exactly one of `source` and `object`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Xdp {
    /// The program's source in C, relative to the YAML file. It is compiled where the file is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<At<String>>,
    /// The object file that clang made of the source, relative to the YAML file's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<At<String>>,
    /// Name of the program's function or section. Default: the only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<At<String>>,
    /// Values of the program's constants (`const volatile`), by name.
    #[serde(skip_serializing_if = "Texts::is_empty")]
    #[schemars(with = "Option<BTreeMap<String, Word>>")]
    pub constants: Texts,
    /// First entries of the program's maps: names of maps, and their keys and values. Maps of
    /// devices contain numbers of interfaces, from 1 on, in the order of the router's document.
    #[serde(skip_serializing_if = "Tables::is_empty")]
    #[schemars(with = "Option<Tables>")]
    pub maps: Tables,
    /// Stages that the program calls: names of program arrays, and their indices and programs.
    #[serde(skip_serializing_if = "Tables::is_empty")]
    #[schemars(with = "Option<Tables>")]
    pub tail_calls: Tables,
}

/// Names of maps and their entries, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tables(pub Vec<(At<String>, Texts)>);

impl Tables {
    /// Whether there are no tables.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Xdp {
    /// The field that names the program's file, and the file.
    pub fn file(&self) -> Option<(&'static str, &At<String>)> {
        let source = self.source.as_ref().map(|file| ("source", file));
        source.or_else(|| Some(("object", self.object.as_ref()?)))
    }
}

impl Decode for Xdp {
    fn decode(node: &Node, context: &mut Context) -> Option<Xdp> {
        let mut fields = Fields::open(node, "an XDP program", context)?;
        let source = fields.optional("source");
        let object = fields.optional("object");
        let message = "an XDP program is one of source, object";
        fields.one_of(&["source", "object"], message, Some("neither of them"));
        let program = fields.optional("program");
        let constants = fields.optional("constants").unwrap_or_default();
        let maps = fields.optional("maps").unwrap_or_default();
        let tail_calls = fields.optional("tail_calls").unwrap_or_default();
        fields.close();
        Some(Xdp { source, object, program, constants, maps, tail_calls })
    }
}

impl Decode for Tables {
    fn decode(node: &Node, context: &mut Context) -> Option<Tables> {
        entries(node, context, "a mapping from names of maps to their entries").map(Tables)
    }
}

impl Serialize for Tables {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, entries)| (name, entries)))
    }
}

impl JsonSchema for Tables {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Tables".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "object",
            "additionalProperties": generator.subschema_for::<BTreeMap<String, Word>>(),
        })
    }
}
