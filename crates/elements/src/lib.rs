//! The element library: one element, one file.
//!
//! The comment at the top of each file is the element's manual page, with the same
//! sections in the same order. [`registry`] lists all classes.

mod arp_querier;
mod arp_responder;
pub mod builtin;
mod check_ip6_header;
mod check_ip_header;
mod check_length;
mod check_paint;
mod classifier;
mod common;
mod counter;
mod dec_ip6_hlim;
mod dec_ip_ttl;
mod direct_ip_lookup;
mod discard;
mod drop_broadcasts;
mod drop_martians;
mod ether_encap;
mod ether_switch;
mod fix_ip_src;
mod from_device;
mod from_host;
mod get_ip6_address;
mod get_ip_address;
mod hops;
mod icmp6_error;
mod icmp6_ping_responder;
mod icmp_error;
mod icmp_ping_responder;
mod idle;
mod infinite_source;
mod ip6_forward;
mod ip6_nd_advertiser;
mod ip6_nd_solicitor;
mod ip_forward;
mod ip_fragmenter;
mod ip_gw_options;
mod ip_print;
mod ip_routes;
mod lookup_ip6_route;
mod made;
mod mark_ip_header;
mod nd;
mod neighbour;
mod null;
mod paint;
mod paint_tee;
mod passes;
mod print;
mod queue;
mod radix_ip_lookup;
mod rate;
mod rated_source;
mod registry;
mod set_ip_address;
mod static_ip_lookup;
mod strip;
mod switch;
mod tee;
#[cfg(test)]
mod testing;
mod to_device;
mod to_host;
mod unqueue;
mod unstrip;

pub use registry::registry;
