//! # IPForward
//!
//! ## Synopsis
//! `IPForward(ETH, MTU)`
//!
//! ## Ports
//! One push input. Output 0: packets that are ready to be sent. Output 1: those that are for
//! Linux to deal with. Output 2, if connected: those that are too long and may be fragmented; else
//! they leave by output 1 too. Output 3, if connected: those that Linux's policy has it forward; else
//! they leave by output 1 too.
//!
//! ## Description
//! The last step of a router whose Linux owns neighbours and errors. Expects IP packets with the
//! destination annotation set to the next hop and the IP header annotation set. A packet whose next
//! hop is known, whose time to live is more than 1 and which fits MTU gets one less time to live
//! and an Ethernet header from ETH to that neighbour. Every other packet leaves as it came, so that
//! `Unstrip(14)` and `ToHost` give Linux the received frame: it asks for the neighbour, forwards
//! meanwhile, fragments, or sends an error.
//!
//! Linux's policy for the interface may change ETH and MTU, and may have all packets leave by output
//! 3, or those that came in by a certain interface. With an MTU of its own, packets that may be
//! fragmented leave by output 3 too.
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
//! - `passed` (read): packets that are for Linux.
//! - `policy` (read, write): lines that replace the policy as a whole: `mac ETH`; `mtu MTU`;
//!   `all REASON`, every packet leaves by output 3; `same INTERFACE REASON`, packets that came in by
//!   the interface of this number do.
//! - `reasons` (read): packets that left by output 3 for a reason of the policy, a line of count and
//!   reason each.
//!
//! ## See also
//! `HostGate`, `IP6Forward`, `ToHost`, `RadixIPLookup`, `ARPQuerier`

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, Ipv6Addr};

use europa_engine::{
    Arguments, Batch, Class, ClassInfo, ConfigError, Context, Element, Handler, HandlerError,
    Packet,
};
use europa_packet::{EtherType, MacAddr};
use europa_pool::packet::annotation::DST_IP6;

use crate::shared::ip_routes::{bad_line, load};
use crate::shared::made::encapsulate;
use crate::shared::neighbour::{Address, pair};
use crate::shared::reasons::{Reason, Reasons};

/// The differences between the families.
pub(crate) trait Family: Address + Default {
    const ETHER_TYPE: [u8; 2];
    /// The output for packets that the policy has Linux forward.
    const POLICY_OUTPUT: u16;
    fn target(packet: &Packet) -> Self;
    /// The verdict for a packet of at most `mtu` bytes, if it fits.
    fn check(packet: &Packet, mtu: usize) -> Verdict;
    fn count_down(packet: &mut Packet);
    fn parse(text: &str) -> Option<Self>;
    fn show(self) -> String;
    fn pair(text: &str) -> Option<(Self, [u8; 6])>;
}

/// The verdict for a packet with a known neighbour.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Good,
    Host,
    TooLong,
}

impl Family for u32 {
    const ETHER_TYPE: [u8; 2] = EtherType::IPV4.0;
    const POLICY_OUTPUT: u16 = 3;

    #[inline(always)]
    fn target(packet: &Packet) -> u32 {
        packet.dst_ip()
    }

    #[inline(always)]
    fn check(packet: &Packet, mtu: usize) -> Verdict {
        let Some(header) = packet.network_header().and_then(<[u8]>::first_chunk::<20>) else {
            return Verdict::Host;
        };
        match (header[8], packet.is_longer_than(mtu), header[6] & 0x40 != 0) {
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
    const POLICY_OUTPUT: u16 = 2;

    #[inline(always)]
    fn target(packet: &Packet) -> u128 {
        u128::from_be_bytes(packet.annotation(DST_IP6))
    }

    #[inline(always)]
    fn check(packet: &Packet, mtu: usize) -> Verdict {
        let Some(header) = packet.network_header().and_then(<[u8]>::first_chunk::<40>) else {
            return Verdict::Host;
        };
        if header[7] <= 1 || packet.is_longer_than(mtu) { Verdict::Host } else { Verdict::Good }
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
/// the entries in here.
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

/// Linux's last written policy of the interface.
#[derive(Clone, Default)]
struct Policy {
    text: String,
    mac: MacAddr,
    mtu: usize,
    all: Option<Reason>,
    same: Option<(u16, Reason)>,
}

/// The common code of both classes.
pub(crate) struct Forward<A> {
    table: Table<A>,
    /// The configured MTU of the `IPFragmenter` after output 2.
    mac: MacAddr,
    mtu: usize,
    policy: Policy,
    reasons: Reasons,
    passed: u64,
}

impl<A: Family> Default for Forward<A> {
    fn default() -> Forward<A> {
        Forward {
            table: Table::new(),
            mac: MacAddr::ZERO,
            mtu: 0,
            policy: Policy::default(),
            reasons: Reasons::default(),
            passed: 0,
        }
    }
}

/// The handlers of both.
pub(crate) const HANDLERS: &[Handler] = &[
    Handler::write("load"),
    Handler::read("table"),
    Handler::read("used"),
    Handler::read("count"),
    Handler::read("passed"),
    Handler::both("policy"),
    Handler::read("reasons"),
];

impl<A: Family> Forward<A> {
    pub(crate) fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        self.mac = MacAddr(arguments.mandatory("ETH")?);
        self.mtu = arguments.mandatory("MTU")?;
        self.policy = Policy { mac: self.mac, mtu: self.mtu, ..Policy::default() };
        arguments.finish()
    }

    pub(crate) fn push(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let has_own = context.outputs() > usize::from(A::POLICY_OUTPUT);
        let linux = if has_own { A::POLICY_OUTPUT } else { 1 };
        if let Some(reason) = self.policy.all {
            self.passed += batch.len() as u64;
            batch.iter().for_each(|_| self.reasons.count(reason));
            context.push_batch(usize::from(linux), batch);
            return;
        }
        let (table, mtu, passed) = (&mut self.table, self.policy.mtu, &mut self.passed);
        let (same, reasons) = (self.policy.same, &mut self.reasons);
        // Elements behind output 2 cut to the configured length only.
        let long = match context.outputs() > 2 {
            true if mtu == self.mtu => 2,
            true => linux,
            false => 1,
        };
        // Packets to the same next hop follow each other.
        let (mut last, mut header) = (A::default(), None);
        context.forward_each(batch, |packet| {
            if let Some((_, reason)) = same.filter(|(from, _)| *from == packet.interface()) {
                reasons.count(reason);
                *passed += 1;
                return linux;
            }
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
            *passed += u64::from(output != 2);
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
            "policy" => self.policy.text.clone(),
            "reasons" => self.reasons.show(),
            _ => self.passed.to_string(),
        }
    }

    pub(crate) fn write(&mut self, handler: &str, value: &str) -> Result<(), HandlerError> {
        match handler {
            "policy" => self.set_policy(value),
            _ => self.load(value),
        }
    }

    fn set_policy(&mut self, text: &str) -> Result<(), HandlerError> {
        let wanted = "lines of mac, mtu, all or same";
        let policy = self.read_policy(text);
        let policy = policy.ok_or_else(|| HandlerError::value("policy", text, wanted))?;
        if policy.mac != self.policy.mac {
            for slot in &mut self.table.slots {
                slot.header[6..12].copy_from_slice(&policy.mac.0);
            }
        }
        self.policy = policy;
        Ok(())
    }

    fn read_policy(&mut self, text: &str) -> Option<Policy> {
        let mut policy = Policy { mac: self.mac, mtu: self.mtu, ..Policy::default() };
        text.clone_into(&mut policy.text);
        for line in text.lines() {
            let (word, rest) = line.split_once(' ')?;
            match word {
                "mac" => policy.mac = rest.parse().ok()?,
                "mtu" => policy.mtu = rest.parse().ok()?,
                "all" => policy.all = Some(self.reasons.number(rest)?),
                "same" => {
                    let (interface, reason) = rest.split_once(' ')?;
                    policy.same = Some((interface.parse().ok()?, self.reasons.number(reason)?));
                }
                _ => return None,
            }
        }
        Some(policy)
    }

    /// Takes over the state of another element.
    pub(crate) fn take_state(&mut self, old: &mut Forward<A>) {
        if old.mac == self.mac {
            std::mem::swap(&mut self.table, &mut old.table);
            self.policy = std::mem::take(&mut old.policy);
            self.policy.mtu = self.policy.mtu.min(self.mtu);
            self.reasons = std::mem::take(&mut old.reasons);
        }
    }

    pub(crate) fn load(&mut self, text: &str) -> Result<(), HandlerError> {
        let [a, b, c, d, e, f] = self.policy.mac.0;
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
            const INFO: ClassInfo =
                ClassInfo::new($text, $ports).processing("h/h").inline().keeps_long();
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
                handler: &str,
                value: &str,
                _: &mut Context<'_>,
            ) -> Result<(), HandlerError> {
                self.0.write(handler, value)
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
    "1/1-4",
    "Sends IPv4 packets to neighbours, or to Linux."
);

#[cfg(test)]
mod tests;
