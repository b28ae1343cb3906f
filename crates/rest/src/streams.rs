//! `/v1/events` and `/v1/logs`: events and lines, once or as a stream.

use std::path::PathBuf;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use europa_api::rest::{Event, ProblemDetails};
use europa_node::logs;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::owners::View;
use crate::problem::Problem;
use crate::state::Api;
use crate::who::Who;

/// Interval of checks of a followed log.
const LOOK_EVERY: Duration = Duration::from_millis(200);

pub(crate) fn routes() -> Router<Api> {
    Router::new()
        .route("/v1/events", get(events))
        .route("/v1/logs/{of}", get(log))
        .route("/v1/logs/{slice}/{name}", get(router_log))
}

/// Options of `/v1/events`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Since {
    #[serde(default)]
    follow: bool,
    #[serde(default)]
    after: u64,
}

/// Options of a log.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Following {
    #[serde(default)]
    follow: bool,
    #[serde(default = "some")]
    lines: usize,
}

fn some() -> usize {
    200
}

/// The events, a JSON document a line, the oldest first.
#[utoipa::path(get, path = "/v1/events", tag = "node",
    params(("follow" = Option<bool>, Query, description = "Continue with new events"),
        ("after" = Option<u64>, Query, description = "Only events after this number")),
    responses((status = 200, description = "Events, one a line",
        body = ref("#/components/schemas/Event"), content_type = "application/x-ndjson")))]
pub(crate) async fn events(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
    Query(query): Query<Since>,
) -> Result<Response, Problem> {
    let lines = |events: &[Event]| -> String {
        let line = |event| serde_json::to_string(event).map_or(String::new(), |text| text + "\n");
        events.iter().map(line).collect()
    };
    let kind = [(header::CONTENT_TYPE, "application/x-ndjson")];
    if !query.follow {
        let (events, _) = after(&api, &who, query.after).await?;
        return Ok((kind, lines(&events)).into_response());
    }
    let (sender, receiver) = mpsc::channel::<Result<String, std::io::Error>>(16);
    tokio::spawn(async move {
        let mut watch = api.events.watch();
        let mut last = query.after;
        loop {
            watch.borrow_and_update();
            let Ok((new, newest)) = after(&api, &who, last).await else { return };
            last = newest;
            if !new.is_empty() && sender.send(Ok(lines(&new))).await.is_err() {
                return;
            }
            tokio::select! {
                changed = watch.changed() => if changed.is_err() { return },
                () = sender.closed() => return,
            }
        }
    });
    Ok((kind, Body::from_stream(ReceiverStream::new(receiver))).into_response())
}

/// Events after a number that the caller may see, and the number of the newest of all.
async fn after(api: &Api, who: &Who, number: u64) -> Result<(Vec<Event>, u64), ProblemDetails> {
    let view = View::of(api, who).await?;
    let events = match &view {
        Some(_) => api.events.after_stamp(number),
        None => api.events.after(number),
    };
    let newest = events.last().map_or(number, |event| event.sequence);
    let shown = match view {
        Some(view) => view.events(events),
        None => events,
    };
    Ok((shown, newest))
}

/// The log of `node` or `switch`, or the output of a host's commands.
#[utoipa::path(get, path = "/v1/logs/{of}", tag = "node",
    params(("of" = String, Path, description = "node, switch, or the name of a host"),
        ("follow" = Option<bool>, Query, description = "Continue with new lines"),
        ("lines" = Option<usize>, Query, description = "Number of last lines; default 200")),
    responses((status = 200, description = "The log", content_type = "text/plain")))]
pub(crate) async fn log(
    State(api): State<Api>,
    Path(of): Path<String>,
    Query(query): Query<Following>,
) -> Result<Response, Problem> {
    if matches!(of.as_str(), "node" | "switch") {
        return show(&api, &of, &query);
    }
    if !api.requests.has_host(&of).await? {
        let detail =
            format!("there is no log of {of}; there are node, switch, hosts, and SLICE/ROUTER");
        return Err(ProblemDetails::not_found(detail).into());
    }
    show(&api, &format!("host.{of}"), &query)
}

/// The log of a router, or of a program of its slow path: `router.program`.
#[utoipa::path(get, path = "/v1/logs/{slice}/{name}", tag = "node",
    params(("slice" = String, Path, description = "The slice"),
        ("name" = String, Path, description = "The router, or router.program"),
        ("follow" = Option<bool>, Query, description = "Continue with new lines"),
        ("lines" = Option<usize>, Query, description = "Number of last lines; default 200")),
    responses((status = 200, description = "The log", content_type = "text/plain")))]
pub(crate) async fn router_log(
    State(api): State<Api>,
    Path((slice, name)): Path<(String, String)>,
    Query(query): Query<Following>,
) -> Result<Response, Problem> {
    let of = format!("{slice}/{name}");
    // File names are derived from it, so only names of existing objects are accepted.
    api.requests.known_log(&of).await?;
    show(&api, &of, &query)
}

fn show(api: &Api, of: &str, query: &Following) -> Result<Response, Problem> {
    let path = api.instance.log(of);
    let (bytes, end) = match logs::tail(&path, query.lines) {
        Ok(found) => found,
        // No line was written yet, or the log is systemd's journal.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => (Vec::new(), 0),
        Err(error) => {
            let detail = format!("reading {}: {error}", path.display());
            return Err(ProblemDetails::failed(detail).into());
        }
    };
    let kind = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    if !query.follow {
        return Ok((kind, bytes).into_response());
    }
    let (sender, receiver) = mpsc::channel::<Result<Vec<u8>, std::io::Error>>(16);
    tokio::spawn(follow(path, bytes, end, sender));
    Ok((kind, Body::from_stream(ReceiverStream::new(receiver))).into_response())
}

async fn follow(
    path: PathBuf,
    mut bytes: Vec<u8>,
    mut end: u64,
    sender: mpsc::Sender<Result<Vec<u8>, std::io::Error>>,
) {
    loop {
        if !bytes.is_empty() && sender.send(Ok(bytes)).await.is_err() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = sender.closed() => return,
        }
        (bytes, end) = logs::since(&path, end).unwrap_or((Vec::new(), end));
    }
}
