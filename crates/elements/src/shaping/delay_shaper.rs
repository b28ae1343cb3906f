//! # DelayShaper
//!
//! ## Synopsis
//! `DelayShaper(DELAY)`
//!
//! ## Ports
//! One pull input, one pull output.
//!
//! ## Description
//! Releases each packet DELAY after its timestamp, and sets the timestamp to the present time. A
//! packet without a timestamp gets one when it is first pulled.
//!
//! ## Arguments
//! - DELAY: seconds.
//!
//! ## Handlers
//! - `delay` (read, write): DELAY.
//!
//! ## See also
//! `DelayUnqueue`, `Shaper`, `LinkUnqueue`

use super::Delayed;
use crate::prelude::*;
use crate::shared::values::interval;

/// Delays pulls.
#[derive(Default)]
pub(crate) struct DelayShaper(Delayed);

impl Class for DelayShaper {
    const INFO: ClassInfo = ClassInfo::new("DelayShaper", "1/1").processing("l/l").inline();
}

impl Element for DelayShaper {
    arguments! { this, given;
        set Delayed => this.0;
    }

    fn pull(&mut self, _: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let mut left = max;
        while left > 0
            && let Some(mut packet) = self.0.next(context)
        {
            packet.set_timestamp_ns(context.wall_ns());
            // The batch has room for the packets that the caller asked for.
            let _ = batch.push(packet);
            left -= 1;
        }
    }

    keep! { this, old;
        then {
            this.0.waiting = old.0.waiting.take();
        }
    }

    handlers! { this, context, value;
        both "delay" => interval(this.0.delay_ns), set this.0.set_delay(parse("delay", value)?);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::pull_bench;

    #[test]
    fn packets_wait_their_time() {
        let mut bench = pull_bench("DelayShaper", &["0.5s"], 1);
        bench.now_ns = 1_000_000_000;
        bench.give(0, &[b"a"]);
        assert_eq!(bench.pull(1), Vec::<Vec<u8>>::new());
        assert_eq!(bench.router.next_timer_ns(), Some(1_500_000_000));
        bench.now_ns = 1_499_999_999;
        assert_eq!(bench.pull(1), Vec::<Vec<u8>>::new());
        bench.now_ns = 1_500_000_000;
        assert_eq!(bench.pull(1), [b"a".to_vec()]);
        assert_eq!(bench.router.read("e.delay", ""), Ok("500ms".into()));
    }
}
