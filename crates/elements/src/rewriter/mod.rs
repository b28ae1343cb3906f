//! Address translation.

mod core;
mod deltas;
mod flows;
pub(crate) mod ftp_port_mapper;
pub(crate) mod icmp_ping_rewriter;
pub(crate) mod icmp_rewriter;
pub(crate) mod ip_addr_pair_rewriter;
pub(crate) mod ip_addr_rewriter;
pub(crate) mod ip_rewriter;
pub(crate) mod ip_rewriter_patterns;
mod pattern;
pub(crate) mod round_robin_ip_mapper;
pub(crate) mod source_ip_hash_mapper;
pub(crate) mod tcp_rewriter;
pub(crate) mod udp_rewriter;
