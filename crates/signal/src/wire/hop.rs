//! RSVP_HOP, class 3 (RFC 2205, appendix A.2).

use std::net::IpAddr;

use super::object::Body;
use super::{Malformed, Reader, Writer};

/// The neighbour that sent a message, and its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hop {
    /// The neighbour's address.
    pub address: IpAddr,
    /// The logical interface handle; a Resv returns the handle of the Path.
    pub handle: u32,
}

impl Body for Hop {
    fn read(c_type: u8, from: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        let is_v6 = match c_type {
            1 => false,
            2 => true,
            _ => return Ok(None),
        };
        Ok(Some(Self { address: from.address(is_v6)?, handle: from.u32()? }))
    }

    fn c_type(&self) -> u8 {
        if self.address.is_ipv6() { 2 } else { 1 }
    }

    fn write(&self, to: &mut Writer) {
        to.address(self.address);
        to.u32(self.handle);
    }
}
