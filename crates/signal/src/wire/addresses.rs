//! SCOPE, class 7 (RFC 2205, appendix A.6), and RESV_CONFIRM, class 15 (appendix A.14).

use std::net::IpAddr;

use super::object::Body;
use super::{Malformed, Reader, Writer};

/// The senders that a wildcard reservation is for; an empty list counts as IPv4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope(
    /// All of one family.
    pub Vec<IpAddr>,
);

impl Body for Scope {
    fn read(c_type: u8, from: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        let is_v6 = match c_type {
            1 => false,
            2 => true,
            _ => return Ok(None),
        };
        let mut senders = Vec::new();
        while !from.is_empty() {
            senders.push(from.address(is_v6)?);
        }
        // An empty list has no family, so the C-Type of IPv6 could not be encoded again.
        if senders.is_empty() && is_v6 { Err(Malformed::Short) } else { Ok(Some(Self(senders))) }
    }

    fn c_type(&self) -> u8 {
        if self.0.first().is_some_and(IpAddr::is_ipv6) { 2 } else { 1 }
    }

    fn write(&self, to: &mut Writer) {
        self.0.iter().for_each(|sender| to.address(*sender));
    }
}

/// The receiver that asks for a confirmation of its reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirm(
    /// Its address.
    pub IpAddr,
);

impl Body for Confirm {
    fn read(c_type: u8, from: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        match c_type {
            1 | 2 => from.address(c_type == 2).map(|address| Some(Self(address))),
            _ => Ok(None),
        }
    }

    fn c_type(&self) -> u8 {
        if self.0.is_ipv6() { 2 } else { 1 }
    }

    fn write(&self, to: &mut Writer) {
        to.address(self.0);
    }
}
