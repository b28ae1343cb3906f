//! The parts of a node's documents that a user with roles on slices may see and change.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::{Value, json};

use crate::allow::{self, Allow, Named};
use crate::bundle::{Kept, Key};
use crate::documents::Documents;
use crate::ends::{End, Owner, ends};
use crate::problem::Problem;
use crate::router::Router;
use crate::slice::Slice;
use crate::user::Role;

use self::problems::{admins, in_use, name_place, not_allowed, too_low};

/// The rights of a user without the admin right.
pub struct Rights<'a> {
    stored: &'a Documents,
    roles: &'a BTreeMap<String, Role>,
    links: Sides,
}

/// The objects at the ends of each link.
type Sides = BTreeMap<String, Vec<Side>>;

/// The object at an end of a link.
enum Side {
    /// A router of this slice.
    Slice(String),
    /// The node's own machine.
    Host(String),
}

impl Side {
    fn slice(&self) -> Option<&str> {
        match self {
            Side::Slice(slice) => Some(slice),
            Side::Host(_) => None,
        }
    }
}

/// Whether the user may carry out an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The user may.
    Allowed,
    /// The user may not do it, and may know the reason.
    Forbidden(String),
    /// The user may not know that the object exists.
    Unknown,
}

/// The ends of all links.
fn sides(documents: &Documents) -> Sides {
    let side = |end: &End<'_>| match end.owner {
        Owner::Router(router) => Side::Slice(router.slice.to_string()),
        Owner::Host(host) => Side::Host(host.name.to_string()),
    };
    let all = ends(documents).into_iter();
    all.map(|(link, ends)| (link.to_owned(), ends.iter().map(side).collect())).collect()
}

impl<'a> Rights<'a> {
    /// The rights that these roles give on these documents.
    pub fn new(stored: &'a Documents, roles: &'a BTreeMap<String, Role>) -> Rights<'a> {
        Rights { stored, roles, links: sides(stored) }
    }

    /// The role on a slice, if the slice exists.
    pub fn role(&self, slice: &str) -> Option<Role> {
        let there = self.slice(slice).is_some();
        self.roles.get(slice).copied().filter(|_| there)
    }

    fn slice(&self, name: &str) -> Option<&'a Slice> {
        self.stored.slices.iter().find(|slice| &**slice.name == name)
    }

    fn owns_slice(&self, slice: &str) -> bool {
        self.role(slice) == Some(Role::Owner)
    }

    /// Whether a link has routers at its ends, and all of them are in slices of this kind.
    fn link_is(&self, link: &str, of: impl Fn(&str) -> bool) -> bool {
        let ends = self.links.get(link).map_or(&[][..], Vec::as_slice);
        let mut slices = ends.iter().filter_map(Side::slice).peekable();
        slices.peek().is_some() && slices.all(of)
    }

    /// The slice in a document's `slice` field.
    fn slice_of(&self, key: &Key) -> Option<&str> {
        let filters = || self.stored.filters.iter().find(|one| **one.name == key.name);
        match key.kind.as_str() {
            "slice" => self.slice(&key.name).map(|slice| &**slice.name),
            "router" => {
                let routers = &self.stored.routers;
                let found = routers.iter().find(|router| router.full_name() == key.name);
                found.map(|router| &**router.slice)
            }
            "filters" => filters().map(|filters| &**filters.slice),
            "flow" => {
                let found = self.stored.flows.iter().find(|flow| **flow.name == key.name);
                found.map(|flow| &**flow.slice)
            }
            _ => None,
        }
    }

    /// Whether the user may see a stored object.
    pub fn sees(&self, key: &Key) -> bool {
        match key.kind.as_str() {
            "link" => self.link_is(&key.name, |slice| self.role(slice).is_some()),
            "port" | "host" => self.serves_owned(key),
            _ => self.slice_of(key).is_some_and(|slice| self.role(slice).is_some()),
        }
    }

    /// Whether the user owns a stored object of a slice: pruning removes such objects.
    pub fn owns(&self, key: &Key) -> bool {
        match key.kind.as_str() {
            "router" | "filters" | "flow" => {
                self.slice_of(key).is_some_and(|slice| self.owns_slice(slice))
            }
            "link" => {
                let ends = self.links.get(&key.name);
                let no_host = |ends: &Vec<Side>| ends.iter().all(|end| end.slice().is_some());
                ends.is_some_and(no_host)
                    && self.link_is(&key.name, |slice| self.owns_slice(slice))
                    && self.may_cut(&key.name)
            }
            _ => false,
        }
    }

    /// Whether only owned slices use a stored port or host, and one of these slices allows
    /// documents of its kind.
    fn serves_owned(&self, key: &Key) -> bool {
        let needed = if key.kind == "port" { Allow::Port } else { Allow::Host };
        let mut slices: Vec<&str> = Vec::new();
        let hosts = || self.stored.hosts.iter().filter(|host| **host.name == key.name);
        let ports: HashSet<&str> = match key.kind.as_str() {
            "port" => HashSet::from([key.name.as_str()]),
            _ => hosts()
                .flat_map(|host| &host.interfaces.0)
                .filter_map(|(_, i)| i.port.as_ref())
                .map(|port| &***port)
                .collect(),
        };
        for router in &self.stored.routers {
            let mut interfaces = router.interfaces.0.iter();
            if interfaces.any(|(_, i)| i.port.as_ref().is_some_and(|port| ports.contains(&***port)))
            {
                slices.push(&router.slice);
            }
        }
        for (_, interface) in hosts().flat_map(|host| &host.interfaces.0) {
            let link = interface.link.as_ref().and_then(|link| self.links.get(&***link));
            slices.extend(link.into_iter().flatten().filter_map(Side::slice));
        }
        let reserved = self.stored.slices.iter().filter(|slice| {
            let parts = slice.reservation.iter().flat_map(|all| &all.ports.0);
            parts.into_iter().any(|(port, _)| ports.contains(&***port))
        });
        slices.extend(reserved.map(|slice| &**slice.name));
        !slices.is_empty()
            && slices.iter().all(|slice| self.owns_slice(slice))
            && slices.iter().any(|slice| self.allows(slice, needed))
    }

    fn allows(&self, slice: &str, field: Allow) -> bool {
        let allowed = |slice: &Slice| slice.allow.iter().any(|allow| allow.value == field);
        self.owns_slice(slice) && self.slice(slice).is_some_and(allowed)
    }

    /// Whether any owned slice allows a field.
    fn any_allows(&self, field: Allow) -> bool {
        self.roles.keys().any(|slice| self.allows(slice, field))
    }

    /// Names of the objects that the user may not see.
    pub fn hidden(&self) -> BTreeSet<String> {
        let mut shown = BTreeSet::new();
        for slice in self.stored.slices.iter().filter(|slice| self.role(&slice.name).is_some()) {
            shown.insert(slice.name.to_string());
            let parts = slice.reservation.iter().flat_map(|all| &all.ports.0);
            shown.extend(parts.map(|(port, _)| port.to_string()));
        }
        for router in self.stored.routers.iter().filter(|one| self.role(&one.slice).is_some()) {
            shown.insert(router.name.to_string());
            let interfaces = router.interfaces.0.iter().map(|(_, interface)| interface);
            let named = interfaces.flat_map(|i| i.port.iter().chain(&i.standby).chain(&i.link));
            shown.extend(named.map(ToString::to_string));
        }
        let mut hidden = BTreeSet::new();
        for document in self.stored.iter() {
            let key = document.key();
            if !self.sees(&key) {
                hidden.extend(key.name.split('/').map(str::to_owned));
            }
        }
        let interfaces = self.stored.routers.iter().flat_map(|router| &router.interfaces.0);
        hidden.extend(interfaces.filter_map(|(_, i)| i.link.as_ref()).map(ToString::to_string));
        hidden.retain(|name| !shown.contains(name));
        hidden
    }

    /// Stored documents that are needed to check the user's documents: those that the user may see,
    /// and the necessary parts of ports and hosts.
    pub fn visible(&self, kept: &[Kept]) -> Vec<Kept> {
        let mut known: Vec<Kept> = kept.iter().filter(|one| self.sees(&one.key)).cloned().collect();
        let there: HashSet<Key> = known.iter().map(|one| one.key.clone()).collect();
        let named = self.named_ports();
        for (number, name) in named.iter().enumerate() {
            let key = Key::new("port", name.clone());
            if there.contains(&key) {
                continue;
            }
            let stored = kept.iter().find(|one| one.key == key);
            let stored = stored.and_then(|one| serde_json::from_str::<Value>(&one.document).ok());
            let mut document =
                json!({"kind": "port", "name": name, "device": format!("port{number}")});
            for field in ["rate", "mtu"] {
                if let Some(value) = stored.as_ref().and_then(|one| one.get(field)) {
                    document[field] = value.clone();
                }
            }
            known.push(Kept { key, document: document.to_string(), configuration: None });
        }
        for host in &self.stored.hosts {
            let key = Key::new("host", host.name.to_string());
            let interfaces = host.interfaces.0.iter().filter(|(_, interface)| {
                let link = interface.link.as_ref();
                link.is_some_and(|link| self.link_is(link, |slice| self.role(slice).is_some()))
            });
            let interfaces: serde_json::Map<String, Value> = interfaces
                .filter_map(|(name, i)| Some((name.to_string(), serde_json::to_value(i).ok()?)))
                .collect();
            if !interfaces.is_empty() && !there.contains(&key) {
                let document = json!({"kind": "host", "name": host.name.to_string(), "interfaces": interfaces});
                known.push(Kept { key, document: document.to_string(), configuration: None });
            }
        }
        known
    }

    /// Ports that documents of visible slices name.
    fn named_ports(&self) -> BTreeSet<String> {
        let slices = self.stored.slices.iter().filter(|slice| self.role(&slice.name).is_some());
        let parts = slices.flat_map(|slice| &slice.reservation).flat_map(|all| &all.ports.0);
        let routers = self.stored.routers.iter().filter(|one| self.role(&one.slice).is_some());
        let interfaces = routers.flat_map(|router| &router.interfaces.0);
        let used = interfaces.filter_map(|(_, interface)| interface.port.as_ref());
        parts.map(|(port, _)| port.to_string()).chain(used.map(ToString::to_string)).collect()
    }

    /// A problem for each part of `new` that the user may not write. `new` contains the documents
    /// that the user has sent, and those that the user may see. Documents with keys in `changed`
    /// are new or differ.
    pub fn refused(&self, new: &Documents, changed: &HashSet<Key>) -> Vec<Problem> {
        let mut refused = Vec::new();
        let is_changed = |key: Key| changed.contains(&key);
        for router in new.routers.iter().filter(|r| is_changed(Key::new("router", r.full_name()))) {
            let reservation =
                self.slice(&router.slice).and_then(|slice| slice.reservation.as_ref());
            match self.role(&router.slice) {
                Some(Role::Owner) => {
                    let named = allow::of_router(router, reservation);
                    self.fields(named, &router.slice, &mut refused);
                }
                role => refused.push(too_low(router.slice.place, &router.slice, role)),
            }
        }
        let filters = new.filters.iter().map(|one| ("filters", &one.name, &one.slice));
        let flows = new.flows.iter().map(|one| ("flow", &one.name, &one.slice));
        for (kind, name, slice) in filters.chain(flows) {
            let role = self.role(slice);
            if is_changed(Key::new(kind, name.to_string())) && role != Some(Role::Owner) {
                refused.push(too_low(slice.place, slice, role));
            }
        }
        for slice in new.slices.iter().filter(|s| is_changed(Key::new("slice", s.name.to_string())))
        {
            self.slice_refused(slice, &mut refused);
        }
        for user in new.users.iter().filter(|u| is_changed(Key::new("user", u.name.to_string()))) {
            refused.push(admins(user.name.place, "kind: user"));
        }
        self.tunnels_refused(new, changed, &mut refused);
        let hosts = new.hosts.iter().map(|one| ("host", &one.name, allow::of_host(one)));
        let ports = new.ports.iter().map(|one| ("port", &one.name, allow::of_port(one)));
        for (kind, name, named) in hosts.chain(ports) {
            if is_changed(Key::new(kind, name.to_string())) {
                let wrong = named.into_iter().filter(|(field, _)| !self.any_allows(*field));
                refused.extend(wrong.map(|(field, place)| not_allowed(field, place, kind)));
            }
        }
        refused
    }

    fn fields(&self, named: Named, slice: &str, refused: &mut Vec<Problem>) {
        let wrong = named.into_iter().filter(|(field, _)| !self.allows(slice, *field));
        refused.extend(wrong.map(|(field, place)| not_allowed(field, place, "router")));
    }

    /// Of its slice's document, an owner may change only `programs`, if that is allowed.
    fn slice_refused(&self, slice: &Slice, refused: &mut Vec<Problem>) {
        let (Some(stored), true) = (self.slice(&slice.name), self.owns_slice(&slice.name)) else {
            return refused.push(admins(slice.name.place, "kind: slice"));
        };
        let json = |slice: &Slice| serde_json::to_value(slice).unwrap_or_default();
        let (before, after) = (json(stored), json(slice));
        let none = serde_json::Map::new();
        let (before, after) =
            (before.as_object().unwrap_or(&none), after.as_object().unwrap_or(&none));
        let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        for name in names.into_iter().filter(|name| before.get(*name) != after.get(*name)) {
            if name != "programs" || !self.allows(&slice.name, Allow::Programs) {
                refused.push(admins(slice.name.place, &format!("`{name}` of a slice")));
            }
        }
    }

    /// A problem for each name in `after` that belongs to another user's object. `after` contains
    /// all documents that would result.
    pub fn taken(&self, after: &Documents, changed: &HashSet<Key>) -> Vec<Problem> {
        let mut taken = Vec::new();
        let there: HashSet<Key> = self.stored.iter().map(|document| document.key()).collect();
        let foreign = |key: &Key| changed.contains(key) && there.contains(key) && !self.sees(key);
        for document in after.iter() {
            let key = document.key();
            if foreign(&key) {
                let place = name_place(after, &key);
                taken.push(in_use(place, &key.to_string()));
            }
        }
        let before: BTreeMap<String, &Router> =
            self.stored.routers.iter().map(|router| (router.full_name(), router)).collect();
        let links = sides(after);
        let own = |end: &Side| match end {
            Side::Slice(slice) => self.owns_slice(slice),
            Side::Host(host) => {
                let key = Key::new("host", host.as_str());
                if there.contains(&key) { self.sees(&key) } else { changed.contains(&key) }
            }
        };
        let is_own = |link: &str| {
            let ends = links.get(link).map_or(&[][..], Vec::as_slice);
            ends.iter().any(|end| end.slice().is_some()) && ends.iter().all(own)
        };
        for router in &after.routers {
            let name = router.full_name();
            if !changed.contains(&Key::new("router", name.clone())) {
                continue;
            }
            for (interface_name, interface) in &router.interfaces.0 {
                let Some(link) = &interface.link else { continue };
                let old = before.get(&name).and_then(|old| old.interface(interface_name));
                let stays = old.is_some_and(|(_, old)| old.link.as_ref() == Some(link));
                let kept = self.stored.links.iter().any(|one| one.name == *link)
                    && !self.sees(&Key::new("link", link.to_string()));
                if !stays && (kept || !is_own(link)) {
                    taken.push(in_use(link.place, &format!("link {}", &**link)));
                }
            }
        }
        for link in &after.links {
            let key = Key::new("link", link.name.to_string());
            if changed.contains(&key) && !foreign(&key) && !is_own(&link.name) {
                taken.push(in_use(link.name.place, &key.to_string()));
            }
        }
        taken
    }

    /// Whether the user may remove an object.
    pub fn may_delete(&self, key: &Key) -> Verdict {
        if matches!(key.kind.as_str(), "user") || !self.sees(key) {
            return Verdict::Unknown;
        }
        let deletable = self.owns(key) || matches!(key.kind.as_str(), "port" | "host");
        match (key.kind.as_str(), deletable) {
            (_, true) => Verdict::Allowed,
            ("slice", _) => Verdict::Forbidden("only an admin removes slices".to_owned()),
            _ => Verdict::Forbidden(format!("to remove {key} needs the role owner on its slice")),
        }
    }
}

mod problems;
#[cfg(test)]
mod tests;
mod tunnels;
