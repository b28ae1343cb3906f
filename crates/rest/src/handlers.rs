//! `/v1/routers/SLICE/NAME/...`: a running router's handlers, and its restart.

use axum::extract::{Path, Query, State};
use axum::middleware::from_extractor;
use axum::routing::{get, post, put};
use axum::{Extension, Json, Router};
use europa_api::rest::{HandlerValue, ProblemDetails, Said};
use europa_router::orders::Order;
use serde::Deserialize;

use crate::problem::{Answer, NoOptions, Problem};
use crate::state::Api;
use crate::who::Who;

pub(crate) fn routes() -> Router<Api> {
    Router::new()
        .route("/v1/routers/{slice}/{name}/handlers/{path}", put(write))
        .route("/v1/routers/{slice}/{name}/restart", post(restart))
        .route_layer(from_extractor::<NoOptions>())
        .route("/v1/routers/{slice}/{name}/handlers/{path}", get(read))
}

/// The parameter of a reader.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameter {
    #[serde(default)]
    parameter: String,
}

/// Reads a handler of an element, like `route.table`.
#[utoipa::path(get, path = "/v1/routers/{slice}/{name}/handlers/{path}", tag = "routers",
    params(("slice" = String, Path, description = "The slice"),
        ("name" = String, Path, description = "The router"),
        ("path" = String, Path, description = "element.handler"),
        ("parameter" = Option<String>, Query, description = "Parameter of handlers that take one")),
    responses(
        (status = 200, description = "The value", body = ref("#/components/schemas/HandlerValue")),
        (status = 409, description = "The router refuses or does not run",
            body = ref("#/components/schemas/ProblemDetails"), content_type = "application/problem+json")))]
pub(crate) async fn read(
    State(api): State<Api>,
    Path((slice, name, path)): Path<(String, String, String)>,
    Query(query): Query<Parameter>,
) -> Answer<HandlerValue> {
    let order = Order::Read { path, parameter: query.parameter };
    Ok(Json(HandlerValue { value: ask(&api, format!("{slice}/{name}"), order).await? }))
}

/// Writes a handler of an element.
#[utoipa::path(put, path = "/v1/routers/{slice}/{name}/handlers/{path}", tag = "routers",
    params(("slice" = String, Path, description = "The slice"),
        ("name" = String, Path, description = "The router"),
        ("path" = String, Path, description = "element.handler")),
    request_body = ref("#/components/schemas/HandlerValue"),
    responses(
        (status = 200, description = "It is written", body = ref("#/components/schemas/HandlerValue")),
        (status = 409, description = "The router refuses or does not run",
            body = ref("#/components/schemas/ProblemDetails"), content_type = "application/problem+json")))]
pub(crate) async fn write(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
    Path((slice, name, path)): Path<(String, String, String)>,
    Json(value): Json<HandlerValue>,
) -> Answer<HandlerValue> {
    let order = Order::Write { path: path.clone(), value: value.value };
    let name = format!("{slice}/{name}");
    let value = ask(&api, name.clone(), order).await?;
    api.events.asked(who.by(), ("router", &name), "Written", format!("handler {path}"));
    Ok(Json(HandlerValue { value }))
}

/// Gives a router a new process and a new pool.
#[utoipa::path(post, path = "/v1/routers/{slice}/{name}/restart", tag = "routers",
    params(("slice" = String, Path, description = "The slice"),
        ("name" = String, Path, description = "The router")),
    responses(
        (status = 200, description = "The new process forwards", body = ref("#/components/schemas/Said")),
        (status = 404, description = "No such router",
            body = ref("#/components/schemas/ProblemDetails"), content_type = "application/problem+json")))]
pub(crate) async fn restart(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
    Path((slice, name)): Path<(String, String)>,
) -> Answer<Said> {
    let name = format!("{slice}/{name}");
    api.requests.restart(&name).await?;
    let message = "a new process forwards".to_owned();
    api.events.asked(who.by(), ("router", &name), "Restarted", message);
    Ok(Json(Said::default()))
}

async fn ask(api: &Api, name: String, order: Order) -> Result<String, Problem> {
    api.requests.known_router(&name).await?;
    api.requests.ask_router(&name, order).await?.map_err(|why| {
        let detail = format!("router {name}: {why}");
        // A router has no other answer than a text.
        let is_missing =
            why.starts_with("no element ") || why.ends_with("' handler") && why.starts_with("no '");
        let problem = if is_missing { ProblemDetails::not_found } else { ProblemDetails::conflict };
        // The answer is in the router's own words.
        problem(detail).in_own_words().into()
    })
}
