//! The settings of one interface.

use crate::error::ConfigError;
use crate::wire::SECRET_BYTES;

/// The longest ring: its indices have 16 bits, and DPDK has the same limit.
pub(crate) const MOST_LOG2_ENTRIES: u8 = 14;
/// Most rings in a direction, as in DPDK.
const MOST_RINGS: u16 = 255;
/// Smallest buffer: any short frame fits into it.
const LEAST_BUFFER_BYTES: u32 = 64;

/// Which side of a connection an interface is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It listens, and works in the memory of its clients. Also called master.
    Server,
    /// It connects, and provides the memory. Also called slave.
    Client,
}

/// One interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The interface's number on its socket; both sides have the same.
    pub id: u32,
    /// Name shown to the peer; up to 31 bytes of it.
    pub name: String,
    /// The shared secret of both sides; zeros for none.
    pub secret: [u8; SECRET_BYTES],
    /// Number of rings to receive from. A client makes this many, or fewer if its server accepts
    /// fewer. A server accepts this many at most.
    pub receive_rings: u16,
    /// Number of rings to transmit into, with the same rules.
    pub transmit_rings: u16,
    /// Entries of a ring as a power of two, 0 to 14: a client's request, or a server's limit.
    pub log2_entries: u8,
    /// Client: bytes of a buffer. Old versions of DPDK as a server write up to 2048 bytes into any
    /// buffer, so use at least that size with them.
    pub buffer_bytes: u32,
    /// Server: bytes of memory that a client may have mapped here. A touched page counts as memory
    /// of the process that touches it first.
    pub most_memory_bytes: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            id: 0,
            name: "europa".to_owned(),
            secret: [0; SECRET_BYTES],
            receive_rings: 1,
            transmit_rings: 1,
            log2_entries: 10,
            buffer_bytes: 2048,
            most_memory_bytes: 256 << 20,
        }
    }
}

impl Config {
    /// Checks the numbers.
    ///
    /// # Errors
    /// The first invalid field.
    pub fn check(&self) -> Result<(), ConfigError> {
        let rings = "it must be 1 to 255";
        let fields = [
            ("receive_rings", u64::from(self.receive_rings), 1..=u64::from(MOST_RINGS), rings),
            ("transmit_rings", u64::from(self.transmit_rings), 1..=u64::from(MOST_RINGS), rings),
            (
                "log2_entries",
                u64::from(self.log2_entries),
                0..=u64::from(MOST_LOG2_ENTRIES),
                "it must be 0 to 14",
            ),
            (
                "buffer_bytes",
                u64::from(self.buffer_bytes),
                u64::from(LEAST_BUFFER_BYTES)..=65536,
                "it must be 64 to 65536",
            ),
        ];
        for (field, found, allowed, wanted) in fields {
            if !allowed.contains(&found) {
                return Err(ConfigError { field, found, wanted });
            }
        }
        // Offsets have 32 bits.
        crate::layout::Layout::new(self, self.transmit_rings, self.receive_rings, self.log2_entries)
            .map(|_| ())
    }
}

/// Bytes of a secret from text.
///
/// # Errors
/// A secret longer than 24 bytes.
pub fn secret(text: &str) -> Result<[u8; SECRET_BYTES], ConfigError> {
    let mut secret = [0; SECRET_BYTES];
    let place = secret.get_mut(..text.len()).ok_or(ConfigError {
        field: "bytes of the secret",
        found: text.len() as u64,
        wanted: "it must be 0 to 24",
    })?;
    place.copy_from_slice(text.as_bytes());
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_numbers_are_named() {
        let default = Config::default();
        assert_eq!(default.check(), Ok(()));
        let cases = [
            (Config { receive_rings: 0, ..default.clone() }, "receive_rings is 0; it must be 1"),
            (Config { transmit_rings: 256, ..default.clone() }, "transmit_rings is 256"),
            (Config { log2_entries: 15, ..default.clone() }, "log2_entries is 15"),
            (Config { buffer_bytes: 63, ..default.clone() }, "buffer_bytes is 63"),
            (Config { receive_rings: 255, log2_entries: 14, ..default }, "memory of a client is 8"),
        ];
        for (config, error) in cases {
            let found = config.check().unwrap_err().to_string();
            assert!(found.starts_with(error), "{found}");
        }
        assert_eq!(secret("ab").unwrap()[..3], *b"ab\0");
        assert!(secret(&"x".repeat(25)).is_err());
    }
}
