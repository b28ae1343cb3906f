//! # AlignmentInfo
//!
//! ## Synopsis
//! `AlignmentInfo(ELEMENT [CHUNK OFFSET ...], ...)`
//!
//! ## Ports
//! None.
//!
//! ## Description
//! Holds what `click-align` writes into configurations: the alignment of packets at the inputs of
//! elements. It has no effect, because the processors that Europa runs on can read data at any
//! address.
//!
//! ## Arguments
//! Anything.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `AddressInfo`

use europa_engine::{Class, ClassInfo, Element, Phase, arguments};

/// Accepts declarations of alignment.
#[derive(Default)]
pub(crate) struct AlignmentInfo;

impl Class for AlignmentInfo {
    const INFO: ClassInfo =
        ClassInfo::new("AlignmentInfo", "0/0").phase(Phase::Info).inline().keeps_long();
}

impl Element for AlignmentInfo {
    arguments! { this, given;
        let texts = rest "ELEMENT": "anything";
        then {
            for (index, text) in texts {
                if text.is_empty() {
                    given.warn(format!("empty configuration argument {index}"));
                }
            }
        }
    }
}
