//! `/v1/lsps`: flows and their paths, from signallers.

use axum::extract::{Path, State};
use axum::middleware::from_extractor;
use axum::routing::get;
use axum::{Extension, Json, Router};
use europa_api::lsp::{FlowPath, LspAt, LspList, PathError, PathHop, Reservable};
use europa_api::rest::ProblemDetails;
use europa_signaller::orders::{HopState, Shown};

use crate::problem::{Answer, NoOptions};
use crate::state::Api;
use crate::who::Who;

pub(crate) fn routes() -> Router<Api> {
    Router::new()
        .route("/v1/lsps", get(list))
        .route("/v1/lsps/{flow}", get(one))
        .route_layer(from_extractor::<NoOptions>())
}

/// All flows and their paths, with every router's part.
#[utoipa::path(get, path = "/v1/lsps", tag = "flows", operation_id = "list_lsps", responses(
    (status = 200, description = "Flows and paths", body = ref("#/components/schemas/LspList")),
    (status = 409, description = "A signaller does not answer",
        body = ref("#/components/schemas/ProblemDetails"), content_type = "application/problem+json")))]
pub(crate) async fn list(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
) -> Answer<LspList> {
    Ok(Json(all(&api, &who).await?))
}

/// One flow and its path, with the part of every router on it.
#[utoipa::path(get, path = "/v1/lsps/{flow}", tag = "flows", operation_id = "show_lsp",
    params(("flow" = String, Path, description = "The flow")),
    responses(
        (status = 200, description = "The flow", body = ref("#/components/schemas/FlowPath")),
        (status = 404, description = "No such flow",
            body = ref("#/components/schemas/ProblemDetails"), content_type = "application/problem+json"),
        (status = 409, description = "A signaller does not answer",
            body = ref("#/components/schemas/ProblemDetails"), content_type = "application/problem+json")))]
pub(crate) async fn one(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
    Path(flow): Path<String>,
) -> Answer<FlowPath> {
    let all = all(&api, &who).await?;
    let names: Vec<&str> = all.flows.iter().map(|flow| flow.name.as_str()).collect();
    match all.flows.iter().find(|one| one.name == flow) {
        Some(found) => Ok(Json(found.clone())),
        None => {
            let known = match names.as_slice() {
                [] => "there is none at all".to_owned(),
                names => format!("there are: {}", names.join(", ")),
            };
            Err(ProblemDetails::not_found(format!("there is no flow {flow}; {known}")).into())
        }
    }
}

/// Flows and paths of the slices that the caller may see.
pub(crate) async fn all(api: &Api, who: &Who) -> Result<LspList, ProblemDetails> {
    let mut list = LspList::default();
    let slices = api.requests.signallers().await?;
    let roles = who.roles();
    let sees = |slice: &String| roles.as_ref().is_none_or(|roles| roles.contains_key(slice));
    for slice in slices.into_iter().filter(sees) {
        let shown = api.requests.signalled(&slice).await?.map_err(|why| {
            ProblemDetails::new("signaller", "A signaller does not answer", 409, why)
        })?;
        add(&mut list, &slice, shown);
    }
    list.flows.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(list)
}

fn hop(hop: HopState) -> PathHop {
    let HopState { router, incoming, interface, via, outgoing } = hop;
    PathHop { router, label_in: incoming, label_out: outgoing, interface, via }
}

/// Bits a second of bytes a second.
fn bits(bytes: f64) -> u64 {
    (bytes.max(0.0) * 8.0).round() as u64
}

fn add(list: &mut LspList, slice: &str, shown: Shown) {
    let Shown { flows, lsps, interfaces } = shown;
    list.flows.extend(flows.into_iter().map(|flow| FlowPath {
        name: flow.name,
        slice: slice.to_owned(),
        state: if flow.is_up { "up" } else { "down" }.to_owned(),
        lsp: flow.lsp,
        next: flow.next,
        hops: flow.hops.into_iter().map(hop).collect(),
        error: flow.error.map(|error| PathError {
            router: error.router,
            code: error.code,
            value: error.value,
            message: error.message,
        }),
    }));
    list.lsps.extend(lsps.into_iter().map(|lsp| LspAt {
        slice: slice.to_owned(),
        from: lsp.from,
        to: lsp.to,
        tunnel: lsp.tunnel,
        lsp: lsp.lsp,
        bandwidth: bits(lsp.rate),
        hop: hop(lsp.hop),
    }));
    list.interfaces.extend(interfaces.into_iter().map(|interface| Reservable {
        name: format!("{slice}/{}.{}", interface.router, interface.interface),
        bandwidth: bits(interface.reservable),
        left: bits(interface.left),
    }));
}
