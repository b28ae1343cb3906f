//! What a well-formed configuration may still have wrong: every rule is a function
//! that reports all that breaks it.

mod addresses;
mod attachments;
mod filters;
mod inline;
mod names;
mod queues;
mod routers;
mod routes;
mod topology;

pub use self::filters::MOST_FILTERS;

use crate::documents::Draft;
use crate::problem::Problem;

/// Checks everything that was read together.
pub(crate) fn documents(draft: &Draft, problems: &mut Vec<Problem>) {
    names::duplicates(&draft.documents, problems);
    names::devices(&draft.documents, problems);
    names::references(draft, problems);
    attachments::links(draft, problems);
    attachments::matches(&draft.documents, problems);
    queues::all(draft, problems);
    for port in &draft.documents.ports {
        routers::port(port, problems);
    }
    for link in &draft.documents.links {
        topology::link(link, &draft.documents, draft.complete, problems);
    }
    for host in &draft.documents.hosts {
        topology::host(host, problems);
    }
    for slice in &draft.documents.slices {
        addresses::ranges(slice, problems);
    }
    filters::interfaces(draft, problems);
    filters::reservations(&draft.documents, problems);
    for (router, whole) in draft.documents.routers.iter().zip(&draft.whole) {
        routers::values(router, &draft.documents, problems);
        if *whole {
            routers::fast_path(router, problems);
            inline::inline(router, problems);
            routers::slow_path(router, problems);
            routes::all(router, problems);
        }
    }
    // As long as something else is wrong, addresses may be what was misspelt.
    if problems.is_empty() {
        for router in &draft.documents.routers {
            routers::addressed(router, problems);
        }
        addresses::room(&draft.documents, problems);
    }
}
