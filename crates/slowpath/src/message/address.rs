//! Address families, addresses, and next routers.

/// `AF_INET`, `AF_INET6` and `AF_MPLS`.
pub(crate) const INET: u8 = 2;
pub(crate) const INET6: u8 = 10;
pub(crate) const MPLS: u8 = 28;

/// An IP address of either family as a number.
pub(crate) trait Address: Copy + Eq + Ord + std::hash::Hash + std::fmt::Debug {
    /// The family's number.
    const FAMILY: u8;
    /// Number of bits.
    const BITS: u8;
    /// From network order; `None` for another family.
    fn from_octets(octets: &[u8]) -> Option<Self>;
    /// In the usual notation.
    fn write(self, to: &mut String);
    /// The address with all but its first `bits` bits cleared.
    fn masked(self, bits: u8) -> Self;
}

impl Address for u32 {
    const FAMILY: u8 = INET;
    const BITS: u8 = 32;

    fn from_octets(octets: &[u8]) -> Option<u32> {
        octets.try_into().ok().map(u32::from_be_bytes)
    }

    fn write(self, to: &mut String) {
        use std::fmt::Write as _;
        let _ = write!(to, "{}", std::net::Ipv4Addr::from(self));
    }

    fn masked(self, bits: u8) -> u32 {
        self & !u32::MAX.checked_shr(bits.into()).unwrap_or(0)
    }
}

impl Address for u128 {
    const FAMILY: u8 = INET6;
    const BITS: u8 = 128;

    fn from_octets(octets: &[u8]) -> Option<u128> {
        octets.try_into().ok().map(u128::from_be_bytes)
    }

    fn write(self, to: &mut String) {
        use std::fmt::Write as _;
        let _ = write!(to, "{}", std::net::Ipv6Addr::from(self));
    }

    fn masked(self, bits: u8) -> u128 {
        self & !u128::MAX.checked_shr(bits.into()).unwrap_or(0)
    }
}

/// The next router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Gateway<A> {
    /// There is no next hop: the destinations are neighbours.
    None,
    /// One of the route's own family.
    Own(A),
    /// An IPv6 router of an IPv4 route.
    V6(u128),
}

impl<A: Address> Gateway<A> {
    /// From network order.
    pub(crate) fn from_octets(octets: &[u8]) -> Option<Gateway<A>> {
        match A::from_octets(octets) {
            Some(address) => Some(Gateway::Own(address)),
            None if A::FAMILY == INET => u128::from_octets(octets).map(Gateway::V6),
            None => None,
        }
    }

    /// From the attribute `RTA_VIA`: family and address.
    pub(super) fn from_via(via: &[u8]) -> Option<Gateway<A>> {
        Gateway::from_octets(via.get(2..)?)
    }
}
