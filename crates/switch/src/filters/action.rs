//! What a rule does with a packet, in 8 bytes.

/// No interface.
pub const NOWHERE: u16 = u16::MAX;

/// Where a packet goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Verdict {
    /// Where it would have gone.
    #[default]
    Pass,
    /// Nowhere.
    Drop,
    /// Out by the interface `to`.
    Send,
    /// To the router's own Linux.
    SlowPath,
}

/// What a rule does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    /// Where it goes.
    pub verdict: Verdict,
    /// [`DSCP`] with a code point, [`CONGESTION`]; 0: stays as it is.
    pub mark: u8,
    /// Number of the slice's queue that it waits in; 0: the one that its router has said.
    pub queue: u16,
    /// Number of the interface, as the node has told it; or [`NOWHERE`].
    pub to: u16,
    /// Number of the interface that gets a copy; or [`NOWHERE`].
    pub mirror: u16,
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
