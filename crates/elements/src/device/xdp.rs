//! # XDP
//!
//! ## Synopsis
//! `XDP(FILE [, PROGRAM, CONSTANTS "...", TAIL_CALLS "...", MAPS "...", MEMORY, FUEL])`
//!
//! ## Ports
//! Any number of push inputs, any number of push outputs. Input N is device N + 1 of the program.
//! Output 0: packets that the program passes. Output N: packets for device N.
//!
//! ## Description
//! Runs an eBPF program of type XDP on each packet, in this process. An interpreter checks every
//! access, so a program can neither reach foreign memory nor stop the router. The program begins at
//! the Ethernet header, as after `FromDevice`.
//!
//! | the program returns | the packet |
//! |---|---|
//! | `XDP_PASS` | leaves by output 0 |
//! | `XDP_TX` | leaves by the output of the device that it came from |
//! | `XDP_REDIRECT` | leaves by the output whose number `bpf_redirect` or the map names |
//! | `XDP_REDIRECT` to a CPU | leaves by output 0 |
//! | `XDP_DROP`, `XDP_ABORTED` | is dropped |
//!
//! A packet for an output that is not connected is dropped. A packet is also dropped if its program
//! is stopped: for an access out of bounds, or because it runs too long. Device maps, socket maps
//! and `bpf_redirect` use numbers of outputs. `bpf_fib_lookup` answers from the routes that were
//! written to `routes`. There is one CPU.
//!
//! docs/xdp.md lists the available helpers and maps, and tells how to compile a program. In a
//! router of a node the file needs a grant: `read: FILE`.
//!
//! ## Arguments
//! - FILE: an object file, as `clang -target bpf` or `europa compile` makes it.
//! - PROGRAM: name of the function, or of its section; not needed if there is one only.
//! - CONSTANTS (keyword): `NAME VALUE, ...`: global constants of the program.
//! - TAIL_CALLS (keyword): `MAP INDEX PROGRAM, ...`: contents of program arrays, beside those that
//!   the source declares.
//! - MAPS (keyword): `MAP KEY=VALUE; ...`: entries of maps. Values are written as docs/xdp.md says.
//! - MEMORY (keyword): bytes of all maps together; default 268435456.
//! - FUEL (keyword): instructions for one packet; default 1000000.
//!
//! ## Handlers
//! - `passed`, `transmitted`, `redirected`, `dropped`, `aborted` (read): packets by verdict.
//! - `out_of_bounds`, `out_of_fuel`, `other_faults` (read): packets whose program was stopped.
//! - `no_output` (read): packets for an output that is not connected.
//! - `fault` (read): where and why the program was stopped last, with its source line.
//! - `reset_counts` (write): sets all counts to zero.
//! - `maps` (read): all maps, a line each: name, type, bytes of keys and values, most entries.
//! - `trace` (read): takes the program's output of `bpf_trace_printk`.
//! - `routes` (read, write): routes for `bpf_fib_lookup`, a line each: `PREFIX OUTPUT SOURCE
//!   DESTINATION`, the last two Ethernet addresses; without DESTINATION the neighbour is unknown.
//! - a map's name (read, write): all entries, `KEY=VALUE` a line; with a key as parameter its
//!   value. Written are lines of `KEY=VALUE` or `-KEY`. Reading a ring buffer or perf event array
//!   takes its records.
//! - a global variable's name (read, write): its value.
//!
//! ## See also
//! `IPFilter`, `Classifier`, `Script`

mod fib;
mod setup;
#[cfg(test)]
mod tests;

use std::io::Read as _;

use europa_cage::user::{Cause, Frame, Input, Machine, Target, Verdict};
use europa_cage::{Linked, Object};
use europa_engine::DROP;

use crate::prelude::*;
use crate::shared::files;
use fib::Routes;
use setup::Settings;

/// Longest object file, in bytes.
const MAX_FILE: u64 = 16 << 20;
/// Most bytes in front of a packet that a program may add.
const HEADROOM: usize = 256;
/// Most bytes behind a packet that a program may add.
const TAILROOM: usize = 1024;

/// Runs a program on packets.
#[derive(Default)]
#[expect(clippy::upper_case_acronyms, reason = "its name in configurations")]
pub(crate) struct XDP {
    settings: Settings,
    running: Option<Running>,
    counts: Counts,
    /// The instruction and cause of the program's last stop.
    fault: Option<(usize, Cause)>,
    routes: Routes,
    /// Copies for several devices, which are being sent.
    copies: Vec<(u16, Packet)>,
}

/// A program and its source.
struct Running {
    object: Object,
    linked: Linked,
    machine: Machine,
}

/// Packets by verdict.
#[derive(Default)]
struct Counts {
    passed: u64,
    transmitted: u64,
    redirected: u64,
    dropped: u64,
    aborted: u64,
    out_of_bounds: u64,
    out_of_fuel: u64,
    other_faults: u64,
    no_output: u64,
}

impl Class for XDP {
    const INFO: ClassInfo = ClassInfo::new("XDP", "1-/-").processing("h/h");
}

impl XDP {
    /// Runs the program on a packet; the output it leaves by, or [`DROP`].
    #[inline(always)]
    fn judge(&mut self, packet: &mut Packet, port: usize, outputs: usize, now_ns: u64) -> u16 {
        let Some(running) = &mut self.running else { return DROP };
        let head = packet.headroom().min(HEADROOM);
        let length = packet.len();
        // Both operations succeed: the packet is at least as long as this.
        packet.push(head);
        let tail = packet.tailroom().min(TAILROOM);
        packet.put(tail);
        let mut frame =
            Frame { buffer: packet.data_mut(), meta: head, start: head, end: head + length };
        // A router has fewer ports than this.
        let own = (port + 1) as u32;
        let mut surroundings = fib::Surroundings { now_ns, routes: &self.routes };
        let verdict =
            running.machine.run(&mut frame, Input { device: own, queue: 0 }, &mut surroundings);
        let (start, end) = (frame.start, frame.end);
        packet.take(head + length + tail - end);
        packet.pull(start);
        if start != head {
            packet.set_mac_header(0);
        }
        let (output, count) = match verdict {
            Ok(Verdict::Pass) => (0, &mut self.counts.passed),
            Ok(Verdict::Transmit) => (own, &mut self.counts.transmitted),
            Ok(Verdict::Redirect(Target::Device(output) | Target::Socket(output))) => {
                (output, &mut self.counts.redirected)
            }
            Ok(Verdict::Redirect(Target::Cpu(_))) => (0, &mut self.counts.redirected),
            Ok(Verdict::Redirect(Target::Devices { map, but_ingress })) => {
                self.counts.redirected += 1;
                self.copy(packet, map, but_ingress.then_some(own), outputs);
                return DROP;
            }
            Ok(Verdict::Redirect(Target::Nowhere) | Verdict::Aborted) => {
                self.counts.aborted += 1;
                return DROP;
            }
            Ok(Verdict::Drop) => {
                self.counts.dropped += 1;
                return DROP;
            }
            Err(fault) => {
                self.fault = Some((fault.at, fault.cause));
                match fault.cause {
                    Cause::Memory { .. } => self.counts.out_of_bounds += 1,
                    Cause::Fuel => self.counts.out_of_fuel += 1,
                    _ => self.counts.other_faults += 1,
                }
                return DROP;
            }
        };
        if (output as usize) < outputs {
            *count += 1;
            // An element has fewer outputs than the number [`DROP`].
            return output as u16;
        }
        self.counts.no_output += 1;
        DROP
    }

    /// Keeps a copy for each device of a map.
    fn copy(&mut self, packet: &Packet, map: usize, but: Option<u32>, outputs: usize) {
        let Some(running) = &self.running else { return };
        for output in running.machine.devices(map).filter(|output| Some(*output) != but) {
            // The room for copies was made before the first packet.
            let fits = (output as usize) < outputs && self.copies.len() < self.copies.capacity();
            match packet.try_clone().filter(|_| fits) {
                Some(copy) => self.copies.push((output as u16, copy)),
                None => self.counts.no_output += 1,
            }
        }
    }

    /// The program, whose maps and variables are handlers.
    fn running(&mut self, handler: &str) -> Result<&mut Running, HandlerError> {
        self.running.as_mut().ok_or_else(|| HandlerError::NotFound(handler.to_owned()))
    }

    /// Where and why the program was stopped last.
    fn fault_text(&self) -> String {
        let (Some((at, cause)), Some(running)) = (self.fault, &self.running) else {
            return String::new();
        };
        running.linked.problem(&running.object, at, cause.to_string(), "").to_string()
    }
}

impl Element for XDP {
    arguments! { this, given;
        set Settings => this.settings;
    }

    fn initialize(&mut self, context: &mut InitContext<'_>) -> Result<(), ConfigError> {
        let mut file = Vec::new();
        let read =
            files::open(&self.settings.file, context)?.take(MAX_FILE + 1).read_to_end(&mut file);
        let name = &self.settings.file;
        read.map_err(|error| ConfigError::other(format!("{name}: {error}")))?;
        let running = self.settings.load(&file);
        let running =
            running.map_err(|problems| ConfigError::other(format!("{name}: {problems}")))?;
        self.running = Some(running);
        // Each packet of a batch may leave by every output.
        self.copies.reserve(context.outputs() * europa_engine::BATCH);
        Ok(())
    }

    fn push(&mut self, port: usize, batch: &mut Batch, context: &mut Context<'_>) {
        let (outputs, now_ns) = (context.outputs(), context.now_ns());
        context.forward_each(batch, |packet| self.judge(packet, port, outputs, now_ns));
        for (output, packet) in self.copies.drain(..) {
            context.push(usize::from(output), packet);
        }
    }

    handlers! { this, context, value, name;
        read "passed" => this.counts.passed;
        read "transmitted" => this.counts.transmitted;
        read "redirected" => this.counts.redirected;
        read "dropped" => this.counts.dropped;
        read "aborted" => this.counts.aborted;
        read "out_of_bounds" => this.counts.out_of_bounds;
        read "out_of_fuel" => this.counts.out_of_fuel;
        read "other_faults" => this.counts.other_faults;
        read "no_output" => this.counts.no_output;
        read "fault" => this.fault_text();
        button "reset_counts" => this.counts = Counts::default();
        read "maps" [CALM] => this.running("maps")?.list();
        read "trace" => this.running("trace")?.machine.take_trace();
        both "routes" => this.routes.text(), set {
            this.routes = Routes::parse(value).map_err(HandlerError::Other)?;
        };
        _ => this.running(name)?.read(name, value)?, set this.running(name)?.write(name, value)?;
    }

    fn dynamic_handler(&self, name: &str) -> Option<Flags> {
        self.running.as_ref().and_then(|running| running.handler(name))
    }

    fn dynamic_handlers(&self) -> Vec<(String, Flags)> {
        self.running.as_ref().map(Running::handlers).unwrap_or_default()
    }

    keep! { this, old;
        counts, routes;
        then {
            if let (Some(running), Some(old)) = (&mut this.running, &mut old.running) {
                running.machine.adopt(&mut old.machine);
            }
        }
    }
}
