//! `/v1/slices/SLICE/resources`: used and highest amounts of a slice.

use axum::extract::{Path, State};
use axum::middleware::from_extractor;
use axum::routing::get;
use axum::{Json, Router};
use europa_api::rest::{FilterList, ProblemDetails};
use europa_api::{Documents, MachinePortList, Reservation, Slice, SliceResource, SliceResources};

use crate::problem::{Answer, NoOptions};
use crate::state::Api;

/// Numbered queues that a slice without a limit of its own may have.
const QUEUES: u32 = 65_535;

pub(crate) fn routes() -> Router<Api> {
    Router::new()
        .route("/v1/slices/{slice}/resources", get(list))
        .route_layer(from_extractor::<NoOptions>())
}

/// The resources of a slice: how much it uses, and how much it may use.
#[utoipa::path(get, path = "/v1/slices/{slice}/resources", operation_id = "list_resources", tag = "slices",
    params(("slice" = String, Path, description = "The slice")),
    responses(
        (status = 200, description = "Its resources", body = ref("#/components/schemas/SliceResources")),
        (status = 404, description = "No such slice",
            body = ref("#/components/schemas/ProblemDetails"), content_type = "application/problem+json")))]
pub(crate) async fn list(
    State(api): State<Api>,
    Path(slice): Path<String>,
) -> Answer<SliceResources> {
    let documents = api.requests.accepted().await?.documents;
    let found = documents.slices.iter().find(|one| **one.name == *slice);
    let missing = || ProblemDetails::not_found(format!("there is no slice {slice}"));
    let found = found.ok_or_else(missing)?;
    let ports = api.requests.machine_ports(&slice).await?;
    let filters = api.requests.filters(&slice).await?;
    Ok(Json(SliceResources { items: items(&documents, found, &ports, &filters), slice }))
}

fn items(
    documents: &Documents,
    slice: &Slice,
    ports: &MachinePortList,
    filters: &FilterList,
) -> Vec<SliceResource> {
    let none = Reservation::default();
    let reserved = slice.reservation.as_ref().unwrap_or(&none);
    let own = || documents.routers.iter().filter(|router| router.slice == slice.name);
    let count = |name: &str, used: Option<usize>, most: Option<u64>| SliceResource {
        name: name.to_owned(),
        unit: "count".to_owned(),
        used: used.map(|used| used as f64),
        most: most.map(|most| most as f64),
        ..SliceResource::default()
    };
    let interfaces = || own().flat_map(|router| &router.interfaces.0);
    let queues = interfaces().flat_map(|(_, interface)| &interface.queues.0);
    let queues = queues.filter(|(number, _)| number.0 != 0).count();
    let slots: usize = own().map(|router| router.pool.slots.value as usize).sum();
    let mapped = ports.items.iter().filter(|one| one.router.is_some()).count();
    let flows = documents.flows.iter().filter(|flow| flow.slice == slice.name).count();
    let most = reserved.queues.map_or(QUEUES, |queues| queues.value);
    let mut all = vec![
        count("routers", Some(own().count()), None),
        count("machine_ports", Some(mapped), Some(ports.items.len() as u64)),
        count("slots", Some(slots), reserved.slots.map(|slots| slots.value.into())),
        count("queues", Some(queues), Some(most.into())),
        count("filters", Some(filters.entries as usize), Some(filters.limit)),
        count("flows", Some(flows), None),
        SliceResource {
            unit: "bytes".to_owned(),
            ..count("memory", None, reserved.memory.map(|memory| memory.value.0))
        },
        SliceResource {
            name: "cpu".to_owned(),
            unit: "cores".to_owned(),
            most: reserved.cpu.map(|cpu| f64::from(cpu.thousandths()) / 1000.0),
            ..SliceResource::default()
        },
    ];
    for (port, part) in &reserved.ports.0 {
        let rates = [("guarantee", part.guarantee), ("cap", part.cap), ("rate_in", part.rate_in)];
        for (name, rate) in rates {
            let Some(rate) = rate else { continue };
            all.push(SliceResource {
                port: Some(port.to_string()),
                unit: "bits/s".to_owned(),
                ..count(name, None, Some(rate.bits_per_second))
            });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use europa_api::{Source, parse};

    use super::*;

    #[test]
    fn what_a_slice_has_and_may_have() {
        let text = "kind: port\nname: p\ndevice: eth1\n---\n\
            kind: slice\nname: red\nreservation:\n  ports: {p: {guarantee: 10Mb/s}}\n  slots: 9000\n  \
            memory: 8MB\n---\nkind: slice\nname: blue\n---\n\
            kind: router\nname: r\nslice: red\nfast_path: {click: Idle}\n\
            interfaces: {a: {port: p, queues: {0: {}, 1: {}}}}\n---\n\
            kind: router\nname: alone\nslice: blue\nslow_path: {}\n";
        let source = Source { path: "t.yaml".into(), text: text.to_owned() };
        let documents = parse(&[source]).unwrap_or_else(|p| panic!("{}", p.render(false)));
        let filters = FilterList { entries: 3, limit: 10, ..FilterList::default() };
        let of = |at: usize| {
            let slice = &documents.slices[at];
            items(&documents, slice, &MachinePortList::default(), &filters)
        };
        let pair = |all: &[SliceResource], name: &str| {
            all.iter().find(|one| one.name == name).map(|one| (one.used, one.most))
        };
        let red = of(0);
        assert_eq!(pair(&red, "slots"), Some((Some(8192.0), Some(9000.0))));
        assert_eq!(pair(&red, "queues"), Some((Some(1.0), Some(65_535.0))));
        assert_eq!(pair(&red, "memory"), Some((None, Some(8e6))));
        assert_eq!(pair(&red, "guarantee"), Some((None, Some(1e7))));
        assert_eq!(pair(&red, "filters"), Some((Some(3.0), Some(10.0))));
        // A router without a fast path has the smallest pool.
        assert_eq!(pair(&of(1), "slots"), Some((Some(64.0), None)));
    }
}
