//! What can be typed.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use europa_node::Instance;

use crate::capture::CaptureArgs;
use crate::graph::GraphArgs;
use crate::trace::TraceArgs;
use crate::{capture, graph, import, roles, show, trace, up};

/// Many isolated, freely programmable virtual routers on one Linux server.
#[derive(Parser)]
#[command(name = "europa", version, max_term_width = 100)]
#[command(after_help = "Start with `europa doctor`, then `europa up examples/two-slices.yaml`.\n\
    The user guide is in docs/.")]
pub(crate) struct Cli {
    /// Which node of this host, if it has several.
    #[arg(long, global = true, default_value = "default", env = "EUROPA_INSTANCE")]
    instance: String,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Bring up what the files describe: ports, slices, routers.
    ///
    /// All files are read and checked first: if one has a mistake, nothing is changed.
    /// The node then runs in the background until `europa down`.
    Up {
        /// YAML files; see docs/configuration.md.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Take everything down and leave nothing behind.
    ///
    /// Also cleans up after a node that was killed.
    Down,
    /// Show packets, bytes and losses of every router and port.
    Stats {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Tell what this machine can and cannot do, and what follows.
    ///
    /// Exits with 1 if Europa cannot run here.
    Doctor {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Read a handler of a router's element.
    Read {
        /// `slice/router`.
        router: String,
        /// `element.handler`.
        handler: String,
    },
    /// Write a handler of a router's element.
    Write {
        /// `slice/router`.
        router: String,
        /// `element.handler`.
        handler: String,
        /// What to write.
        #[arg(default_value = "")]
        value: String,
    },
    /// Show packets of interfaces as they come and go, or write them for Wireshark.
    ///
    /// Ends with Ctrl-C. Nobody else is slowed: what a capture costs is bounded, and frames that
    /// it does not look at for that are counted.
    #[command(after_help = "Examples:\n  \
        europa capture red/r1 -f 'icmp or arp'\n  \
        europa capture left -w left.pcapng\n  \
        europa capture red/r1.in -w - | wireshark -k -i -")]
    Capture(CaptureArgs),
    /// Follow single packets through a router: elements, tables, queues, and their fate.
    ///
    /// Shows what each element changes, what its tables say, and why a packet is dropped.
    #[command(after_help = "Example:\n  europa trace red/r1 'icmp and host 10.0.2.2'")]
    Trace(TraceArgs),
    /// Draw the topology, or the elements of a router, as SVG.
    ///
    /// With addresses and the rates of this moment, or how many packets went through each element.
    #[command(after_help = "Examples:\n  \
        europa graph -o topology.svg\n  \
        europa graph red/r1 -o r1.svg\n  \
        europa graph red/r1 --dot | dot -Tpdf > r1.pdf")]
    Graph(GraphArgs),
    /// Turn another tool's topology into a configuration.
    Import {
        #[command(subcommand)]
        from: Import,
    },
    /// Print a completion script for a shell.
    ///
    /// For bash: `europa completion bash > /etc/bash_completion.d/europa`.
    Completion {
        /// Which shell.
        shell: Shell,
    },
    /// The node's process; started by `up`.
    #[command(hide = true)]
    Node,
    /// The switch's process; started by the node.
    #[command(hide = true)]
    Switch {
        /// Where it may run.
        #[arg(long, value_delimiter = ',')]
        cpus: Vec<usize>,
    },
    /// A router's process; started by the node.
    #[command(hide = true)]
    Router {
        /// Number on the node.
        #[arg(long)]
        number: u32,
        /// `slice/router`.
        #[arg(long)]
        name: String,
        /// Where it may run.
        #[arg(long, value_delimiter = ',')]
        cpus: Vec<usize>,
    },
}

#[derive(Subcommand)]
enum Import {
    /// From containerlab: kinds linux, frr, bridge, ext-container and host.
    ///
    /// What has no counterpart is named on standard error, with its line.
    Containerlab {
        /// The topology, like lab.clab.yml.
        file: PathBuf,
        /// Where the configuration goes. Default: standard output.
        #[arg(short, long)]
        output: Option<PathBuf>,
    },
}

impl Cli {
    pub(crate) fn run(self) -> Result<ExitCode, String> {
        let instance = Instance::new(&self.instance).map_err(|error| error.to_string())?;
        match self.command {
            Command::Up { files } => up::up(&instance, &files, colour()),
            Command::Down => up::down(&instance),
            Command::Stats { json } => show::stats(&instance, json),
            Command::Doctor { json } => show::doctor(json),
            Command::Read { router, handler } => show::read(&instance, router, handler),
            Command::Write { router, handler, value } => {
                show::write(&instance, router, handler, value)
            }
            Command::Trace(args) => trace::trace(&instance, &args),
            Command::Graph(args) => graph::graph(&instance, &args),
            Command::Capture(args) => capture::capture(&instance, &args),
            Command::Import { from: Import::Containerlab { file, output } } => {
                import::containerlab(&file, output)
            }
            Command::Completion { shell } => {
                clap_complete::generate(
                    shell,
                    &mut Self::command(),
                    "europa",
                    &mut std::io::stdout(),
                );
                Ok(ExitCode::SUCCESS)
            }
            Command::Node => roles::node(instance),
            Command::Switch { cpus } => roles::switch(&cpus),
            Command::Router { number, name, cpus } => roles::router(number, &name, &cpus),
        }
    }
}

/// Whether messages may have colours.
fn colour() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}
