//! `stats NAME`: the counters of one slice, router, interface, port, link or host.

use europa_api::stats::NodeStats;

use crate::exit::Failure;

/// The counters of a node that belong to `name`.
///
/// `name` is a slice, SLICE/ROUTER, SLICE/ROUTER.INTERFACE, port, link or host. If objects of
/// several kinds have the same name, all of them are selected.
pub(crate) fn only(stats: NodeStats, name: &str) -> Result<NodeStats, Failure> {
    let (router, interface) = match name.split_once('.') {
        Some((router, interface)) if router.contains('/') => (router, Some(interface)),
        _ => (name, None),
    };
    let is_router = |found: &str| {
        found == router || (!router.contains('/') && found.split('/').next() == Some(router))
    };
    let known = known(&stats);
    let NodeStats { mut routers, mut ports, mut hosts, mut links, mut tunnels, mut queues, .. } =
        stats;
    routers.retain(|one| is_router(&one.name));
    if let Some(interface) = interface {
        for router in &mut routers {
            router.interfaces.retain(|one| one.name == interface);
        }
        routers.retain(|router| !router.interfaces.is_empty());
    }
    ports.retain(|one| one.name == name);
    hosts.retain(|one| one.name == name);
    links.retain(|one| one.name == name);
    tunnels.retain(|one| one.name == name);
    queues.retain(|one| {
        let of = match (&one.slice, &one.router) {
            (Some(slice), Some(router)) => is_router(&format!("{slice}/{router}")),
            (Some(slice), None) => slice == name,
            (None, _) => false,
        };
        let fits = interface.is_none_or(|name| one.interface.as_deref() == Some(name));
        one.port == name || (of && fits)
    });
    let nothing = routers.is_empty() && ports.is_empty() && hosts.is_empty() && links.is_empty();
    if nothing && tunnels.is_empty() && queues.is_empty() {
        let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
        return Err(Failure::missing(format!(
            "there is no slice, router, interface, port, link or host {name:?} with counters: {known}"
        )));
    }
    Ok(NodeStats {
        at_ns: stats.at_ns,
        routers,
        ports,
        hosts,
        links,
        tunnels,
        queues,
        ..NodeStats::default()
    })
}

/// All names that have counters, at most twenty.
fn known(stats: &NodeStats) -> Vec<String> {
    let mut names: Vec<String> = names(stats).collect();
    if names.len() > 20 {
        let more = names.len() - 20;
        names.truncate(20);
        names.push(format!("and {more} more"));
    }
    names
}

/// Names of slices, routers, interfaces, ports, links and hosts that have counters.
pub(crate) fn names(stats: &NodeStats) -> impl Iterator<Item = String> {
    let mut names: Vec<String> = Vec::new();
    for router in &stats.routers {
        names.extend(router.name.split('/').next().map(str::to_owned));
        names.push(router.name.clone());
        names.extend(router.interfaces.iter().map(|one| format!("{}.{}", router.name, one.name)));
    }
    names.extend(stats.ports.iter().map(|port| port.name.clone()));
    names.extend(stats.links.iter().map(|link| link.name.clone()));
    names.extend(stats.tunnels.iter().map(|tunnel| tunnel.name.clone()));
    names.extend(stats.hosts.iter().map(|host| host.name.clone()));
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rates::tests::reading;

    #[test]
    fn one_object_is_selected() {
        for (name, routers, interfaces, ports, queues) in [
            ("red", 2, 3, 0, 1),
            ("red/a", 1, 2, 0, 1),
            ("red/a.out", 1, 1, 0, 1),
            ("red/a.in", 1, 1, 0, 0),
            ("blue/a", 1, 1, 0, 0),
            ("left", 0, 0, 1, 1),
        ] {
            let found = only(reading(1, 100), name).unwrap_or_else(|error| panic!("{error:?}"));
            let of_routers: usize = found.routers.iter().map(|one| one.interfaces.len()).sum();
            let counts = (found.routers.len(), of_routers, found.ports.len(), found.queues.len());
            assert_eq!(counts, (routers, interfaces, ports, queues), "{name}");
        }
        for name in ["re", "red/", "red/c", "red/a.no", ""] {
            let error = only(reading(1, 100), name).expect_err("an error");
            assert!(format!("{error:?}").contains("red/a.out"), "{error:?}");
        }
    }
}
