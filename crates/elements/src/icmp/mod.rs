//! ICMP.

pub(crate) mod icmp6_error;
pub(crate) mod icmp6_ping_responder;
pub(crate) mod icmp_error;
pub(crate) mod icmp_ping_responder;
pub(crate) mod icmp_ping_source;
