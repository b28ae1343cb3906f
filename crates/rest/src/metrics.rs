//! `/metrics`: counters for Prometheus, here and, if the node has an address for it, on a TCP port
//! of its own.

use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use tokio::time::timeout;

use crate::lsps;
use crate::objects::shown_stats;
use crate::openmetrics::{CONTENT_TYPE, text};
use crate::problem::Problem;
use crate::state::Api;
use crate::who::Who;

/// Time limit for signallers to report which flows are up.
const PATIENCE: Duration = Duration::from_secs(1);

pub(crate) fn routes() -> Router<Api> {
    Router::new().route("/metrics", get(metrics))
}

/// Counters of everything, in the text format of OpenMetrics.
#[utoipa::path(get, path = "/metrics", tag = "node", responses(
    (status = 200, description = "Counters", content_type = "application/openmetrics-text")))]
pub(crate) async fn metrics(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
) -> Result<Response, Problem> {
    let stats = shown_stats(&api, &who).await?;
    // The counters do not wait for a signaller that does not answer.
    let flows = timeout(PATIENCE, lsps::all(&api, &who)).await;
    let flows = flows.ok().and_then(Result::ok).unwrap_or_default();
    let text = text(api.instance.name(), stats, flows);
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response())
}
