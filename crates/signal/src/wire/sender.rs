//! SENDER_TEMPLATE, class 11, and FILTER_SPEC, class 10: one LSP of a tunnel (RFC 3209, sections
//! 4.6.2 and 4.6.3).

use std::net::IpAddr;

use super::object::Body;
use super::{Malformed, Reader, Writer};

/// Names an LSP within its session; both classes have this body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sender {
    /// The head's address.
    pub address: IpAddr,
    /// The LSP's number in the session.
    pub lsp: u16,
}

impl Body for Sender {
    fn read(c_type: u8, from: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        let is_v6 = match c_type {
            7 => false,
            8 => true,
            _ => return Ok(None),
        };
        let address = from.address(is_v6)?;
        from.u16()?;
        Ok(Some(Self { address, lsp: from.u16()? }))
    }

    fn c_type(&self) -> u8 {
        if self.address.is_ipv6() { 8 } else { 7 }
    }

    fn write(&self, to: &mut Writer) {
        to.address(self.address);
        to.u16(0);
        to.u16(self.lsp);
    }
}
