//! # PullNull
//!
//! ## Synopsis
//! `PullNull`
//!
//! ## Ports
//! One input, one output, push or pull.
//!
//! ## Description
//! Passes packets on a pull path. A configuration with it on a push path is refused.
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `PushNull`, `Null`

use crate::prelude::*;

/// Passes packets.
#[derive(Default)]
pub(crate) struct PullNull;

impl Class for PullNull {
    const INFO: ClassInfo =
        ClassInfo::new("PullNull", "1/1").processing("l/l").inline().keeps_long();
}

impl Element for PullNull {}
