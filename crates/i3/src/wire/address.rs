//! Addresses of triggers and senders.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use super::{MOST_IDS, Reader, WireError};
use crate::id::Id;

const STACK: u8 = 0x10;
const V4: u8 = 0x20;
const V6: u8 = 0x30;
const V4_NAT: u8 = 0x40;

/// The destination of a trigger, or a sender's address for answers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// Ids, at most 15: the packet is sent to the first of them.
    Stack(Vec<Id>),
    /// A host.
    V4(SocketAddrV4),
    /// A host. Flow and scope are 0.
    V6(SocketAddrV6),
    /// A host behind a NAT.
    Nat {
        /// Its private address.
        host: SocketAddrV4,
        /// Its address behind the NAT.
        nat: SocketAddrV4,
        /// The server to which the host sends its packets, and whose packets the NAT accepts.
        server: SocketAddrV4,
    },
}

impl From<SocketAddr> for Address {
    fn from(at: SocketAddr) -> Address {
        match at {
            SocketAddr::V4(at) => Address::V4(at),
            SocketAddr::V6(at) => match at.ip().to_ipv4_mapped() {
                Some(ip) => Address::V4(SocketAddrV4::new(ip, at.port())),
                None => Address::V6(SocketAddrV6::new(*at.ip(), at.port(), 0, 0)),
            },
        }
    }
}

impl Address {
    /// The host's address; `None` for a stack or a host behind a NAT.
    pub fn host(&self) -> Option<SocketAddr> {
        match self {
            Address::V4(at) => Some((*at).into()),
            Address::V6(at) => Some((*at).into()),
            Address::Stack(_) | Address::Nat { .. } => None,
        }
    }

    /// Whether both are the same target. For a host behind a NAT, the server that reaches it does
    /// not count.
    pub fn is_same(&self, other: &Address) -> bool {
        match (self, other) {
            (Address::Nat { host, nat, .. }, Address::Nat { host: a, nat: b, .. }) => {
                (host, nat) == (a, b)
            }
            _ => self == other,
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Address, WireError> {
        match reader.byte("the type of an address")? {
            STACK => reader.stack().map(Address::Stack),
            V4 => read_v4(reader).map(Address::V4),
            V6 => {
                let ip: [u8; 16] = reader.array("an IPv6 address")?;
                let port = reader.u16("a port")?;
                Ok(Address::V6(SocketAddrV6::new(ip.into(), port, 0, 0)))
            }
            V4_NAT => {
                let host = read_v4(reader)?;
                Ok(Address::Nat { host, nat: read_v4(reader)?, server: read_v4(reader)? })
            }
            other => Err(WireError::Address(other)),
        }
    }

    pub(crate) fn write(&self, wide: bool, out: &mut Vec<u8>) {
        match self {
            Address::Stack(ids) => {
                out.push(STACK);
                write_stack(ids, out);
            }
            Address::V4(at) => {
                out.push(V4);
                write_v4(at, wide, out);
            }
            Address::V6(at) => {
                out.push(V6);
                out.extend(at.ip().octets());
                out.extend(at.port().to_be_bytes());
            }
            Address::Nat { host, nat, server } => {
                out.push(V4_NAT);
                [host, nat, server].into_iter().for_each(|at| write_v4(at, wide, out));
            }
        }
    }
}

fn read_v4(reader: &mut Reader<'_>) -> Result<SocketAddrV4, WireError> {
    let ip: [u8; 4] = reader.array("an IPv4 address")?;
    if reader.wide && reader.array("the second half of an IPv4 address")? != [0; 4] {
        return Err(WireError::WideAddress);
    }
    Ok(SocketAddrV4::new(Ipv4Addr::from(ip), reader.u16("a port")?))
}

fn write_v4(at: &SocketAddrV4, wide: bool, out: &mut Vec<u8>) {
    out.extend(at.ip().octets());
    if wide {
        out.extend([0; 4]);
    }
    out.extend(at.port().to_be_bytes());
}

/// Writes at most 15 ids.
pub(crate) fn write_stack(ids: &[Id], out: &mut Vec<u8>) {
    let ids = &ids[..ids.len().min(MOST_IDS)];
    out.push(ids.len() as u8);
    ids.iter().for_each(|id| out.extend(id.0));
}
