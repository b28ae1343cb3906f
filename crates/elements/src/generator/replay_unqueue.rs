//! # ReplayUnqueue
//!
//! ## Synopsis
//! `ReplayUnqueue([STOP, STOP_TIME, BURST, LIMIT, ACTIVE, TIMING, ...])`
//!
//! ## Ports
//! At least one pull input, as many push outputs.
//!
//! ## Description
//! Pulls and keeps all packets of its inputs, and pushes copies of them repeatedly. Packets of
//! input N leave by output N. It keeps no more than three quarters of the router's buffers. At a
//! hot swap it keeps the packets and continues at the same position.
//!
//! ## Arguments
//! - STOP (keyword): stop the router after replaying this many times; default -1: never.
//! - STOP_TIME (keyword): stop the router after this many seconds; default 0: never.
//! - BURST (keyword): packets in a turn, default 64.
//! - LIMIT (keyword): keep this many packets; default -1: all.
//! - ACTIVE (keyword): whether to work; default true.
//! - TIMING (keyword): send packets at the intervals of their times, at this percentage of their
//!   speed; default 0: as fast as possible.
//! - QUICK_CLONE, VERBOSE, FREEONTERMINATE, USE_SIGNAL, QUEUE, TIMING_FNT (keywords): accepted; no
//!   effect.
//!
//! ## Handlers
//! - `active` (read, write): ACTIVE.
//! - `stop` (read, write): number of replays that are left.
//! - `loaded` (read): whether the packets have been taken from the inputs.
//! - `count` (read): packets pushed.
//! - `reset` (write): forgets the packets, and pulls them again.
//!
//! ## See also
//! `MultiReplayUnqueue`, `FromDump`, `FastUDPFlows`

use crate::prelude::*;

/// Packets of a turn.
const BURST: usize = 64;

/// Replays packets.
pub(crate) struct ReplayUnqueue {
    stop: i64,
    stop_after_ns: u64,
    burst: usize,
    limit: usize,
    active: bool,
    /// Hundredths of the packets' own speed; 0 for no timing.
    timing: u64,
    /// Packets of all inputs are sent in the order of their times.
    pub(super) merge: bool,
    inputs: usize,
    packets: Vec<(usize, Packet)>,
    loaded: bool,
    next: usize,
    /// Start of this round of packets, and start of the first round.
    round_ns: Option<u64>,
    begun_ns: Option<u64>,
    count: u64,
}

impl Default for ReplayUnqueue {
    fn default() -> ReplayUnqueue {
        ReplayUnqueue {
            stop: -1,
            stop_after_ns: 0,
            burst: BURST,
            limit: usize::MAX,
            active: true,
            timing: 0,
            merge: false,
            inputs: 0,
            packets: Vec::new(),
            loaded: false,
            next: 0,
            round_ns: None,
            begun_ns: None,
            count: 0,
        }
    }
}

impl Class for ReplayUnqueue {
    const INFO: ClassInfo = ClassInfo::new("ReplayUnqueue", "1-/=").processing("l/h").flow("#/#");
}

impl ReplayUnqueue {
    /// Pulls the inputs' packets; returns whether there were any.
    fn load(&mut self, context: &mut Context<'_>) -> bool {
        let most = self.limit.min(context.arena().capacity() / 4 * 3);
        let mut batch = context.take_batch();
        let before = self.packets.len();
        for input in 0..context.inputs() {
            let room = most.saturating_sub(self.packets.len());
            context.pull(input, room, &mut batch);
            self.packets.extend(batch.drain().map(|packet| (input, packet)));
        }
        context.give_batch(batch);
        if self.packets.len() > before && self.packets.len() < most {
            return true;
        }
        if self.merge {
            self.packets.sort_by_key(|(_, packet)| packet.timestamp_ns());
        }
        self.loaded = !self.packets.is_empty();
        self.loaded
    }

    /// Continues at the position of another element.
    pub(super) fn take_over(&mut self, old: &mut Self) {
        let before = old.packets.len();
        self.packets = std::mem::take(&mut old.packets);
        self.packets.retain(|(input, _)| *input < self.inputs);
        self.loaded = old.loaded && !self.packets.is_empty();
        if self.stop > 0 && old.stop > 0 {
            self.stop = self.stop.min(old.stop);
        }
        if self.packets.len() == before {
            (self.next, self.round_ns) = (old.next, old.round_ns);
        }
        (self.begun_ns, self.count) = (old.begun_ns, old.count);
    }

    /// The time of the next packet; `None` if it is due at once.
    fn due_ns(&self, now_ns: u64) -> Option<u64> {
        if self.timing == 0 {
            return None;
        }
        let time = |index: usize| self.packets.get(index).map_or(0, |(_, p)| p.timestamp_ns());
        let since = time(self.next).saturating_sub(time(0));
        let since = since.saturating_mul(100) / self.timing;
        let due_ns = self.round_ns.unwrap_or(now_ns).saturating_add(since);
        Some(due_ns).filter(|due_ns| *due_ns > now_ns)
    }

    /// Called when all packets have been pushed once more.
    fn turn_over(&mut self, now_ns: u64, context: &mut Context<'_>) {
        (self.next, self.round_ns) = (0, None);
        self.stop -= i64::from(self.stop > 0);
        let begun_ns = self.begun_ns.unwrap_or(now_ns);
        let late = self.stop_after_ns > 0 && now_ns - begun_ns >= self.stop_after_ns;
        if self.stop == 0 || late {
            (self.active, self.begun_ns) = (false, None);
            context.stop();
        }
    }
}

impl Element for ReplayUnqueue {
    arguments! { this, given;
        keyword "STOP": i64 = -1 => this.stop;
        let seconds = keyword "STOP_TIME": u32 = 0;
        keyword "BURST": usize = BURST, with |burst| burst.max(1) => this.burst;
        keyword "LIMIT": i64 = -1, with |limit| usize::try_from(limit).unwrap_or(usize::MAX)
            => this.limit;
        keyword "ACTIVE": bool = true => this.active;
        keyword "TIMING": u64 = 0 => this.timing;
        keyword "QUICK_CLONE": String => _;
        keyword "VERBOSE": String => _;
        keyword "FREEONTERMINATE": String => _;
        keyword "USE_SIGNAL": String => _;
        keyword "QUEUE": String => _;
        keyword "TIMING_FNT": String => _;
        then {
            this.stop_after_ns = u64::from(seconds) * 1_000_000_000;
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        self.inputs = context.inputs();
        context.add_task(1024);
        Ok(())
    }

    fn run_task(&mut self, context: &mut Context<'_>) -> bool {
        if !self.active {
            return false;
        }
        if !self.loaded {
            return self.load(context);
        }
        let now_ns = context.now_ns();
        if self.stop == 0 {
            self.turn_over(now_ns, context);
            return true;
        }
        self.begun_ns.get_or_insert(now_ns);
        self.round_ns.get_or_insert(now_ns);
        let mut pushed = 0;
        while pushed < self.burst {
            let Some((port, packet)) = self.packets.get(self.next) else { break };
            if let Some(due_ns) = self.due_ns(now_ns) {
                context.schedule(0, due_ns);
                break;
            }
            // Without buffers the rest waits for the next turn.
            let Some(copy) = packet.try_clone() else { break };
            context.push(*port, copy);
            self.next += 1;
            pushed += 1;
        }
        self.count += pushed as u64;
        if self.next >= self.packets.len() {
            self.turn_over(now_ns, context);
        }
        pushed > 0
    }

    keep! { this, old;
        then {
            this.take_over(old);
        }
    }

    handlers! { this, context, value;
        both "active" [CHECKBOX] => this.active, set {
            this.active = parse("active", value)?;
            (this.round_ns, this.begun_ns) = (None, None);
        };
        both "stop" => this.stop;
        read "loaded" => this.loaded;
        read "count" => this.count;
        button "reset" => {
            this.packets.clear();
            (this.loaded, this.next) = (false, 0);
        };
    }
}

#[cfg(test)]
mod tests {
    use europa_engine::Graph;

    use crate::testing::{part, run};

    #[test]
    fn packets_are_sent_as_often_as_asked_for() {
        for class in ["ReplayUnqueue", "MultiReplayUnqueue"] {
            let mut graph = Graph::default();
            let replay = graph.add("r", class, &["STOP 3", "QUICK_CLONE 1"]);
            let sink = graph.add("sink", "TestSink", &[]);
            for (input, data) in ["a", "b"].iter().enumerate() {
                let source = graph.add(&format!("s{input}"), "InfiniteSource", &[data, "LIMIT 2"]);
                graph.connect(source, 0, replay, input);
                graph.connect(replay, input, sink, input);
            }
            let mut router = run(graph);
            assert!(router.is_stopped());
            let out = part::sink(&mut router);
            for (input, data) in [b"a", b"b"].iter().enumerate() {
                let of = out.iter().filter(|(port, p)| *port == input && p.data() == *data);
                assert_eq!(of.count(), 6, "{class}");
            }
            assert_eq!(router.read("r.count", ""), Ok("12".into()));
            assert_eq!(router.read("r.active", ""), Ok("false".into()));
        }
    }
}
