//! # Align
//!
//! ## Synopsis
//! `Align(MODULUS, OFFSET)`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Passes packets as they are. In Click it copies packets whose data are not aligned; here no
//! element needs alignment.
//!
//! ## Arguments
//! - MODULUS: 2, 4 or 8.
//! - OFFSET: less than MODULUS.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `Null`

use crate::prelude::*;

/// Does nothing.
#[derive(Default)]
pub(crate) struct Align;

impl Class for Align {
    const INFO: ClassInfo = ClassInfo::new("Align", "1/1").inline();
}

impl Element for Align {
    arguments! { this, given;
        let modulus = mandatory "MODULUS": u32;
        let offset = mandatory "OFFSET": u32;
        then {
            if !matches!(modulus, 2 | 4 | 8) {
                return Err(ConfigError::other("MODULUS: expected 2, 4 or 8"));
            }
            if offset >= modulus {
                return Err(ConfigError::other("OFFSET: must be less than MODULUS"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn arguments_are_checked_all_the_same() {
        assert_eq!(Bench::new("Align", &["4", "2"]).push(0, &[b"x"]), [(0, b"x".to_vec())]);
        assert_eq!(Bench::error("Align", &["3", "0"]), "MODULUS: expected 2, 4 or 8");
        assert_eq!(Bench::error("Align", &["4", "4"]), "OFFSET: must be less than MODULUS");
    }
}
