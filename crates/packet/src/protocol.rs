//! Protocol numbers, shared by IPv4 and IPv6.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Protocol of an IP packet's payload (IANA protocol numbers; IPv6 calls the
/// field Next Header). Can be matched against the constants.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(transparent)]
pub struct IpProtocol(pub u8);

#[allow(missing_docs)]
impl IpProtocol {
    pub const HOP_BY_HOP: Self = Self(0);
    pub const ICMP: Self = Self(1);
    pub const IGMP: Self = Self(2);
    pub const IPV4: Self = Self(4);
    pub const TCP: Self = Self(6);
    pub const UDP: Self = Self(17);
    pub const IPV6: Self = Self(41);
    pub const ROUTING: Self = Self(43);
    pub const FRAGMENT: Self = Self(44);
    pub const RSVP: Self = Self(46);
    pub const GRE: Self = Self(47);
    pub const ESP: Self = Self(50);
    pub const AUTHENTICATION: Self = Self(51);
    pub const ICMP6: Self = Self(58);
    pub const NO_NEXT: Self = Self(59);
    pub const DESTINATION_OPTIONS: Self = Self(60);
    pub const MOBILITY: Self = Self(135);
    pub const SCTP: Self = Self(132);
}
