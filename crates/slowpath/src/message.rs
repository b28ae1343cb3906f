//! The kernel's messages about links, neighbours, next hops and routes: bytes to values.
//!
//! Numbers are from `linux/rtnetlink.h`, `neighbour.h`, `nexthop.h`.
//!
//! | file        | concern                                |
//! |-------------|----------------------------------------|
//! | `address`   | families, addresses, next routers       |
//! | `route`     | routes, next hop objects, labels        |
//! | `neighbour` | neighbours                             |
//! | `link`      | devices                                |

mod address;
mod link;
mod neighbour;
mod route;

pub(crate) use self::address::{Address, Gateway, INET, INET6, MPLS};
pub(crate) use self::link::Link;
pub(crate) use self::neighbour::{
    NDA_DST, NDA_LLADDR, NTF_USE, NUD_PERMANENT, NUD_STALE, Neighbour,
};
pub(crate) use self::route::{
    Hop, Object, RTA_DST, RTA_GATEWAY, RTA_OIF, RTN_BLACKHOLE, RTN_UNICAST, Route, Way, label,
};

/// Types of messages.
pub(crate) mod kind {
    pub(crate) const NEWLINK: u16 = 16;
    pub(crate) const DELLINK: u16 = 17;
    pub(crate) const GETLINK: u16 = 18;
    pub(crate) const DELADDR: u16 = 21;
    pub(crate) const NEWROUTE: u16 = 24;
    pub(crate) const DELROUTE: u16 = 25;
    pub(crate) const GETROUTE: u16 = 26;
    pub(crate) const NEWNEIGH: u16 = 28;
    pub(crate) const DELNEIGH: u16 = 29;
    pub(crate) const GETNEIGH: u16 = 30;
    pub(crate) const NEWNEXTHOP: u16 = 104;
    pub(crate) const DELNEXTHOP: u16 = 105;
    pub(crate) const GETNEXTHOP: u16 = 106;
    pub(crate) const NEWADDR: u16 = 20;
    pub(crate) const GETADDR: u16 = 22;
    pub(crate) const NEWRULE: u16 = 32;
    pub(crate) const DELRULE: u16 = 33;
    pub(crate) const GETRULE: u16 = 34;
    pub(crate) const NEWQDISC: u16 = 36;
    pub(crate) const DELQDISC: u16 = 37;
    pub(crate) const GETQDISC: u16 = 38;
    pub(crate) const NEWNETCONF: u16 = 80;
    pub(crate) const DELNETCONF: u16 = 81;
    pub(crate) const GETNETCONF: u16 = 82;
}

/// The family of a route message.
pub(crate) fn family(message: &[u8]) -> u8 {
    message.first().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests;
