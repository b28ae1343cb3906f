//! # SortedIPLookup
//!
//! ## Synopsis
//! `SortedIPLookup(ADDRESS/MASK [GATEWAY] OUTPUT, ...)`
//!
//! ## Ports
//! One input, any number of outputs, push.
//!
//! ## Description
//! Looks up each packet's destination address annotation in a table of routes. It uses the table of
//! `RadixIPLookup`: Click's linear search would not be faster.
//!
//! ## Arguments
//! - ADDRESS/MASK: the route's prefix, `10.0.0.0/8` or `10.0.0.0/255.0.0.0`.
//! - GATEWAY: address of the next router; `-` or nothing if the destination is a neighbour.
//! - OUTPUT: number of the output.
//!
//! ## Handlers
//! - `lookup ADDRESS` (read): output and gateway.
//! - `table` (read): all routes.
//! - `drops` (read): packets without a route.
//! - `add`, `set`, `remove`, `ctrl`, `load`, `flush` (write): see `RadixIPLookup`.
//!
//! ## See also
//! `RadixIPLookup`, `StaticIPLookup`

use crate::lookup::radix_ip_lookup::RadixIPLookup;
use crate::prelude::*;

/// A table of IPv4 routes.
#[derive(Default)]
pub(crate) struct SortedIPLookup(RadixIPLookup);

impl Class for SortedIPLookup {
    const INFO: ClassInfo =
        ClassInfo::new("SortedIPLookup", "1/-").processing("h/h").inline().keeps_long();
}

impl Element for SortedIPLookup {
    delegate!();
}
