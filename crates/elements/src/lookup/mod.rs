//! Routing tables.

pub(crate) mod direct_ip_lookup;
pub(crate) mod linear_ip_lookup;
pub(crate) mod lookup_ip6_route;
pub(crate) mod radix_ip_lookup;
pub(crate) mod range_ip_lookup;
pub(crate) mod sorted_ip_lookup;
pub(crate) mod static_ip_lookup;
