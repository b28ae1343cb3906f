//! # StaticIPLookup
//!
//! ## Synopsis
//! `StaticIPLookup(ADDRESS/MASK [GATEWAY] OUTPUT, ...)`
//!
//! ## Ports
//! One input, any number of outputs, push.
//!
//! ## Description
//! Looks up each packet's destination address annotation, and sends the packet to the output of
//! the route with the longest matching prefix. If the route has a gateway, the annotation becomes
//! the gateway's address. Packets without a route are dropped.
//!
//! As `RadixIPLookup`, with routes that do not change.
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
//! - `drops` (read): packets without a route.
//!
//! ## See also
//! `RadixIPLookup`

use europa_engine::{Batch, Class, ClassInfo, Context, Element, handlers};

use crate::shared::delegate::delegate;
use crate::shared::ip_routes::IpRoutes;

/// A table of IPv4 routes.
#[derive(Default)]
pub(crate) struct StaticIPLookup(pub(crate) IpRoutes);

impl Class for StaticIPLookup {
    const INFO: ClassInfo = ClassInfo::new("StaticIPLookup", "1/-")
        .processing("h/h")
        .inline()
        .also(&["LookupIPRouteMP"])
        .keeps_long();
}

impl Element for StaticIPLookup {
    delegate!(arguments 0);

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        self.0.push(batch, context);
    }

    handlers! { this, context, value;
        read "lookup" [PARAMETER] => this.0.read("lookup", value, context)?;
        read "table" [EXPENSIVE] => this.0.read("table", value, context)?;
        read "count" => this.0.read("count", value, context)?;
        read "drops" => this.0.read("drops", value, context)?;
    }
}
