//! # BalancedThreadSched
//!
//! ## Synopsis
//! `BalancedThreadSched([INTERVAL, INCREASING])`
//!
//! ## Ports
//! None.
//!
//! ## Description
//! In Click it spreads tasks over threads by their cost. A router of Europa runs all its tasks on
//! one thread, so the element has no effect.
//!
//! ## Arguments
//! - INTERVAL: milliseconds between two decisions, default 1000.
//! - INCREASING: accepted; default true.
//!
//! ## Handlers
//! - `interval` (read, write): INTERVAL.
//!
//! ## See also
//! `StaticThreadSched`, `ScheduleInfo`

use crate::prelude::*;

/// Accepts the arguments about sharing tasks among threads.
#[derive(Default)]
pub(crate) struct BalancedThreadSched {
    interval_ms: u32,
}

impl Class for BalancedThreadSched {
    const INFO: ClassInfo = ClassInfo::new("BalancedThreadSched", "0/0");
}

impl Element for BalancedThreadSched {
    arguments! { this, given;
        positional "INTERVAL": u32 = 1000 => this.interval_ms;
        positional "INCREASING": bool => _;
    }

    handlers! { this, context, value;
        both "interval" => this.interval_ms;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn the_interval_can_be_read() {
        let mut bench = Bench::new("BalancedThreadSched", &["50", "false"]);
        assert_eq!(bench.router.read("e.interval", ""), Ok("50".into()));
    }
}
