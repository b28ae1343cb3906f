//! # HostPolice
//!
//! ## Synopsis
//! `HostPolice([ROUTING, NEIGHBOURS, EXCEPTIONS])`
//!
//! ## Ports
//! Three push inputs, all for whole Ethernet frames. Input 0: frames for Linux. Input 1: frames of
//! packets that could not be forwarded. Input 2: frames of packets that Linux is to forward. Output
//! 0: frames for Linux of low precedence. Output 1: frames for Linux that precede those of output
//! 0.
//!
//! ## Description
//! Limits the packets to Linux, for each receiving interface and each class. So no class takes the
//! share of another:
//!
//! - *routing*: packets of input 0 with OSPF, BFD, BGP, IS-IS, RIP, LDP, PIM, VRRP, EIGRP, RSVP,
//!   IGMP, MLD or LLDP, and other frames to groups of links. They leave by output 1.
//! - *neighbours*: ARP and Neighbor Discovery, by input 0. They leave by output 1.
//! - *exceptions*: packets of input 1, such as packets with an expired TTL or without a route. They
//!   have any protocol and are not for the router itself.
//!
//! Packets of no class are not limited: packets to the router itself, and those that go through
//! Linux.
//!
//! ## Arguments
//! - ROUTING, NEIGHBOURS, EXCEPTIONS: packets a second, by default 50000, 5000 and 20000; 0 for no
//!   bound. A tenth of this number may come at once.
//!
//! ## Handlers
//! - `drops` (read): packets beyond the limits, a line of count and class each.
//!
//! ## See also
//! `ToHost`, `HostGate`, `Meter`

use europa_engine::{Batch, Class, ClassInfo, Context, DROP, Element, Packet, arguments, handlers};

use crate::shared::rate::Rate;

const CLASSES: [&str; 3] = ["routing", "neighbours", "exceptions"];
const ROUTING: usize = 0;
const NEIGHBOURS: usize = 1;
const EXCEPTIONS: usize = 2;
/// Number of interfaces with limits of their own; all further interfaces share the last limits.
const MOST_INTERFACES: usize = 256;

/// Limits the packets to Linux.
#[derive(Default)]
pub(crate) struct HostPolice {
    rates: [u32; 3],
    /// By interface.
    bounds: Vec<[Rate; 3]>,
    drops: [u64; 3],
}

impl Class for HostPolice {
    const INFO: ClassInfo =
        ClassInfo::new("HostPolice", "3/2").processing("h/h").inline().keeps_long();
}

/// The class of a frame by its contents.
fn class(frame: &[u8]) -> Option<usize> {
    let head = frame.first_chunk::<14>()?;
    match [head[12], head[13]] {
        [8, 6] => Some(NEIGHBOURS),
        [8, 0] => class4(frame.get(14..)?),
        [0x86, 0xdd] => class6(frame.get(14..)?),
        // LLDP and LACP; IS-IS, STP and other protocols of links have a length in place of a type.
        [0x88, 0xcc | 0x09] => Some(ROUTING),
        [0..=5, _] if head[0] & 1 == 1 => Some(ROUTING),
        _ => None,
    }
}

fn class4(packet: &[u8]) -> Option<usize> {
    let header = packet.first_chunk::<20>()?;
    let behind = packet.get(usize::from(header[0] & 15) * 4..).unwrap_or_default();
    transport(header[9], behind)
}

fn class6(packet: &[u8]) -> Option<usize> {
    let header = packet.first_chunk::<40>()?;
    let behind = packet.get(40..).unwrap_or_default();
    match (header[6], behind.first()) {
        // Solicitations, advertisements, redirects.
        (58, Some(133..=137)) => Some(NEIGHBOURS),
        (58, Some(130..=132 | 143)) => Some(ROUTING),
        // MLD has an option before it.
        (0, _) if header[24] == 0xff => Some(ROUTING),
        (protocol, _) => transport(protocol, behind),
    }
}

/// Whether this is a protocol of routers.
fn transport(protocol: u8, packet: &[u8]) -> Option<usize> {
    let ports = packet.first_chunk::<4>().map_or([0, 0], |[a, b, c, d]| {
        [u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])]
    });
    let is_routing = match protocol {
        // IGMP, RSVP, EIGRP, OSPF, PIM, VRRP.
        2 | 46 | 88 | 89 | 103 | 112 => true,
        // BGP and LDP.
        6 => ports.iter().any(|port| matches!(port, 179 | 646)),
        // RIP, RIPng, LDP, BFD.
        17 => matches!(ports[1], 520 | 521 | 646 | 3784 | 3785 | 4784 | 6784 | 7784),
        _ => false,
    };
    is_routing.then_some(ROUTING)
}

impl HostPolice {
    fn output(&mut self, packet: &Packet, input: usize, now_ns: u64) -> u16 {
        // A packet on its way elsewhere is no message to this router, whatever its contents.
        let class = match input {
            0 => class(packet.data()),
            1 => Some(EXCEPTIONS),
            _ => None,
        };
        let Some(class) = class else { return 0 };
        let interface = usize::from(packet.interface()).min(MOST_INTERFACES - 1);
        let bound = self.bounds.get_mut(interface).and_then(|bounds| bounds.get_mut(class));
        if bound.is_none_or(|bound| bound.allows(now_ns)) {
            return u16::from(class != EXCEPTIONS);
        }
        if let Some(drops) = self.drops.get_mut(class) {
            *drops += 1;
        }
        DROP
    }
}

impl Element for HostPolice {
    arguments! { this, given;
        positional "ROUTING": u32 = 50_000 => this.rates[ROUTING];
        positional "NEIGHBOURS": u32 = 5_000 => this.rates[NEIGHBOURS];
        positional "EXCEPTIONS": u32 = 20_000 => this.rates[EXCEPTIONS];
        then {
            this.bounds = vec![this.rates.map(Rate::new); MOST_INTERFACES];
        }
    }

    fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let now_ns = context.now_ns();
        context.forward_each(batch, |packet| self.output(packet, port, now_ns));
    }

    handlers! { this, context, value;
        read "drops" => {
            let lines = CLASSES.iter().zip(this.drops).filter(|(_, count)| *count > 0);
            lines.map(|(class, count)| format!("{count} {class}\n")).collect::<String>()
        };
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use europa_packet::{ArpPacket, Frame, IpProtocol, MacAddr};

    const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

    fn v4() -> Frame {
        Frame::new(OTHER, OWN).ipv4([10, 0, 0, 2], [10, 0, 0, 1])
    }

    fn v6() -> Frame {
        let address = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap();
        Frame::new(OTHER, OWN).ipv6(address("fe80::2"), address("fe80::1"))
    }

    #[test]
    fn frames_have_classes() {
        let arp = ArpPacket::request(OTHER, [10, 0, 0, 2].into(), [10, 0, 0, 1].into());
        let mut isis = Frame::new(OTHER, MacAddr([1, 0x80, 0xc2, 0, 0, 0x14])).udp(1, 2, b"");
        isis.truncate(14);
        for (what, frame, input, output) in [
            ("ARP", Frame::new(OTHER, OWN).arp(&arp), 0, 1),
            ("a solicitation", v6().icmp6(&[135, 0, 0, 0]), 0, 1),
            ("an echo", v6().icmp6(&[128, 0, 0, 0]), 0, 0),
            ("OSPF", v4().transport(IpProtocol(89), &[0; 24]), 0, 1),
            ("OSPF at the end of its time", v4().transport(IpProtocol(89), &[0; 24]), 1, 0),
            ("BFD to others", v4().udp(49152, 3784, &[0; 24]), 2, 0),
            ("OSPFv3", v6().transport(IpProtocol(89), &[0; 24]), 0, 1),
            ("BFD", v4().udp(49152, 3784, &[0; 24]), 0, 1),
            ("BGP", v4().tcp(179, 40000, 1, 2, b""), 0, 1),
            ("IS-IS", isis, 0, 1),
            ("UDP to the router", v4().udp(1, 2, b""), 0, 0),
            ("UDP that cannot be forwarded", v4().udp(1, 2, b""), 1, 0),
        ] {
            let mut bench = Bench::with_outputs("HostPolice", &[], 2);
            let out = bench.push(input, &[&frame]);
            assert_eq!(out.first().map(|(output, _)| *output), Some(output), "{what}");
        }
    }

    #[test]
    fn each_class_of_each_interface_has_its_own_bound() {
        let mut bench = Bench::with_outputs("HostPolice", &["0", "0", "100"], 2);
        let mut push = |interface: u16, input: usize| {
            let packets = (0..15).map(|_| {
                let mut packet = bench.arena.packet(&v4().udp(1, 2, b"")).unwrap();
                packet.set_interface(interface);
                packet
            });
            let packets = packets.collect();
            bench.push_packets(input, packets).len()
        };
        // A tenth of the rate at once.
        assert_eq!(push(0, 1), 10);
        assert_eq!(push(0, 1), 0);
        assert_eq!(push(1, 1), 10);
        assert_eq!(push(0, 0), 15, "what is no exception has no bound");
        assert_eq!(bench.router.read("e.drops", ""), Ok("25 exceptions\n".into()));
    }
}
