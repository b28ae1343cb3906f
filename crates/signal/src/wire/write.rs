//! Writes big-endian fields and objects.

use std::net::IpAddr;

/// A message that grows.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.put(&value.to_be_bytes());
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(address) => self.put(&address.octets()),
            IpAddr::V6(address) => self.put(&address.octets()),
        }
    }

    /// Appends zeros up to the next multiple of four bytes since `from`.
    pub(crate) fn pad(&mut self, from: usize) {
        while !(self.bytes.len() - from).is_multiple_of(4) {
            self.bytes.push(0);
        }
    }

    /// Overwrites two bytes, for example a length that was unknown before.
    pub(crate) fn set_u16(&mut self, at: usize, value: u16) {
        self.bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}
