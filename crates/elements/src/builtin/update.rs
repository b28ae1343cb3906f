//! Changes one description into another without a new graph: routes and neighbours are tables.

use std::collections::BTreeMap;

use super::routes::routes;
use super::{Description, Neighbour, Problem, ipv4};

/// A write handler and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// `element.handler`.
    pub path: String,
    /// The value to write.
    pub value: String,
}

/// Lines of one write: a large change causes many short pauses instead of a long one.
const LINES: usize = 512;

/// The writes that change the running `builtin: ipv4` from `old` to `new`; `None` if more than
/// routes and neighbours differ.
///
/// # Errors
/// Returns an error that names the impossible parts of either description.
pub fn update(old: &Description, new: &Description) -> Result<Option<Vec<Update>>, Problem> {
    let bare = |description: &Description| {
        let (interfaces, labels) = (description.interfaces.clone(), description.labels.clone());
        ipv4(&Description { interfaces, labels, ..Description::default() })
    };
    let is_same = old.interfaces == new.interfaces && old.labels == new.labels;
    if !is_same && bare(old)? != bare(new)? {
        return Ok(None);
    }
    let mut updates = Vec::new();
    for (handler, is_v4) in [("route.ctrl", true), ("route6.load", false)] {
        let (before, after) = (table(old, is_v4)?, table(new, is_v4)?);
        let gone =
            before.keys().filter(|to| !after.contains_key(*to)).map(|to| format!("remove {to}"));
        let differs = |to: &String, hop: &String| before.get(to) != Some(hop);
        // New routes are added first, so that a destination always has one.
        let lines: Vec<String> = after
            .iter()
            .filter(|(to, hop)| differs(to, hop))
            .map(|(to, hop)| format!("set {to} {hop}"))
            .chain(gone)
            .collect();
        updates.extend(
            lines
                .chunks(LINES)
                .map(|lines| Update { path: handler.to_owned(), value: lines.join("\n") }),
        );
    }
    let element = |n: &Neighbour| match n.address.is_ipv4() {
        true => format!("arp{}", n.interface),
        false => format!("nd{}", n.interface),
    };
    let has = |list: &[Neighbour], n: &Neighbour| {
        list.iter().any(|o| (o.address, o.interface) == (n.address, n.interface))
    };
    for neighbour in old.neighbours.iter().filter(|n| !has(&new.neighbours, n)) {
        let value = neighbour.address.to_string();
        updates.push(Update { path: format!("{}.delete", element(neighbour)), value });
    }
    for neighbour in new.neighbours.iter().filter(|n| !old.neighbours.contains(n)) {
        let value = format!("{} {}", neighbour.address, neighbour.mac);
        updates.push(Update { path: format!("{}.static", element(neighbour)), value });
    }
    Ok(Some(updates))
}

/// Gateway and output of each prefix. A family without addresses has no table.
fn table(description: &Description, is_v4: bool) -> Result<BTreeMap<String, String>, Problem> {
    let mut nets = description.interfaces.iter().flat_map(|interface| &interface.addresses);
    if !nets.any(|net| net.addr().is_ipv4() == is_v4) {
        return Ok(BTreeMap::new());
    }
    let split = |line: String| {
        let (to, hop) = line.split_once(' ')?;
        Some((to.to_owned(), hop.to_owned()))
    };
    Ok(routes(description, is_v4)?.into_iter().filter_map(split).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::{Interface, Next, Route};

    fn description(routes: &[(&str, Option<&str>)]) -> Description {
        let route = |(to, via): &(&str, Option<&str>)| Route {
            to: to.parse().unwrap(),
            next: via.map_or(Next::Blackhole, |via| Next::Via {
                address: via.parse().unwrap(),
                interface: None,
            }),
        };
        Description {
            interfaces: vec![Interface {
                name: "a".into(),
                mac: [2, 0, 0, 0, 0, 1].into(),
                mtu: 1500,
                addresses: vec!["10.0.0.1/24".parse().unwrap(), "2001:db8::1/64".parse().unwrap()],
            }],
            routes: routes.iter().map(route).collect(),
            ..Description::default()
        }
    }

    fn written(old: &Description, new: &Description) -> Option<Vec<(String, String)>> {
        let updates = update(old, new).unwrap()?;
        Some(updates.into_iter().map(|update| (update.path, update.value)).collect())
    }

    #[test]
    fn routes_and_neighbours_are_written_and_the_rest_is_not() {
        let old = description(&[("11.0.0.0/8", Some("10.0.0.2")), ("12.0.0.0/8", None)]);
        assert_eq!(written(&old, &old), Some(vec![]));
        let mut new = description(&[
            ("11.0.0.0/8", Some("10.0.0.3")),
            ("13.0.0.0/8", Some("10.0.0.2")),
            ("2001:db9::/32", Some("2001:db8::2")),
        ]);
        let (address, mac) = ("10.0.0.2".parse().unwrap(), [2, 0, 0, 0, 0, 9].into());
        new.neighbours.push(Neighbour { address, mac, interface: 0 });
        let own = |path: &str, value: &str| (path.to_owned(), value.to_owned());
        let routes = "set 11.0.0.0/8 10.0.0.3 0\nset 13.0.0.0/8 10.0.0.2 0\nremove 12.0.0.0/8";
        assert_eq!(
            written(&old, &new),
            Some(vec![
                own("route.ctrl", routes),
                own("route6.load", "set 2001:db9::/32 2001:db8::2 0"),
                own("arp0.static", "10.0.0.2 02:00:00:00:00:09"),
            ])
        );
        assert_eq!(written(&new, &old).unwrap().last(), Some(&own("arp0.delete", "10.0.0.2")));
        let mut other = old.clone();
        other.interfaces[0].mtu = 1400;
        assert_eq!(written(&old, &other), None);
    }
}
