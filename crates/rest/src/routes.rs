//! All paths of the interface.

use axum::Router;

use crate::state::Api;
use crate::{
    apply, captures, filters, handlers, lsps, metrics, objects, openapi, problem, streams, tokens,
    who,
};

/// Largest request: a configuration of very many routers.
const MOST_BYTES: usize = 64 << 20;

/// The paths, with the rights that they need.
pub(crate) fn routes(api: Api) -> Router {
    Router::new()
        .merge(apply::routes())
        .merge(objects::routes())
        .merge(filters::routes())
        .merge(handlers::routes())
        .merge(lsps::routes())
        .merge(metrics::routes())
        .merge(streams::routes())
        .merge(openapi::routes())
        .merge(captures::routes())
        .merge(tokens::routes())
        .fallback(problem::no_such_path)
        .method_not_allowed_fallback(problem::no_such_method)
        .layer(axum::middleware::from_fn_with_state(api.clone(), who::guard))
        .layer(axum::extract::DefaultBodyLimit::max(MOST_BYTES))
        .layer(axum::middleware::map_response(problem::as_problem))
        .with_state(api)
}
