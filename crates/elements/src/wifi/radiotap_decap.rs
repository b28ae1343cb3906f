//! # RadiotapDecap
//!
//! ## Synopsis
//! `RadiotapDecap()`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Removes the radiotap header before an IEEE 802.11 frame, as monitor interfaces deliver it. It
//! also removes the frame's checksum if the header announces one. It records signal, noise, rate,
//! damage and retries as annotations. Packets without a valid header pass unchanged.
//!
//! ## Arguments
//! - DEBUG (keyword): accepted as in Click, without effect.
//!
//! ## Handlers
//! - `debug` (read, write): see the argument.
//!
//! ## See also
//! `RadiotapEncap`, `ExtraDecap`, `FilterPhyErr`, `FilterTX`

use super::Extra;
use super::extra::{DAMAGED, FAILED, SENT};
use crate::prelude::*;
use crate::shared::fields::bytes;

/// Size and alignment of the fields, by the bit of their presence.
const FIELDS: [(usize, usize); 22] = [
    (8, 8),
    (1, 1),
    (1, 1),
    (4, 2),
    (2, 1),
    (1, 1),
    (1, 1),
    (2, 2),
    (2, 2),
    (2, 2),
    (1, 1),
    (1, 1),
    (1, 1),
    (1, 1),
    (2, 2),
    (2, 2),
    (1, 1),
    (1, 1),
    (8, 4),
    (3, 1),
    (8, 4),
    (12, 2),
];

/// Removes radiotap headers.
#[derive(Default)]
pub(crate) struct RadiotapDecap {
    debug: bool,
}

impl Class for RadiotapDecap {
    const INFO: ClassInfo = ClassInfo::new("RadiotapDecap", "1/1");
}

/// The fields of a header, its length, and the bytes to remove from the end.
fn read(data: &[u8]) -> Option<(Extra, usize, usize)> {
    let [version, _, a, b] = bytes(data, 0)?;
    let header = data.get(..usize::from(u16::from_le_bytes([a, b])))?;
    if version != 0 || header.len() < 8 {
        return None;
    }
    let word = |number: usize| bytes(header, 4 + number * 4).map(u32::from_le_bytes);
    // A bit of each word says whether another word follows. The first word describes the fields.
    let words = (0..).map_while(word).position(|word| word >> 31 == 0)? + 1;
    let present = word(0)?;
    let (mut extra, mut at, mut taken) = (Extra::EMPTY, 4 + words * 4, 0);
    for (bit, (size, alignment)) in FIELDS.into_iter().enumerate() {
        if present >> bit & 1 == 0 {
            continue;
        }
        at = at.next_multiple_of(alignment);
        let field = header.get(at..at + size)?;
        at += size;
        let first = *field.first()?;
        match bit {
            1 => {
                extra.padded = first >> 5 & 1;
                taken = usize::from(first >> 4 & 1) * 4;
            }
            2 => extra.rates[0] = first,
            5 | 12 => extra.signal = first,
            6 | 13 => extra.noise = first,
            14 if first & 1 != 0 => extra.flags |= DAMAGED,
            15 => extra.flags |= if first & 1 == 0 { SENT } else { SENT | FAILED },
            17 => extra.retries = first,
            _ => {}
        }
    }
    Some((extra, header.len(), taken))
}

fn strip(packet: &mut Packet) {
    if let Some((extra, length, taken)) = read(packet.data())
        && packet.len() >= length + taken
    {
        // Both fit: that was asked.
        packet.take(taken);
        packet.pull(length);
        packet.set_mac_header(0);
        extra.store(packet);
    }
}

impl Element for RadiotapDecap {
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
