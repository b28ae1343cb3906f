//! Finds the interfaces that a name in the command line selects.

use serde::{Deserialize, Serialize};

use crate::scene::{Interface, Router, Scene, To};

/// An interface with its full name and its description in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Number in the substrate.
    pub id: u32,
    /// `slice/router.interface`.
    pub name: String,
    /// `slice/router`.
    pub router: String,
    /// Description of its attachment.
    pub place: String,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// The interface's addresses with the lengths of their prefixes.
    pub addresses: Vec<String>,
}

impl Named {
    fn new(router: &Router, interface: &Interface) -> Named {
        let place = match &interface.to {
            To::Port(port) => format!("port {port}"),
            To::Link(link) => format!("link {link}"),
        };
        Named {
            id: interface.id,
            name: format!("{}.{}", router.name, interface.name),
            router: router.name.clone(),
            place,
            mac: interface.mac,
            addresses: interface.addresses.clone(),
        }
    }
}

/// The meanings of a name.
const KINDS: [&str; 5] = ["interface", "router", "port", "link", "slice"];

fn is(kind: &str, name: &str, router: &Router, interface: &Interface) -> bool {
    match (kind, &interface.to) {
        ("interface", _) => name
            .strip_prefix(router.name.as_str())
            .and_then(|rest| rest.strip_prefix(['.', ':', ' ']))
            .is_some_and(|rest| rest == interface.name),
        ("router", _) => router.name == name,
        ("port", To::Port(port)) => port == name,
        ("link", To::Link(link)) => link == name,
        ("slice", _) => router.slice() == name,
        _ => false,
    }
}

/// The interfaces that `target` selects: an interface `slice/router.interface`, a router
/// `slice/router`, a port, a link or a slice. If objects of several kinds have the same name, the
/// kind comes first: `port:NAME`.
///
/// # Errors
/// No object has the name, or several have it; the error lists the objects.
pub fn find(scene: &Scene, target: &str) -> Result<Vec<Named>, String> {
    let of = |kind: &str, name: &str| -> Vec<Named> {
        let found = scene.interfaces().filter(|(router, i)| is(kind, name, router, i));
        found.map(|(router, interface)| Named::new(router, interface)).collect()
    };
    if let Some((kind, name)) = target.split_once(':')
        && KINDS.contains(&kind)
    {
        let found = of(kind, name);
        return if found.is_empty() { Err(nothing(scene, target)) } else { Ok(found) };
    }
    let mut found: Vec<(&str, Vec<Named>)> = KINDS
        .iter()
        .map(|kind| (*kind, of(kind, target)))
        .filter(|(_, found)| !found.is_empty())
        .collect();
    match found.len() {
        0 => Err(nothing(scene, target)),
        1 => Ok(found.swap_remove(0).1),
        _ => {
            let ways: Vec<String> =
                found.iter().map(|(kind, _)| format!("`{kind}:{target}`")).collect();
            Err(format!("`{target}` is the name of several things: say {}", ways.join(" or ")))
        }
    }
}

fn nothing(scene: &Scene, target: &str) -> String {
    if let Some(port) = scene.ports.iter().find(|port| port.name == target) {
        return format!("no interface is on the port {}", port.name);
    }
    let mut names: Vec<String> =
        scene.interfaces().map(|(r, i)| format!("{}.{}", r.name, i.name)).collect();
    let mut others: Vec<String> = scene.ports.iter().map(|port| port.name.clone()).collect();
    others.extend(scene.interfaces().filter_map(|(_, interface)| match &interface.to {
        To::Link(link) => Some(link.clone()),
        To::Port(_) => None,
    }));
    others.sort();
    others.dedup();
    names.extend(others);
    format!(
        "there is no interface, router, port, link or slice `{target}`; there are: {}",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::Port;

    fn scene() -> Scene {
        let interface = |id: u32, name: &str, to: To| Interface {
            id,
            name: name.into(),
            mac: [2, 0, 0, 0, 0, id as u8],
            mtu: 1500,
            addresses: Vec::new(),
            matches: String::new(),
            to,
        };
        let (left, link) = (|| To::Port("left".into()), || To::Link("middle".into()));
        let router = |name: &str, interfaces| Router {
            name: name.into(),
            fast_path: "builtin: ipv4".into(),
            interfaces,
        };
        Scene {
            hosts: Vec::new(),
            ports: ["left", "spare"]
                .map(|name| Port { name: name.into(), ..Port::default() })
                .into(),
            routers: vec![
                router("red/a", vec![interface(0, "in", left()), interface(1, "out", link())]),
                router("red/b", vec![interface(2, "in", link())]),
                router("left/c", vec![interface(3, "in", left())]),
            ],
        }
    }

    #[test]
    fn names_of_every_kind() {
        for (target, ids) in [
            ("red/a.in", Ok(&[0][..])),
            ("red/a:out", Ok(&[1])),
            ("red/a", Ok(&[0, 1])),
            ("red", Ok(&[0, 1, 2])),
            ("middle", Ok(&[1, 2])),
            ("port:left", Ok(&[0, 3])),
            ("slice:left", Ok(&[3])),
            ("left", Err("`left` is the name of several things: say `port:left` or `slice:left`")),
            ("spare", Err("no interface is on the port spare")),
            (
                "red/x",
                Err("there is no interface, router, port, link or slice `red/x`; there are: \
                     red/a.in, red/a.out, red/b.in, left/c.in, left, middle, spare"),
            ),
        ] {
            let found = find(&scene(), target);
            let found = found.map(|all| all.iter().map(|one| one.id).collect::<Vec<_>>());
            assert_eq!(found, ids.map(<[u32]>::to_vec).map_err(str::to_owned), "{target}");
        }
    }
}
