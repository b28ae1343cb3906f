//! # StaticIPLookup
//!
//! ## Synopsis
//! `StaticIPLookup(ADDRESS/MASK [GATEWAY] OUTPUT, ...)`
//!
//! ## Ports
//! One input, any number of outputs, push.
//!
//! ## Description
//! Looks up each packet's destination address annotation: the route with the longest prefix
//! that has it says by which output the packet leaves. If the route has a gateway, the
//! annotation becomes the gateway's address. Packets without a route are dropped.
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
//! - `count` (read): how many there are.
//! - `drops` (read): packets without a route.
//!
//! ## See also
//! `RadixIPLookup`

use europa_engine::{
    Arguments, Batch, Class, ClassInfo, ConfigError, Context, Element, Handler, HandlerError,
};

use crate::shared::ip_routes::{FIXED, IpRoutes};

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
    fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        self.0.configure(arguments)
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        self.0.push(batch, context);
    }

    fn handlers(&self) -> &'static [Handler] {
        FIXED
    }

    fn read(
        &mut self,
        handler: &str,
        parameter: &str,
        _: &mut Context<'_>,
    ) -> Result<String, HandlerError> {
        self.0.read(handler, parameter)
    }
}
