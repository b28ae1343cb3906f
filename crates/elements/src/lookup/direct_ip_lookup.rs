//! # DirectIPLookup
//!
//! ## Synopsis
//! `DirectIPLookup(ADDRESS/MASK [GATEWAY] OUTPUT, ...)`
//!
//! ## Ports
//! One input, any number of outputs, push.
//!
//! ## Description
//! Looks up each packet's destination address annotation, and sends the packet to the output of
//! the route with the longest matching prefix. If the route has a gateway, the annotation becomes
//! the gateway's address. Packets without a route are dropped.
//!
//! The same as `RadixIPLookup`, under the name that existing configurations use.
//!
//! ## Arguments
//! - ADDRESS/MASK: the route's prefix, `10.0.0.0/8` or `10.0.0.0/255.0.0.0`.
//! - GATEWAY: address of the next router; `-` or nothing if the destination is a neighbour.
//! - OUTPUT: number of the output.
//!
//! ## Handlers
//! - `lookup ADDRESS` (read): output and gateway.
//! - `table`, `table ADDRESS/MASK` (read): all routes, or those within a prefix.
//! - `count` (read): the number of routes.
//! - `add`, `set` (write): `ADDRESS/MASK [GATEWAY] OUTPUT`; `add` refuses a prefix that already
//!   has a route.
//! - `remove` (write): `ADDRESS/MASK`.
//! - `ctrl` (write): lines of `add`, `set` or `remove` and their values; either all lines take
//!   effect or none.
//! - `load` (write): lines of `set` and a route, or of `remove` and a prefix; a line with an error
//!   does not stop the others.
//! - `flush` (write): removes all routes.
//! - `drops` (read): packets without a route.
//!
//! ## See also
//! `RadixIPLookup`

use europa_engine::{Batch, Class, ClassInfo, Context, Element};

use crate::shared::delegate::delegate;
use crate::shared::ip_routes::IpRoutes;

/// A table of IPv4 routes.
#[derive(Default)]
pub(crate) struct DirectIPLookup(pub(crate) IpRoutes);

impl Class for DirectIPLookup {
    const INFO: ClassInfo =
        ClassInfo::new("DirectIPLookup", "1/-").processing("h/h").inline().keeps_long();
}

impl Element for DirectIPLookup {
    delegate!(arguments 0);

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        self.0.push(batch, context);
    }

    delegate!(handlers 0);
}
