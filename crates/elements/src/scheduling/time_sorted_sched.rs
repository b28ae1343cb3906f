//! # TimeSortedSched
//!
//! ## Synopsis
//! `TimeSortedSched([BUFFER, STOP])`
//!
//! ## Ports
//! Any number of pull inputs, one pull output.
//!
//! ## Description
//! Pulls packets from its inputs and passes them on in the order of their times. Each input has to
//! be in order itself.
//!
//! ## Arguments
//! - STOP (keyword): stop the router when no input has packets and, as far as the elements before
//!   it can tell, none will come; default false.
//! - BUFFER (keyword): number of packets of each input that are compared, default 1: the packets of
//!   an input may be out of order within this number. When all inputs together hold five 16ths of
//!   the router's packet pool, it is one packet of each.
//!
//! ## Handlers
//! - `well_ordered` (read): whether all packets left in the order of their times so far.
//!
//! ## See also
//! `RoundRobinSched`, `PrioSched`, `FromDump`

use std::collections::VecDeque;

use crate::prelude::*;

/// Merges by time.
#[derive(Default)]
pub(crate) struct TimeSortedSched {
    buffer: usize,
    /// Its limit in the pool.
    share: Share,
    stop: bool,
    /// Whether the lack of packets has been signalled.
    told: bool,
    /// Time of the last packet that left.
    last_ns: u64,
    disordered: bool,
    /// By input: waiting packets, and the signal for more.
    inputs: Vec<(VecDeque<Packet>, Signal)>,
}

impl Class for TimeSortedSched {
    const INFO: ClassInfo = ClassInfo::new("TimeSortedSched", "-/1").processing("l/l");
}

impl TimeSortedSched {
    fn pull_one(&mut self, batch: &mut Batch, context: &mut Context<'_>) -> Option<Packet> {
        let mut all: usize = self.inputs.iter().map(|(waiting, _)| waiting.len()).sum();
        for (input, (waiting, signal)) in self.inputs.iter_mut().enumerate() {
            let active = waiting.len() < self.buffer && context.is_active(signal);
            // A packet of each input is needed to find the earliest.
            while active
                && (waiting.is_empty()
                    || waiting.len() < self.buffer && self.share.left_to_pull() > 0)
                && context.pull(input, 1, batch) > 0
            {
                waiting.extend(batch.pop());
                all += 1;
                self.share.set(all);
            }
        }
        let earliest = self.inputs.iter().enumerate().flat_map(|(input, (waiting, _))| {
            waiting
                .iter()
                .enumerate()
                .map(move |(place, packet)| (packet.timestamp_ns(), input, place))
        });
        let Some((time_ns, input, place)) = earliest.min() else {
            let more = self.inputs.iter().any(|(_, signal)| context.is_active(signal));
            if self.stop && !more && !std::mem::replace(&mut self.told, true) {
                context.stop();
            }
            return None;
        };
        self.told = false;
        if time_ns != 0 {
            self.disordered |= time_ns < self.last_ns;
            self.last_ns = time_ns;
        }
        self.share.set(all.saturating_sub(1));
        self.inputs.get_mut(input).and_then(|(waiting, _)| waiting.remove(place))
    }
}

impl Element for TimeSortedSched {
    arguments! { this, given;
        keyword "BUFFER": usize = 1 => this.buffer;
        keyword "STOP": bool = false => this.stop;
        then {
            if this.buffer == 0 {
                return Err(ConfigError::other("BUFFER must be at least 1"));
            }
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        let inputs = 0..context.inputs();
        self.inputs = inputs.map(|input| (VecDeque::new(), context.upstream(input))).collect();
        self.share = context.share(Purpose::Queues);
        Ok(())
    }

    fn notifies(&self) -> Notifies {
        Notifies::PACKETS
    }

    fn has_packets(&mut self, _: usize, context: &mut Context<'_>) -> bool {
        let mut has = |(waiting, signal): &(VecDeque<Packet>, Signal)| {
            !waiting.is_empty() || context.is_active(signal)
        };
        self.inputs.iter().any(&mut has)
    }

    fn pull(&mut self, _: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let before = batch.len();
        let mut own = context.take_batch();
        while batch.len() - before < max
            && let Some(packet) = self.pull_one(&mut own, context)
        {
            // The batch has room: the caller asked for this many packets.
            let _ = batch.push(packet);
        }
        context.give_batch(own);
    }

    // Packets of inputs that no longer exist are dropped.
    keep! { this, old;
        last_ns, disordered;
        then {
            for ((waiting, _), (before, _)) in this.inputs.iter_mut().zip(&mut old.inputs) {
                *waiting = std::mem::take(before);
            }
            this.share.set(this.inputs.iter().map(|(waiting, _)| waiting.len()).sum());
        }
    }

    handlers! { this, context, value; read "well_ordered" => !this.disordered; }
}
#[cfg(test)]
mod tests {
    use crate::testing::pull_bench;

    #[test]
    fn inputs_are_merged() {
        let mut bench = pull_bench("TimeSortedSched", &[], 2);
        bench.give_at(0, &[(1, b"a"), (5, b"e")]);
        bench.give_at(1, &[(2, b"b"), (3, b"c"), (9, b"i")]);
        let text: Vec<u8> = bench.pull(9).concat();
        assert_eq!(text, b"abcei");
        assert_eq!(bench.router.read("e.well_ordered", ""), Ok("true".into()));
    }

    #[test]
    fn a_long_buffer_leaves_a_part_of_the_pool_to_others() {
        let mut bench = pull_bench("TimeSortedSched", &["BUFFER 1000"], 1);
        for _ in 0..3 {
            bench.give(0, &[&b"a"[..]; 200]);
        }
        assert_eq!(bench.pull(1).len(), 1);
        // Half of the bound of all queues, which is 1024.
        assert_eq!(bench.router.read("queue0.length", ""), Ok((600 - 320).to_string()));
        assert_eq!(bench.pull(255).len(), 255);
    }
}
