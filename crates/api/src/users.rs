//! Who needs an object: what must go before it.

use crate::bundle::Key;
use crate::documents::Documents;
use crate::router::Router;

impl Documents {
    /// Why an object cannot go as long as others are there, and what to do, or `None` if no
    /// other object needs it.
    pub fn needed(&self, key: &Key) -> Option<String> {
        let mut sentences = Vec::new();
        let users = self.users(key);
        if !users.is_empty() {
            let users = users.join(", ");
            sentences.push(format!("{key} is still needed by {users}; delete these first"));
        }
        for (link, other) in self.joined_to(key) {
            sentences.push(format!(
                "{key} is one end of link {link}, and {other} the other: apply a configuration \
                 without both, with `--prune`"
            ));
        }
        (!sentences.is_empty()).then(|| sentences.join("\n"))
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
        routers.chain(slices).chain(filters).collect()
    }

    /// Links that end at a router or host, and what is at their other ends.
    fn joined_to(&self, key: &Key) -> Vec<(String, String)> {
        let of_routers = self.routers.iter().flat_map(|router| {
            let links = router.interfaces.0.iter().filter_map(|(_, i)| i.link.as_ref());
            links.map(|link| (link.to_string(), Key::new("router", router.full_name())))
        });
        let of_hosts = self.hosts.iter().flat_map(|host| {
            let links = host.interfaces.0.iter().filter_map(|(_, i)| i.link.as_ref());
            links.map(|link| (link.to_string(), Key::new("host", host.name.to_string())))
        });
        let ends: Vec<(String, Key)> = of_routers.chain(of_hosts).collect();
        let own: Vec<&String> =
            ends.iter().filter(|(_, end)| end == key).map(|(link, _)| link).collect();
        let others = ends.iter().filter(|(link, end)| end != key && own.contains(&link));
        others.map(|(link, end)| (link.clone(), end.to_string())).collect()
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
            kind: filters\nname: f\nslice: red\nrules: [{interface: r1.a, action: drop}]\n";
        let source = Source { path: "t.yaml".into(), text: text.to_owned() };
        let documents = parse(&[source]).unwrap_or_else(|p| panic!("{}", p.render(false)));
        for (kind, name, wanted) in [
            ("slice", "red", Some("slice red is still needed by router red/r1, filters f; delete")),
            ("port", "left", Some("port left is still needed by router red/r1, slice red; delete")),
            ("router", "red/r1", Some("router red/r1 is still needed by filters f; delete")),
            ("router", "red/r1", Some("end of link l, and host h the other: apply")),
            ("host", "h", Some("host h is still needed by router red/r1; delete")),
            ("host", "h", Some("end of link l, and router red/r1 the other: apply")),
            ("slice", "blue", None),
            ("filters", "f", None),
        ] {
            let found = documents.needed(&Key::new(kind, name));
            match wanted {
                None => assert_eq!(found, None, "{kind} {name}"),
                Some(wanted) => {
                    assert!(found.as_ref().is_some_and(|f| f.contains(wanted)), "{found:?}");
                }
            }
        }
    }
}
