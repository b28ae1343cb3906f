//! RECORD_ROUTE, class 21 (RFC 3209, section 4.4).

use std::net::IpAddr;

use super::explicit_route::{read_part, write_part};
use super::object::Body;
use super::{Malformed, Reader, Writer};

/// The path that the message has taken; the latest node comes first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordRoute(
    /// Addresses, each followed by its label.
    pub Vec<RecordedHop>,
);

/// A part of a recorded route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordedHop {
    /// A node's address.
    Address {
        /// Address of the interface, or of the node.
        address: IpAddr,
        /// Length of the prefix, in bits.
        bits: u8,
        /// Bits such as [`RecordedHop::PREEMPTION_PENDING`].
        flags: u8,
    },
    /// A label.
    Label {
        /// [`RecordedHop::GLOBAL`] or 0.
        flags: u8,
        /// The C-Type of its LABEL object.
        c_type: u8,
        /// The label.
        label: u32,
    },
    /// Any other type, and its body of 4n + 2 bytes.
    Other(u8, Vec<u8>),
}

impl RecordedHop {
    /// The LSP is oversubscribed here and will be preempted (RFC 5712, section 4).
    pub const PREEMPTION_PENDING: u8 = 0x10;
    /// The label is valid on every interface of the node.
    pub const GLOBAL: u8 = 0x01;

    /// A host address.
    pub fn host(address: IpAddr, flags: u8) -> Self {
        Self::Address { address, bits: if address.is_ipv6() { 128 } else { 32 }, flags }
    }
}

impl RecordRoute {
    /// Whether one of these addresses is recorded.
    pub fn contains(&self, mut is_own: impl FnMut(IpAddr) -> bool) -> bool {
        self.0
            .iter()
            .any(|hop| matches!(hop, RecordedHop::Address { address, .. } if is_own(*address)))
    }
}

impl Body for RecordRoute {
    fn read(c_type: u8, from: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        if c_type != 1 {
            return Ok(None);
        }
        let mut hops = Vec::new();
        while !from.is_empty() {
            let (kind, mut body) = read_part(from)?;
            hops.push(match (kind, body.len()) {
                (1, 6) | (2, 18) => RecordedHop::Address {
                    address: body.address(kind == 2)?,
                    bits: body.u8()?,
                    flags: body.u8()?,
                },
                (3, 6) => {
                    RecordedHop::Label { flags: body.u8()?, c_type: body.u8()?, label: body.u32()? }
                }
                _ => RecordedHop::Other(kind, body.rest().to_vec()),
            });
        }
        Ok(Some(Self(hops)))
    }

    fn c_type(&self) -> u8 {
        1
    }

    fn write(&self, to: &mut Writer) {
        for hop in &self.0 {
            match hop {
                RecordedHop::Address { address, bits, flags } => {
                    write_part(to, if address.is_ipv6() { 2 } else { 1 }, |to| {
                        to.address(*address);
                        to.u8(*bits);
                        to.u8(*flags);
                    });
                }
                RecordedHop::Label { flags, c_type, label } => write_part(to, 3, |to| {
                    to.u8(*flags);
                    to.u8(*c_type);
                    to.u32(*label);
                }),
                RecordedHop::Other(kind, body) => write_part(to, *kind, |to| to.put(body)),
            }
        }
    }
}
