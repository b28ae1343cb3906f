//! The next hop of a Path (RFC 3209, section 4.3.4.1).

use std::net::IpAddr;

use crate::fields::PathBody;
use crate::id::{Adjacency, LspKey};
use crate::lsp::Downstream;
use crate::signaller::Signaller;
use crate::wire::{AbstractNode, Cause, ExplicitHop, ExplicitRoute};
use crate::world::World;

/// Whether a prefix contains an address.
fn is_under(address: IpAddr, prefix: IpAddr, bits: u8) -> bool {
    let bits = u32::from(bits);
    match (address, prefix) {
        (IpAddr::V4(address), IpAddr::V4(prefix)) => {
            let different = address.to_bits() ^ prefix.to_bits();
            bits == 0 || different >> (32 - bits.min(32)) == 0
        }
        (IpAddr::V6(address), IpAddr::V6(prefix)) => {
            let different = address.to_bits() ^ prefix.to_bits();
            bits == 0 || different >> (128 - bits.min(128)) == 0
        }
        _ => false,
    }
}

impl Signaller {
    /// Whether this router is part of an abstract node.
    fn is_part_of(&self, node: &AbstractNode) -> bool {
        match node {
            AbstractNode::Prefix(prefix, bits) => {
                let own = self.config.interfaces.iter().flat_map(|interface| &interface.addresses);
                let mut all = own.chain(&self.config.addresses).chain([&self.config.router]);
                all.any(|own| is_under(*own, *prefix, *bits))
            }
            AbstractNode::Unnumbered(router, _) => self.config.router == IpAddr::V4(*router),
            AbstractNode::AutonomousSystem(_) | AbstractNode::Other(..) => false,
        }
    }

    /// The next hop of a Path, and the route in it.
    pub(crate) fn resolve(
        &self,
        world: &dyn World,
        lsp: &LspKey,
        path: &PathBody,
        is_head: bool,
    ) -> Result<(Downstream, Option<ExplicitRoute>), Cause> {
        let (downstream, route) = self.choose(world, lsp, path, is_head)?;
        let Some(via) = downstream.via() else { return Ok((downstream, route)) };
        let interface = self.config.interface(via.interface).ok_or(Cause::NO_ROUTE)?;
        let affinity = path.attribute.as_ref().and_then(|attribute| attribute.affinity);
        // RFC 3209, section 4.7.4: a link with excluded colours is not used.
        if affinity.is_some_and(|affinity| !affinity.admits(interface.colours)) {
            return Err(Cause::NO_ROUTE);
        }
        Ok((downstream, route))
    }

    fn choose(
        &self,
        world: &dyn World,
        lsp: &LspKey,
        path: &PathBody,
        is_head: bool,
    ) -> Result<(Downstream, Option<ExplicitRoute>), Cause> {
        let hops = path.route.as_ref().map_or(&[][..], |route| &route.0);
        // Steps 1 to 3: remove the leading hops that are part of this node.
        let done = hops.iter().take_while(|hop| self.is_part_of(&hop.node)).count();
        if done == 0 && !hops.is_empty() && !is_head {
            return Err(Cause::BAD_INITIAL);
        }
        let rest = &hops[done..];
        let destination = lsp.session.destination;
        let Some(next) = rest.first() else {
            if self.config.is_own(destination) {
                return Ok((Downstream::Tail, None));
            }
            let via = world.next_hop(destination).ok_or(Cause::NO_ROUTE)?;
            return Ok((Downstream::Hop(via), None));
        };
        if self.config.is_own(destination) {
            return Err(Cause::BAD_ROUTE);
        }
        // Step 4: find a neighbour that is part of the next hop.
        if let Some(via) = world.neighbour_in(&next.node) {
            return Ok((Downstream::Hop(via), Some(ExplicitRoute(rest.to_vec()))));
        }
        if !next.is_loose {
            return Err(match next.node {
                AbstractNode::Prefix(..) | AbstractNode::Unnumbered(..) => Cause::BAD_STRICT,
                _ => Cause::BAD_ROUTE,
            });
        }
        let towards = match next.node {
            AbstractNode::Prefix(prefix, _) => prefix,
            AbstractNode::Unnumbered(router, _) => router.into(),
            _ => return Err(Cause::BAD_LOOSE),
        };
        let via: Adjacency = world.next_hop(towards).ok_or(Cause::BAD_LOOSE)?;
        // Steps 5 to 8: put the neighbour at the front of the route.
        let mut route = vec![ExplicitHop::strict(via.address)];
        route.extend_from_slice(rest);
        Ok((Downstream::Hop(via), Some(ExplicitRoute(route))))
    }
}

#[cfg(test)]
mod tests {
    use super::is_under;

    #[test]
    fn prefixes_are_compared_by_their_bits() {
        let table = [
            ("10.1.2.3", "10.1.2.3", 32, true),
            ("10.1.2.3", "10.1.2.2", 32, false),
            ("10.1.2.3", "10.1.2.2", 31, true),
            ("10.1.2.3", "192.0.2.1", 0, true),
            ("10.1.2.3", "::", 0, false),
            ("2001:db8::1", "2001:db8::", 64, true),
            ("2001:db8:0:1::1", "2001:db8::", 64, false),
            ("2001:db8::1", "::", 0, true),
        ];
        for (address, prefix, bits, wanted) in table {
            let [address, prefix] = [address, prefix].map(|text| text.parse().unwrap());
            assert_eq!(is_under(address, prefix, bits), wanted, "{address} under {prefix}/{bits}");
        }
    }
}
