//! SESSION, class 1: LSP_TUNNEL_IPv4 and LSP_TUNNEL_IPv6 (RFC 3209, section 4.6.1).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::object::Body;
use super::{Malformed, Reader, Writer};

/// The common part of all LSPs of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session {
    /// The tunnel's end point.
    pub destination: IpAddr,
    /// The tunnel's number at its head.
    pub tunnel: u16,
    /// Usually the head's address; of the same family as `destination`.
    pub extended: IpAddr,
}

impl Session {
    /// A session whose extended tunnel id is the head's address.
    pub fn new(destination: IpAddr, tunnel: u16, head: IpAddr) -> Self {
        let extended = match (destination, head) {
            (IpAddr::V4(_), IpAddr::V6(_)) => Ipv4Addr::UNSPECIFIED.into(),
            (IpAddr::V6(_), IpAddr::V4(_)) => Ipv6Addr::UNSPECIFIED.into(),
            (_, head) => head,
        };
        Self { destination, tunnel, extended }
    }
}

impl Body for Session {
    fn read(c_type: u8, from: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        let is_v6 = match c_type {
            7 => false,
            8 => true,
            _ => return Ok(None),
        };
        let destination = from.address(is_v6)?;
        from.u16()?;
        let tunnel = from.u16()?;
        Ok(Some(Self { destination, tunnel, extended: from.address(is_v6)? }))
    }

    fn c_type(&self) -> u8 {
        if self.destination.is_ipv6() { 8 } else { 7 }
    }

    fn write(&self, to: &mut Writer) {
        to.address(self.destination);
        to.u16(0);
        to.u16(self.tunnel);
        to.address(self.extended);
    }
}
