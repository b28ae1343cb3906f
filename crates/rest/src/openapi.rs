//! `/v1/openapi.json` and `/v1/schema.json`: the interface, for programs.

use axum::middleware::from_extractor;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use utoipa::OpenApi;

use crate::problem::NoOptions;
use crate::state::Api;
use crate::{apply, captures, filters, handlers, lsps, metrics, objects, streams, tokens};

pub(crate) fn routes() -> Router<Api> {
    Router::new()
        .route("/v1/openapi.json", get(description))
        .route("/v1/schema.json", get(schema))
        .route_layer(from_extractor::<NoOptions>())
}

/// This description of the REST interface.
#[utoipa::path(get, path = "/v1/openapi.json", tag = "node", operation_id = "openapi", responses(
    (status = 200, description = "The OpenAPI description", content_type = "application/json")))]
async fn description() -> Json<Value> {
    Json(openapi())
}

/// The JSON Schema of the YAML.
#[utoipa::path(get, path = "/v1/schema.json", tag = "node", responses(
    (status = 200, description = "The JSON Schema", content_type = "application/json")))]
async fn schema() -> Json<Value> {
    Json(europa_api::schema())
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Europa",
        description = "The node's REST interface, on /run/europa/NAME/node.sock and, by TLS with a token, \
            where `europa up --listen` says. \
            Errors are application/problem+json (RFC 9457)."
    ),
    paths(
        apply::apply,
        apply::put_one,
        apply::put_router,
        apply::delete_one,
        apply::delete_router,
        objects::node,
        objects::whoami,
        objects::stats,
        objects::down,
        objects::lease,
        objects::list,
        objects::one,
        objects::router,
        filters::list,
        filters::change,
        handlers::read,
        handlers::write,
        handlers::restart,
        lsps::list,
        lsps::one,
        metrics::metrics,
        streams::events,
        streams::log,
        streams::router_log,
        captures::capture,
        tokens::list,
        tokens::create,
        tokens::revoke,
        description,
        schema,
    )
)]
struct Description;

/// The errors of any request.
const REFUSED: &[(&str, &str)] = &[
    ("400", "The request is invalid, for example by an unknown option"),
    ("401", "The caller is unknown: no valid token"),
    ("403", "The caller's role does not suffice"),
    ("404", "There is no such object"),
    ("503", "The node does not answer, as it ends"),
];
/// Additional errors of requests with a body.
const REFUSED_BODIES: &[(&str, &str)] = &[
    ("413", "The body is too large"),
    ("415", "The body is of another media type"),
    ("422", "The body is invalid; nothing was changed"),
];
/// Additional errors of requests that change desired state.
const REFUSED_CHANGES: &[(&str, &str)] = &[
    ("409", "Another change of desired state came first"),
    ("422", "Mistakes, or other objects need it; nothing was changed"),
    ("500", "The change failed and was undone"),
];

/// Adds the common answers to every request, unless its function has them.
fn add_refusals(document: &mut Value) {
    let paths = document.pointer_mut("/paths").and_then(Value::as_object_mut);
    for (path, operations) in paths.into_iter().flatten() {
        for (method, operation) in operations.as_object_mut().into_iter().flatten() {
            let is_object =
                matches!(method.as_str(), "put" | "delete") && !path.contains("handlers");
            let mut refusals = REFUSED.to_vec();
            if operation.get("requestBody").is_some() {
                refusals.extend(REFUSED_BODIES);
            }
            if is_object || path == "/v1/apply" {
                refusals.extend(REFUSED_CHANGES);
            }
            let responses = operation.get_mut("responses").and_then(Value::as_object_mut);
            let Some(responses) = responses else { continue };
            for (status, why) in refusals {
                responses.entry(status).or_insert_with(|| {
                    let schema = json!({ "$ref": "#/components/schemas/ProblemDetails" });
                    json!({
                        "description": why,
                        "content": { "application/problem+json": { "schema": schema } },
                    })
                });
            }
        }
    }
}

/// The OpenAPI description of the REST interface. Its schemas are those of `europa-api`.
pub fn openapi() -> Value {
    let mut document = serde_json::to_value(Description::openapi()).unwrap_or_default();
    add_refusals(&mut document);
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
    fn operations_have_names_of_their_own_and_say_what_may_be_wrong() {
        let document = openapi();
        let paths = document["paths"].as_object().unwrap();
        let operations = paths.values().flat_map(|path| path.as_object().unwrap().values());
        let mut names: Vec<&str> =
            operations.map(|operation| operation["operationId"].as_str().unwrap()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "{names:?}");
        for (path, method, statuses) in [
            ("/v1/apply", "post", &["200", "400", "409", "413", "415", "422", "500"] as &[&str]),
            ("/v1/{kinds}/{name}", "delete", &["200", "404", "409", "422", "503"]),
            ("/v1/{kinds}", "get", &["200", "400", "404"]),
            ("/v1/openapi.json", "get", &["200"]),
            ("/v1/schema.json", "get", &["200"]),
        ] {
            for status in statuses {
                let response = &document["paths"][path][method]["responses"][status];
                assert!(response.is_object(), "{method} {path}: {status}");
            }
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
