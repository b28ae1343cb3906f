//! Next hops of routes, by number: many routes share a next hop, or a set of next hops over which
//! flows are spread.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::rc::Rc;

use europa_engine::{DROP, Names, Packet, Value};
use europa_lookup::NextHop;

/// An IP address as a number; zero is none.
pub(crate) trait Gateway: Copy + Eq + Hash + Default {
    /// Reads an address.
    fn read(text: &str, names: &Names) -> Option<Self>;
    /// The written form.
    fn show(self) -> String;
    /// A number that is the same for all packets of a flow.
    fn flow(packet: &Packet, seed: u64) -> u64;
}

/// Offset of the ports behind the IP header, if this packet has ports.
#[inline(always)]
fn ports(protocol: u8, transport: Option<&[u8]>) -> u64 {
    match (protocol, transport.and_then(<[u8]>::first_chunk::<4>)) {
        // TCP, UDP, DCCP, SCTP, UDP-Lite.
        (6 | 17 | 33 | 132 | 136, Some(ports)) => u64::from(u32::from_ne_bytes(*ports)),
        _ => 0,
    }
}

#[inline(always)]
fn mix(seed: u64, value: u64) -> u64 {
    let product = u128::from(seed ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    (product as u64) ^ (product >> 64) as u64
}

impl Gateway for u32 {
    fn read(text: &str, names: &Names) -> Option<u32> {
        Ipv4Addr::parse(text, names).map(u32::from)
    }

    fn show(self) -> String {
        Ipv4Addr::from(self).to_string()
    }

    #[inline(always)]
    fn flow(packet: &Packet, seed: u64) -> u64 {
        let header = packet.network_header().unwrap_or(packet.data());
        let Some(ip) = header.first_chunk::<20>() else { return 0 };
        let [a, b, c, d, e, f, g, h] =
            [ip[12], ip[13], ip[14], ip[15], ip[16], ip[17], ip[18], ip[19]];
        let addresses = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
        // Later fragments have no ports, so fragments are spread by address alone: all parts of a
        // packet take the same way.
        let whole = u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff == 0;
        let transport = header.get(usize::from(ip[0] & 15) * 4..).filter(|_| whole);
        mix(mix(seed, addresses), ports(ip[9], transport) << 8 | u64::from(ip[9]))
    }
}

impl Gateway for u128 {
    fn read(text: &str, names: &Names) -> Option<u128> {
        Ipv6Addr::parse(text, names).map(u128::from)
    }

    fn show(self) -> String {
        Ipv6Addr::from(self).to_string()
    }

    #[inline(always)]
    fn flow(packet: &Packet, seed: u64) -> u64 {
        let header = packet.network_header().unwrap_or(packet.data());
        let Some(ip) = header.first_chunk::<40>() else { return 0 };
        let mut hash = seed;
        for part in ip[8..].chunks_exact(8) {
            let part = part.first_chunk().copied().unwrap_or_default();
            hash = mix(hash, u64::from_ne_bytes(part));
        }
        mix(hash, ports(ip[6], header.get(40..)) << 8 | u64::from(ip[6]))
    }
}

/// A next hop as packets see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hop<A> {
    /// Address of the next router; 0 if the destination is a neighbour.
    pub(crate) gateway: A,
    pub(crate) output: u16,
    /// Number of the table that selects one of several next hops; 0 for none.
    spread: u16,
}

/// One of the next hops of a route, and its share of the flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Part<A> {
    pub(crate) gateway: A,
    pub(crate) output: u16,
    pub(crate) weight: u16,
}

/// All next hops of a route: at least one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Way<A>(Vec<Part<A>>);

impl<A: Gateway> Way<A> {
    /// Reads `[GATEWAY] OUTPUT [*WEIGHT]`, several with bars between them.
    pub(crate) fn parse(text: &str, names: &Names) -> Option<Way<A>> {
        let part = |text: &str| {
            let mut words = text.split_whitespace();
            let first = words.next()?;
            let second = words.next();
            let (gateway, output, mut rest) = match second {
                None => ("-", first, None),
                Some(weight) if weight.starts_with('*') => ("-", first, Some(weight)),
                Some(output) => (first, output, None),
            };
            rest = rest.or_else(|| words.next());
            let weight = match rest {
                None => 1,
                Some(weight) => weight.strip_prefix('*')?.parse().ok().filter(|w| *w > 0)?,
            };
            if words.next().is_some() {
                return None;
            }
            let gateway = match gateway {
                "-" => A::default(),
                address => A::read(address, names)?,
            };
            Some(Part { gateway, output: output.parse().ok()?, weight })
        };
        text.split('|').map(part).collect::<Option<Vec<_>>>().map(Way)
    }

    /// The largest output's number.
    pub(crate) fn largest_output(&self) -> u16 {
        self.0.iter().map(|part| part.output).max().unwrap_or(0)
    }

    /// The written form, with `gap` between gateway and output.
    pub(crate) fn show(&self, gap: char) -> String {
        let part = |part: &Part<A>| {
            let gateway = match part.gateway {
                none if none == A::default() => "-".to_owned(),
                gateway => gateway.show(),
            };
            let weight = if part.weight > 1 { format!(" *{}", part.weight) } else { String::new() };
            format!("{gateway}{gap}{}{weight}", part.output)
        };
        self.0.iter().map(part).collect::<Vec<_>>().join(" | ")
    }

    /// The value of the handler `lookup`: output and gateway.
    pub(crate) fn answer(&self) -> String {
        let part = |part: &Part<A>| match part.gateway {
            none if none == A::default() => part.output.to_string(),
            gateway => format!("{} {}", part.output, gateway.show()),
        };
        self.0.iter().map(part).collect::<Vec<_>>().join(" | ")
    }
}

/// Number of places over which flows are spread. Next hops have places in proportion to their
/// weights.
const PLACES: usize = 256;

/// A number for each different set of next hops, and the data that packets need of it.
pub(crate) struct Hops<A> {
    /// By number; 0 means none.
    hops: Vec<Hop<A>>,
    /// Tables by the number of a [`Hop::spread`] minus one.
    spreads: Vec<Box<[Hop<A>; PLACES]>>,
    unused_spreads: Vec<u16>,
    ways: Vec<Option<Rc<Way<A>>>>,
    /// By number: how many routes use it.
    users: Vec<u32>,
    numbers: HashMap<Rc<Way<A>>, NextHop>,
    unused: Vec<NextHop>,
    /// Seed that differs between routers. If two routers in a row used equal hashes, the second
    /// would use only one next hop.
    seed: u64,
}

impl<A: Gateway> Default for Hops<A> {
    fn default() -> Hops<A> {
        let none = Hop { gateway: A::default(), output: DROP, spread: 0 };
        Hops {
            hops: vec![none],
            spreads: Vec::new(),
            unused_spreads: Vec::new(),
            ways: vec![None],
            users: vec![0],
            numbers: HashMap::new(),
            unused: Vec::new(),
            seed: RandomState::new().hash_one(0u8),
        }
    }
}

impl<A: Gateway> Hops<A> {
    /// The next hop of a packet whose route has this number; `None` for no route.
    #[inline(always)]
    pub(crate) fn of(&self, number: u16, packet: &Packet) -> Option<Hop<A>> {
        let hop = self.hops.get(usize::from(number)).filter(|_| number != 0)?;
        if hop.spread == 0 {
            return Some(*hop);
        }
        let places = self.spreads.get(usize::from(hop.spread) - 1)?;
        places.get((A::flow(packet, self.seed) >> 32) as usize % PLACES).copied()
    }

    /// The next hops of a number.
    pub(crate) fn way(&self, number: u16) -> Option<&Way<A>> {
        self.ways.get(usize::from(number))?.as_deref()
    }

    /// The number of these next hops, and counts one more route that uses it. `None` if there are
    /// too many.
    pub(crate) fn take(&mut self, way: &Way<A>) -> Option<NextHop> {
        let number = match self.numbers.get(way) {
            Some(number) => *number,
            None => self.make(way)?,
        };
        *self.users.get_mut(usize::from(number.get()))? += 1;
        Some(number)
    }

    fn make(&mut self, way: &Way<A>) -> Option<NextHop> {
        let hop = self.hop(way)?;
        let number = match self.unused.pop() {
            Some(number) => number,
            None => {
                let number = NextHop::new(u16::try_from(self.hops.len()).ok()?)?;
                self.hops.push(hop);
                self.ways.push(None);
                self.users.push(0);
                number
            }
        };
        let way = Rc::new(way.clone());
        *self.hops.get_mut(usize::from(number.get()))? = hop;
        *self.ways.get_mut(usize::from(number.get()))? = Some(Rc::clone(&way));
        self.numbers.insert(way, number);
        Some(number)
    }

    fn hop(&mut self, way: &Way<A>) -> Option<Hop<A>> {
        let single = |part: &Part<A>| Hop { gateway: part.gateway, output: part.output, spread: 0 };
        if let [part] = way.0.as_slice() {
            return Some(single(part));
        }
        let hops = spread(&way.0)?.map(|part| single(&part));
        let spread = match self.unused_spreads.pop() {
            Some(spread) => {
                **self.spreads.get_mut(usize::from(spread) - 1)? = hops;
                spread
            }
            None => {
                let spread = u16::try_from(self.spreads.len() + 1).ok()?;
                self.spreads.push(Box::new(hops));
                spread
            }
        };
        Some(Hop { gateway: A::default(), output: DROP, spread })
    }

    /// Counts one route less that uses this number.
    pub(crate) fn release(&mut self, number: NextHop) {
        let index = usize::from(number.get());
        let Some(users) = self.users.get_mut(index) else { return };
        *users -= 1;
        if *users > 0 {
            return;
        }
        if let Some(way) = self.ways.get_mut(index).and_then(Option::take) {
            self.numbers.remove(&way);
        }
        if let Some(hop) = self.hops.get(index).filter(|hop| hop.spread != 0) {
            self.unused_spreads.push(hop.spread);
        }
        self.unused.push(number);
    }
}

/// Assigns to each part its share of the places; the error is less than one place.
fn spread<A: Gateway>(parts: &[Part<A>]) -> Option<[Part<A>; PLACES]> {
    let total: usize = parts.iter().map(|part| usize::from(part.weight)).sum();
    let mut places = [*parts.first()?; PLACES];
    let mut before = 0;
    for part in parts {
        let after = before + usize::from(part.weight);
        let range = before * PLACES / total.max(1)..after * PLACES / total.max(1);
        places.get_mut(range)?.fill(*part);
        before = after;
    }
    Some(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(text: &str) -> Option<Way<u32>> {
        Way::parse(text, &Names::default())
    }

    #[test]
    fn ways_are_read_and_written() {
        for (text, shown) in [
            ("3", Some("- 3")),
            ("- 3", Some("- 3")),
            ("10.0.0.1 3", Some("10.0.0.1 3")),
            ("10.0.0.1 3 *2 | 10.1.0.1 4", Some("10.0.0.1 3 *2 | 10.1.0.1 4")),
            ("3 *2 | 4", Some("- 3 *2 | - 4")),
            ("", None),
            ("10.0.0.1 3 *0", None),
            ("10.0.0.1 3 2", None),
            ("10.0.0.1 3 |", None),
            ("10.0.0.1 3 *2 4", None),
        ] {
            assert_eq!(way(text).map(|way| way.show(' ')).as_deref(), shown, "{text}");
        }
    }

    #[test]
    fn shares_follow_weights() {
        for (text, wanted) in [
            ("0 | 1", &[128, 128][..]),
            ("0 *3 | 1", &[192, 64]),
            ("0 | 1 | 2", &[85, 85, 86]),
            ("0 *256 | 1", &[255, 1]),
        ] {
            let places = spread(&way(text).unwrap().0).unwrap();
            let count = |output| places.iter().filter(|part| part.output == output).count();
            let found: Vec<usize> = (0..wanted.len() as u16).map(count).collect();
            assert_eq!(found, wanted, "{text}");
        }
    }

    #[test]
    fn numbers_and_spreads_are_used_again() {
        let mut hops = Hops::<u32>::default();
        for round in 0..70_000u32 {
            let text = format!("{} 0 | 10.0.0.1 1", Ipv4Addr::from(round + 1));
            let number = hops.take(&way(&text).unwrap()).unwrap();
            assert_eq!(number.get(), 1);
            hops.release(number);
        }
        assert_eq!(hops.spreads.len(), 1);
    }
}
