//! Messages between servers: Europa's own format, authenticated.
//!
//! ```text
//! 0xe2 | 1 | kind | body | tag: the first 16 bytes of HMAC-SHA256 with the ring's key
//! ```
//!
//! In the public code, Chord's packets are C structs in the memory layout of the machine, on a
//! separate port. So a server of Europa and a server of the public code cannot share a ring.
//! Clients see no difference.

mod body;

use std::net::SocketAddr;
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use self::body::{read_body, write_body};
use crate::id::{Id, Prefix};
use crate::wire::{Reader, Trigger, WireError};

/// The first byte of a message.
pub(crate) const MAGIC: u8 = 0xe2;
const FORMAT: u8 = 1;
const TAG: usize = 16;
/// Entries of a successor list.
pub const SUCCESSORS: usize = 16;

/// A server of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// Its position.
    pub id: Prefix,
    /// The address for its messages.
    pub at: SocketAddr,
}

/// A server's neighbours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbours {
    /// The predecessor.
    pub predecessor: Option<Member>,
    /// Successors, at most 16, nearest first.
    pub successors: Vec<Member>,
}

/// A packet that is forwarded to the server of its first id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routed {
    /// Whether the sender considers the receiver responsible.
    pub last: bool,
    /// Remaining hops and triggers.
    pub hops_left: u8,
    /// Remaining copies.
    pub copies: u16,
    /// The server whose trigger sent the packet, for push-back.
    pub previous: Option<SocketAddr>,
    /// An I3 packet.
    pub packet: Vec<u8>,
}

/// A copy of another server's trigger, kept for the case that this server fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Remaining lifetime in milliseconds; 0 removes it.
    pub left_ms: u16,
    /// The trigger, without its nonce.
    pub trigger: Trigger,
}

/// A message between servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Requests the receiver's neighbours; shows that the sender is alive.
    Ask(Member),
    /// The answer: the sender, and its neighbours.
    Tell(Member, Neighbours),
    /// The sender may be the receiver's predecessor.
    Notify(Member),
    /// Looks for the server that is responsible for a position.
    Find {
        /// Repeated in the answer.
        token: u64,
        /// The position.
        key: Prefix,
        /// The address for the answer.
        origin: SocketAddr,
        /// Remaining hops.
        hops_left: u8,
        /// Number of hops so far.
        hops: u8,
    },
    /// The answer.
    Found {
        /// The question's token.
        token: u64,
        /// The responsible server.
        owner: Member,
        /// Hops of the question.
        hops: u8,
    },
    /// The sender leaves.
    Leave(Member, Neighbours),
    /// A packet.
    Route(Routed),
    /// Triggers to keep.
    Keep(Vec<Replica>),
    /// An id to which the receiver's triggers point has no trigger.
    PushBack(Id),
    /// Bytes for a host behind a NAT, which only the receiver reaches.
    Relay(SocketAddr, Vec<u8>),
    /// Asks for figures.
    AskState,
    /// Figures, as JSON.
    State(String),
}

/// The reason why bytes are no message of the ring.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The tag is wrong: another key.
    #[error("a message of another ring, or with another key")]
    Tag,
    /// Another version of the format.
    #[error("format {0}; 1 is known")]
    Format(u8),
    /// Another kind of message.
    #[error("message kind {0} is not known")]
    Kind(u8),
    /// More neighbours than a list has.
    #[error("{0} successors; at most 16 are possible")]
    Successors(u8),
    /// Fields do not fit.
    #[error(transparent)]
    Field(#[from] WireError),
    /// A text is not UTF-8.
    #[error("a text is not UTF-8")]
    Text,
}

/// Writes and reads messages with a ring's key.
#[derive(Clone)]
pub struct Codec {
    keyed: Hmac<Sha256>,
}

impl std::fmt::Debug for Codec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Codec")
    }
}

impl Codec {
    /// Messages of the ring with this key. With an empty key, every program can join.
    pub fn new(key: &[u8]) -> Codec {
        let keyed = <Hmac<Sha256> as KeyInit>::new_from_slice(key);
        Codec { keyed: keyed.unwrap_or_else(|_| unreachable!("HMAC takes keys of any length")) }
    }

    fn tag(&self, bytes: &[u8]) -> [u8; TAG] {
        let mut mac = self.keyed.clone();
        mac.update(bytes);
        let mut tag = [0; TAG];
        tag.copy_from_slice(&mac.finalize().into_bytes()[..TAG]);
        tag
    }

    /// The bytes of a message.
    pub fn write(&self, message: &Message) -> Vec<u8> {
        let mut out = vec![MAGIC, FORMAT];
        write_body(message, &mut out);
        out.extend(self.tag(&out));
        out
    }

    /// Reads a message.
    ///
    /// # Errors
    /// The tag was made with another key, or the bytes are no message.
    pub fn read(&self, bytes: &[u8]) -> Result<Message, MessageError> {
        let at = bytes.len().checked_sub(TAG).ok_or(MessageError::Tag)?;
        let (body, tag) = bytes.split_at(at);
        // All bytes are compared, so that the time reveals nothing about the first difference.
        let wanted = self.tag(body);
        if wanted.iter().zip(tag).fold(0, |sum, (a, b)| sum | (a ^ b)) != 0 {
            return Err(MessageError::Tag);
        }
        let mut reader = Reader::new(body);
        reader.byte("the first byte")?;
        match reader.byte("the format")? {
            FORMAT => read_body(&mut reader),
            other => Err(MessageError::Format(other)),
        }
    }
}

/// A lifetime in milliseconds, as replicas contain it.
pub(crate) fn left_ms(left: Duration) -> u16 {
    u16::try_from(left.as_millis()).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::Address;

    fn member(number: u8) -> Member {
        let at = match number % 2 {
            0 => SocketAddr::from(([10, 0, 0, number], 5610)),
            _ => SocketAddr::from(([0xfd00, 0, 0, 0, 0, 0, 0, u16::from(number)], 5610)),
        };
        Member { id: Prefix([number; 24]), at }
    }

    fn all() -> Vec<Message> {
        let neighbours =
            Neighbours { predecessor: Some(member(3)), successors: (0..16).map(member).collect() };
        let trigger = Trigger::new(Id([1; 32]), Address::from(member(1).at), Default::default());
        let stack =
            Trigger::new(Id([2; 32]), Address::Stack(vec![Id([3; 32])]), Default::default());
        let key = Prefix([9; 24]);
        let routed = Routed {
            last: true,
            hops_left: 3,
            copies: 700,
            previous: Some(member(2).at),
            packet: vec![1, 2],
        };
        vec![
            Message::Ask(member(1)),
            Message::Tell(member(2), neighbours.clone()),
            Message::Notify(member(3)),
            Message::Find { token: 1, key, origin: member(4).at, hops_left: 2, hops: 3 },
            Message::Found { token: 2, owner: member(5), hops: 1 },
            Message::Leave(member(6), Neighbours::default()),
            Message::Route(routed.clone()),
            Message::Route(Routed { previous: None, ..routed }),
            Message::Keep(vec![
                Replica { left_ms: 5, trigger },
                Replica { left_ms: 0, trigger: stack },
            ]),
            Message::PushBack(Id([4; 32])),
            Message::Relay(member(2).at, vec![5; 9]),
            Message::AskState,
            Message::State("{}".to_owned()),
        ]
    }

    #[test]
    fn messages_come_back_with_the_key_alone() {
        let (own, other) = (Codec::new(b"key"), Codec::new(b"other"));
        for message in all() {
            let bytes = own.write(&message);
            assert_eq!(own.read(&bytes), Ok(message));
            assert_eq!(other.read(&bytes), Err(MessageError::Tag));
        }
    }

    proptest! {
        #[test]
        fn no_body_panics(
            which in 0_usize..13,
            damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..5),
            end: prop::sample::Index,
        ) {
            let codec = Codec::new(b"");
            let mut bytes = codec.write(&all()[which]);
            bytes.truncate(bytes.len() - TAG);
            for (at, byte) in damage {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes.truncate(end.index(bytes.len()) + 1);
            let tag = codec.tag(&bytes);
            bytes.extend(tag);
            let _ = codec.read(&bytes);
        }
    }
}
