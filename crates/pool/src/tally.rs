//! Counts of the packets that an arena makes, copies and frees.

/// Numbers of packets that an arena has made, copied and freed, and of those that exist now.
/// [`Endpoint`](crate::Endpoint) counts packets from and to the other side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// New packets.
    pub made: u64,
    /// Copies of packets.
    pub copied: u64,
    /// Packets that were dropped: their buffers are free again.
    pub freed: u64,
    /// Packets that exist now.
    pub held: u64,
}
