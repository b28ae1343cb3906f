//! The objects that need another object, and so must be removed before it.

use crate::bundle::Key;
use crate::documents::Documents;
use crate::ends::ends;
use crate::link::Link;
use crate::router::Router;

impl Documents {
    /// The reason why an object cannot be removed, and the remedy; `None` if no other object needs
    /// it. A link may lose an end, unless its document names that end or would have no end left.
    pub fn needed(&self, key: &Key) -> Option<String> {
        let users = self.users(key);
        let all = users.join(", ");
        (!users.is_empty()).then(|| format!("{key} is still needed by {all}; delete these first"))
    }

    /// Objects that name this one.
    fn users(&self, key: &Key) -> Vec<String> {
        let name = key.name.as_str();
        let ports: Vec<&str> = match key.kind.as_str() {
            "port" => vec![name],
            "host" => {
                let own = self.hosts.iter().filter(|host| &**host.name == name);
                let interfaces = own.flat_map(|host| &host.interfaces.0);
                interfaces.filter_map(|(_, i)| i.port.as_ref().map(|port| &***port)).collect()
            }
            _ => Vec::new(),
        };
        let is_slice = |slice: &str| key.kind == "slice" && slice == name;
        let uses_port = |router: &Router| {
            let mut interfaces = router.interfaces.0.iter();
            interfaces.any(|(_, i)| i.port.as_ref().is_some_and(|port| ports.contains(&&***port)))
        };
        let routers = self.routers.iter();
        let routers = routers.filter(|router| is_slice(&router.slice) || uses_port(router));
        let routers = routers.map(|router| format!("router {}", router.full_name()));
        let slices = self.slices.iter().filter(|slice| {
            let mut parts = slice.reservation.iter().flat_map(|reservation| &reservation.ports.0);
            parts.any(|(port, _)| ports.contains(&&***port))
        });
        let slices = slices.map(|slice| format!("slice {}", slice.name));
        let filters = self.filters.iter().filter(|filters| {
            let names_router =
                |named: &str| key.kind == "router" && name == format!("{}/{named}", filters.slice);
            is_slice(&filters.slice)
                || filters
                    .rules
                    .0
                    .iter()
                    .any(|rule| rule.interfaces().any(|interface| names_router(&interface.router)))
        });
        let filters = filters.map(|filters| format!("filters {}", filters.name));
        let flows = self.flows.iter().filter(|flow| {
            let named = flow.path.iter().chain([&flow.to]).map(|one| one.value.as_str());
            let mut routers = named.chain([&**flow.from]);
            is_slice(&flow.slice)
                || key.kind == "router"
                    && routers.any(|router| name == format!("{}/{router}", flow.slice))
        });
        let flows = flows.map(|flow| format!("flow {}", flow.name));
        let users = self.users.iter().filter(|user| user.roles.0.iter().any(|(s, _)| is_slice(s)));
        let users = users.map(|user| format!("user {}", user.name));
        let objects = routers.chain(slices).chain(filters).chain(flows);
        objects.chain(self.links_of(key)).chain(users).collect()
    }

    /// Documents of links that name a router or host, or that would have no end without it.
    fn links_of(&self, key: &Key) -> Vec<String> {
        if !matches!(key.kind.as_str(), "router" | "host") {
            return Vec::new();
        }
        let ends = ends(self);
        let needs = |link: &&Link| {
            let Some(ends) = ends.get(&**link.name) else { return false };
            let mut own = ends.iter().map(|end| end.owner.is(&key.kind, &key.name)).peekable();
            let is_a = link.a.as_ref().is_some_and(|a| a.value == key.name);
            let alone = own.peek().is_some() && own.clone().all(|own| own);
            alone || (is_a && own.any(|own| own))
        };
        self.links.iter().filter(needs).map(|link| format!("link {}", &**link.name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Source, parse};

    #[test]
    fn who_needs_an_object() {
        let text = "kind: port\nname: left\ndevice: eth1\nrate: 1Gb/s\n---\n\
            kind: slice\nname: red\nreservation: {ports: {left: {weight: 2}}}\n---\n\
            kind: slice\nname: blue\n---\n\
            kind: router\nname: r1\nslice: red\nfast_path: {builtin: ipv4}\n\
            interfaces: {a: {port: left, addresses: [10.0.1.1/24]}, b: {link: l}, c: {port: p}}\n\
            ---\nkind: host\nname: h\ninterfaces: {e: {link: l}, f: {port: p}}\n---\n\
            kind: host\nname: g\ninterfaces: {e: {link: k}, f: {link: n}}\n---\n\
            kind: link\nname: k\n---\n\
            kind: router\nname: r2\nslice: blue\nfast_path: {builtin: ipv4}\n\
            interfaces: {a: {link: m}, b: {link: n}, c: {link: o}, d: {link: o}}\n---\n\
            kind: router\nname: r3\nslice: blue\nfast_path: {builtin: ipv4}\n\
            interfaces: {a: {link: m}}\n---\n\
            kind: link\nname: m\na: blue/r2\na_to_b: {delay: 1ms}\n---\n\
            kind: link\nname: n\n---\nkind: link\nname: o\n---\n\
            kind: filters\nname: f\nslice: red\nrules: [{interface: r1.a, action: drop}]\n";
        let source = Source { path: "t.yaml".into(), text: text.to_owned() };
        let documents = parse(&[source]).unwrap_or_else(|p| panic!("{}", p.render(false)));
        for (kind, name, wanted) in [
            ("slice", "red", Some("slice red is still needed by router red/r1, filters f; delete")),
            ("port", "left", Some("port left is still needed by router red/r1, slice red; delete")),
            ("router", "red/r1", Some("router red/r1 is still needed by filters f; delete")),
            ("host", "h", Some("host h is still needed by router red/r1; delete")),
            // This is the last end of a link with a document; link n keeps an end.
            ("host", "g", Some("host g is still needed by link k; delete")),
            // This router is the `a` of link m, and has both ends of link o.
            ("router", "blue/r2", Some("router blue/r2 is still needed by link m, link o; delete")),
            ("router", "blue/r3", None),
            ("link", "m", None),
            ("filters", "f", None),
        ] {
            let found = documents.needed(&Key::new(kind, name));
            match wanted {
                None => assert_eq!(found, None, "{kind} {name}"),
                Some(wanted) => {
                    assert!(found.as_ref().is_some_and(|f| f.starts_with(wanted)), "{found:?}");
                }
            }
        }
    }
}
