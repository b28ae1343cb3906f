//! # IP6NDAdvertiser
//!
//! ## Synopsis
//! `IP6NDAdvertiser(IP6/MASK [IP6/MASK...] ETH, ..., keywords)`
//!
//! ## Ports
//! One input, one output, push or pull. A second, push output, if connected, gets unanswered
//! solicitations.
//!
//! ## Description
//! Expects Neighbor Solicitations with their Ethernet headers. It answers valid ones (RFC 4861
//! section 7.1.1: hop limit 255, checksum, options) for addresses in one of the prefixes with a
//! Neighbor Advertisement. The longest matching prefix decides. A node that checks whether an
//! address is free (RFC 4862) solicits without a source address: the answer goes to all nodes.
//!
//! With ANNOUNCE it announces its addresses to all nodes when it starts (RFC 4861 section 7.2.6):
//! nodes with an old entry update it. After a change of the configuration it announces only new
//! addresses and addresses with a new Ethernet address.
//!
//! ## Arguments
//! - IP6/MASK: addresses to answer for. A single address is the router's own. For a shorter prefix
//!   the router answers as a proxy, and its answers do not override others.
//! - ETH: their Ethernet address.
//! - ANYCAST: `ADDRESS OWN ADDRESS OWN ...`: answers for the anycast address ADDRESS come from OWN
//!   and do not override other answers (RFC 4861 section 7.2.4).
//! - ANNOUNCE: whether to announce addresses (those with 128 bits that are not anycast), default
//!   false. Its output is then a push output.
//! - ROUTER: whether answers say that a router sent them, default true.
//!
//! ## Handlers
//! - `table` (read): prefixes and Ethernet addresses, one prefix a line.
//! - `answers` (read): advertisements sent.
//!
//! ## See also
//! `IP6NDSolicitor`, `ARPResponder`

use std::net::Ipv6Addr;

use europa_engine::{
    Batch, Class, ClassInfo, ConfigError, Context, Element, InitContext, Ipv6Prefix, Names, Packet,
    Value, arguments, handlers, keep,
};
use europa_packet::MacAddr;
use europa_packet::icmp6::{multicast_mac, neighbor_flag};
use europa_pool::packet::annotation::VLAN_TCI;

use crate::shared::common::{Anycast, announce_soon};
use crate::shared::nd::{Ends, Message, advertisement, hear};

/// Answers Neighbor Solicitations.
#[derive(Default)]
pub(crate) struct IP6NDAdvertiser {
    /// Longest prefixes first.
    entries: Vec<(Ipv6Prefix, MacAddr)>,
    router: bool,
    anycast: Anycast,
    announce: bool,
    /// The announced addresses.
    announced: Vec<(Ipv6Addr, MacAddr)>,
    answers: u64,
}

impl Class for IP6NDAdvertiser {
    const INFO: ClassInfo =
        ClassInfo::new("IP6NDAdvertiser", "1/1-2").processing("a/ah").inline().keeps_long();
}

/// All nodes of the link.
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

fn contains(prefix: Ipv6Prefix, address: Ipv6Addr) -> bool {
    let differs = u128::from(prefix.address) ^ u128::from(address);
    differs.leading_zeros() >= u32::from(prefix.length)
}

/// The prefixes of one argument, and their Ethernet address.
fn entry(text: &str, names: &Names) -> Option<Vec<(Ipv6Prefix, MacAddr)>> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (mac, prefixes) = words.split_last()?;
    let mac = MacAddr(<[u8; 6]>::parse(mac, names)?);
    // A name may be both.
    let prefixes = if prefixes.is_empty() { words.as_slice() } else { prefixes };
    prefixes.iter().map(|word| Some((Ipv6Prefix::parse(word, names)?, mac))).collect()
}

impl IP6NDAdvertiser {
    fn answer(&self, packet: &Packet, context: &Context<'_>) -> Option<Packet> {
        let heard = hear(packet.data())?;
        let Message::Solicitation { source_mac } = heard.message else { return None };
        let entry = self.entries.iter().find(|(prefix, _)| contains(*prefix, heard.target));
        let (prefix, mac) = *entry?;
        let (to, to_mac, solicited) = match heard.source.is_unspecified() {
            true => (ALL_NODES, multicast_mac(ALL_NODES), 0),
            false => (heard.source, source_mac.unwrap_or(heard.from), neighbor_flag::SOLICITED),
        };
        let anycast = self.anycast.own(heard.target);
        let own = prefix.length == 128 && anycast.is_none();
        let own = if own { neighbor_flag::OVERRIDE } else { 0 };
        let router = if self.router { neighbor_flag::ROUTER } else { 0 };
        let from = anycast.unwrap_or(heard.target);
        let ends = Ends { from_mac: mac, to_mac, from, to };
        let mut answer = advertisement(context, ends, own | router | solicited, heard.target)?;
        answer.set_interface(packet.interface());
        answer.set_annotation(VLAN_TCI, packet.annotation::<2>(VLAN_TCI));
        Some(answer)
    }
}

impl Element for IP6NDAdvertiser {
    arguments! { this, given;
        keyword "ROUTER": bool = true => this.router;
        keyword "ANYCAST": "pairs of addresses", by Anycast::read => this.anycast;
        keyword "ANNOUNCE": bool = false => this.announce;
        let texts = rest "IP6/MASK ETH": "'PREFIX [PREFIX ...] ETH'";
        then {
            for (index, text) in texts {
                match entry(text, given.names()) {
                    Some(new) => this.entries.extend(new),
                    None => given.error(ConfigError::Value {
                        name: "IP6/MASK ETH".to_owned(),
                        index: Some(index),
                        found: text.to_owned(),
                        wanted: "IPv6 prefixes and an Ethernet address".to_owned(),
                    }),
                }
            }
            this.entries.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.length));
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        if self.announce { announce_soon(context) } else { Ok(()) }
    }

    fn run_timer(&mut self, _: u32, context: &mut Context<'_>) {
        let single = self.entries.iter().filter(|(prefix, _)| prefix.length == 128);
        let own = single.map(|(prefix, mac)| (prefix.address, *mac));
        let own: Vec<_> = own.filter(|(own, _)| self.anycast.own(*own).is_none()).collect();
        let router = if self.router { neighbor_flag::ROUTER } else { 0 };
        for (address, mac) in own.iter().filter(|new| !self.announced.contains(new)) {
            let to_mac = multicast_mac(ALL_NODES);
            let ends = Ends { from_mac: *mac, to_mac, from: *address, to: ALL_NODES };
            let flags = router | neighbor_flag::OVERRIDE;
            if let Some(packet) = advertisement(context, ends, flags, *address) {
                context.push(0, packet);
            }
        }
        self.announced = own;
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
        self.answers += batch.len() as u64;
        context.push_batch(1, &mut others);
        context.give_batch(others);
    }

    handlers! { this, context, value;
        read "table" => {
            let line = |(prefix, mac): &(Ipv6Prefix, MacAddr)| {
                format!("{}/{} {mac}\n", prefix.address, prefix.length)
            };
            this.entries.iter().map(line).collect::<String>()
        };
        read "answers" => this.answers;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::common::ANNOUNCE_AFTER_NS;
    use crate::shared::nd::tests::frame;
    use crate::testing::Bench;

    const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
    const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb]);
    const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

    fn address(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }

    #[test]
    fn solicitations_are_answered() {
        let arguments = [
            "2001:db8::1 2001:db8:: fe80::1 02:00:00:00:00:01",
            "2001:db8:1::/48 2:0:0:0:0:1",
            "ANYCAST 2001:db8:: 2001:db8::1",
        ];
        let from_b = [1, 1, 2, 0, 0, 0, 0, 0xb];
        let own = [2, 1, 2, 0, 0, 0, 0, 1];
        // source, option, target → destination, its MAC, flags
        for (source, option, target, wanted) in [
            ("2001:db8::9", &from_b[..], "2001:db8::1", Some(("2001:db8::9", B, 0xe0))),
            ("2001:db8::9", &[], "fe80::1", Some(("2001:db8::9", A, 0xe0))),
            ("2001:db8::9", &[], "2001:db8:1::7", Some(("2001:db8::9", A, 0xc0))),
            ("::", &[], "2001:db8::1", Some(("ff02::1", MacAddr([0x33, 0x33, 0, 0, 0, 1]), 0xa0))),
            ("2001:db8::9", &[], "2001:db8::", Some(("2001:db8::9", A, 0xc0))),
            ("2001:db8::9", &from_b, "2001:db8::2", None),
        ] {
            let target = address(target);
            let group = europa_packet::icmp6::solicited_node(target);
            let asked = Ends {
                from_mac: A,
                to_mac: multicast_mac(group),
                from: address(source),
                to: group,
            };
            let asked = frame(asked, 135, 0, target, option);
            let wanted = match wanted {
                Some((to, to_mac, flags)) => {
                    let anycast = target == address("2001:db8::");
                    let from = if anycast { address("2001:db8::1") } else { target };
                    let ends = Ends { from_mac: OWN, to_mac, from, to: address(to) };
                    (0, frame(ends, 136, flags, target, &own))
                }
                None => (1, asked.clone()),
            };
            let mut bench = Bench::new("IP6NDAdvertiser", &arguments);
            assert_eq!(bench.push(0, &[&asked]), [wanted], "{source} {target}");
        }
    }

    #[test]
    fn own_addresses_are_announced_once() {
        let bench = |own: &str| {
            let own = format!("{own} 2001:db8:: 2001:db8:1::/48 02:00:00:00:00:01");
            let anycast = "ANYCAST 2001:db8:: 2001:db8::1";
            Bench::new("IP6NDAdvertiser", &[&own, anycast, "ANNOUNCE true"])
        };
        let told = |own| {
            let all = MacAddr([0x33, 0x33, 0, 0, 0, 1]);
            let (from, to) = (address(own), address("ff02::1"));
            let ends = Ends { from_mac: OWN, to_mac: all, from, to };
            (0, frame(ends, 136, 0xa0, from, &[2, 1, 2, 0, 0, 0, 0, 1]))
        };
        let mut old = bench("2001:db8::1");
        assert_eq!(old.run(), []);
        old.now_ns = ANNOUNCE_AFTER_NS;
        assert_eq!(old.run(), [told("2001:db8::1")]);
        let mut new = bench("2001:db8::1 fe80::1");
        new.router.take_state(&mut old.router);
        new.now_ns = ANNOUNCE_AFTER_NS;
        assert_eq!(new.run(), [told("fe80::1")]);
        new.now_ns *= 100;
        assert_eq!(new.run(), []);
    }
}
