//! # HashSwitch
//!
//! ## Synopsis
//! `HashSwitch(OFFSET, LENGTH)`
//!
//! ## Ports
//! One push input, any number of push outputs.
//!
//! ## Description
//! Chooses each packet's output by LENGTH of its bytes from OFFSET on: packets with the same bytes
//! there leave by the same output. Shorter packets leave by output 0.
//!
//! ## Arguments
//! - OFFSET: bytes from the start.
//! - LENGTH: bytes, at least 1.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `RoundRobinSwitch`, `RandomSwitch`

use crate::prelude::*;

/// Sorts packets by a hash.
#[derive(Default)]
pub(crate) struct HashSwitch {
    offset: usize,
    length: usize,
}

impl Class for HashSwitch {
    const INFO: ClassInfo = ClassInfo::new("HashSwitch", "1/1-").processing("h/h").inline();
}

impl Element for HashSwitch {
    arguments! { this, given;
        mandatory "OFFSET": usize => this.offset;
        mandatory "LENGTH": usize => this.length;
        then {
            if this.length == 0 {
                return Err(ConfigError::at(1, "length must be > 0"));
            }
        }
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let outputs = context.outputs().max(1);
        let end = self.offset.saturating_add(self.length);
        context.push_each(batch, |packet| {
            let Some(bytes) = packet.data().get(self.offset..end) else { return Some(0) };
            let sum: usize = bytes.iter().map(|byte| usize::from(*byte)).sum();
            Some(match outputs {
                2 | 4 | 8 => (sum ^ sum >> 4) & (outputs - 1),
                _ => sum % outputs,
            })
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn the_same_bytes_go_the_same_way() {
        let mut bench = Bench::with_outputs("HashSwitch", &["1", "1"], 3);
        for (packet, output) in [(&b"a\x04"[..], 1), (b"b\x04", 1), (b"a\x05", 2), (b"a", 0)] {
            assert_eq!(bench.push(0, &[packet])[0].0, output);
        }
        assert_eq!(Bench::error("HashSwitch", &["1", "0"]), "length must be > 0");
    }
}
