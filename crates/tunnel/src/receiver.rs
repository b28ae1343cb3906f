//! The receiving end of a link. It compares key and epoch of a packet before anything else.

use serde::{Deserialize, Serialize};

use crate::header::{Header, Key};
use crate::reassembly::{Reassembled, Reassembly};
use crate::sequence::{Numbers, Order};

/// Bytes of an Ethernet header, the shortest frame.
const LEAST_FRAME_BYTES: usize = 14;

/// Why a packet is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The packet has another key than the link.
    Key,
    /// The packet has a lower epoch than the document or than an earlier packet.
    Epoch,
    /// A packet with this number has arrived before, or the packet is too late.
    Twice,
    /// The part contradicts another part, or no sender makes such a part.
    Part,
    /// The frame has no Ethernet header, or is longer than the link allows.
    Length,
}

/// The result for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// A frame.
    Frame(&'a [u8]),
    /// A part of a frame that is not complete yet.
    Part,
    /// No frame: the packet is dropped and counted.
    Dropped(Cause),
}

/// Counters of a receiving end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reception {
    /// Packets with the right key and epoch.
    pub packets: u64,
    /// Frames that are complete.
    pub frames: u64,
    /// Bytes of the complete frames.
    pub bytes: u64,
    /// Sequence numbers that have not arrived.
    pub lost: u64,
    /// Packets that arrived after later ones.
    pub reordered: u64,
    /// Packets with another key.
    pub wrong_key: u64,
    /// Packets of a lower epoch.
    pub lower_epoch: u64,
    /// Packets that arrived twice, or too late.
    pub twice: u64,
    /// Parts that no sender makes.
    pub wrong_part: u64,
    /// Frames without an Ethernet header, or longer than the link allows.
    pub wrong_length: u64,
    /// Frames that were dropped because some of their parts did not arrive.
    pub unfinished: u64,
}

/// The receiving end.
#[derive(Debug)]
pub struct Receiver {
    key: Key,
    epoch: u64,
    session: Option<u32>,
    numbers: Numbers,
    reassembly: Reassembly,
    most_frame_bytes: usize,
    counted: Reception,
}

impl Receiver {
    /// Makes a receiver that accepts this key, this epoch or a higher one, and frames of up to
    /// `most_frame_bytes`.
    pub fn new(key: Key, epoch: u64, most_frame_bytes: usize) -> Self {
        Self {
            key,
            epoch,
            session: None,
            numbers: Numbers::default(),
            reassembly: Reassembly::new(most_frame_bytes),
            most_frame_bytes,
            counted: Reception::default(),
        }
    }

    /// Changes key and epoch. Another key belongs to another sender, whose epochs are independent
    /// of the former sender's.
    pub fn change(&mut self, key: Key, epoch: u64) {
        if key == self.key {
            self.epoch = self.epoch.max(epoch);
        } else {
            (self.key, self.epoch, self.session) = (key, epoch, None);
        }
    }

    /// The counters of this end.
    pub fn counted(&self) -> Reception {
        let Numbers { lost, reordered, .. } = self.numbers;
        Reception { lost, reordered, unfinished: self.reassembly.unfinished, ..self.counted }
    }

    /// Drops unfinished frames that have waited too long for their parts.
    pub fn expire(&mut self, now_ns: u64) {
        self.reassembly.expire(now_ns);
    }

    /// Processes a packet, given its header and the bytes behind the header.
    pub fn receive<'a>(
        &'a mut self,
        now_ns: u64,
        header: &Header,
        payload: &'a [u8],
    ) -> Received<'a> {
        if header.key != self.key {
            self.counted.wrong_key += 1;
            return Received::Dropped(Cause::Key);
        }
        if header.epoch < self.epoch {
            self.counted.lower_epoch += 1;
            return Received::Dropped(Cause::Epoch);
        }
        if header.epoch > self.epoch || self.session != Some(header.session) {
            // The key is right, so the higher epoch counts. Another session means another sending
            // process.
            self.epoch = header.epoch;
            self.session = Some(header.session);
            self.numbers.restart();
        }
        if self.numbers.note(header.sequence) == Order::Twice {
            self.counted.twice += 1;
            return Received::Dropped(Cause::Twice);
        }
        self.counted.packets += 1;
        let name = (header.session, header.sequence);
        let frame = match header.part {
            None => payload,
            Some(part) => match self.reassembly.add(now_ns, name, part, payload) {
                Reassembled::Frame(frame) => frame,
                Reassembled::Waiting => return Received::Part,
                Reassembled::TooLong => return wrong_length(&mut self.counted),
                Reassembled::Contradiction => {
                    self.counted.wrong_part += 1;
                    return Received::Dropped(Cause::Part);
                }
            },
        };
        if !(LEAST_FRAME_BYTES..=self.most_frame_bytes).contains(&frame.len()) {
            return wrong_length(&mut self.counted);
        }
        self.counted.frames += 1;
        self.counted.bytes += frame.len() as u64;
        Received::Frame(frame)
    }
}

fn wrong_length<'a>(counted: &mut Reception) -> Received<'a> {
    counted.wrong_length += 1;
    Received::Dropped(Cause::Length)
}
