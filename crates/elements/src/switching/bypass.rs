//! # Bypass
//!
//! ## Synopsis
//! `Bypass([ACTIVE, INLINE])`
//!
//! ## Ports
//! One or two inputs, one or two outputs, push or pull. Output 1 and input 1 connect to the
//! elements of the bypass.
//!
//! ## Description
//! Passes packets, or leads them through the elements of the bypass. If active, it pushes packets
//! out of output 1, and pulls packets from input 1. Packets of input 1 leave by output 0; a pull at
//! output 1 takes from input 0.
//!
//! ## Arguments
//! - ACTIVE: whether to use the bypass; default false.
//! - INLINE (keyword): accepted as in Click, without effect.
//!
//! ## Handlers
//! - `active` (read, write): ACTIVE.
//!
//! ## See also
//! `Switch`, `PullSwitch`, `Null`

use crate::prelude::*;

/// Leads packets round.
#[derive(Default)]
pub(crate) struct Bypass {
    active: bool,
}

impl Class for Bypass {
    const INFO: ClassInfo =
        ClassInfo::new("Bypass", "1-2/1-2").processing("a/a").flow("xy/[xy]x").inline();
}

impl Element for Bypass {
    arguments! { this, given;
        positional "ACTIVE": bool = false => this.active;
        keyword "INLINE": bool => _;
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        // Packets that have passed the bypass return here during the same pull.
        context.pull_through(1, 0);
        Ok(())
    }

    fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let round = self.active && port == 0 && context.outputs() > 1;
        context.forward(usize::from(round), batch);
    }

    fn pull(&mut self, port: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let round = self.active && port == 0 && context.inputs() > 1;
        context.pull(usize::from(round), max, batch);
    }

    handlers! { this, context, value; both "active" [CHECKBOX] => this.active; }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn packets_go_round_if_told() {
        let mut bench = Bench::new("Bypass", &[]);
        assert_eq!(bench.push(0, &[b"a"]), [(0, b"a".to_vec())]);
        bench.router.write("e.active", "true").unwrap();
        assert_eq!(bench.push(0, &[b"a"]), [(1, b"a".to_vec())]);
        assert_eq!(bench.push(1, &[b"a"]), [(0, b"a".to_vec())]);
    }
}
