//! # IP6NDSolicitor
//!
//! ## Synopsis
//! `IP6NDSolicitor(IP6, ETH, keywords)`
//!
//! ## Ports
//! Two push inputs: IPv6 packets, and Neighbor Discovery messages with their Ethernet headers. One
//! to three push outputs. Output 0: packets with Ethernet headers. Output 1, if connected:
//! solicitations; else they leave by output 0. Output 2, if connected: IPv6 packets whose
//! destination did not answer.
//!
//! ## Description
//! Puts an Ethernet header before each IPv6 packet, with the address of the neighbour that the
//! destination annotation names. It finds this address by Neighbor Discovery (RFC 4861): packets
//! wait while it sends three solicitations to the address's group, a second apart. If none is
//! answered, further packets are dropped, or leave by output 2 for an `ICMP6Error`.
//!
//! A known neighbour is reachable for 30 seconds, then stale. Packets to a stale neighbour are
//! still sent. Five seconds after the first of them, the element probes the neighbour three times,
//! and removes it if it does not answer. The element learns from advertisements and from the source
//! addresses of solicitations as RFC 4861 sections 7.2.3 and 7.2.5 say, but only about neighbours
//! to which the router wants to send.
//!
//! Packets to multicast groups go to the groups' Ethernet addresses. All tables are bounded, like
//! those of `ARPQuerier`.
//!
//! Without output 2, which Click's element lacks, it solicits as Click's element does: it sends to
//! the group, and only when a packet comes for a neighbour that is unknown or was last confirmed
//! more than a minute ago. It repeats no solicitation by itself. There is at most one solicitation
//! for an address every 100 ms, and after ten of them one every 2 s (Click: one for every packet).
//! One packet waits for a neighbour; a newer one replaces it.
//!
//! ## Arguments
//! - IP6: the interface's IPv6 address. Several, with blanks between them: a solicitation has
//!   the source that shares most bits with its target.
//! - ETH: the interface's Ethernet address.
//! - CAPACITY, ENTRY_CAPACITY, ENTRY_PACKET_CAPACITY, STATIC: as those of `ARPQuerier`.
//! - TIMEOUT: how long an unused entry is kept, default 20 minutes, without output 2 two minutes;
//!   0: forever.
//! - REACHABLE: how long an answer is valid, default 30 s, without output 2 a minute.
//!
//! ## Handlers
//! - `table` (read): a neighbour a line: address, state, Ethernet address, age; without output 2
//!   address, 1 if known, Ethernet address.
//! - `stats` (read): drops and queries in words.
//! - `queries`, `responses`, `drops` (read): counts.
//! - `count`, `length` (read): number of entries, number of packets that wait.
//! - `insert` (write): `IP6 ETH`; `delete` (write): `IP6`; `clear` (write): all entries; `forget`
//!   (write): removes all learned entries, as when the link goes down.
//! - `static` (write): `IP6 ETH`: adds a static neighbour.
//!
//! ## See also
//! `IP6NDAdvertiser`, `ARPQuerier`

use std::net::Ipv6Addr;
use std::time::Duration;

use europa_engine::{
    Batch, Class, ClassInfo, ConfigError, Context, Element, HandlerError, InitContext, Packet,
    Purpose, arguments, handlers, keep, parse,
};
use europa_packet::icmp6::{multicast_mac, solicited_node};
use europa_packet::{EtherType, MacAddr};
use europa_pool::packet::annotation::DST_IP6;

use crate::shared::made::{encapsulate, write};
use crate::shared::nd::{Ends, Message, hear, solicitation};
use crate::shared::neighbour::{
    Alarm, LimitArguments, Limits, Neighbours, Offer, State, Told, fixed, nanoseconds, pair,
    seconds,
};

/// Finds neighbours' Ethernet addresses by Neighbor Discovery.
pub(crate) struct IP6NDSolicitor {
    neighbours: Neighbours<u128>,
    /// Without output 2: sends requests only for packets.
    on_demand: bool,
    alarm: Alarm,
    mac: MacAddr,
    addresses: Vec<Ipv6Addr>,
    fixed: Vec<(Ipv6Addr, [u8; 6])>,
    /// Room for a timer's requests.
    questions: Vec<(u128, Option<[u8; 6]>)>,
    queries: u64,
    responses: u64,
    drops: u64,
}

impl Default for IP6NDSolicitor {
    fn default() -> IP6NDSolicitor {
        IP6NDSolicitor {
            neighbours: Neighbours::new(Limits::NONE, [0; 6], [0; 2]),
            on_demand: false,
            alarm: Alarm::default(),
            mac: MacAddr::ZERO,
            addresses: Vec::new(),
            fixed: Vec::new(),
            questions: Vec::new(),
            queries: 0,
            responses: 0,
            drops: 0,
        }
    }
}

impl Class for IP6NDSolicitor {
    const INFO: ClassInfo = ClassInfo::new("IP6NDSolicitor", "2/1-3")
        .processing("h/h")
        .flow("xy/x")
        .inline()
        .consumes()
        .keeps_long();
}

const SECOND_NS: u64 = 1_000_000_000;
/// Times of RFC 4861 section 10, except the last.
const DEFAULTS: Limits = Limits {
    entries: 1024,
    packets: 2048,
    packets_each: 64,
    fresh_ns: 30 * SECOND_NS,
    delay_ns: 5 * SECOND_NS,
    retransmit_ns: SECOND_NS,
    tries: 3,
    expire_ns: 1200 * SECOND_NS,
    on_demand: false,
    slim: 2,
};
/// Click's.
const ON_DEMAND: Limits = Limits {
    packets_each: 1,
    fresh_ns: 60 * SECOND_NS,
    expire_ns: 120 * SECOND_NS,
    on_demand: true,
    ..DEFAULTS
};

impl IP6NDSolicitor {
    /// The own address that shares most leading bits with `target`.
    fn source(&self, target: u128) -> Ipv6Addr {
        let shared = |own: &&Ipv6Addr| (u128::from(**own) ^ target).leading_zeros();
        self.addresses.iter().max_by_key(shared).copied().unwrap_or(Ipv6Addr::UNSPECIFIED)
    }

    /// Lines about all neighbours.
    fn lines(&self, now_ns: u64) -> String {
        let lines = self.neighbours.lines(now_ns).map(|line| {
            let (address, mac) = (Ipv6Addr::from(line.address), MacAddr(line.mac));
            if self.on_demand {
                let known = u8::from(line.state != State::Incomplete);
                return format!("{address} {known} {}\n", mac.dashed());
            }
            let state = format!("{:?}", line.state).to_lowercase();
            format!("{address} {state} {mac} {}\n", seconds(line.age_ns))
        });
        lines.collect()
    }

    /// Adds the neighbour that a handler is given, and sends the packets that wait for it.
    fn insert(
        &mut self,
        value: &str,
        fixed: bool,
        context: &mut Context<'_>,
    ) -> Result<(), HandlerError> {
        let handler = if fixed { "static" } else { "insert" };
        let (address, mac) = pair::<Ipv6Addr>(value)
            .ok_or_else(|| HandlerError::value(handler, value, "IP6 ETH"))?;
        let now_ns = context.now_ns();
        let release = |mut packet: Packet, header: &[u8; 14]| {
            if encapsulate(&mut packet, header) {
                context.push(0, packet);
            }
        };
        if !self.neighbours.insert(address.into(), mac, fixed, now_ns, release) {
            return Err(HandlerError::Other("the table is full".to_owned()));
        }
        self.alarm.set(&self.neighbours, context);
        Ok(())
    }

    /// Solicits an address: sends to its group, or to the neighbour itself.
    fn ask(&mut self, target: u128, mac: Option<[u8; 6]>, context: &mut Context<'_>) {
        self.queries += 1;
        let address = Ipv6Addr::from(target);
        let group = solicited_node(address);
        let (to, to_mac) = match mac {
            Some(mac) if !self.on_demand => (address, MacAddr(mac)),
            _ => (group, multicast_mac(group)),
        };
        let ends = Ends { from_mac: self.mac, to_mac, from: self.source(target), to };
        if let Some(packet) = solicitation(context, ends, address) {
            let output = usize::from(context.outputs() > 1);
            context.push(output, packet);
        }
    }

    fn send(&mut self, mut packet: Packet, header: &[u8; 14], context: &mut Context<'_>) {
        if encapsulate(&mut packet, header) {
            context.push(0, packet);
        } else {
            self.drops += 1;
        }
    }

    /// Handles a packet whose neighbour is not confirmed.
    fn find(&mut self, packet: Packet, context: &mut Context<'_>) {
        let target = u128::from_be_bytes(packet.annotation(DST_IP6));
        let address = Ipv6Addr::from(target);
        if address.is_multicast() {
            let mut header = [0; 14];
            let rest = write(&mut header, &multicast_mac(address).0);
            let rest = write(rest, &self.mac.0);
            write(rest, &EtherType::IPV6.0);
            self.send(packet, &header, context);
            return;
        }
        if target == 0 {
            self.drops += 1;
            return;
        }
        match self.neighbours.offer(target, packet, context.now_ns()) {
            Offer::Send(packet, header) => self.send(packet, &header, context),
            Offer::SendAndProbe(packet, header) => {
                self.send(packet, &header, context);
                self.ask(target, header.first_chunk().copied(), context);
            }
            Offer::WaitsAndAsk => self.ask(target, None, context),
            Offer::Waits | Offer::Refused => {}
        }
    }

    /// Takes in a message of another node.
    fn hear(&mut self, packet: &Packet, context: &mut Context<'_>) -> Option<()> {
        let heard = hear(packet.data())?;
        let told = match heard.message {
            Message::Solicitation { source_mac } => Told {
                address: heard.source.into(),
                mac: Some(source_mac?.0),
                solicited: false,
                overrides: true,
            },
            Message::Advertisement { solicited, overrides, target_mac } => {
                self.responses += 1;
                let mac = target_mac.map(|mac| mac.0);
                Told { address: heard.target.into(), mac, solicited, overrides }
            }
        };
        let mac = told.mac.map(MacAddr);
        if mac.is_some_and(|mac| !mac.is_unicast() || mac == self.mac) {
            return None;
        }
        self.drops += self.neighbours.learn_and_send(told, context);
        Some(())
    }
}

impl Element for IP6NDSolicitor {
    arguments! { this, given;
        let text = mandatory "IP6": String;
        let mac = positional "ETH": [u8; 6];
        let limits = set LimitArguments;
        let reachable = keyword "REACHABLE": Duration;
        keyword "STATIC": "pairs of addresses", by fixed => this.fixed;
        then {
            this.on_demand = given.outputs() < 3;
            let mut limits = limits.or(if this.on_demand { ON_DEMAND } else { DEFAULTS });
            limits.fresh_ns = reachable.map_or(limits.fresh_ns, nanoseconds).min(limits.expire_ns);
            let words = text.split_whitespace();
            this.addresses =
                words.map(|word| given.value("IP6", 0, word)).collect::<Result<_, _>>()?;
            // A name may stand for both.
            this.mac = MacAddr(mac.map_or_else(|| given.value("ETH", 0, &text), Ok)?);
            limits.entries = limits.entries.max(this.fixed.len() * 2);
            this.neighbours = Neighbours::new(limits, this.mac.0, EtherType::IPV6.0);
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.neighbours.set_share(context.share(Purpose::Neighbours));
        for (address, mac) in &self.fixed {
            self.neighbours.insert((*address).into(), *mac, true, context.now_ns(), |_, _| {});
        }
        Ok(())
    }

    fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        if port == 1 {
            for packet in batch.drain() {
                self.hear(&packet, context);
            }
        } else {
            let mut unknown = context.take_batch();
            let target = |packet: &Packet| u128::from_be_bytes(packet.annotation(DST_IP6));
            self.neighbours.send_known(batch, &mut unknown, target, context);
            for packet in unknown.drain() {
                self.find(packet, context);
            }
            context.give_batch(unknown);
        }
        self.alarm.set(&self.neighbours, context);
    }

    fn run_timer(&mut self, _: u32, context: &mut Context<'_>) {
        self.alarm.ran();
        let mut questions = std::mem::take(&mut self.questions);
        self.neighbours.tick(
            context.now_ns(),
            |address, mac| questions.push((address, mac)),
            |packet| context.push(2, packet),
        );
        for (address, mac) in questions.drain(..) {
            self.ask(address, mac, context);
        }
        self.questions = questions;
        self.alarm.set(&self.neighbours, context);
    }

    fn lost(&self) -> u64 {
        self.drops + self.neighbours.drops
    }

    handlers! { this, context, value;
        read "table" => this.lines(context.now_ns());
        read "stats" => {
            let drops = this.drops + this.neighbours.drops;
            format!("{drops} packets killed\n{} ND Solicitation Message sent\n", this.queries)
        };
        read "queries" => this.queries;
        read "responses" => this.responses;
        read "drops" => this.drops + this.neighbours.drops;
        read "count" => this.neighbours.count();
        read "length" => this.neighbours.length();
        write "insert" => this.insert(value, false, context)?;
        write "static" => this.insert(value, true, context)?;
        write "delete" => {
            let address: Ipv6Addr = parse("delete", value)?;
            this.neighbours.remove(address.into());
            this.alarm.set(&this.neighbours, context);
        };
        button "clear" => {
            this.neighbours.clear();
            (this.queries, this.responses, this.drops) = (0, 0, 0);
            this.alarm.set(&this.neighbours, context);
        };
        button "forget" => {
            this.neighbours.forget_learned();
            this.alarm.set(&this.neighbours, context);
        };
    }

    keep! { this, old if old.mac == this.mac;
        queries, responses;
        then {
            this.neighbours.take_state(&mut old.neighbours);
        }
    }

    fn resume(&mut self, context: &mut Context<'_>) {
        self.alarm.set(&self.neighbours, context);
    }
}

#[cfg(test)]
mod tests;
