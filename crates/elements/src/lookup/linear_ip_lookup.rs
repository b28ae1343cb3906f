//! # LinearIPLookup
//!
//! ## Synopsis
//! `LinearIPLookup(ADDRESS/MASK [GATEWAY] OUTPUT, ...)`
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
//! - `table` (read): all routes, in the order in which they were added.
//! - `drops` (read): packets without a route.
//! - `add`, `set`, `remove`, `ctrl`, `load`, `flush` (write): see `RadixIPLookup`.
//!
//! ## See also
//! `RadixIPLookup`, `StaticIPLookup`

use crate::lookup::radix_ip_lookup::RadixIPLookup;
use crate::prelude::*;

/// A table of IPv4 routes.
pub(crate) struct LinearIPLookup(RadixIPLookup);

impl Default for LinearIPLookup {
    fn default() -> LinearIPLookup {
        let mut table = RadixIPLookup::default();
        table.0.keep_order();
        LinearIPLookup(table)
    }
}

impl Class for LinearIPLookup {
    const INFO: ClassInfo =
        ClassInfo::new("LinearIPLookup", "1/-").processing("h/h").inline().keeps_long();
}

impl Element for LinearIPLookup {
    delegate!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn all_find_the_longest_prefix() {
        for class in ["LinearIPLookup", "RangeIPLookup", "SortedIPLookup"] {
            let mut bench =
                Bench::with_outputs(class, &["10.0.0.0/8 0", "10.1.0.0/16 1.2.3.4 1"], 2);
            let packets = [0x0a02_0001, 0x0a01_0001].map(|address| {
                let mut packet = bench.arena.packet(b"x").unwrap();
                packet.set_dst_ip(address);
                packet
            });
            let mut outputs: Vec<_> =
                bench.push_packets(0, packets.into()).iter().map(|(o, _)| *o).collect();
            outputs.sort_unstable();
            assert_eq!(outputs, [0, 1], "{class}");
            bench.router.write("e.remove", "10.1.0.0/16").unwrap();
            assert_eq!(bench.router.read("e.lookup", "10.1.0.1"), Ok("0".into()));
        }
    }
}
