//! HELLO, class 22 (RFC 3209, section 5.2); RESTART_CAP, class 131 (RFC 3473, section 9.1); CAPABILITY,
//! class 134 (RFC 5063, section 4.2, and RFC 8370, sections 2.1 and 3.1).

use super::object::Body;
use super::{Malformed, Reader, Writer};

/// One side of a Hello exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Whether it answers a request.
    pub is_ack: bool,
    /// The sender's instance; never 0.
    pub source: u32,
    /// The last instance received from the receiver of this message; 0 if none.
    pub destination: u32,
}

impl Body for Hello {
    fn read(c_type: u8, from: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        match c_type {
            1 | 2 => {
                let source = from.u32()?;
                Ok(Some(Self { is_ack: c_type == 2, source, destination: from.u32()? }))
            }
            _ => Ok(None),
        }
    }

    fn c_type(&self) -> u8 {
        if self.is_ack { 2 } else { 1 }
    }

    fn write(&self, to: &mut Writer) {
        to.u32(self.source);
        to.u32(self.destination);
    }
}

/// The times that a node needs to restart and to recover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartCap {
    /// Time until the node sends Hellos again; 0xffff_ffff is unlimited.
    pub restart_ms: u32,
    /// Time until its neighbours have returned its state; 0 means that no state survived, or that
    /// none needs recovery.
    pub recovery_ms: u32,
}

impl Body for RestartCap {
    fn read(c_type: u8, from: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        if c_type != 1 {
            return Ok(None);
        }
        let restart_ms = from.u32()?;
        Ok(Some(Self { restart_ms, recovery_ms: from.u32()? }))
    }

    fn c_type(&self) -> u8 {
        1
    }

    fn write(&self, to: &mut Writer) {
        to.u32(self.restart_ms);
        to.u32(self.recovery_ms);
    }
}

/// A node's capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability(
    /// The constants below.
    pub u32,
);

impl Capability {
    /// The node accepts Srefresh in place of RecoveryPath.
    pub const RECOVERY_SREFRESH: u32 = 0x01;
    /// The node requests RecoveryPath messages.
    pub const RECOVERY_DESIRED: u32 = 0x02;
    /// The node sends RecoveryPath messages.
    pub const RECOVERY_SENT: u32 = 0x04;
    /// State does not depend on refresh intervals (RFC 8370, section 3.1).
    pub const REFRESH_INDEPENDENT: u32 = 0x08;
    /// Flow control for each neighbour (RFC 8370, section 2.3).
    pub const FLOW_CONTROL: u32 = 0x10;
}

impl Body for Capability {
    fn read(c_type: u8, from: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        if c_type != 1 { Ok(None) } else { Ok(Some(Self(from.u32()?))) }
    }

    fn c_type(&self) -> u8 {
        1
    }

    fn write(&self, to: &mut Writer) {
        to.u32(self.0);
    }
}
