//! Messages between bridges (IEEE 802.1D section 9), as Click sends them.

use std::cmp::Ordering;

use crate::shared::fields::{be16, be32, bytes, set};

/// Bytes of a message with its Ethernet header.
pub(super) const BYTES: usize = 60;
/// All bridges.
const GROUP: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0];
/// Type of a message that only announces a change.
const CHANGE: u8 = 128;
/// Times in a message are counted in this part of a second.
const PARTS: u64 = 256;
const SECOND_NS: u64 = 1_000_000_000;

/// A bridge's announcement about the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) root: u64,
    pub(super) cost: u32,
    pub(super) bridge: u64,
    pub(super) port: u16,
    pub(super) change: bool,
    /// Time of its creation; `None` if it does not expire.
    pub(super) made_ns: Option<u64>,
    /// Seconds for which a message is valid, between two messages, and before a port forwards.
    pub(super) max_age: u16,
    pub(super) hello: u16,
    pub(super) delay: u16,
}

impl Message {
    /// The message of a bridge without a neighbour.
    pub(super) fn own(bridge: u64) -> Message {
        Message {
            root: bridge,
            cost: 0,
            bridge,
            port: 0,
            change: false,
            made_ns: None,
            max_age: 20,
            hello: 2,
            delay: 15,
        }
    }

    /// Worse than any other.
    pub(super) fn worst() -> Message {
        Message { cost: u32::from(u16::MAX), port: u16::MAX, ..Message::own(u64::MAX) }
    }

    /// Compares two messages: the better one is greater.
    pub(super) fn rank(&self, other: &Message) -> Ordering {
        let key = |message: &Message| (message.root, message.cost, message.bridge, message.port);
        key(other).cmp(&key(self))
    }

    /// The message as another bridge receives it if it is sent by this port.
    pub(super) fn sent_by(self, bridge: u64, port: u16) -> Message {
        Message { bridge, port, ..self }
    }

    /// Reads a frame.
    pub(super) fn read(frame: &[u8], now_ns: u64) -> Option<Message> {
        let number = |at| bytes::<8>(frame, at).map(u64::from_be_bytes);
        let flags = *frame.get(21)?;
        let age = u64::from(be16(frame, 44)?) * SECOND_NS / PARTS;
        let seconds = |at| be16(frame, at).map(|time| time / PARTS as u16);
        Some(Message {
            root: number(22)?,
            cost: be32(frame, 30)?,
            bridge: number(34)?,
            port: be16(frame, 42)?,
            change: flags & 1 != 0,
            made_ns: Some(now_ns.saturating_sub(age)),
            max_age: seconds(46)?,
            hello: seconds(48)?,
            delay: seconds(50)?,
        })
    }

    /// Whether a frame only announces a change.
    pub(super) fn is_change(frame: &[u8]) -> bool {
        frame.get(20) == Some(&CHANGE)
    }

    /// The frame of this message.
    pub(super) fn frame(&self, source: [u8; 6], acknowledges: bool, now_ns: u64) -> [u8; BYTES] {
        let mut frame = [0; BYTES];
        set(&mut frame, 0, GROUP);
        set(&mut frame, 6, source);
        set(&mut frame, 12, [0, 38, 0x42, 0x42, 3]);
        set(&mut frame, 21, [u8::from(self.change) | if acknowledges { 0x80 } else { 0 }]);
        set(&mut frame, 22, self.root.to_be_bytes());
        set(&mut frame, 30, self.cost.to_be_bytes());
        set(&mut frame, 34, self.bridge.to_be_bytes());
        set(&mut frame, 42, self.port.to_be_bytes());
        let age_ns = self.made_ns.map_or(0, |made_ns| now_ns.saturating_sub(made_ns));
        let age = u16::try_from(age_ns.saturating_mul(PARTS) / SECOND_NS).unwrap_or(u16::MAX);
        set(&mut frame, 44, age.to_be_bytes());
        for (at, seconds) in [(46, self.max_age), (48, self.hello), (50, self.delay)] {
            set(&mut frame, at, seconds.saturating_mul(PARTS as u16).to_be_bytes());
        }
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let message = Message { cost: 7, port: 3, change: true, ..Message::own(0x8000_0203) };
        let message = Message { made_ns: Some(2 * SECOND_NS), ..message };
        let frame = message.frame([1, 2, 3, 4, 5, 6], true, 5 * SECOND_NS);
        assert_eq!(frame[12..22], [0, 38, 0x42, 0x42, 3, 0, 0, 0, 0, 0x81]);
        assert_eq!(Message::read(&frame, 5 * SECOND_NS), Some(message));
        assert!(!Message::is_change(&frame));
        assert_eq!(Message::read(&frame[..40], 0), None);
    }

    #[test]
    fn the_lower_root_is_better() {
        let (low, high) = (Message::own(1), Message::own(2));
        assert_eq!(low.rank(&high), Ordering::Greater);
        assert_eq!(high.rank(&Message::worst()), Ordering::Greater);
        assert_eq!(low.sent_by(1, 4).rank(&low), Ordering::Less);
    }
}
