//! Explicit congestion notification (RFC 3168) in a packet that is still in its router's slot. The
//! router can write there too, but can damage only its own packet.

use europa_packet::checksum::update_u16;
use europa_pool::{PoolView, Word};

/// Most bytes that are looked at: Ethernet header, a VLAN tag, an IPv4 header's first 20.
const HEAD_BYTES: usize = 14 + 4 + 20;
const VLAN: [u16; 2] = [0x8100, 0x88a8];
/// ECN field: congestion experienced.
const CE: u8 = 3;

/// The beginning of a packet, and the offset of its IP header.
struct Head {
    bytes: [u8; HEAD_BYTES],
    ip: usize,
    /// Of the packet, in the pool.
    place: usize,
}

impl Head {
    /// `None` if it is no IP packet, or is not inside its slot.
    #[inline]
    fn of(view: &PoolView, word: Word) -> Option<Self> {
        let (offset, length) = (usize::from(word.offset()), usize::from(word.length()));
        if offset + length > view.layout().geometry.slot_bytes as usize {
            return None;
        }
        let place = view.slot_offset(word.slot(), offset as u32);
        let mut bytes = [0; HEAD_BYTES];
        let head = bytes.get_mut(..length.min(HEAD_BYTES))?;
        view.mapping().copy_out(place, head);
        let kind = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let ip = if VLAN.contains(&kind(12)) { 18 } else { 14 };
        let version = match kind(ip - 2) {
            0x0800 => 4,
            0x86dd => 6,
            _ => return None,
        };
        let is_ip = length >= ip + 20 && bytes[ip] >> 4 == version;
        is_ip.then_some(Self { bytes, ip, place })
    }

    fn is_v4(&self) -> bool {
        self.bytes[self.ip] >> 4 == 4
    }

    fn field(&self) -> u8 {
        let byte = self.bytes[self.ip + 1];
        // RFC 8200: the traffic class begins in the middle of the first byte.
        (if self.is_v4() { byte } else { byte >> 4 }) & 3
    }
}

/// Whether a packet's sender understands marks.
#[inline]
pub(crate) fn is_capable(view: &PoolView, word: Word) -> bool {
    Head::of(view, word).is_some_and(|head| head.field() != 0)
}

/// Marks a packet whose sender understands that.
#[cold]
pub(crate) fn mark(view: &PoolView, word: Word) {
    let Some(head) = Head::of(view, word).filter(|head| ![0, CE].contains(&head.field())) else {
        return;
    };
    let Head { bytes, ip, place } = &head;
    let (at, old) = (place + ip, bytes[ip + 1]);
    if head.is_v4() {
        let word = |tos| u16::from_be_bytes([bytes[*ip], tos]);
        let check = u16::from_be_bytes([bytes[ip + 10], bytes[ip + 11]]);
        let check = update_u16(check, word(old), word(old | CE));
        view.mapping().copy_in(at + 10, &check.to_be_bytes());
        view.mapping().copy_in(at + 1, &[old | CE]);
    } else {
        view.mapping().copy_in(at + 1, &[old | CE << 4]);
    }
}

#[cfg(test)]
mod tests {
    use europa_packet::checksum::verify;
    use europa_pool::{Geometry, Layout};
    use nix::sys::memfd::{MFdFlags, memfd_create};
    use nix::unistd::ftruncate;

    use super::*;

    fn view() -> PoolView {
        let geometry = Geometry { slots: 2, slot_bytes: 2048, interfaces: 1 };
        let memory = memfd_create(c"pool", MFdFlags::empty()).unwrap();
        let bytes = Layout::new(geometry).unwrap().memory_bytes();
        ftruncate(&memory, bytes as i64).unwrap();
        PoolView::open(memory, geometry).unwrap()
    }

    fn frame(tagged: bool, v4: bool, ecn: u8) -> Vec<u8> {
        let mut frame = vec![0; 12];
        if tagged {
            frame.extend([0x81, 0, 0, 5]);
        }
        if v4 {
            frame.extend([8, 0, 0x45, 0xb8 | ecn, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0]);
            frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
            let ip = frame.len() - 20;
            let check = europa_packet::checksum::checksum(&frame[ip..]);
            frame[ip + 10..ip + 12].copy_from_slice(&check.to_be_bytes());
        } else {
            frame.extend([0x86, 0xdd, 0x6b, 0x80 | ecn << 4]);
            frame.extend([0; 38]);
        }
        frame
    }

    #[test]
    fn marks_what_understands_marks_and_keeps_the_checksum() {
        let view = view();
        for (tagged, v4) in [(false, true), (true, true), (false, false), (true, false)] {
            for (ecn, capable, marked) in [(0, false, 0), (1, true, 3), (2, true, 3), (3, true, 3)]
            {
                let bytes = frame(tagged, v4, ecn);
                let word = Word::frame(1, 192, bytes.len() as u16, 0);
                let place = view.slot_offset(1, 192);
                view.mapping().copy_in(place, &bytes);
                assert_eq!(is_capable(&view, word), capable, "{tagged} {v4} {ecn}");
                mark(&view, word);
                let mut found = vec![0; bytes.len()];
                view.mapping().copy_out(place, &mut found);
                assert_eq!(found, frame(tagged, v4, marked), "{tagged} {v4} {ecn}");
                assert!(!v4 || verify(&found[found.len() - 20..]));
            }
        }
    }

    #[test]
    fn looks_at_nothing_else() {
        let view = view();
        for (offset, length) in [(192, 0), (192, 13), (192, 33), (1000, 1100), (1023, 60)] {
            let word = Word::frame(0, offset, length, 0);
            assert!(!is_capable(&view, word), "{offset} {length}");
            mark(&view, word);
        }
    }
}
