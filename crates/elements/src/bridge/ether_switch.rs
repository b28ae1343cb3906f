//! # EtherSwitch
//!
//! ## Synopsis
//! `EtherSwitch([TIMEOUT, keywords])`
//!
//! ## Ports
//! As many push inputs as push outputs: input n and output n belong to the same LAN.
//!
//! ## Description
//! A learning bridge. It remembers the source address of each frame with the input of that frame. A
//! frame to a remembered address leaves by that LAN's output, or not at all if it came from that
//! LAN. Frames to groups and to unknown addresses leave by all other outputs: the last output gets
//! the packet itself, the others get copies, as far as there are buffers.
//!
//! The table is bounded. Each address has eight possible places. If all are taken, the element
//! replaces the address whose last frame is the oldest. So a LAN that invents many addresses can
//! displace other addresses, whose frames are then flooded. It cannot cost more memory.
//!
//! ## Arguments
//! - TIMEOUT: how long an address is remembered after its last frame, default 300 s. 0 turns
//!   learning off: the switch is a hub.
//! - CAPACITY: places in the table, default 8192, rounded up to a power of two.
//! - RESERVED: whether the switch forwards frames that no bridge may forward; default true, as in
//!   Click. These are frames to 01:80:c2:00:00:00 to 0f (IEEE 802.1D section 7.12.6), and frames
//!   whose source is a group or broadcast address.
//!
//! ## Handlers
//! - `table` (read): addresses and their ports, one a line.
//! - `timeout` (read, write): TIMEOUT in seconds.
//! - `flooded` (read): frames sent to all.
//! - `clear` (write): forgets all addresses.
//!
//! ## See also
//! `FromDevice`, `ToDevice`, `Tee`

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use europa_engine::{
    ArgumentSet, Batch, Class, ClassInfo, ConfigError, Context, Element, Packet, arguments,
    handlers, keep, parse,
};
use europa_packet::{EthernetHeader, Header, MacAddr};

use crate::shared::neighbour::nanoseconds;

/// An address and the port where it was last a source.
#[derive(Clone, Copy, Debug, Default)]
struct Heard {
    /// In the low 48 bits; 0 if the place is empty.
    address: u64,
    at_ns: u64,
    port: u32,
}

/// Places of one address.
const WAYS: usize = 8;
/// Most places.
const MOST: usize = 1 << 20;

/// A learning bridge.
pub(crate) struct EtherSwitch {
    table: Vec<[Heard; WAYS]>,
    secret: u64,
    timeout_ns: u64,
    reserved: bool,
    flooded: u64,
}

impl Default for EtherSwitch {
    fn default() -> EtherSwitch {
        EtherSwitch {
            table: Vec::new(),
            secret: RandomState::new().hash_one(0u8) | 1,
            timeout_ns: 300_000_000_000,
            reserved: true,
            flooded: 0,
        }
    }
}

impl Class for EtherSwitch {
    const INFO: ClassInfo =
        ClassInfo::new("EtherSwitch", "-/=").processing("h/h").flow("#/[^#]").inline().keeps_long();
}

/// The destination of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Port(u32),
    Flood,
    Nowhere,
}

fn number(address: MacAddr) -> u64 {
    let [a, b, c, d, e, f] = address.0;
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

impl EtherSwitch {
    #[inline(always)]
    fn places(&mut self, address: u64) -> Option<&mut [Heard; WAYS]> {
        // The number of sets is a power of two, and the upper bits of a product depend on all bits
        // of the address.
        let hash = address.wrapping_mul(self.secret) >> 32;
        let index = hash as usize & self.table.len().wrapping_sub(1);
        self.table.get_mut(index)
    }

    #[inline(always)]
    fn learn(&mut self, address: u64, port: u32, now_ns: u64) {
        let Some(places) = self.places(address) else { return };
        let mut oldest = 0;
        let mut oldest_ns = u64::MAX;
        for (index, place) in places.iter().enumerate() {
            if place.address == address {
                oldest = index;
                break;
            }
            // An empty place counts as the oldest.
            if place.at_ns < oldest_ns || place.address == 0 {
                oldest = index;
                oldest_ns = if place.address == 0 { 0 } else { place.at_ns };
            }
        }
        if let Some(place) = places.get_mut(oldest) {
            *place = Heard { address, at_ns: now_ns, port };
        }
    }

    #[inline(always)]
    fn way(&mut self, packet: &Packet, from: u32, now_ns: u64) -> Way {
        let Some((header, _)) = EthernetHeader::parse(packet.data()) else { return Way::Nowhere };
        let timeout_ns = self.timeout_ns;
        if header.source.is_unicast() {
            if timeout_ns > 0 {
                self.learn(number(header.source), from, now_ns);
            }
        } else if !self.reserved && header.source.is_multicast() {
            return Way::Nowhere;
        }
        let to = header.destination;
        if to.is_multicast() || timeout_ns == 0 {
            let [a, b, c, d, e, f] = to.0;
            let reserved = [a, b, c, d, e, f & 0xf0] == [1, 0x80, 0xc2, 0, 0, 0];
            return if reserved && !self.reserved { Way::Nowhere } else { Way::Flood };
        }
        let address = number(to);
        let known = self
            .places(address)
            .and_then(|places| places.iter().find(|place| place.address == address).copied());
        match known {
            Some(heard) if now_ns.saturating_sub(heard.at_ns) < timeout_ns => match heard.port {
                port if port == from => Way::Nowhere,
                port => Way::Port(port),
            },
            _ => Way::Flood,
        }
    }

    /// Sends a frame to all LANs but its own.
    fn flood(&mut self, packet: Packet, from: usize, context: &mut Context<'_>) {
        self.flooded += 1;
        // There are as many LANs as inputs; any further output is no LAN.
        let mut others = (0..context.inputs()).filter(|port| *port != from);
        let Some(last) = others.next_back() else { return };
        for port in others {
            if let Some(copy) = packet.try_clone() {
                context.push(port, copy);
            }
        }
        context.push(last, packet);
    }

    /// The stations heard lately, a line each.
    fn lines(&self, now_ns: u64) -> String {
        let lately = |heard: &&Heard| {
            heard.address != 0 && now_ns.saturating_sub(heard.at_ns) < self.timeout_ns
        };
        let line = |heard: &Heard| {
            let [_, _, a, b, c, d, e, f] = heard.address.to_be_bytes();
            format!("{} {}\n", MacAddr([a, b, c, d, e, f]), heard.port)
        };
        self.table.iter().flatten().filter(lately).map(line).collect()
    }
}

impl ArgumentSet for EtherSwitch {
    arguments! { set this, given;
        positional "TIMEOUT": Duration = Duration::from_secs(300), with nanoseconds
            => this.timeout_ns;
        let capacity = keyword "CAPACITY": usize = 8192;
        keyword "RESERVED": bool = true => this.reserved;
        then {
            if capacity > MOST {
                return Err(ConfigError::other(format!("CAPACITY: at most {MOST}")));
            }
            let sets = capacity.div_ceil(WAYS).max(1).next_power_of_two();
            this.table = vec![[Heard::default(); WAYS]; sets];
        }
    }
}

impl Element for EtherSwitch {
    arguments! { this, given;
        set EtherSwitch => *this;
        then {
            if given.inputs() != given.outputs() {
                return Err(ConfigError::other("needs as many outputs as inputs"));
            }
        }
    }

    fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let now_ns = context.now_ns();
        let from = port as u32;
        let mut ways = [Way::Nowhere; europa_engine::BATCH];
        let mut only = None;
        let mut mixed = false;
        for (packet, way) in batch.iter().zip(&mut ways) {
            *way = self.way(packet, from, now_ns);
            mixed |= *only.get_or_insert(*way) != *way;
        }
        match only {
            Some(Way::Port(to)) if !mixed => context.push_batch(to as usize, batch),
            Some(Way::Nowhere) if !mixed => batch.clear(),
            _ => {
                for (packet, way) in batch.drain().zip(ways) {
                    match way {
                        Way::Port(to) => context.push(to as usize, packet),
                        Way::Flood => self.flood(packet, port, context),
                        Way::Nowhere => {}
                    }
                }
            }
        }
    }

    handlers! { this, context, value;
        read "table" => this.lines(context.now_ns());
        both "timeout" => this.timeout_ns / 1_000_000_000, set {
            this.timeout_ns = nanoseconds(parse("timeout", value)?);
        };
        read "flooded" => this.flooded;
        button "clear" => this.table.fill([Heard::default(); WAYS]);
    }

    keep! { this, old;
        then {
            for heard in old.table.iter().flatten().filter(|heard| heard.address != 0) {
                this.learn(heard.address, heard.port, heard.at_ns);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use europa_packet::{EtherType, Frame};
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn mac(n: u8) -> MacAddr {
        match n {
            255 => MacAddr::BROADCAST,
            n => MacAddr([2, 0, 0, 0, 0, n]),
        }
    }

    fn frame(from: u8, to: u8) -> Vec<u8> {
        Frame::new(mac(from), mac(to)).payload(EtherType::EXPERIMENTAL, b"x")
    }

    fn ports(out: Vec<(usize, Vec<u8>)>) -> Vec<usize> {
        let mut ports: Vec<usize> = out.into_iter().map(|(port, _)| port).collect();
        ports.sort_unstable();
        ports
    }

    #[test]
    fn learns_ages_and_forgets() {
        let mut bench = Bench::new("EtherSwitch", &["TIMEOUT 10"]);
        let second = 1_000_000_000;
        // time, input, from, to, outputs
        for (time, input, from, to, wanted) in [
            (0, 0, 1, 2, &[1, 2, 3][..]),
            (1, 1, 2, 1, &[0]),
            (1, 0, 1, 2, &[1]),
            (1, 0, 3, 1, &[]),
            (1, 2, 1, 2, &[1]),
            (1, 1, 2, 1, &[2]),
            (1, 3, 9, 255, &[0, 1, 2]),
            (10, 3, 9, 2, &[1]),
            (11, 3, 9, 2, &[0, 1, 2]),
        ] {
            bench.now_ns = time * second;
            let out = ports(bench.push(input, &[&frame(from, to)]));
            assert_eq!(out, wanted, "{time} s: {from} at {input} to {to}");
        }
        bench.router.write("e.clear", "").unwrap();
        assert_eq!(bench.router.read("e.table", ""), Ok(String::new()));
    }

    #[test]
    fn reserved_groups_can_be_kept_back() {
        let frame = |last| {
            let to = MacAddr([1, 0x80, 0xc2, 0, 0, last]);
            Frame::new(mac(1), to).payload(EtherType::EXPERIMENTAL, b"x")
        };
        for (arguments, last, count) in
            [(&[][..], 0, 3), (&["RESERVED false"], 0, 0), (&["RESERVED false"], 0x10, 3)]
        {
            assert_eq!(Bench::new("EtherSwitch", arguments).push(0, &[&frame(last)]).len(), count);
        }
        let from_all =
            Frame::new(MacAddr::BROADCAST, mac(2)).payload(EtherType::EXPERIMENTAL, b"x");
        for (arguments, count) in [(&[][..], 3), (&["RESERVED false"], 0)] {
            assert_eq!(Bench::new("EtherSwitch", arguments).push(0, &[&from_all]).len(), count);
        }
    }

    #[test]
    fn made_up_addresses_stay_within_the_table() {
        let mut bench = Bench::new("EtherSwitch", &["CAPACITY 16"]);
        for n in 0..200 {
            bench.push(0, &[&frame(n, 255)]);
        }
        let table = bench.router.read("e.table", "").unwrap();
        assert!(table.lines().count() <= 16, "{table}");
        bench.out.clear();
        assert_eq!(bench.arena.free(), 1024);
    }

    proptest! {
        /// Compares the switch with a plain map: every frame reaches the LAN of its destination,
        /// and never its own.
        #[test]
        fn frames_reach_their_lan(
            frames in prop::collection::vec((0usize..4, 1u8..9, 1u8..9), 1..60)
        ) {
            let mut bench = Bench::new("EtherSwitch", &[]);
            let mut known = HashMap::new();
            for (input, from, to) in frames {
                known.insert(from, input);
                let mut wanted: Vec<usize> = match known.get(&to) {
                    Some(port) => vec![*port],
                    None => (0..4).collect(),
                };
                wanted.retain(|port| *port != input);
                prop_assert_eq!(ports(bench.push(input, &[&frame(from, to)])), wanted);
            }
        }
    }
}
