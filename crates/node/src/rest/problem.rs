//! Problems as RFC 9457 has them.

use axum::Json;
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use europa_api::rest::ProblemDetails;

/// An answer that says why there is no other.
pub(super) struct Problem(pub(super) ProblemDetails);

/// What a handler returns.
pub(super) type Answer<T> = Result<Json<T>, Problem>;

impl From<ProblemDetails> for Problem {
    fn from(details: ProblemDetails) -> Problem {
        Problem(details)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status);
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let kind = [(header::CONTENT_TYPE, "application/problem+json")];
        (status, kind, Json(self.0)).into_response().with_type()
    }
}

trait WithType {
    fn with_type(self) -> Response;
}

impl WithType for Response {
    fn with_type(mut self) -> Response {
        let kind = header::HeaderValue::from_static("application/problem+json");
        self.headers_mut().insert(header::CONTENT_TYPE, kind);
        self
    }
}

pub(super) async fn no_such_path(uri: Uri) -> Problem {
    ProblemDetails::not_found(format!(
        "there is nothing at {}; GET /v1/openapi.json lists everything",
        uri.path()
    ))
    .into()
}

pub(super) async fn no_such_method(method: Method, uri: Uri) -> Problem {
    let detail = format!("{} cannot be done to {}", method, uri.path());
    ProblemDetails::new("method", "This cannot be done to it", 405, detail).into()
}
