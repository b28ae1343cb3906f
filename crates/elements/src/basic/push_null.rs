//! # PushNull
//!
//! ## Synopsis
//! `PushNull`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Passes packets on a push path. A configuration with it on a pull path is refused.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `PullNull`, `Null`

use crate::prelude::*;

/// Passes packets.
#[derive(Default)]
pub(crate) struct PushNull;

impl Class for PushNull {
    const INFO: ClassInfo =
        ClassInfo::new("PushNull", "1/1").processing("h/h").inline().keeps_long();
}

impl Element for PushNull {}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, pull_bench};

    #[test]
    fn packets_pass() {
        assert_eq!(Bench::new("PushNull", &[]).push(0, &[b"x"]), [(0, b"x".to_vec())]);
        let mut bench = pull_bench("PullNull", &[], 1);
        bench.give(0, &[b"x"]);
        assert_eq!(bench.pull(1), [b"x".to_vec()]);
    }
}
