//! IPv4 tables.

pub(crate) mod linear_ip_lookup;
pub(crate) mod range_ip_lookup;
pub(crate) mod sorted_ip_lookup;
