//! Traffic generators and meters.

use europa_engine::Packet;
use europa_packet::checksum;

use crate::shared::fields::{segment_checksum, set, set_ip_checksum};

pub(crate) mod average_counter_imp;
pub(crate) mod average_counter_mp;
pub(crate) mod fast_udp_flows;
pub(crate) mod fast_udp_source;
pub(crate) mod handler_aggregate;
pub(crate) mod multi_replay_unqueue;
pub(crate) mod number_packet;
pub(crate) mod record_timestamp;
pub(crate) mod replay_unqueue;
pub(crate) mod reset_ip_checksum;
pub(crate) mod timestamp_diff;

/// Bytes of an Ethernet header, of an IPv4 header, and of both.
const ETHERNET: usize = 14;
const IP: usize = 20;
const UDP: usize = ETHERNET + IP;
/// Shortest frame, in bytes.
pub(super) const SHORTEST: usize = 60;

/// A UDP frame without its ports and checksum.
#[derive(Clone, Debug, Default)]
struct Template {
    source: ([u8; 6], [u8; 4]),
    destination: ([u8; 6], [u8; 4]),
    length: usize,
    checksum: bool,
}

impl Template {
    /// The frame with these ports.
    fn frame(&self, ports: [u16; 2]) -> Vec<u8> {
        let mut frame = vec![0; self.length.max(SHORTEST)];
        let length = frame.len() - ETHERNET;
        set(&mut frame, 0, self.destination.0);
        set(&mut frame, 6, self.source.0);
        set(&mut frame, 12, [8, 0, 0x45, 0]);
        // The length was at most 65535.
        set(&mut frame, ETHERNET + 2, (length as u16).to_be_bytes());
        set(&mut frame, ETHERNET + 8, [250, 17]);
        set(&mut frame, ETHERNET + 12, self.source.1);
        set(&mut frame, ETHERNET + 16, self.destination.1);
        set_ip_checksum(frame.get_mut(ETHERNET..).unwrap_or_default());
        set(&mut frame, UDP + 4, ((length - IP) as u16).to_be_bytes());
        self.set_ports(&mut frame, ports);
        frame
    }

    /// Gives a frame of this template other ports.
    fn set_ports(&self, frame: &mut [u8], [source, destination]: [u16; 2]) {
        set(frame, UDP, source.to_be_bytes());
        set(frame, UDP + 2, destination.to_be_bytes());
        set(frame, UDP + 6, [0; 2]);
        if self.checksum
            && let Some((header, segment)) =
                frame.get_mut(ETHERNET..).and_then(|packet| packet.split_at_mut_checked(IP))
        {
            let check = checksum::udp(segment_checksum(header, segment));
            set(segment, 6, check.to_be_bytes());
        }
    }

    /// Sets the annotations of such a frame.
    fn annotate(&self, packet: &mut Packet) {
        packet.set_dst_ip(u32::from_be_bytes(self.destination.1));
        packet.set_network_header(ETHERNET, IP);
    }
}

/// The number of packets that may have been sent by now.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    /// Packets a second; 0 for no bound.
    rate: u32,
    /// The time of the first packet.
    begun_ns: Option<u64>,
    sent: u64,
}

impl Pace {
    /// How many of `most` packets may be sent now.
    fn allows(&self, most: usize, now_ns: u64) -> usize {
        if self.rate == 0 {
            return most;
        }
        let gone = u128::from(now_ns.saturating_sub(self.begun_ns.unwrap_or(now_ns)));
        let due = gone * u128::from(self.rate) / 1_000_000_000 + 1;
        most.min(usize::try_from(due.saturating_sub(u128::from(self.sent))).unwrap_or(most))
    }

    fn sent(&mut self, count: usize, now_ns: u64) {
        self.begun_ns.get_or_insert(now_ns);
        self.sent += count as u64;
    }

    /// The time of the next packet.
    fn next_ns(&self) -> u64 {
        let since = u128::from(self.sent) * 1_000_000_000 / u128::from(self.rate.max(1));
        self.begun_ns.unwrap_or(0).saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
    }
}

/// A span in which packets were sent, and the rate that follows.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    first_ns: u64,
    /// Set when all have been sent.
    last_ns: u64,
}

impl Span {
    /// Packets a second; 0 as long as not all have been sent.
    fn rate(self, count: u64) -> u64 {
        if self.last_ns == 0 {
            return 0;
        }
        // Click measures in thousandths of a second.
        let milliseconds = (self.last_ns.saturating_sub(self.first_ns) / 1_000_000).max(1);
        count * 1000 / milliseconds
    }
}

/// The number that `NumberPacket` has written into a packet.
fn number(packet: &Packet, at: usize, network_order: bool) -> Option<u64> {
    let bytes = *packet.data().get(at..)?.first_chunk()?;
    Some(if network_order { u64::from_be_bytes(bytes) } else { u64::from_ne_bytes(bytes) })
}
