//! The label table's work on packets: no allocation, no lock, no system call.

use std::net::IpAddr;

use europa_engine::DROP;
use europa_label::{Hop, Model, StackEntry, WhileDown};
use europa_packet::checksum;

use super::LABELLED;
use super::program::Program;
use crate::prelude::*;

/// Most labels that a router removes from one packet; a packet with more counts as malformed.
const MOST_POPS: usize = 8;
/// RFC 3032: the router before the last one removes the label.
pub(super) const IMPLICIT_NULL: u32 = 3;
/// RFC 3032: explicit null of IPv4 and IPv6.
const EXPLICIT_NULL: [u32; 2] = [0, 2];

/// Dropped packets by cause, and labelled packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// No entry has their label.
    pub(super) unknown: u64,
    /// No hop was left.
    pub(super) expired: u64,
    /// The label stack or the packet below it is invalid.
    pub(super) malformed: u64,
    /// A flow without LSP drops them.
    pub(super) down: u64,
    /// More than the flow may send.
    pub(super) exceeding: u64,
    /// There was no room for a label.
    pub(super) no_room: u64,
}

/// Outputs of a switch, by its number of interfaces.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outputs {
    interfaces: u16,
}

impl Outputs {
    pub(super) fn of(interfaces: usize) -> Self {
        Self { interfaces: interfaces as u16 }
    }

    /// The output to a neighbour on an interface.
    pub(super) fn neighbour(self, interface: u32, is_v6: bool) -> u16 {
        interface as u16 + if is_v6 { self.interfaces } else { 0 }
    }

    /// The output for packets without LSP.
    pub(super) fn route(self, is_v6: bool) -> u16 {
        self.interfaces * 2 + u16::from(is_v6)
    }

    /// The output for packets that are too long for their LSP.
    pub(super) fn too_long(self, is_v6: bool) -> u16 {
        self.interfaces * 2 + 2 + u16::from(is_v6)
    }

    /// The output for packets whose LSP ends here.
    pub(super) fn tail(self, is_v6: bool) -> u16 {
        self.interfaces * 2 + 4 + u16::from(is_v6)
    }

    /// Number of outputs.
    pub(super) fn count(self) -> usize {
        usize::from(self.interfaces) * 2 + 6
    }
}

/// Sends a packet to a neighbour. Returns the output.
#[inline(always)]
pub(super) fn send(outputs: Outputs, packet: &mut Packet, hop: &Hop, paint: u8) -> u16 {
    let is_v6 = match hop.via {
        IpAddr::V4(via) => {
            packet.set_dst_ip(via.into());
            false
        }
        IpAddr::V6(via) => {
            packet.set_annotation(annotation::DST_IP6, via.octets());
            true
        }
    };
    packet.set_paint(paint);
    outputs.neighbour(hop.interface, is_v6)
}

/// Sets the TTL of an IP packet that begins at its data, and sets its header annotations. Returns
/// whether it is an IP packet.
fn set_ttl(packet: &mut Packet, model: Model, top: StackEntry) -> Result<Option<bool>, ()> {
    let Some(first) = packet.data().first().copied() else { return Err(()) };
    let length = match first >> 4 {
        4 => usize::from(first & 15) * 4,
        6 => 40,
        _ => return Err(()),
    };
    let is_v6 = first >> 4 == 6;
    if packet.len() < length || length < 20 {
        return Err(());
    }
    if is_v6 {
        let Some(ttl) = packet.data_mut().get_mut(7) else { return Err(()) };
        let Some(new) = top.pop(model, *ttl) else { return Ok(None) };
        *ttl = new;
    } else {
        let Some([_, _, _, _, _, _, _, _, ttl, protocol, high, low, ..]) =
            packet.data_mut().first_chunk_mut::<20>()
        else {
            return Err(());
        };
        let Some(new) = top.pop(model, *ttl) else { return Ok(None) };
        let (before, after) =
            (u16::from_be_bytes([*ttl, *protocol]), u16::from_be_bytes([new, *protocol]));
        let check = checksum::update_u16(u16::from_be_bytes([*high, *low]), before, after);
        *ttl = new;
        [*high, *low] = check.to_be_bytes();
    }
    packet.set_network_header(0, length);
    Ok(Some(is_v6))
}

impl Program {
    /// Handles a packet that begins with a label; returns its output.
    pub(super) fn labelled(&mut self, packet: &mut Packet) -> u16 {
        for _ in 0..MOST_POPS {
            let Some(top) = packet.bytes::<4>(0).map(|bytes| StackEntry::from_bytes(*bytes)) else {
                self.counts.malformed += 1;
                return DROP;
            };
            let hop = if EXPLICIT_NULL.contains(&top.label) {
                None
            } else {
                let Some(lsp) = self.lsp_of(top.label) else {
                    self.counts.unknown += 1;
                    return DROP;
                };
                lsp.packets += 1;
                lsp.bytes += packet.len() as u64;
                lsp.entry.outgoing
            };
            if let Some(hop) = hop.filter(|hop| hop.label != IMPLICIT_NULL) {
                let Some(swapped) = top.swap(hop.label) else {
                    self.counts.expired += 1;
                    return DROP;
                };
                if let Some(to) = packet.data_mut().first_chunk_mut::<4>() {
                    *to = swapped.to_bytes();
                }
                return send(self.outputs, packet, &hop, LABELLED);
            }
            if packet.pull(StackEntry::LEN).is_none() {
                self.counts.malformed += 1;
                return DROP;
            }
            if top.is_bottom {
                return match (set_ttl(packet, self.model, top), hop) {
                    (Err(()), _) => {
                        self.counts.malformed += 1;
                        DROP
                    }
                    (Ok(None), _) => {
                        self.counts.expired += 1;
                        DROP
                    }
                    (Ok(Some(_)), Some(hop)) => send(self.outputs, packet, &hop, 0),
                    (Ok(Some(is_v6)), None) => self.outputs.tail(is_v6),
                };
            }
            // The next header is another label.
            let Some(bytes) = packet.data_mut().first_chunk_mut::<4>() else {
                self.counts.malformed += 1;
                return DROP;
            };
            let below = StackEntry::from_bytes(*bytes);
            let Some(ttl) = top.pop(self.model, below.ttl) else {
                self.counts.expired += 1;
                return DROP;
            };
            *bytes = StackEntry { ttl, ..below }.to_bytes();
            if let Some(hop) = hop {
                return send(self.outputs, packet, &hop, LABELLED);
            }
        }
        self.counts.malformed += 1;
        DROP
    }

    /// Handles an IP packet that may belong to a flow that begins here. Returns its output.
    #[inline(always)]
    pub(super) fn head(&mut self, packet: &mut Packet, is_v6: bool, now_ns: u64) -> u16 {
        match self.flow_of(packet, is_v6) {
            None => self.outputs.route(is_v6),
            Some(flow) => self.enter(flow, packet, is_v6, now_ns),
        }
    }

    /// A packet of a flow enters its LSP.
    fn enter(&mut self, flow: usize, packet: &mut Packet, is_v6: bool, now_ns: u64) -> u16 {
        let route = self.outputs.route(is_v6);
        let Some(flow) = self.flows.get_mut(flow) else { return route };
        let lsp = flow.lsp.and_then(|lsp| self.lsps.get_mut(lsp as usize)?.as_mut());
        let Some((lsp, hop)) = lsp.and_then(|lsp| lsp.entry.outgoing.map(|hop| (lsp, hop))) else {
            if flow.head.while_down == WhileDown::Route {
                return route;
            }
            self.counts.down += 1;
            return DROP;
        };
        let is_labelled = hop.label != IMPLICIT_NULL;
        let Some((ttl, dscp)) = hops_and_class(packet, is_v6) else { return route };
        if ttl <= 1 {
            // The router tells its sender.
            return route;
        }
        let most = self.mtus.get(hop.interface as usize).copied().unwrap_or(0);
        let label_bytes = if is_labelled { StackEntry::LEN } else { 0 };
        if packet.len() + label_bytes > most {
            return self.outputs.too_long(is_v6);
        }
        if !flow.bucket.take(packet.len(), now_ns) {
            self.counts.exceeding += 1;
            return DROP;
        }
        count_down(packet, is_v6);
        lsp.packets += 1;
        lsp.bytes += packet.len() as u64;
        if !is_labelled {
            return send(self.outputs, packet, &hop, 0);
        }
        let entry = StackEntry::push(self.model, hop.label, ttl - 1, dscp).to_bytes();
        if packet.push_bytes(&entry).is_none()
            && packet.set_headroom(64).and_then(|()| packet.push_bytes(&entry)).is_none()
        {
            self.counts.no_room += 1;
            return DROP;
        }
        send(self.outputs, packet, &hop, LABELLED)
    }
}

/// TTL and DSCP of an IP packet.
#[inline(always)]
fn hops_and_class(packet: &Packet, is_v6: bool) -> Option<(u8, u8)> {
    let header = packet.network_bytes::<20>()?;
    Some(match is_v6 {
        true => (header[7], (header[0] << 4 | header[1] >> 4) >> 2),
        false => (header[8], header[1] >> 2),
    })
}

/// Decrements an IP packet's TTL, which must be more than 1.
fn count_down(packet: &mut Packet, is_v6: bool) {
    if !is_v6 {
        crate::edit::dec_ip_ttl::decrement(packet, true);
    } else if let Some(hops) = packet.network_header_mut().and_then(|header| header.get_mut(7)) {
        *hops = hops.saturating_sub(1);
    }
}
