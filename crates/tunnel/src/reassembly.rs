//! Reassembles frames from their parts. The memory is allocated once: a peer may have at most 16
//! unfinished frames at a time, each for one second.

use crate::header::Part;
use crate::split::Split;

/// Most unfinished frames of one peer. If there are more, the oldest is dropped.
pub const WAITING_FRAMES: usize = 16;
/// Time for which an unfinished frame waits for its parts, in nanoseconds.
pub const PATIENCE_NS: u64 = 1_000_000_000;

/// Identifies a split frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FrameId {
    session: u32,
    /// Number of the packet that carries the first part.
    first: u32,
}

#[derive(Clone, Copy, Debug)]
struct Unfinished {
    id: FrameId,
    split: Split,
    /// Received parts, one bit for each.
    come: u64,
    since_ns: u64,
}

/// The unfinished frames of one peer.
#[derive(Debug)]
pub struct Reassembly {
    frames: [Option<Unfinished>; WAITING_FRAMES],
    memory: Box<[u8]>,
    most_frame_bytes: usize,
    /// Dropped frames: some of their parts did not arrive in time, or there were too many
    /// unfinished frames.
    pub unfinished: u64,
}

/// The result for a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reassembled<'a> {
    /// The frame is complete.
    Frame(&'a [u8]),
    /// Other parts of the frame have not arrived yet.
    Waiting,
    /// The part contradicts another part of its frame, or no sender makes such a part.
    Contradiction,
    /// The frame is longer than the link allows.
    TooLong,
}

impl Reassembly {
    /// Allocates memory for frames of up to `most_frame_bytes`.
    pub fn new(most_frame_bytes: usize) -> Self {
        let memory = vec![0; most_frame_bytes * WAITING_FRAMES].into();
        Self { frames: [None; WAITING_FRAMES], memory, most_frame_bytes, unfinished: 0 }
    }

    /// Drops frames that have waited for longer than [`PATIENCE_NS`].
    pub fn expire(&mut self, now_ns: u64) {
        for frame in &mut self.frames {
            if frame.is_some_and(|frame| now_ns.saturating_sub(frame.since_ns) >= PATIENCE_NS) {
                *frame = None;
                self.unfinished += 1;
            }
        }
    }

    /// Adds a part that arrived in the packet with this number.
    pub fn add(
        &mut self,
        now_ns: u64,
        (session, sequence): (u32, u32),
        part: Part,
        bytes: &[u8],
    ) -> Reassembled<'_> {
        let Some(split) = Split::of_part(part) else { return Reassembled::Contradiction };
        let range = split.range(part.index);
        if range.len() != bytes.len() {
            return Reassembled::Contradiction;
        }
        if usize::from(split.frame_bytes) > self.most_frame_bytes {
            return Reassembled::TooLong;
        }
        self.expire(now_ns);
        let id = FrameId { session, first: sequence.wrapping_sub(part.index.into()) };
        let place = self.place(id).unwrap_or_else(|| self.begin(now_ns, id, split));
        let start = place * self.most_frame_bytes;
        let (Some(Some(frame)), Some(memory)) =
            (self.frames.get_mut(place), self.memory.get_mut(start..start + self.most_frame_bytes))
        else {
            return Reassembled::Contradiction;
        };
        if frame.split != split {
            return Reassembled::Contradiction;
        }
        if let Some(to) = memory.get_mut(range) {
            to.copy_from_slice(bytes);
        }
        frame.come |= 1 << part.index;
        if frame.come.count_ones() < split.count.into() {
            return Reassembled::Waiting;
        }
        self.frames[place] = None;
        Reassembled::Frame(memory.get(..split.frame_bytes.into()).unwrap_or_default())
    }

    fn place(&self, id: FrameId) -> Option<usize> {
        self.frames.iter().position(|frame| frame.is_some_and(|frame| frame.id == id))
    }

    /// Begins a frame, replacing the oldest one if there is no room.
    fn begin(&mut self, now_ns: u64, id: FrameId, split: Split) -> usize {
        let age = |place: &usize| self.frames[*place].map_or(0, |frame| frame.since_ns + 1);
        let place = (0..WAITING_FRAMES).min_by_key(age).unwrap_or(0);
        self.unfinished += u64::from(self.frames[place].is_some());
        self.frames[place] = Some(Unfinished { id, split, come: 0, since_ns: now_ns });
        place
    }
}
