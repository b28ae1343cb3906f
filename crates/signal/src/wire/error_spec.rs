//! ERROR_SPEC, class 6 (RFC 2205, appendix A.5).

use std::net::IpAddr;

use super::object::Body;
use super::{Malformed, Reader, Writer};

/// Place and cause of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorSpec {
    /// The node that found the error.
    pub node: IpAddr,
    /// [`ErrorSpec::IN_PLACE`], [`ErrorSpec::NOT_GUILTY`], [`ErrorSpec::PATH_STATE_REMOVED`].
    pub flags: u8,
    /// The failed object.
    pub cause: Cause,
}

/// Error code and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cause {
    /// The error code.
    pub code: u8,
    /// The error value.
    pub value: u16,
}

impl ErrorSpec {
    /// A reservation is still in place.
    pub const IN_PLACE: u8 = 1;
    /// A merged reservation of another sender failed.
    pub const NOT_GUILTY: u8 = 2;
    /// The node has removed its path state (RFC 3473, section 4.3).
    pub const PATH_STATE_REMOVED: u8 = 4;
}

/// The causes that this crate reports, as IANA numbers them.
impl Cause {
    const fn new(code: u8, value: u16) -> Self {
        Self { code, value }
    }

    /// RFC 2205, code 1: the delay bound cannot be met.
    pub const DELAY_BOUND: Self = Self::new(1, 1);
    /// RFC 2205, code 1: the requested bandwidth is unavailable.
    pub const BANDWIDTH: Self = Self::new(1, 2);
    /// RFC 2205, code 1: the flowspec's MTU exceeds the interface's.
    pub const MTU: Self = Self::new(1, 3);
    /// RFC 2750: policy control failure without details.
    pub const POLICY: Self = Self::new(2, 0);
    /// RFC 5711, section 2: the LSP is preempted, hard.
    pub const PREEMPTED: Self = Self::new(2, 5);
    /// RFC 2205: a Resv without path state.
    pub const NO_PATH: Self = Self::new(3, 0);
    /// RFC 2205: a Resv names no known sender.
    pub const NO_SENDER: Self = Self::new(4, 0);
    /// RFC 2205: the reservation's style conflicts with the existing one.
    pub const CONFLICTING_STYLE: Self = Self::new(5, 0);
    /// RFC 2205: the style is unknown or not supported.
    pub const UNKNOWN_STYLE: Self = Self::new(6, 0);
    /// RFC 2205: the service was preempted.
    pub const SERVICE_PREEMPTED: Self = Self::new(12, 0);
    /// RFC 2205, code 21: the service is not supported.
    pub const SERVICE_UNSUPPORTED: Self = Self::new(21, 2);
    /// RFC 2205, code 21: a value of the flowspec makes no sense.
    pub const BAD_FLOWSPEC: Self = Self::new(21, 3);
    /// RFC 2205, code 21: a value of the TSpec makes no sense.
    pub const BAD_TSPEC: Self = Self::new(21, 4);
    /// RFC 2205, code 22: the data plane refused.
    pub const TRAFFIC_CONTROL: Self = Self::new(22, 0);
    /// RFC 3209, code 24: a bad EXPLICIT_ROUTE.
    pub const BAD_ROUTE: Self = Self::new(24, 1);
    /// RFC 3209, code 24: a strict hop is no neighbour.
    pub const BAD_STRICT: Self = Self::new(24, 2);
    /// RFC 3209, code 24: a loose hop cannot be reached.
    pub const BAD_LOOSE: Self = Self::new(24, 3);
    /// RFC 3209, code 24: the first hop is not this node.
    pub const BAD_INITIAL: Self = Self::new(24, 4);
    /// RFC 3209, code 24: no route to the destination.
    pub const NO_ROUTE: Self = Self::new(24, 5);
    /// RFC 3209, code 24: the label cannot be used.
    pub const BAD_LABEL: Self = Self::new(24, 6);
    /// RFC 3209, code 24: the recorded route contains this node.
    pub const LOOP: Self = Self::new(24, 7);
    /// RFC 3209, code 24: a router on the path does not run RSVP.
    pub const NON_RSVP: Self = Self::new(24, 8);
    /// RFC 3209, code 24: no label is left.
    pub const NO_LABEL: Self = Self::new(24, 9);
    /// RFC 3209, code 24: the payload's protocol is not supported.
    pub const PROTOCOL: Self = Self::new(24, 10);
    /// RFC 5710 and 5712: the head is asked to move the LSP; soft preemption.
    pub const SOFT_PREEMPTION: Self = Self::new(34, 1);

    /// RFC 2205: an object class is unknown, although it must be understood.
    pub const fn unknown_class(class: u8, c_type: u8) -> Self {
        Self::new(13, (class as u16) << 8 | c_type as u16)
    }

    /// RFC 2205: an unknown C-Type of a known class.
    pub const fn unknown_c_type(class: u8, c_type: u8) -> Self {
        Self::new(14, (class as u16) << 8 | c_type as u16)
    }

    /// Whether a smaller reservation might succeed: admission control has refused.
    pub const fn is_admission(self) -> bool {
        self.code == 1
    }
}

impl Body for ErrorSpec {
    fn read(c_type: u8, from: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        let is_v6 = match c_type {
            1 => false,
            2 => true,
            _ => return Ok(None),
        };
        let node = from.address(is_v6)?;
        let (flags, code) = (from.u8()?, from.u8()?);
        Ok(Some(Self { node, flags, cause: Cause { code, value: from.u16()? } }))
    }

    fn c_type(&self) -> u8 {
        if self.node.is_ipv6() { 2 } else { 1 }
    }

    fn write(&self, to: &mut Writer) {
        to.address(self.node);
        to.u8(self.flags);
        to.u8(self.cause.code);
        to.u16(self.cause.value);
    }
}
