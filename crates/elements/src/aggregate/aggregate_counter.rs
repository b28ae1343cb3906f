//! # AggregateCounter
//!
//! ## Synopsis
//! `AggregateCounter([BYTES, IP_BYTES, MULTIPACKET, EXTRA_LENGTH, AGGREGATE_STOP, AGGREGATE_FREEZE, COUNT_STOP, COUNT_FREEZE, AGGREGATE_CALL, COUNT_CALL, BANNER])`
//!
//! ## Ports
//! One or two inputs, one or two outputs; output 0 push or pull, output 1 push. Input 1 is push;
//! its packets start no new count. Packets that are not counted leave by output 1 if it is
//! connected.
//!
//! ## Description
//! Counts packets or bytes by aggregate annotation. It counts up to a million aggregates. After
//! that it starts no new counts, as with `freeze`.
//!
//! ## Arguments
//! - BYTES (keyword): count bytes; IP_BYTES: from the network header on; default false.
//! - MULTIPACKET (keyword): count the packets that a packet stands for; default true.
//! - EXTRA_LENGTH (keyword): count the extra length annotation; default true.
//! - AGGREGATE_STOP, COUNT_STOP (keywords): stop the router at this number of aggregates, or at
//!   this sum.
//! - AGGREGATE_FREEZE, COUNT_FREEZE (keywords): start no new counts after this number of
//!   aggregates, or this sum.
//! - AGGREGATE_CALL, COUNT_CALL (keywords): `N HANDLER [VALUE]`: the handler is written once there
//!   are N aggregates, or this sum.
//! - BANNER (keyword): first line of files that it writes.
//!
//! ## Handlers
//! - `nagg`, `count` (read): number of aggregates; sum of all counts.
//! - `freeze`, `active` (read, write): whether it starts no new counts; whether it counts at all.
//! - `banner` (read, write): BANNER.
//! - `write_text_file`, `write_ip_file` (write): writes all counts to a file, a line each: the
//!   aggregate, as a number or an address, and its count.
//! - `write_file` (write): writes all counts to a file as records of 8 bytes.
//! - `counts_pdf` (write): counts how often each count occurs.
//! - `clear`, `stop` (write): forgets all counts; stops the router.
//!
//! ## See also
//! `AggregateIP`, `AggregateLength`, `AggregatePaint`, `Counter`

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::Ipv4Addr;

use crate::basic::counter::{Call, call_at};
use crate::prelude::*;
use crate::shared::fields::Annotations;

/// Counts by aggregate.
pub(crate) struct AggregateCounter {
    counts: BTreeMap<u32, u32>,
    total: u64,
    bytes: bool,
    ip_bytes: bool,
    multipacket: bool,
    extra_length: bool,
    frozen: bool,
    active: bool,
    /// The numbers of aggregates and the sums at which the router stops, and at which new counts
    /// end.
    stop_at: [u64; 2],
    freeze_at: [u64; 2],
    calls: [Option<Call>; 2],
    banner: String,
}

impl Default for AggregateCounter {
    fn default() -> AggregateCounter {
        AggregateCounter {
            counts: BTreeMap::new(),
            total: 0,
            bytes: false,
            ip_bytes: false,
            multipacket: true,
            extra_length: true,
            frozen: false,
            active: true,
            stop_at: [u64::MAX; 2],
            freeze_at: [u64::MAX; 2],
            calls: [None, None],
            banner: String::new(),
        }
    }
}

impl Class for AggregateCounter {
    const INFO: ClassInfo = ClassInfo::new("AggregateCounter", "1-2/1-2").processing("a/ah");
}

/// Most aggregates.
const MOST: usize = 1 << 20;

/// The format of counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Ip,
    Packed,
}

impl AggregateCounter {
    /// Whether the packet was counted.
    fn count(&mut self, packet: &Packet, frozen: bool) -> bool {
        let amount = if self.bytes {
            let length = if self.ip_bytes { packet.network_len() } else { packet.len() };
            let extra = if self.extra_length { packet.extra_length() } else { 0 };
            (length as u32).saturating_add(extra)
        } else if self.multipacket {
            packet.extra_packets().saturating_add(1)
        } else {
            1
        };
        let (aggregate, full) = (packet.aggregate(), self.counts.len() >= MOST);
        match self.counts.get_mut(&aggregate) {
            Some(count) => *count = count.saturating_add(amount),
            None if frozen || full => return false,
            None => drop(self.counts.insert(aggregate, amount)),
        }
        self.total += u64::from(amount);
        true
    }

    fn check(&mut self, context: &mut Context<'_>) {
        let now = [self.counts.len() as u64, self.total];
        let reached = |bounds: [u64; 2]| now.iter().zip(bounds).any(|(now, bound)| *now >= bound);
        if reached(self.stop_at) {
            self.active = false;
            context.stop();
        }
        self.frozen |= reached(self.freeze_at);
        for (call, now) in self.calls.iter_mut().zip(now) {
            call_at(call, now, context);
        }
    }

    fn run(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let elsewhere = context.outputs() > 1;
        let mut kept = context.take_batch();
        for packet in batch.drain() {
            let counted = self.active && self.count(&packet, self.frozen || port == 1);
            self.check(context);
            match counted || !elsewhere {
                // As many as came fit.
                true => drop(kept.push(packet)),
                false => context.push(1, packet),
            }
        }
        batch.append(&mut kept);
        context.give_batch(kept);
    }

    fn write_file(&self, name: &str, form: Form) -> Result<(), HandlerError> {
        let failed = |error: std::io::Error| HandlerError::Other(format!("{name}: {error}"));
        // A handler opens only files that the process may open; a node's router may open none.
        let mut file: Box<dyn Write> = match name {
            "-" => Box::new(std::io::stdout()),
            name => Box::new(BufWriter::new(File::create(name).map_err(failed)?)),
        };
        let mut text = "!IPAggregate 1.0\n".to_owned();
        if !self.banner.is_empty() {
            text += &format!("{}\n", self.banner.trim_end());
        }
        text += &format!("!num_nonzero {}\n", self.counts.len());
        if form == Form::Packed {
            text += if cfg!(target_endian = "little") { "!packed_le\n" } else { "!packed_be\n" };
        } else if form == Form::Ip {
            text += "!ip\n";
        }
        file.write_all(text.as_bytes()).map_err(failed)?;
        for (aggregate, count) in &self.counts {
            let record = match form {
                Form::Text => format!("{aggregate} {count}\n").into_bytes(),
                Form::Ip => format!("{} {count}\n", Ipv4Addr::from(*aggregate)).into_bytes(),
                Form::Packed => [aggregate.to_ne_bytes(), count.to_ne_bytes()].concat(),
            };
            file.write_all(&record).map_err(failed)?;
        }
        file.flush().map_err(failed)
    }
}

impl Element for AggregateCounter {
    arguments! { this, given;
        keyword "BYTES": bool = false => this.bytes;
        keyword "IP_BYTES": bool = false => this.ip_bytes;
        keyword "MULTIPACKET": bool = true => this.multipacket;
        keyword "EXTRA_LENGTH": bool = true => this.extra_length;
        keyword "AGGREGATE_STOP": u64 = u64::MAX => this.stop_at[0];
        keyword "COUNT_STOP": u64 = u64::MAX => this.stop_at[1];
        keyword "AGGREGATE_FREEZE": u64 = u64::MAX => this.freeze_at[0];
        keyword "COUNT_FREEZE": u64 = u64::MAX => this.freeze_at[1];
        keyword "AGGREGATE_CALL": "'N HANDLER [VALUE]'", by Call::read => this.calls[0];
        keyword "COUNT_CALL": "'N HANDLER [VALUE]'", by Call::read => this.calls[1];
        keyword "BANNER": String = String::new() => this.banner;
        then {
            this.bytes |= this.ip_bytes;
        }
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        let [aggregates, count] = &self.calls;
        Call::check([aggregates, count], context)
    }

    fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        self.run(port, batch, context);
        context.forward(0, batch);
    }

    fn process(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        self.run(0, batch, context);
    }

    handlers! { this, context, value;
        read "nagg" => this.counts.len();
        read "count" => this.total;
        both "freeze" [CHECKBOX] => this.frozen;
        both "active" [CHECKBOX] => this.active;
        both "banner" => this.banner, set this.banner = value.to_owned();
        write "write_text_file" => this.write_file(value.trim(), Form::Text)?;
        write "write_ip_file" => this.write_file(value.trim(), Form::Ip)?;
        write "write_file" => this.write_file(value.trim(), Form::Packed)?;
        button "counts_pdf" => {
            let mut occurrences = BTreeMap::new();
            for count in this.counts.values() {
                *occurrences.entry(*count).or_insert(0u32) += 1;
            }
            this.total = occurrences.values().map(|count| u64::from(*count)).sum();
            this.counts = occurrences;
        };
        button "clear" => { this.counts.clear(); this.total = 0; };
        button "stop" => { this.active = false; context.stop(); };
    }
}

#[cfg(test)]
mod tests {
    use crate::shared::fields::Annotations;
    use crate::testing::Bench;

    fn push(bench: &mut Bench, aggregates: &[u32]) -> usize {
        let packets = aggregates.iter().map(|aggregate| {
            let mut packet = bench.arena.packet(b"abc").unwrap();
            packet.set_aggregate(*aggregate);
            packet
        });
        let packets = packets.collect();
        bench.push_packets(0, packets).iter().filter(|(output, _)| *output == 0).count()
    }

    #[test]
    fn counts_are_written_as_text() {
        let path = std::env::temp_dir().join(format!("europa-aggregates-{}", std::process::id()));
        for (arguments, handler, lines) in [
            (&[][..], "write_text_file", "0 3\n1 2\n2 2\n3 1\n"),
            (&["BYTES true"], "write_ip_file", "!ip\n0.0.0.0 9\n0.0.0.1 6\n0.0.0.2 6\n0.0.0.3 3\n"),
        ] {
            let mut bench = Bench::with_inputs("AggregateCounter", arguments, 1);
            push(&mut bench, &[1, 1, 0, 0, 0, 2, 3, 2]);
            bench.router.write(&format!("e.{handler}"), path.to_str().unwrap()).unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!(text, format!("!IPAggregate 1.0\n!num_nonzero 4\n{lines}"));
            bench.router.write("e.counts_pdf", "").unwrap();
            assert_eq!(bench.router.read("e.nagg", ""), Ok("3".into()));
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_frozen_counter_starts_nothing() {
        let mut bench = Bench::with_inputs("AggregateCounter", &["AGGREGATE_FREEZE 2"], 1);
        assert_eq!(push(&mut bench, &[1, 2, 3, 1]), 3);
        assert_eq!(bench.router.read("e.count", ""), Ok("3".into()));
        let mut bench = Bench::with_inputs("AggregateCounter", &["COUNT_STOP 3"], 1);
        push(&mut bench, &[1, 1]);
        assert!(!bench.router.is_stopped());
        push(&mut bench, &[1]);
        assert!(bench.router.is_stopped());
        for (call, aggregates) in [("AGGREGATE_CALL", [1, 2, 3]), ("COUNT_CALL", [1, 1, 1])] {
            let call = format!("{call} 3 e.active false");
            let mut bench = Bench::with_inputs("AggregateCounter", &[&call], 1);
            push(&mut bench, &aggregates[..2]);
            assert_eq!(bench.router.read("e.active", ""), Ok("true".into()), "{call}");
            push(&mut bench, &aggregates[2..]);
            assert_eq!(bench.router.read("e.active", ""), Ok("false".into()), "{call}");
        }
    }
}
