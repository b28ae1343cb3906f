//! The sending end of a link: it numbers packets, and splits frames.

use crate::header::{Header, Key};
use crate::split::Split;

/// The sending end.
#[derive(Clone, Copy, Debug)]
pub struct Sender {
    /// The header of the next packet.
    next: Header,
    /// Longest UDP payload that the underlay carries.
    most_bytes: usize,
}

/// A frame that has its packet numbers.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    header: Header,
    split: Split,
}

impl Sender {
    /// Makes a sender that begins a session. `header` has the link's number, key and epoch and the
    /// session; the longest UDP payload is `most_bytes`.
    pub fn new(header: Header, most_bytes: usize) -> Self {
        Self { next: Header { part: None, ..header }, most_bytes }
    }

    /// Changes number, key and epoch from the next frame on. The session and its sequence continue.
    pub fn change(&mut self, id: u32, key: Key, epoch: u64) {
        self.next = Header { id, key, epoch, ..self.next };
    }

    /// Sets the longest UDP payload from the next frame on.
    pub fn set_most_bytes(&mut self, most_bytes: usize) {
        self.most_bytes = most_bytes;
    }

    /// The longest UDP payload.
    pub fn most_bytes(&self) -> usize {
        self.most_bytes
    }

    /// The epoch that the sender writes into packets.
    pub fn epoch(&self) -> u64 {
        self.next.epoch
    }

    /// Number of packets that a frame needs; `None` if the sender cannot send it.
    pub fn packets(&self, frame_bytes: usize) -> Option<u8> {
        Split::of(frame_bytes, self.most_bytes).map(|split| split.count)
    }

    /// Takes the packet numbers for a frame; `None` if the sender cannot send it.
    pub fn send(&mut self, frame_bytes: usize) -> Option<Sent> {
        let split = Split::of(frame_bytes, self.most_bytes)?;
        let header = self.next;
        self.next.sequence = header.sequence.wrapping_add(split.count.into());
        Some(Sent { header, split })
    }
}

impl Sent {
    /// The packets of the frame: the header of each, and the range of the frame in it.
    pub fn packets(self) -> impl Iterator<Item = (Header, std::ops::Range<usize>)> {
        let Sent { header, split } = self;
        (0..split.count).map(move |index| {
            let sequence = header.sequence.wrapping_add(index.into());
            (Header { sequence, part: split.part(index), ..header }, split.range(index))
        })
    }
}
