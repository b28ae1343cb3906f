//! # RED
//!
//! ## Synopsis
//! `RED(MIN_THRESH, MAX_THRESH, MAX_P [, QUEUES, STABILITY, GENTLE])`
//!
//! ## Ports
//! One input and one output, push or pull. A second, push output, if connected, gets the packets
//! that are chosen to be dropped.
//!
//! ## Description
//! Drops packets at random, with a probability that grows with the average length of the queues
//! (Random Early Detection, Floyd and Jacobson 1993). It watches the nearest queues: those behind
//! it on a push path, those before it on a pull path. Up to MIN_THRESH the probability is 0; then
//! it grows to MAX_P at MAX_THRESH and, if GENTLE, to 1 at twice MAX_THRESH.
//!
//! ## Arguments
//! - MIN_THRESH, MAX_THRESH: packets in the queues, on average; at most 65535.
//! - MAX_P: probability, 0 to 1.
//! - QUEUES (keyword): names of the queues to watch instead.
//! - STABILITY (keyword): the average moves by the difference divided by 2 to this power, 0 to 16;
//!   default 4.
//! - GENTLE (keyword): if false, all packets are dropped above MAX_THRESH; default true.
//!
//! ## Handlers
//! - `min_thresh`, `max_thresh`, `max_p` (read, write): see the arguments.
//! - `drops` (read): packets chosen.
//! - `avg_queue_size` (read): the average length.
//! - `stats` (read): length, average and drops, a line each.
//! - `queues` (read): names of the queues.
//!
//! ## See also
//! `CoDel`, `Queue`, `RandomSample`

use super::Watched;
use crate::prelude::*;
use crate::shared::common::part;
use crate::shared::random::Random;

/// While queues are empty, the average is updated as if a packet came at this interval.
const EMPTY_TICK_NS: u64 = 20_000_000;

/// Drops packets early.
#[derive(Default)]
#[expect(clippy::upper_case_acronyms, reason = "its name in configurations")]
pub(crate) struct RED {
    watched: Watched,
    min: u32,
    max: u32,
    max_p: f64,
    stability: i32,
    gentle: bool,
    average: f64,
    /// Packets since the last marked or dropped one; `None` below MIN_THRESH.
    since: Option<u32>,
    /// The packet is dropped once `since` times the probability exceeds this.
    bar: f64,
    random: Random,
    empty_ns: Option<u64>,
    is_push: bool,
    drops: u64,
}

impl Class for RED {
    const INFO: ClassInfo = ClassInfo::new("RED", "1/1-2").processing("a/ah").inline();
}

impl RED {
    fn check(min: u32, max: u32, max_p: f64) -> Result<(), String> {
        if max > 0xffff {
            return Err("MAX_THRESH must be <= 65535".to_owned());
        }
        if min > max {
            return Err("MIN_THRESH must be <= MAX_THRESH".to_owned());
        }
        match (0.0..=1.0).contains(&max_p) {
            true => Ok(()),
            false => Err("MAX_P must be between 0 and 1".to_owned()),
        }
    }

    /// A policy with GENTLE and these bounds.
    pub(super) fn of(
        watched: Watched,
        min: u32,
        max: u32,
        max_p: f64,
        stability: u32,
    ) -> Result<RED, ConfigError> {
        RED::check(min, max, max_p).map_err(ConfigError::other)?;
        if stability > 16 {
            return Err(ConfigError::other("STABILITY must be between 0 and 16"));
        }
        let stability = stability as i32;
        Ok(RED { watched, min, max, max_p, stability, gentle: true, ..RED::default() })
    }

    /// Makes MAX_P less where the average length is low, and more where it is high.
    pub(super) fn adapt(&mut self, context: &mut Context<'_>) {
        let average = match self.stability {
            0 => self.watched.length(context) as f64,
            _ => self.average.floor(),
        };
        let part = f64::from((self.max - self.min) / 2);
        if average < f64::from(self.min) + part && self.max_p > 0.01 {
            self.max_p *= 0.9;
        } else if average > f64::from(self.max) - part && self.max_p < 0.5 {
            self.max_p += (self.max_p / 4.0).min(0.01);
        }
    }

    fn set(&mut self, min: u32, max: u32, max_p: f64) -> Result<(), HandlerError> {
        RED::check(min, max, max_p).map_err(HandlerError::Other)?;
        (self.min, self.max, self.max_p) = (min, max, max_p);
        Ok(())
    }

    /// Moves the average.
    fn look(&mut self, length: usize, now_ns: u64) {
        let keep = 1.0 - 0.5f64.powi(self.stability);
        if length > 0 || self.stability == 0 {
            self.empty_ns = None;
            self.average += (length as f64 - self.average) * (1.0 - keep);
            return;
        }
        // No packet arrives while the queues are empty, so the average would stay.
        let ticks = match self.empty_ns.replace(now_ns) {
            None => 1,
            Some(last) => (now_ns / EMPTY_TICK_NS).saturating_sub(last / EMPTY_TICK_NS),
        };
        self.average *= keep.powf(ticks as f64);
    }

    /// Probability of a packet at the average length.
    fn probability(&self) -> f64 {
        let (min, max) = (f64::from(self.min), f64::from(self.max));
        if self.average <= max {
            if max <= min { 0.0 } else { self.max_p * (self.average - min) / (max - min) }
        } else {
            self.max_p + (1.0 - self.max_p) * (self.average - max) / max
        }
    }

    fn chooses(&mut self) -> bool {
        let gentle = self.gentle && self.max_p < 1.0;
        let kill = f64::from(self.max) * if gentle { 2.0 } else { 1.0 };
        // Whole packets: an average of 5.9 is not above 5.
        let average = self.average.floor();
        if average <= f64::from(self.min) {
            self.since = None;
            return false;
        }
        if average > kill {
            self.since = None;
            return true;
        }
        let Some(since) = self.since else {
            self.since = Some(0);
            self.draw();
            return false;
        };
        self.since = Some(since + 1);
        if f64::from(since + 1) * self.probability() > self.bar {
            self.since = Some(0);
            self.draw();
            return true;
        }
        false
    }

    fn draw(&mut self) {
        self.bar = f64::from(self.random.next()) / 4_294_967_296.0;
    }

    fn sift(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        let (now_ns, length) = (context.now_ns(), self.watched.length(context));
        // The earlier packets of the batch will be in the queue when this packet gets there.
        let pushed = self.is_push;
        let mut ahead = 0;
        let drops = part(batch, context, |_| {
            self.look(length + ahead, now_ns);
            let chosen = self.chooses();
            ahead += usize::from(pushed && !chosen);
            !chosen
        });
        self.drops += drops;
    }

    fn stats(&self, context: &mut Context<'_>) -> String {
        let length = self.watched.length(context);
        let (average, drops) = (self.average, self.drops);
        format!("{length} current queue\n{average:.3} avg queue\n{drops} drops\n")
    }
}

impl Element for RED {
    arguments! { this, given;
        mandatory "MIN_THRESH": u32 => this.min;
        mandatory "MAX_THRESH": u32 => this.max;
        mandatory "MAX_P": f64 => this.max_p;
        keyword "QUEUES": "names of queues", by Watched::read => this.watched;
        let stability = keyword "STABILITY": u32 = 4;
        keyword "GENTLE": bool = true => this.gentle;
        then {
            RED::check(this.min, this.max, this.max_p).map_err(ConfigError::other)?;
            if stability > 16 {
                return Err(ConfigError::other("STABILITY must be between 0 and 16"));
            }
            this.stability = stability as i32;
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.is_push = context.is_push_output(0);
        self.watched.find(self.is_push, context)
    }

    fn push(&mut self, _: usize, batch: &mut Batch, context: &mut Context<'_>) {
        self.sift(batch, context);
        context.forward(0, batch);
    }

    fn pull(&mut self, _: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let mut own = context.take_batch();
        // Pulls until a packet is left, or the input has no more.
        while own.is_empty() && context.pull(0, max, &mut own) > 0 {
            self.sift(&mut own, context);
        }
        batch.append(&mut own);
        context.give_batch(own);
    }

    handlers! { this, context, value;
        both "min_thresh" => this.min, set { this.set(parse("min_thresh", value)?, this.max, this.max_p)?; };
        both "max_thresh" => this.max, set { this.set(this.min, parse("max_thresh", value)?, this.max_p)?; };
        both "max_p" => this.max_p, set { this.set(this.min, this.max, parse("max_p", value)?)?; };
        read "drops" => this.drops;
        read "avg_queue_size" => format!("{:.3}", this.average);
        read "stats" => this.stats(context);
        read "queues" => this.watched.names(context);
    }

    keep! { this, old;
        average;
    }
}

#[cfg(test)]
mod tests {
    use europa_engine::{Arena, Graph, NoDevices, Router};

    use crate::testing::{Bench, part};

    /// RED before a queue with a puller behind it.
    fn bench(arguments: &[&str]) -> (Router, Arena) {
        let registry = Bench::registry();
        let mut graph = Graph::default();
        let source = graph.add("source0", "TestSource", &[]);
        let red = graph.add("red", "RED", arguments);
        let queue = graph.add("queue", "Queue", &["1000"]);
        let puller = graph.add("puller", "TestPuller", &[]);
        graph.connect(source, 0, red, 0);
        graph.connect(red, 0, queue, 0);
        graph.connect(queue, 0, puller, 0);
        let arena = Arena::heap(4096, 512);
        let graph = graph.resolved(&registry);
        (Router::build(&graph, &registry, &arena, &NoDevices, 0).unwrap(), arena)
    }

    /// Pushes packets one after the other; returns how many are in the queue then.
    fn push(router: &mut Router, arena: &Arena, count: usize) -> usize {
        for _ in 0..count {
            part::source(router, 0, vec![arena.packet(b"x").unwrap()]);
            while router.run_once(0, &mut NoDevices) {}
        }
        router.read("queue.length", "").unwrap().parse().unwrap()
    }

    #[test]
    fn nothing_is_dropped_below_and_everything_above() {
        let (mut router, arena) = bench(&["10", "20", "0.1", "STABILITY 0", "GENTLE false"]);
        assert_eq!(push(&mut router, &arena, 11), 11);
        assert_eq!(router.read("red.drops", ""), Ok("0".into()));
        // However many packets come, the average stays at the bound.
        assert_eq!(push(&mut router, &arena, 500), 21);
        assert_eq!(router.read("red.queues", ""), Ok("queue\n".into()));
        router.write("red.max_thresh", "40").unwrap();
        assert_eq!(push(&mut router, &arena, 1000), 41);
    }

    #[test]
    fn between_them_some_are_dropped() {
        let (mut router, arena) = bench(&["10", "400", "0.2", "STABILITY 2"]);
        let length = push(&mut router, &arena, 300);
        let drops: usize = router.read("red.drops", "").unwrap().parse().unwrap();
        assert_eq!(length + drops, 300);
        // The mean of the probability is about 0.065, and gaps are even between 0 and its inverse.
        assert!((20..65).contains(&drops), "{drops}");
    }

    #[test]
    fn mistakes_are_named() {
        for (arguments, error) in [
            (&["5", "4", "0.1"], "MIN_THRESH must be <= MAX_THRESH"),
            (&["5", "70000", "0.1"], "MAX_THRESH must be <= 65535"),
            (&["5", "50", "1.5"], "MAX_P must be between 0 and 1"),
            (&["5", "50", "0.1"], "no nearby Queues"),
        ] {
            assert_eq!(Bench::error("RED", arguments), error);
        }
    }
}
