//! Checks flows, and the interfaces that signal them.

use std::net::IpAddr;

use crate::decode::nearest;
use crate::documents::Documents;
use crate::draft::Draft;
use crate::fast_path::Choice;
use crate::flow::Flow;
use crate::interface::{Interface, Selector};
use crate::problem::Problem;
use crate::router::{Router, Run};
use crate::signalling::RsvpTe;
use crate::source::{At, Place};

/// Shortest R: with a shorter one, routers would do little else.
const LEAST_REFRESH_NS: u64 = 100_000_000;
/// Shortest time between two Hellos.
const LEAST_HELLO_NS: u64 = 10_000_000;

/// RSVP-TE of an interface, with its place.
fn signals(interface: &Interface) -> Option<&At<RsvpTe>> {
    interface.signalling.as_ref().map(|signalling| &signalling.rsvp_te)
}

/// Interfaces of a router that signal, by name.
fn signalling(router: &Router) -> impl Iterator<Item = (&str, &Interface, &At<RsvpTe>)> {
    let all = router.interfaces.0.iter();
    all.filter_map(|(name, interface)| {
        Some((&***name, &interface.value, signals(&interface.value)?))
    })
}

/// Refuses settings that a router with signalling cannot have, and reports missing ones.
pub(super) fn router(router: &Router, documents: &Documents, problems: &mut Vec<Problem>) {
    let Some((_, _, first)) = signalling(router).next() else { return };
    let mut refuse = |place: Place, what: &str, label: &str, help: &str| {
        problems.push(Problem::new(place, what).label(label).help(help));
    };
    let has_place = match (router.run, router.fast_path.choice()) {
        (Run::Isolated | Run::Inline, Some(Choice::Ipv4 { .. } | Choice::Click(_))) => true,
        (Run::Kernel, Some(Choice::Xdp(..))) => true,
        // Another check refuses a router without a fast path.
        (_, choice) => choice.is_none(),
    };
    if !has_place {
        let what = "a router that signals flows runs `builtin: ipv4`, `click` or `xdp`";
        let help = "give it `fast_path: {builtin: ipv4}`, or leave out `signalling`";
        refuse(first.place, what, "this router's fast path has no label table", help);
    }
    for (_, interface, rsvp_te) in signalling(router) {
        interface_signals(router, interface, rsvp_te, documents, problems);
        differs(first, rsvp_te, problems);
    }
}

/// Checks the settings that an interface with signalling needs.
fn interface_signals(
    router: &Router,
    interface: &Interface,
    rsvp_te: &At<RsvpTe>,
    documents: &Documents,
    problems: &mut Vec<Problem>,
) {
    let mut refuse = |place: Place, what: &str, label: &str, help: &str| {
        problems.push(Problem::new(place, what).label(label).help(help));
    };
    if !matches!(interface.selector(), Selector::Mac | Selector::All | Selector::Vxlan(_)) {
        let place = interface.matches.as_ref().map_or(rsvp_te.place, |matches| matches.place);
        let what = "an interface whose labels are not its own does not signal";
        let help = "match `mac`, `all` or `vlan`: others on this port share its labels";
        refuse(place, what, "matches only some of the port's packets", help);
    }
    if interface.addresses.is_empty() {
        let help = "add `addresses: [...]`: neighbours send messages to it";
        refuse(rsvp_te.place, "an interface that signals has an address", "no address", help);
    }
    if let Some(time) = rsvp_te.refresh.filter(|time| time.ns < LEAST_REFRESH_NS) {
        refuse(time.place, "`refresh` is at least 100ms", "too short", "RFC 2205 has 30s");
    }
    if let Some(time) = rsvp_te.hello.filter(|time| (1..LEAST_HELLO_NS).contains(&time.ns)) {
        let help = "0s sends no Hello";
        refuse(time.place, "`hello` is at least 10ms", "too short", help);
    }
    if let Some(id) = rsvp_te.key.as_ref().and_then(|key| key.id).filter(|id| id.value >> 48 != 0) {
        let what = "the number of a key is below 2^48";
        refuse(id.place, what, "too large", "RFC 2747 has 48 bits for it");
    }
    if rsvp_te.bandwidth.is_none() && documents.reservable(router, interface).is_none() {
        let what = "what may be reserved of this interface is not known";
        let help = "add `bandwidth` here, or a `rate` to its link or port";
        refuse(rsvp_te.place, what, "no `bandwidth`", help);
    }
}

/// Reports settings that apply to a whole router but differ between two of its interfaces.
fn differs(first: &At<RsvpTe>, other: &At<RsvpTe>, problems: &mut Vec<Problem>) {
    let fields = [
        ("refresh", first.refresh_ns() == other.refresh_ns()),
        ("hello", first.hello_ns() == other.hello_ns()),
        ("egress", word(first.egress) == word(other.egress)),
        ("ttl", word(first.ttl) == word(other.ttl)),
    ];
    for (field, is_same) in fields {
        if !is_same {
            let what = format!("interfaces of a router have the same `{field}`");
            problems.push(
                Problem::new(other.place, what)
                    .label("another one")
                    .also(first.place, "the first that signals"),
            );
        }
    }
}

fn word<T: Default>(said: Option<At<T>>) -> T {
    said.map(|said| said.value).unwrap_or_default()
}

impl Documents {
    /// The rate in bits a second that flows may reserve on an interface, if documents set one.
    pub fn reservable(&self, router: &Router, interface: &Interface) -> Option<u64> {
        let own = signals(interface).and_then(|rsvp_te| rsvp_te.bandwidth);
        if let Some(own) = own {
            return Some(own.bits_per_second);
        }
        if let Some(port) = &interface.port {
            let slice = self.slices.iter().find(|slice| slice.name == router.slice);
            let part = slice.and_then(|slice| slice.reservation.as_ref()?.port(port));
            let guarantee = part.and_then(|part| part.guarantee);
            let rate = || self.port_rates().find(|(name, _)| *name == port)?.1;
            return guarantee.or_else(rate).map(|rate| rate.bits_per_second);
        }
        let link = self.links.iter().find(|link| Some(&link.name) == interface.link.as_ref())?;
        let is_a = link.a.as_ref().is_some_and(|a| a.value == router.full_name());
        let own = if is_a { &link.a_to_b } else { &link.b_to_a };
        let of_direction = own.as_ref().and_then(|line| line.rate);
        of_direction.or(link.both.rate).map(|rate| rate.bits_per_second)
    }
}

/// Checks the names and the values of flows.
pub(super) fn flows(draft: &Draft, problems: &mut Vec<Problem>) {
    for flow in &draft.documents.flows {
        values(flow, problems);
        // A missing object may be in an unreadable document.
        if draft.complete {
            names(flow, &draft.documents, problems);
        }
    }
}

fn values(flow: &Flow, problems: &mut Vec<Problem>) {
    let mut refuse = |place: Place, what: String, label: &str| {
        problems.push(Problem::new(place, what).label(label));
    };
    for priority in [flow.setup, flow.hold].into_iter().flatten().filter(|one| one.value > 7) {
        refuse(priority.place, "a priority is 0 (best) to 7".into(), "out of range");
    }
    let (setup, hold) = flow.priorities();
    if let Some(place) = flow.hold.map(|hold| hold.place).filter(|_| hold > setup) {
        let what = format!("`hold` {hold} is weaker than `setup` {setup}");
        refuse(place, what, "a flow would give way to one like itself");
    }
    if let Some(burst) = flow.burst {
        match flow.bandwidth {
            None => refuse(burst.place, "`burst` needs `bandwidth`".into(), "at which rate?"),
            Some(_) if burst.value.0 < 1500 => {
                refuse(burst.place, "a burst is at least 1500B".into(), "holds no packet");
            }
            Some(_) => {}
        }
    }
}

/// Routers that a flow names.
fn names(flow: &Flow, documents: &Documents, problems: &mut Vec<Problem>) {
    let slice = &**flow.slice;
    let find = |name: &str| {
        documents.routers.iter().find(|one| &**one.slice == slice && &**one.name == name)
    };
    let mut unknown = |place: Place, name: &str| {
        let own = documents.routers.iter().filter(|router| &**router.slice == slice);
        let problem = Problem::new(place, format!("slice {slice:?} has no router {name:?}"))
            .label("unknown router");
        problems.push(match nearest(name, own.map(|router| -> &str { &router.name })) {
            Some(near) => problem.help(format!("did you mean {near:?}?")),
            None => problem.help("say a router of the slice, or an address"),
        });
    };
    let mut silent = Vec::new();
    let head = find(&flow.from);
    if head.is_none() {
        unknown(flow.from.place, &flow.from);
    }
    silent.extend(head.map(|head| (flow.from.place, head)));
    for named in flow.path.iter().chain([&flow.to]) {
        if named.value.parse::<IpAddr>().is_ok() {
            continue;
        }
        match find(&named.value) {
            Some(router) => silent.push((named.place, router)),
            None => unknown(named.place, &named.value),
        }
    }
    if let Some(head) = head.filter(|head| head.run == Run::Kernel) {
        problems.push(
            Problem::new(flow.from.place, "no flow begins at a router that runs in the kernel")
                .label(format!("router {} has `run: kernel`", head.full_name()))
                .help("begin it at the router before, or after"),
        );
    }
    for (place, router) in silent {
        if signalling(router).next().is_none() {
            let what = format!("router {} signals on no interface", router.full_name());
            problems.push(
                Problem::new(place, what)
                    .label("no flow begins, passes or ends there")
                    .help("give its interfaces `signalling: {rsvp_te: {}}`"),
            );
        }
    }
    if head.is_some_and(|head| &**head.name == flow.to.value.as_str()) {
        problems.push(
            Problem::new(flow.to.place, "a flow ends where it begins").label("as `from` says"),
        );
    }
}
