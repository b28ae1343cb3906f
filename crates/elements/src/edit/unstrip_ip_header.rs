//! # UnstripIPHeader
//!
//! ## Synopsis
//! `UnstripIPHeader`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Restores an IP header that `StripIPHeader` has removed: moves the start of each packet to its
//! network header, if that lies before it.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `StripIPHeader`

use super::start_at;
use crate::prelude::*;

/// Brings back the IP header.
#[derive(Default)]
pub(crate) struct UnstripIPHeader;

impl Class for UnstripIPHeader {
    const INFO: ClassInfo = ClassInfo::new("UnstripIPHeader", "1/1").inline();
}

impl Element for UnstripIPHeader {
    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            start_at(packet, packet.network_offset().filter(|offset| *offset < 0));
        }
    }
}
