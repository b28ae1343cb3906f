//! # LookupIP6Route
//!
//! ## Synopsis
//! `LookupIP6Route(ADDRESS/MASK [GATEWAY] OUTPUT, ...)`
//!
//! ## Ports
//! One push input, any number of push outputs.
//!
//! ## Description
//! Looks up each packet's IPv6 destination annotation, and sends the packet to the output of the
//! route with the longest matching prefix. If the route has a gateway, the annotation becomes the
//! gateway's address. Packets without a route are dropped.
//!
//! The table is a multibit trie; look-ups of a batch overlap.
//!
//! ## Arguments
//! - ADDRESS/MASK: the route's prefix, `2001:db8::/32`.
//! - GATEWAY: address of the next router; `-`, `::0` or nothing if the destination is a
//!   neighbour.
//! - OUTPUT: number of the output.
//!
//! ## Handlers
//! - `lookup ADDRESS` (read): output and gateway.
//! - `table`, `table ADDRESS/MASK` (read): all routes, or those within a prefix.
//! - `count` (read): the number of routes.
//! - `add` (write): a route, written as the argument; replaces an existing route of the same
//!   prefix.
//! - `remove` (write): `ADDRESS/MASK`.
//! - `load` (write): lines of `set` and a route, or of `remove` and a prefix; a line with an error
//!   does not stop the others.
//! - `drops` (read): packets without a route.
//!
//! ## See also
//! `RadixIPLookup`, `GetIP6Address`

use std::net::Ipv6Addr;

use europa_engine::{
    BATCH, Batch, Class, ClassInfo, ConfigError, Context, Element, HandlerError, Ipv6Prefix, Names,
    Value, arguments, handlers, parse,
};
use europa_lookup::{Multibit6, NextHop, RouteTable};
use europa_pool::packet::annotation::DST_IP6;

use crate::shared::hops::{Hops, Way};
use crate::shared::ip_routes::{bad_line, load};

/// A table of IPv6 routes.
#[derive(Default)]
pub(crate) struct LookupIP6Route {
    table: Multibit6,
    hops: Hops<u128>,
    drops: u64,
}

impl Class for LookupIP6Route {
    const INFO: ClassInfo =
        ClassInfo::new("LookupIP6Route", "1/-").processing("h/h").inline().keeps_long();
}

/// The form of a route.
const WANTED: &str = "ADDRESS/MASK [GATEWAY] OUTPUT";

fn route(text: &str, names: &Names) -> Option<(europa_packet::Ipv6Prefix, Way<u128>)> {
    let (prefix, way) = text.trim().split_once(char::is_whitespace)?;
    Some((key(Ipv6Prefix::parse(prefix, names)?)?, Way::parse(way, names)?))
}

/// A prefix in the form of the table.
fn key(prefix: Ipv6Prefix) -> Option<europa_packet::Ipv6Prefix> {
    europa_packet::Ipv6Prefix::new(prefix.address, prefix.length).ok()
}

impl LookupIP6Route {
    fn add(&mut self, text: &str, names: &Names, outputs: usize) -> Result<(), String> {
        let (prefix, way) =
            route(text, names).ok_or_else(|| format!("expected '{WANTED}', found '{text}'"))?;
        if usize::from(way.largest_output()) >= outputs {
            return Err(format!("there is no output {}", way.largest_output()));
        }
        let number = self.hops.take(&way).ok_or("too many different next hops")?;
        match self.table.insert(prefix, number) {
            Ok(old) => {
                old.into_iter().for_each(|old| self.hops.release(old));
                Ok(())
            }
            Err(error) => {
                self.hops.release(number);
                Err(error.to_string())
            }
        }
    }

    fn add_written(&mut self, text: &str, outputs: usize) -> Result<(), HandlerError> {
        self.add(text, &Names::default(), outputs).map_err(HandlerError::Other)
    }

    /// Lines about the routes within a prefix, or about all.
    fn lines(&self, parameter: &str) -> Result<String, HandlerError> {
        let within = if parameter.is_empty() { "::/0" } else { parameter };
        let wanted = || HandlerError::value("table", parameter, "ADDRESS/MASK");
        let within = key(parse("table", within)?).ok_or_else(wanted)?;
        let inside = self.table.iter().filter(|(prefix, _)| {
            prefix.prefix_len() >= within.prefix_len() && within.contains(prefix.addr())
        });
        let lines = inside.filter_map(|(prefix, number)| {
            Some(format!("{prefix}\t{}\n", self.hops.way(number.get())?.show('\t')))
        });
        Ok(lines.collect())
    }

    /// Returns whether it was there.
    fn remove(&mut self, text: &str) -> Result<bool, HandlerError> {
        let prefix = key(parse("remove", text)?);
        let old = prefix.and_then(|prefix| self.table.remove(prefix));
        old.into_iter().for_each(|old| self.hops.release(old));
        Ok(old.is_some())
    }
}

impl Element for LookupIP6Route {
    arguments! { this, given;
        let routes = rest "ROUTE": "'ADDRESS/MASK [GATEWAY] OUTPUT'";
        then {
            let outputs = given.outputs();
            if routes.is_empty() {
                given.warn("no routes");
            }
            for (index, text) in routes {
                if let Err(message) = this.add(text, given.names(), outputs) {
                    given.error(ConfigError::at(index, message));
                }
            }
        }
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let mut addresses = [0; BATCH];
        let mut numbers = [0; BATCH];
        for (packet, address) in batch.iter().zip(&mut addresses) {
            *address = u128::from_be_bytes(packet.annotation(DST_IP6));
        }
        let count = batch.len();
        if let (Some(addresses), Some(numbers)) = (addresses.get(..count), numbers.get_mut(..count))
        {
            self.table.lookup_batch(addresses, numbers);
        }
        let mut numbers = numbers.iter();
        let (hops, drops) = (&self.hops, &mut self.drops);
        context.push_each(batch, |packet| {
            let Some(hop) = hops.of(numbers.next().copied().unwrap_or(0), packet) else {
                *drops += 1;
                return None;
            };
            if hop.gateway != 0 {
                packet.set_annotation(DST_IP6, hop.gateway.to_be_bytes());
            }
            Some(usize::from(hop.output))
        });
    }

    handlers! { this, context, value;
        read "lookup" [PARAMETER] => {
            let address: Ipv6Addr = parse("lookup", value)?;
            let number = this.table.lookup(address.into()).map_or(0, NextHop::get);
            this.hops.way(number).map_or_else(|| "-1".to_owned(), Way::answer)
        };
        read "table" [EXPENSIVE] => this.lines(value)?;
        read "count" => this.table.len();
        write "add" => this.add_written(value, context.outputs())?;
        write "remove" => {
            if !this.remove(value)? {
                return Err(HandlerError::Other(format!("route '{value}' not found")));
            }
        };
        write "load" => {
            let outputs = context.outputs();
            load(value, |line| {
                let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
                match word {
                    "set" => this.add_written(rest, outputs),
                    "remove" => this.remove(rest).map(drop),
                    _ => Err(bad_line(line)),
                }
            })?;
        };
        read "drops" => this.drops;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    #[test]
    fn packets_follow_the_longest_prefix() {
        let routes = ["2001:db8::/32 0", "2001:db8:1::/48 fe80::1 1", "::/0 - 2"];
        for (address, output, gateway) in [
            ("2001:db8::1", 0, "2001:db8::1"),
            ("2001:db8:1::1", 1, "fe80::1"),
            ("2002::1", 2, "2002::1"),
        ] {
            let mut bench = Bench::new("LookupIP6Route", &routes);
            let octets = |text: &str| text.parse::<Ipv6Addr>().unwrap().octets();
            let mut packet = bench.arena.packet(b"x").unwrap();
            packet.set_annotation(DST_IP6, octets(address));
            let out = bench.push_packets(0, vec![packet]);
            assert_eq!(out, [(output, b"x".to_vec())], "{address}");
            assert_eq!(bench.out[0].1.annotation(DST_IP6), octets(gateway));
        }
    }

    #[test]
    fn handlers_change_the_table() {
        let mut bench = Bench::new("LookupIP6Route", &["2001:db8::/32 0"]);
        bench.router.write("e.add", "2001:db8:1::/48 fe80::1 1").unwrap();
        assert_eq!(bench.router.read("e.lookup", "2001:db8:1::9"), Ok("1 fe80::1".into()));
        let table = "2001:db8::/32\t-\t0\n2001:db8:1::/48\tfe80::1\t1\n";
        assert_eq!(bench.router.read("e.table", ""), Ok(table.into()));
        let part = bench.router.read("e.table", "2001:db8::/40");
        assert_eq!(part, Ok("2001:db8:1::/48\tfe80::1\t1\n".into()));
        assert!(bench.router.read("e.table", "10.0.0.0/8").is_err());
        assert_eq!(bench.router.read("e.count", ""), Ok("2".into()));
        bench.router.write("e.remove", "2001:db8:1::/48").unwrap();
        assert_eq!(bench.router.read("e.lookup", "2001:db8:1::9"), Ok("0".into()));
        assert_eq!(bench.router.read("e.lookup", "::9"), Ok("-1".into()));
        for bad in ["2001:db8::/32", "2001:db8::/32 9", "10.0.0.0/8 0"] {
            assert!(bench.router.write("e.add", bad).is_err(), "{bad}");
        }
    }
}
