//! # IPForward
//!
//! ## Synopsis
//! `IPForward(ETH, MTU)`
//!
//! ## Ports
//! One push input. Output 0: packets that are ready to be sent. Output 1: those that are for
//! Linux to deal with. Output 2, if connected: those that are too long and may be fragmented; else
//! they leave by output 1 too.
//!
//! ## Description
//! The last step of a router whose Linux owns neighbours and errors. Expects IP packets with the
//! destination annotation set to the next hop and the IP header annotation set. A packet whose
//! next hop is known, whose time to live is more than 1 and which fits MTU gets one less time to
//! live and an Ethernet header from ETH to that neighbour. Every other packet leaves as it came,
//! so that `Unstrip(14)` and `ToHost` give Linux the frame that was received: it asks for the
//! neighbour, forwards meanwhile, fragments, or tells the sender what is wrong.
//!
//! ## Arguments
//! - ETH: the interface's Ethernet address.
//! - MTU: longest packet in bytes.
//!
//! ## Handlers
//! - `load` (write): lines of `set ADDRESS ETH` or `remove ADDRESS`.
//! - `table` (read): all neighbours.
//! - `used` (read): neighbours that packets were sent to since the last time.
//! - `count` (read): number of neighbours.
//! - `passed` (read): packets that left by output 1.
//!
//! ## See also
//! `IP6Forward`, `ToHost`, `RadixIPLookup`, `ARPQuerier`

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, Ipv6Addr};

use europa_engine::{
    Arguments, Batch, Class, ClassInfo, ConfigError, Context, Element, Handler, HandlerError,
    Packet,
};
use europa_packet::{EtherType, MacAddr};
use europa_pool::packet::annotation::DST_IP6;

use crate::ip_routes::{bad_line, load};
use crate::made::encapsulate;
use crate::neighbour::{Address, pair};

/// What differs between the families.
pub(crate) trait Family: Address + Default {
    const ETHER_TYPE: [u8; 2];
    fn target(packet: &Packet) -> Self;
    /// What is to be done with a packet that is `mtu` bytes at most, if it fits.
    fn check(packet: &Packet, mtu: usize) -> Verdict;
    fn count_down(packet: &mut Packet);
    fn parse(text: &str) -> Option<Self>;
    fn show(self) -> String;
    fn pair(text: &str) -> Option<(Self, [u8; 6])>;
}

/// What is to be done with a packet whose neighbour is known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Good,
    Host,
    TooLong,
}

impl Family for u32 {
    const ETHER_TYPE: [u8; 2] = EtherType::IPV4.0;

    #[inline(always)]
    fn target(packet: &Packet) -> u32 {
        packet.dst_ip()
    }

    #[inline(always)]
    fn check(packet: &Packet, mtu: usize) -> Verdict {
        let Some(header) = packet.network_header().and_then(<[u8]>::first_chunk::<20>) else {
            return Verdict::Host;
        };
        match (header[8], packet.len() > mtu, header[6] & 0x40 != 0) {
            (0 | 1, ..) | (_, true, true) => Verdict::Host,
            (_, true, false) => Verdict::TooLong,
            _ => Verdict::Good,
        }
    }

    #[inline(always)]
    fn count_down(packet: &mut Packet) {
        let header = packet.network_header_mut().and_then(<[u8]>::first_chunk_mut::<20>);
        let Some([_, _, _, _, _, _, _, _, ttl, _, high, low, ..]) = header else { return };
        *ttl = ttl.saturating_sub(1);
        // As in `DecIPTTL` (RFC 1624 equation 3).
        let sum = u32::from(u16::from_be_bytes([*high, *low])) + 0x0100;
        [*high, *low] = ((sum + (sum >> 16)) as u16).to_be_bytes();
    }

    fn parse(text: &str) -> Option<u32> {
        text.parse::<Ipv4Addr>().ok().map(u32::from)
    }

    fn show(self) -> String {
        Ipv4Addr::from(self).to_string()
    }

    fn pair(text: &str) -> Option<(u32, [u8; 6])> {
        pair::<Ipv4Addr>(text).map(|(address, mac)| (address.into(), mac))
    }
}

impl Family for u128 {
    const ETHER_TYPE: [u8; 2] = EtherType::IPV6.0;

    #[inline(always)]
    fn target(packet: &Packet) -> u128 {
        u128::from_be_bytes(packet.annotation(DST_IP6))
    }

    #[inline(always)]
    fn check(packet: &Packet, mtu: usize) -> Verdict {
        let Some(header) = packet.network_header().and_then(<[u8]>::first_chunk::<40>) else {
            return Verdict::Host;
        };
        if header[7] <= 1 || packet.len() > mtu { Verdict::Host } else { Verdict::Good }
    }

    #[inline(always)]
    fn count_down(packet: &mut Packet) {
        if let Some(hops) = packet.network_header_mut().and_then(|header| header.get_mut(7)) {
            *hops = hops.saturating_sub(1);
        }
    }

    fn parse(text: &str) -> Option<u128> {
        text.parse::<Ipv6Addr>().ok().map(u128::from)
    }

    fn show(self) -> String {
        Ipv6Addr::from(self).to_string()
    }

    fn pair(text: &str) -> Option<(u128, [u8; 6])> {
        pair::<Ipv6Addr>(text).map(|(address, mac)| (address.into(), mac))
    }
}

#[derive(Clone, Copy)]
struct Slot<A> {
    address: A,
    header: [u8; 14],
    taken: bool,
    used: bool,
}

/// Headers by neighbour: open addressing, at most half full. Linux bounds its neighbours, and so
/// what can be in here.
struct Table<A> {
    slots: Vec<Slot<A>>,
    count: usize,
    secret: u64,
}

impl<A: Family> Table<A> {
    fn new() -> Table<A> {
        let empty = Slot { address: A::default(), header: [0; 14], taken: false, used: false };
        let secret = RandomState::new().hash_one(0u8) | 1;
        Table { slots: vec![empty; 64], count: 0, secret }
    }

    /// The slot that has the address, or would have it.
    #[inline(always)]
    fn place(&self, address: A) -> usize {
        let mask = self.slots.len() - 1;
        let mut index = (address.mix(self.secret) >> 32) as usize & mask;
        while self.slots.get(index).is_some_and(|slot| slot.taken && slot.address != address) {
            index = (index + 1) & mask;
        }
        index
    }

    #[inline(always)]
    fn get(&mut self, address: A) -> Option<[u8; 14]> {
        let index = self.place(address);
        let slot = self.slots.get_mut(index).filter(|slot| slot.taken)?;
        // Written once only: the line stays clean for the packets behind.
        if !slot.used {
            slot.used = true;
        }
        Some(slot.header)
    }

    fn set(&mut self, address: A, header: [u8; 14]) {
        if (self.count + 1) * 2 > self.slots.len() {
            let empty = Slot { address, header, taken: false, used: false };
            let larger = vec![empty; self.slots.len() * 2];
            for slot in std::mem::replace(&mut self.slots, larger).into_iter().filter(|s| s.taken) {
                let index = self.place(slot.address);
                if let Some(place) = self.slots.get_mut(index) {
                    *place = slot;
                }
            }
        }
        let index = self.place(address);
        if let Some(slot) = self.slots.get_mut(index) {
            self.count += usize::from(!slot.taken);
            *slot = Slot { address, header, taken: true, used: slot.taken && slot.used };
        }
    }

    fn remove(&mut self, address: A) {
        let mut index = self.place(address);
        let mask = self.slots.len() - 1;
        match self.slots.get_mut(index) {
            Some(slot) if slot.taken => slot.taken = false,
            _ => return,
        }
        self.count -= 1;
        // Those behind may have passed this place on the way to theirs.
        loop {
            index = (index + 1) & mask;
            let Some(slot) = self.slots.get(index).copied().filter(|slot| slot.taken) else {
                return;
            };
            if let Some(place) = self.slots.get_mut(index) {
                place.taken = false;
            }
            let better = self.place(slot.address);
            if let Some(place) = self.slots.get_mut(better) {
                *place = slot;
            }
        }
    }
}

/// What both classes do.
pub(crate) struct Forward<A> {
    table: Table<A>,
    mac: MacAddr,
    mtu: usize,
    passed: u64,
}

impl<A: Family> Default for Forward<A> {
    fn default() -> Forward<A> {
        Forward { table: Table::new(), mac: MacAddr::ZERO, mtu: 0, passed: 0 }
    }
}

/// The handlers of both.
pub(crate) const HANDLERS: &[Handler] = &[
    Handler::write("load"),
    Handler::read("table"),
    Handler::read("used"),
    Handler::read("count"),
    Handler::read("passed"),
];

impl<A: Family> Forward<A> {
    pub(crate) fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        self.mac = MacAddr(arguments.mandatory("ETH")?);
        self.mtu = arguments.mandatory("MTU")?;
        arguments.finish()
    }

    pub(crate) fn push(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let (table, mtu, passed) = (&mut self.table, self.mtu, &mut self.passed);
        let long = if context.outputs() > 2 { 2 } else { 1 };
        // Packets to the same next hop follow each other.
        let (mut last, mut header) = (A::default(), None);
        context.forward_each(batch, |packet| {
            let target = A::target(packet);
            if header.is_none() || target != last {
                (last, header) = (target, table.get(target));
            }
            let output = match (&header, A::check(packet, mtu)) {
                (Some(header), Verdict::Good) => {
                    A::count_down(packet);
                    if encapsulate(packet, header) {
                        return 0;
                    }
                    1
                }
                (Some(_), Verdict::TooLong) => long,
                _ => 1,
            };
            *passed += u64::from(output == 1);
            output
        });
    }

    pub(crate) fn read(&mut self, handler: &str) -> String {
        let slots = self.table.slots.iter_mut().filter(|slot| slot.taken);
        match handler {
            "table" => slots
                .map(|slot| {
                    let mac = slot.header.first_chunk().copied().unwrap_or_default();
                    format!("{} {}\n", slot.address.show(), MacAddr(mac))
                })
                .collect(),
            "used" => slots
                .filter_map(|slot| {
                    std::mem::take(&mut slot.used).then(|| slot.address.show() + "\n")
                })
                .collect(),
            "count" => self.table.count.to_string(),
            _ => self.passed.to_string(),
        }
    }

    /// Takes over what another knows.
    pub(crate) fn take_state(&mut self, old: &mut Forward<A>) {
        if old.mac == self.mac {
            std::mem::swap(&mut self.table, &mut old.table);
        }
    }

    pub(crate) fn load(&mut self, text: &str) -> Result<(), HandlerError> {
        let [a, b, c, d, e, f] = self.mac.0;
        let [g, h] = A::ETHER_TYPE;
        load(text, |line| match line.split_once(' ') {
            Some(("set", rest)) => {
                let (address, mac) = A::pair(rest).ok_or_else(|| bad_line(line))?;
                let mut header = [0, 0, 0, 0, 0, 0, a, b, c, d, e, f, g, h];
                for (to, from) in header.iter_mut().zip(mac) {
                    *to = from;
                }
                self.table.set(address, header);
                Ok(())
            }
            Some(("remove", rest)) => {
                self.table.remove(A::parse(rest).ok_or_else(|| bad_line(line))?);
                Ok(())
            }
            _ => Err(bad_line(line)),
        })
    }
}

macro_rules! forward_class {
    ($name:ident, $address:ty, $text:literal, $ports:literal, $doc:literal) => {
        #[doc = $doc]
        #[derive(Default)]
        pub(crate) struct $name(Forward<$address>);

        impl Class for $name {
            const INFO: ClassInfo = ClassInfo::new($text, $ports).processing("h/h");
        }

        impl Element for $name {
            fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
                self.0.configure(arguments)
            }

            fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
                self.0.push(batch, context);
            }

            fn handlers(&self) -> &'static [Handler] {
                HANDLERS
            }

            fn read(
                &mut self,
                handler: &str,
                _: &str,
                _: &mut Context<'_>,
            ) -> Result<String, HandlerError> {
                Ok(self.0.read(handler))
            }

            fn write(
                &mut self,
                _: &str,
                value: &str,
                _: &mut Context<'_>,
            ) -> Result<(), HandlerError> {
                self.0.load(value)
            }

            fn take_state(&mut self, old: &mut dyn Element) {
                let old = (old as &mut dyn std::any::Any).downcast_mut::<$name>();
                if let Some(old) = old {
                    self.0.take_state(&mut old.0);
                }
            }
        }
    };
}

pub(crate) use forward_class;

forward_class!(
    IPForward,
    u32,
    "IPForward",
    "1/1-3",
    "Sends IPv4 packets to neighbours, or to Linux."
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use europa_packet::{Frame, checksum};
    use proptest::prelude::*;
    use std::collections::HashMap;

    const HOP: u32 = 0x0a00_0009;

    fn packet(ttl: u8, flags: u8, length: usize) -> Vec<u8> {
        let payload = vec![7; length - 28];
        let mut bytes = Frame::bare().ipv4([192, 0, 2, 1], [192, 0, 2, 2]).udp(1, 2, &payload);
        bytes[8] = ttl;
        bytes[6] = flags;
        bytes[10..12].fill(0);
        let check = checksum::checksum(&bytes[..20]);
        bytes[10..12].copy_from_slice(&check.to_be_bytes());
        bytes
    }

    #[test]
    fn packets_are_ready_or_untouched() {
        for (what, outputs, next, bytes, output) in [
            ("good", 3, HOP, packet(64, 0, 100), 0),
            ("last hop", 3, HOP, packet(2, 0, 100), 0),
            ("expired", 3, HOP, packet(1, 0, 100), 1),
            ("unknown", 3, HOP + 1, packet(64, 0, 100), 1),
            ("just fits", 3, HOP, packet(64, 0x40, 1000), 0),
            ("too long, DF", 3, HOP, packet(64, 0x40, 1001), 1),
            ("too long", 3, HOP, packet(64, 0, 1001), 2),
            ("too long, nobody cuts", 2, HOP, packet(64, 0, 1001), 1),
            ("too long, expired", 3, HOP, packet(1, 0, 1001), 1),
            ("too long, unknown", 3, HOP + 1, packet(64, 0, 1001), 1),
        ] {
            let arguments = ["02:00:00:00:00:01", "1000"];
            let mut bench = Bench::with_outputs("IPForward", &arguments, outputs);
            bench.router.write("e.load", "set 10.0.0.9 02:00:00:00:00:0a").unwrap();
            let mut packet = bench.arena.packet(&bytes).unwrap();
            packet.set_network_header(0, 20);
            packet.set_dst_ip(next);
            let out = bench.push_packets(0, vec![packet]);
            assert_eq!(out[0].0, output, "{what}");
            if output > 0 {
                assert_eq!(out[0].1, bytes, "{what}");
                continue;
            }
            let (header, ip) = out[0].1.split_at(14);
            assert_eq!(header, [2, 0, 0, 0, 0, 10, 2, 0, 0, 0, 0, 1, 8, 0], "{what}");
            assert_eq!((ip[8], &ip[20..]), (bytes[8] - 1, &bytes[20..]), "{what}");
            assert!(checksum::verify(&ip[..20]), "{what}");
        }
    }

    #[test]
    fn ipv6_too() {
        let mut bench = Bench::new("IP6Forward", &["02:00:00:00:00:01", "1280"]);
        bench.router.write("e.load", "set fe80::9 02:00:00:00:00:0a").unwrap();
        for (hops, length, output) in [(2, 100, 0), (1, 100, 1), (64, 1281, 1)] {
            let mut bytes = vec![0; length];
            (bytes[0], bytes[7]) = (0x60, hops);
            let mut packet = bench.arena.packet(&bytes).unwrap();
            packet.set_network_header(0, 40);
            let next: Ipv6Addr = "fe80::9".parse().unwrap();
            packet.set_annotation(DST_IP6, next.octets());
            let out = bench.push_packets(0, vec![packet]);
            assert_eq!(out[0].0, output);
            if output == 0 {
                assert_eq!((out[0].1.len(), out[0].1[14 + 7]), (length + 14, hops - 1));
            }
        }
        assert_eq!(bench.router.read("e.used", ""), Ok("fe80::9\n".into()));
        assert_eq!(bench.router.read("e.used", ""), Ok(String::new()));
    }

    proptest! {
        #[test]
        fn the_table_is_a_map(orders in prop::collection::vec((0..200u32, any::<bool>()), 0..600)) {
            let (mut table, mut model) = (Table::<u32>::new(), HashMap::new());
            for (number, (address, add)) in orders.into_iter().enumerate() {
                let header = [number as u8; 14];
                if add {
                    table.set(address, header);
                    model.insert(address, header);
                } else {
                    table.remove(address);
                    model.remove(&address);
                }
                prop_assert_eq!(table.count, model.len());
            }
            for address in 0..200 {
                prop_assert_eq!(table.get(address), model.get(&address).copied());
            }
        }
    }

    #[test]
    fn bad_lines_are_told() {
        let mut bench = Bench::new("IPForward", &["02:00:00:00:00:01", "1500"]);
        for bad in ["set 10.0.0.9", "set fe80::1 02:00:00:00:00:0a", "remove x", "frob 1"] {
            assert!(bench.router.write("e.load", bad).is_err(), "{bad}");
        }
        assert_eq!(bench.router.read("e.count", ""), Ok("0".into()));
    }
}
