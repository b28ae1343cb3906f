//! # RadiotapEncap
//!
//! ## Synopsis
//! `RadiotapEncap()`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Puts a radiotap header before each IEEE 802.11 frame, with the annotations for the radio: rate,
//! power, whether to wait for an acknowledgement, tries. Monitor interfaces of Linux require it.
//!
//! ## Arguments
//! - DEBUG (keyword): accepted as in Click, without effect.
//!
//! ## Handlers
//! - `debug` (read, write): see the argument.
//! - `drops` (read): frames without room for it.
//!
//! ## See also
//! `RadiotapDecap`, `ExtraEncap`, `SetTXRate`, `SetTXPower`

use super::Extra;
use super::extra::NO_ACKNOWLEDGEMENT;
use crate::prelude::*;
use crate::shared::fields::{grow_front, set};

/// With an unused byte at the end, as in Click.
const HEADER: usize = 14;
/// Bits of rate, power, flags and retries.
const PRESENT: u32 = 1 << 2 | 1 << 10 | 1 << 15 | 1 << 17;

/// Puts radiotap headers before frames.
#[derive(Default)]
pub(crate) struct RadiotapEncap {
    debug: bool,
    drops: u64,
}

impl Class for RadiotapEncap {
    const INFO: ClassInfo = ClassInfo::new("RadiotapEncap", "1/1");
}

fn encap(packet: &mut Packet) -> Option<()> {
    let extra = Extra::of(packet);
    let header = grow_front(packet, HEADER)?;
    let flags: u16 = if extra.has(NO_ACKNOWLEDGEMENT) { 8 } else { 0 };
    let retries = extra.tries[0].checked_sub(1).unwrap_or(12);
    set(header, 2, (HEADER as u16).to_le_bytes());
    set(header, 4, PRESENT.to_le_bytes());
    set(header, 8, [extra.rates[0], extra.power]);
    set(header, 10, flags.to_le_bytes());
    set(header, 12, [retries]);
    Some(())
}

impl Element for RadiotapEncap {
    arguments! { this, given;
        keyword "DEBUG": bool = false => this.debug;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        let mut drops = 0;
        batch.filter(|packet| encap(packet).is_some(), |_| drops += 1);
        self.drops += drops;
    }

    handlers! { this, context, value;
        both "debug" [CHECKBOX] => this.debug;
        read "drops" => this.drops;
    }
}
