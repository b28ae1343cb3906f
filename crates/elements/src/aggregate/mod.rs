//! Aggregates: flows and other groups of packets, and their counts.

pub(crate) mod aggregate_counter;
pub(crate) mod aggregate_first;
pub(crate) mod aggregate_ip;
pub(crate) mod aggregate_ip_addr_pair;
pub(crate) mod aggregate_ip_flows;
pub(crate) mod aggregate_length;
pub(crate) mod aggregate_paint;
pub(crate) mod average_counter;
