//! Messages: the common header (RFC 2205, section 3.1.1) and the objects.

use super::checksum::checksum;
use super::integrity::Integrity;
use super::{Malformed, Object, Reader, Writer};

macro_rules! kinds {
    ($($number:literal $name:ident $says:literal;)*) => {
        /// Message types.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $(#[doc = $says] $name = $number,)*
        }

        impl Kind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            fn of(number: u8) -> Result<Self, Malformed> {
                match number {
                    $($number => Ok(Self::$name),)*
                    other => Err(Malformed::Kind(other)),
                }
            }
        }
    };
}

kinds! {
    1 Path "Downstream: an LSP is wanted.";
    2 Resv "Upstream: label and reservation.";
    3 PathErr "Upstream: a Path failed.";
    4 ResvErr "Downstream: a Resv failed.";
    5 PathTear "Downstream: the LSP goes.";
    6 ResvTear "Upstream: the reservation goes.";
    7 ResvConf "Downstream: the reservation is in place.";
    12 Bundle "Several messages (RFC 2961).";
    13 Ack "Acknowledgements alone (RFC 2961).";
    15 Srefresh "Ids of messages that are to be refreshed (RFC 2961).";
    20 Hello "Whether a neighbour lives (RFC 3209).";
    25 Challenge "Asks for a sequence number (RFC 2747).";
    26 ChallengeResponse "Answers (RFC 2747).";
    30 RecoveryPath "Upstream: the Path that was sent before a restart (RFC 5063).";
}

/// Bytes of the common header.
pub(crate) const HEADER: usize = 8;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// [`Message::REFRESH_REDUCTION`] or 0; 4 bits.
    pub flags: u8,
    /// Its type.
    pub kind: Kind,
    /// The IP TTL that the message was sent with.
    pub ttl: u8,
    /// Its objects, in order.
    pub objects: Vec<Object>,
    /// The messages of a bundle; otherwise empty.
    pub parts: Vec<Message>,
}

impl Message {
    /// The sender understands bundles and summary refreshes (RFC 2961, section 2).
    pub const REFRESH_REDUCTION: u8 = 1;

    /// A message without flags.
    pub fn new(kind: Kind, objects: Vec<Object>) -> Self {
        Self { flags: 0, kind, ttl: 255, objects, parts: Vec::new() }
    }

    /// Reads a whole message: the payload of an IP datagram of protocol 46.
    ///
    /// # Errors
    /// The mistake. Unknown objects are no error here; see [`super::UnknownRule`].
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let (message, rest) = Self::read(bytes, false)?;
        if rest.is_empty() { Ok(message) } else { Err(Malformed::Length) }
    }

    fn read(bytes: &[u8], is_part: bool) -> Result<(Self, &[u8]), Malformed> {
        let mut header = Reader::new(bytes);
        let first = header.u8()?;
        let (kind, sum, ttl) = (header.u8()?, header.u16()?, header.u8()?);
        header.u8()?;
        let length = usize::from(header.u16()?);
        if first >> 4 != 1 {
            return Err(Malformed::Version(first >> 4));
        }
        if length < HEADER || !length.is_multiple_of(4) {
            return Err(Malformed::Length);
        }
        let (whole, rest) = bytes.split_at_checked(length).ok_or(Malformed::Short)?;
        // A checksum of 0 means none.
        if sum != 0 && checksum(whole) != 0 {
            return Err(Malformed::Checksum);
        }
        let kind = Kind::of(kind)?;
        let mut message =
            Self { flags: first & 0xf, kind, ttl, objects: Vec::new(), parts: Vec::new() };
        let mut body = Reader::new(&whole[HEADER..]);
        while !body.is_empty() {
            // In a bundle, a part begins with the version. An object's length never begins with
            // that number, because no object that a bundle may contain has 4,096 bytes (RFC 2961,
            // section 3.1).
            let starts_part = body.clone().u8()? >> 4 == 1;
            if kind == Kind::Bundle && (starts_part || !message.parts.is_empty()) {
                if is_part {
                    return Err(Malformed::Nested);
                }
                let (part, rest) = Self::read(body.rest(), true)?;
                if part.kind == Kind::Bundle {
                    return Err(Malformed::Nested);
                }
                message.parts.push(part);
                body = Reader::new(rest);
            } else {
                message.objects.push(Object::read(&mut body)?);
            }
        }
        Ok((message, rest))
    }

    /// Encodes the message. With an INTEGRITY object it has no checksum (RFC 2747, section 2): the
    /// caller fills in its digest.
    ///
    /// The caller keeps messages below 64 KiB; a longer message has a wrong length, which every
    /// receiver refuses.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Writer::default();
        self.write(&mut to);
        to.into_bytes()
    }

    fn write(&self, to: &mut Writer) {
        let from = to.len();
        to.u8(1 << 4 | self.flags & 0xf);
        to.u8(self.kind as u8);
        to.u16(0);
        to.u8(self.ttl);
        to.u8(0);
        to.u16(0);
        self.objects.iter().for_each(|object| object.write(to));
        self.parts.iter().for_each(|part| part.write(to));
        to.set_u16(from + 6, u16::try_from(to.len() - from).unwrap_or(u16::MAX));
        if !self.objects.iter().any(|object| matches!(object, Object::Integrity(_))) {
            // 0 means no checksum.
            let sum = match checksum(&to.as_slice()[from..]) {
                0 => 0xffff,
                sum => sum,
            };
            to.set_u16(from + 2, sum);
        }
    }
}

/// The place of the digest in an encoded message, if its first object is INTEGRITY (RFC 2747,
/// section 2).
pub(crate) fn integrity_at(bytes: &[u8]) -> Option<std::ops::Range<usize>> {
    let object = bytes.get(HEADER..)?;
    let [high, low, 4, 1] = *object.first_chunk::<4>()? else { return None };
    let length = usize::from(u16::from_be_bytes([high, low]));
    let start = HEADER + 4 + Integrity::DIGEST_AT;
    let end = HEADER + length;
    (start < end && end <= bytes.len()).then_some(start..end)
}
