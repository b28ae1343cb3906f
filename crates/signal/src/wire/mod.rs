//! The wire format: bytes to values and back. This module has no state, clock or sockets.
//!
//! Each object has a file, which names its class and the RFC; `object` is the table of all objects.

mod addresses;
mod adspec;
mod attribute;
mod checksum;
mod error_spec;
mod explicit_route;
mod float;
mod hello;
mod hop;
mod integrity;
mod label;
mod message;
mod message_id;
mod object;
mod read;
mod record_route;
mod sender;
mod session;
mod style;
mod traffic;
mod write;

pub use addresses::{Confirm, Scope};
pub use adspec::{Adspec, GuaranteedTerms};
pub use attribute::{Affinity, SessionAttribute};
pub use error_spec::{Cause, ErrorSpec};
pub use explicit_route::{AbstractNode, ExplicitHop, ExplicitRoute};
pub use float::Float;
pub use hello::{Capability, Hello, RestartCap};
pub use hop::Hop;
pub use integrity::{Challenge, Integrity};
pub use label::{LabelObject, LabelRequest, RecoveryLabel};
pub(crate) use message::integrity_at;
pub use message::{Kind, Message};
pub use message_id::{MessageId, MessageIdAck, MessageIdList};
pub use object::{Object, UnknownRule};
pub use record_route::{RecordRoute, RecordedHop};
pub use sender::Sender;
pub use session::Session;
pub use style::{Style, TimeValues};
pub use traffic::{BadBucket, Flowspec, Service, TokenBucket, Tspec};

use read::Reader;
use write::Writer;

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A field, object or message ends before it should.
    #[error("the message ends within a field")]
    Short,
    /// A length is too small, not a multiple of 4, or inconsistent with the contents.
    #[error("a length is too small or not a multiple of 4")]
    Length,
    /// An object is longer than its contents.
    #[error("an object is longer than its fields")]
    Trailing,
    /// The version is not 1.
    #[error("RSVP version {0} where 1 is wanted")]
    Version(u8),
    /// The checksum is wrong.
    #[error("the checksum is wrong")]
    Checksum,
    /// An unknown message type.
    #[error("message type {0} is not known")]
    Kind(u8),
    /// A bundle within a bundle (RFC 2961, section 3.1).
    #[error("a bundle holds a bundle")]
    Nested,
}
