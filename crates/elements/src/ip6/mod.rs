//! IPv6, beyond the needs of `builtin: ipv4`.

pub(crate) mod ip6_fragmenter;
pub(crate) mod ip6_print;
