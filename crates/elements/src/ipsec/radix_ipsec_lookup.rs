//! # RadixIPsecLookup
//!
//! ## Synopsis
//! `RadixIPsecLookup(ADDR/MASK [GATEWAY] OUTPUT [SPI ENCRYPT_KEY AUTH_KEY REPLAY OOSIZE], ...)`
//!
//! ## Ports
//! One push input, push outputs.
//!
//! ## Description
//! Looks up the destination annotation of packets and sends them by their route's output. A packet
//! of output 1 enters the route's tunnel. A packet of output 0 is for this router. If it is an ESP
//! packet, it belongs to the tunnel that its header names, and is dropped if there is none; other
//! packets for this router leave by output 2. A route's gateway becomes the destination annotation.
//! Packets start with the IP header.
//!
//! ## Arguments
//! - ADDR/MASK: destinations.
//! - GATEWAY: next router; `-` for none.
//! - OUTPUT: the output.
//! - SPI: number of the tunnel.
//! - ENCRYPT_KEY, AUTH_KEY: 16 bytes each: as text, as `\<...>` or as 32 hexadecimal digits.
//! - REPLAY: number of the tunnel's first packet.
//! - OOSIZE: how many packets may come out of order, 32 at most.
//!
//! ## Handlers
//! - `table` (read): routes, a line each.
//! - `lookup` (read with parameter): output and gateway for an address.
//! - `add`, `set`, `remove` (write): a route; `add` refuses a route that already exists.
//! - `drops` (read): packets without a route or a tunnel.
//!
//! ## See also
//! `IPsecESPEncap`, `IPsecESPUnencap`, `RadixIPLookup`

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::rc::Rc;

use europa_engine::{Ipv4Prefix, Names, Value, arguments, handlers};

use super::{ASSOCIATION, Association, KEY, SPI, Shared, publish};
use crate::control::script::shift_word;
use crate::prelude::*;
use crate::shared::fields::{be32, ip_header};

/// The protocol of ESP.
const ESP: u8 = 50;
/// Outputs with a meaning: packets for this router, packets into a tunnel, packets for its Linux.
const OWN: usize = 0;
const TUNNEL: usize = 1;
const HOST: usize = 2;

/// The destination of a packet.
#[derive(Clone)]
struct Route {
    prefix: Ipv4Prefix,
    gateway: Option<Ipv4Addr>,
    output: usize,
    /// The tunnel, and its number in packets' annotations.
    tunnel: Option<(Shared, u32)>,
}

/// Looks routes and tunnels up.
pub(crate) struct RadixIPsecLookup {
    /// Routes by length of the prefix, then by network.
    routes: Vec<HashMap<u32, Route>>,
    drops: u64,
}

impl Default for RadixIPsecLookup {
    fn default() -> RadixIPsecLookup {
        RadixIPsecLookup { routes: vec![HashMap::new(); 33], drops: 0 }
    }
}

impl Class for RadixIPsecLookup {
    const INFO: ClassInfo = ClassInfo::new("RadixIPsecLookup", "1/-").processing("h/h");
}

/// A key of 16 bytes.
fn key(text: &str) -> Option<[u8; KEY]> {
    let bytes = europa_engine::unquote(text)?;
    if let Ok(key) = bytes.as_slice().try_into() {
        return Some(key);
    }
    let digits = std::str::from_utf8(&bytes).ok().filter(|text| text.len() == 2 * KEY)?;
    let mut key = [0; KEY];
    for (at, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(key)
}

/// Reads a route. The output is optional unless `needs_output`.
fn route(text: &str, names: &Names, needs_output: bool) -> Option<Route> {
    let mut rest = text;
    let prefix = Ipv4Prefix::parse(shift_word(&mut rest), names)?;
    let mut word = shift_word(&mut rest);
    let mut gateway = None;
    if word == "-" {
        word = shift_word(&mut rest);
    } else if !word.bytes().all(|byte| byte.is_ascii_digit())
        && let Some(address) = Ipv4Addr::parse(word, names)
    {
        gateway = Some(address).filter(|address| !address.is_unspecified());
        word = shift_word(&mut rest);
    }
    let output = match word.parse() {
        Ok(output) => output,
        Err(_) if word.is_empty() && !needs_output => 0,
        Err(_) => return None,
    };
    let words: Vec<&str> = std::iter::from_fn(|| {
        let word = shift_word(&mut rest);
        (!word.is_empty()).then_some(word)
    })
    .collect();
    let tunnel = match words.as_slice() {
        [] => None,
        [spi, encryption, authentication, start, window] => {
            let (start, spi) = (start.parse().ok()?, u32::parse(spi, names)?);
            let association = Rc::new(RefCell::new(Association {
                spi,
                encryption: key(encryption)?,
                authentication: key(authentication)?,
                start,
                next: start,
                window: window.parse().ok()?,
                last: start,
                seen: 0,
            }));
            let number = publish(&association);
            Some((association, number))
        }
        _ => return None,
    };
    Some(Route { prefix, gateway, output, tunnel })
}

impl RadixIPsecLookup {
    fn lookup(&self, address: u32) -> Option<&Route> {
        (0..=32u32).rev().find_map(|length| {
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            self.routes.get(length as usize)?.get(&(address & mask))
        })
    }

    fn insert(&mut self, route: Route) {
        let network = route.prefix.network();
        if let Some(routes) = self.routes.get_mut(usize::from(route.prefix.length)) {
            routes.insert(network, route);
        }
    }

    fn has(&self, prefix: Ipv4Prefix) -> bool {
        let routes = self.routes.get(usize::from(prefix.length));
        routes.is_some_and(|routes| routes.contains_key(&prefix.network()))
    }

    /// The number of a tunnel in packets' annotations.
    fn tunnel(&self, spi: u32) -> Option<u32> {
        let mut tunnels = self.routes.iter().flat_map(HashMap::values);
        tunnels.find_map(|route| {
            let (association, number) = route.tunnel.as_ref()?;
            (association.borrow().spi == spi).then_some(*number)
        })
    }

    /// The output of a packet; sets the packet's annotations.
    fn way(&self, packet: &mut Packet) -> Option<usize> {
        let route = self.lookup(packet.dst_ip())?;
        let mut output = route.output;
        match output {
            TUNNEL => {
                let (association, number) = route.tunnel.as_ref()?;
                packet.set_annotation(SPI, association.borrow().spi.to_ne_bytes());
                packet.set_annotation(ASSOCIATION, number.to_ne_bytes());
            }
            OWN => {
                let header = ip_header(packet.data())?;
                if header.get(9) == Some(&ESP) {
                    let spi = be32(packet.data(), header.len())?;
                    let number = self.tunnel(spi)?;
                    packet.set_annotation(ASSOCIATION, number.to_ne_bytes());
                } else {
                    output = HOST;
                }
            }
            _ => {}
        }
        if let Some(gateway) = route.gateway {
            packet.set_dst_ip(gateway.into());
        }
        Some(output)
    }

    fn change(
        &mut self,
        handler: &str,
        text: &str,
        context: &mut Context<'_>,
    ) -> Result<(), HandlerError> {
        let outputs = context.outputs();
        let wanted = "'ADDR/MASK [GATEWAY] OUTPUT'";
        let wrong = || HandlerError::value(handler, text, wanted);
        let removes = handler == "remove";
        let route = route(text, context.address_names(), !removes).ok_or_else(wrong)?;
        let known = self.has(route.prefix);
        if removes {
            let routes = self.routes.get_mut(usize::from(route.prefix.length));
            let removed = routes.and_then(|routes| routes.remove(&route.prefix.network()));
            let missing = || HandlerError::Other(format!("no route for '{text}'"));
            return removed.map(|_| ()).ok_or_else(missing);
        }
        if route.output >= outputs {
            return Err(wrong());
        }
        if handler == "add" && known {
            return Err(HandlerError::Other(format!("conflict with existing route '{text}'")));
        }
        self.insert(route);
        Ok(())
    }

    fn table(&self) -> String {
        let mut routes: Vec<&Route> = self.routes.iter().flat_map(HashMap::values).collect();
        routes.sort_by_key(|route| (route.prefix.network(), route.prefix.length));
        let line = |route: &&Route| {
            let network = Ipv4Addr::from(route.prefix.network());
            let start = format!("{network}/{}\t", route.prefix.length);
            let more = if start.len() < 17 { "\t" } else { "" };
            let gateway = route.gateway.map_or_else(|| "-".to_owned(), |g| g.to_string()) + "\t";
            let wide = if gateway.len() < 9 { "\t" } else { "" };
            let tunnel = route.tunnel.as_ref().map(|(association, _)| association.borrow().spi);
            let tunnel = tunnel.map_or_else(String::new, |spi| format!("\tSPI {spi}"));
            format!("{start}{more}{gateway}{wide}{}{tunnel}\n", route.output)
        };
        routes.iter().map(line).collect()
    }
}

impl Element for RadixIPsecLookup {
    arguments! { this, given;
        let texts = rest "ROUTE": "ADDR/MASK [GATEWAY] OUTPUT [SPI ENCRYPT_KEY AUTH_KEY REPLAY OOSIZE]";
        then {
            let outputs = given.outputs();
            for (index, text) in texts {
                match route(text, given.names(), true) {
                    Some(route) if route.output < outputs => this.insert(route),
                    _ => {
                        let message = "expected 'ADDR/MASK [GATEWAY] OUTPUT [SPI ENCRYPT_KEY AUTH_KEY \
                            REPLAY OOSIZE]', with keys of 16 bytes";
                        given.error(ConfigError::at(index, message));
                    }
                }
            }
        }
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let mut drops = 0;
        context.push_each(batch, |packet| {
            let way = self.way(packet);
            drops += u64::from(way.is_none());
            way
        });
        self.drops += drops;
    }

    handlers! { this, context, value;
        read "table" => this.table();
        read "lookup" [PARAMETER] => {
            let address: Ipv4Addr = parse("lookup", value.trim())?;
            match this.lookup(address.into()) {
                None => "-1".to_owned(),
                Some(Route { gateway: Some(gateway), output, .. }) => format!("{output} {gateway}"),
                Some(route) => route.output.to_string(),
            }
        };
        write "add" => this.change("add", value, context)?;
        write "set" => this.change("set", value, context)?;
        write "remove" => this.change("remove", value, context)?;
        read "drops" => this.drops;
    }
}

#[cfg(test)]
mod tests {
    use europa_engine::{Arena, Graph, NoDevices, Router};

    use crate::testing::{Bench, ip_packet, part};

    const TUNNEL: &str = "10.2.0.0/16 10.9.0.2 1 234 ABCDEFFF001DEFD2354550FE40CD708E \
        112233EE556677888877665544332211 300 64";

    #[test]
    fn routes_are_found_and_changed() {
        let arguments = ["10.1.0.1/32 0", "10.0.0.0/8 - 3", TUNNEL];
        let mut bench = Bench::new("RadixIPsecLookup", &arguments);
        for (address, way) in [("10.1.0.1", "0"), ("10.2.3.4", "1 10.9.0.2"), ("11.0.0.1", "-1")] {
            assert_eq!(bench.router.read("e.lookup", address), Ok(way.into()));
        }
        bench.router.write("e.add", "11.0.0.0/8 1.2.3.4 3").unwrap();
        assert_eq!(bench.router.read("e.lookup", "11.0.0.1"), Ok("3 1.2.3.4".into()));
        assert!(bench.router.write("e.add", "11.0.0.0/8 2").is_err());
        bench.router.write("e.remove", "11.0.0.0/8").unwrap();
        assert_eq!(bench.router.read("e.table", "").unwrap().lines().count(), 3);
        for wrong in ["10.0.0.0/8", "10.0.0.0/8 9", "10.0.0.0/8 1 234 short short 1 2"] {
            assert!(Bench::error("RadixIPsecLookup", &[wrong]).starts_with("expected 'ADDR"));
        }
    }

    /// A packet that enters a tunnel leaves its other end exactly once.
    #[test]
    fn packets_go_through_a_tunnel() {
        for cipher in ["IPsecAES", "IPsecDES"] {
            for digest in ["IPsecAuthHMACSHA1", "IPsecAuthSHA1"] {
                tunnel(cipher, digest);
            }
        }
    }

    fn tunnel(cipher: &str, digest: &str) {
        let mut graph = Graph::default();
        let source = graph.add("source0", "TestSource", &[]);
        let sink = graph.add("sink", "TestSink", &[]);
        let near = graph.add("near", "RadixIPsecLookup", &[TUNNEL, "10.9.0.2/32 3"]);
        let far = TUNNEL.replace("10.2.0.0/16 10.9.0.2", "10.1.0.0/16 10.9.0.1");
        let far = graph.add("far", "RadixIPsecLookup", &["10.9.0.2/32 0", "10.2.0.0/16 3", &far]);
        let out = [
            graph.add("esp", "IPsecESPEncap", &[]),
            graph.add("auth", digest, &["0"]),
            graph.add("encrypt", cipher, &["1"]),
            graph.add("encap", "IPsecEncap", &["50"]),
        ];
        let tee = graph.add("tee", "Tee", &[]);
        let back = [
            graph.add("strip", "StripIPHeader", &[]),
            graph.add("decrypt", cipher, &["0"]),
            graph.add("verify", digest, &["1"]),
            graph.add("unesp", "IPsecESPUnencap", &[]),
            graph.add("mark", "CheckIPHeader", &[]),
            graph.add("get", "GetIPAddress", &["16"]),
        ];
        let chain = |graph: &mut Graph, elements: &[usize]| {
            for pair in elements.windows(2) {
                graph.connect(pair[0], 0, pair[1], 0);
            }
        };
        graph.connect(source, 0, near, 0);
        graph.connect(near, 1, out[0], 0);
        chain(&mut graph, &out);
        graph.connect(out[3], 0, near, 0);
        graph.connect(near, 3, tee, 0);
        let mark = graph.add("mark2", "MarkIPHeader", &[]);
        let fix = graph.add("fix", "GetIPAddress", &["16"]);
        graph.connect(tee, 0, mark, 0);
        chain(&mut graph, &[mark, fix]);
        graph.connect(fix, 0, far, 0);
        graph.connect(tee, 1, mark, 0);
        graph.connect(far, 0, back[0], 0);
        chain(&mut graph, &back);
        graph.connect(back[5], 0, far, 0);
        graph.connect(far, 3, sink, 0);
        let (registry, arena) = (Bench::registry(), Arena::heap(64, 2048));
        let graph = graph.resolved(&registry);
        let mut router = Router::build(&graph, &registry, &arena, &NoDevices, 0).unwrap();
        let mut plain = Vec::new();
        for length in [0, 1, 5, 6, 7, 8, 100] {
            let data = ip_packet(0x0a01_0001, 0x0a02_0001, 9, &vec![b'x'; length]);
            let mut packet = arena.packet(&data).unwrap();
            packet.set_network_header(0, 20);
            packet.set_dst_ip(0x0a02_0001);
            plain.push(data);
            part::source(&mut router, 0, [packet]);
            while router.run_once(0, &mut NoDevices) {}
        }
        let out: Vec<Vec<u8>> =
            part::sink(&mut router).iter().map(|(_, packet)| packet.data().to_vec()).collect();
        assert_eq!(out, plain, "{cipher} {digest}: each once, though each came twice");
    }
}
