//! Problems for users without the necessary rights. No problem names objects that the user may not
//! see.

use crate::allow::Allow;
use crate::bundle::Key;
use crate::documents::Documents;
use crate::problem::Problem;
use crate::source::Place;
use crate::user::Role;

/// The place of a document's name.
pub(super) fn name_place(documents: &Documents, key: &Key) -> Place {
    let ports = documents.ports.iter().map(|one| ("port", &one.name));
    let links = documents.links.iter().map(|one| ("link", &one.name));
    let hosts = documents.hosts.iter().map(|one| ("host", &one.name));
    let filters = documents.filters.iter().map(|one| ("filters", &one.name));
    let mut all = ports.chain(links).chain(hosts).chain(filters);
    let found = all.find(|(kind, name)| *kind == key.kind && ****name == *key.name);
    found.map_or(Place::default(), |(_, name)| name.place)
}

/// A field that the slice does not allow.
pub(super) fn not_allowed(field: Allow, place: Place, kind: &str) -> Problem {
    let word = field.word();
    Problem::new(
        place,
        format!(
            "`{word}` names something of the machine, which this {kind}'s slice does not allow"
        ),
    )
    .label(format!("`{word}` is not allowed"))
    .help(format!("an admin may add `{word}` to `allow` of the slice"))
}

/// The problem of a change that only an admin may make.
pub(super) fn admins(place: Place, what: &str) -> Problem {
    Problem::new(place, format!("{what}: only an admin may change this"))
        .label("not yours to change")
}

/// A slice on which the user's role is not sufficient.
pub(super) fn too_low(place: Place, slice: &str, role: Option<Role>) -> Problem {
    let problem = match role {
        Some(role) => {
            let message =
                format!("the role {} does not suffice to change slice {slice}", role.word());
            Problem::new(place, message).help("this needs the role owner")
        }
        None => Problem::new(place, format!("there is no slice {slice:?}")),
    };
    problem.label("not yours to change")
}

/// A name that is taken.
pub(super) fn in_use(place: Place, what: &str) -> Problem {
    Problem::new(place, format!("{what} is in use")).label("choose another name")
}
