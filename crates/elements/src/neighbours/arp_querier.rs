//! # ARPQuerier
//!
//! ## Synopsis
//! `ARPQuerier(IP, ETH, keywords)`, `ARPQuerier(NAME, keywords)`
//!
//! ## Ports
//! Two push inputs: IP packets, and ARP packets with their Ethernet headers. One to three push
//! outputs. Output 0: packets with Ethernet headers. Output 1, if connected: ARP requests; else
//! they leave by output 0. Output 2, if connected: IP packets whose destination did not answer.
//!
//! ## Description
//! Puts an Ethernet header before each IP packet, with the address of the neighbour that the
//! destination annotation names. If the element does not know this address, the packet waits, and
//! the element sends the neighbour three requests, a second apart. If none is answered, further
//! packets are dropped, or leave by output 2 for an `ICMPError`.
//!
//! The element learns from answers, requests and announcements only the addresses of neighbours to
//! which the router wants to send. An entry older than POLL_TIMEOUT is checked when it is used: the
//! element sends up to three requests to the neighbour itself, and still sends packets to it. An
//! entry that is older than TIMEOUT, or whose neighbour does not answer, is removed.
//!
//! Packets for 255.255.255.255 or a broadcast address go to ff:ff:ff:ff:ff:ff, and packets for
//! multicast groups to the groups' Ethernet addresses. Packets for 0.0.0.0 are dropped.
//!
//! All tables are bounded. When half of the entries wait for answers, packets to further neighbours
//! are dropped, so a scan of the subnet causes few requests. With output 2, the packets that wait
//! in all `ARPQuerier` and `IP6NDSolicitor` elements together are an eighth of the pool's slots at
//! most (but at least 8), and a quarter of these for one neighbour.
//!
//! Without output 2, which Click's element lacks, it sends requests as Click's element does. It
//! sends one only when a packet comes for a neighbour that is unknown or has not been confirmed for
//! long. There is at most one request every 100 ms, and after ten requests one every 2 s. Entries
//! and packets stay until they expire or others need the room.
//!
//! ## Arguments
//! - IP: the interface's IP address, with its prefix length if it has one. For several subnets,
//!   several addresses with blanks between them: a request has the source of its subnet.
//! - ETH: the interface's Ethernet address.
//! - CAPACITY: most packets that wait, default 2048.
//! - ENTRY_CAPACITY: most neighbours, default 1024; 0 for 262144.
//! - ENTRY_PACKET_CAPACITY: most packets that wait for one neighbour, default 64; a newer one
//!   takes the place of the oldest.
//! - TIMEOUT: default 5 minutes; 0 for never.
//! - POLL_TIMEOUT: default 1 minute; 0 not to check.
//! - BROADCAST: broadcast address, default that of the prefix.
//! - BROADCAST_POLL: whether to check an entry by a broadcast request, default false.
//! - CAPACITY_SLIM_FACTOR: without output 2, a packet beyond CAPACITY removes this fraction of the
//!   waiting ones, default 2 (half of them).
//! - TABLE: name of an `ARPTable` to use, in place of an own table with the bounds above.
//! - STATIC: `IP ETH IP ETH ...`: static neighbours, for which no requests are sent.
//!
//! ## Handlers
//! - `ipaddr` (read, write): the address that requests come from.
//! - `broadcast` (read, write): the broadcast address.
//! - `table` (read): a neighbour a line: address, 1 if known, Ethernet address, age.
//! - `stats` (read): drops and queries in words.
//! - `queries`, `responses`, `drops` (read): counts.
//! - `count`, `length` (read): number of entries, number of packets that wait.
//! - `insert` (write): `IP ETH`; `delete` (write): `IP`; `clear` (write): all entries; `forget`
//!   (write): removes all learned entries, as when the link goes down.
//! - `static` (write): `IP ETH`: adds a static neighbour.
//! - `query` (write): `IP`: sends a request for it, if it is not in the table.
//!
//! ## See also
//! `ARPTable`, `ARPResponder`, `ICMPError`, `IP6NDSolicitor`

#[cfg(test)]
mod tests;

use std::any::Any;
use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::time::Duration;

use europa_engine::{
    Batch, Class, ClassInfo, ConfigError, Context, Each, Element, HandlerError, InitContext,
    Ipv4Prefix, Packet, Purpose, Verdict, arguments, handlers, keep, parse,
};
use europa_packet::{ArpPacket, EtherType, EthernetHeader, Header, MacAddr, arp};
use zerocopy::IntoBytes;

use crate::neighbours::arp_table::{ARPTable, DEFAULTS, table};
use crate::shared::made::{encapsulate, make, write};
use crate::shared::neighbour::{
    Alarm, LimitArguments, Limits, Neighbours, Offer, Told, fixed, nanoseconds, pair,
};

/// Finds neighbours' Ethernet addresses by ARP.
pub(crate) struct ARPQuerier {
    /// The element's neighbours. If the table is shared, they are here only while the element runs.
    neighbours: Neighbours<u32>,
    table: String,
    /// Without output 2: sends requests only for packets.
    on_demand: bool,
    shared: Option<Rc<RefCell<Neighbours<u32>>>>,
    alarm: Alarm,
    mac: MacAddr,
    /// The first is the default.
    addresses: Vec<Ipv4Prefix>,
    broadcasts: Vec<u32>,
    broadcast_poll: bool,
    fixed: Vec<(Ipv4Addr, [u8; 6])>,
    /// In a pass: the last packet's next hop and its header, and the time.
    last: u32,
    header: [u8; 14],
    now_ns: u64,
    /// Room for a timer's requests.
    questions: Vec<(u32, Option<[u8; 6]>)>,
    /// Time of the packet that causes the request.
    asked_ns: u64,
    queries: u64,
    responses: u64,
    drops: u64,
}

impl Default for ARPQuerier {
    fn default() -> ARPQuerier {
        ARPQuerier {
            neighbours: Neighbours::new(Limits::NONE, [0; 6], [0; 2]),
            table: String::new(),
            on_demand: false,
            shared: None,
            alarm: Alarm::default(),
            mac: MacAddr::ZERO,
            addresses: Vec::new(),
            broadcasts: Vec::new(),
            broadcast_poll: false,
            fixed: Vec::new(),
            last: 0,
            header: [0; 14],
            now_ns: 0,
            questions: Vec::new(),
            asked_ns: 0,
            queries: 0,
            responses: 0,
            drops: 0,
        }
    }
}

impl Class for ARPQuerier {
    const INFO: ClassInfo = ClassInfo::new("ARPQuerier", "2/1-3")
        .processing("h/h")
        .flow("xy/x")
        .inline()
        .consumes()
        .keeps_long();
}

/// The broadcast address of a prefix, if it has one (RFC 3021: prefixes of 31 bits have none).
fn broadcast(prefix: Ipv4Prefix) -> Option<u32> {
    (prefix.length < 31).then(|| prefix.network() | !prefix.mask())
}

/// The Ethernet address of a group (RFC 1112 section 6.4), or the broadcast address.
fn group(address: u32, broadcasts: &[u32]) -> Option<[u8; 6]> {
    if address == u32::MAX || broadcasts.contains(&address) {
        return Some([0xff; 6]);
    }
    let [a, b, c, d] = address.to_be_bytes();
    (a & 0xf0 == 0xe0).then_some([1, 0, 0x5e, b & 0x7f, c, d])
}

impl ARPQuerier {
    /// Fetches or returns the table that is shared with other elements.
    fn exchange(&mut self) {
        if let Some(shared) = &self.shared {
            std::mem::swap(&mut self.neighbours, &mut shared.borrow_mut());
            self.neighbours.set_source(self.mac.0);
        }
    }

    /// Calls `act` with the table, the element's own or the shared one.
    fn with_table<T>(&mut self, act: impl FnOnce(&mut ARPQuerier) -> T) -> T {
        self.exchange();
        let result = act(self);
        self.exchange();
        result
    }

    /// Number of packets that the element or its table has dropped.
    fn all_drops(&mut self) -> u64 {
        self.with_table(|this| this.drops + this.neighbours.drops)
    }

    /// Carries out a write handler, and sets the timer again, as the table may need it at another
    /// time.
    fn order(
        &mut self,
        handler: &str,
        value: &str,
        context: &mut Context<'_>,
    ) -> Result<(), HandlerError> {
        self.with_table(|this| {
            let result = this.change(handler, value, context);
            this.set_alarm(context);
            result
        })
    }

    /// Sets the timer to when the table needs it.
    pub(crate) fn set_alarm(&mut self, context: &mut Context<'_>) {
        self.alarm.set(&self.neighbours, context);
    }

    fn source(&self, target: u32) -> Ipv4Addr {
        let own = self.addresses.iter().find(|own| target & own.mask() == own.network());
        own.or(self.addresses.first()).map_or(Ipv4Addr::UNSPECIFIED, |own| own.address)
    }

    /// Sends a request for an address: to all stations, or to the neighbour itself.
    fn ask(&mut self, target: u32, mac: Option<[u8; 6]>, context: &mut Context<'_>) {
        self.queries += 1;
        let destination = match mac {
            Some(mac) if !self.broadcast_poll => MacAddr(mac),
            _ => MacAddr::BROADCAST,
        };
        let header = EthernetHeader { destination, source: self.mac, ether_type: EtherType::ARP };
        let request = ArpPacket::request(self.mac, self.source(target), target.into());
        let Some(mut packet) = make(context, EthernetHeader::LEN + ArpPacket::LEN) else { return };
        let rest = write(packet.data_mut(), header.as_bytes());
        write(rest, request.as_bytes());
        packet.set_mac_header(0);
        packet.set_network_header(EthernetHeader::LEN, ArpPacket::LEN);
        packet.set_timestamp_ns(self.asked_ns);
        let output = usize::from(context.outputs() > 1);
        context.push(output, packet);
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
        let (target, now_ns) = (packet.dst_ip(), context.now_ns());
        self.asked_ns = packet.timestamp_ns();
        if let Some(mac) = group(target, &self.broadcasts) {
            let mut header = [0; 14];
            let rest = write(&mut header, &mac);
            let rest = write(rest, &self.mac.0);
            write(rest, &EtherType::IPV4.0);
            self.send(packet, &header, context);
        } else if target == 0 {
            self.drops += 1;
        } else {
            match self.neighbours.offer(target, packet, now_ns) {
                Offer::Send(packet, header) => self.send(packet, &header, context),
                Offer::SendAndProbe(packet, header) => {
                    self.ask(target, header.first_chunk().copied(), context);
                    self.send(packet, &header, context);
                }
                Offer::WaitsAndAsk => self.ask(target, None, context),
                Offer::Waits | Offer::Refused => {}
            }
        }
    }

    /// Takes in an ARP packet of another station.
    fn hear(&mut self, packet: &Packet, context: &mut Context<'_>) -> Option<()> {
        let (ethernet, rest) = EthernetHeader::parse(packet.data())?;
        let (said, _) = ArpPacket::parse(rest)?;
        let reply = said.operation.get() == arp::REPLY;
        if ethernet.ether_type != EtherType::ARP
            || !said.is_ethernet_ipv4()
            || !(reply || said.operation.get() == arp::REQUEST)
            || !said.sender_mac.is_unicast()
            || said.sender_mac == self.mac && !self.on_demand
        {
            return None;
        }
        self.responses += u64::from(reply);
        let told = Told {
            address: said.sender_ip.get(),
            mac: Some(said.sender_mac.0),
            solicited: reply && !ethernet.destination.is_multicast(),
            overrides: true,
        };
        self.drops += self.neighbours.learn_and_send(told, context);
        Some(())
    }
}

impl Each for ARPQuerier {
    fn begin(&mut self, context: &Context<'_>) {
        self.now_ns = context.now_ns();
        // The unspecified address.
        self.last = 0;
    }

    #[inline(always)]
    fn each(&mut self, packet: &mut Packet, _: u16) -> Verdict {
        let target = packet.dst_ip();
        if target != self.last || target == 0 {
            match self.neighbours.header(target, self.now_ns).filter(|_| target != 0) {
                Some(header) => (self.last, self.header) = (target, *header),
                None => return Verdict::ALONE,
            }
        }
        if encapsulate(packet, &self.header) { Verdict::ON } else { Verdict::ALONE }
    }
}

impl Element for ARPQuerier {
    arguments! { this, given;
        let text = mandatory "IP": String;
        let mac = positional "ETH": [u8; 6];
        let limits = set LimitArguments;
        keyword "TABLE": String = String::new() => this.table;
        let poll_timeout = keyword "POLL_TIMEOUT": Duration;
        let own_broadcast = keyword "BROADCAST": Ipv4Addr;
        keyword "BROADCAST_POLL": bool = false => this.broadcast_poll;
        keyword "STATIC": "pairs of addresses", by fixed => this.fixed;
        then {
            this.on_demand = given.outputs() < 3;
            let mut limits = limits.or(DEFAULTS);
            limits.on_demand = this.on_demand;
            match poll_timeout {
                Some(Duration::ZERO) => limits.fresh_ns = limits.expire_ns,
                Some(time) => limits.fresh_ns = nanoseconds(time).min(limits.expire_ns),
                None => limits.fresh_ns = limits.fresh_ns.min(limits.expire_ns),
            }
            let words = text.split_whitespace();
            // If a name has a prefix, the prefix is used.
            let named = |word: &str| given.value("IP", 0, &format!("{word}:ipnet"));
            let address = |word| named(word).or_else(|_| given.value("IP", 0, word));
            this.addresses = words.map(address).collect::<Result<_, _>>()?;
            // A name may stand for both.
            this.mac = MacAddr(mac.map_or_else(|| given.value("ETH", 0, &text), Ok)?);
            this.broadcasts = match own_broadcast {
                Some(address) => vec![address.into()],
                None => this.addresses.iter().filter_map(|prefix| broadcast(*prefix)).collect(),
            };
            if !limits.on_demand {
                limits.entries = limits.entries.max(this.fixed.len() * 2);
            }
            this.neighbours = Neighbours::new(limits, this.mac.0, EtherType::IPV4.0);
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.neighbours.set_share(context.share(Purpose::Neighbours));
        if !self.table.is_empty() {
            let index = context.find(&self.table);
            let found = index.and_then(|index| context.element(index));
            let table = found.and_then(|e| (e as &mut dyn Any).downcast_mut::<ARPTable>());
            let wrong = || ConfigError::other(format!("TABLE: no ARPTable '{}'", self.table));
            self.shared = Some(table.ok_or_else(wrong)?.share());
        }
        self.exchange();
        for (address, mac) in &self.fixed {
            self.neighbours.insert((*address).into(), *mac, true, context.now_ns(), |_, _| {});
        }
        self.exchange();
        Ok(())
    }

    fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        self.exchange();
        if port == 1 {
            for packet in batch.drain() {
                self.hear(&packet, context);
            }
        } else {
            let mut unknown = context.take_batch();
            self.neighbours.send_known(batch, &mut unknown, Packet::dst_ip, context);
            for packet in unknown.drain() {
                self.find(packet, context);
            }
            context.give_batch(unknown);
        }
        self.set_alarm(context);
        self.exchange();
    }

    fn run_timer(&mut self, _: u32, context: &mut Context<'_>) {
        self.exchange();
        self.alarm.ran();
        self.asked_ns = 0;
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
        self.exchange();
    }

    fn lost(&self) -> u64 {
        self.drops + self.neighbours.drops
    }

    handlers! { this, context, value, name;
        both "ipaddr" => this.source(0), set this.order(name, value, context)?;
        both "broadcast" => {
            Ipv4Addr::from(this.broadcasts.first().copied().unwrap_or(u32::MAX))
        }, set this.order(name, value, context)?;
        read "table" => this.with_table(|this| table(&this.neighbours, context.now_ns()));
        read "stats" => {
            let drops = this.all_drops();
            format!("{drops} packets killed\n{} ARP queries sent\n", this.queries)
        };
        read "queries" => this.queries;
        read "responses" => this.responses;
        read "drops" => this.all_drops();
        read "count" => this.with_table(|this| this.neighbours.count());
        read "length" => this.with_table(|this| this.neighbours.length());
        write "insert" => this.order(name, value, context)?;
        write "static" => this.order(name, value, context)?;
        write "delete" => this.order(name, value, context)?;
        button "clear" => this.order(name, value, context)?;
        button "forget" => this.order(name, value, context)?;
        write "query" => this.order(name, value, context)?;
    }

    keep! { this, old if old.mac == this.mac;
        queries, responses;
        then {
            this.neighbours.take_state(&mut old.neighbours);
        }
    }

    fn resume(&mut self, context: &mut Context<'_>) {
        self.exchange();
        self.alarm.set(&self.neighbours, context);
        self.exchange();
    }
}

impl ARPQuerier {
    /// Carries out a write handler.
    fn change(
        &mut self,
        handler: &str,
        value: &str,
        context: &mut Context<'_>,
    ) -> Result<(), HandlerError> {
        let now_ns = context.now_ns();
        match handler {
            "ipaddr" => {
                let address: Ipv4Addr = parse(handler, value)?;
                if let Some(first) = self.addresses.first_mut() {
                    first.address = address;
                }
            }
            "broadcast" => {
                let address: Ipv4Addr = parse(handler, value)?;
                match self.broadcasts.first_mut() {
                    Some(first) => *first = address.into(),
                    None => self.broadcasts.push(address.into()),
                }
            }
            "insert" | "static" => {
                let (address, mac) = pair::<Ipv4Addr>(value)
                    .ok_or_else(|| HandlerError::value(handler, value, "IP ETH"))?;
                let mut ready = context.take_batch();
                let room = self.neighbours.insert(
                    address.into(),
                    mac,
                    handler == "static",
                    now_ns,
                    |mut packet, header| {
                        if encapsulate(&mut packet, header) {
                            drop(ready.push(packet));
                        }
                    },
                );
                context.push_batch(0, &mut ready);
                context.give_batch(ready);
                if !room {
                    return Err(HandlerError::Other("the table is full".to_owned()));
                }
            }
            "delete" => {
                let address: Ipv4Addr = parse(handler, value)?;
                self.neighbours.remove(address.into());
            }
            "forget" => self.neighbours.forget_learned(),
            "clear" => {
                self.neighbours.clear();
                (self.queries, self.responses, self.drops) = (0, 0, 0);
            }
            "query" => {
                let address: Ipv4Addr = parse(handler, value)?;
                if self.neighbours.begin(address.into(), now_ns) {
                    self.ask(address.into(), None, context);
                }
            }
            other => return Err(HandlerError::NotFound(other.to_owned())),
        }
        Ok(())
    }
}
