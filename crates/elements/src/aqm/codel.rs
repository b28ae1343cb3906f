//! # CoDel
//!
//! ## Synopsis
//! `CoDel([TARGET, INTERVAL, QUEUES])`
//!
//! ## Ports
//! One pull input, one pull output.
//!
//! ## Description
//! Drops packets as they leave a queue if all packets have waited longer than TARGET for an
//! INTERVAL. It drops more often the longer this lasts (Controlled Delay, RFC 8289). A packet's
//! waiting time follows from its first timestamp annotation, which `SetTimestamp(FIRST true)` in
//! front of the queue sets; packets without it pass.
//!
//! ## Arguments
//! - TARGET: longest time that packets may wait, default 5ms.
//! - INTERVAL: time after which a packet is dropped if all have waited longer than TARGET, default
//!   100ms.
//! - QUEUES (keyword): names of the queues that `stats` shows, default the nearest.
//!
//! ## Handlers
//! - `codel_target`, `codel_interval` (read, write): see the arguments.
//! - `drops` (read): packets dropped.
//! - `stats` (read): packets in the queues and drops, a line each.
//! - `queues` (read): names of the queues.
//!
//! ## See also
//! `RED`, `SetTimestamp`, `Queue`

use super::Watched;
use crate::prelude::*;
use crate::shared::fields::Annotations;
use crate::shared::values::Time;

/// Keeps queues short by dropping packets that waited in them too long.
#[derive(Default)]
pub(crate) struct CoDel {
    watched: Watched,
    target_ns: u64,
    interval_ns: u64,
    /// The time when all packets will have waited too long for a whole interval.
    above_until_ns: Option<u64>,
    dropping: bool,
    next_drop_ns: u64,
    /// Drops of the present spell of lateness, and of the last one.
    count: u32,
    last_count: u32,
    drops: u64,
}

impl Class for CoDel {
    const INFO: ClassInfo = ClassInfo::new("CoDel", "1/1").processing("l/l").inline();
}

impl CoDel {
    /// Whether all packets have waited too long for an interval.
    fn is_late(&mut self, packet: &Packet, now_ns: u64) -> bool {
        let waited_ns = match packet.first_timestamp_ns() {
            0 => 0,
            since_ns => now_ns.saturating_sub(since_ns),
        };
        if waited_ns < self.target_ns {
            self.above_until_ns = None;
            return false;
        }
        match self.above_until_ns {
            None => {
                self.above_until_ns = Some(now_ns + self.interval_ns);
                false
            }
            Some(until_ns) => now_ns >= until_ns,
        }
    }

    /// RFC 8289, 5.5: intervals of drops shrink with the square root of their number.
    fn after(&self, time_ns: u64) -> u64 {
        time_ns + (self.interval_ns as f64 / f64::from(self.count.max(1)).sqrt()) as u64
    }

    /// Whether to drop a packet that leaves now.
    fn drops(&mut self, packet: &Packet, now_ns: u64) -> bool {
        let late = self.is_late(packet, now_ns);
        if !late {
            self.dropping = false;
            return false;
        }
        if self.dropping {
            if now_ns < self.next_drop_ns {
                return false;
            }
            self.count = self.count.saturating_add(1);
            self.next_drop_ns = self.after(self.next_drop_ns);
            return true;
        }
        self.dropping = true;
        // A spell that begins soon after the last one continues at about its rate.
        let new = self.count.saturating_sub(self.last_count);
        let soon = now_ns.saturating_sub(self.next_drop_ns) < 16 * self.interval_ns;
        self.count = if new > 1 && soon { new } else { 1 };
        self.last_count = self.count;
        self.next_drop_ns = self.after(now_ns);
        true
    }

    fn set(place: &mut u64, handler: &str, value: &str) -> Result<(), HandlerError> {
        *place = parse::<Time>(handler, value)?.nanoseconds();
        Ok(())
    }
}

impl Element for CoDel {
    arguments! { this, given;
        positional "TARGET": Time = Time(5_000_000), with Time::nanoseconds => this.target_ns;
        positional "INTERVAL": Time = Time(100_000_000), with Time::nanoseconds => this.interval_ns;
        keyword "QUEUES": "names of queues", by Watched::read => this.watched;
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.watched.find(false, context)
    }

    fn pull(&mut self, _: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        if max == 0 {
            return;
        }
        let now_ns = context.wall_ns();
        let mut own = context.take_batch();
        while own.is_empty() {
            if context.pull(0, max, &mut own) == 0 {
                // An empty queue is a short one.
                self.above_until_ns = None;
                self.dropping = false;
                break;
            }
            let before = own.len();
            own.retain(|packet| !self.drops(packet, now_ns));
            self.drops += (before - own.len()) as u64;
        }
        batch.append(&mut own);
        context.give_batch(own);
    }

    handlers! { this, context, value;
        both "codel_target" => Time::of(this.target_ns), set { CoDel::set(&mut this.target_ns, "codel_target", value)?; };
        both "codel_interval" => Time::of(this.interval_ns), set { CoDel::set(&mut this.interval_ns, "codel_interval", value)?; };
        read "drops" => this.drops;
        read "stats" => format!("{} current queue\n{} drops\n", this.watched.length(context), this.drops);
        read "queues" => this.watched.names(context);
    }
}

#[cfg(test)]
mod tests {
    use europa_engine::Arena;

    use crate::shared::fields::Annotations;
    use crate::testing::{part, pull_bench};

    const MS: u64 = 1_000_000;

    /// One packet enters and one leaves each millisecond; each leaves `behind_ms` after it entered.
    /// Returns the times of drops in milliseconds.
    fn drops(behind_ms: u64, until_ms: u64) -> Vec<u64> {
        let (mut bench, arena) =
            (pull_bench("CoDel", &["5ms", "100ms"], 1), Arena::heap(1024, 512));
        let (mut times, mut before) = (Vec::new(), 0);
        for now_ms in 1..until_ms {
            let mut packet = arena.packet(b"x").unwrap();
            packet.set_first_timestamp_ns(now_ms * MS);
            bench.now_ns = now_ms * MS;
            part::source(&mut bench.router, 0, [packet]);
            bench.pull(usize::from(now_ms > behind_ms));
            let drops: u64 = bench.router.read("e.drops", "").unwrap().parse().unwrap();
            times.extend((before..drops).map(|_| now_ms));
            before = drops;
        }
        times
    }

    #[test]
    fn short_waits_are_no_reason() {
        assert_eq!(drops(3, 1000), Vec::<u64>::new());
    }

    #[test]
    fn drops_come_closer_while_all_wait_too_long() {
        let times = drops(50, 600);
        // The first drop comes after an interval of lateness; the next ones after 100, 100/√2,
        // 100/√3 ... ms.
        let first = times[0];
        assert!((150..156).contains(&first), "{times:?}");
        for (time, expected) in times.iter().zip([0, 100, 171, 229, 279, 324]) {
            assert!(time.abs_diff(first + expected) <= 3, "{times:?}");
        }
        assert!(times.len() >= 6, "{times:?}");
    }
}
