//! The layout of a pool's memory.
//!
//! ```text
//! 0                      slots * slot_bytes                                        memory_bytes
//! | slot 0 | slot 1 | ... | header | interface table | rings: fill, recycle, ... | long slots |
//! ```
//!
//! Slots come first, so that masking an index with `slots - 1` keeps it inside them. The control
//! words follow; they are counted in 64-bit words from the end of the slots. The memory is one BPF
//! array map with elements of `slot_bytes` each; the control words fill as many elements as they
//! need. A long slot is a run of elements, so the owner of the mapping sees [`LONG_SLOT_BYTES`] in
//! a row.
//!
//! The substrate never reads the layout from the pool. It has its own copy of the geometry and
//! every cursor in maps that no router can reach.

/// Version of this layout. A router refuses a pool of another version.
pub const ABI_VERSION: u16 = 1;
/// First four bytes of the header: "EuPl", little endian.
pub const ABI_MAGIC: u32 = u32::from_le_bytes(*b"EuPl");

/// Bytes at the start of each slot for [`Metadata`].
pub const SLOT_METADATA_BYTES: u32 = 64;
/// Bytes of a filter key.
pub const KEY_BYTES: usize = 40;
/// Bytes of a rule's result for a key.
pub const RESULT_BYTES: usize = 16;
/// The lowest offset in a slot at which the receive program puts a frame: behind metadata and
/// headroom. See [`rx_offset`].
pub const RX_OFFSET_BYTES: u32 = 192;
/// Mask of the bits of the slot number that choose one of several such offsets, 64 bytes apart.
pub const RX_PLACES_MASK: u32 = 3;
/// Free bytes behind a received frame: the receive program sums checksums in whole words.
pub const TAIL_BYTES: u32 = 8;
/// Slot size for ports up to 1500 bytes of MTU.
pub const SMALL_SLOT_BYTES: u32 = 2048;
/// Slot size for jumbo frames.
pub const LARGE_SLOT_BYTES: u32 = 16384;
/// Size of a long slot, which holds a super-packet: a TCP packet that is not yet cut into segments.
pub const LONG_SLOT_BYTES: u32 = 1 << 16;
/// The bit that marks the numbers of long slots in words.
pub const LONG_SLOT: u32 = 1 << 19;
/// A pool has one long slot for this number of others, if that makes at least [`MIN_LONG_SLOTS`].
const LONG_SHARE: u32 = 128;
/// Fewer long slots are not worth their memory.
const MIN_LONG_SLOTS: u32 = 8;
/// Most long slots that one pool may have.
pub const MAX_LONG_SLOTS: u32 = MAX_SLOTS / LONG_SHARE;
/// Most interfaces that one router may have.
pub const MAX_INTERFACES: u32 = 64;
/// Most slots that one pool may have.
pub const MAX_SLOTS: u32 = 1 << 16;

/// Number of words of the fixed header.
pub const HEADER_WORDS: u32 = 64;
/// Number of words of one row of the interface table.
pub const INTERFACE_WORDS: u32 = 8;

/// The fixed header at the start of the control words; 512 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// [`ABI_MAGIC`].
    pub magic: u32,
    /// [`ABI_VERSION`].
    pub version: u16,
    /// Number of rows in the interface table.
    pub interfaces: u16,
    /// Size of a slot, in bytes.
    pub slot_bytes: u32,
    /// Number of slots, a power of two.
    pub slots: u32,
    /// Router to substrate: slots that the router does not need, for reception.
    pub fill: RingPlace,
    /// Substrate to itself: slots whose packet has been sent. Routers do not use this ring.
    pub recycle: RingPlace,
    /// Substrate to router: slots sent with [`crate::Word::RETURN`].
    pub done: RingPlace,
    /// Fills the first cache line except one word, so that `asleep` has its own line.
    pub reserved: [u32; 6],
    /// Not zero while the router sleeps and needs a wake-up for a packet: its receive rings are
    /// then empty. A writer whose word follows a waiting word does not read this.
    pub asleep: u32,
    /// Not zero if the router accepts super-packets: packets of TCP in long slots.
    pub takes_long: u32,
    /// Reserved, zero.
    pub reserved_to_end: [u32; 110],
}

/// The metadata of each slot; 64 bytes. Words in rings tell which fields are valid.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Metadata {
    /// Router to switch, with [`crate::Word::KEY`]: the key to look up among the slice's rules.
    pub key: [u8; KEY_BYTES],
    /// Switch to router, with [`crate::Word::RESULT`]: the result of the rule found.
    pub result: [u8; RESULT_BYTES],
    /// For a packet in a long slot: payload bytes of each of its segments; the last segment may
    /// have fewer.
    pub segment: u16,
    /// For a packet in a long slot: its length minus the length of its longest segment with
    /// headers, in bytes.
    pub excess: u16,
    /// Reserved.
    pub reserved: [u8; 4],
}

/// Byte offset of [`Metadata::segment`] in a slot.
pub const SEGMENT_OFFSET_BYTES: u32 = std::mem::offset_of!(Metadata, segment) as u32;

/// Byte offset of [`Metadata::result`] in a slot.
pub const RESULT_OFFSET_BYTES: u32 = std::mem::offset_of!(Metadata, result) as u32;

/// Place of a ring among the control words.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RingPlace {
    /// First word, counted from the end of the slots.
    pub first_word: u32,
    /// Number of words, a power of two.
    pub words: u32,
}

/// One row of the interface table; 64 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct InterfaceRow {
    /// Substrate to router: received frames.
    pub rx: RingPlace,
    /// Router to switch: frames to send.
    pub tx: RingPlace,
    /// Largest payload of a frame, in bytes, without the Ethernet header.
    pub mtu: u32,
    /// The interface's own Ethernet address.
    pub mac: [u8; 6],
    /// Reserved, zero.
    pub reserved: [u8; 6],
    /// Name, padded with zero bytes.
    pub name: [u8; 16],
    /// Reserved, zero.
    pub reserved_to_end: [u8; 16],
}

/// Offset of a received frame in slot `slot`. Slots are a power of two apart. If all frames started
/// at the same offset, their headers would share a sixteenth of the sets of the first-level and
/// second-level caches.
pub const fn rx_offset(slot: u32) -> u32 {
    RX_OFFSET_BYTES + (slot & RX_PLACES_MASK) * 64
}

/// Byte offset of [`Header::takes_long`] in the header.
pub const TAKES_LONG_OFFSET_BYTES: u32 = std::mem::offset_of!(Header, takes_long) as u32;

/// Byte offset of [`Header::asleep`] in the header.
pub const ASLEEP_OFFSET_BYTES: u32 = std::mem::offset_of!(Header, asleep) as u32;

const _: () = {
    assert!(size_of::<Header>() == HEADER_WORDS as usize * 8);
    assert!(size_of::<InterfaceRow>() == INTERFACE_WORDS as usize * 8);
    assert!(ASLEEP_OFFSET_BYTES == 64 && TAKES_LONG_OFFSET_BYTES == 68);
    assert!(SEGMENT_OFFSET_BYTES == 56);
    assert!(size_of::<Metadata>() == SLOT_METADATA_BYTES as usize);
};

/// The requested shape of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Number of slots: a power of two, 2 to [`MAX_SLOTS`].
    pub slots: u32,
    /// [`SMALL_SLOT_BYTES`] or [`LARGE_SLOT_BYTES`].
    pub slot_bytes: u32,
    /// Number of interfaces, 1 to [`MAX_INTERFACES`].
    pub interfaces: u32,
}

/// The reason why a [`Geometry`] has no layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// The number of slots.
    #[error("a pool has a power of two of slots, 2 to {MAX_SLOTS}; found {0}")]
    Slots(u32),
    /// The slot size.
    #[error("a slot has {SMALL_SLOT_BYTES} or {LARGE_SLOT_BYTES} bytes; found {0}")]
    SlotBytes(u32),
    /// The number of interfaces.
    #[error("a router has 1 to {MAX_INTERFACES} interfaces; found {0}")]
    Interfaces(u32),
}

/// The layout of a pool with a given [`Geometry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The requested value.
    pub geometry: Geometry,
    /// See [`Header::fill`].
    pub fill: RingPlace,
    /// See [`Header::recycle`].
    pub recycle: RingPlace,
    /// See [`Header::done`].
    pub done: RingPlace,
    /// Substrate to itself: slots set aside for bursts. The header does not list this ring, because
    /// routers do not use it.
    pub spare: RingPlace,
    /// Router to substrate: long slots whose packet the router has dropped.
    pub long_fill: RingPlace,
    /// Substrate to itself: long slots whose packet has been sent.
    pub long_recycle: RingPlace,
    /// Number of long slots: a power of two, or none.
    pub long_slots: u32,
    /// First word of the first receive ring.
    first_interface_ring: u32,
    /// Number of words of each receive and transmit ring.
    interface_ring_words: u32,
}

/// Most entries of one receive or transmit ring: two million packets a second for a tick of 4 ms. A
/// scheduler may leave a router without its core for that long.
const MAX_INTERFACE_RING: u32 = 8192;

/// Number of packets that may always wait in a receive ring. More packets are a burst, or arrived
/// while the router had no core. If a router cannot keep up, more packets would only lengthen the
/// queue and displace slots from the cache. So receive programs let more packets wait only for a
/// short time, and not for a router that has just run out of room.
pub const RX_BACKLOG: u32 = 1024;

/// Number of long slots of a pool.
const fn long_slots(slots: u32) -> u32 {
    let share = slots / LONG_SHARE;
    if share < MIN_LONG_SLOTS { 0 } else { share }
}

impl Layout {
    /// Lays out a pool.
    ///
    /// # Errors
    /// The number of the geometry that is out of range.
    pub const fn new(geometry: Geometry) -> Result<Layout, GeometryError> {
        let Geometry { slots, slot_bytes, interfaces } = geometry;
        if slots < 2 || slots > MAX_SLOTS || !slots.is_power_of_two() {
            return Err(GeometryError::Slots(slots));
        }
        if slot_bytes != SMALL_SLOT_BYTES && slot_bytes != LARGE_SLOT_BYTES {
            return Err(GeometryError::SlotBytes(slot_bytes));
        }
        if interfaces == 0 || interfaces > MAX_INTERFACES {
            return Err(GeometryError::Interfaces(interfaces));
        }
        // Rings start on a cache line: eight words.
        let ring = if slots < 8 { 8 } else { slots };
        let first = HEADER_WORDS + INTERFACE_WORDS * interfaces;
        let fill = RingPlace { first_word: first, words: ring };
        let recycle = RingPlace { first_word: first + ring, words: ring };
        let done = RingPlace { first_word: first + 2 * ring, words: ring };
        let spare = RingPlace { first_word: first + 3 * ring, words: ring };
        let first_interface_ring = first + 4 * ring;
        let interface_ring_words =
            if ring < MAX_INTERFACE_RING { ring } else { MAX_INTERFACE_RING };
        let long_slots = long_slots(slots);
        let long_ring = if long_slots < 8 { 8 } else { long_slots };
        let long_first = first_interface_ring + 2 * interfaces * interface_ring_words;
        Ok(Layout {
            geometry,
            fill,
            recycle,
            done,
            spare,
            long_fill: RingPlace { first_word: long_first, words: long_ring },
            long_recycle: RingPlace { first_word: long_first + long_ring, words: long_ring },
            long_slots,
            first_interface_ring,
            interface_ring_words,
        })
    }

    /// Receive ring of interface `index`.
    pub const fn rx(&self, index: u32) -> RingPlace {
        RingPlace {
            first_word: self.first_interface_ring + 2 * index * self.interface_ring_words,
            words: self.interface_ring_words,
        }
    }

    /// Transmit ring of interface `index`.
    pub const fn tx(&self, index: u32) -> RingPlace {
        let rx = self.rx(index);
        RingPlace { first_word: rx.first_word + rx.words, words: rx.words }
    }

    /// Number of control words behind the slots.
    pub const fn control_words(&self) -> u32 {
        self.long_recycle.first_word + self.long_recycle.words
    }

    /// First element of the long slots, behind the control words.
    pub const fn long_first(&self) -> u32 {
        self.geometry.slots + (self.control_words() * 8).div_ceil(self.geometry.slot_bytes)
    }

    /// Number of elements of the BPF array map: slots, control words, long slots.
    pub const fn elements(&self) -> u32 {
        self.long_first() + self.long_slots * (LONG_SLOT_BYTES / self.geometry.slot_bytes)
    }

    /// Bytes of memory of the whole pool.
    pub const fn memory_bytes(&self) -> usize {
        self.elements() as usize * self.geometry.slot_bytes as usize
    }

    /// Longest frame the receive program can put into a slot, in bytes.
    pub const fn max_frame_bytes(&self) -> u32 {
        self.geometry.slot_bytes - rx_offset(RX_PLACES_MASK) - TAIL_BYTES
    }

    /// The header as the node writes it into a new pool.
    pub const fn header(&self) -> Header {
        Header {
            magic: ABI_MAGIC,
            version: ABI_VERSION,
            interfaces: self.geometry.interfaces as u16,
            slot_bytes: self.geometry.slot_bytes,
            slots: self.geometry.slots,
            fill: self.fill,
            recycle: self.recycle,
            done: self.done,
            reserved: [0; 6],
            asleep: 0,
            takes_long: 0,
            reserved_to_end: [0; 110],
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rings_neither_overlap_nor_leave_the_pool(
            slots in (1u32..=16).prop_map(|bits| 1 << bits),
            large: bool,
            interfaces in 1..=MAX_INTERFACES,
        ) {
            let slot_bytes = if large { LARGE_SLOT_BYTES } else { SMALL_SLOT_BYTES };
            let layout = Layout::new(Geometry { slots, slot_bytes, interfaces }).unwrap();
            let mut rings = vec![layout.fill, layout.recycle, layout.done, layout.spare];
            for index in 0..interfaces {
                rings.extend([layout.rx(index), layout.tx(index)]);
            }
            rings.extend([layout.long_fill, layout.long_recycle]);
            let mut end = HEADER_WORDS + interfaces * INTERFACE_WORDS;
            for ring in rings {
                prop_assert_eq!(ring.first_word, end);
                prop_assert_eq!(ring.first_word % 8, 0);
                prop_assert!(ring.words.is_power_of_two());
                end += ring.words;
            }
            prop_assert_eq!(end, layout.control_words());
            let bytes = slots as usize * slot_bytes as usize + end as usize * 8;
            let long_begin = layout.long_first() as usize * slot_bytes as usize;
            prop_assert!(bytes <= long_begin && long_begin - bytes < slot_bytes as usize);
            let long_bytes = layout.long_slots as usize * LONG_SLOT_BYTES as usize;
            prop_assert_eq!(long_begin + long_bytes, layout.memory_bytes());
            prop_assert!(layout.long_slots == 0 || layout.long_slots == layout.long_fill.words);
            prop_assert!(layout.long_slots <= MAX_LONG_SLOTS);
        }
    }

    #[test]
    fn bad_geometries_are_named() {
        let good = Geometry { slots: 256, slot_bytes: 2048, interfaces: 2 };
        for (bad, error) in [
            (Geometry { slots: 0, ..good }, GeometryError::Slots(0)),
            (Geometry { slots: 255, ..good }, GeometryError::Slots(255)),
            (Geometry { slots: MAX_SLOTS * 2, ..good }, GeometryError::Slots(MAX_SLOTS * 2)),
            (Geometry { slot_bytes: 4096, ..good }, GeometryError::SlotBytes(4096)),
            (Geometry { interfaces: 0, ..good }, GeometryError::Interfaces(0)),
            (Geometry { interfaces: 65, ..good }, GeometryError::Interfaces(65)),
        ] {
            assert_eq!(Layout::new(bad), Err(error));
        }
    }
}
