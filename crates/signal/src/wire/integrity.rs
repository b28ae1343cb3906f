//! INTEGRITY, class 4, and CHALLENGE, class 64 (RFC 2747, sections 2 and 4.3).

use super::object::Body;
use super::{Malformed, Reader, Writer};

/// Authenticates a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Integrity {
    /// [`Integrity::HANDSHAKE`] or 0.
    pub flags: u8,
    /// 48 bits that name the key.
    pub key: u64,
    /// Grows with each message under the key.
    pub sequence: u64,
    /// The keyed digest; a multiple of 4 bytes.
    pub digest: Vec<u8>,
}

impl Integrity {
    /// The sender answers challenges.
    pub const HANDSHAKE: u8 = 1;
    /// Offset of the digest in the object's body.
    pub(crate) const DIGEST_AT: usize = 16;
}

impl Body for Integrity {
    fn read(c_type: u8, from: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        if c_type != 1 {
            return Ok(None);
        }
        let flags = from.u8()?;
        from.u8()?;
        let key = u64::from(from.u16()?) << 32 | u64::from(from.u32()?);
        Ok(Some(Self { flags, key, sequence: from.u64()?, digest: from.rest().to_vec() }))
    }

    fn c_type(&self) -> u8 {
        1
    }

    fn write(&self, to: &mut Writer) {
        to.u8(self.flags);
        to.u8(0);
        to.u16((self.key >> 32) as u16);
        to.u32(self.key as u32);
        to.u64(self.sequence);
        to.put(&self.digest);
    }
}

/// Bytes that a receiver wants to get back with the key's digest, so that it can trust a new
/// sequence number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// 48 bits that name the key.
    pub key: u64,
    /// The challenger's cookie; a multiple of 4 bytes.
    pub cookie: Vec<u8>,
}

impl Body for Challenge {
    fn read(c_type: u8, from: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        if c_type != 1 {
            return Ok(None);
        }
        from.u16()?;
        let key = u64::from(from.u16()?) << 32 | u64::from(from.u32()?);
        Ok(Some(Self { key, cookie: from.rest().to_vec() }))
    }

    fn c_type(&self) -> u8 {
        1
    }

    fn write(&self, to: &mut Writer) {
        to.u16(0);
        to.u16((self.key >> 32) as u16);
        to.u32(self.key as u32);
        to.put(&self.cookie);
    }
}
