//! The caller's identity, and the rights that a request needs.
//!
//! Every request passes [`guard`]. It identifies the caller, looks up the rights that the path
//! needs, and hands the identity to the handler. A path that is not in the table of [`need`] is for
//! admins alone.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::RequestPartsExt;
use axum::body::Body;
use axum::extract::connect_info::{ConnectInfo, Connected};
use axum::extract::{MatchedPath, RawPathParams, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::serve::IncomingStream;
use europa_api::rest::{ProblemDetails, Whoami};
use europa_api::{ROOT, Role};
use europa_node::By;
use http_body_util::Limited;
use tokio::net::UnixListener;

use crate::owners;
use crate::problem::Problem;
use crate::state::Api;

/// Largest request of a user that is no admin.
const MOST_BYTES: usize = 16 << 20;

/// Origin of requests by programs of slow paths.
const INSIDE: &str = "a slow path";

/// The other end of a connection.
#[derive(Clone, Debug)]
pub(crate) enum Peer {
    /// A process of this machine, by its user id from the kernel.
    Local(Option<u32>),
    /// A connection by TLS.
    Remote {
        from: SocketAddr,
        /// The identity that the connection's requests have proved.
        proved: Proved,
    },
}

/// The token that a connection has shown, with the generation of its user's document.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proved(Arc<Mutex<Option<(String, String, u64)>>>);

impl Proved {
    /// Token id, user and generation.
    pub(crate) fn get(&self) -> Option<(String, String, u64)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, proof: (String, String, u64)) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(proof);
    }
}

impl Connected<IncomingStream<'_, UnixListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Peer {
        Peer::Local(stream.io().peer_cred().ok().map(|peer| peer.uid()))
    }
}

/// The identity of a request.
#[derive(Clone, Debug)]
pub(crate) struct Who {
    name: String,
    from: String,
    /// `None`: all rights.
    roles: Option<Arc<BTreeMap<String, Role>>>,
}

impl Who {
    /// The machine's administrator.
    pub(crate) fn root() -> Who {
        Who { name: ROOT.to_owned(), from: "local".to_owned(), roles: None }
    }

    /// A program in a slow path of a slice.
    pub(crate) fn inside(slice: &str) -> Who {
        let roles = BTreeMap::from([(slice.to_owned(), Role::Owner)]);
        let (name, from) = (format!("slice {slice}"), INSIDE.to_owned());
        Who { name, from, roles: Some(Arc::new(roles)) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is no program of a slow path.
    pub(crate) fn is_outside(&self) -> bool {
        self.from != INSIDE
    }

    pub(crate) fn is_admin(&self) -> bool {
        self.roles.is_none()
    }

    /// Roles on slices; `None` for a caller with all rights.
    pub(crate) fn roles(&self) -> Option<Arc<BTreeMap<String, Role>>> {
        self.roles.clone()
    }

    /// The caller in the form of events.
    pub(crate) fn by(&self) -> By {
        By { who: self.name.clone(), from: self.from.clone() }
    }

    /// Whether the role on a slice suffices. A slice without a role counts as missing.
    pub(crate) fn may(&self, needed: Role, slice: &str) -> Result<(), ProblemDetails> {
        let Some(roles) = &self.roles else { return Ok(()) };
        match roles.get(slice) {
            None => Err(ProblemDetails::not_found(format!("there is no slice {slice}"))),
            Some(role) if *role < needed => Err(ProblemDetails::forbidden(format!(
                "this needs the role {} on slice {slice}; yours is {}",
                needed.word(),
                role.word()
            ))),
            Some(_) => Ok(()),
        }
    }

    pub(crate) fn whoami(&self) -> Whoami {
        let roles = self.roles.as_ref().map(|roles| (**roles).clone()).unwrap_or_default();
        let (name, from) = (self.name.clone(), self.from.clone());
        Whoami { name, admin: self.is_admin(), roles, from }
    }
}

/// The rights that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// Any known caller; the handler shows only objects that the caller may see.
    Known,
    /// A role on the slice of the path.
    Slice(Role),
    /// All rights.
    Admin,
}

fn need(method: &Method, path: &str) -> Need {
    match (method.as_str(), path) {
        (
            "GET",
            "/v1/whoami" | "/v1/node" | "/v1/stats" | "/metrics" | "/v1/events" | "/v1/captures"
            | "/v1/openapi.json" | "/v1/schema.json" | "/v1/{kinds}" | "/v1/{kinds}/{name}"
            | "/v1/lsps" | "/v1/lsps/{flow}",
        )
        | ("PUT" | "DELETE", "/v1/{kinds}/{name}" | "/v1/{kinds}/{slice}/{name}")
        | ("POST", "/v1/apply")
        | ("GET", "/v1/users/{user}/tokens")
        | ("DELETE", "/v1/users/{user}/tokens/{id}") => Need::Known,
        (
            "GET",
            "/v1/{kinds}/{slice}/{name}"
            | "/v1/logs/{slice}/{name}"
            | "/v1/slices/{slice}/filters"
            | "/v1/routers/{slice}/{name}/handlers/{path}",
        ) => Need::Slice(Role::Viewer),
        ("PUT", "/v1/routers/{slice}/{name}/handlers/{path}")
        | ("POST", "/v1/routers/{slice}/{name}/restart") => Need::Slice(Role::Operator),
        ("POST", "/v1/slices/{slice}/filters") => Need::Slice(Role::Owner),
        _ => Need::Admin,
    }
}

/// The token of a request.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

async fn identify(api: &Api, peer: Option<Peer>, token: &str) -> Result<Who, ProblemDetails> {
    match peer {
        Some(Peer::Local(Some(0))) => Ok(Who::root()),
        Some(Peer::Remote { from, proved }) => {
            let proof = api.tokens.check(token);
            let (id, name) = proof.ok_or_else(ProblemDetails::unauthenticated)?;
            let found = api.requests.user(&name).await?;
            let (user, generation) = found.ok_or_else(ProblemDetails::unauthenticated)?;
            proved.set((id, name.clone(), generation));
            let roles = user.roles.0.iter().map(|(slice, role)| (slice.to_string(), role.value));
            let roles = (!user.is_admin()).then(|| Arc::new(roles.collect()));
            Ok(Who { name, from: from.to_string(), roles })
        }
        _ => Err(ProblemDetails::unauthenticated()),
    }
}

/// The request, if its caller may make it and may see the objects in its path.
async fn allow(who: &Who, request: Request) -> Result<(Request, String), ProblemDetails> {
    if who.is_admin() {
        return Ok((request, String::new()));
    }
    let (mut parts, body) = request.into_parts();
    let Some(path) = parts.extensions.get::<MatchedPath>().cloned() else {
        // The path is invalid, which is no secret.
        return Ok((Request::from_parts(parts, body), String::new()));
    };
    let params = parts.extract::<RawPathParams>().await;
    let params = params.map_err(|error| ProblemDetails::bad_request(error.to_string()))?;
    let said: Vec<&str> = params.iter().map(|(_, value)| value).collect();
    match need(&parts.method, path.as_str()) {
        Need::Known => {}
        Need::Slice(role) => {
            let slice = params.iter().find(|(name, _)| *name == "slice").map(|(_, value)| value);
            who.may(role, slice.unwrap_or_default())?;
        }
        Need::Admin => return Err(ProblemDetails::forbidden("only an admin may do this")),
    }
    let said = said.join(" ");
    let body = Body::new(Limited::new(body, MOST_BYTES));
    Ok((Request::from_parts(parts, body), said))
}

/// Lets requests through whose caller may make them.
pub(crate) async fn guard(State(api): State<Api>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get().map(|ConnectInfo(peer): &ConnectInfo<Peer>| peer.clone());
    let token = bearer(request.headers()).unwrap_or_default().to_owned();
    let who = match identify(&api, peer, &token).await {
        Ok(who) => who,
        Err(problem) => {
            let unknown = problem.status == 401;
            let mut response = Problem(problem).into_response();
            if unknown {
                let scheme = HeaderValue::from_static("Bearer");
                response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
            }
            return response;
        }
    };
    let (mut request, said) = match allow(&who, request).await {
        Ok(allowed) => allowed,
        Err(problem) => return Problem(problem).into_response(),
    };
    request.extensions_mut().insert(who.clone());
    let response = next.run(request).await;
    match who.roles() {
        Some(roles) if !response.status().is_success() => {
            owners::hide(&api, &roles, &said, response).await
        }
        _ => response,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_listed_is_for_admins() {
        for (method, path, wanted) in [
            ("POST", "/v1/down", Need::Admin),
            ("GET", "/v1/logs/{of}", Need::Admin),
            ("GET", "/v1/new", Need::Admin),
            ("POST", "/v1/users/{user}/tokens", Need::Admin),
            ("GET", "/v1/routers/{slice}/{name}/handlers/{path}", Need::Slice(Role::Viewer)),
            ("PUT", "/v1/routers/{slice}/{name}/handlers/{path}", Need::Slice(Role::Operator)),
            ("POST", "/v1/slices/{slice}/filters", Need::Slice(Role::Owner)),
            ("GET", "/v1/events", Need::Known),
        ] {
            let method: Method = method.parse().expect("a method");
            assert_eq!(need(&method, path), wanted, "{method} {path}");
        }
    }

    #[test]
    fn a_slice_without_a_role_is_not_there() {
        let who = Who::inside("red");
        assert!(who.may(Role::Owner, "red").is_ok());
        assert_eq!(who.may(Role::Viewer, "blue").map_err(|p| p.status), Err(404));
        let viewer = BTreeMap::from([("red".to_owned(), Role::Viewer)]);
        let who = Who { roles: Some(Arc::new(viewer)), ..who };
        assert_eq!(who.may(Role::Operator, "red").map_err(|p| p.status), Err(403));
        assert!(Who::root().may(Role::Owner, "blue").is_ok());
    }

    #[test]
    fn tokens_of_requests() {
        for (value, wanted) in
            [("Bearer x", Some("x")), ("bearer  x ", Some("x")), ("Basic x", None), ("x", None)]
        {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_static(value));
            assert_eq!(bearer(&headers), wanted, "{value}");
        }
    }
}
