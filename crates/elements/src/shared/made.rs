//! Packets that elements make, and functions for parts of packets that several elements change.

use europa_engine::{Context, Packet};

/// A packet of `length` bytes with the default headroom and arbitrary contents.
pub(crate) fn make(context: &Context<'_>, length: usize) -> Option<Packet> {
    let mut packet = context.arena().alloc()?;
    packet.put(length)?;
    Some(packet)
}

/// Adds an Ethernet header before a packet. `false` if there is no room.
#[inline(always)]
pub(crate) fn encapsulate(packet: &mut Packet, header: &[u8; 14]) -> bool {
    // Only packets with too little headroom are moved.
    if packet.push_bytes(header).is_none()
        && packet.set_headroom(64).and_then(|()| packet.push_bytes(header)).is_none()
    {
        return false;
    }
    packet.set_mac_header(0);
    true
}

/// Writes `from` to the start of `to`, as much as fits; returns the rest of `to`.
pub(crate) fn write<'a>(to: &'a mut [u8], from: &[u8]) -> &'a mut [u8] {
    let count = from.len().min(to.len());
    let (front, rest) = to.split_at_mut(count);
    for (to, from) in front.iter_mut().zip(from) {
        *to = *from;
    }
    rest
}
