//! IPv6, beyond what `builtin: ipv4` needs.

pub(crate) mod ip6_fragmenter;
pub(crate) mod ip6_print;
