//! # IPForward
//!
//! ## Synopsis
//! `IPForward(ETH, MTU)`
//!
//! ## Ports
//! One push input. Output 0: packets that are ready to be sent. Output 1: packets that Linux must
//! handle. Output 2, if connected: packets that are too long and may be fragmented; else they leave
//! by output 1 too. Output 3, if connected: packets that Linux's policy makes Linux forward; else
//! they leave by output 1 too.
//!
//! ## Description
//! The last step of a router whose Linux owns neighbours and errors. It expects IP packets with the
//! destination annotation set to the next hop and the IP header annotation set. A packet leaves by
//! output 0 if its next hop is known, its time to live is more than 1 and it fits MTU. Its time to
//! live is then reduced by one, and it gets an Ethernet header from ETH to that neighbour. Every
//! other packet leaves unchanged, so that `Unstrip(14)` and `ToHost` give Linux the received frame.
//! Linux resolves the neighbour and forwards in the meantime, fragments, or sends an error.
//!
//! Linux's policy for the interface may change ETH and MTU. It may send all packets by output 3, or
//! only those that came in by a certain interface. If the policy sets an MTU, packets that may be
//! fragmented leave by output 3 too.
//!
//! ## Arguments
//! - ETH: the interface's Ethernet address.
//! - MTU: longest packet in bytes.
//!
//! ## Handlers
//! - `load` (write): lines of `set ADDRESS ETH` or `remove ADDRESS`.
//! - `table` (read): all neighbours.
//! - `used` (read): neighbours to which packets were sent since the last read.
//! - `count` (read): number of neighbours.
//! - `passed` (read): packets that are for Linux.
//! - `policy` (read, write): lines that replace the policy as a whole: `mac ETH`; `mtu MTU`; `all
//!   REASON`, every packet leaves by output 3; `same INTERFACE REASON`, packets that came in by the
//!   interface of this number leave by output 3.
//! - `reasons` (read): packets that left by output 3 for a reason of the policy, a line of count and
//!   reason each.
//!
//! ## See also
//! `HostGate`, `IP6Forward`, `ToHost`, `RadixIPLookup`, `ARPQuerier`

mod family;
mod table;

use europa_engine::{
    ArgumentSet, Batch, Class, ClassInfo, Context, Element, HandlerError, arguments, handlers, keep,
};
use europa_packet::MacAddr;

use self::family::{Family, Verdict};
use self::table::{Slot, Table};
use crate::shared::ip_routes::{bad_line, load};
use crate::shared::made::encapsulate;
use crate::shared::reasons::{Reason, Reasons};

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

impl<A: Family> ArgumentSet for Forward<A> {
    arguments! { set this, given;
        mandatory "ETH": [u8; 6], with MacAddr => this.mac;
        mandatory "MTU": usize => this.mtu;
        then {
            this.policy = Policy { mac: this.mac, mtu: this.mtu, ..Policy::default() };
        }
    }
}

impl<A: Family> Forward<A> {
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
        // The elements after output 2 cut packets to the configured MTU only.
        let long = match context.outputs() > 2 {
            true if mtu == self.mtu => 2,
            true => linux,
            false => 1,
        };
        // Successive packets often have the same next hop.
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

    /// The neighbours.
    fn lines(&self) -> String {
        let slots = self.table.slots.iter().filter(|slot| slot.taken);
        let line = |slot: &Slot<A>| {
            let mac = slot.header.first_chunk().copied().unwrap_or_default();
            format!("{} {}\n", slot.address.show(), MacAddr(mac))
        };
        slots.map(line).collect()
    }

    /// The neighbours that packets went to since the last call.
    fn take_used(&mut self) -> String {
        let slots = self.table.slots.iter_mut().filter(|slot| slot.taken);
        let line =
            |slot: &mut Slot<A>| std::mem::take(&mut slot.used).then(|| slot.address.show() + "\n");
        slots.filter_map(line).collect()
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

impl<A: Family> Element for Forward<A> {
    arguments! { this, given; set Forward<A> => *this; }

    handlers! { this, context, value;
        write "load" => this.load(value)?;
        read "table" => this.lines();
        read "used" => this.take_used();
        read "count" => this.table.count;
        read "passed" => this.passed;
        both "policy" => this.policy.text, set this.set_policy(value)?;
        read "reasons" => this.reasons.show();
    }

    keep! { this, old if old.mac == this.mac;
        table, policy, reasons;
        then { this.policy.mtu = this.policy.mtu.min(this.mtu); }
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
            $crate::shared::delegate::delegate!(arguments 0);

            fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
                self.0.push(batch, context);
            }

            $crate::shared::delegate::delegate!(handlers 0);

            europa_engine::keep! { this, old; then { this.0.take_state(&mut old.0); } }
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
