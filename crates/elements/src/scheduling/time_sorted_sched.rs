//! # TimeSortedSched
//!
//! ## Synopsis
//! `TimeSortedSched([BUFFER, STOP, WELL_ORDERED, STOP_AFTER])`
//!
//! ## Ports
//! Any number of pull inputs, one pull output. Packets that come too late leave by a second, push
//! output, if it is connected.
//!
//! ## Description
//! Pulls packets from its inputs and gives them away in the order of their times. Each input has to
//! be in order itself.
//!
//! ## Arguments
//! - STOP (keyword): stop the router when all inputs have had packets and are empty; default false.
//! - STOP_AFTER (keyword): when so many inputs are empty.
//! - BUFFER (keyword): packets of each input that are looked at, default 1: inputs may be out of
//!   order within that many.
//! - WELL_ORDERED (keyword): accepted for Click's sake.
//!
//! ## Handlers
//! None.
//!
//! ## See also
//! `RoundRobinSched`, `PrioSched`, `FromDump`

use crate::prelude::*;

/// Merges by time.
pub(crate) struct TimeSortedSched {
    buffer: usize,
    /// Stop when so many inputs are empty.
    stop_after: Option<usize>,
    /// By input: packets that wait, and whether it has ever had one.
    inputs: Vec<(Vec<Packet>, bool)>,
}

impl Default for TimeSortedSched {
    fn default() -> TimeSortedSched {
        TimeSortedSched { buffer: 1, stop_after: None, inputs: Vec::new() }
    }
}

impl Class for TimeSortedSched {
    const INFO: ClassInfo = ClassInfo::new("TimeSortedSched", "-/1-2").processing("l/lh");
}

impl TimeSortedSched {
    fn pull_one(&mut self, batch: &mut Batch, context: &mut Context<'_>) -> Option<Packet> {
        for (input, (waiting, seen)) in self.inputs.iter_mut().enumerate() {
            while waiting.len() < self.buffer && context.pull(input, 1, batch) > 0 {
                waiting.extend(batch.pop());
                *seen = true;
            }
        }
        let earliest = self.inputs.iter().enumerate().flat_map(|(input, (waiting, _))| {
            waiting
                .iter()
                .enumerate()
                .map(move |(place, packet)| (packet.timestamp_ns(), input, place))
        });
        let found = earliest.min();
        let empty = self.inputs.iter().filter(|(waiting, _)| waiting.is_empty()).count();
        if self.stop_after.is_some_and(|count| empty >= count)
            && self.inputs.iter().any(|(_, seen)| *seen)
        {
            context.stop();
        }
        let (_, input, place) = found?;
        self.inputs.get_mut(input).map(|(waiting, _)| waiting.remove(place))
    }
}

impl Element for TimeSortedSched {
    fn configure(&mut self, arguments: &mut Arguments<'_>) -> Result<(), ConfigError> {
        let inputs = arguments.inputs();
        self.buffer = arguments.keyword("BUFFER")?.unwrap_or(1).max(1);
        arguments.keyword::<bool>("WELL_ORDERED")?;
        let stop = arguments.keyword("STOP")?.unwrap_or(false).then_some(inputs);
        self.stop_after = arguments.keyword("STOP_AFTER")?.or(stop);
        self.inputs.resize_with(inputs, || (Vec::new(), false));
        arguments.finish()
    }

    fn pull(&mut self, _: usize, max: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let before = batch.len();
        let mut own = context.take_batch();
        while batch.len() - before < max
            && let Some(packet) = self.pull_one(&mut own, context)
        {
            // There is room: the caller asked for so many.
            let _ = batch.push(packet);
        }
        context.give_batch(own);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::pull_bench;

    #[test]
    fn inputs_are_merged() {
        let mut bench = pull_bench("TimeSortedSched", &["STOP true"], 2);
        bench.give_at(0, &[(1, b"a"), (5, b"e")]);
        bench.give_at(1, &[(2, b"b"), (3, b"c"), (9, b"i")]);
        let text: Vec<u8> = bench.pull(9).concat();
        assert_eq!(text, b"abcei");
        assert!(bench.router.is_stopped());
    }
}
