//! One ring entry: a 64-bit word with all data about a packet.
//!
//! | bits  | field     | meaning                                             |
//! |-------|-----------|-----------------------------------------------------|
//! | 0-15  | length    | bytes of the frame                                  |
//! | 16-25 | offset    | where the frame starts in its slot, in bytes        |
//! | 26-45 | slot      | index of the slot in its pool; with bit 19, of a long slot |
//! | 46-53 | interface | the router's own number of the interface (receive)  |
//! | 54-62 | flags     | [`Word::COPY`], [`Word::RETURN`], [`Word::RESULT`] (receive); [`Word::KEY`], [`Word::RETURN`] (transmit) |
//! | 46-53, 56-62 | queue | number of the slice's queue, low and high bits; 0 for the interface's own (transmit) |
//! | 63    | valid     | the entry is occupied; an empty entry is zero       |
//!
//! State and contents share one word. So checking whether an entry is occupied and taking its
//! contents touch the same cache line, and one atomic store passes both on.

/// A descriptor in the form in which a ring contains it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Word(u64);

impl Word {
    /// Bit position of the frame's offset.
    pub const OFFSET_SHIFT: u32 = 16;
    /// Bit position of the slot index.
    pub const SLOT_SHIFT: u32 = 26;
    /// Bit position of the interface number.
    pub const INTERFACE_SHIFT: u32 = 46;
    /// Bit position of the flags.
    pub const FLAGS_SHIFT: u32 = 54;
    /// Largest length a word can carry, in bytes.
    pub const LENGTH_MASK: u64 = 0xffff;
    /// Largest offset a word can carry, in bytes.
    pub const OFFSET_MASK: u64 = 0x3ff;
    /// Largest slot index a word can carry.
    pub const SLOT_MASK: u64 = 0xf_ffff;
    /// Largest interface number a word can carry.
    pub const INTERFACE_MASK: u64 = 0xff;
    /// All flag bits.
    pub const FLAGS_MASK: u64 = 0x1ff;
    /// Set in every occupied entry.
    pub const VALID: u64 = 1 << 63;
    /// Receive: this frame was copied to several interfaces (broadcast, multicast).
    pub const COPY: u64 = 1;
    /// Transmit: return the slot to its router (`done` ring), not directly to reception (`recycle`
    /// ring).
    pub const RETURN: u64 = 2;
    /// Transmit: the slot's metadata has a key to look up in the slice's rules.
    pub const KEY: u64 = 1;
    /// Receive: the slot's metadata has the result of the rule that matched a key. With
    /// [`Word::RETURN`], the router sent the slot with a key, and gets it back now.
    pub const RESULT: u64 = 4;

    /// A free slot, in the form of the fill, recycle and done rings.
    #[inline]
    pub const fn free(slot: u32) -> Word {
        Word(Self::VALID | ((slot as u64 & Self::SLOT_MASK) << Self::SLOT_SHIFT))
    }

    /// A frame of `length` bytes at `offset` in `slot`. Values that are too large are truncated to
    /// their field.
    #[inline]
    pub const fn frame(slot: u32, offset: u16, length: u16, flags: u64) -> Word {
        Word(
            Self::free(slot).0
                | length as u64
                | ((offset as u64 & Self::OFFSET_MASK) << Self::OFFSET_SHIFT)
                | ((flags & Self::FLAGS_MASK) << Self::FLAGS_SHIFT),
        )
    }

    /// The same word for interface number `interface`.
    #[must_use]
    #[inline]
    pub const fn on(self, interface: u8) -> Word {
        Word(
            self.0 & !(Self::INTERFACE_MASK << Self::INTERFACE_SHIFT)
                | (interface as u64) << Self::INTERFACE_SHIFT,
        )
    }

    /// Highest number of a queue that a word can name.
    pub const QUEUE_MAX: u16 = 0x7fff;
    /// Bit position of the high bits of a queue's number. The low bits are in the place where
    /// received words have the interface.
    pub const QUEUE_HIGH_SHIFT: u32 = 56;

    /// The same word for a queue of the slice's, up to [`Word::QUEUE_MAX`].
    #[must_use]
    #[inline]
    pub const fn to_queue(self, queue: u16) -> Word {
        let high = (queue & Self::QUEUE_MAX) as u64 >> 8;
        let word = self.on(queue as u8);
        Word(word.0 & !(0x7f << Self::QUEUE_HIGH_SHIFT) | high << Self::QUEUE_HIGH_SHIFT)
    }

    /// Number of the slice's queue, in a word to be sent.
    #[inline]
    pub const fn queue(self) -> u16 {
        let high = (self.0 >> Self::QUEUE_HIGH_SHIFT) & 0x7f;
        (high as u16) << 8 | self.interface() as u16
    }

    /// Reads a ring entry; `None` if it is empty.
    #[inline]
    pub const fn from_bits(bits: u64) -> Option<Word> {
        if bits & Self::VALID != 0 { Some(Word(bits)) } else { None }
    }

    /// The entry as stored.
    #[inline]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Slot index, 20 bits, not yet bounded by any pool's size.
    #[inline]
    pub const fn slot(self) -> u32 {
        ((self.0 >> Self::SLOT_SHIFT) & Self::SLOT_MASK) as u32
    }

    /// Offset of the frame in its slot, in bytes.
    #[inline]
    pub const fn offset(self) -> u16 {
        ((self.0 >> Self::OFFSET_SHIFT) & Self::OFFSET_MASK) as u16
    }

    /// Whether it names a long slot, in a pool with long slots.
    #[inline]
    pub const fn is_long(self) -> bool {
        self.slot() & crate::layout::LONG_SLOT != 0
    }

    /// Length of the frame, in bytes.
    #[inline]
    pub const fn length(self) -> u16 {
        (self.0 & Self::LENGTH_MASK) as u16
    }

    /// The router's own number for the interface.
    #[inline]
    pub const fn interface(self) -> u8 {
        ((self.0 >> Self::INTERFACE_SHIFT) & Self::INTERFACE_MASK) as u8
    }

    /// Flag bits. In a word to be sent, only [`Word::KEY`] and [`Word::RETURN`] are flags; the
    /// other bits belong to the queue.
    #[inline]
    pub const fn flags(self) -> u64 {
        (self.0 >> Self::FLAGS_SHIFT) & Self::FLAGS_MASK
    }
}

impl std::fmt::Debug for Word {
    #[inline]
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "slot {} offset {} length {} interface {} flags {:#x}",
            self.slot(),
            self.offset(),
            self.length(),
            self.interface(),
            self.flags()
        )
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fields_do_not_overlap(slot in 0u32..1 << 20, offset in 0u16..1 << 10,
                                 length: u16, interface: u8, flags in 0u64..1 << 9) {
            let word = Word::frame(slot, offset, length, flags).on(interface);
            prop_assert_eq!(
                (word.slot(), word.offset(), word.length(), word.interface(), word.flags()),
                (slot, offset, length, interface, flags)
            );
            prop_assert_eq!(Word::from_bits(word.bits()), Some(word));
        }

        #[test]
        fn a_queue_leaves_the_rest(slot in 0u32..1 << 20, offset in 0u16..1 << 10, length: u16,
                                   queue in 0..=Word::QUEUE_MAX, other in 0..=Word::QUEUE_MAX) {
            let word = Word::frame(slot, offset, length, Word::RETURN).to_queue(other).to_queue(queue);
            prop_assert_eq!((word.slot(), word.offset(), word.length()), (slot, offset, length));
            prop_assert_eq!((word.queue(), word.flags() & Word::RETURN), (queue, Word::RETURN));
            prop_assert_eq!(Word::from_bits(word.bits()), Some(word));
        }
    }

    #[test]
    fn an_empty_entry_is_no_word() {
        assert_eq!(Word::from_bits(0), None);
        assert_eq!(Word::from_bits(!Word::VALID), None);
        assert!(Word::from_bits(Word::free(0).bits()).is_some());
    }
}
