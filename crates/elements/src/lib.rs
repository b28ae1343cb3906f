//! The element library: one element, one file.
//!
//! The comment at the top of each file is the element's manual page, with the same
//! sections in the same order. [`registry`] lists all classes.

mod check_ip_header;
mod check_paint;
mod classifier;
mod common;
mod counter;
mod dec_ip_ttl;
mod direct_ip_lookup;
mod discard;
mod drop_broadcasts;
mod ether_encap;
mod from_device;
mod get_ip_address;
mod idle;
mod infinite_source;
mod ip_print;
mod ip_routes;
mod mark_ip_header;
mod null;
mod paint;
mod paint_tee;
mod print;
mod queue;
mod radix_ip_lookup;
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
