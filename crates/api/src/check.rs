//! The rules for a valid configuration: every rule is a function that reports all violations.

mod addresses;
mod attachments;
mod filters;
mod flows;
mod hosts;
mod inline;
mod kernel;
mod names;
mod next_hops;
mod nodes;
mod queues;
mod room;
mod routers;
mod routes;
mod topology;
mod tunnels;

pub use self::filters::MOST_FILTERS;

use crate::draft::Draft;
use crate::ends::ends;
use crate::problem::Problem;

/// Checks all documents that were read together.
pub(crate) fn documents(draft: &Draft, problems: &mut Vec<Problem>) {
    names::duplicates(&draft.documents, problems);
    names::devices(&draft.documents, problems);
    names::ssh_keys(&draft.documents, problems);
    names::references(draft, problems);
    nodes::all(draft, problems);
    let ends = ends(&draft.documents);
    attachments::links(draft, &ends, problems);
    attachments::matches(&draft.documents, problems);
    queues::all(draft, problems);
    room::queues(&draft.documents, problems);
    for port in &draft.documents.ports {
        routers::port(port, problems);
    }
    for link in &draft.documents.links {
        topology::link(link, draft, &ends, problems);
    }
    tunnels::all(draft, &ends, problems);
    for host in &draft.documents.hosts {
        hosts::values(host, problems);
    }
    next_hops::all(draft, problems);
    for slice in &draft.documents.slices {
        addresses::ranges(slice, problems);
    }
    filters::interfaces(draft, problems);
    filters::reservations(&draft.documents, problems);
    flows::flows(draft, problems);
    for (router, whole) in draft.documents.routers.iter().zip(&draft.whole) {
        routers::values(router, &draft.documents, problems);
        if *whole {
            routers::fast_path(router, problems);
            inline::inline(router, problems);
            kernel::kernel(router, &draft.documents, problems);
            flows::router(router, &draft.documents, problems);
            routers::slow_path(router, problems);
            routes::all(router, problems);
        }
    }
    // While there are other mistakes, addresses may be misspelt, so this check would report false
    // ones.
    if problems.is_empty() {
        for router in &draft.documents.routers {
            routers::addressed(router, problems);
        }
        addresses::room(&draft.documents, problems);
        next_hops::assigned(&draft.documents, problems);
    }
}
