//! # ARPResponder
//!
//! ## Synopsis
//! `ARPResponder(IP/MASK [IP/MASK...] ETH, ..., keywords)`
//!
//! ## Ports
//! One input, one output, push or pull. A second, push output, if connected, gets unanswered
//! requests.
//!
//! ## Description
//! Expects ARP requests with their Ethernet headers. It answers those for addresses in one of the
//! prefixes with the Ethernet address of the longest matching prefix. The answer keeps the
//! interface and the VLAN annotation of the request.
//!
//! It does not answer gratuitous ARP (requests for the sender's own address) or requests from a
//! group address.
//!
//! With ANNOUNCE it announces its addresses by gratuitous ARP when it starts (RFC 5227 section 3):
//! stations with an old entry update it. After a change of the configuration it announces only new
//! addresses and addresses with a new Ethernet address.
//!
//! ## Arguments
//! - IP/MASK: addresses to answer for; an address without MASK has 32 bits.
//! - ETH: their Ethernet address. A name that stands for both IP and Ethernet address may be
//!   written once.
//! - ANNOUNCE: whether to announce addresses (those with 32 bits), default false. Its output is then
//!   a push output.
//!
//! ## Handlers
//! - `table` (read): prefixes and Ethernet addresses, one prefix a line.
//! - `lookup` (read with parameter): the Ethernet address for an IP address.
//! - `add` (write): adds the entry of one argument.
//! - `remove` (write): removes a prefix.
//! - `config` (read, write): all arguments; writing them replaces the table.
//!
//! ## See also
//! `ARPQuerier`, `IP6NDAdvertiser`

use std::net::Ipv4Addr;

use europa_engine::{
    Arguments, Batch, Class, ClassInfo, ConfigError, Context, Element, HandlerError, InitContext,
    Ipv4Prefix, Names, Packet, Value, arguments, handlers, keep, parse,
};
use europa_packet::{ArpPacket, EtherType, EthernetHeader, Header, MacAddr, arp};
use europa_pool::packet::annotation::VLAN_TCI;
use zerocopy::IntoBytes;

use crate::shared::common::{ANNOUNCE_AFTER_NS, NEEDS_PUSH, announce_soon};
use crate::shared::made::{make, write};

/// Answers ARP requests.
#[derive(Default)]
pub(crate) struct ARPResponder {
    /// Longest prefixes first.
    entries: Entries,
    announce: bool,
    /// Whether its output is a push output, so that it can announce.
    pushes: bool,
    /// The announced addresses.
    announced: Entries,
}

type Entries = Vec<(Ipv4Prefix, [u8; 6])>;

impl Class for ARPResponder {
    const INFO: ClassInfo =
        ClassInfo::new("ARPResponder", "1/1-2").processing("a/ah").inline().keeps_long();
}

/// The prefixes of one argument, and their Ethernet address.
fn entry(text: &str, names: &Names) -> Result<Entries, &'static str> {
    let mut prefixes = Vec::new();
    let mut mac = None;
    for word in text.split_whitespace() {
        let prefix = Ipv4Prefix::parse(word, names);
        // A name may be both.
        match (<[u8; 6]>::parse(word, names), prefix) {
            (Some(address), None) => match mac.replace(address) {
                None => {}
                Some(_) => return Err("one Ethernet address"),
            },
            (address, Some(prefix)) => {
                mac = mac.or(address);
                prefixes.push(prefix);
            }
            (None, None) => return Err("IP/MASK ETH"),
        }
    }
    match mac {
        _ if prefixes.is_empty() => Err("IP/MASK before ETH"),
        None => Err("ETH behind IP/MASK"),
        Some(mac) => Ok(prefixes.into_iter().map(|prefix| (prefix, mac)).collect()),
    }
}

/// Adds entries, which replace those for the same prefix. Returns the replaced prefixes.
fn add(entries: &mut Entries, new: Entries) -> Vec<Ipv4Prefix> {
    let mut twice = Vec::new();
    for (prefix, mac) in new {
        let before = entries.len();
        entries.retain(|(old, _)| !same(*old, prefix));
        if entries.len() < before {
            twice.push(prefix);
        }
        entries.push((prefix, mac));
    }
    entries.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.length));
    twice
}

/// The entries of all arguments.
fn read(texts: Vec<(usize, &str)>, arguments: &mut Arguments<'_>) -> Entries {
    let mut entries = Entries::new();
    for (index, text) in texts {
        match entry(text, arguments.names()) {
            Ok(new) => {
                for prefix in add(&mut entries, new) {
                    let network = Ipv4Addr::from(prefix.network());
                    arguments.warn(format!("multiple entries for {network}/{}", prefix.length));
                }
            }
            Err(wanted) => arguments.error(ConfigError::Value {
                name: "IP/MASK ETH".to_owned(),
                index: Some(index),
                found: text.to_owned(),
                wanted: wanted.to_owned(),
            }),
        }
    }
    entries
}

impl ARPResponder {
    fn lookup(&self, address: u32) -> Option<[u8; 6]> {
        let entry = self.entries.iter().find(|(p, _)| address & p.mask() == p.network());
        entry.map(|(_, mac)| *mac)
    }

    fn announcement(
        &self,
        address: Ipv4Addr,
        mac: [u8; 6],
        context: &Context<'_>,
    ) -> Option<Packet> {
        let mac = MacAddr(mac);
        frame(context, mac, MacAddr::BROADCAST, &ArpPacket::request(mac, address, address))
    }

    fn answer(&self, request: &Packet, context: &Context<'_>) -> Option<Packet> {
        let (ethernet, rest) = EthernetHeader::parse(request.data())?;
        let (asked, _) = ArpPacket::parse(rest)?;
        let valid = ethernet.ether_type == EtherType::ARP
            && asked.is_ethernet_ipv4()
            && asked.operation.get() == arp::REQUEST
            && asked.sender_mac.is_unicast()
            && asked.sender_ip != asked.target_ip;
        let mac = MacAddr(self.lookup(asked.target_ip.get()).filter(|_| valid)?);
        let mut packet = frame(context, mac, asked.sender_mac, &asked.reply(mac))?;
        packet.set_interface(request.interface());
        packet.set_annotation(VLAN_TCI, request.annotation::<2>(VLAN_TCI));
        Some(packet)
    }
}

/// A frame that carries an ARP packet.
fn frame(
    context: &Context<'_>,
    source: MacAddr,
    destination: MacAddr,
    carried: &ArpPacket,
) -> Option<Packet> {
    let mut packet = make(context, EthernetHeader::LEN + ArpPacket::LEN)?;
    let header = EthernetHeader { destination, source, ether_type: EtherType::ARP };
    let rest = write(packet.data_mut(), header.as_bytes());
    write(rest, carried.as_bytes());
    packet.set_mac_header(0);
    packet.set_network_header(EthernetHeader::LEN, ArpPacket::LEN);
    Some(packet)
}

/// Whether two prefixes are the same set of addresses.
fn same(a: Ipv4Prefix, b: Ipv4Prefix) -> bool {
    a.length == b.length && a.network() == b.network()
}

impl Element for ARPResponder {
    arguments! { this, given;
        keyword "ANNOUNCE": bool = false => this.announce;
        let texts = rest "IP/MASK ETH": "'PREFIX [PREFIX ...] ETH'";
        then {
            this.entries = read(texts, given);
        }
        live new, context {
            if new.announce && !this.pushes {
                return Err(ConfigError::other(NEEDS_PUSH));
            }
            (this.entries, this.announce) = (new.entries, new.announce);
            if this.announce {
                context.schedule(0, context.now_ns().saturating_add(ANNOUNCE_AFTER_NS));
            }
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.pushes = context.is_push_output(0);
        if self.announce { announce_soon(context) } else { Ok(()) }
    }

    fn run_timer(&mut self, _: u32, context: &mut Context<'_>) {
        let same =
            |a: &(Ipv4Prefix, [u8; 6]), b: &(Ipv4Prefix, [u8; 6])| same(a.0, b.0) && a.1 == b.1;
        for entry in self.entries.iter().filter(|(prefix, _)| prefix.length == 32) {
            if !self.announced.iter().any(|known| same(known, entry))
                && let Some(packet) = self.announcement(entry.0.address, entry.1, context)
            {
                context.push(0, packet);
            }
        }
        self.announced.clone_from(&self.entries);
    }

    keep! { this, old;
        announced;
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let mut others = context.take_batch();
        batch.filter(
            |packet| match self.answer(packet, context) {
                Some(answer) => {
                    *packet = answer;
                    true
                }
                None => false,
            },
            // A batch has room for the packets of another batch.
            |packet| drop(others.push(packet)),
        );
        context.push_batch(1, &mut others);
        context.give_batch(others);
    }

    handlers! { this, context, value;
        read "table" => {
            let line = |(prefix, mac): &(Ipv4Prefix, [u8; 6])| {
                let network = Ipv4Addr::from(prefix.network());
                format!("{network}/{} {}\n", prefix.length, MacAddr(*mac).dashed())
            };
            this.entries.iter().map(line).collect::<String>()
        };
        read "lookup" [PARAMETER] => {
            let address: Ipv4Addr = parse("lookup", value)?;
            let mac = this.lookup(address.into());
            mac.map_or_else(String::new, |mac| MacAddr(mac).dashed())
        };
        write "add" => {
            let new = entry(value, context.address_names())
                .map_err(|wanted| HandlerError::value("add", value, wanted))?;
            add(&mut this.entries, new);
        };
        write "remove" => {
            let prefix: Ipv4Prefix = parse("remove", value)?;
            let before = this.entries.len();
            this.entries.retain(|(old, _)| !same(*old, prefix));
            if this.entries.len() == before {
                return Err(HandlerError::value("remove", value, "a prefix of the table"));
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::common::ANNOUNCE_AFTER_NS;
    use crate::testing::Bench;
    use europa_packet::Frame;

    const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
    const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

    fn request(target: [u8; 4]) -> Vec<u8> {
        let packet = ArpPacket::request(A, [10, 0, 0, 9].into(), target.into());
        Frame::new(A, MacAddr::BROADCAST).arp(&packet)
    }

    #[test]
    fn answers_for_its_prefixes_only() {
        let proxy = MacAddr([2, 0, 0, 0, 0, 2]);
        for (target, wanted) in [
            ([10, 0, 0, 1], Some(OWN)),
            ([10, 1, 2, 3], Some(proxy)),
            ([10, 0, 0, 2], None),
            ([10, 0, 0, 9], None),
        ] {
            let arguments =
                ["10.1.0.0/16 02:00:00:00:00:02", "10.0.0.1 10.0.0.9 02:00:00:00:00:01"];
            let mut bench = Bench::new("ARPResponder", &arguments);
            let out = bench.push(0, &[&request(target)]);
            let asked = ArpPacket::request(A, [10, 0, 0, 9].into(), target.into());
            let wanted = match wanted {
                Some(mac) => (0, Frame::new(mac, A).arp(&asked.reply(mac))),
                None => (1, request(target)),
            };
            assert_eq!(out, [wanted], "{target:?}");
        }
    }

    #[test]
    fn own_addresses_are_announced_once() {
        let arguments = ["10.1.0.0/16 10.0.0.1 02:00:00:00:00:01", "ANNOUNCE true"];
        let mut bench = Bench::new("ARPResponder", &arguments);
        assert_eq!(bench.run(), []);
        bench.now_ns = ANNOUNCE_AFTER_NS;
        let own = ArpPacket::request(OWN, [10, 0, 0, 1].into(), [10, 0, 0, 1].into());
        assert_eq!(bench.run(), [(0, Frame::new(OWN, MacAddr::BROADCAST).arp(&own))]);
        // A change reports the new entries.
        let arguments = ["10.0.0.1 10.0.0.2 02:00:00:00:00:01", "ANNOUNCE true"];
        let mut next = Bench::new("ARPResponder", &arguments);
        next.router.take_state(&mut bench.router);
        next.now_ns = ANNOUNCE_AFTER_NS;
        let new = ArpPacket::request(OWN, [10, 0, 0, 2].into(), [10, 0, 0, 2].into());
        assert_eq!(next.run(), [(0, Frame::new(OWN, MacAddr::BROADCAST).arp(&new))]);
        next.now_ns *= 100;
        assert_eq!(next.run(), []);
    }

    #[test]
    fn what_is_no_request_is_not_answered() {
        let good = request([10, 0, 0, 1]);
        // byte, value
        for (at, value) in [(13, 0), (15, 2), (17, 6), (18, 8), (19, 6), (21, 2), (22, 1)] {
            let mut frame = good.clone();
            frame[at] = value;
            let mut bench = Bench::new("ARPResponder", &["10.0.0.1 02:00:00:00:00:01"]);
            assert_eq!(bench.push(0, &[&frame]), [(1, frame.clone())], "byte {at}");
        }
        let mut bench = Bench::new("ARPResponder", &["10.0.0.1 02:00:00:00:00:01"]);
        for length in 0..good.len() {
            assert_eq!(bench.push(0, &[&good[..length]])[0].0, 1);
        }
    }

    #[test]
    fn handlers_change_the_table() {
        let mut bench = Bench::new("ARPResponder", &["10.0.0.0/8 02:00:00:00:00:01"]);
        bench.router.write("e.add", "10.1.1.1/16 2:0:0:0:0:2").unwrap();
        let table = "10.1.0.0/16 02-00-00-00-00-02\n10.0.0.0/8 02-00-00-00-00-01\n";
        assert_eq!(bench.router.read("e.table", ""), Ok(table.into()));
        for (address, mac) in [("10.1.0.7", "02-00-00-00-00-02"), ("11.0.0.0", "")] {
            assert_eq!(bench.router.read("e.lookup", address), Ok(mac.into()));
        }
        bench.router.write("e.remove", "10.1.0.0/16").unwrap();
        assert!(bench.router.write("e.remove", "10.1.0.0/16").is_err());
        assert!(bench.router.write("e.add", "10.1.0.0/16").is_err());
    }

    #[test]
    fn bad_arguments_are_refused() {
        for (argument, wanted) in [
            ("10.0.0.1", "ETH behind IP/MASK"),
            ("2:0:0:0:0:1", "IP/MASK before ETH"),
            ("10.0.0.1 x", "IP/MASK ETH"),
            ("10.0.0.1 2:0:0:0:0:1 2:0:0:0:0:2", "one Ethernet address"),
        ] {
            let error = Bench::error("ARPResponder", &[argument]);
            assert!(error.contains(&format!("expected {wanted}")), "{error}");
        }
    }
}
