//! Checks reservations and queues: guarantees must be possible, and numbers unique.

use std::collections::HashMap;

use crate::documents::Documents;
use crate::draft::Draft;
use crate::interface::Interface;
use crate::problem::Problem;
use crate::quantity::Bytes;
use crate::queues::{Queue, QueuePolicy};
use crate::router::Router;
use crate::slice::Slice;
use crate::source::{At, Place};
use crate::values::Rate;

/// Queues of a slice have 16-bit numbers.
const MOST_QUEUES: u32 = 65_535;
/// At a lower rate, the numbers of the receive programs would overflow.
const LEAST_RATE_IN: Rate = Rate { bits_per_second: 8000 };
/// A router's process needs 2 to 3 MB before it has any table.
const LEAST_MEMORY: Bytes = Bytes(4_000_000);

/// All checks of reservations and queues.
pub(super) fn all(draft: &Draft, problems: &mut Vec<Problem>) {
    let documents = &draft.documents;
    for slice in &documents.slices {
        parts(slice, problems);
        numbers(slice, documents, problems);
        slots(slice, documents, problems);
        if draft.complete {
            queues_fit(slice, documents, problems);
        }
    }
    if draft.complete {
        slices_fit(documents, problems);
        rates_in_fit(documents, problems);
    }
    for router in &documents.routers {
        for (_, interface) in &router.interfaces.0 {
            for (number, queue) in &interface.value.queues.0 {
                values(number.0, queue, problems);
            }
            on_a_port(interface, problems);
        }
    }
}

fn at_least_one(what: &str, value: u32, place: Place, problems: &mut Vec<Problem>) {
    if value == 0 {
        problems.push(
            Problem::new(place, format!("{what} of 0 lets nothing through")).label("at least 1"),
        );
    }
}

/// A cap must leave room for the guarantees.
fn cap(guarantee: Option<At<Rate>>, cap: Option<At<Rate>>, problems: &mut Vec<Problem>) {
    if let (Some(guarantee), Some(cap)) = (guarantee, cap)
        && cap.value < guarantee.value
    {
        problems.push(
            Problem::new(cap.place, format!("a cap of {} is below the guarantee", cap.value))
                .label("less than is guaranteed")
                .also(guarantee.place, format!("{} are guaranteed", guarantee.value)),
        );
    }
}

/// Checks each reservation of a port by itself.
fn parts(slice: &Slice, problems: &mut Vec<Problem>) {
    let Some(reservation) = &slice.reservation else { return };
    for (index, (port, part)) in reservation.ports.0.iter().enumerate() {
        let first = reservation.ports.0[..index].iter().find(|(other, _)| other == port);
        if let Some((first, _)) = first {
            problems.push(
                Problem::new(port.place, format!("two parts of port {:?}", &***port))
                    .label("the second")
                    .also(first.place, "the first"),
            );
        }
        if let Some(weight) = part.weight {
            at_least_one("a weight", weight.value.into(), weight.place, problems);
        }
        cap(part.guarantee, part.cap, problems);
        if let Some(rate) = part.rate_in
            && rate.bits_per_second < LEAST_RATE_IN.bits_per_second
        {
            let message = format!("a rate of less than {LEAST_RATE_IN} cannot be policed");
            problems.push(Problem::new(rate.place, message).label("too little"));
        }
    }
    if let Some(memory) = reservation.memory.filter(|memory| memory.0 < LEAST_MEMORY.0) {
        let message = format!("no router runs in {memory} of memory");
        problems.push(
            Problem::new(memory.place, message)
                .label("too little")
                .help(format!("reserve {LEAST_MEMORY} for each router at least, or leave it out")),
        );
    }
    if let Some(queues) = reservation.queues.filter(|queues| queues.value > MOST_QUEUES) {
        problems.push(
            Problem::new(queues.place, format!("a slice has at most {MOST_QUEUES} queues"))
                .label("out of range"),
        );
    }
}

fn routers_of<'d>(
    slice: &'d Slice,
    documents: &'d Documents,
) -> impl Iterator<Item = &'d Router> + use<'d> {
    documents.routers.iter().filter(|router| router.slice.value == slice.name.value)
}

/// The pools of a slice's routers must not have more slots together than the slice may have.
fn slots(slice: &Slice, documents: &Documents, problems: &mut Vec<Problem>) {
    let Some(most) = slice.reservation.as_ref().and_then(|own| own.slots) else { return };
    let mut left = most.value;
    for router in routers_of(slice, documents) {
        let wanted = router.pool.slots;
        if let Some(less) = left.checked_sub(wanted.value) {
            left = less;
            continue;
        }
        let message = format!(
            "router {:?} wants a pool of {} slots, and {left} of slice {:?}'s {most} are left",
            &**router.name, wanted.value, &**slice.name
        );
        problems.push(
            Problem::new(router.name.place, message)
                .label("more than is left")
                .also(most.place, "as many as the slice may have")
                .help("say less in the router, as in `pool: {slots: 1024}`, or reserve more"),
        );
    }
}

/// Numbers of queues must be unique in the slice, and not more than it may have.
fn numbers(slice: &Slice, documents: &Documents, problems: &mut Vec<Problem>) {
    let most = slice.reservation.as_ref().and_then(|reservation| reservation.queues);
    let mut seen = HashMap::new();
    let mut too_many = false;
    for router in routers_of(slice, documents) {
        for (_, interface) in &router.interfaces.0 {
            let mut own = None;
            for (number, _) in &interface.value.queues.0 {
                let first = if number.0 == 0 {
                    own.replace(number.place)
                } else {
                    seen.insert(number.0, number.place)
                };
                if let Some(first) = first {
                    let slice = &**slice.name;
                    problems.push(
                        Problem::new(
                            number.place,
                            format!("slice {slice:?} has two queues {}", number.0),
                        )
                        .label("the second")
                        .also(first, "the first")
                        .help("numbers are the slice's own: each is one queue of one interface"),
                    );
                }
                if let Some(most) = most
                    && seen.len() as u64 > u64::from(most.value)
                    && !std::mem::replace(&mut too_many, true)
                {
                    let slice = &**slice.name;
                    let message =
                        format!("slice {slice:?} has more queues than it may have: {most}");
                    problems.push(
                        Problem::new(number.place, message)
                            .label("the first too many")
                            .also(most.place, "as many as it may have"),
                    );
                }
            }
        }
    }
}

/// The guarantees of a slice's queues on a port must fit into the slice's guarantee.
fn queues_fit(slice: &Slice, documents: &Documents, problems: &mut Vec<Problem>) {
    let reservation = slice.reservation.as_ref();
    let mut left: HashMap<&str, u64> = HashMap::new();
    for router in routers_of(slice, documents) {
        for (_, interface) in &router.interfaces.0 {
            let Some(port) = &interface.value.port else { continue };
            let part = reservation.and_then(|reservation| reservation.port(port));
            let promised = part.and_then(|part| part.guarantee);
            let left = left
                .entry(&***port)
                .or_insert(promised.map_or(0, |promised| promised.bits_per_second));
            for (_, queue) in &interface.value.queues.0 {
                let Some(guarantee) = queue.guarantee else { continue };
                let wanted = guarantee.bits_per_second;
                if wanted <= *left {
                    *left -= wanted;
                    continue;
                }
                let (slice, port) = (&**slice.name, &***port);
                let problem = match promised {
                    None => Problem::new(
                        guarantee.place,
                        format!("slice {slice:?} has no guarantee on port {port:?} to give"),
                    )
                    .label("nothing to take it from")
                    .help(format!(
                        "say in slice {slice}: `reservation: {{ports: {{{port}: {{guarantee: \
                         {}}}}}}}`",
                        guarantee.value
                    )),
                    Some(promised) => Problem::new(
                        guarantee.place,
                        format!(
                            "of slice {slice:?}'s {} on port {port:?}, {} are left",
                            promised.value,
                            shown(*left)
                        ),
                    )
                    .label("more than is left")
                    .also(promised.place, "what the slice has"),
                };
                problems.push(problem);
            }
        }
    }
}

fn shown(bits_per_second: u64) -> Rate {
    Rate { bits_per_second }
}

/// The slices' guarantees must fit into the port's rate.
fn slices_fit(documents: &Documents, problems: &mut Vec<Problem>) {
    for (port, rate) in documents.port_rates() {
        let Some(rate) = rate else {
            for (_, guarantee) in guarantees(documents, port) {
                let name = &***port;
                problems.push(
                    Problem::new(
                        guarantee.place,
                        format!("port {name:?} has no rate of which something can be guaranteed"),
                    )
                    .label("nothing to take it from")
                    .also(port.place, "the port")
                    .help("say what it can send, as in `rate: 1Gb/s`"),
                );
            }
            continue;
        };
        let mut left = rate.bits_per_second;
        for (slice, guarantee) in guarantees(documents, port) {
            let wanted = guarantee.bits_per_second;
            if wanted <= left {
                left -= wanted;
                continue;
            }
            let (slice, port) = (&**slice.name, &***port);
            let message = format!(
                "slice {slice:?} wants {} of port {port:?}, and {} of its {} are left",
                guarantee.value,
                shown(left),
                rate.value
            );
            problems.push(
                Problem::new(guarantee.place, message)
                    .label("more than is left")
                    .also(rate.place, "what the port can send"),
            );
        }
    }
}

/// The slices' received rates must fit the port too, which has the same rate in both directions.
fn rates_in_fit(documents: &Documents, problems: &mut Vec<Problem>) {
    for (port, rate) in documents.port_rates() {
        let Some(rate) = rate else { continue };
        let mut left = rate.bits_per_second;
        for slice in &documents.slices {
            let part = slice.reservation.as_ref().and_then(|own| own.port(port));
            let Some(wanted) = part.and_then(|part| part.rate_in) else { continue };
            if let Some(less) = left.checked_sub(wanted.bits_per_second) {
                left = less;
                continue;
            }
            let message = format!(
                "slice {:?} wants {} of what comes in by port {:?}, and {} of its {} are left",
                &**slice.name,
                wanted.value,
                &***port,
                shown(left),
                rate.value
            );
            problems.push(
                Problem::new(wanted.place, message)
                    .label("more than is left")
                    .also(rate.place, "what the port can take"),
            );
        }
    }
}

/// The slices' guarantees on a port.
fn guarantees<'d>(
    documents: &'d Documents,
    port: &str,
) -> impl Iterator<Item = (&'d Slice, At<Rate>)> {
    documents.slices.iter().filter_map(move |slice| {
        let guarantee = slice.reservation.as_ref()?.port(port)?.guarantee?;
        Some((slice, guarantee))
    })
}

/// Checks values of a queue, and values that only some policies have.
fn values(number: u16, queue: &Queue, problems: &mut Vec<Problem>) {
    if let Some(weight) = queue.weight {
        at_least_one("a weight", weight.value.into(), weight.place, problems);
    }
    if let Some(packets) = queue.packets {
        at_least_one("a queue", packets.value, packets.place, problems);
    }
    cap(queue.guarantee, queue.cap, problems);
    let policy = queue.policy();
    let codel = ["codel"].as_slice();
    for (what, place, of) in [
        ("ecn", queue.ecn.map(|value| value.place), ["red", "codel"].as_slice()),
        ("target", queue.target.map(|value| value.place), codel),
        ("interval", queue.interval.map(|value| value.place), codel),
        ("min", queue.min.map(|value| value.place), &["red"]),
        ("max", queue.max.map(|value| value.place), &["red"]),
        ("probability", queue.probability.map(|value| value.place), &["red"]),
    ] {
        let name = match policy {
            QueuePolicy::Tail => "tail",
            QueuePolicy::Head => "head",
            QueuePolicy::Red => "red",
            QueuePolicy::Codel => "codel",
        };
        if let Some(place) = place.filter(|_| !of.contains(&name)) {
            problems.push(
                Problem::new(place, format!("`{what}` is for `policy: {}`", of.join("` or `")))
                    .label(format!("queue {number} has `policy: {name}`")),
            );
        }
    }
    if let (Some(min), Some(max)) = (queue.min, queue.max)
        && max.value <= min.value
    {
        problems.push(
            Problem::new(max.place, "`max` is not above `min`")
                .label("too small")
                .also(min.place, "`min`"),
        );
    }
}

/// Packets wait for ports only.
fn on_a_port(interface: &Interface, problems: &mut Vec<Problem>) {
    if let (Some((number, _)), Some(link)) = (interface.queues.0.first(), &interface.link) {
        problems.push(
            Problem::new(number.place, "an interface on a link has no queues")
                .label("nothing would wait here")
                .also(link.place, "the link")
                .help("what waits for a link with a rate is its `limit`"),
        );
    }
}
