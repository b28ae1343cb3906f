//! # ListenEtherSwitch
//!
//! ## Synopsis
//! `ListenEtherSwitch([TIMEOUT, keywords])`
//!
//! ## Ports
//! Push inputs, and one push output more than inputs: input n and output n belong to the same LAN;
//! the last output gets the copies.
//!
//! ## Description
//! An `EtherSwitch` whose last output gets a copy of every frame that comes in, as far as there are
//! buffers.
//!
//! ## Arguments
//! Those of `EtherSwitch`.
//!
//! ## Handlers
//! Those of `EtherSwitch`.
//!
//! ## See also
//! `EtherSwitch`, `Tee`

use crate::bridge::ether_switch::EtherSwitch;
use crate::prelude::*;

/// A learning bridge with an output that listens.
#[derive(Default)]
pub(crate) struct ListenEtherSwitch(EtherSwitch);

impl Class for ListenEtherSwitch {
    const INFO: ClassInfo =
        ClassInfo::new("ListenEtherSwitch", "-/=+").processing("h/h").flow("x/x");
}

impl Element for ListenEtherSwitch {
    arguments! { this, given;
        set EtherSwitch => this.0;
        then {
            if given.outputs() != given.inputs() + 1 {
                return Err(ConfigError::other("needs one output more than inputs"));
            }
        }
    }

    fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let listener = context.outputs().saturating_sub(1);
        for packet in batch.iter() {
            if let Some(copy) = packet.try_clone() {
                context.push(listener, copy);
            }
        }
        self.0.push(port, batch, context);
    }

    delegate!(handlers 0);

    keep! { this, old;
        then {
            this.0.take_state(&mut old.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use europa_packet::{EtherType, Frame, MacAddr};

    use crate::testing::Bench;

    fn frame(from: u8, to: u8) -> Vec<u8> {
        let mac = |n| MacAddr([2, 0, 0, 0, 0, n]);
        Frame::new(mac(from), mac(to)).payload(EtherType::EXPERIMENTAL, b"x").to_vec()
    }

    #[test]
    fn the_last_output_hears_everything() {
        let made = Bench::try_new("ListenEtherSwitch", &["60"], Some(2), Some(3));
        let mut bench = made.unwrap();
        let ports = |bench: &mut Bench, input, from, to| {
            let out = bench.push(input, &[&frame(from, to)]);
            let mut ports: Vec<usize> = out.into_iter().map(|(port, _)| port).collect();
            ports.sort_unstable();
            ports
        };
        assert_eq!(ports(&mut bench, 0, 1, 2), [1, 2], "flooded, but never twice to the listener");
        assert_eq!(ports(&mut bench, 1, 2, 1), [0, 2]);
        assert_eq!(ports(&mut bench, 1, 3, 2), [2], "for its own LAN");
        let wrong = Bench::try_new("ListenEtherSwitch", &[], Some(2), Some(2)).err();
        assert_eq!(wrong.as_deref(), Some("needs one output more than inputs"));
    }
}
