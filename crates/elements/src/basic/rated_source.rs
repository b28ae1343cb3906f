//! # RatedSource
//!
//! ## Synopsis
//! `RatedSource([DATA, RATE, LIMIT, ACTIVE, LENGTH, BANDWIDTH, STOP])`
//!
//! ## Ports
//! One push output.
//!
//! ## Description
//! Makes RATE packets a second, and gives each packet the current time. If a turn comes late, it
//! sends the due packets at once: at most a batch, or the packets of a hundredth of a second if
//! these are more.
//!
//! ## Arguments
//! - DATA: contents of each packet; default 69 bytes of text.
//! - RATE: packets a second, default 10.
//! - LIMIT: stop after this many packets; default -1: never.
//! - ACTIVE: whether to send; default true.
//! - LENGTH (keyword): send packets of this length; DATA is repeated to fill it.
//! - BANDWIDTH (keyword): in place of RATE, such as 10Mbps; without a unit bytes a second.
//! - STOP (keyword): stop the router once LIMIT is reached; default false.
//!
//! ## Handlers
//! - `count` (read): packets sent.
//! - `data`, `rate`, `limit`, `active`, `length` (read, write): see the arguments.
//! - `reset` (write): sets `count` to zero.
//!
//! ## See also
//! `InfiniteSource`

use europa_engine::{
    BATCH, Class, ClassInfo, ConfigError, Context, Element, InitContext, arguments, handlers, parse,
};

use crate::shared::common::Data;
use crate::shared::values::Bandwidth;

/// Makes packets at a rate.
#[derive(Default)]
pub(crate) struct RatedSource {
    data: Data,
    rate: u32,
    limit: i64,
    active: bool,
    stop: bool,
    count: u64,
    /// When the next packet is due.
    next_ns: u64,
}

impl Class for RatedSource {
    const INFO: ClassInfo = ClassInfo::new("RatedSource", "0/1").processing("h/h").inline();
}

const SECOND_NS: u64 = 1_000_000_000;

impl RatedSource {
    /// Number of packets due, at most a batch; moves `next_ns` on.
    fn due(&mut self, now_ns: u64) -> usize {
        let rate = u64::from(self.rate);
        let late_ns = now_ns.saturating_sub(self.next_ns);
        if rate == 0 || now_ns < self.next_ns {
            return 0;
        }
        // Packets that are due for longer than this are not made.
        let most_ns = (SECOND_NS / 100).max(BATCH as u64 * SECOND_NS / rate);
        if late_ns > most_ns {
            self.next_ns = now_ns - most_ns;
        }
        // A product of nanoseconds and a rate of 32 bits may exceed 64 bits.
        let late_ns = u128::from(now_ns - self.next_ns);
        let due = (late_ns * u128::from(rate) / u128::from(SECOND_NS) + 1).min(BATCH as u128);
        self.next_ns += (due * u128::from(SECOND_NS) / u128::from(rate)) as u64;
        due as usize
    }

    /// Continues after a write: the source may have been stopped, or wait for a time that the new
    /// rate changes.
    fn go_on(&mut self, context: &mut Context<'_>) {
        self.next_ns = context.now_ns();
        context.schedule(0, self.next_ns);
    }
}

impl Element for RatedSource {
    arguments! { this, given;
        let data = positional "DATA": Vec<u8>;
        positional "RATE": u32 = 10 => this.rate;
        positional "LIMIT": i64 = -1 => this.limit;
        positional "ACTIVE": bool = true => this.active;
        let length = keyword "LENGTH" | "DATASIZE": usize;
        keyword "STOP": bool = false => this.stop;
        let bandwidth = keyword "BANDWIDTH": Bandwidth;
        then {
            this.data = Data::new(data, length);
            if let Some(Bandwidth(bandwidth)) = bandwidth
                && bandwidth > 0
            {
                let rate = bandwidth / this.data.length().max(1) as u64;
                this.rate = u32::try_from(rate).unwrap_or(u32::MAX);
            }
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.next_ns = context.now_ns();
        context.schedule(0, self.next_ns);
        Ok(())
    }

    fn run_timer(&mut self, _: u32, context: &mut Context<'_>) {
        let now_ns = context.now_ns();
        if !self.active || self.rate == 0 {
            return;
        }
        let mut due = self.due(now_ns);
        if let Ok(limit) = u64::try_from(self.limit) {
            let left = limit.saturating_sub(self.count);
            due = due.min(usize::try_from(left).unwrap_or(due));
        }
        let mut batch = context.take_batch();
        self.count += self.data.fill(&mut batch, due, context.arena()) as u64;
        // Elements that delay packets use this time.
        let wall_ns = context.wall_ns();
        batch.iter_mut().for_each(|packet| packet.set_timestamp_ns(wall_ns));
        context.push_batch(0, &mut batch);
        context.give_batch(batch);
        if u64::try_from(self.limit).is_ok_and(|limit| self.count >= limit) {
            if self.stop {
                context.stop();
            }
        } else {
            // The task does not run again in this round, even if more packets are due: other tasks
            // have their turn.
            context.schedule(0, self.next_ns.max(now_ns + 1));
        }
    }

    handlers! { this, context, value;
        read "count" => this.count;
        both "data" [RAW] => this.data.text(), set {
            this.data = Data::new(Some(value.as_bytes().to_vec()), None);
            this.go_on(context);
        };
        both "rate" => this.rate, set {
            this.rate = parse("rate", value)?;
            this.go_on(context);
        };
        both "limit" [CALM] => this.limit, set {
            this.limit = parse("limit", value)?;
            this.go_on(context);
        };
        both "active" [CHECKBOX] => this.active, set {
            this.active = parse("active", value)?;
            this.go_on(context);
        };
        both "length" => this.data.length(), set {
            this.data.set_length(parse("length", value)?);
            this.go_on(context);
        };
        // The handler's name in earlier versions of Click.
        both "datasize" [UNCOMMON] => this.data.length(), set {
            this.data.set_length(parse("datasize", value)?);
            this.go_on(context);
        };
        button "reset" => {
            this.count = 0;
            this.go_on(context);
        };
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn keeps_its_rate() {
        for rate in [1u64, 10, 999, 100_000] {
            let mut bench = Bench::new("RatedSource", &["x", &rate.to_string()]);
            let mut sent = 0;
            for step in 0..10_000 {
                bench.now_ns = step * 1_000_000;
                sent += bench.run().len() as u64;
            }
            let wanted = rate * 10;
            assert!(sent.abs_diff(wanted) <= wanted / 1000 + 1, "{rate}: {sent}");
        }
    }

    #[test]
    fn a_bandwidth_is_a_rate_for_packets_of_this_length() {
        let bench = &mut Bench::new("RatedSource", &["LENGTH 50", "BANDWIDTH 8kbps"]);
        assert_eq!(bench.router.read("e.rate", ""), Ok("20".into()));
        assert_eq!(bench.router.read("e.datasize", ""), Ok("50".into()));
    }

    #[test]
    fn packets_have_the_time() {
        let mut bench = Bench::new("RatedSource", &["", "10"]);
        for now_ns in [100_000_000, 200_000_000] {
            bench.now_ns = now_ns;
            assert_eq!(bench.run().first().map(|(_, data)| data.len()), Some(69));
            assert_eq!(bench.out[0].1.timestamp_ns(), now_ns);
        }
    }

    #[test]
    fn does_not_make_up_for_long_pauses() {
        let mut bench = Bench::new("RatedSource", &["x", "10000", "LIMIT 300"]);
        bench.run();
        bench.now_ns = 10_000_000_000;
        assert_eq!(bench.run().len(), 256);
        bench.now_ns += 1_000_000_000;
        bench.run();
        assert_eq!(bench.router.read("e.count", ""), Ok("300".into()));
        assert_eq!(bench.router.next_timer_ns(), None);
    }
}
