//! The router's data for programs: time, numbers, routes.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use europa_cage::user::Host;
use europa_lookup::{Dir24, Multibit6, NextHop, RouteTable};
use europa_packet::MacAddr;
use ipnet::IpNet;

use crate::shared::random::Random;

/// Answers of `bpf_fib_lookup`.
const SUCCESS: i64 = 0;
const NOT_FORWARDED: i64 = 4;
const NO_NEIGHBOUR: i64 = 7;
/// Families.
const IPV4: u8 = 2;
const IPV6: u8 = 10;
const EINVAL: i64 = -22;
const EAFNOSUPPORT: i64 = -97;

/// Routes for `bpf_fib_lookup`.
#[derive(Default)]
pub(super) struct Routes {
    /// The routes in the order of writing; a next hop is an index here, plus 1.
    all: Vec<Route>,
    ipv4: Option<Box<Dir24>>,
    ipv6: Option<Box<Multibit6>>,
}

#[derive(Clone, Copy)]
struct Route {
    prefix: IpNet,
    output: u32,
    source: MacAddr,
    destination: Option<MacAddr>,
}

impl Routes {
    /// Reads `PREFIX OUTPUT SOURCE [DESTINATION]`, a route a line.
    pub(super) fn parse(text: &str) -> Result<Routes, String> {
        let mut routes = Routes::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let route = read(line).ok_or_else(|| {
                format!("routes: expected 'PREFIX OUTPUT SOURCE [DESTINATION]', found '{line}'")
            })?;
            let number = u16::try_from(routes.all.len() + 1).ok().and_then(NextHop::new);
            let number = number.ok_or("routes: more than 32767")?;
            match route.prefix {
                IpNet::V4(prefix) => {
                    let table = routes.ipv4.get_or_insert_default();
                    table
                        .insert(prefix.into(), number)
                        .map_err(|error| format!("routes: {error}"))?;
                }
                IpNet::V6(prefix) => {
                    let table = routes.ipv6.get_or_insert_default();
                    table
                        .insert(prefix.into(), number)
                        .map_err(|error| format!("routes: {error}"))?;
                }
            }
            routes.all.push(route);
        }
        Ok(routes)
    }

    /// The same, to be read.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for Route { prefix, output, source, destination } in &self.all {
            let _ = write!(text, "{prefix} {output} {source}");
            if let Some(destination) = destination {
                let _ = write!(text, " {destination}");
            }
            text.push('\n');
        }
        text
    }

    fn lookup(&self, address: IpAddr) -> Option<&Route> {
        let number = match address {
            IpAddr::V4(address) => self.ipv4.as_ref()?.lookup(address.into()),
            IpAddr::V6(address) => self.ipv6.as_ref()?.lookup(address.into()),
        };
        self.all.get(usize::from(number?.get()).checked_sub(1)?)
    }
}

fn read(line: &str) -> Option<Route> {
    let mut words = line.split_ascii_whitespace();
    let prefix: IpNet = words.next()?.parse().ok()?;
    let output = words.next()?.parse().ok()?;
    let source = words.next()?.parse().ok()?;
    let destination = words.next().map(|word| word.parse().ok());
    let destination = match destination {
        Some(found) => Some(found?),
        None => None,
    };
    let route = Route { prefix: prefix.trunc(), output, source, destination };
    words.next().is_none().then_some(route)
}

/// The router's data for programs.
pub(super) struct Surroundings<'a> {
    pub(super) now_ns: u64,
    pub(super) routes: &'a Routes,
}

impl Host for Surroundings<'_> {
    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn random(&mut self) -> u32 {
        Random.next()
    }

    fn fib_lookup(&mut self, parameters: &mut [u8; 64], _: u32) -> i64 {
        // `struct bpf_fib_lookup`: family at 0, device at 8, destination at 32, addresses at 52.
        let destination = parameters.get(32..).unwrap_or_default();
        let address = match parameters[0] {
            IPV4 => {
                destination.first_chunk().map(|octets: &[u8; 4]| Ipv4Addr::from(*octets).into())
            }
            IPV6 => {
                destination.first_chunk().map(|octets: &[u8; 16]| Ipv6Addr::from(*octets).into())
            }
            _ => return EAFNOSUPPORT,
        };
        let Some(address) = address else { return EINVAL };
        let Some(route) = self.routes.lookup(address) else { return NOT_FORWARDED };
        let Some(destination) = route.destination else { return NO_NEIGHBOUR };
        let answer = [
            (8, &route.output.to_le_bytes()[..]),
            (48, &[0; 4]),
            (52, &route.source.0),
            (58, &destination.0),
        ];
        for (at, bytes) in answer {
            if let Some(place) = parameters.get_mut(at..at + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        }
        SUCCESS
    }
}
