//! The header of a packet: Geneve (RFC 8926 section 3.4) and two options of Europa's.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! |Ver|  Opt Len  |O|C|    Rsvd.  |    Protocol 0x6558 (Ethernet) |
//! |        Virtual Network Identifier: the link   |    Reserved   |
//! |    Option class 0xff45        |   Type 0x81   |R|R|R|    6    |  identity, always the first
//! |                              key, 64 bits                     |
//! |                             epoch, 64 bits                    |
//! |                      session of the sender                    |
//! |                  sequence number in the session               |
//! |    Option class 0xff45        |   Type 0x82   |R|R|R|    1    |  part, of a split frame
//! |     index     |     count     |  bytes of the whole frame     |
//! ```
//!
//! The class is one of those for experiments (RFC 8926 section 7). Both types have the critical bit
//! set: a receiver that does not know them drops the packet.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Bytes of a header without a part option: the Geneve header and the identity option.
pub const HEADER_BYTES: usize = 8 + 4 + IDENTITY_BYTES;
/// Bytes that the part option adds.
pub const PART_BYTES: usize = 4 + 4;
/// Bytes of the longest header that this crate writes.
pub const MOST_HEADER_BYTES: usize = HEADER_BYTES + PART_BYTES;

const IDENTITY_BYTES: usize = 24;
const CLASS: u16 = 0xff45;
const IDENTITY: u8 = 0x81;
const PART: u8 = 0x82;
const CRITICAL: u8 = 0x80;
/// Trans Ether Bridging (RFC 8926 section 3.4).
const ETHERNET: u16 = 0x6558;
/// The flag of control packets, and the flag of critical options.
const FLAG_CONTROL: u8 = 0x80;
const FLAG_CRITICAL: u8 = 0x40;

/// A key of one direction of a link. `Debug` hides it.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key(pub u64);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// A part of a split frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The part's index, from 0.
    pub index: u8,
    /// Number of parts of the frame: at least 2.
    pub count: u8,
    /// Bytes of the whole frame.
    pub frame_bytes: u16,
}

/// The header fields of a packet. A frame or a part of a frame follows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The link's number, 24 bits.
    pub id: u32,
    /// The key of this direction of the link.
    pub key: Key,
    /// The epoch of the sender.
    pub epoch: u64,
    /// A number that the sender draws when it starts. A new session begins a new sequence.
    pub session: u32,
    /// The packet's number in the session. 0 follows the largest number.
    pub sequence: u32,
    /// The part that follows the header; `None` if a whole frame follows.
    pub part: Option<Part>,
}

/// The reason why bytes are not a packet of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The packet ends within its header.
    #[error("it ends within its header, after {0} bytes")]
    Truncated(usize),
    /// The version is not 0.
    #[error("version {0} of Geneve, not 0")]
    Version(u8),
    /// The flags mark a control packet, or no critical option.
    #[error("flags {0:#04x}, not those of a frame with a critical option")]
    Flags(u8),
    /// The type of the payload is not Ethernet.
    #[error("protocol {0:#06x}, not Ethernet")]
    Protocol(u16),
    /// The first option is not the identity.
    #[error("the first option is of class {class:#06x} and type {kind:#04x}, not the identity")]
    NoIdentity {
        /// The class of the option.
        class: u16,
        /// The type of the option.
        kind: u8,
    },
    /// An option of Europa's has a wrong length.
    #[error("option {kind:#04x} of {bytes} bytes")]
    Length {
        /// The type of the option.
        kind: u8,
        /// The length of the option in bytes.
        bytes: usize,
    },
    /// A critical option is unknown here, or repeated.
    #[error("an unknown critical option, of class {class:#06x} and type {kind:#04x}")]
    Critical {
        /// The class of the option.
        class: u16,
        /// The type of the option.
        kind: u8,
    },
}

impl Header {
    /// The length of the header in bytes.
    pub fn bytes(&self) -> usize {
        if self.part.is_some() { MOST_HEADER_BYTES } else { HEADER_BYTES }
    }

    /// Writes the header to the beginning of `to`. Returns the length of the header; `None` if `to`
    /// has no room. The header has only the lower 24 bits of `id`.
    pub fn write(&self, to: &mut [u8]) -> Option<usize> {
        let length = self.bytes();
        let to = to.get_mut(..length)?;
        let option_words = (length - 8) / 4;
        let [_, id @ ..] = self.id.to_be_bytes();
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            if let Some(place) = to.get_mut(at..at + bytes.len()) {
                place.copy_from_slice(bytes);
            }
            at += bytes.len();
        };
        put(&[option_words as u8, FLAG_CRITICAL]);
        put(&ETHERNET.to_be_bytes());
        put(&id);
        put(&[0]);
        put(&CLASS.to_be_bytes());
        put(&[IDENTITY, (IDENTITY_BYTES / 4) as u8]);
        put(&self.key.0.to_be_bytes());
        put(&self.epoch.to_be_bytes());
        put(&self.session.to_be_bytes());
        put(&self.sequence.to_be_bytes());
        if let Some(Part { index, count, frame_bytes }) = self.part {
            put(&CLASS.to_be_bytes());
            put(&[PART, 1, index, count]);
            put(&frame_bytes.to_be_bytes());
        }
        Some(length)
    }

    /// Reads the header of a UDP payload. Returns the header, and the frame or the part of a frame.
    ///
    /// # Errors
    /// The bytes are not a packet of a link. The function does not check the key.
    pub fn read(packet: &[u8]) -> Result<(Header, &[u8]), Malformed> {
        let cut = Malformed::Truncated(packet.len());
        let ([first, flags, protocol @ .., _], options) = packet
            .split_first_chunk::<5>()
            .map_or(Err(cut), |(head, _)| packet.get(8..).map(|rest| (*head, rest)).ok_or(cut))?;
        let (version, length) = (first >> 6, usize::from(first & 0x3f) * 4);
        if version != 0 {
            return Err(Malformed::Version(version));
        }
        if flags & (FLAG_CONTROL | FLAG_CRITICAL) != FLAG_CRITICAL {
            return Err(Malformed::Flags(flags));
        }
        let protocol = u16::from_be_bytes(protocol);
        if protocol != ETHERNET {
            return Err(Malformed::Protocol(protocol));
        }
        let id =
            packet.get(4..7).map_or(0, |id| id.iter().fold(0, |id, b| id << 8 | u32::from(*b)));
        let (options, payload) = options.split_at_checked(length).ok_or(cut)?;
        let (class, kind, data, mut rest) = option(options).ok_or(cut)?;
        if (class, kind) != (CLASS, IDENTITY) {
            return Err(Malformed::NoIdentity { class, kind });
        }
        let wrong = Malformed::Length { kind, bytes: data.len() };
        if data.len() != IDENTITY_BYTES {
            return Err(wrong);
        }
        let number = |at: usize| data.get(at..at + 8).and_then(|of| of.try_into().ok());
        let number = |at| number(at).map(u64::from_be_bytes).ok_or(wrong);
        let (key, epoch, last) = (number(0)?, number(8)?, number(16)?);
        let mut part = None;
        while !rest.is_empty() {
            let (class, kind, data, more) = option(rest).ok_or(cut)?;
            match (class, kind, data) {
                (CLASS, PART, [index, count, bytes @ ..]) if part.is_none() => {
                    let wrong = Malformed::Length { kind, bytes: data.len() };
                    let frame_bytes = u16::from_be_bytes(bytes.try_into().map_err(|_| wrong)?);
                    part = Some(Part { index: *index, count: *count, frame_bytes });
                }
                (CLASS, PART, [] | [_]) => {
                    return Err(Malformed::Length { kind, bytes: data.len() });
                }
                (class, kind, _) if kind & CRITICAL != 0 => {
                    return Err(Malformed::Critical { class, kind });
                }
                _ => {}
            }
            rest = more;
        }
        let (session, sequence) = ((last >> 32) as u32, last as u32);
        Ok((Header { id, key: Key(key), epoch, session, sequence, part }, payload))
    }
}

/// Reads the first option of these bytes: class, type, data; and the bytes behind it.
fn option(bytes: &[u8]) -> Option<(u16, u8, &[u8], &[u8])> {
    let ([class @ .., kind, length], rest) = bytes.split_first_chunk::<4>()?;
    // The upper three bits are reserved and ignored (RFC 8926 section 3.5).
    let (data, rest) = rest.split_at_checked(usize::from(length & 0x1f) * 4)?;
    Some((u16::from_be_bytes(*class), *kind, data, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Header = Header {
        id: 0x01_0203,
        key: Key(0x0123_4567_89ab_cdef),
        epoch: 3,
        session: 0xa1a2_a3a4,
        sequence: 9,
        part: None,
    };

    /// The bytes of a packet, and its header.
    #[rustfmt::skip]
    const BYTES: [u8; 46] = [
        0x09, 0x40, 0x65, 0x58, 0x01, 0x02, 0x03, 0x00,
        0xff, 0x45, 0x81, 0x06,
        0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
        0, 0, 0, 0, 0, 0, 0, 3,
        0xa1, 0xa2, 0xa3, 0xa4, 0, 0, 0, 9,
        0xff, 0x45, 0x82, 0x01, 1, 2, 0x05, 0xea,
        7, 8,
    ];

    #[test]
    fn bytes_and_header_are_pairs() {
        let part = Part { index: 1, count: 2, frame_bytes: 1514 };
        let header = Header { part: Some(part), ..WHOLE };
        assert_eq!(Header::read(&BYTES), Ok((header, &BYTES[44..])));
        let mut written = [0; MOST_HEADER_BYTES];
        assert_eq!(header.write(&mut written), Some(44));
        assert_eq!(written, BYTES[..44]);
        assert_eq!(header.write(&mut written[..43]), None);

        let mut whole = BYTES;
        whole[0] = 0x07;
        assert_eq!(Header::read(&whole), Ok((WHOLE, &whole[36..])));
        assert_eq!(WHOLE.write(&mut written), Some(HEADER_BYTES));
        assert_eq!(written[..36], whole[..36]);
    }

    #[test]
    fn hostile_headers_are_refused() {
        for (at, byte, wanted) in [
            (0, 0x49, Malformed::Version(1)),
            (0, 0x3f, Malformed::Truncated(46)),
            // A header without options, one with a cut first option, one with a cut second option.
            (0, 0x00, Malformed::Truncated(46)),
            (0, 0x06, Malformed::Truncated(46)),
            (0, 0x08, Malformed::Truncated(46)),
            (1, 0xc0, Malformed::Flags(0xc0)),
            (1, 0x00, Malformed::Flags(0)),
            (2, 0x08, Malformed::Protocol(0x0858)),
            (8, 0x01, Malformed::NoIdentity { class: 0x0145, kind: 0x81 }),
            (10, 0x82, Malformed::NoIdentity { class: CLASS, kind: 0x82 }),
            (11, 0x05, Malformed::Length { kind: 0x81, bytes: 20 }),
            (11, 0x08, Malformed::Length { kind: 0x81, bytes: 32 }),
            (11, 0x00, Malformed::Length { kind: 0x81, bytes: 0 }),
            (11, 0x1f, Malformed::Truncated(46)),
            (36, 0x01, Malformed::Critical { class: 0x0145, kind: 0x82 }),
            (38, 0x83, Malformed::Critical { class: CLASS, kind: 0x83 }),
            (38, 0x81, Malformed::Critical { class: CLASS, kind: 0x81 }),
            (39, 0x00, Malformed::Length { kind: 0x82, bytes: 0 }),
            (39, 0x02, Malformed::Truncated(46)),
        ] {
            let mut packet = BYTES;
            packet[at] = byte;
            assert_eq!(Header::read(&packet).map(|_| ()), Err(wanted), "{byte:#x} at {at}");
        }
        for length in 0..44 {
            let found = Header::read(&BYTES[..length]);
            assert_eq!(found, Err(Malformed::Truncated(length)), "{length}");
        }
        // An unknown option that is not critical is skipped.
        let mut packet = BYTES;
        packet[38] = 0x02;
        assert_eq!(Header::read(&packet), Ok((WHOLE, &BYTES[44..])));
        assert!(!format!("{WHOLE:?}").contains("81985529216486895"), "a key in a log");
    }
}
