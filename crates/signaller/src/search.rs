//! Finds paths with room for flows that name no path (constrained shortest path first): the
//! shortest path over routers of the slice whose interfaces all have enough unreserved bandwidth
//! for the flow.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use crate::orders::HopPlan;

/// A router in a search.
pub(crate) struct Node<'a> {
    pub(crate) name: &'a str,
    /// Its addresses.
    pub(crate) addresses: Vec<IpAddr>,
    /// Its interfaces with signalling.
    pub(crate) interfaces: Vec<Edge<'a>>,
}

/// An interface in a search.
pub(crate) struct Edge<'a> {
    pub(crate) addresses: &'a [ipnet::IpNet],
    /// The unreserved bandwidth, in bytes a second.
    pub(crate) left: f64,
}

/// The path from the router `from` to `destination`: its routers' addresses in order. `None` if no
/// path has `rate` bytes a second unreserved.
pub(crate) fn path(
    nodes: &[Node<'_>],
    from: &str,
    destination: IpAddr,
    rate: f64,
) -> Option<Vec<HopPlan>> {
    let start = nodes.iter().position(|node| node.name == from)?;
    // For each router: its predecessor, and the router's address on the line between the two.
    let mut before: BTreeMap<usize, Option<(usize, IpAddr)>> = BTreeMap::from([(start, None)]);
    let mut waiting = VecDeque::from([start]);
    while let Some(at) = waiting.pop_front() {
        if at != start && nodes[at].addresses.contains(&destination) {
            return Some(hops(&before, at));
        }
        for edge in nodes[at].interfaces.iter().filter(|edge| edge.left >= rate) {
            for (next, node) in nodes.iter().enumerate() {
                if before.contains_key(&next) {
                    continue;
                }
                let ends = node.interfaces.iter().flat_map(|one| one.addresses);
                let mut ends = ends.map(|net| net.addr()).filter(|end| {
                    end.is_ipv4() == destination.is_ipv4()
                        && edge.addresses.iter().any(|net| net.contains(end))
                });
                if let Some(address) = ends.next() {
                    before.insert(next, Some((at, address)));
                    waiting.push_back(next);
                }
            }
        }
    }
    None
}

fn hops(before: &BTreeMap<usize, Option<(usize, IpAddr)>>, end: usize) -> Vec<HopPlan> {
    let mut hops = Vec::new();
    let mut at = end;
    while let Some((former, address)) = before.get(&at).copied().flatten() {
        hops.push(HopPlan { address, is_loose: false });
        at = former;
    }
    hops.reverse();
    hops
}

#[cfg(test)]
mod tests {
    use ipnet::IpNet;

    use super::*;

    /// A square of routers a, b, c and d, with a diagonal from b to d. `left` has the unreserved
    /// bandwidth of each line, in the order a-b, b-c, c-d, d-a, b-d, the same in both directions.
    fn found(left: [f64; 5], to: &str, rate: f64) -> Option<String> {
        let lines = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("b", "d")];
        let nets: Vec<[[IpNet; 1]; 2]> = (1..=lines.len())
            .map(|line| [1, 2].map(|end| [format!("10.0.{line}.{end}/30").parse().unwrap()]))
            .collect();
        let nodes: Vec<Node<'_>> = (["a", "b", "c", "d"].into_iter())
            .map(|name| {
                let ends = lines.iter().zip(&nets).zip(left);
                let own = ends.filter_map(|((line, nets), left)| {
                    let end = [line.0, line.1].iter().position(|end| *end == name)?;
                    Some(Edge { addresses: &nets[end], left })
                });
                let interfaces: Vec<Edge<'_>> = own.collect();
                let addresses = interfaces.iter().flat_map(|edge| edge.addresses);
                let addresses = addresses.map(|net| net.addr()).collect();
                Node { name, addresses, interfaces }
            })
            .collect();
        let hops = path(&nodes, "a", to.parse().unwrap(), rate)?;
        assert!(hops.iter().all(|hop| !hop.is_loose));
        let names = hops.iter().map(|hop| {
            let has = |node: &&Node<'_>| node.addresses.contains(&hop.address);
            nodes.iter().find(has).unwrap().name
        });
        Some(names.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn the_shortest_path_with_room_is_found() {
        let c = "10.0.2.2";
        for (left, to, rate, wanted) in [
            ([9.0; 5], c, 5.0, Some("b c")),
            ([9.0; 5], c, 9.0, Some("b c")),
            ([9.0; 5], c, 9.5, None),
            ([1.0, 9.0, 9.0, 9.0, 9.0], c, 5.0, Some("d c")),
            ([9.0, 1.0, 1.0, 9.0, 9.0], c, 5.0, None),
            ([1.0, 9.0, 1.0, 9.0, 9.0], c, 5.0, Some("d b c")),
            ([0.0; 5], "10.0.1.2", 0.0, Some("b")),
            ([9.0; 5], "192.0.2.1", 5.0, None),
            ([9.0; 5], "2001:db8::1", 5.0, None),
        ] {
            assert_eq!(found(left, to, rate).as_deref(), wanted, "{left:?} {to} {rate}");
        }
    }
}
