//! EXPLICIT_ROUTE, class 20 (RFC 3209, section 4.3).

use std::net::{IpAddr, Ipv4Addr};

use super::object::Body;
use super::{Malformed, Reader, Writer};

/// Hops that the LSP passes, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExplicitRoute(
    /// The hops. The first one is the receiver of the Path, or the next node.
    pub Vec<ExplicitHop>,
);

/// An abstract node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplicitHop {
    /// Other nodes may lie between the preceding hop and this one.
    pub is_loose: bool,
    /// Which nodes.
    pub node: AbstractNode,
}

/// The kind of a hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AbstractNode {
    /// Nodes that have an address in this prefix; at most 32 bits for IPv4, 128 for IPv6.
    Prefix(IpAddr, u8),
    /// An autonomous system.
    AutonomousSystem(u16),
    /// A link without addresses (RFC 3477): router and interface.
    Unnumbered(Ipv4Addr, u32),
    /// Any other type, and its body of 4n + 2 bytes.
    Other(u8, Vec<u8>),
}

impl ExplicitHop {
    /// A host route to a neighbour.
    pub fn strict(address: IpAddr) -> Self {
        let bits = if address.is_ipv6() { 128 } else { 32 };
        Self { is_loose: false, node: AbstractNode::Prefix(address, bits) }
    }

    /// A host route to a node that need not be a neighbour.
    pub fn loose(address: IpAddr) -> Self {
        Self { is_loose: true, ..Self::strict(address) }
    }
}

/// A subobject's first byte and body.
pub(super) fn read_part<'a>(from: &mut Reader<'a>) -> Result<(u8, Reader<'a>), Malformed> {
    let (kind, length) = (from.u8()?, usize::from(from.u8()?));
    // RFC 3209, section 4.3.3: the length is at least 4 and a multiple of 4.
    if length < 4 || !length.is_multiple_of(4) {
        return Err(Malformed::Length);
    }
    from.take(length - 2).map(|body| (kind, Reader::new(body)))
}

/// Writes a subobject; its body has at most 253 bytes.
pub(super) fn write_part(to: &mut Writer, kind: u8, body: impl FnOnce(&mut Writer)) {
    let from = to.len();
    to.u8(kind);
    let mut inner = Writer::default();
    body(&mut inner);
    let bytes = inner.as_slice();
    // 250 + 2 is the longest multiple of 4 that fits into the length byte.
    let bytes = &bytes[..bytes.len().min(250)];
    to.u8((bytes.len() + 2).next_multiple_of(4) as u8);
    to.put(bytes);
    to.pad(from);
}

impl Body for ExplicitRoute {
    fn read(c_type: u8, from: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        if c_type != 1 {
            return Ok(None);
        }
        let mut hops = Vec::new();
        while !from.is_empty() {
            let (first, mut body) = read_part(from)?;
            let node = match (first & 0x7f, body.len()) {
                (1, 6) | (2, 18) => {
                    let kind = first & 0x7f;
                    let address = body.address(kind == 2)?;
                    let bits = body.u8()?;
                    if bits > if kind == 2 { 128 } else { 32 } {
                        return Err(Malformed::Length);
                    }
                    AbstractNode::Prefix(address, bits)
                }
                (32, 2) => AbstractNode::AutonomousSystem(body.u16()?),
                (4, 10) => {
                    body.u16()?;
                    AbstractNode::Unnumbered(body.v4()?, body.u32()?)
                }
                (kind, _) => AbstractNode::Other(kind, body.rest().to_vec()),
            };
            hops.push(ExplicitHop { is_loose: first & 0x80 != 0, node });
        }
        Ok(Some(Self(hops)))
    }

    fn c_type(&self) -> u8 {
        1
    }

    fn write(&self, to: &mut Writer) {
        for ExplicitHop { is_loose, node } in &self.0 {
            let loose = if *is_loose { 0x80 } else { 0 };
            match node {
                AbstractNode::Prefix(address, bits) => {
                    write_part(to, loose | if address.is_ipv6() { 2 } else { 1 }, |to| {
                        to.address(*address);
                        to.u8(*bits);
                        to.u8(0);
                    });
                }
                AbstractNode::AutonomousSystem(number) => {
                    write_part(to, loose | 32, |to| to.u16(*number));
                }
                AbstractNode::Unnumbered(router, interface) => write_part(to, loose | 4, |to| {
                    to.u16(0);
                    to.put(&router.octets());
                    to.u32(*interface);
                }),
                AbstractNode::Other(kind, body) => {
                    write_part(to, loose | kind & 0x7f, |to| to.put(body));
                }
            }
        }
    }
}
