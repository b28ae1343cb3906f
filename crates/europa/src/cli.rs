//! What can be typed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use clap_complete::engine::ArgValueCompleter;
use europa_node::{Instance, Lifetime, Settings};

use crate::capture::CaptureArgs;
use crate::exit::{CODES, Failure};
use crate::filter::FilterCommand;
use crate::get::{self, Form};
use crate::graph::GraphArgs;
use crate::plot::PlotArgs;
use crate::trace::TraceArgs;
use crate::{
    bench, capture, click, complete, filter, follow, graph, import, plot, print, roles, routers,
    show, slow_path, top, trace, up, watch,
};

/// Many isolated, freely programmable virtual routers on one Linux server.
///
/// A configuration is a set of small YAML documents: ports, slices, links and routers.
/// `europa up` brings up what files say, `europa apply` changes what runs, and only what
/// differs; `europa get`, `describe`, `stats`, `events` and `logs` show how it goes.
///
/// All commands but `node` and `doctor` talk to the node through its REST interface, the
/// socket /run/europa/NAME/node.sock.
#[derive(Parser)]
#[command(name = "europa", version, max_term_width = 100, infer_subcommands = true)]
#[command(after_help = "Start with `europa doctor`, then `europa up examples/two-slices.yaml`.\n\
    The user guide is in docs/.")]
#[command(after_long_help = CODES)]
pub(crate) struct Cli {
    /// Which node of this host, if it has several.
    #[arg(long, global = true, default_value = "default", env = "EUROPA_INSTANCE")]
    instance: String,
    #[command(subcommand)]
    command: Command,
}

/// What `up` and `apply` take.
#[derive(Args, Debug)]
pub(crate) struct Apply {
    /// YAML files, directories of them, or `-` for standard input.
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Check everything and show what would change, but change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Remove objects that the files do not name.
    #[arg(long)]
    pub(crate) prune: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a node is told when it is started.
#[derive(Args, Debug)]
pub(crate) struct Starting {
    /// Serve counters for Prometheus at http://ADDRESS:PORT/metrics.
    #[arg(long, value_name = "ADDRESS:PORT", env = "EUROPA_METRICS")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Workers of the switch, each with a CPU of its own: ports and routers are shared out among
    /// them. Default: 1. Counts until `europa down`.
    #[arg(long, value_name = "N", env = "EUROPA_WORKERS",
        value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) workers: Option<u32>,
}

impl Starting {
    fn settings(&self) -> Settings {
        Settings { metrics_at: self.metrics, workers: self.workers.unwrap_or(1) }
    }
}

#[derive(Subcommand)]
enum Command {
    /// Start a node if none runs, and apply files.
    ///
    /// The node runs in the background until `europa down`, which then also forgets its
    /// desired state. Otherwise like `apply`.
    Up {
        #[command(flatten)]
        apply: Apply,
        #[command(flatten)]
        starting: Starting,
    },
    /// Make the running node be what the files say, changing only what differs.
    ///
    /// All files are read and checked first, together with what the node has already, and
    /// Click configurations are tried in a sandbox: if there is a mistake, nothing is
    /// changed. Then the differences are shown and carried out: routes and neighbours of
    /// `builtin: ipv4` in place; a changed fast path by a hot swap in the running process,
    /// without loss; a changed interface, pool, CPU or poll restarts that router alone.
    /// If carrying it out fails, the state of before is brought back.
    ///
    /// Objects that the files do not name stay, unless --prune is given. A directory means
    /// its .yaml and .yml files.
    Apply(Apply),
    /// Take everything down and leave nothing behind.
    ///
    /// Desired state of a node started by `up` is forgotten; that of `europa node` is kept
    /// and brought up again by its next start. Also takes away what a node that was killed has
    /// left running.
    Down,
    /// Show objects and what became of them.
    #[command(visible_alias = "ls")]
    Get {
        /// ports, slices, links, hosts, routers, filters, or all.
        #[arg(add = ArgValueCompleter::new(complete::kinds))]
        kind: Option<String>,
        /// Name of one object; of a router SLICE/NAME.
        #[arg(add = ArgValueCompleter::new(complete::objects))]
        name: Option<String>,
        /// Print JSON, with status.
        #[arg(long, conflicts_with = "yaml")]
        json: bool,
        /// Print the documents as YAML that `apply` takes.
        #[arg(long)]
        yaml: bool,
    },
    /// Show everything about one object: state, counters, document, latest events.
    Describe {
        /// port, slice, link, host, router or filters.
        #[arg(add = ArgValueCompleter::new(complete::kinds))]
        kind: String,
        /// Its name; of a router SLICE/NAME.
        #[arg(add = ArgValueCompleter::new(complete::objects))]
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show packets, bytes and losses of every router and port.
    Stats {
        /// Show rates instead, again and again: every second, or every SECONDS.
        #[arg(short, long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1",
            value_parser = interval)]
        watch: Option<Duration>,
        /// Print JSON; with --watch the counters, one document a line.
        #[arg(long)]
        json: bool,
    },
    /// Watch slices, routers, interfaces, ports and queues, as `top` does processes.
    ///
    /// Tab shows the next kind, arrows choose a line and the column to sort by, `?` shows all keys.
    Top {
        /// Seconds between two readings.
        #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
        every: Duration,
    },
    /// Write down all counters again and again, for `europa plot`.
    ///
    /// One JSON document a line, as `europa stats --json` prints it, until Ctrl-C.
    Record {
        /// Seconds between two readings.
        #[arg(short, long, value_name = "SECONDS", default_value = "0.2", value_parser = interval)]
        every: Duration,
        /// Stop after so many seconds.
        #[arg(short = 't', long = "for", value_name = "SECONDS", value_parser = interval)]
        time: Option<Duration>,
        /// Where to. Default: standard output.
        #[arg(short, long)]
        output: Option<PathBuf>,
    },
    /// Draw what `europa record` has written, as SVG.
    Plot(PlotArgs),
    /// Show what happened: routers started and ended, links up and down, changes applied.
    Events {
        /// Go on with what happens.
        #[arg(short, long)]
        watch: bool,
        /// Print JSON, one event a line.
        #[arg(long)]
        json: bool,
    },
    /// Show the log of a router, the switch or the node.
    ///
    /// Logs are bounded: one of more than 4 MB begins again.
    Logs {
        /// SLICE/ROUTER, `switch` or `node`.
        #[arg(add = ArgValueCompleter::new(complete::logs))]
        of: String,
        /// Go on with what is written.
        #[arg(short, long)]
        follow: bool,
        /// So many of the last lines.
        #[arg(short = 'n', long, default_value_t = 200)]
        lines: usize,
    },
    /// Read a handler of a router's element.
    Read {
        /// SLICE/ROUTER.
        #[arg(add = ArgValueCompleter::new(complete::routers))]
        router: String,
        /// ELEMENT.HANDLER, like `route.table`; `list` lists the elements.
        handler: String,
        /// What some handlers want to know, like `lookup`.
        parameter: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Write a handler of a router's element.
    Write {
        /// SLICE/ROUTER.
        #[arg(add = ArgValueCompleter::new(complete::routers))]
        router: String,
        /// ELEMENT.HANDLER.
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
    /// Rules for what a slice's routers send, changed while packets pass.
    Filter {
        #[command(subcommand)]
        command: FilterCommand,
    },
    /// Turn another tool's topology into a configuration.
    Import {
        #[command(subcommand)]
        from: Import,
    },
    /// Give routers new processes.
    ///
    /// The others go on. A router forwards again some 30 ms later.
    Restart {
        /// SLICE/ROUTER.
        #[arg(required = true, add = ArgValueCompleter::new(complete::routers))]
        routers: Vec<String>,
    },
    /// Remove objects.
    ///
    /// What others need is not removed: a slice with routers, a port with interfaces.
    Delete {
        /// port, slice, link, host, router or filters.
        #[arg(add = ArgValueCompleter::new(complete::kinds))]
        kind: String,
        /// Names; of routers SLICE/NAME.
        #[arg(required = true, add = ArgValueCompleter::new(complete::objects))]
        names: Vec<String>,
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
    /// Run a command in a router's slow path, its own Linux; without one, a shell.
    ///
    /// It sees the router's interfaces and files, and its limits are the router's. Exits as the
    /// command does; with 127 if there is none of this name, with 126 if it cannot be executed.
    #[command(after_help = "Examples:\n  \
        europa exec red/r1 ip route\n  \
        europa exec red/r1 vtysh -c 'show ip ospf neighbor'")]
    Exec {
        /// `slice/router`.
        #[arg(add = ArgValueCompleter::new(complete::routers))]
        router: String,
        /// The command and its arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Measure Europa beside Linux, XDP, Click and testpmd: rates, round trips, costs.
    ///
    /// Hands over to `europa-bench`, which is installed beside this program if it was built.
    /// `europa bench --help` tells its cases and options.
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Bench {
        /// Cases and options; see `europa bench --help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run a Click configuration in this process, as the program `click` does.
    ///
    /// With its options, messages and exit codes, so that `alias click='europa click'` serves;
    /// without a node and without isolation. `europa click --help` tells more;
    /// `europa click check`, `flatten` and `graph` look at a configuration without running it,
    /// and `europa click --list` names all element classes.
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Click {
        /// Options and a file; see `europa click --help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Print a completion script for a shell.
    ///
    /// For bash: `europa completion bash > /etc/bash_completion.d/europa`. Names of objects
    /// are completed too, if a node runs.
    Completion {
        /// Which shell.
        shell: Shell,
    },
    /// Print the JSON Schema of the YAML, for editors.
    Schema {
        /// Print the OpenAPI description of the REST interface instead.
        #[arg(long)]
        openapi: bool,
    },
    /// Run the node in the foreground, for systemd.
    ///
    /// Its desired state is kept in /var/lib/europa/NAME/state.redb; what is found there is
    /// brought up. Ends with everything it has started at SIGTERM.
    Node {
        /// Forget desired state at the end; for `up`.
        #[arg(long, hide = true)]
        temporary: bool,
        #[command(flatten)]
        starting: Starting,
    },
    /// Write manual pages.
    #[command(hide = true)]
    Man {
        /// Where to.
        #[arg(long)]
        dir: PathBuf,
    },
    /// The switch's process; started by the node.
    #[command(hide = true)]
    Switch {
        /// Where it may run.
        #[arg(long, value_delimiter = ',')]
        cpus: Vec<usize>,
    },
    /// Namespaces of a router's slow path; started by the node.
    #[command(hide = true)]
    Hold,
    /// A program in a router's slow path; started by the node.
    #[command(hide = true)]
    Daemon {
        /// `slice/router`.
        router: String,
        /// Capabilities it keeps beside those of all programs.
        #[arg(long)]
        keep: Vec<String>,
        /// The program and its arguments.
        #[arg(last = true)]
        command: Vec<String>,
    },
    /// A router's process; started by the node.
    #[command(hide = true)]
    Router {
        /// Number on the node.
        #[arg(long)]
        number: u32,
        /// SLICE/ROUTER.
        #[arg(long)]
        name: String,
        /// Where it may run.
        #[arg(long, value_delimiter = ',')]
        cpus: Vec<usize>,
        /// It is granted files to write.
        #[arg(long)]
        writes: bool,
        /// It is granted memory shared with other processes.
        #[arg(long)]
        shares: bool,
    },
    /// The process of a router with a data plane of its owner's own; started by the node.
    #[command(hide = true)]
    Program {
        /// Number on the node.
        #[arg(long)]
        number: u32,
        /// SLICE/ROUTER.
        #[arg(long)]
        name: String,
        /// Where it may run.
        #[arg(long, value_delimiter = ',')]
        cpus: Vec<usize>,
        /// The program and its arguments.
        #[arg(last = true)]
        command: Vec<String>,
    },
}

/// A number of seconds.
fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let interval = seconds.filter(|seconds| *seconds >= Duration::from_millis(10));
    interval.ok_or_else(|| format!("found {text:?} where seconds are wanted, at least 0.01"))
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
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let instance =
            Instance::new(&self.instance).map_err(|error| Failure::usage(error.to_string()))?;
        match self.command {
            Command::Up { apply, starting } => up::up(&instance, &apply, &starting),
            Command::Apply(apply) => up::apply(&instance, &apply),
            Command::Down => up::down(&instance),
            Command::Get { kind, name, json, yaml } => {
                let form = match (json, yaml) {
                    (true, _) => Form::Json,
                    (_, true) => Form::Yaml,
                    _ => Form::Table,
                };
                get::get(&instance, kind.as_deref(), name.as_deref(), form)
            }
            Command::Describe { kind, name, json } => get::describe(&instance, &kind, &name, json),
            Command::Stats { watch: Some(every), json } => watch::stats(&instance, every, json),
            Command::Stats { watch: None, json } => show::stats(&instance, json),
            Command::Top { every } => top::top(&instance, every),
            Command::Record { every, time, output } => {
                watch::record(&instance, every, time, output.as_deref())
            }
            Command::Plot(args) => plot::plot(&args),
            Command::Events { watch, json } => follow::events(&instance, watch, json),
            Command::Logs { of, follow, lines } => follow::logs(&instance, &of, follow, lines),
            Command::Read { router, handler, parameter, json } => {
                routers::read(&instance, &router, &handler, parameter.as_deref(), json)
            }
            Command::Write { router, handler, value } => {
                routers::write(&instance, &router, &handler, value)
            }
            Command::Bench { arguments } => bench::bench(&arguments),
            Command::Click { arguments } => Ok(click::click(&arguments)),
            Command::Capture(args) => capture::capture(&instance, &args),
            Command::Trace(args) => trace::trace(&instance, &args),
            Command::Graph(args) => graph::graph(&instance, &args),
            Command::Filter { command } => filter::filter(&instance, command),
            Command::Import { from: Import::Containerlab { file, output } } => {
                Ok(import::containerlab(&file, output)?)
            }
            Command::Restart { routers } => routers::restart(&instance, &routers),
            Command::Delete { kind, names, json } => {
                up::delete(&instance, get::plural(&kind)?, &names, json)
            }
            Command::Doctor { json } => show::doctor(json),
            Command::Completion { shell } => print::completion(shell),
            Command::Schema { openapi } => print::schema(openapi),
            Command::Man { dir } => print::man(&dir),
            Command::Node { temporary, starting } => {
                let lifetime = if temporary { Lifetime::Temporary } else { Lifetime::Lasting };
                roles::node(instance, lifetime, starting.settings())
            }
            Command::Exec { router, command } => slow_path::exec(&instance, &router, &command),
            Command::Hold => Ok(slow_path::hold()?),
            Command::Daemon { router, keep, command } => {
                Ok(slow_path::daemon(&instance, &router, &keep, &command)?)
            }
            Command::Switch { cpus } => roles::switch(&cpus),
            Command::Router { number, name, cpus, writes, shares } => {
                roles::router(number, &name, &cpus, writes, shares)
            }
            Command::Program { number, name, cpus, command } => {
                roles::program(number, &name, &cpus, &command)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
