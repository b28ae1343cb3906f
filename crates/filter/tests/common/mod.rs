//! Rules like those of ClassBench; the same seed gives the same rules.
//!
//! Three of ClassBench's models are imitated: access lists (specific addresses, one port),
//! firewalls (wide prefixes, ranges of ports, any protocol) and IP chains (in between). Addresses
//! nest: most are drawn inside networks that were drawn before.

use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

use europa_filter::{Filter, FiveTuple};
use europa_impair::Random;

/// Kinds of rules, with the seeds to which the figures apply.
pub(crate) const KINDS: [(Kind, u64); 3] =
    [(Kind::AccessList, 1), (Kind::Firewall, 2), (Kind::IpChain, 3)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    AccessList,
    Firewall,
    IpChain,
}

/// Draws by weights.
fn one_of<T: Copy>(random: &mut Random, table: &[(u32, T)]) -> T {
    let sum = table.iter().map(|(weight, _)| weight).sum();
    let mut at = random.below(sum);
    for (weight, value) in table {
        if at < *weight {
            return *value;
        }
        at -= weight;
    }
    table[0].1
}

struct Addresses(Vec<u32>);

impl Addresses {
    fn new(random: &mut Random, count: usize) -> Self {
        let mut networks: Vec<u32> = vec![random.bits() as u32];
        while networks.len() < count {
            // The address shares some leading bits with an existing one.
            let parent = networks[random.below(networks.len() as u32) as usize];
            let keep =
                one_of(random, &[(1, 0), (1, 8), (2, 12), (4, 16), (4, 20), (6, 24), (4, 28)]);
            let below = u32::MAX.checked_shr(keep).unwrap_or(0);
            networks.push(parent & !below | random.bits() as u32 & below);
        }
        Self(networks)
    }

    fn prefix(&self, random: &mut Random, lengths: &[(u32, u8)]) -> (Ipv4Addr, u8) {
        let bits = one_of(random, lengths);
        let address = self.0[random.below(self.0.len() as u32) as usize];
        let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
        ((address & mask).into(), bits)
    }
}

fn ports(random: &mut Random, any: u32, exact: u32, range: u32) -> RangeInclusive<u16> {
    const KNOWN: [u16; 16] =
        [80, 443, 53, 25, 22, 21, 110, 143, 161, 389, 445, 1433, 1521, 3306, 5060, 8080];
    match one_of(random, &[(any, 0), (exact, 1), (range, 2)]) {
        0 => 0..=65535,
        1 => {
            let port = match random.below(4) {
                0 => random.bits() as u16,
                _ => KNOWN[random.below(16) as usize],
            };
            port..=port
        }
        _ => match random.below(4) {
            0 => 1024..=65535,
            1 => 0..=1023,
            _ => {
                let first = random.below(60_000) as u16;
                first..=first + random.below(200) as u16
            }
        },
    }
}

/// Weights and lengths of prefixes.
type Lengths = &'static [(u32, u8)];

/// Filters, in order of priority.
pub(crate) fn generate(kind: Kind, count: usize, seed: u64) -> Vec<Filter> {
    let random = &mut Random::new(seed);
    let pool = (count / 8).max(16);
    let (sources, destinations) = (Addresses::new(random, pool), Addresses::new(random, pool));
    // In access lists almost all prefixes are hosts and subnets; in firewalls many match
    // everything.
    let (from, to): (Lengths, Lengths) = match kind {
        Kind::AccessList => (
            &[(2, 0), (4, 16), (6, 20), (8, 22), (20, 24), (10, 27), (8, 30), (42, 32)],
            &[(1, 0), (2, 16), (6, 22), (20, 24), (10, 26), (6, 29), (55, 32)],
        ),
        Kind::Firewall => (
            &[(25, 0), (5, 8), (10, 16), (5, 18), (20, 24), (5, 28), (30, 32)],
            &[(20, 0), (5, 9), (10, 16), (5, 21), (20, 24), (10, 28), (30, 32)],
        ),
        Kind::IpChain => (
            &[(8, 0), (4, 8), (8, 14), (12, 16), (6, 21), (24, 24), (8, 27), (30, 32)],
            &[(8, 0), (4, 10), (8, 16), (8, 19), (24, 24), (8, 26), (6, 30), (34, 32)],
        ),
    };
    let mut filters = Vec::with_capacity(count);
    while filters.len() < count {
        let (source, destination) = (sources.prefix(random, from), destinations.prefix(random, to));
        if source.1 == 0 && destination.1 == 0 && random.below(100) > 0 {
            continue;
        }
        let protocol =
            one_of(random, &[(70, (6, 255)), (20, (17, 255)), (3, (1, 255)), (7, (0, 0))]);
        let (source_ports, destination_ports) = match kind {
            _ if protocol.0 < 6 => (0..=65535, 0..=65535),
            Kind::AccessList => (0..=65535, ports(random, 30, 60, 10)),
            Kind::Firewall => (ports(random, 60, 30, 10), ports(random, 40, 40, 20)),
            Kind::IpChain => (ports(random, 70, 20, 10), ports(random, 40, 50, 10)),
        };
        let flags =
            if protocol.0 == 6 && random.below(20) == 0 { (0x1000, 0x1200) } else { (0, 0) };
        filters.push(Filter {
            source,
            destination,
            source_ports,
            destination_ports,
            protocol,
            flags,
        });
    }
    filters
}

/// A packet that matches a filter.
pub(crate) fn packet(random: &mut Random, filter: &Filter) -> FiveTuple {
    let address = |random: &mut Random, (network, bits): (Ipv4Addr, u8)| {
        let below = u32::MAX.checked_shr(bits.into()).unwrap_or(0);
        Ipv4Addr::from(u32::from(network) | random.bits() as u32 & below)
    };
    let port = |random: &mut Random, ports: &RangeInclusive<u16>| {
        ports.start() + random.below(u32::from(ports.end() - ports.start()) + 1) as u16
    };
    FiveTuple {
        source: address(random, filter.source),
        destination: address(random, filter.destination),
        source_port: port(random, &filter.source_ports),
        destination_port: port(random, &filter.destination_ports),
        protocol: filter.protocol.0 | random.bits() as u8 & !filter.protocol.1,
        flags: filter.flags.0 | random.bits() as u16 & !filter.flags.1,
    }
}
