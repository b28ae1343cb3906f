//! Code that elements of several folders share.

pub(crate) mod annotation;
pub(crate) mod common;
pub(crate) mod delegate;
pub(crate) mod fields;
pub(crate) mod files;
pub(crate) mod handler_call;
pub(crate) mod hops;
pub(crate) mod icmp_names;
pub(crate) mod ip_routes;
pub(crate) mod made;
pub(crate) mod nd;
pub(crate) mod neighbour;
pub(crate) mod random;
pub(crate) mod rate;
pub(crate) mod reasons;
pub(crate) mod values;
