//! # Null
//!
//! ## Synopsis
//! `Null`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Lets packets pass.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `Idle`

use europa_engine::{Class, ClassInfo, Element};

/// Lets packets pass.
#[derive(Default)]
pub(crate) struct Null;

impl Class for Null {
    const INFO: ClassInfo = ClassInfo::new("Null", "1/1")
        .inline()
        .also(&["Null1", "Null2", "Null3", "Null4", "Null5", "Null6", "Null7", "Null8"])
        .keeps_long();
}

impl Element for Null {}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn lets_packets_pass() {
        assert_eq!(Bench::new("Null", &[]).push(0, &[b"a"]), [(0, b"a".to_vec())]);
        assert_eq!(Bench::error("Null", &["1"]), "unexpected argument '1'");
    }
}
