//! # IP6NDSolicitor
//!
//! ## Synopsis
//! `IP6NDSolicitor(IP6, ETH, keywords)`
//!
//! ## Ports
//! Two push inputs: IPv6 packets, and Neighbor Discovery messages with their Ethernet headers.
//! One to three push outputs: packets with Ethernet headers; solicitations, if connected, else
//! they leave by output 0; IPv6 packets whose destination did not answer, if connected.
//!
//! ## Description
//! Puts an Ethernet header before each IPv6 packet, with the address of the neighbour that the
//! destination annotation names, and finds it by Neighbor Discovery (RFC 4861): packets wait while
//! the group of the address is asked three times, a second apart. Further packets are dropped, or
//! leave by output 2 for an `ICMP6Error`.
//!
//! A known neighbour is reachable for 30 seconds, then stale. Packets to a stale one go on;
//! five seconds after the first it is probed, three times, and forgotten if it does not answer.
//! Advertisements, and the source addresses of solicitations, are believed as RFC 4861 sections
//! 7.2.3 and 7.2.5 say, but for neighbours that the router wants to send to and no others.
//!
//! Packets to multicast groups go to the groups' Ethernet addresses. All tables are bounded as
//! those of `ARPQuerier` are.
//!
//! Without output 2, which Click's element has not, it asks as Click's does: the group, and only
//! when a packet comes for a neighbour that is not known, or not for a minute; no question is
//! repeated by itself. An address is then asked for at most every 100 ms, after ten questions every
//! 2 s (Click: with every packet). One packet waits for a neighbour, and the newest takes its place.
//!
//! ## Arguments
//! - IP6: the interface's IPv6 address. Several, with blanks between them: a solicitation has
//!   the source that shares most bits with its target.
//! - ETH: the interface's Ethernet address.
//! - CAPACITY, ENTRY_CAPACITY, ENTRY_PACKET_CAPACITY, STATIC: as those of `ARPQuerier`.
//! - TIMEOUT: how long an unused entry is kept, default 20 minutes, without output 2 two minutes;
//!   0 for ever.
//! - REACHABLE: how long an answer is good, default 30 s, without output 2 a minute.
//!
//! ## Handlers
//! - `table` (read): a neighbour a line: address, state, Ethernet address, age; without output 2
//!   address, 1 if known, Ethernet address.
//! - `stats` (read): drops and queries in words.
//! - `queries`, `responses`, `drops` (read): counts.
//! - `count`, `length` (read): number of entries, number of packets that wait.
//! - `insert` (write): `IP6 ETH`; `delete` (write): `IP6`; `clear` (write): all entries;
//!   `forget` (write): all that were learned, as when the link goes down.
//! - `static` (write): `IP6 ETH`: one of STATIC.
//!
//! ## See also
//! `IP6NDAdvertiser`, `ARPQuerier`

use std::any::Any;
use std::net::Ipv6Addr;
use std::time::Duration;

use europa_engine::{
    Arguments, Batch, Class, ClassInfo, ConfigError, Context, Element, Handler, HandlerError,
    InitContext, Packet, Purpose, parse,
};
use europa_packet::icmp6::{multicast_mac, solicited_node};
use europa_packet::{EtherType, MacAddr};
use europa_pool::packet::annotation::DST_IP6;

use crate::shared::made::{encapsulate, write};
use crate::shared::nd::{Ends, Message, hear, solicitation};
use crate::shared::neighbour::{
    Alarm, Limits, Neighbours, Offer, State, Told, fixed, nanoseconds, pair, seconds,
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
    /// The own address that shares most bits with an address.
    fn source(&self, target: u128) -> Ipv6Addr {
        let shared = |own: &&Ipv6Addr| (u128::from(**own) ^ target).leading_zeros();
        self.addresses.iter().max_by_key(shared).copied().unwrap_or(Ipv6Addr::UNSPECIFIED)
    }

    /// Asks for an address: its group, or the neighbour itself.
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
    fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        self.on_demand = arguments.outputs() < 3;
        let defaults = if self.on_demand { ON_DEMAND } else { DEFAULTS };
        let mut limits = defaults.configure(arguments)?;
        if let Some(time) = arguments.keyword::<Duration>("REACHABLE")? {
            limits.fresh_ns = nanoseconds(time);
        }
        limits.fresh_ns = limits.fresh_ns.min(limits.expire_ns);
        self.fixed = fixed(arguments)?;
        let text: String = arguments.mandatory("IP6")?;
        let words = text.split_whitespace();
        self.addresses =
            words.map(|word| arguments.value("IP6", 0, word)).collect::<Result<_, _>>()?;
        // A name may stand for both.
        self.mac = MacAddr(match arguments.positional("ETH")? {
            Some(mac) => mac,
            None => arguments.value("ETH", 0, &text)?,
        });
        limits.entries = limits.entries.max(self.fixed.len() * 2);
        self.neighbours = Neighbours::new(limits, self.mac.0, EtherType::IPV6.0);
        arguments.finish()
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

    fn handlers(&self) -> &'static [Handler] {
        const {
            &[
                Handler::read("table"),
                Handler::read("stats"),
                Handler::read("queries"),
                Handler::read("responses"),
                Handler::read("drops"),
                Handler::read("count"),
                Handler::read("length"),
                Handler::write("insert"),
                Handler::write("static"),
                Handler::write("delete"),
                Handler::button("clear"),
                Handler::button("forget"),
            ]
        }
    }

    fn read(
        &mut self,
        handler: &str,
        _: &str,
        context: &mut Context<'_>,
    ) -> Result<String, HandlerError> {
        let drops = self.drops + self.neighbours.drops;
        Ok(match handler {
            "table" => {
                let lines = self.neighbours.lines(context.now_ns()).map(|line| {
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
            "stats" => {
                format!("{drops} packets killed\n{} ND Solicitation Message sent\n", self.queries)
            }
            "queries" => self.queries.to_string(),
            "responses" => self.responses.to_string(),
            "drops" => drops.to_string(),
            "count" => self.neighbours.count().to_string(),
            "length" => self.neighbours.length().to_string(),
            other => return Err(HandlerError::NotFound(other.to_owned())),
        })
    }

    fn write(
        &mut self,
        handler: &str,
        value: &str,
        context: &mut Context<'_>,
    ) -> Result<(), HandlerError> {
        match handler {
            "insert" | "static" => {
                let (address, mac) = pair::<Ipv6Addr>(value)
                    .ok_or_else(|| HandlerError::value(handler, value, "IP6 ETH"))?;
                let now_ns = context.now_ns();
                let release = |mut packet: Packet, header: &[u8; 14]| {
                    if encapsulate(&mut packet, header) {
                        context.push(0, packet);
                    }
                };
                if !self.neighbours.insert(
                    address.into(),
                    mac,
                    handler == "static",
                    now_ns,
                    release,
                ) {
                    return Err(HandlerError::Other("the table is full".to_owned()));
                }
            }
            "delete" => {
                let address: Ipv6Addr = parse(handler, value)?;
                self.neighbours.remove(address.into());
            }
            "forget" => self.neighbours.forget_learned(),
            "clear" => {
                self.neighbours.clear();
                (self.queries, self.responses, self.drops) = (0, 0, 0);
            }
            other => return Err(HandlerError::NotFound(other.to_owned())),
        }
        self.alarm.set(&self.neighbours, context);
        Ok(())
    }

    fn take_state(&mut self, old: &mut dyn Element) {
        if let Some(old) = (old as &mut dyn Any).downcast_mut::<IP6NDSolicitor>()
            && old.mac == self.mac
        {
            self.neighbours.take_state(&mut old.neighbours);
            (self.queries, self.responses) = (old.queries, old.responses);
        }
    }

    fn resume(&mut self, context: &mut Context<'_>) {
        self.alarm.set(&self.neighbours, context);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::nd::tests::frame;
    use crate::testing::Bench;
    use europa_packet::Frame;

    const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
    const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb]);
    const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

    fn address(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }

    fn bench() -> Bench {
        Bench::new("IP6NDSolicitor", &["2001:db8::1 fe80::1", "02:00:00:00:00:01"])
    }

    fn send(bench: &mut Bench, target: &str) -> Vec<(usize, Vec<u8>)> {
        let bytes = Frame::bare().ipv6(address("2001:db8:1::9"), address(target)).udp(1, 2, b"x");
        let mut packet = bench.arena.packet(&bytes).unwrap();
        packet.set_annotation(DST_IP6, address(target).octets());
        bench.push_packets(0, vec![packet])
    }

    fn framed(to: MacAddr, target: &str) -> (usize, Vec<u8>) {
        let frame = Frame::new(OWN, to).ipv6(address("2001:db8:1::9"), address(target));
        (0, frame.udp(1, 2, b"x"))
    }

    fn question(source: &str, target: &str, to: Option<MacAddr>) -> (usize, Vec<u8>) {
        let group = solicited_node(address(target));
        let (to, to_mac) = match to {
            Some(mac) => (address(target), mac),
            None => (group, multicast_mac(group)),
        };
        let ends = Ends { from_mac: OWN, to_mac, from: address(source), to };
        (1, frame(ends, 135, 0, address(target), &[1, 1, 2, 0, 0, 0, 0, 1]))
    }

    fn answer(who: MacAddr, target: &str, flags: u8) -> Vec<u8> {
        let [a, b, c, d, e, f] = who.0;
        let (from, to) = (address(target), address("2001:db8::1"));
        let ends = Ends { from_mac: who, to_mac: OWN, from, to };
        frame(ends, 136, flags, from, &[2, 1, a, b, c, d, e, f])
    }

    #[test]
    fn asks_learns_and_probes() {
        let second = 1_000_000_000;
        let mut bench = bench();
        let there = "2001:db8::9";
        assert_eq!(send(&mut bench, there), [question("2001:db8::1", there, None)]);
        assert_eq!(send(&mut bench, there), []);
        assert_eq!(bench.push(1, &[&answer(A, "2001:db8::8", 0x60)]), [], "nobody asked");
        assert_eq!(bench.push(1, &[&answer(A, there, 0x60)]), [framed(A, there), framed(A, there)]);
        bench.now_ns = 40 * second;
        assert_eq!(send(&mut bench, there), [framed(A, there)]);
        let table = bench.router.read("e.table", "").unwrap();
        assert_eq!(table, "2001:db8::9 delay 02:00:00:00:00:0a 40.000000\n");
        bench.now_ns = 46 * second;
        assert_eq!(bench.run(), [question("2001:db8::1", there, Some(A))]);
        // Not to be overridden: another's claim changes nothing while it is probed.
        bench.push(1, &[&answer(B, there, 0x40)]);
        assert_eq!(send(&mut bench, there), [framed(A, there)]);
        bench.push(1, &[&answer(B, there, 0x60)]);
        assert_eq!(send(&mut bench, there), [framed(B, there)]);
        assert_eq!(bench.router.next_timer_ns(), None);
    }

    #[test]
    fn asks_only_when_packets_come_if_nobody_takes_what_waits_in_vain() {
        let arguments = ["2001:db8::1", "02:00:00:00:00:01"];
        let mut bench = Bench::with_outputs("IP6NDSolicitor", &arguments, 2);
        let (there, own) = ("2001:db8::9", "2001:db8::1");
        assert_eq!(send(&mut bench, there), [question(own, there, None)]);
        assert_eq!(send(&mut bench, there), [], "asked just now");
        for second in 1..10 {
            bench.now_ns = second * SECOND_NS;
            assert_eq!(bench.run(), [], "nothing by itself");
        }
        assert_eq!(send(&mut bench, there), [question(own, there, None)]);
        let stats = "2 packets killed\n2 ND Solicitation Message sent\n";
        assert_eq!(bench.router.read("e.stats", "").unwrap(), stats);
        assert_eq!(bench.push(1, &[&answer(A, there, 0x60)]), [framed(A, there)]);
        let table = "2001:db8::9 1 02-00-00-00-00-0A\n";
        assert_eq!(bench.router.read("e.table", "").unwrap(), table);
        bench.now_ns = 75 * SECOND_NS;
        let mut sent = send(&mut bench, there);
        sent.sort();
        assert_eq!(sent, [framed(A, there), question(own, there, None)], "the group again");
    }

    #[test]
    fn gives_up_after_three_questions() {
        let mut bench = bench();
        assert_eq!(send(&mut bench, "fe80::9"), [question("fe80::1", "fe80::9", None)]);
        let outputs: Vec<_> = (1..10)
            .map(|second| {
                bench.now_ns = second * 1_000_000_000;
                bench.run().into_iter().map(|(output, _)| output).collect::<Vec<_>>()
            })
            .filter(|outputs| !outputs.is_empty())
            .collect();
        assert_eq!(outputs, [[1], [1], [2]]);
        bench.out.clear();
        assert_eq!(bench.arena.free(), 1024);
    }

    #[test]
    fn groups_are_not_asked_for() {
        let to = MacAddr([0x33, 0x33, 0, 0, 0, 5]);
        assert_eq!(send(&mut bench(), "ff02::5"), [framed(to, "ff02::5")]);
        assert_eq!(send(&mut bench(), "::"), []);
    }
}
