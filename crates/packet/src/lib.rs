//! Headers, checksums and addresses.
//!
//! Each protocol has one module, and all modules have the same structure: a header type that is a
//! view of the packet's own bytes (see [`Header`]), the protocol's constants, and, if the header
//! has a variable part, a bounded iterator over it. Fields that are numbers are big-endian types of
//! [`zerocopy`]: `header.ttl`, `header.id.get()`, `header.id.set(7)`.
//!
//! Nothing on the packet path allocates, panics or contains `unsafe`; bytes that
//! are too short or malformed give `None` or a [`ParseError`]. Only [`frame`],
//! which builds whole frames for tests, allocates.
//!
//! ```
//! use europa_packet::{EtherType, EthernetHeader, Header, Ipv4Header};
//!
//! fn ttl(frame: &[u8]) -> Option<u8> {
//!     let (ethernet, rest) = EthernetHeader::parse(frame)?;
//!     match ethernet.ether_type {
//!         EtherType::IPV4 => Some(Ipv4Header::parse(rest)?.0.ttl),
//!         _ => None,
//!     }
//! }
//! # assert_eq!(ttl(&[0; 60]), None);
//! ```

pub mod arp;
pub mod checksum;
pub mod ethernet;
pub mod frame;
mod header;
pub mod icmp;
pub mod icmp6;
pub mod ipv4;
pub mod ipv6;
pub mod mpls;
pub mod prefix;
mod protocol;
pub mod tcp;
pub mod udp;
pub mod vxlan;

pub use arp::ArpPacket;
pub use ethernet::{EtherType, EthernetHeader, MacAddr, VlanTag};
pub use frame::Frame;
pub use header::{Header, ParseError};
pub use icmp::IcmpHeader;
pub use icmp6::Icmp6Header;
pub use ipv4::{Ipv4Header, Ipv4Packet};
pub use ipv6::{Ipv6Header, Ipv6Packet};
pub use mpls::LabelEntry;
pub use prefix::{Ipv4Prefix, Ipv6Prefix, PrefixError};
pub use protocol::IpProtocol;
pub use tcp::TcpHeader;
pub use udp::UdpHeader;
pub use vxlan::VxlanHeader;
