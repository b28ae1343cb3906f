//! ARP and Neighbor Discovery.

pub(crate) mod arp_querier;
pub(crate) mod arp_responder;
pub(crate) mod arp_table;
pub(crate) mod ip6_nd_advertiser;
pub(crate) mod ip6_nd_solicitor;
pub(crate) mod mld_reporter;
