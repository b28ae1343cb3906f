//! # Truncate
//!
//! ## Synopsis
//! `Truncate(LENGTH [, EXTRA_LENGTH])`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Cuts packets to at most LENGTH bytes.
//!
//! ## Arguments
//! - LENGTH: bytes.
//! - EXTRA_LENGTH (keyword): add the bytes cut off to the extra length annotation; default true.
//!
//! ## Handlers
//! - `nbytes` (read, write): LENGTH.
//!
//! ## See also
//! `Pad`, `Resize`

use crate::prelude::*;
use crate::shared::fields::Annotations;

/// Cuts packets.
#[derive(Default)]
pub(crate) struct Truncate {
    length: usize,
    extra: bool,
}

impl Class for Truncate {
    const INFO: ClassInfo = ClassInfo::new("Truncate", "1/1").inline();
}

impl Element for Truncate {
    arguments! { this, given;
        mandatory "LENGTH": usize => this.length;
        keyword "EXTRA_LENGTH": bool = true => this.extra;
    }

    fn process(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch {
            let count = packet.len().saturating_sub(self.length);
            if count > 0 && packet.take(count).is_some() && self.extra {
                packet.set_extra_length(packet.extra_length().saturating_add(count as u32));
            }
        }
    }

    handlers! { this, context, value; both "nbytes" => this.length; }
}

#[cfg(test)]
mod tests {
    use crate::shared::fields::Annotations;
    use crate::testing::Bench;

    #[test]
    fn cuts_and_notes_how_much() {
        for (arguments, extra) in [(&["2"][..], 3), (&["2", "EXTRA_LENGTH false"], 0)] {
            let mut bench = Bench::new("Truncate", arguments);
            assert_eq!(bench.push(0, &[b"abcde", b"a"]), [(0, b"ab".to_vec()), (0, b"a".to_vec())]);
            assert_eq!(bench.out[0].1.extra_length(), extra);
        }
    }
}
