//! # PullTee
//!
//! ## Synopsis
//! `PullTee([N])`
//!
//! ## Ports
//! One pull input; output 0 pull, others push.
//!
//! ## Description
//! Passes packets that are pulled, and sends a copy of each out of all other outputs.
//!
//! ## Arguments
//! - N: number of outputs; if given, it must be right.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `Tee`

use crate::prelude::*;

/// Copies pulled packets.
#[derive(Default)]
pub(crate) struct PullTee;

impl Class for PullTee {
    const INFO: ClassInfo = ClassInfo::new("PullTee", "1/1-").processing("l/lh").inline();
}

impl Element for PullTee {
    arguments! { this, given;
        let count = positional "N": usize;
        then {
            let outputs = given.outputs();
            if let Some(count) = count
                && count != outputs
            {
                let message = format!("{count} outputs implied, {outputs} connected");
                return Err(ConfigError::at(0, message));
            }
        }
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        for packet in batch.iter() {
            for output in 1..context.outputs() {
                if let Some(copy) = packet.try_clone() {
                    context.push(output, copy);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::pull_bench;

    #[test]
    fn copies_are_pushed() {
        let mut bench = pull_bench("PullTee", &[], 1);
        bench.give(0, &[b"a", b"b"]);
        assert_eq!(bench.pull(1), [b"a".to_vec()]);
    }
}
