//! Identifiers of the signaller's objects, and its clock.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use crate::wire::{Sender, Session};

/// A time of the caller's monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(Duration);

impl Time {
    /// The time this long after the clock's origin.
    pub const fn after(since_origin: Duration) -> Self {
        Self(since_origin)
    }

    /// Since the clock's origin.
    pub const fn since_origin(self) -> Duration {
        self.0
    }

    /// Time since `earlier`; 0 if it is in the future.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl std::ops::Add<Duration> for Time {
    type Output = Self;

    fn add(self, later: Duration) -> Self {
        Self(self.0.saturating_add(later))
    }
}

/// An interface of this router. Its number is also its logical interface handle (RFC 2205, appendix
/// A.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceId(pub u32);

/// A neighbour on one interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Adjacency {
    /// The interface behind which the neighbour is.
    pub interface: InterfaceId,
    /// Its address there.
    pub address: IpAddr,
}

/// An LSP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LspKey {
    /// Its tunnel.
    pub session: Session,
    /// Its number in the tunnel.
    pub sender: Sender,
}

impl fmt::Display for LspKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { session, sender } = self;
        write!(f, "{}->{}/{}.{}", sender.address, session.destination, session.tunnel, sender.lsp)
    }
}

/// A 20-bit MPLS label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(u32);

impl Label {
    /// RFC 3032: the payload below this label is IPv4.
    pub const EXPLICIT_NULL_V4: Self = Self(0);
    /// RFC 3032: the payload below this label is IPv6.
    pub const EXPLICIT_NULL_V6: Self = Self(2);
    /// RFC 3032: this label is never sent; the router before the last one pops.
    pub const IMPLICIT_NULL: Self = Self(3);
    /// The first that is not reserved.
    pub const FIRST: Self = Self(16);
    /// The last of 20 bits.
    pub const LAST: Self = Self(0xf_ffff);

    /// A label that a neighbour may assign: 0, 2, 3, or 16 to 1,048,575. All others are reserved
    /// (RFC 3032, section 2.1) or have more than 20 bits.
    pub const fn new(value: u32) -> Option<Self> {
        match value {
            0 | 2 | 3 | 16..=0xf_ffff => Some(Self(value)),
            _ => None,
        }
    }

    /// Its number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Whether it is an unreserved label, which a label table can contain.
    pub const fn is_allocated(self) -> bool {
        self.0 >= Self::FIRST.0
    }
}

/// Names a change of the data plane until it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);
