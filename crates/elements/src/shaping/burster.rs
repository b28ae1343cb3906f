//! # Burster
//!
//! ## Synopsis
//! `Burster(INTERVAL [, BURST])`
//!
//! ## Ports
//! One pull input, one push output.
//!
//! ## Description
//! Every INTERVAL, pulls up to BURST packets and pushes them on. It is `TimedUnqueue` with another
//! default of BURST.
//!
//! ## Arguments
//! - INTERVAL: seconds.
//! - BURST: packets, default 8.
//!
//! ## Handlers
//! - `interval`, `burst` (read, write): see the arguments.
//!
//! ## See also
//! `TimedUnqueue`

use super::timed_unqueue::TimedUnqueue;
use crate::prelude::*;

/// Pulls at intervals.
pub(crate) struct Burster(TimedUnqueue);

impl Default for Burster {
    fn default() -> Burster {
        Burster(TimedUnqueue { burst: 8, ..TimedUnqueue::default() })
    }
}

impl Class for Burster {
    const INFO: ClassInfo = ClassInfo::new("Burster", "1/1").processing("l/h");
}

impl Element for Burster {
    delegate!();
}
