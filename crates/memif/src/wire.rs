//! The control messages: 128 bytes each, integers as the machine has them, no padding.

use crate::error::Violation;

/// Length of every message, bytes.
pub(crate) const MESSAGE_BYTES: usize = 128;
/// Version 2.0, the only one.
pub(crate) const VERSION: u16 = 0x0200;
/// Bytes of a secret; unused ones are zeros.
pub const SECRET_BYTES: usize = 24;

const NAME_BYTES: usize = 32;
const REASON_BYTES: usize = 96;
const CLIENT_TO_SERVER: u16 = 1;

/// The limits of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) name: String,
    pub(crate) least_version: u16,
    pub(crate) most_version: u16,
    /// The highest number of a region.
    pub(crate) last_region: u16,
    /// The highest number of a ring from server to client.
    pub(crate) last_to_client: u16,
    /// The highest number of a ring from client to server.
    pub(crate) last_to_server: u16,
    pub(crate) log2_entries: u8,
}

/// The interface that a client requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Init {
    pub(crate) version: u16,
    pub(crate) id: u32,
    pub(crate) mode: u8,
    pub(crate) secret: [u8; SECRET_BYTES],
    pub(crate) name: String,
}

/// The place of a ring. The message carries its eventfd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AddRing {
    pub(crate) to_server: bool,
    pub(crate) index: u16,
    pub(crate) region: u16,
    pub(crate) offset: u32,
    pub(crate) log2_entries: u8,
    pub(crate) private_header_bytes: u16,
}

/// A message of either side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    Ack,
    Hello(Hello),
    Init(Init),
    AddRegion { index: u16, bytes: u64 },
    AddRing(AddRing),
    Connect { interface: String },
    Connected { interface: String },
    Disconnect { code: u32, reason: String },
}

impl Message {
    /// Its name in errors.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Ack => "an acknowledgement",
            Self::Hello(_) => "a greeting",
            Self::Init(_) => "a request for an interface",
            Self::AddRegion { .. } => "a region",
            Self::AddRing(_) => "a ring",
            Self::Connect { .. } => "a request to connect",
            Self::Connected { .. } => "a confirmation",
            Self::Disconnect { .. } => "a goodbye",
        }
    }

    /// Number of its descriptors.
    pub(crate) fn descriptors(&self) -> usize {
        usize::from(matches!(self, Self::AddRegion { .. } | Self::AddRing(_)))
    }

    /// The bytes to send. Names that are too long are cut.
    pub(crate) fn encode(&self) -> [u8; MESSAGE_BYTES] {
        let mut out = Writer { bytes: [0; MESSAGE_BYTES], at: 0 };
        match self {
            Self::Ack => out.put(&1_u16.to_ne_bytes()),
            Self::Hello(hello) => {
                out.put(&2_u16.to_ne_bytes());
                out.text(&hello.name, NAME_BYTES);
                out.put(&hello.least_version.to_ne_bytes());
                out.put(&hello.most_version.to_ne_bytes());
                out.put(&hello.last_region.to_ne_bytes());
                out.put(&hello.last_to_client.to_ne_bytes());
                out.put(&hello.last_to_server.to_ne_bytes());
                out.put(&[hello.log2_entries]);
            }
            Self::Init(init) => {
                out.put(&3_u16.to_ne_bytes());
                out.put(&init.version.to_ne_bytes());
                out.put(&init.id.to_ne_bytes());
                out.put(&[init.mode]);
                out.put(&init.secret);
                out.text(&init.name, NAME_BYTES);
            }
            Self::AddRegion { index, bytes } => {
                out.put(&4_u16.to_ne_bytes());
                out.put(&index.to_ne_bytes());
                out.put(&bytes.to_ne_bytes());
            }
            Self::AddRing(ring) => {
                out.put(&5_u16.to_ne_bytes());
                let flags = if ring.to_server { CLIENT_TO_SERVER } else { 0 };
                out.put(&flags.to_ne_bytes());
                out.put(&ring.index.to_ne_bytes());
                out.put(&ring.region.to_ne_bytes());
                out.put(&ring.offset.to_ne_bytes());
                out.put(&[ring.log2_entries]);
                out.put(&ring.private_header_bytes.to_ne_bytes());
            }
            Self::Connect { interface } => {
                out.put(&6_u16.to_ne_bytes());
                out.text(interface, NAME_BYTES);
            }
            Self::Connected { interface } => {
                out.put(&7_u16.to_ne_bytes());
                out.text(interface, NAME_BYTES);
            }
            Self::Disconnect { code, reason } => {
                out.put(&8_u16.to_ne_bytes());
                out.put(&code.to_ne_bytes());
                out.text(reason, REASON_BYTES);
            }
        }
        out.bytes
    }

    /// Reads a message. Only its type can be wrong here; the handler checks all else.
    pub(crate) fn decode(bytes: &[u8; MESSAGE_BYTES]) -> Result<Self, Violation> {
        let mut from = Reader { bytes, at: 0 };
        Ok(match from.u16() {
            1 => Self::Ack,
            2 => Self::Hello(Hello {
                name: from.text(NAME_BYTES),
                least_version: from.u16(),
                most_version: from.u16(),
                last_region: from.u16(),
                last_to_client: from.u16(),
                last_to_server: from.u16(),
                log2_entries: from.u8(),
            }),
            3 => Self::Init(Init {
                version: from.u16(),
                id: from.u32(),
                mode: from.u8(),
                secret: from.array(),
                name: from.text(NAME_BYTES),
            }),
            4 => Self::AddRegion { index: from.u16(), bytes: u64::from_ne_bytes(from.array()) },
            5 => Self::AddRing(AddRing {
                to_server: from.u16() & CLIENT_TO_SERVER != 0,
                index: from.u16(),
                region: from.u16(),
                offset: from.u32(),
                log2_entries: from.u8(),
                private_header_bytes: from.u16(),
            }),
            6 => Self::Connect { interface: from.text(NAME_BYTES) },
            7 => Self::Connected { interface: from.text(NAME_BYTES) },
            8 => Self::Disconnect { code: from.u32(), reason: from.text(REASON_BYTES) },
            other => return Err(Violation::MessageType(other)),
        })
    }
}

struct Writer {
    bytes: [u8; MESSAGE_BYTES],
    at: usize,
}

impl Writer {
    fn put(&mut self, what: &[u8]) {
        // All messages are shorter than 128 bytes, as a test checks.
        if let Some(place) = self.bytes.get_mut(self.at..self.at + what.len()) {
            place.copy_from_slice(what);
        }
        self.at += what.len();
    }

    /// Text in a field of `bytes` bytes; the last byte is zero.
    fn text(&mut self, text: &str, bytes: usize) {
        let end = text.floor_char_boundary(bytes - 1);
        self.put(&text.as_bytes()[..end]);
        self.at += bytes - end;
    }
}

struct Reader<'a> {
    bytes: &'a [u8; MESSAGE_BYTES],
    at: usize,
}

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> [u8; N] {
        let found = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk).copied();
        self.at += N;
        found.unwrap_or([0; N])
    }

    fn u8(&mut self) -> u8 {
        let [byte] = self.array();
        byte
    }

    fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.array())
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.array())
    }

    /// Text up to a zero or the field's end. It is shown to users, so control characters are
    /// removed.
    fn text(&mut self, bytes: usize) -> String {
        let field = self.bytes.get(self.at..self.at + bytes).unwrap_or_default();
        self.at += bytes;
        let end = field.iter().position(|byte| *byte == 0).unwrap_or(bytes);
        String::from_utf8_lossy(&field[..end])
            .chars()
            .map(|letter| if letter.is_control() { '?' } else { letter })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The offsets of the fields are those of VPP and DPDK.
    #[test]
    fn messages_are_these_bytes() {
        /// Bytes and their offsets; zeros elsewhere.
        type Parts = &'static [(usize, &'static [u8])];
        let cases: &[(Message, Parts)] = &[
            (Message::Ack, &[(0, &[1, 0])]),
            (
                Message::Hello(Hello {
                    name: "europa".into(),
                    least_version: VERSION,
                    most_version: VERSION,
                    last_region: 0x0102,
                    last_to_client: 0x0304,
                    last_to_server: 0x0506,
                    log2_entries: 14,
                }),
                &[(0, &[2, 0]), (2, b"europa"), (34, &[0, 2, 0, 2, 2, 1, 4, 3, 6, 5, 14])],
            ),
            (
                Message::Init(Init {
                    version: VERSION,
                    id: 0x0403_0201,
                    mode: 1,
                    secret: *b"abcdefghijklmnopqrstuvwx",
                    name: "vpp".into(),
                }),
                &[
                    (0, &[3, 0, 0, 2, 1, 2, 3, 4, 1]),
                    (9, b"abcdefghijklmnopqrstuvwx"),
                    (33, b"vpp"),
                ],
            ),
            (
                Message::AddRegion { index: 1, bytes: 0x0807_0605_0403_0201 },
                &[(0, &[4, 0, 1, 0, 1, 2, 3, 4, 5, 6, 7, 8])],
            ),
            (
                Message::AddRing(AddRing {
                    to_server: true,
                    index: 2,
                    region: 3,
                    offset: 0x0403_0201,
                    log2_entries: 10,
                    private_header_bytes: 5,
                }),
                &[(0, &[5, 0, 1, 0, 2, 0, 3, 0, 1, 2, 3, 4, 10, 5, 0])],
            ),
            (Message::Connect { interface: "eth0".into() }, &[(0, &[6, 0]), (2, b"eth0")]),
            (Message::Connected { interface: "eth1".into() }, &[(0, &[7, 0]), (2, b"eth1")]),
            (
                Message::Disconnect { code: 9, reason: "bye".into() },
                &[(0, &[8, 0, 9, 0, 0, 0]), (6, b"bye")],
            ),
        ];
        for (message, parts) in cases {
            let mut wanted = [0; MESSAGE_BYTES];
            for (at, bytes) in *parts {
                wanted[*at..at + bytes.len()].copy_from_slice(bytes);
            }
            assert_eq!(message.encode(), wanted, "{}", message.name());
            assert_eq!(Message::decode(&wanted).as_ref(), Ok(message));
        }
    }

    #[test]
    fn long_and_ugly_texts_stay_in_their_fields() {
        let long = "ä".repeat(80);
        let bytes = Message::Disconnect { code: 0, reason: long }.encode();
        let Ok(Message::Disconnect { reason, .. }) = Message::decode(&bytes) else { panic!() };
        assert_eq!(reason, "ä".repeat(47));
        let mut full = Message::Connect { interface: String::new() }.encode();
        full[2..].fill(b'x');
        full[3] = 0x1b;
        let Ok(Message::Connect { interface }) = Message::decode(&full) else { panic!() };
        assert_eq!(interface, format!("x?{}", "x".repeat(30)));
    }

    proptest! {
        /// Any bytes are parsed or refused, and a parsed message is written with the same bytes.
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, kind in 0u16..12) {
            let mut message = [0; MESSAGE_BYTES];
            for (place, byte) in message.iter_mut().zip(&bytes) {
                *place = *byte;
            }
            message[..2].copy_from_slice(&kind.to_ne_bytes());
            match Message::decode(&message) {
                Ok(read) => prop_assert_eq!(Message::decode(&read.encode()).unwrap().name(), read.name()),
                Err(error) => prop_assert_eq!(error, Violation::MessageType(kind)),
            }
        }
    }
}
