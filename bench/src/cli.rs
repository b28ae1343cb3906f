//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::generator::Load;
use crate::measure::Timing;

/// Measure Europa in comparison with the kernel's own ways to forward packets.
///
/// Builds a generator, a router and a sink in three network namespaces, runs every
/// system in its best arrangement, and writes tables, JSON and SVG. Needs root.
/// Run it from the release build: `make bench`.
#[derive(Parser, Clone, Debug)]
#[command(name = "europa-bench", version)]
pub(crate) struct Options {
    /// Cases to measure
    #[arg(value_enum, default_value = "all", value_name = "CASE")]
    case: Vec<Case>,

    /// Fewer and shorter runs: minutes become seconds, figures less certain
    #[arg(long)]
    pub(crate) quick: bool,

    /// Runs of each system; the figures are their medians [default: 5, with --quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: Option<u32>,

    /// Bytes of a frame, without its check sequence
    #[arg(long, value_name = "BYTES", default_value_t = 64,
          value_parser = clap::value_parser!(u16).range(60..=1514))]
    frame_bytes: u16,

    /// Addresses to which packets go in random order, a power of two
    #[arg(long, value_name = "N", default_value = "1", value_parser = power_of_two)]
    destinations: u32,

    /// Folder for Markdown, JSON and SVG
    #[arg(long, value_name = "FOLDER", default_value = "bench/results")]
    pub(crate) out: PathBuf,

    /// Measure only these systems (linux is always measured for comparison)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) systems: Vec<String>,

    /// Routes for `graph` and `fib-update`, a prefix a line, plain or compressed with gzip
    /// [default: synthetic ones]
    #[arg(long, value_name = "FILE")]
    pub(crate) routes: Option<PathBuf>,

    /// Act as a substitute for a router for this time; `preemption` starts it
    #[arg(long, hide = true, value_name = "MS")]
    pub(crate) poll_clock_ms: Option<u64>,

    /// Click, a reference of `graph` [default: `click` on PATH]
    #[arg(long, value_name = "FILE")]
    pub(crate) click: Option<PathBuf>,

    /// FastClick's program [default: `fastclick` on PATH]
    #[arg(long, value_name = "FILE")]
    pub(crate) fastclick: Option<PathBuf>,

    /// The `europa` program [default: the one in the folder of europa-bench]
    #[arg(long, value_name = "FILE", env = "EUROPA")]
    pub(crate) europa: Option<PathBuf>,

    /// Committed counts of `instructions`
    #[arg(long, value_name = "FILE", default_value = "bench/instructions.json")]
    pub(crate) counts: PathBuf,

    /// Write new counts of `instructions` to the file
    #[arg(long)]
    pub(crate) write: bool,

    /// Run one hot loop for callgrind; this program starts itself with this option
    #[arg(long, value_name = "LOOP", hide = true)]
    pub(crate) count: Option<String>,
}

/// The cases.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Case {
    /// Every case
    All,
    /// Rate of small packets, CPU time per packet, and a sweep of the offered load
    Veth,
    /// Programs in kernel routers, and the same programs attached natively
    Xdp,
    /// Round trips: one request a second, and one after the other
    Latency,
    /// One TCP stream and eight, with default offloads and without
    Tcp,
    /// The element graph of the IPv4 router, without devices, on one core
    Graph,
    /// Look-ups in a full routing table while another thread changes it, compared with a trie
    /// behind a lock
    FibUpdate,
    /// Losses of a stream at half the highest rate while Europa's node is killed or changed
    Changes,
    /// Cost of a packet in the queue manager, and in a plain queue
    Queues,
    /// Shares of slices that compete for a port, and the waiting time of a slice during a flood
    Shares,
    /// Cost of a frame that is dropped because its slice is over its rate
    Policing,
    /// Cost of the receive and transmit programs, and of programs that only drop or only redirect
    Substrate,
    /// How long a router waits for a core for which eight routers compete
    Preemption,
    /// Look-ups among 100,000 ternary rules, compared with a linear scan, and changes while packets
    /// pass
    Filters,
    /// Delay and jitter along label switched paths, their set-up, and the cost of refreshing 10,000
    Flows,
    /// One, ten, a hundred and a thousand routers: rate, fairness, memory and start of each
    Scale,
    /// How long a tenant waits for its changes while another tenant attacks
    Interference,
    /// Packets over a packet pool to an isolated process and back, compared with testpmd over memif
    Pool,
    /// Pools of 2 to 8192 slots, one and two routers: packets and TCP
    PoolSize,
    /// Instructions of the hot loops, compared with the committed counts; fails if they have grown
    Instructions,
}

impl Options {
    /// The cases asked for, each once.
    pub(crate) fn cases(&self) -> Vec<Case> {
        [
            Case::Veth,
            Case::Xdp,
            Case::Latency,
            Case::Tcp,
            Case::Graph,
            Case::FibUpdate,
            Case::Changes,
            Case::Queues,
            Case::Shares,
            Case::Policing,
            Case::Substrate,
            Case::Preemption,
            Case::Filters,
            Case::Flows,
            Case::Scale,
            Case::Interference,
            Case::Pool,
            Case::PoolSize,
            Case::Instructions,
        ]
        .into_iter()
        .filter(|case| self.case.contains(case) || self.case.contains(&Case::All))
        .collect()
    }

    /// Whether the command line names a case.
    pub(crate) fn asks(&self, case: Case) -> bool {
        self.case.contains(&case)
    }

    /// The number of runs of each system; the figures are their medians.
    pub(crate) fn repeat(&self) -> u32 {
        self.repeat.unwrap_or(if self.quick { 3 } else { 5 })
    }

    /// Durations of a run that counts packets.
    pub(crate) fn timing(&self) -> Timing {
        let (warm_up, run) = if self.quick { (200, 600) } else { (500, 2000) };
        Timing { warm_up: Duration::from_millis(warm_up), run: Duration::from_millis(run) }
    }

    /// The load of a generator without a rate limit.
    pub(crate) fn load(&self) -> Load {
        Load {
            frame_bytes: self.frame_bytes,
            packets_per_second: None,
            destinations: self.destinations,
            routers: 0,
            stamp: false,
        }
    }

    /// The same options for these systems.
    pub(crate) fn only(&self, systems: &[&str]) -> Self {
        let systems = systems.iter().map(|name| (*name).to_owned()).collect();
        Self { systems, ..self.clone() }
    }

    /// Whether the options include a system.
    pub(crate) fn wants(&self, system: &str) -> bool {
        self.systems.is_empty()
            || system == "linux"
            || self.systems.iter().any(|name| name == system)
    }
}

fn power_of_two(text: &str) -> Result<u32, String> {
    let number: u32 = text.parse().map_err(|_| "not a number".to_owned())?;
    match number.is_power_of_two() && number <= 1 << 16 {
        true => Ok(number),
        false => Err("wanted a power of two up to 65536".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        Options::command().debug_assert();
    }

    #[test]
    fn all_is_every_case_once() {
        for (arguments, cases) in [
            (&["europa-bench"][..], 18),
            (&["europa-bench", "all"], 18),
            (&["europa-bench", "tcp", "veth", "tcp"], 2),
        ] {
            assert_eq!(Options::parse_from(arguments).cases().len(), cases, "{arguments:?}");
        }
    }
}
