//! Problems as RFC 9457 has them.

use axum::Json;
use axum::body::to_bytes;
use axum::extract::Query;
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use europa_api::rest::ProblemDetails;
use serde::Deserialize;

/// The media type of all errors.
const KIND: &str = "application/problem+json";
/// Longest message of the library about a mistake of a request.
const MOST_REASON_BYTES: usize = 4096;

/// The query of a request without options: an unknown option is an error, as it would be ignored
/// otherwise.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// Extracted by a layer over requests that have no options.
pub(crate) type NoOptions = Query<Nothing>;

/// An error as the answer.
pub(crate) struct Problem(pub(crate) ProblemDetails);

/// The result of a handler.
pub(crate) type Answer<T> = Result<Json<T>, Problem>;

/// Marks a response that contains only names that the caller has sent or may see.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnWords;

impl From<ProblemDetails> for Problem {
    fn from(details: ProblemDetails) -> Problem {
        Problem(details)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status);
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let own_words = self.0.own_words;
        let mut response = (status, Json(self.0)).into_response();
        if own_words {
            response.extensions_mut().insert(OwnWords);
        }
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(KIND));
        response
    }
}

pub(crate) async fn no_such_path(uri: Uri) -> Problem {
    ProblemDetails::not_found(format!(
        "there is nothing at {}; GET /v1/openapi.json lists everything",
        uri.path()
    ))
    .into()
}

pub(crate) async fn no_such_method(method: Method, uri: Uri) -> Problem {
    let detail = format!("{} cannot be done to {}", method, uri.path());
    ProblemDetails::new("method", "This cannot be done to it", 405, detail).into()
}

/// Makes a problem of an answer in which the library refuses a request, with nothing but a text.
pub(crate) async fn as_problem(response: Response) -> Response {
    let status = response.status();
    let is_problem = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == KIND);
    if !status.is_client_error() || is_problem {
        return response;
    }
    let said = to_bytes(response.into_body(), MOST_REASON_BYTES).await.unwrap_or_default();
    let detail = match status {
        StatusCode::PAYLOAD_TOO_LARGE => "the body is too large".to_owned(),
        _ => String::from_utf8_lossy(&said).trim().to_owned(),
    };
    let details = ProblemDetails { status: status.as_u16(), ..ProblemDetails::bad_request(detail) };
    Problem(details).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::{UnixListener, UnixStream};

    use axum::Router;
    use axum::body::Bytes;
    use axum::extract::DefaultBodyLimit;
    use axum::middleware::{from_extractor, map_response};
    use axum::routing::{get, post};
    use europa_api::rest::HandlerValue;

    fn routes() -> Router {
        let without_options = Router::new()
            .route("/bare", get(async || "said"))
            .route_layer(from_extractor::<NoOptions>());
        Router::new()
            .route("/json", post(async |Json(_): Json<HandlerValue>| "said"))
            .route("/bytes", post(async |_: Bytes| "said"))
            .merge(without_options)
            .layer(DefaultBodyLimit::max(20))
            .layer(map_response(as_problem))
    }

    #[test]
    fn what_the_library_refuses_is_a_problem() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let listener = tokio::net::UnixListener::from_std(listener).unwrap();
                axum::serve(listener, routes()).await
            })
        });
        let json = "content-type: application/json\r\n";
        for (line, headers, body, status, detail) in [
            ("GET /bare", "", "", 200, "said"),
            ("GET /bare?x=1", "", "", 400, "unknown field `x`"),
            ("POST /json", json, "{\"value\":\"a\"}", 200, "said"),
            ("POST /json", "", "{\"value\":\"a\"}", 415, "application/json"),
            ("POST /json", json, "{\"value\":", 400, "JSON"),
            ("POST /json", json, "{\"value\":{}}", 422, "value"),
            ("POST /bytes", "", "more than there is room for", 413, "the body is too large"),
        ] {
            let mut stream = UnixStream::connect(&path).unwrap();
            let length = body.len();
            write!(
                stream,
                "{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\
                 content-length: {length}\r\n\r\n{body}"
            )
            .unwrap();
            let mut said = String::new();
            stream.read_to_string(&mut said).unwrap();
            assert!(said.starts_with(&format!("HTTP/1.1 {status} ")), "{line}: {said}");
            assert!(said.contains(detail), "{line}: {said}");
            let (head, _) = said.split_once("\r\n\r\n").unwrap();
            assert_eq!(head.matches(KIND).count(), usize::from(status != 200), "{line}: {said}");
        }
    }
}
