//! TCP endpoints.

use europa_engine::{Context, Packet};

use crate::shared::fields::{be16, be32, network, set};

pub(crate) mod buffer_converter;
pub(crate) mod copy_flow_id;
pub(crate) mod copy_tcp_seq;
pub(crate) mod tcp_ack;
pub(crate) mod tcp_buffer;
pub(crate) mod tcp_conn;
pub(crate) mod tcp_demux;
pub(crate) mod toy_tcp;
pub(crate) mod web_gen;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const PSH: u8 = 8;
const ACK: u8 = 16;
/// Bytes of an IPv4 and of a TCP header without options.
const IP: usize = 20;
const TCP: usize = 20;
/// The window that segments offer, as Click has it.
const WINDOW: u16 = 32120;

/// Addresses and ports of a flow, as headers have them: source, destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Flow {
    addresses: [[u8; 4]; 2],
    ports: [u16; 2],
}

impl Flow {
    /// The flow of a packet.
    fn of(packet: &Packet) -> Option<Flow> {
        let (header, segment) = network(packet)?;
        let address = |at| crate::shared::fields::bytes::<4>(header, at);
        Some(Flow {
            addresses: [address(12)?, address(16)?],
            ports: [be16(segment, 0)?, be16(segment, 2)?],
        })
    }

    /// Writes the flow's addresses and ports into a packet's headers.
    fn write(&self, packet: &mut Packet) -> Option<()> {
        let (header, segment) = crate::shared::fields::network_mut(packet)?;
        let [source, destination] = self.addresses;
        let ports = self.ports.map(u16::to_be_bytes);
        let written = set(header, 12, source)
            && set(header, 16, destination)
            && set(segment, 0, ports[0])
            && set(segment, 2, ports[1]);
        written.then_some(())
    }

    fn reverse(self) -> Flow {
        let ([a, b], [c, d]) = (self.addresses, self.ports);
        Flow { addresses: [b, a], ports: [d, c] }
    }
}

/// The fields of a segment's header.
#[derive(Clone, Copy, Debug)]
struct Segment {
    sequence: u32,
    acknowledged: u32,
    flags: u8,
    /// Offset of its data in the packet after the IP header.
    offset: usize,
    /// Bytes of data.
    length: usize,
}

impl Segment {
    fn of(packet: &Packet) -> Option<Segment> {
        let (header, segment) = network(packet)?;
        let offset = usize::from(segment.get(12)? >> 4) * 4;
        let total = usize::from(be16(header, 2)?);
        Some(Segment {
            sequence: be32(segment, 4)?,
            acknowledged: be32(segment, 8)?,
            flags: *segment.get(13)?,
            offset,
            length: total.saturating_sub(header.len() + offset),
        })
    }

    fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// Number of its sequence numbers.
    fn span(&self) -> u32 {
        (self.length as u32).wrapping_add(u32::from(self.flags & (SYN | FIN) != 0))
    }
}

/// Whether a sequence number is before another.
fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b)).cast_signed() < 0
}

/// Sets the sequence number of a packet.
fn set_sequence(packet: &mut Packet, sequence: u32) -> Option<()> {
    let (_, segment) = crate::shared::fields::network_mut(packet)?;
    set(segment, 4, sequence.to_be_bytes()).then_some(())
}

/// A packet with IPv4 and TCP headers and room for `data`. Addresses, ports and checksums are zero.
fn make(context: &Context<'_>, flags: u8, data: &[u8]) -> Option<Packet> {
    let mut packet = crate::shared::made::make(context, IP + TCP + data.len())?;
    let bytes = packet.data_mut();
    bytes.fill(0);
    set(bytes, 0, [0x45, 0x10]);
    set(bytes, 2, u16::try_from(IP + TCP + data.len()).ok()?.to_be_bytes());
    set(bytes, 6, [0x40, 0, 255, 6]);
    set(bytes, IP + 12, [0x50, flags]);
    set(bytes, IP + 14, WINDOW.to_be_bytes());
    bytes.get_mut(IP + TCP..)?.copy_from_slice(data);
    packet.set_network_header(0, IP);
    Some(packet)
}

/// The nearest element of a class on the paths from `me`: after its output 0 if `behind`, otherwise
/// before its input 0.
fn nearest(me: usize, class: &str, behind: bool, context: &Context<'_>) -> Option<usize> {
    let (mut seen, mut ahead) = (vec![me], std::collections::VecDeque::from([me]));
    while let Some(at) = ahead.pop_front() {
        let port = (at == me).then_some(0);
        let next = if behind { context.targets(at, port) } else { context.sources(at, port) };
        for element in next {
            if context.class_of(element) == Some(class) {
                return Some(element);
            }
            if !seen.contains(&element) {
                seen.push(element);
                ahead.push_back(element);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use europa_engine::Packet;

    use super::*;

    /// A packet of this flow, with sequence number, flags and data.
    pub(super) fn packet(flow: Flow, sequence: u32, flags: u8, data: &[u8]) -> Packet {
        let arena = europa_engine::Arena::heap(16, 2048);
        let mut bytes = vec![0; IP + TCP];
        bytes[0] = 0x45;
        bytes[3] = (IP + TCP + data.len()) as u8;
        bytes[9] = 6;
        bytes[IP + 12] = 0x50;
        bytes[IP + 13] = flags;
        bytes[IP + 4..IP + 8].copy_from_slice(&sequence.to_be_bytes());
        bytes.extend(data);
        let mut packet = arena.packet(&bytes).unwrap();
        packet.set_network_header(0, IP);
        flow.write(&mut packet).unwrap();
        packet
    }

    #[test]
    fn numbers_wrap() {
        assert!(before(u32::MAX, 0) && before(1, 2) && !before(2, 2) && !before(0, u32::MAX));
    }
}
