//! # PathSpinlock
//!
//! ## Synopsis
//! `PathSpinlock([LOCK])`
//!
//! ## Ports
//! At least one input, as many outputs; push or pull.
//!
//! ## Description
//! Passes packets of each input to the output of the same number. In Click it lets one thread at a
//! time use the paths behind it; a router of Europa has only one thread.
//!
//! ## Arguments
//! - LOCK: name of the lock; accepted.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `StaticThreadSched`

use crate::prelude::*;

/// Passes packets on, each to the output of its input's number.
#[derive(Default)]
pub(crate) struct PathSpinlock;

impl Class for PathSpinlock {
    const INFO: ClassInfo = ClassInfo::new("PathSpinlock", "1-/1-").flow("#/#");
}

impl Element for PathSpinlock {
    arguments! { this, given;
        positional "LOCK": String => _;
    }

    fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        context.forward(port, batch);
    }

    fn pull(&mut self, port: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        context.pull(port, max, batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn inputs_keep_their_number() {
        let mut bench = Bench::with_inputs("PathSpinlock", &["lock"], 2);
        assert_eq!(bench.push(1, &[b"a"]), [(1, b"a".to_vec())]);
        assert_eq!(bench.push(0, &[b"b"]), [(0, b"b".to_vec())]);
    }
}
