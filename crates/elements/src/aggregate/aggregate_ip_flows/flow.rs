//! Flows of packets, and packets that wait for their flow.

use std::collections::{BTreeMap, VecDeque};

use europa_engine::Packet;

use crate::shared::fields::{Annotations, be16, be32, ip_header, is_first, is_fragment, network};
use crate::shared::values::Time;

pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const FIN: u8 = 1;
pub(super) const SYN: u8 = 2;
pub(super) const RST: u8 = 4;
/// Both sides have closed.
pub(super) const CLOSED: u8 = 3;

/// Protocol and two addresses, the smaller first.
pub(super) type Hosts = (u8, u32, u32);

/// The facts that a packet shows about its flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) hosts: Hosts,
    /// The packet goes from the second of the hosts to the first.
    pub(super) back: bool,
    pub(super) id: u16,
    pub(super) fragment: bool,
    /// The ports in the order of the hosts; `None` for later fragments.
    pub(super) ports: Option<(u16, u16)>,
    /// Of the packet's own TCP header.
    pub(super) flags: u8,
    /// The packet is an ICMP error about another packet.
    pub(super) error: bool,
}

impl Seen {
    /// `None` for a packet that belongs to no flow.
    pub(super) fn of(packet: &Packet, errors: bool) -> Option<Seen> {
        let (mut header, mut rest) = network(packet)?;
        let error = errors && header.get(9) == Some(&1) && is_first(header);
        if error {
            let about = matches!(rest.first(), Some(3 | 4 | 5 | 11 | 12));
            let inner = rest.get(8..).filter(|_| about)?;
            header = ip_header(inner)?;
            rest = inner.get(header.len()..)?;
        }
        let protocol = *header.get(9)?;
        let (source, destination) = (be32(header, 12)?, be32(header, 16)?);
        if !matches!(protocol, TCP | UDP) || (source, destination) == (0, 0) {
            return None;
        }
        let mut back = source > destination;
        let mut ports = None;
        if is_first(header) {
            let (from, to) = (be16(rest, 0)?, be16(rest, 2)?);
            // A host may talk to itself.
            back |= source == destination && from > to;
            ports = Some(if back { (to, from) } else { (from, to) });
        }
        let own_tcp = protocol == TCP && !error && ports.is_some();
        Some(Seen {
            hosts: (protocol, source.min(destination), source.max(destination)),
            back,
            id: be16(header, 4)?,
            fragment: is_fragment(header),
            ports,
            flags: rest.get(13).copied().filter(|_| own_tcp).unwrap_or(0),
            error,
        })
    }

    /// The paint of this packet, given the direction of its flow's first packet.
    pub(super) fn paint(&self, first_back: bool) -> u8 {
        u8::from(self.back != first_back) | u8::from(self.error) << 1
    }
}

/// A flow. Times are those of packets, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub(super) number: u32,
    /// Its first packet went back.
    pub(super) back: bool,
    /// A bit for each side that has closed.
    pub(super) closed: u8,
    pub(super) first_ns: i64,
    pub(super) last_ns: i64,
    pub(super) packets: [u64; 2],
    pub(super) position: u64,
}

/// Two hosts: their flows by ports, and packets that wait.
#[derive(Default)]
pub(super) struct Pair {
    pub(super) flows: BTreeMap<(u16, u16), Flow>,
    pub(super) held: VecDeque<(Packet, Seen)>,
}

impl Pair {
    /// Takes out the packet that has waited longest, with its flow's number. The number is 0 if no
    /// waiting packet knows the flow.
    pub(super) fn release(&mut self) -> Option<(Packet, Seen)> {
        let (mut head, seen) = self.held.pop_front()?;
        let same = |other: &Seen| {
            // The direction of a later fragment from a host to itself is unknown.
            let way = other.back == seen.back || seen.hosts.1 == seen.hosts.2;
            other.id == seen.id && way
        };
        if head.aggregate() != 0 {
            for (packet, _) in self.held.iter_mut().filter(|(_, other)| same(other)) {
                packet.set_aggregate(head.aggregate());
                packet.set_paint(head.paint());
            }
        } else {
            let known = |(packet, other): &&(Packet, Seen)| packet.aggregate() != 0 && same(other);
            if let Some((packet, _)) = self.held.iter().find(known) {
                head.set_aggregate(packet.aggregate());
                head.set_paint(packet.paint());
            }
        }
        if let Some(flow) = self.flows.values_mut().find(|flow| flow.number == head.aggregate()) {
            flow.note(&head, seen);
        }
        Some((head, seen))
    }
}

impl Flow {
    /// A packet of it goes on.
    pub(super) fn note(&mut self, packet: &Packet, seen: Seen) {
        self.last_ns = Time::of(packet.timestamp_ns()).0;
        let side = packet.paint();
        if seen.flags & RST != 0 {
            self.closed = CLOSED;
        } else if seen.flags & FIN != 0 {
            self.closed |= 1 << (side & 1);
        } else if seen.flags & SYN != 0 {
            self.closed = 0;
        }
        if let Some(count) = self.packets.get_mut(usize::from(side)) {
            *count += 1;
        }
    }
}
