//! A rule's action on a packet, in 8 bytes.

use europa_pool::layout::RESULT_BYTES;

/// No interface.
pub const NOWHERE: u16 = u16::MAX;

/// The result for a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Verdict {
    /// It continues unchanged.
    #[default]
    Pass,
    /// Nowhere.
    Drop,
    /// Out by the interface `to`.
    Send,
    /// It is given to the router's own Linux.
    SlowPath,
    /// It is returned to its sender, by the interface to which it was sent.
    Back,
}

/// A rule's action on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    /// The packet's destination.
    pub verdict: Verdict,
    /// [`DSCP`] with a value, [`CONGESTION`]; 0 changes nothing.
    pub mark: u8,
    /// Number of the slice's queue; 0: the queue that its router has named.
    pub queue: u16,
    /// Number of the interface, from the node; or [`NOWHERE`].
    pub to: u16,
    /// Number of the interface that gets a copy; or [`NOWHERE`].
    pub mirror: u16,
}

/// The action of a rule that was found by a router's own key, and its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// Its action.
    pub action: Action,
    /// The data that is passed with the packet to the next router.
    pub result: [u8; RESULT_BYTES],
}

/// In a mark: the lower six bits are the new code point.
pub const DSCP: u8 = 0x80;
/// In a mark: congestion experienced, if the packet's ends understand it.
pub const CONGESTION: u8 = 0x40;

impl Default for Action {
    fn default() -> Self {
        Self { verdict: Verdict::Pass, mark: 0, queue: 0, to: NOWHERE, mirror: NOWHERE }
    }
}

impl Action {
    /// Both actions; the slice's rules for all packets have precedence over those for the router's
    /// own keys.
    pub(super) fn before(self, own: Self) -> Self {
        let (verdict, to) = match self.verdict {
            Verdict::Pass => (own.verdict, own.to),
            verdict => (verdict, self.to),
        };
        let own_mark = if self.mark & DSCP != 0 { own.mark & CONGESTION } else { own.mark };
        Self {
            verdict,
            mark: self.mark | own_mark,
            queue: if self.queue != 0 { self.queue } else { own.queue },
            to,
            mirror: if self.mirror != NOWHERE { self.mirror } else { own.mirror },
        }
    }

    /// In one word.
    pub(crate) fn bits(self) -> u64 {
        self.verdict as u64
            | u64::from(self.mark) << 8
            | u64::from(self.queue) << 16
            | u64::from(self.to) << 32
            | u64::from(self.mirror) << 48
    }

    /// From one word.
    pub(crate) fn from_bits(bits: u64) -> Self {
        let verdict = match bits as u8 {
            0 => Verdict::Pass,
            2 => Verdict::Send,
            3 => Verdict::SlowPath,
            4 => Verdict::Back,
            _ => Verdict::Drop,
        };
        Self {
            verdict,
            mark: (bits >> 8) as u8,
            queue: (bits >> 16) as u16,
            to: (bits >> 32) as u16,
            mirror: (bits >> 48) as u16,
        }
    }
}

/// The result of a table, as words.
pub(super) trait Outcome: Copy + PartialEq {
    /// How many.
    const WORDS: usize;
    /// Adds them.
    fn put(self, to: &mut Vec<u8>);
    /// Takes them.
    fn take(words: &mut impl Iterator<Item = u64>) -> Option<Self>;
}

impl Outcome for Action {
    const WORDS: usize = 1;

    fn put(self, to: &mut Vec<u8>) {
        to.extend(self.bits().to_le_bytes());
    }

    fn take(words: &mut impl Iterator<Item = u64>) -> Option<Self> {
        words.next().map(Self::from_bits)
    }
}

impl Outcome for Reply {
    const WORDS: usize = 1 + RESULT_BYTES / 8;

    fn put(self, to: &mut Vec<u8>) {
        self.action.put(to);
        to.extend(self.result);
    }

    fn take(words: &mut impl Iterator<Item = u64>) -> Option<Self> {
        let action = Action::take(words)?;
        let mut result = [0; RESULT_BYTES];
        for part in result.chunks_exact_mut(8) {
            part.copy_from_slice(&words.next()?.to_le_bytes());
        }
        Some(Self { action, result })
    }
}
