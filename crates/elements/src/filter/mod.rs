//! Classification by contents.

pub(crate) mod classifier;
pub(crate) mod filter_result;
pub(crate) mod ip6_classifier;
pub(crate) mod ip6_filter;
pub(crate) mod ip_classifier;
pub(crate) mod ip_filter;
mod optimise;
mod parse;
mod program;
