//! The JSON Schema of the YAML.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};

use crate::cluster_node::ClusterNode;
use crate::filters::Filters;
use crate::flow::Flow;
use crate::host::Host;
use crate::link::Link;
use crate::port::Port;
use crate::router::Router;
use crate::slice::Slice;
use crate::user::User;

/// The JSON Schema of one document, for editors and validators.
///
/// It describes the form of a document; [`parse`](crate::parse) also checks rules over several
/// documents.
pub fn schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let documents = [
        document::<Port>("port", &mut generator),
        document::<Slice>("slice", &mut generator),
        document::<Link>("link", &mut generator),
        document::<Host>("host", &mut generator),
        document::<Router>("router", &mut generator),
        document::<Filters>("filters", &mut generator),
        document::<Flow>("flow", &mut generator),
        document::<User>("user", &mut generator),
        document::<ClusterNode>("node", &mut generator),
    ];
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Europa configuration",
        "description": "One document of a configuration; a YAML file holds several, separated by ---.",
        "oneOf": documents,
        "$defs": generator.take_definitions(true),
    })
}

/// The schema of `T` with the field `kind`.
fn document<T: JsonSchema>(kind: &str, generator: &mut SchemaGenerator) -> Value {
    let mut schema = T::json_schema(generator).to_value();
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.insert("kind".to_owned(), json!({ "const": kind }));
    }
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.push(json!("kind"));
    }
    schema
}
