//! Checks links: their documents, and their ends.

use super::attachments::Ends;
use crate::decode::nearest;
use crate::documents::Documents;
use crate::draft::Draft;
use crate::ends::{End, Owner};
use crate::link::{Line, Link, Loss};
use crate::problem::Problem;
use crate::router::Router;
use crate::source::At;

/// A link's fields must be consistent with each other and with its ends.
pub(super) fn link(link: &Link, draft: &Draft, ends: &Ends<'_>, problems: &mut Vec<Problem>) {
    let directions = [link.a_to_b.as_ref(), link.b_to_a.as_ref()];
    line(&link.both, &Line::default(), problems);
    for own in directions.into_iter().flatten() {
        line(own, &link.both, problems);
    }
    // A link without ends is reported elsewhere.
    let Some(ends) = ends.get(&**link.name).filter(|_| draft.complete) else { return };
    let says = [Some(&link.both), link.a_to_b.as_deref(), link.b_to_a.as_deref()];
    let hosts_only = ends.iter().all(|end| matches!(end.owner, Owner::Host(_)));
    if ends.len() > 1 && hosts_only && says.into_iter().flatten().any(|line| !line.is_empty()) {
        problems.push(
            Problem::new(link.name.place, "a link between two hosts is a plain cable")
                .label("nobody would carry out what it says")
                .help("put a router with `builtin: bridge` between them"),
        );
    }
    if let Some(a) = &link.a {
        problems.extend(end_a(link, a, ends, &draft.documents));
    }
}

/// Checks the end that `a` names.
fn end_a(link: &Link, a: &At<String>, ends: &[End<'_>], documents: &Documents) -> Option<Problem> {
    let names: Vec<String> = ends.iter().map(|end| end.owner.name()).collect();
    if !names.contains(&a.value) {
        let message = format!("link {:?} does not end at {:?}", &**link.name, a.value);
        let problem = Problem::new(a.place, message);
        let own = match names.as_slice() {
            [only] => format!("its only end is {only}"),
            all => format!("its ends are {}", all.join(" and ")),
        };
        let routers = documents.routers.iter().map(Router::full_name);
        let all: Vec<String> =
            routers.chain(documents.hosts.iter().map(|host| host.name.to_string())).collect();
        if all.contains(&a.value) {
            return Some(problem.label("not one of its ends").help(own));
        }
        let near = nearest(&a.value, names.iter().map(String::as_str))
            .or_else(|| nearest(&a.value, all.iter().map(String::as_str)));
        return Some(problem.label("no router and no host").help(match near {
            Some(near) => format!("did you mean {near:?}? {own}"),
            None => own,
        }));
    }
    (ends.len() > 1 && names.iter().all(|name| *name == a.value)).then(|| {
        Problem::new(a.place, format!("both ends of link {:?} are at {a}", &**link.name))
            .label("says nothing")
            .help("directions cannot be told apart on a link from a router to itself")
    })
}

fn line(own: &Line, both: &Line, problems: &mut Vec<Problem>) {
    let all = own.or(both);
    let mut needs = |place, what: &str, other: &str| {
        problems.push(
            Problem::new(place, format!("`{what}` needs `{other}`"))
                .label(format!("without `{other}` it does nothing")),
        );
    };
    if let (Some(jitter), None) = (own.jitter, all.delay) {
        needs(jitter.place, "jitter", "delay");
    }
    if let (Some(distribution), None) = (own.distribution, all.jitter) {
        needs(distribution.place, "distribution", "jitter");
    }
    if let (Some(reorder), None) = (own.reorder, all.delay) {
        needs(reorder.place, "reorder", "delay");
    }
    if let (Some(limit), None) = (own.limit, all.rate) {
        needs(limit.place, "limit", "rate");
    }
    if let Some(loss) = own.loss
        && let Loss::Bursts(bursts) = loss.value
        && bursts.end.of_one() == 0.0
    {
        problems.push(
            Problem::new(bursts.end.place, "a link that is bad stays bad")
                .label("it never becomes good again"),
        );
    }
}
