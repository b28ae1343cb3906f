//! The graph of nodes and links, with shortest paths.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

use crate::id::{Adjacency, InterfaceId};
use europa_impair::Random;

/// One end of a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) link: usize,
    pub(crate) own: IpAddr,
    pub(crate) far: IpAddr,
    pub(crate) far_node: usize,
    pub(crate) far_interface: InterfaceId,
}

/// A connected graph: a ring with chords.
#[derive(Debug)]
pub(crate) struct Topology {
    /// Interfaces by node; number 1 is the first.
    pub(crate) ends: Vec<Vec<End>>,
    pub(crate) links: usize,
    /// `next[from][to]` is the interface on a shortest path.
    next: Vec<Vec<usize>>,
}

pub(crate) fn router(node: usize) -> IpAddr {
    Ipv4Addr::new(192, 168, (node >> 8) as u8, node as u8).into()
}

pub(crate) fn node_of(address: IpAddr) -> Option<usize> {
    match address {
        IpAddr::V4(address) if address.octets()[0] == 192 => {
            let [_, _, high, low] = address.octets();
            Some(usize::from(high) << 8 | usize::from(low))
        }
        _ => None,
    }
}

impl Topology {
    pub(crate) fn new(nodes: usize, chords: usize, random: &mut Random) -> Self {
        let mut topology = Self { ends: vec![Vec::new(); nodes], links: 0, next: Vec::new() };
        for node in 0..nodes {
            topology.connect(node, (node + 1) % nodes);
        }
        for _ in 0..chords {
            let one = random.bits() as usize % nodes;
            let other = random.bits() as usize % nodes;
            let is_there = topology.ends[one].iter().any(|end| end.far_node == other);
            if one != other && !is_there {
                topology.connect(one, other);
            }
        }
        topology.next = (0..nodes).map(|node| topology.ways(node)).collect();
        topology
    }

    fn connect(&mut self, one: usize, other: usize) {
        let link = self.links;
        self.links += 1;
        let address = |end| IpAddr::from(Ipv4Addr::new(10, (link >> 8) as u8, link as u8, end));
        let interface = |ends: &Vec<End>| InterfaceId(ends.len() as u32 + 1);
        let (first, second) = (interface(&self.ends[one]), interface(&self.ends[other]));
        let (own, far) = (address(1), address(2));
        self.ends[one].push(End { link, own, far, far_node: other, far_interface: second });
        self.ends[other].push(End {
            link,
            own: far,
            far: own,
            far_node: one,
            far_interface: first,
        });
    }

    fn ways(&self, from: usize) -> Vec<usize> {
        let mut first = vec![usize::MAX; self.ends.len()];
        let mut queue = VecDeque::from([from]);
        let mut seen = vec![false; self.ends.len()];
        seen[from] = true;
        while let Some(node) = queue.pop_front() {
            for (interface, end) in self.ends[node].iter().enumerate() {
                if !std::mem::replace(&mut seen[end.far_node], true) {
                    first[end.far_node] = if node == from { interface } else { first[node] };
                    queue.push_back(end.far_node);
                }
            }
        }
        first
    }

    fn adjacency(&self, node: usize, index: usize) -> Adjacency {
        let address = self.ends[node][index].far;
        Adjacency { interface: InterfaceId(index as u32 + 1), address }
    }

    /// The neighbour on the path to a node.
    pub(crate) fn next_hop(&self, from: usize, to: usize) -> Option<Adjacency> {
        let index = *self.next[from].get(to)?;
        (index != usize::MAX).then(|| self.adjacency(from, index))
    }

    pub(crate) fn end(&self, node: usize, interface: InterfaceId) -> Option<&End> {
        self.ends[node].get(interface.0.checked_sub(1)? as usize)
    }

    /// The neighbour that has an address.
    pub(crate) fn neighbour(&self, node: usize, address: IpAddr) -> Option<Adjacency> {
        let is = |end: &End| end.far == address || router(end.far_node) == address;
        let index = self.ends[node].iter().position(is)?;
        Some(self.adjacency(node, index))
    }
}
