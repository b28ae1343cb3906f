//! MESSAGE_ID, class 23; MESSAGE_ID_ACK and NACK, class 24; MESSAGE_ID LIST, class 25 (RFC 2961,
//! sections 4.1 to 4.3 and 5.1).

use super::object::Body;
use super::{Malformed, Reader, Writer};

/// Names a message of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    /// [`MessageId::ACK_DESIRED`] or 0; 8 bits.
    pub flags: u8,
    /// The epoch, which changes when the neighbour restarts; 24 bits.
    pub epoch: u32,
    /// The number.
    pub id: u32,
}

impl MessageId {
    /// The sender requests an acknowledgement.
    pub const ACK_DESIRED: u8 = 1;
}

fn read_epoch(from: &mut Reader<'_>) -> Result<(u8, u32), Malformed> {
    let word = from.u32()?;
    Ok(((word >> 24) as u8, word & 0x00ff_ffff))
}

fn write_epoch(to: &mut Writer, flags: u8, epoch: u32) {
    to.u32(u32::from(flags) << 24 | epoch & 0x00ff_ffff);
}

impl Body for MessageId {
    fn read(c_type: u8, from: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        if c_type != 1 {
            return Ok(None);
        }
        let (flags, epoch) = read_epoch(from)?;
        Ok(Some(Self { flags, epoch, id: from.u32()? }))
    }

    fn c_type(&self) -> u8 {
        1
    }

    fn write(&self, to: &mut Writer) {
        write_epoch(to, self.flags, self.epoch);
        to.u32(self.id);
    }
}

/// Acknowledges a message, or reports that its state is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageIdAck {
    /// The id of a summary refresh is unknown to the sender.
    pub is_nack: bool,
    /// Of the message.
    pub epoch: u32,
    /// Of the message.
    pub id: u32,
}

impl Body for MessageIdAck {
    fn read(c_type: u8, from: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        match c_type {
            1 | 2 => {
                let (_, epoch) = read_epoch(from)?;
                Ok(Some(Self { is_nack: c_type == 2, epoch, id: from.u32()? }))
            }
            _ => Ok(None),
        }
    }

    fn c_type(&self) -> u8 {
        if self.is_nack { 2 } else { 1 }
    }

    fn write(&self, to: &mut Writer) {
        write_epoch(to, 0, self.epoch);
        to.u32(self.id);
    }
}

/// Messages whose state a summary refresh refreshes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageIdList {
    /// Of the neighbour.
    pub epoch: u32,
    /// The numbers.
    pub ids: Vec<u32>,
}

impl Body for MessageIdList {
    fn read(c_type: u8, from: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        if c_type != 1 {
            return Ok(None);
        }
        let (_, epoch) = read_epoch(from)?;
        let mut ids = Vec::with_capacity(from.len() / 4);
        while !from.is_empty() {
            ids.push(from.u32()?);
        }
        Ok(Some(Self { epoch, ids }))
    }

    fn c_type(&self) -> u8 {
        1
    }

    fn write(&self, to: &mut Writer) {
        write_epoch(to, 0, self.epoch);
        self.ids.iter().for_each(|id| to.u32(*id));
    }
}
