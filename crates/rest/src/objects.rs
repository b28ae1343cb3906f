//! `/v1/{ports,slices,links,hosts,routers,filters,flows,users}`, `/v1/node`, `/v1/stats` and
//! `/v1/whoami`: the state of the node.

use std::collections::HashSet;

use axum::extract::{Path, Query, State};
use axum::middleware::from_extractor;
use axum::routing::{get, post, put};
use axum::{Extension, Json, Router};
use europa_api::rest::{Lease, NodeInfo, Object, Objects, ProblemDetails, Said, Whoami};
use europa_api::stats::{LedgerStats, NodeStats};
use europa_router::orders::Order;
use serde::Deserialize;
use tokio::task::JoinSet;

use crate::owners::{self, View};
use crate::problem::{Answer, NoOptions, Problem};
use crate::state::Api;
use crate::who::Who;

/// Kinds by the plural that stands in paths.
pub(crate) const KINDS: [(&str, &str); 8] = [
    ("ports", "port"),
    ("slices", "slice"),
    ("links", "link"),
    ("hosts", "host"),
    ("routers", "router"),
    ("filters", "filters"),
    ("flows", "flow"),
    ("users", "user"),
];

pub(crate) fn routes() -> Router<Api> {
    Router::new()
        .route("/v1/node", get(node))
        .route("/v1/whoami", get(whoami))
        .route("/v1/down", post(down))
        .route("/v1/lease", put(lease))
        .route("/v1/{kinds}", get(list))
        .route("/v1/{kinds}/{name}", get(one))
        .route("/v1/{kinds}/{slice}/{name}", get(router))
        .route_layer(from_extractor::<NoOptions>())
        .route("/v1/stats", get(stats))
}

/// The selected counters, in addition to cheap ones.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    /// The routers are asked for their ledgers.
    #[serde(default)]
    ledgers: bool,
}

/// The kind of a plural.
pub(crate) fn kind(plural: &str) -> Result<&'static str, Problem> {
    KINDS.iter().find(|(many, _)| *many == plural).map(|(_, kind)| *kind).ok_or_else(|| {
        let known: Vec<&str> = KINDS.iter().map(|(many, _)| *many).collect();
        ProblemDetails::not_found(format!(
            "there is nothing at /v1/{plural}; kinds of objects are {}",
            known.join(", ")
        ))
        .into()
    })
}

/// About the node itself.
#[utoipa::path(get, path = "/v1/node", tag = "node", responses(
    (status = 200, description = "About the node itself", body = ref("#/components/schemas/NodeInfo"))))]
pub(crate) async fn node(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
) -> Answer<NodeInfo> {
    let mut info = api.requests.info().await?;
    info.metrics_at = api.settings.metrics_at.map(|at| at.to_string());
    info.listens_at = api.settings.listening.as_ref().map(|one| one.at.to_string());
    Ok(Json(if who.is_admin() { info } else { owners::node(info) }))
}

/// The caller's identity, as the node sees it.
#[utoipa::path(get, path = "/v1/whoami", tag = "node", responses(
    (status = 200, description = "The caller", body = ref("#/components/schemas/Whoami"))))]
pub(crate) async fn whoami(Extension(who): Extension<Who>) -> Json<Whoami> {
    Json(who.whoami())
}

/// Counters of all routers, interfaces and ports.
#[utoipa::path(get, path = "/v1/stats", tag = "node",
    params(("ledgers" = Option<bool>, Query,
        description = "Whether to include the packet ledger of each router")), responses(
    (status = 200, description = "Counters", body = ref("#/components/schemas/NodeStats"))))]
pub(crate) async fn stats(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
    Query(wanted): Query<Wanted>,
) -> Answer<NodeStats> {
    let mut stats = shown_stats(&api, &who).await?;
    if wanted.ledgers {
        let shown = stats.routers.iter().map(|router| router.name.clone()).collect();
        for (name, ledger) in ledgers(&api, shown).await? {
            if let Some(router) = stats.routers.iter_mut().find(|router| router.name == name) {
                router.ledger = Some(ledger);
            }
        }
    }
    Ok(Json(stats))
}

/// Counters of the objects that the caller may see.
pub(crate) async fn shown_stats(api: &Api, who: &Who) -> Result<NodeStats, ProblemDetails> {
    let stats = api.requests.stats().await?;
    let view = View::of(api, who).await?;
    Ok(match view {
        Some(view) => view.stats(stats),
        None => stats,
    })
}

/// Asks routers at once where their packets are. A router that does not answer has no ledger.
async fn ledgers(
    api: &Api,
    shown: HashSet<String>,
) -> Result<Vec<(String, LedgerStats)>, ProblemDetails> {
    let mut asked = JoinSet::new();
    let accountable = api.requests.accountable().await?;
    for name in accountable.into_iter().filter(|name| shown.contains(name)) {
        let requests = api.requests.clone();
        asked.spawn(async move {
            let answer = requests.ask_router(&name, Order::Ledger).await.ok()?.ok()?;
            Some((name, serde_json::from_str(&answer).ok()?))
        });
    }
    Ok(asked.join_all().await.into_iter().flatten().collect())
}

/// Ends the node and removes all its objects. Answers when that is done.
#[utoipa::path(post, path = "/v1/down", tag = "node", responses(
    (status = 200, description = "It is done", body = ref("#/components/schemas/Said"))))]
pub(crate) async fn down(State(api): State<Api>, Extension(who): Extension<Who>) -> Answer<Said> {
    api.events.asked(who.by(), ("node", ""), "Down", "everything is taken down".to_owned());
    Ok(Json(api.requests.end().await?))
}

/// The latest deadline of a lease that is not a mistake, from now on.
const LONGEST_LEASE_NS: u64 = 60_000_000_000;

/// Notes until when the node has a lease in its cluster.
///
/// Until then, ports of routers with `without_lease: stop` carry frames. A cluster's agent calls
/// this after each renewal.
#[utoipa::path(put, path = "/v1/lease", tag = "node",
    request_body = ref("#/components/schemas/Lease"),
    responses((status = 200, description = "It is noted", body = ref("#/components/schemas/Said"))))]
pub(crate) async fn lease(State(api): State<Api>, Json(lease): Json<Lease>) -> Answer<Said> {
    let latest = europa_node::boot_ns().saturating_add(LONGEST_LEASE_NS);
    if lease.deadline_ns > latest {
        return Err(ProblemDetails::bad_request(format!(
            "deadline_ns {} is more than 60 s after now: it is in nanoseconds of CLOCK_BOOTTIME",
            lease.deadline_ns
        ))
        .into());
    }
    api.requests.renew(lease.deadline_ns).await?;
    Ok(Json(Said::default()))
}

/// All objects of a kind.
#[utoipa::path(get, path = "/v1/{kinds}", tag = "objects",
    params(("kinds" = String, Path, description = "ports, slices, links, hosts, routers, filters, flows or users")),
    responses(
        (status = 200, description = "The objects", body = ref("#/components/schemas/Objects")),
        (status = 404, description = "No such kind", body = ref("#/components/schemas/ProblemDetails"),
            content_type = "application/problem+json")))]
pub(crate) async fn list(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
    Path(kinds): Path<String>,
) -> Answer<Objects> {
    Ok(Json(Objects { items: objects(&api, &who, kind(&kinds)?).await? }))
}

/// Objects of a kind that the caller may see.
pub(crate) async fn objects(
    api: &Api,
    who: &Who,
    kind: &'static str,
) -> Result<Vec<Object>, ProblemDetails> {
    let objects = api.requests.objects(kind).await?;
    let view = View::of(api, who).await?;
    Ok(match view {
        Some(view) => view.objects(objects),
        None => objects,
    })
}

/// One port, slice or link.
#[utoipa::path(get, path = "/v1/{kinds}/{name}", tag = "objects",
    params(("kinds" = String, Path, description = "ports, slices or links"),
        ("name" = String, Path, description = "Its name")),
    responses(
        (status = 200, description = "The object", body = ref("#/components/schemas/Object")),
        (status = 404, description = "No such object", body = ref("#/components/schemas/ProblemDetails"),
            content_type = "application/problem+json")))]
pub(crate) async fn one(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
    Path((kinds, name)): Path<(String, String)>,
) -> Answer<Object> {
    find(&api, &who, kind(&kinds)?, name).await
}

/// One router.
#[utoipa::path(get, path = "/v1/routers/{slice}/{name}", tag = "objects",
    params(("slice" = String, Path, description = "The slice that owns it"),
        ("name" = String, Path, description = "Its name")),
    responses(
        (status = 200, description = "The router", body = ref("#/components/schemas/Object")),
        (status = 404, description = "No such router", body = ref("#/components/schemas/ProblemDetails"),
            content_type = "application/problem+json")))]
pub(crate) async fn router(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
    Path((kinds, slice, name)): Path<(String, String, String)>,
) -> Answer<Object> {
    find(&api, &who, kind(&kinds)?, format!("{slice}/{name}")).await
}

async fn find(api: &Api, who: &Who, kind: &'static str, name: String) -> Answer<Object> {
    let objects = objects(api, who, kind).await?;
    match objects.iter().find(|object| object.name == name) {
        Some(object) => Ok(Json(object.clone())),
        None => Err(missing(kind, &name, &objects).into()),
    }
}

pub(crate) fn missing(kind: &str, name: &str, objects: &[Object]) -> ProblemDetails {
    let names: Vec<&str> = objects.iter().map(|object| object.name.as_str()).collect();
    let known = match names.as_slice() {
        [] => "there is none at all".to_owned(),
        names => format!("there are: {}", names.join(", ")),
    };
    ProblemDetails::not_found(format!("there is no {kind} {name}; {known}"))
}
