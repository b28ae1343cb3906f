//! # Prism2Decap
//!
//! ## Synopsis
//! `Prism2Decap()`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Removes the 144 bytes that drivers of Prism cards put before an IEEE 802.11 frame. It records
//! their contents as annotations: signal, noise, rate, whether this host sent the frame. Frames
//! without these bytes pass unchanged.
//!
//! ## Arguments
//! - DEBUG (keyword): accepted as in Click, without effect.
//!
//! ## Handlers
//! - `debug` (read, write): see the argument.
//!
//! ## See also
//! `ExtraDecap`, `RadiotapDecap`

use super::Extra;
use super::extra::SENT;
use crate::prelude::*;
use crate::shared::fields::bytes;

/// The message type of this header.
const FRAME: u32 = 0x44;
const HEADER: usize = 144;
/// Offsets of the values of these items, behind message, device name and each item's own header.
const SIGNAL: usize = 68;
const NOISE: usize = 104;
const RATE: usize = 116;
const IS_SENT: usize = 128;

/// Removes headers of Prism cards.
#[derive(Default)]
pub(crate) struct Prism2Decap {
    debug: bool,
}

impl Class for Prism2Decap {
    const INFO: ClassInfo = ClassInfo::new("Prism2Decap", "1/1");
}

/// A number in the byte order of this machine.
fn number(data: &[u8], at: usize) -> Option<u32> {
    bytes(data, at).map(u32::from_ne_bytes)
}

fn strip(packet: &mut Packet) -> Option<()> {
    let data = packet.data();
    if number(data, 0)? != FRAME || data.len() < HEADER {
        return None;
    }
    let mut extra = Extra::of(packet);
    // The fields have 32 bits, the annotations eight.
    let low = |at| number(data, at).map(|value| value as u8);
    (extra.signal, extra.noise) = (low(SIGNAL)?, low(NOISE)?);
    extra.rates[0] = low(RATE)?;
    extra.flags = extra.flags & !SENT | if number(data, IS_SENT)? == 0 { 0 } else { SENT };
    packet.pull(HEADER)?;
    extra.store(packet);
    Some(())
}

impl Element for Prism2Decap {
    arguments! { this, given;
        keyword "DEBUG": bool = false => this.debug;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            strip(packet);
        }
    }

    handlers! { this, context, value; both "debug" [CHECKBOX] => this.debug; }
}
