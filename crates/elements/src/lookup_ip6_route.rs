//! # LookupIP6Route
//!
//! ## Synopsis
//! `LookupIP6Route(ADDRESS/MASK [GATEWAY] OUTPUT, ...)`
//!
//! ## Ports
//! One push input, any number of push outputs.
//!
//! ## Description
//! Looks up each packet's IPv6 destination annotation: the route with the longest prefix that
//! has it says by which output the packet leaves. If the route has a gateway, the annotation
//! becomes the gateway's address. Packets without a route are dropped.
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
//! - `table` (read): all routes.
//! - `add` (write): as an argument; replaces the route that is there.
//! - `remove` (write): `ADDRESS/MASK`.
//! - `drops` (read): packets without a route.
//!
//! ## See also
//! `RadixIPLookup`, `GetIP6Address`

use std::net::Ipv6Addr;

use europa_engine::{
    Arguments, BATCH, Batch, Class, ClassInfo, ConfigError, Context, Element, Flags, Handler,
    HandlerError, Ipv6Prefix, Names, Value,
};
use europa_lookup::{Multibit6, NextHop, RouteTable};
use europa_pool::packet::annotation::DST_IP6;

use crate::common::parse;

/// Where a route leads. A gateway of 0 is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hop {
    gateway: u128,
    output: usize,
}

/// A table of IPv6 routes.
#[derive(Default)]
pub(crate) struct LookupIP6Route {
    table: Multibit6,
    /// By next hop number less one. They are few, so they are not counted nor reused.
    hops: Vec<Hop>,
    drops: u64,
}

impl Class for LookupIP6Route {
    const INFO: ClassInfo = ClassInfo::new("LookupIP6Route", "1/-").processing("h/h");
}

/// How a route is written.
const WANTED: &str = "ADDRESS/MASK [GATEWAY] OUTPUT";

fn route(text: &str, names: &Names) -> Option<(europa_packet::Ipv6Prefix, Hop)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (prefix, gateway, output) = match words.as_slice() {
        [prefix, output] => (prefix, "-", output),
        [prefix, gateway, output] => (prefix, *gateway, output),
        _ => return None,
    };
    let gateway = match gateway {
        "-" => 0,
        address => u128::from(Ipv6Addr::parse(address, names)?),
    };
    Some((key(Ipv6Prefix::parse(prefix, names)?)?, Hop { gateway, output: output.parse().ok()? }))
}

/// A prefix as the table wants it.
fn key(prefix: Ipv6Prefix) -> Option<europa_packet::Ipv6Prefix> {
    europa_packet::Ipv6Prefix::new(prefix.address, prefix.length).ok()
}

impl LookupIP6Route {
    fn add(&mut self, text: &str, names: &Names, outputs: usize) -> Result<(), String> {
        let (prefix, hop) =
            route(text, names).ok_or_else(|| format!("expected '{WANTED}', found '{text}'"))?;
        if hop.output >= outputs {
            return Err(format!("there is no output {}", hop.output));
        }
        let index = match self.hops.iter().position(|known| *known == hop) {
            Some(index) => index,
            None => {
                self.hops.push(hop);
                self.hops.len() - 1
            }
        };
        let number = u16::try_from(index + 1).ok().and_then(NextHop::new);
        let number = number.ok_or("too many different next hops")?;
        self.table.insert(prefix, number).map(drop).map_err(|error| error.to_string())
    }

    fn hop(&self, number: NextHop) -> Option<Hop> {
        self.hops.get(usize::from(number.get()) - 1).copied()
    }
}

impl Element for LookupIP6Route {
    fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        let outputs = arguments.outputs();
        for (index, text) in arguments.rest() {
            if let Err(message) = self.add(text, arguments.names(), outputs) {
                arguments.error(ConfigError::at(index, message));
            }
        }
        Ok(())
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
        let (hops, drops) = (self.hops.as_slice(), &mut self.drops);
        context.push_each(batch, |packet| {
            let number = usize::from(numbers.next().copied().unwrap_or(0));
            let hop = number.checked_sub(1).and_then(|index| hops.get(index));
            let Some(hop) = hop else {
                *drops += 1;
                return None;
            };
            if hop.gateway != 0 {
                packet.set_annotation(DST_IP6, hop.gateway.to_be_bytes());
            }
            Some(hop.output)
        });
    }

    fn handlers(&self) -> &'static [Handler] {
        const {
            &[
                Handler::read("lookup").with(Flags::PARAMETER),
                Handler::read("table").with(Flags::EXPENSIVE),
                Handler::write("add"),
                Handler::write("remove"),
                Handler::read("drops"),
            ]
        }
    }

    fn read(
        &mut self,
        handler: &str,
        parameter: &str,
        _: &mut Context<'_>,
    ) -> Result<String, HandlerError> {
        match handler {
            "lookup" => {
                let address: Ipv6Addr = parse(handler, parameter)?;
                let hop = self.table.lookup(address.into()).and_then(|number| self.hop(number));
                Ok(match hop {
                    None => "-1".to_owned(),
                    Some(Hop { gateway: 0, output }) => output.to_string(),
                    Some(Hop { gateway, output }) => {
                        format!("{output} {}", Ipv6Addr::from(gateway))
                    }
                })
            }
            "table" => {
                let lines = self.table.iter().filter_map(|(prefix, number)| {
                    let Hop { gateway, output } = self.hop(number)?;
                    let gateway = match gateway {
                        0 => "-".to_owned(),
                        gateway => Ipv6Addr::from(gateway).to_string(),
                    };
                    Some(format!("{prefix}\t{gateway}\t{output}\n"))
                });
                Ok(lines.collect())
            }
            _ => Ok(self.drops.to_string()),
        }
    }

    fn write(
        &mut self,
        handler: &str,
        value: &str,
        context: &mut Context<'_>,
    ) -> Result<(), HandlerError> {
        if handler == "add" {
            return self
                .add(value, &Names::default(), context.outputs())
                .map_err(HandlerError::Other);
        }
        let prefix = key(parse(handler, value)?);
        match prefix.and_then(|prefix| self.table.remove(prefix)) {
            Some(_) => Ok(()),
            None => Err(HandlerError::Other(format!("route '{value}' not found"))),
        }
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
        bench.router.write("e.remove", "2001:db8:1::/48").unwrap();
        assert_eq!(bench.router.read("e.lookup", "2001:db8:1::9"), Ok("0".into()));
        assert_eq!(bench.router.read("e.lookup", "::9"), Ok("-1".into()));
        for bad in ["2001:db8::/32", "2001:db8::/32 9", "10.0.0.0/8 0"] {
            assert!(bench.router.write("e.add", bad).is_err(), "{bad}");
        }
    }
}
