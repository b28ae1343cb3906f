//! Why bytes are no packet.

/// Why bytes are no I3 packet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The bytes end within a field.
    #[error("{what}: {needed} bytes are needed, {found} are left")]
    Short {
        /// The field.
        what: &'static str,
        /// Its length in bytes.
        needed: usize,
        /// Bytes that are left.
        found: usize,
    },
    /// The first byte is not the version.
    #[error("version 0x{0:02x}; 0x10 is known")]
    Version(u8),
    /// A flag that does not exist.
    #[error("flags 0x{0:02x}; 0x10, 0x20 and 0x40 are known")]
    Flags(u8),
    /// A stack with too many ids.
    #[error("a stack of {0} ids; at most 15 are possible")]
    Stack(u8),
    /// An address of another type.
    #[error("address type 0x{0:02x}; 0x10, 0x20, 0x30 and 0x40 are known")]
    Address(u8),
    /// The upper half of an IPv4 address in 8 bytes is not 0.
    #[error("an IPv4 address of 8 bytes whose last four are not 0")]
    WideAddress,
    /// An option of another type.
    #[error("option type 0x{0:02x} is not known")]
    Option(u8),
    /// More options than a packet may have.
    #[error("more than {0} options")]
    TooManyOptions(usize),
    /// The length of the option list does not fit.
    #[error("an option list of {length} bytes; {left} are left in the packet, two are needed")]
    List {
        /// Its length in bytes.
        length: usize,
        /// Remaining bytes of the packet, including the length field.
        left: usize,
    },
}
