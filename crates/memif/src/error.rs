//! The errors, and their remedies.

use std::path::PathBuf;

use nix::errno::Errno;

/// The reason why a connection ended or was not made.
#[derive(Debug, thiserror::Error)]
pub enum MemifError {
    /// The other process has closed its socket, or has ended.
    #[error("the peer has gone")]
    Gone,
    /// The peer has disconnected.
    #[error("the peer disconnected: {reason} (code {code})")]
    Disconnected {
        /// The peer's error code; usually 0.
        code: u32,
        /// The peer's reason.
        reason: String,
    },
    /// The peer broke the protocol, or requested the impossible.
    #[error("the peer is refused: {0}")]
    Refused(#[from] Violation),
    /// The configuration of the interface is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The kernel.
    #[error("cannot {doing}: {source}")]
    Kernel {
        /// The attempted operation, as the words after "cannot".
        doing: &'static str,
        /// The kernel's error.
        source: Errno,
    },
    /// A socket's path.
    #[error("{}: cannot {doing}: {source}", path.display())]
    Path {
        /// The path, with `@` for a name in the abstract namespace.
        path: PathBuf,
        /// The attempted operation, as the words after "cannot".
        doing: &'static str,
        /// The kernel's error.
        source: Errno,
    },
}

/// Adds the attempted operation to an error of the kernel.
pub(crate) trait Doing<T> {
    fn doing(self, doing: &'static str) -> Result<T, MemifError>;
}

impl<T> Doing<T> for Result<T, Errno> {
    fn doing(self, doing: &'static str) -> Result<T, MemifError> {
        self.map_err(|source| MemifError::Kernel { doing, source })
    }
}

/// The mistake of a [`Config`](crate::Config).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {found}; {wanted}")]
pub struct ConfigError {
    /// The field's name.
    pub field: &'static str,
    /// Its value.
    pub found: u64,
    /// Its accepted values.
    pub wanted: &'static str,
}

/// Unknown type of message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A message has not 128 bytes.
    #[error("a message of {0} bytes; messages have 128")]
    MessageBytes(usize),
    /// No such type of message.
    #[error("a message of unknown type {0}")]
    MessageType(u16),
    /// A message that is not valid in this state.
    #[error("{found} while waiting for {wanted}")]
    Unexpected {
        /// The received message.
        found: &'static str,
        /// The messages allowed now.
        wanted: &'static str,
    },
    /// Too many descriptors, or none.
    #[error("{message} with {found} descriptors; it takes {wanted}")]
    Descriptors {
        /// The message.
        message: &'static str,
        /// Number of received descriptors.
        found: usize,
        /// Expected number.
        wanted: usize,
    },
    /// The peer reads nothing.
    #[error("it does not read its socket")]
    Deaf,
    /// Another protocol version.
    #[error("protocol version {}.{} to {}.{}; this is 2.0", least >> 8, least & 255, most >> 8, most & 255)]
    Version {
        /// The peer's lowest version.
        least: u16,
        /// The peer's highest version.
        most: u16,
    },
    /// The server has no such interface.
    #[error("there is no interface {0} on this socket; compare the ids of both sides")]
    NoInterface(u32),
    /// The interface has a peer.
    #[error("interface {0} is connected already")]
    Taken(u32),
    /// IP packets or another mode that is not Ethernet.
    #[error("interface mode {0}; only Ethernet (0) is served")]
    Mode(u8),
    /// The wrong secret.
    #[error("a wrong secret")]
    Secret,
    /// Its memory is not safe to use.
    #[error(
        "region {0} could shrink while it is used: its file has no F_SEAL_SHRINK and refuses it \
         (DPDK: leave out zero-copy)"
    )]
    Unsealed(u16),
    /// The memory consists of huge pages, which can run out while it is used.
    #[error("region {0} is not of ordinary pages (DPDK: leave out zero-copy)")]
    HugePages(u16),
    /// The file is shorter than the announced region.
    #[error("region {index} is said to have {said} bytes; its file has {found}")]
    RegionBytes {
        /// Number of the region.
        index: u16,
        /// Length that the message states, in bytes.
        said: u64,
        /// Length of the file, bytes.
        found: u64,
    },
    /// More memory than the configuration allows.
    #[error("regions of {found} bytes altogether; {most} are allowed")]
    Memory {
        /// Bytes with the new region.
        found: u64,
        /// Bytes allowed.
        most: u64,
    },
    /// Regions must be numbered in order, and are limited.
    #[error("region {found}; next is region {next}, and there may be {most}")]
    RegionIndex {
        /// Number given.
        found: u16,
        /// Expected number.
        next: u16,
        /// Limit.
        most: u16,
    },
    /// Rings of a direction must be numbered in order, and are limited.
    #[error("ring {found}; next in this direction is ring {next}, and there may be {most}")]
    RingIndex {
        /// Number given.
        found: u16,
        /// Expected number.
        next: u16,
        /// Limit.
        most: u16,
    },
    /// A ring is too long.
    #[error("a ring of 2^{found} entries; 2^{most} are allowed")]
    RingEntries {
        /// The logarithm given.
        found: u8,
        /// The largest allowed.
        most: u8,
    },
    /// A ring that is not inside its region, or whose offset is not a multiple of 8.
    #[error("a ring at byte {offset} of region {region}, where it has no room")]
    RingPlace {
        /// Number of the region.
        region: u16,
        /// Its offset there, bytes.
        offset: u32,
    },
    /// The peer wants private memory next to the descriptors.
    #[error("rings with private headers of {0} bytes; they are not supported")]
    PrivateHeader(u16),
    /// There is no ring at the announced place.
    #[error("no ring begins at byte {offset} of region {region}: {found:#x} instead of its mark")]
    Cookie {
        /// Number of the region.
        region: u16,
        /// Its announced offset, bytes.
        offset: u32,
        /// The value found there.
        found: u32,
    },
    /// The descriptor of a ring cannot wake its reader.
    #[error("a ring's descriptor is no eventfd")]
    NoEventfd,
    /// A connection without rings carries nothing.
    #[error("no ring from {from} to {to}")]
    NoRing {
        /// Sender.
        from: &'static str,
        /// Receiver.
        to: &'static str,
    },
}

/// Damage that a peer has done to a ring and that cannot be repaired: only a new connection helps,
/// see [`Port::disconnect`](crate::Port::disconnect).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// An index is further ahead than the ring is long, or has decreased.
    #[error("its index says {found} of {entries} entries")]
    Index {
        /// Number of entries between the indices of both sides.
        found: u16,
        /// Entries of the ring.
        entries: u16,
    },
    /// A client offers a buffer outside its regions.
    #[error("it offers a buffer of {bytes} bytes at byte {offset} of region {region}")]
    Buffer {
        /// Number of the region.
        region: u16,
        /// Its offset, bytes.
        offset: u32,
        /// Its length, bytes.
        bytes: u32,
    },
}
