//! `/v1/slices/SLICE/machine-ports`: reserved ports of the machine, and where their packets go.

use axum::extract::{Path, State};
use axum::middleware::from_extractor;
use axum::routing::{delete, get};
use axum::{Extension, Json, Router};
use europa_api::rest::{ProblemDetails, Said};
use europa_api::{MachinePortList, MachinePortRequest, MachinePortState, PortProtocol};

use crate::problem::{Answer, NoOptions};
use crate::state::Api;
use crate::who::Who;

pub(crate) fn routes() -> Router<Api> {
    Router::new()
        .route("/v1/slices/{slice}/machine-ports", get(list).post(map))
        .route("/v1/slices/{slice}/machine-ports/{protocol}/{port}", delete(unmap))
        .route_layer(from_extractor::<NoOptions>())
}

/// Succeeds if there is such a slice.
async fn known(api: &Api, slice: &str) -> Result<(), ProblemDetails> {
    let documents = api.requests.accepted().await?.documents;
    let is_there = documents.slices.iter().any(|one| **one.name == *slice);
    let missing = || ProblemDetails::not_found(format!("there is no slice {slice}"));
    is_there.then_some(()).ok_or_else(missing)
}

/// The ports of the machine that a slice reserves, and where their packets go.
#[utoipa::path(get, path = "/v1/slices/{slice}/machine-ports", operation_id = "list_machine_ports", tag = "slices",
    params(("slice" = String, Path, description = "The slice")),
    responses(
        (status = 200, description = "Its ports", body = ref("#/components/schemas/MachinePortList")),
        (status = 404, description = "No such slice",
            body = ref("#/components/schemas/ProblemDetails"), content_type = "application/problem+json")))]
pub(crate) async fn list(
    State(api): State<Api>,
    Path(slice): Path<String>,
) -> Answer<MachinePortList> {
    known(&api, &slice).await?;
    Ok(Json(api.requests.machine_ports(&slice).await?))
}

/// Leads packets to a reserved port to a port of a router's slow path. The rules are in force when
/// this answers.
#[utoipa::path(post, path = "/v1/slices/{slice}/machine-ports", operation_id = "map_machine_port", tag = "slices",
    params(("slice" = String, Path, description = "The slice")),
    request_body = ref("#/components/schemas/MachinePortRequest"),
    responses(
        (status = 200, description = "The port", body = ref("#/components/schemas/MachinePortState")),
        (status = 404, description = "No such slice, no free reservation, or no router with an uplink",
            body = ref("#/components/schemas/ProblemDetails"), content_type = "application/problem+json"),
        (status = 409, description = "The port leads elsewhere",
            body = ref("#/components/schemas/ProblemDetails"), content_type = "application/problem+json")))]
pub(crate) async fn map(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
    Path(slice): Path<String>,
    Json(request): Json<MachinePortRequest>,
) -> Answer<MachinePortState> {
    known(&api, &slice).await?;
    let (router, inside) = (request.router.clone(), request.inside);
    let mapped = api.requests.map_machine_port(&slice, request).await?;
    let message = format!(
        "{} port {} of the machine leads to port {inside} of {router}",
        mapped.protocol.word(),
        mapped.port
    );
    api.events.asked(who.by(), ("slice", &slice), "PortMapped", message);
    Ok(Json(mapped))
}

/// Ends what a request has begun: packets to the port go nowhere, until a program binds it.
#[utoipa::path(delete, path = "/v1/slices/{slice}/machine-ports/{protocol}/{port}",
    operation_id = "unmap_machine_port", tag = "slices",
    params(("slice" = String, Path, description = "The slice"),
        ("protocol" = String, Path, description = "tcp or udp"),
        ("port" = u16, Path, description = "The port of the machine")),
    responses(
        (status = 200, description = "It is done", body = ref("#/components/schemas/Said")),
        (status = 404, description = "No request has this port",
            body = ref("#/components/schemas/ProblemDetails"), content_type = "application/problem+json")))]
pub(crate) async fn unmap(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
    Path((slice, protocol, port)): Path<(String, String, u16)>,
) -> Answer<Said> {
    known(&api, &slice).await?;
    let protocol = match protocol.as_str() {
        "tcp" => PortProtocol::Tcp,
        "udp" => PortProtocol::Udp,
        other => {
            let detail = format!("there are ports of tcp and udp, not of {other:?}");
            return Err(ProblemDetails::not_found(detail).into());
        }
    };
    api.requests.unmap_machine_port(&slice, protocol, port).await?;
    let message = format!("{} port {port} of the machine is free", protocol.word());
    api.events.asked(who.by(), ("slice", &slice), "PortUnmapped", message);
    Ok(Json(Said::default()))
}
