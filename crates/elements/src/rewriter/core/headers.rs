//! The fields of packets that identify a flow, and those that are rewritten.

use europa_engine::Packet;
use europa_packet::checksum;

use super::Kind;
use crate::rewriter::flows::FlowId;
use crate::shared::fields::{be16, is_first, network_mut, set, set_address};

/// Bits of a flow's state: the packets seen so far.
pub(super) const FORTH_DONE: u8 = 1;
pub(super) const BACK_DONE: u8 = 2;
pub(super) const FORTH_DATA: u8 = 4;
pub(super) const BACK_DATA: u8 = 8;
/// Used in place of the first two bits for flows without an end: the number of packets seen, up to
/// this.
pub(super) const STREAM: u8 = 3;

/// The state of a flow after one more packet.
pub(super) fn seen(state: u8, kind: Kind, back: bool, header: &[u8], rest: &[u8]) -> u8 {
    let (done, data) = if back { (BACK_DONE, BACK_DATA) } else { (FORTH_DONE, FORTH_DATA) };
    if kind == Kind::Udp || header.get(9) != Some(&6) {
        return (state + u8::from(state & STREAM < STREAM)) | data;
    }
    let flags = rest.get(13).copied().unwrap_or(0);
    let headers = header.len() + rest.get(12).map_or(0, |byte| usize::from(byte >> 4) * 4);
    let payload = headers < be16(header, 2).map_or(0, usize::from);
    let state = if flags & 4 != 0 {
        state | FORTH_DONE | BACK_DONE
    } else if flags & 1 != 0 {
        state | done
    } else if flags & 2 != 0 || payload {
        state & !done
    } else {
        state
    };
    if payload { state | data } else { state }
}

/// Writes addresses and ports, and corrects checksums by difference.
pub(super) fn rewrite(packet: &mut Packet, kind: Kind, new: FlowId, back: bool) {
    match kind {
        Kind::Address if back => {
            set_address(packet, 16, new.destination.to_be_bytes());
            return;
        }
        Kind::Address => {
            set_address(packet, 12, new.source.to_be_bytes());
            return;
        }
        _ => {
            set_address(packet, 12, new.source.to_be_bytes());
            set_address(packet, 16, new.destination.to_be_bytes());
        }
    }
    let Some((header, rest)) = network_mut(packet) else { return };
    if !is_first(header) {
        return;
    }
    let changes: &[(usize, u16)] = match kind {
        Kind::AddressPair | Kind::Address => return,
        // The identifier is the first number of a request, and the second of a reply.
        Kind::Ping => {
            &[(4, if rest.first() == Some(&8) { new.source_port } else { new.destination_port })]
        }
        _ => &[(0, new.source_port), (2, new.destination_port)],
    };
    let at = match header.get(9) {
        Some(1) => 2,
        Some(6) if rest.len() >= 18 => 16,
        Some(17) if be16(rest, 6) != Some(0) => 6,
        _ => usize::MAX,
    };
    for (field, value) in changes {
        let Some(old) = be16(rest, *field) else { continue };
        set(rest, *field, value.to_be_bytes());
        if let Some(check) = be16(rest, at) {
            let check = checksum::update_u16(check, old, *value);
            // In ICMP 0xffff is valid wherever 0 is, and also if all other words are 0.
            let check = if at == 16 { check } else { checksum::udp(check) };
            set(rest, at, check.to_be_bytes());
        }
    }
}
