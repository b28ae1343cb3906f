//! # TimerTest
//!
//! ## Synopsis
//! `TimerTest([DELAY, SCHEDULE])`
//!
//! ## Ports
//! None.
//!
//! ## Description
//! Has one timer, and prints a line with the time when it fires.
//!
//! ## Arguments
//! - DELAY (keyword): time from the start until the timer fires.
//! - SCHEDULE (keyword): it fires at the start; default false.
//!
//! ## Handlers
//! - `scheduled`, `expiry` (read): whether and when it will fire.
//! - `schedule_after` (write): sets the timer to fire after this time. `unschedule` (write): stops
//!   the timer.
//!
//! ## See also
//! `NeighborhoodTest`

use std::time::Duration;

use crate::dump::print::seconds;
use crate::prelude::*;

/// Prints when its timer fires.
#[derive(Default)]
pub(crate) struct TimerTest {
    delay: Option<Duration>,
    /// On the router's clock.
    expiry_ns: Option<u64>,
}

impl Class for TimerTest {
    const INFO: ClassInfo = ClassInfo::new("TimerTest", "0/0");
}

impl Element for TimerTest {
    arguments! { this, given;
        keyword "DELAY": Duration => this.delay;
        let schedules = keyword "SCHEDULE": bool = false;
        then {
            if schedules {
                this.delay.get_or_insert_default();
            }
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        if let Some(delay) = self.delay {
            let at_ns = context.now_ns() + delay.as_nanos() as u64;
            self.expiry_ns = Some(at_ns);
            context.schedule(0, at_ns);
        }
        Ok(())
    }

    fn run_timer(&mut self, _: u32, context: &mut Context<'_>) {
        let past_ns = context.now_ns() - self.expiry_ns.take().unwrap_or(context.now_ns());
        let time = seconds(context.wall_ns() - past_ns);
        context.log(&format!("{time}: {} :: TimerTest fired", context.name()));
    }

    handlers! { this, context, value;
        read "scheduled" => this.expiry_ns.is_some();
        read "expiry" => seconds(this.expiry_ns.unwrap_or(0));
        write "schedule_after" => {
            let delay: Duration = parse("schedule_after", value)?;
            let at_ns = context.now_ns() + delay.as_nanos() as u64;
            this.expiry_ns = Some(at_ns);
            context.schedule(0, at_ns);
        };
        button "unschedule" => {
            this.expiry_ns = None;
            context.unschedule(0);
        };
    }
}
