//! IPsec.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use europa_engine::{Arguments, ConfigError, Packet};

use crate::shared::fields::grow_tail;

pub(crate) mod ipsec_aes;
pub(crate) mod ipsec_auth_hmac_sha1;
pub(crate) mod ipsec_auth_sha1;
pub(crate) mod ipsec_des;
pub(crate) mod ipsec_encap;
pub(crate) mod ipsec_esp_encap;
pub(crate) mod ipsec_esp_unencap;
pub(crate) mod radix_ipsec_lookup;

/// Positions of a packet's tunnel index and sequence number.
const SPI: usize = 32;
const ASSOCIATION: usize = 36;
/// Bytes of the ESP header: index, number, initialisation vector.
const HEADER: usize = 16;
const VECTOR: std::ops::Range<usize> = 8..16;
/// Bytes of a digest behind a packet.
const DIGEST: usize = 12;
/// Bytes of a key.
const KEY: usize = 16;

/// The shared state of both ends of a tunnel.
#[derive(Debug)]
struct Association {
    spi: u32,
    encryption: [u8; KEY],
    authentication: [u8; KEY],
    /// The number of the first packet.
    start: u32,
    /// The number of the next packet that is sent.
    next: u32,
    /// Size of the replay window, in packets.
    window: u8,
    /// The highest number that arrived, and a bit for each earlier number that arrived.
    last: u32,
    seen: u32,
}

/// An association that elements share.
type Shared = Rc<RefCell<Association>>;

thread_local! {
    /// All associations of this thread; a packet's annotation is an index in it, from 1.
    static ALL: RefCell<Vec<Weak<RefCell<Association>>>> = const { RefCell::new(Vec::new()) };
}

/// Registers an association; returns its number in annotations.
fn publish(association: &Shared) -> u32 {
    ALL.with_borrow_mut(|all| {
        let free = all.iter().position(|place| place.strong_count() == 0);
        let at = free.unwrap_or_else(|| {
            all.push(Weak::new());
            all.len() - 1
        });
        if let Some(place) = all.get_mut(at) {
            *place = Rc::downgrade(association);
        }
        at as u32 + 1
    })
}

/// The association that a packet's annotation names.
fn association(packet: &Packet) -> Option<Shared> {
    let number = u32::from_ne_bytes(packet.annotation(ASSOCIATION));
    let at = usize::try_from(number.checked_sub(1)?).ok()?;
    ALL.with_borrow(|all| all.get(at).and_then(Weak::upgrade))
}

/// Checks and removes a packet's digest, or adds one. `None` if the digest is wrong or the packet
/// cannot have one.
fn authenticate(
    packet: &mut Packet,
    verifies: bool,
    digest: impl Fn(&Packet, usize) -> Option<[u8; DIGEST]>,
) -> Option<()> {
    if verifies {
        let length = packet.len().checked_sub(DIGEST)?;
        let wanted = digest(packet, length)?;
        // All bytes are compared: the time taken does not depend on where they differ.
        let found = packet.data().get(length..)?;
        let differs = found.iter().zip(wanted).fold(0, |all, (a, b)| all | (a ^ b));
        return if differs == 0 { packet.take(DIGEST) } else { None };
    }
    let length = packet.len();
    let digest = digest(packet, length)?;
    grow_tail(packet, DIGEST)?;
    packet.data_mut().get_mut(length..)?.copy_from_slice(&digest);
    Some(())
}

impl Association {
    /// Whether no packet of this number was seen; from then on it counts as seen.
    fn accepts(&mut self, number: u32) -> bool {
        if number == 0 {
            return false;
        }
        if number == self.start && self.last != self.start {
            // The other end has restarted.
            (self.last, self.seen) = (number, 0);
            return true;
        }
        if number > self.last {
            let ahead = number - self.last;
            let near = ahead < u32::from(self.window).min(32);
            self.seen = if near { self.seen << ahead | 1 } else { 1 };
            self.last = number;
            return true;
        }
        let behind = self.last - number;
        if behind >= u32::from(self.window).min(32) || self.seen & (1 << behind) != 0 {
            return false;
        }
        self.seen |= 1 << behind;
        true
    }

    /// The number of the next packet.
    fn take_number(&mut self) -> u32 {
        let number = self.next;
        self.next = number.wrapping_add(1);
        if number == 0 {
            self.next = self.start;
        }
        number
    }
}

/// The argument 0 or 1 of ciphers and digests.
fn direction(name: &'static str, arguments: &mut Arguments<'_>) -> Result<bool, ConfigError> {
    match arguments.mandatory::<u32>(name)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(ConfigError::other(format!("{name} must be 0 or 1"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn shared() -> Shared {
        Rc::new(RefCell::new(Association {
            spi: 7,
            encryption: *b"0123456789abcdef",
            authentication: *b"fedcba9876543210",
            start: 300,
            next: 300,
            window: 64,
            last: 300,
            seen: 0,
        }))
    }

    /// A packet with an association that lives as long as the result.
    pub(super) fn packet(data: &[u8], association: &Shared) -> Packet {
        let arena = europa_engine::Arena::heap(16, 2048);
        let mut packet = arena.packet(data).unwrap();
        packet.set_annotation(ASSOCIATION, publish(association).to_ne_bytes());
        packet.set_annotation(SPI, association.borrow().spi.to_ne_bytes());
        packet
    }

    #[test]
    fn numbers_are_accepted_once() {
        let association = shared();
        let mut association = association.borrow_mut();
        let accepts: Vec<bool> = [301, 301, 305, 303, 303, 400, 360, 369, 0]
            .into_iter()
            .map(|number| association.accepts(number))
            .collect();
        assert_eq!(accepts, [true, false, true, true, false, true, false, true, false]);
        assert!(association.accepts(300), "the other end has begun anew");
        assert_eq!([association.take_number(), association.take_number()], [300, 301]);
    }

    #[test]
    fn associations_are_forgotten_with_their_table() {
        let first = shared();
        let packet = packet(b"x", &first);
        assert!(association(&packet).is_some());
        drop(first);
        assert!(association(&packet).is_none());
    }
}
