//! # ClickyInfo
//!
//! ## Synopsis
//! `ClickyInfo(...)`
//!
//! ## Ports
//! None.
//!
//! ## Description
//! Does nothing: Click's graphical interface reads its arguments out of the configuration.
//!
//! ## Arguments
//! Any.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `ScheduleInfo`, `AlignmentInfo`

use crate::prelude::*;

/// Says something to others.
#[derive(Default)]
pub(crate) struct ClickyInfo;

impl Class for ClickyInfo {
    const INFO: ClassInfo = ClassInfo::new("ClickyInfo", "0/0").inline().keeps_long();
}

impl Element for ClickyInfo {
    arguments! { this, given;
        let _anything = rest "SETTING": "anything";
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn takes_anything() {
        Bench::new("ClickyInfo", &["STYLE #x { a: b }", "y"]);
    }
}
