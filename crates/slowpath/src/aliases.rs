//! IPv4 addresses that represent IPv6 routers.
//!
//! A route to IPv4 destinations may have an IPv6 router (RFC 8950). The fast path can only have
//! IPv4 addresses of IPv4 neighbours, so each such router gets an address of the unused network
//! 0.0.0.0/8 (RFC 1122 section 3.2.1.3). It has the Ethernet address of the IPv6 neighbour.

use crate::intern::Interner;

/// Number of addresses of the network, without the first one, which means none.
const MOST: u32 = (1 << 24) - 1;

/// The routers and their numbers.
#[derive(Debug, Default)]
pub(crate) struct Aliases {
    routers: Interner<u128>,
    /// Routers that have an address since the last time.
    fresh: Vec<u128>,
}

impl Aliases {
    /// The address of a router; assigns one if it has none yet. `None` if there are too many.
    pub(crate) fn of(&mut self, router: u128) -> Option<u32> {
        if self.find(router).is_none() {
            if self.routers.len() as u32 >= MOST {
                return None;
            }
            self.routers.number(router);
            self.fresh.push(router);
        }
        self.find(router)
    }

    /// The address of a router that has one.
    pub(crate) fn find(&self, router: u128) -> Option<u32> {
        self.routers.find(&router).map(|number| number + 1)
    }

    /// The router of an address.
    pub(crate) fn router(&self, alias: u32) -> Option<u128> {
        self.routers.value(alias.checked_sub(1)?).copied()
    }

    /// Routers that have got an address since the last call.
    pub(crate) fn take_fresh(&mut self) -> Vec<u128> {
        std::mem::take(&mut self.fresh)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routers_have_addresses_of_their_own() {
        let mut aliases = Aliases::default();
        assert_eq!([aliases.of(7), aliases.of(9), aliases.of(7)], [Some(1), Some(2), Some(1)]);
        assert_eq!(aliases.take_fresh(), [7, 9]);
        assert_eq!(aliases.take_fresh(), []);
        assert_eq!((aliases.find(9), aliases.find(8)), (Some(2), None));
        assert_eq!((aliases.router(1), aliases.router(0)), (Some(7), None));
    }
}
