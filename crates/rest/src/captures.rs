//! `/v1/captures`: streams packets of routers.
//!
//! This is a client of the node's capture socket. Users get packets of routers in slices on which
//! they are operators.

use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use europa_api::Role;
use europa_api::rest::ProblemDetails;
use europa_capture::wire::Line;
use europa_capture::{CaptureError, Named, Session, describe, find};
use europa_node::Instance;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::problem::Problem;
use crate::state::Api;
use crate::who::Who;

/// Time between two looks at the rings.
const EVERY: Duration = Duration::from_millis(5);
/// Interval of empty lines: they show a reader that no packet has arrived, and detect a closed
/// reader.
const IDLE: Duration = Duration::from_millis(200);
/// Pieces that may wait for a slow reader.
const WAITING: usize = 16;

pub(crate) fn routes() -> Router<Api> {
    Router::new().route("/v1/captures", get(capture))
}

/// The settings of a requested capture.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    target: String,
    #[serde(default = "whole")]
    snaplen: u32,
    #[serde(default = "rate")]
    rate: u32,
}

fn whole() -> u32 {
    65_535
}

fn rate() -> u32 {
    100_000
}

/// Packets of interfaces, a JSON document a line: first the interfaces, then each packet.
#[utoipa::path(get, path = "/v1/captures", tag = "routers",
    params(("target" = String, Query, description = "SLICE/ROUTER.INTERFACE, SLICE/ROUTER, or slice:NAME; for admins also ports and links"),
        ("snaplen" = Option<u32>, Query, description = "Bytes of a frame, at most"),
        ("rate" = Option<u32>, Query, description = "Frames a second and direction, at most")),
    responses((status = 200, description = "Packets, one a line", content_type = "application/x-ndjson")))]
pub(crate) async fn capture(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
    Query(wanted): Query<Wanted>,
) -> Result<Response, Problem> {
    if wanted.snaplen < 14 || wanted.rate == 0 {
        let detail = "snaplen is at least 14 bytes, and rate at least 1";
        return Err(ProblemDetails::bad_request(detail).into());
    }
    let (begin, instance, asking) = (wanted.clone(), api.instance.clone(), who.clone());
    let begun = tokio::task::spawn_blocking(move || begin_at(&instance, &asking, &begin));
    let session = begun.await.map_err(|error| ProblemDetails::failed(error.to_string()))??;
    api.events.asked(who.by(), object(&wanted.target), "Captured", wanted.target.clone());
    let (sender, receiver) = mpsc::channel(WAITING);
    std::thread::Builder::new()
        .name("captured".into())
        .spawn(move || run(session, &sender))
        .map_err(|error| ProblemDetails::failed(error.to_string()))?;
    let kind = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((kind, Body::from_stream(ReceiverStream::new(receiver))).into_response())
}

/// The object whose event a capture is.
fn object(target: &str) -> (&str, &str) {
    match target.split_once('/') {
        Some(_) => ("router", target.split('.').next().unwrap_or(target)),
        None => match target.strip_prefix("slice:") {
            Some(slice) => ("slice", slice),
            None => ("node", ""),
        },
    }
}

fn refused(error: &CaptureError) -> ProblemDetails {
    match error {
        CaptureError::Refused(why) if why.starts_with("there is no") => {
            ProblemDetails::not_found(why.clone())
        }
        other => ProblemDetails::conflict(other.to_string()),
    }
}

fn begin_at(instance: &Instance, who: &Who, wanted: &Wanted) -> Result<Session, Problem> {
    let directory = instance.directory();
    let allowed = |router: &str| who.may(Role::Operator, slice_of(router));
    if let Some(roles) = who.roles() {
        // Checked before the capture starts, among the objects that the user sees.
        let mut scene = describe(&directory).map_err(|error| refused(&error))?;
        scene.routers.retain(|router| roles.contains_key(router.slice()));
        scene.ports.clear();
        scene.hosts.clear();
        let missing = |why: String| ProblemDetails::not_found(why).in_own_words();
        let found = find(&scene, &wanted.target).map_err(missing)?;
        found.iter().try_for_each(|one| allowed(&one.router))?;
    }
    let session = Session::begin(&directory, &wanted.target, wanted.snaplen, wanted.rate)
        .map_err(|error| refused(&error))?;
    // The name may include interfaces of other slices, such as a link's other end.
    session.interfaces.iter().try_for_each(|one: &Named| allowed(&one.router))?;
    Ok(session)
}

fn slice_of(router: &str) -> &str {
    router.split_once('/').map_or(router, |(slice, _)| slice)
}

type Piece = Result<String, std::io::Error>;

/// Sends packets until the reader closes or the node ends.
fn run(mut session: Session, reader: &mpsc::Sender<Piece>) {
    let mut text = Line::interfaces(&session.interfaces);
    let mut sent = Instant::now();
    loop {
        for packet in session.poll() {
            text += &Line::packet(&packet);
        }
        if text.is_empty() && sent.elapsed() >= IDLE {
            text = "\n".to_owned();
        }
        if text.is_empty() {
            std::thread::sleep(EVERY);
            continue;
        }
        if reader.blocking_send(Ok(std::mem::take(&mut text))).is_err() || session.check().is_err()
        {
            return;
        }
        sent = Instant::now();
    }
}
