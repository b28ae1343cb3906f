//! Packets that stand for several.

use europa_engine::Packet;

use crate::shared::fields::{Annotations, be16, network_mut, set};

/// A packet that stands for several packets, which are made from it one after the other.
pub(super) struct Multiple {
    pub(super) packet: Packet,
    pub(super) count: u64,
    /// Packets made so far.
    pub(super) made: u64,
    /// Bytes of all packets together, and of each but the last.
    pub(super) total: u64,
    pub(super) each: u64,
    /// Time between two of them.
    pub(super) step_ns: u64,
}

impl Multiple {
    /// All packets that this one stands for if `multiplies`; otherwise this one unchanged.
    pub(super) fn of(mut packet: Packet, multiplies: bool) -> Multiple {
        let extra = packet.extra_packets();
        if !multiplies || extra == 0 {
            return Multiple { packet, count: 1, made: 0, total: 0, each: 0, step_ns: 0 };
        }
        let (count, there) = (u64::from(extra) + 1, packet.len() as u64);
        let total = there + u64::from(packet.extra_length());
        let each = (total / count).max(there);
        let (first_ns, end_ns) = (packet.first_timestamp_ns(), packet.timestamp_ns());
        let step_ns =
            if first_ns == 0 { 0 } else { end_ns.saturating_sub(first_ns) / u64::from(extra) };
        packet.set_extra_packets(0);
        Multiple { packet, count, made: 0, total, each, step_ns }
    }

    pub(super) fn is_last(&self) -> bool {
        self.made + 1 >= self.count
    }

    /// Time of the next packet.
    pub(super) fn time_ns(&self) -> u64 {
        let first_ns = self.packet.first_timestamp_ns();
        match first_ns == 0 || self.is_last() {
            true => self.packet.timestamp_ns(),
            false => first_ns + self.step_ns * self.made,
        }
    }

    /// A copy of the packet; `None` if the packet is the last one, or without a free slot.
    pub(super) fn copy(&mut self) -> Option<Packet> {
        if self.is_last() {
            return None;
        }
        let mut copy = self.packet.try_clone()?;
        give(&mut copy, self.each, self.time_ns());
        self.made += 1;
        Some(copy)
    }

    /// The last packet.
    pub(super) fn last(self) -> Packet {
        let time_ns = self.time_ns();
        let Multiple { count, total, each, mut packet, .. } = self;
        if count > 1 {
            // The last packet gets the rest of the division.
            let this = total.saturating_sub(each * (count - 1)).max(packet.len() as u64);
            give(&mut packet, this, time_ns);
        }
        packet
    }
}

/// Gives a packet this number of bytes and this time.
pub(super) fn give(packet: &mut Packet, bytes: u64, time_ns: u64) {
    let missing = bytes.saturating_sub(packet.len() as u64);
    packet.set_extra_length(u32::try_from(missing).unwrap_or(u32::MAX));
    packet.set_timestamp_ns(time_ns);
    if let Some((header, rest)) = network_mut(packet) {
        set(header, 2, (bytes.min(0xffff) as u16).to_be_bytes());
        if header.get(9) == Some(&17) && be16(rest, 4).is_some() {
            let length = (bytes.min(0xffff) as usize).saturating_sub(header.len()) as u16;
            set(rest, 4, length.to_be_bytes());
        }
    }
}
