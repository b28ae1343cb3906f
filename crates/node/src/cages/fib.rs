//! The routes and neighbours of the slow path's Linux, in tables of a program in a cage:
//! `bpf_fib_lookup` reads them.
//!
//! The mirror of the slow path writes to this as to a router's process (`route.load`,
//! `forward0.load`, `gate0.policy`); its lines become entries of maps. If Linux needs more than its
//! tables for a packet, the packet's interface is not open, and Linux gets the packet.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use europa_cage::cage::Cage;
use europa_channel::Channel;
use europa_router::orders::{Answer, Order};
use europa_slowpath::OWN_SOURCE;
use europa_substrate::HeldMap;
use ipnet::IpNet;

use super::shape::shape;

/// Names of the tables in `bpf/cage.bpf.c`.
const PORTS: &str = "cage_ports";
const ROUTES4: &str = "cage_routes4";
const ROUTES6: &str = "cage_routes6";
const NEIGHBOURS: &str = "cage_neighbours";

/// Bits of `struct cage_port`: received and sent packets.
const OPEN_IN: [u16; 2] = [1, 2];
const OPEN_OUT: [u16; 2] = [4, 8];
/// `struct cage_route`.
const ROUTE_DEVICE: u32 = 1;
const ROUTE_BLACKHOLE: u32 = 2;
/// Numbers of address families.
const FAMILY4: u32 = 2;
const FAMILY6: u32 = 10;
/// Interval of checks whether the tables are still needed.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The tables of a router.
#[derive(Debug)]
pub(crate) struct Tables {
    ports: HeldMap,
    routes4: HeldMap,
    routes6: HeldMap,
    neighbours: HeldMap,
}

impl Tables {
    /// Makes empty tables, which forward no packets.
    pub(super) fn new(cage: &Cage) -> io::Result<Tables> {
        let make = |name: &str| {
            let none = || io::Error::other(format!("the cage has no map '{name}'"));
            HeldMap::create(&shape(cage.map(name).ok_or_else(none)?))
        };
        Ok(Tables {
            ports: make(PORTS)?,
            routes4: make(ROUTES4)?,
            routes6: make(ROUTES6)?,
            neighbours: make(NEIGHBOURS)?,
        })
    }

    /// The table of this name.
    pub(super) fn map(&self, name: &str) -> Option<&HeldMap> {
        Some(match name {
            PORTS => &self.ports,
            ROUTES4 => &self.routes4,
            ROUTES6 => &self.routes6,
            NEIGHBOURS => &self.neighbours,
            _ => return None,
        })
    }
}

/// An interface with Linux's number.
#[derive(Clone, Copy, Debug, Default)]
struct Port {
    mac: [u8; 6],
    open: u16,
    mtu: [u32; 2],
}

impl Port {
    fn bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..6].copy_from_slice(&self.mac);
        bytes[6..8].copy_from_slice(&self.open.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.mtu[0].to_ne_bytes());
        bytes[12..].copy_from_slice(&self.mtu[1].to_ne_bytes());
        bytes
    }

    fn set(&mut self, bits: u16, open: bool) {
        self.open = if open { self.open | bits } else { self.open & !bits };
    }
}

/// Fills tables from a mirror, until it ends or `stop` is set.
pub(super) struct Filler {
    tables: Arc<Tables>,
    /// The router's interfaces are the first ones; further outputs lead to Linux.
    interfaces: usize,
    ports: HashMap<usize, Port>,
}

impl Filler {
    pub(super) fn new(tables: Arc<Tables>, interfaces: usize) -> Filler {
        Filler { tables, interfaces, ports: HashMap::new() }
    }

    /// Reads from the mirror at the other end of `feed`.
    pub(super) fn run(mut self, mut feed: Channel<Answer, Order>, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let answer = match feed.receive_within(LOOK_EVERY) {
                Ok(None) => continue,
                Ok(Some((Order::Write { path, value }, _))) => match self.write(&path, &value) {
                    Ok(()) => Answer::Done(String::new()),
                    Err(why) => Answer::Refused(why),
                },
                Ok(Some(_)) => Answer::Done(String::new()),
                Err(_) => break,
            };
            if feed.send(&answer, &[]).is_err() {
                break;
            }
        }
        // The mirror has ended.
        for device in 0..self.interfaces {
            let _ = self.change(device, |port| port.open = 0);
        }
    }

    /// Carries out an order to a router's element.
    fn write(&mut self, path: &str, value: &str) -> Result<(), String> {
        let (element, handler) = path.split_once('.').unwrap_or((path, ""));
        let number = |text: &str| text.parse::<usize>().ok();
        match (element, handler) {
            ("route" | "route6", "load") => self.each(value, |own, line| own.route(line)),
            (_, "policy") => {
                if let Some(device) = element.strip_prefix("gate").and_then(number) {
                    return self.gate(device, value).map_err(|error| error.to_string());
                }
                let Some((device, is_v4)) = forward(element) else { return Ok(()) };
                self.leave(device, is_v4, value).map_err(|error| error.to_string())
            }
            (_, "load") => match forward(element) {
                Some((device, _)) => self.each(value, |own, line| own.neighbour(device, line)),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn each(
        &mut self,
        text: &str,
        act: impl Fn(&mut Filler, &str) -> Option<io::Result<()>>,
    ) -> Result<(), String> {
        for line in text.lines() {
            match act(self, line) {
                Some(Ok(())) => {}
                Some(Err(error)) => return Err(format!("'{line}': {error}")),
                None => return Err(format!("'{line}' is no entry of a table")),
            }
        }
        Ok(())
    }

    /// `set PREFIX GATEWAY OUTPUT` or `remove PREFIX`.
    fn route(&mut self, line: &str) -> Option<io::Result<()>> {
        let mut words = line.split_whitespace();
        let (verb, prefix) = (words.next()?, words.next()?.parse::<IpNet>().ok()?);
        let (map, key) = match prefix {
            IpNet::V4(net) => {
                (&self.tables.routes4, prefix_key(net.prefix_len(), &net.addr().octets()))
            }
            IpNet::V6(net) => {
                (&self.tables.routes6, prefix_key(net.prefix_len(), &net.addr().octets()))
            }
        };
        if verb == "remove" {
            return Some(map.remove(&key).map(drop));
        }
        let (gateway, output) = (words.next()?, words.next()?.parse::<usize>().ok()?);
        let mut value = [0; 28];
        // Linux chooses among several next hops.
        let is_alone = words.next().is_none();
        if output < self.interfaces && is_alone {
            value[..4].copy_from_slice(&ROUTE_DEVICE.to_ne_bytes());
            value[4..8].copy_from_slice(&(output as u32 + 1).to_ne_bytes());
            if gateway != "-" {
                value[8..12].copy_from_slice(&1_u32.to_ne_bytes());
                match gateway.parse().ok()? {
                    IpAddr::V4(address) => value[12..16].copy_from_slice(&address.octets()),
                    IpAddr::V6(address) => value[12..].copy_from_slice(&address.octets()),
                }
            }
        } else if output == self.interfaces + 1 {
            value[..4].copy_from_slice(&ROUTE_BLACKHOLE.to_ne_bytes());
        }
        Some(map.update(&key, &value))
    }

    /// `set ADDRESS MAC` or `remove ADDRESS`.
    fn neighbour(&mut self, device: usize, line: &str) -> Option<io::Result<()>> {
        let mut words = line.split_whitespace();
        let (verb, address) = (words.next()?, words.next()?.parse::<IpAddr>().ok()?);
        let mut key = [0; 24];
        key[..4].copy_from_slice(&(device as u32 + 1).to_ne_bytes());
        let family = if address.is_ipv4() { FAMILY4 } else { FAMILY6 };
        key[4..8].copy_from_slice(&family.to_ne_bytes());
        match address {
            IpAddr::V4(address) => key[8..12].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => key[8..].copy_from_slice(&address.octets()),
        }
        if verb == "remove" {
            return Some(self.tables.neighbours.remove(&key).map(drop));
        }
        let mut value = [0; 8];
        value[..6].copy_from_slice(&mac(words.next()?)?);
        Some(self.tables.neighbours.update(&key, &value))
    }

    /// Linux's policy for received packets.
    fn gate(&mut self, device: usize, policy: &str) -> io::Result<()> {
        let mut open = [true; 2];
        let mut own = None;
        for line in policy.lines() {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "mac" => own = mac(rest),
                // The program gets frames of any length, and those to other stations.
                "longest" | "foreign" => {}
                "ip4" => open[0] = false,
                "ip6" => open[1] = false,
                // Every interface has these, and no forwarded packet has such a source.
                "from" if rest.ends_with(OWN_SOURCE) => {}
                "from" | "to" => {
                    let is_v6 = rest.split(' ').next().is_some_and(|prefix| prefix.contains(':'));
                    open[usize::from(is_v6)] = false;
                }
                "all" | "down" => open = [false; 2],
                _ => return Err(unknown(line)),
            }
        }
        self.change(device, |port| {
            port.mac = own.unwrap_or(port.mac);
            for (bit, open) in OPEN_IN.into_iter().zip(open) {
                port.set(bit, open);
            }
        })
    }

    /// Linux's policy for sent packets.
    fn leave(&mut self, device: usize, is_v4: bool, policy: &str) -> io::Result<()> {
        let mut open = !policy.is_empty();
        let (mut own, mut mtu) = (None, None);
        for line in policy.lines() {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "mac" => own = mac(rest),
                "mtu" => mtu = rest.parse().ok(),
                // Back to its input: Linux sends a redirect, if it gets the packet.
                "same" => {}
                "all" => open = false,
                _ => return Err(unknown(line)),
            }
        }
        let family = usize::from(!is_v4);
        self.change(device, |port| {
            port.mac = own.unwrap_or(port.mac);
            if let (Some(place), Some(mtu)) = (port.mtu.get_mut(family), mtu) {
                *place = mtu;
            }
            port.set(OPEN_OUT.get(family).copied().unwrap_or(0), open);
        })
    }

    fn change(&mut self, device: usize, change: impl FnOnce(&mut Port)) -> io::Result<()> {
        if device >= self.interfaces {
            return Ok(());
        }
        let port = self.ports.entry(device).or_default();
        change(port);
        self.tables.ports.update(&(device as u32 + 1).to_ne_bytes(), &port.bytes())
    }
}

/// Interface and family of an element that sends packets: `forward0`, `forward6_0`.
fn forward(element: &str) -> Option<(usize, bool)> {
    match element.strip_prefix("forward6_") {
        Some(number) => Some((number.parse().ok()?, false)),
        None => Some((element.strip_prefix("forward")?.parse().ok()?, true)),
    }
}

/// The key of a prefix: its bits, then its address.
fn prefix_key(bits: u8, address: &[u8]) -> Vec<u8> {
    let mut key = u32::from(bits).to_ne_bytes().to_vec();
    key.extend(address);
    key
}

/// The error for an unknown line of a policy: then Linux gets all packets.
fn unknown(line: &str) -> io::Error {
    io::Error::other(format!("'{line}' is no line of a policy"))
}

fn mac(text: &str) -> Option<[u8; 6]> {
    let mut bytes = text.trim().split(':').map(|byte| u8::from_str_radix(byte, 16));
    let mut mac = [0; 6];
    for place in &mut mac {
        *place = bytes.next()?.ok()?;
    }
    Some(mac)
}
