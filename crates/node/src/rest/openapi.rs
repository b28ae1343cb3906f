//! `/v1/openapi.json` and `/v1/schema.json`: what can be said, for programs.

use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use utoipa::OpenApi;

use super::{Api, apply, filters, handlers, metrics, objects, streams};

pub(super) fn routes() -> Router<Api> {
    Router::new()
        .route("/v1/openapi.json", get(async || Json(openapi())))
        .route("/v1/schema.json", get(async || Json(europa_api::schema())))
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Europa",
        description = "The node's REST interface, on /run/europa/NAME/node.sock. \
            Errors are application/problem+json (RFC 9457)."
    ),
    paths(
        apply::apply,
        apply::put_one,
        apply::put_router,
        apply::delete_one,
        apply::delete_router,
        objects::node,
        objects::stats,
        objects::down,
        objects::list,
        objects::one,
        objects::router,
        filters::list,
        filters::change,
        handlers::read,
        handlers::write,
        handlers::restart,
        metrics::metrics,
        streams::events,
        streams::log,
        streams::router_log,
    )
)]
struct Description;

/// The OpenAPI description of the REST interface. Its schemas are those of `europa-api`.
pub fn openapi() -> Value {
    let mut document = serde_json::to_value(Description::openapi()).unwrap_or_default();
    if let Some(document) = document.as_object_mut() {
        document.insert("components".to_owned(), json!({ "schemas": europa_api::rest::schemas() }));
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(name)) = map.get("$ref") {
                    found.push(name.clone());
                }
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(list) => list.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = openapi();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 20, "{found:?}");
        for name in found {
            let pointer = name.trim_start_matches('#');
            assert!(document.pointer(pointer).is_some(), "{name} is nowhere");
        }
        assert!(document["paths"].as_object().is_some_and(|paths| paths.len() >= 12));
    }
}
