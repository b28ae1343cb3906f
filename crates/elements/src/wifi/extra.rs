//! Annotations with a radio's reports and orders for a frame, and the header in which Click's
//! drivers carry them.

use europa_engine::Packet;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Position of the annotations.
const PLACE: usize = 16;
const MAGIC: u32 = 0x0749_2001;

/// The frame was sent by this host, and returned by the driver.
pub(super) const SENT: u32 = 1;
/// No acknowledgement arrived.
pub(super) const FAILED: u32 = 1 << 1;
/// The frame was sent at another rate than the first.
pub(super) const OTHER_RATE: u32 = 1 << 2;
/// It was received damaged.
pub(super) const DAMAGED: u32 = 1 << 3;
/// The frame is the first of several parts.
pub(super) const MORE: u32 = 1 << 4;
/// The frame needs no acknowledgement.
pub(super) const NO_ACKNOWLEDGEMENT: u32 = 1 << 9;

/// The header, in the byte order of this machine, as drivers write it.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Extra {
    magic: u32,
    pub(super) flags: u32,
    pub(super) signal: u8,
    pub(super) noise: u8,
    pub(super) power: u8,
    /// Whether the header is filled up to 32 bits.
    pub(super) padded: u8,
    /// Rates in units of 500 kb/s, tried one after the other.
    pub(super) rates: [u8; 4],
    /// Number of tries at each rate.
    pub(super) tries: [u8; 4],
    collisions: u8,
    pub(super) retries: u8,
    length: u16,
}

impl Extra {
    pub(super) const BYTES: usize = 24;
    /// No information.
    pub(super) const EMPTY: Extra = Extra {
        magic: MAGIC,
        flags: 0,
        signal: 0,
        noise: 0,
        power: 0,
        padded: 0,
        rates: [0; 4],
        tries: [0; 4],
        collisions: 0,
        retries: 0,
        length: 0,
    };

    /// The values in a packet's annotations, whether or not an element has written them.
    pub(super) fn of(packet: &Packet) -> Extra {
        let bytes: [u8; Extra::BYTES] = packet.annotation(PLACE);
        zerocopy::transmute!(bytes)
    }

    /// The header at the front of a frame, if it has this type.
    pub(super) fn before(data: &[u8]) -> Option<Extra> {
        let bytes: [u8; Extra::BYTES] = crate::shared::fields::bytes(data, 0)?;
        Some(zerocopy::transmute!(bytes)).filter(Extra::is_marked)
    }

    /// Whether an element has written these annotations.
    pub(super) fn is_marked(&self) -> bool {
        self.magic == MAGIC
    }

    /// The same values, marked as written by an element.
    pub(super) fn marked(self) -> Extra {
        Extra { magic: MAGIC, ..self }
    }

    pub(super) fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn bytes(self) -> [u8; Extra::BYTES] {
        zerocopy::transmute!(self)
    }

    /// Writes the values to the annotations of a packet.
    pub(super) fn store(self, packet: &mut Packet) {
        packet.set_annotation(PLACE, self.bytes());
    }

    /// Whether the annotations or the front of a packet have this flag.
    pub(super) fn is_flagged(packet: &Packet, flag: u32) -> bool {
        let noted = Extra::of(packet);
        noted.is_marked() && noted.has(flag)
            || Extra::before(packet.data()).is_some_and(|extra| extra.has(flag))
    }
}
