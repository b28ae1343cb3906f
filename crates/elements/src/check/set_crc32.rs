//! # SetCRC32
//!
//! ## Synopsis
//! `SetCRC32`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Adds a CRC-32 (that of Ethernet) at the end of each packet. Packets with no room for it are
//! dropped.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `CheckCRC32`

use super::check_crc32::crc32;
use crate::prelude::*;
use crate::shared::fields::{grow_tail, set};

/// Adds a CRC.
#[derive(Default)]
pub(crate) struct SetCRC32;

impl Class for SetCRC32 {
    const INFO: ClassInfo = ClassInfo::new("SetCRC32", "1/1").inline();
}

impl Element for SetCRC32 {
    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        batch.retain(|packet| {
            let (end, crc) = (packet.len(), crc32(packet.data()));
            grow_tail(packet, 4).is_some() && set(packet.data_mut(), end, crc.to_le_bytes())
        });
    }
}
