//! Reads big-endian fields from bytes; every access is checked against the end.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Malformed;

/// The rest of an object or message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next `count` bytes.
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(Malformed::Short)?;
        self.bytes = rest;
        Ok(taken)
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.bytes.split_first_chunk::<N>().ok_or(Malformed::Short)?;
        self.bytes = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn v4(&mut self) -> Result<Ipv4Addr, Malformed> {
        self.array::<4>().map(Ipv4Addr::from)
    }

    pub(crate) fn v6(&mut self) -> Result<Ipv6Addr, Malformed> {
        self.array::<16>().map(Ipv6Addr::from)
    }

    /// An address of the C-Type's family.
    pub(crate) fn address(&mut self, is_v6: bool) -> Result<IpAddr, Malformed> {
        if is_v6 { self.v6().map(IpAddr::V6) } else { self.v4().map(IpAddr::V4) }
    }
}
