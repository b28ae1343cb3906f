//! The commands.

mod role;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use clap_complete::engine::ArgValueCompleter;
use europa_node::{Instance, Lifetime, Settings};
use europa_rest::Listening;

use self::role::Role;
use crate::capture::CaptureArgs;
use crate::check::CheckArgs;
use crate::cluster::ClusterArgs;
use crate::compile::CompileArgs;
use crate::delete::DeleteArgs;
use crate::describe::DescribeArgs;
use crate::exit::{CODES, Failure};
use crate::filter::FilterCommand;
use crate::get::GetArgs;
use crate::graph::GraphArgs;
use crate::i3::I3Command;
use crate::login::ContextCommand;
use crate::lsp::LspCommand;
use crate::observe::ObserveArgs;
use crate::plot::PlotArgs;
use crate::sdk::SdkCommand;
use crate::ssh::ConfigArgs;
use crate::target::TargetArgs;
use crate::token::TokenCommand;
use crate::trace::TraceArgs;
use crate::{
    bench, capture, check, click, cluster, compile, complete, delete, describe, exec, explain,
    filter, follow, get, graph, i3, import, login, lsp, observe, plot, print, roles, routers, sdk,
    show, ssh, stand_in, status, target, token, top, trace, up, watch,
};

/// Run many isolated virtual routers on one Linux server.
///
/// A configuration is a set of small YAML documents: ports, slices, links, hosts, routers, filters
/// and users. `europa up FILE` starts a node and applies the configuration. `europa apply FILE`
/// changes a running node; only objects that differ change. `europa status`, `get`, `describe`,
/// `stats`, `events` and `logs` show the state of the node.
///
/// All commands except `node` and `doctor` are clients of the node's REST interface at
/// /run/europa/NAME/node.sock, or of a node on another machine: see `europa help login`.
#[derive(Parser)]
#[command(name = "europa", version, max_term_width = 100, infer_subcommands = true)]
#[command(after_help = "Start with `europa doctor`, then `europa up examples/two-slices.yaml`.\n\
    `europa help COMMAND` explains a command. The user guide is in docs/.")]
#[command(after_long_help = CODES)]
pub(crate) struct Cli {
    /// Name of a node of this machine, if it runs several. Default: `default`.
    #[arg(long, global = true, value_name = "NAME", env = "EUROPA_INSTANCE")]
    instance: Option<String>,
    #[command(flatten)]
    target: TargetArgs,
    #[command(subcommand)]
    command: Command,
}

/// The arguments by which `up`, `apply` and `diff` get a configuration.
#[derive(Args, Debug)]
pub(crate) struct Files {
    /// YAML files, directories of .yaml and .yml files, or `-` for standard input.
    #[arg(value_name = "FILE", required_unless_present = "more")]
    files: Vec<PathBuf>,
    /// Like FILES; can be repeated.
    #[arg(
        id = "more",
        short = 'f',
        long = "file",
        visible_alias = "filename",
        value_name = "FILE"
    )]
    more: Vec<PathBuf>,
}

impl Files {
    /// One file.
    pub(crate) fn of(file: PathBuf) -> Files {
        Files { files: vec![file], more: Vec::new() }
    }

    /// All files, in the order of the two lists.
    pub(crate) fn all(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.iter().chain(&self.more)
    }
}

/// Options of `up` and `apply`.
#[derive(Args, Debug)]
pub(crate) struct Apply {
    #[command(flatten)]
    pub(crate) files: Files,
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

/// Settings of a node that last until it ends.
#[derive(Args, Debug, Default)]
pub(crate) struct Starting {
    /// Serve counters for Prometheus at http://ADDRESS:PORT/metrics.
    #[arg(long, value_name = "ADDRESS:PORT", env = "EUROPA_METRICS")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Number of workers of the switch. Default: 1.
    ///
    /// Each worker has its own CPU. Ports and routers are distributed over the workers. The number
    /// applies until `europa down`.
    #[arg(long, value_name = "N", env = "EUROPA_WORKERS",
        value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) workers: Option<u32>,
    /// Accept requests of users by TLS at ADDRESS:PORT.
    #[arg(long, value_name = "ADDRESS:PORT", env = "EUROPA_LISTEN")]
    pub(crate) listen: Option<SocketAddr>,
    /// PEM file with the node's certificate for --listen, and the certificates of its issuers.
    ///
    /// Default: a certificate of the node's own authority, which is made at the first start.
    #[arg(long, value_name = "FILE", env = "EUROPA_TLS_CERT", requires_all = ["listen", "tls_key"])]
    pub(crate) tls_cert: Option<PathBuf>,
    /// File with the private key of --tls-cert, as PEM.
    #[arg(long, value_name = "FILE", env = "EUROPA_TLS_KEY", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Let users log in to routers by SSH at ADDRESS:PORT.
    ///
    /// Starts a separate sshd. Needs OpenSSH and a user `europa` of this machine.
    #[arg(long, value_name = "ADDRESS:PORT", env = "EUROPA_SSH")]
    pub(crate) ssh: Option<SocketAddr>,
}

impl Starting {
    fn settings(&self) -> (Settings, europa_rest::Settings) {
        let files = self.tls_cert.clone().zip(self.tls_key.clone());
        let listening = self.listen.map(|at| Listening { at, files });
        let workers = self.workers.unwrap_or(1);
        let interface = europa_rest::Settings { metrics_at: self.metrics, listening };
        (Settings { workers, ssh_at: self.ssh }, interface)
    }
}

#[derive(Subcommand)]
enum Command {
    /// Start a node if none runs, and apply files.
    ///
    /// The node runs in the background until `europa down`, which also deletes its configuration.
    /// If a node already runs, `up` is the same as `apply`.
    Up {
        #[command(flatten)]
        apply: Apply,
        #[command(flatten)]
        starting: Starting,
    },
    /// Apply files to the running node; only objects that differ change.
    ///
    /// The node first checks all files together with its present configuration, and compiles Click
    /// configurations in a sandbox. If it finds a mistake, nothing changes. Otherwise it carries
    /// out the differences and prints each. Routes and neighbours of `builtin: ipv4` change in
    /// place. A changed fast path replaces the old one in the running process (hot swap), without
    /// loss of packets. A change of interfaces, pool, CPU or poll mode restarts only that router.
    ///
    /// If a step fails, the node restores the former state. Objects that the files do not name
    /// stay, unless --prune is given.
    Apply(Apply),
    /// Show what `apply` would change, and change nothing.
    ///
    /// The same as `apply --dry-run`.
    Diff {
        #[command(flatten)]
        files: Files,
        /// Also show the removal of objects that the files do not name.
        #[arg(long)]
        prune: bool,
        /// Exit with 6 if something would change.
        #[arg(long)]
        exit_code: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// End the node and remove everything that it has made.
    ///
    /// `down` deletes the configuration of a node that `up` has started. It keeps that of `europa
    /// node`, whose next start applies it again. It also removes the remains of a killed node.
    Down,
    /// Show whether the node runs, and which objects are not as configured.
    Status {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show objects and their state.
    #[command(visible_alias = "ls")]
    Get(GetArgs),
    /// Show everything about one object.
    ///
    /// Prints state, addresses (including automatic ones), counters, document and latest events.
    Describe(DescribeArgs),
    /// Show objects again whenever one of them changes, until Ctrl-C.
    ///
    /// On a terminal the whole table is drawn again; otherwise only changed lines are printed.
    #[command(alias = "w")]
    Watch(ObserveArgs),
    /// Explain the fields of a document.
    Explain {
        /// A kind, or a field of it such as `router.fast_path.routes`. Default: list the kinds.
        #[arg(value_name = "KIND.FIELD", add = ArgValueCompleter::new(complete::fields))]
        path: Option<String>,
    },
    /// Show packets, bytes and losses.
    #[command(aliases = ["st", "sta", "stat"])]
    Stats {
        /// Show only this slice, router, interface, port, link or host: `red`, `red/r1`,
        /// `red/r1.in`.
        #[arg(add = ArgValueCompleter::new(complete::counted))]
        name: Option<String>,
        /// Show rates instead, once a second, or every SECONDS.
        #[arg(short, long, value_name = "SECONDS", num_args = 0..=1,
            default_missing_value = "1", value_parser = interval)]
        watch: Option<Duration>,
        /// Also show interfaces to slow paths and ports to hosts, which the node makes itself.
        #[arg(short, long)]
        all: bool,
        /// Print JSON; with --watch, one document of counters a line.
        #[arg(long)]
        json: bool,
    },
    /// Show rates of slices, routers, interfaces, ports and queues on the whole terminal.
    ///
    /// Tab shows the next kind. The arrow keys select a line and the column to sort by. `?` lists
    /// all keys.
    Top {
        /// Seconds between two readings.
        #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
        every: Duration,
    },
    /// Record all counters, for `europa plot`.
    ///
    /// Writes one JSON document a line, as `europa stats --json` prints it, until Ctrl-C.
    Record {
        /// Seconds between two readings.
        #[arg(short, long, value_name = "SECONDS", default_value = "0.2", value_parser = interval)]
        every: Duration,
        /// Stop after this many seconds.
        #[arg(short = 't', long = "for", value_name = "SECONDS", value_parser = interval)]
        time: Option<Duration>,
        /// The file to write. Default: standard output.
        #[arg(short, long)]
        output: Option<PathBuf>,
    },
    /// Draw a recording of `europa record` as SVG.
    Plot(PlotArgs),
    /// Show events: started and ended processes, links up and down, applied changes.
    Events {
        /// Wait for further events and show them too.
        #[arg(short, long)]
        watch: bool,
        /// Print JSON, one event a line.
        #[arg(long)]
        json: bool,
    },
    /// Show the log of a router, a host, the switch or the node.
    ///
    /// A host's log is the output of its `run` commands. A log begins again when it has reached 4
    /// MB.
    Logs {
        /// SLICE/ROUTER, SLICE/ROUTER.PROGRAM, the name of a host, `switch` or `node`.
        #[arg(value_name = "NAME", add = ArgValueCompleter::new(complete::logs))]
        of: String,
        /// Wait for further lines and show them too.
        #[arg(short, long)]
        follow: bool,
        /// Number of last lines to show.
        #[arg(short = 'n', long, visible_alias = "tail", default_value_t = 200)]
        lines: usize,
    },
    /// Read a handler of a router's element.
    Read {
        /// SLICE/ROUTER.
        #[arg(add = ArgValueCompleter::new(complete::routers))]
        router: String,
        /// ELEMENT.HANDLER, such as `route.table`. `list` lists the elements; `ELEMENT.handlers`
        /// lists the handlers of an element.
        #[arg(add = ArgValueCompleter::new(complete::read_handlers))]
        handler: String,
        /// The parameter, for handlers that take one, such as `lookup`.
        #[arg(allow_negative_numbers = true)]
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
        #[arg(add = ArgValueCompleter::new(complete::write_handlers))]
        handler: String,
        /// The value to write.
        #[arg(default_value = "", allow_negative_numbers = true)]
        value: String,
    },
    /// Show packets of interfaces, or write them to a file for Wireshark.
    ///
    /// Ends with Ctrl-C. The cost of a capture is bounded: frames over --rate are counted, not
    /// copied.
    #[command(after_help = "Examples:\n  \
        europa capture red/r1 -f 'icmp or arp'\n  \
        europa capture left -w left.pcapng\n  \
        europa capture red/r1.in -w - | wireshark -k -i -")]
    Capture(CaptureArgs),
    /// Follow single packets through a router's elements.
    ///
    /// Shows how each element changes a packet, which table entries it uses, and why a packet is
    /// dropped.
    #[command(after_help = "Example:\n  europa trace red/r1 'icmp and host 10.0.2.2'")]
    Trace(TraceArgs),
    /// Draw the topology, or the elements of a router, as SVG.
    ///
    /// The topology shows addresses and present rates. A router's elements show their packet
    /// counts.
    #[command(after_help = "Examples:\n  \
        europa graph -o topology.svg\n  \
        europa graph red/r1 -o r1.svg\n  \
        europa graph red/r1 --dot | dot -Tpdf > r1.pdf")]
    Graph(GraphArgs),
    /// Add, remove and list rules for the packets that a slice's routers send.
    ///
    /// Rules change while packets pass.
    Filter {
        #[command(subcommand)]
        command: FilterCommand,
    },
    /// Show flows and their label switched paths.
    Lsp {
        #[command(subcommand)]
        command: LspCommand,
    },
    /// Make, list and revoke tokens, by which users identify themselves to a node over the network.
    Token {
        #[command(subcommand)]
        command: TokenCommand,
    },
    /// Use a node on another machine from now on.
    ///
    /// Checks the token of --token-file at the node, and stores node and token as a context. --ca
    /// names the certificate of the node's authority.
    Login {
        /// The node, such as `https://node.example:7443`.
        #[arg(value_name = "NODE")]
        to: String,
        /// Your user name on the node.
        #[arg(long)]
        user: String,
        /// Name of the context. Default: USER@HOST:PORT.
        #[arg(long)]
        name: Option<String>,
    },
    /// Delete a context and its token.
    Logout {
        /// The context. Default: the current one.
        name: Option<String>,
    },
    /// List contexts, or choose the current one.
    Context {
        #[command(subcommand)]
        command: ContextCommand,
    },
    /// Print entries for ~/.ssh/config, so that ssh, scp and rsync reach routers by name.
    ///
    /// Each connection goes through the node to an sshd inside the router's slow path. So files and
    /// forwarded ports are those of the router. A router SLICE/NAME has the name SLICE.NAME.
    SshConfig(ConfigArgs),
    /// Send and receive packets by ids: the Internet Indirection Infrastructure. Needs no node.
    I3 {
        #[command(subcommand)]
        command: I3Command,
    },
    /// Convert the topology of another tool.
    Import {
        #[command(subcommand)]
        from: Import,
    },
    /// Make an element of your own in Rust, or a data plane in C, Python or Rust.
    Sdk {
        #[command(subcommand)]
        command: SdkCommand,
    },
    /// Replace the commands of containerlab and Docker.
    Clab {
        #[command(subcommand)]
        command: Clab,
    },
    /// Restart routers, each with a new process.
    ///
    /// Other routers are not affected. A restarted router forwards again after about 30 ms.
    Restart {
        /// SLICE/ROUTER.
        #[arg(required = true, add = ArgValueCompleter::new(complete::routers))]
        routers: Vec<String>,
    },
    /// Remove objects.
    ///
    /// An object that other objects need is not removed, for example a slice with routers, or a
    /// port with interfaces.
    Delete(DeleteArgs),
    /// Check this machine's kernel and settings.
    ///
    /// Exits with 1 if Europa cannot run here. With --live, checks for each router and interface of
    /// the running node that every packet is present or was lost for a known cause. It exits with 1
    /// if that does not hold within a second. Packets in transit are counted neither as present nor
    /// as lost.
    Doctor {
        /// Check the counters of the running node.
        #[arg(long)]
        live: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Run a command in a router's slow path or in a host; without a command, a shell.
    ///
    /// The command sees the interfaces and files of the router or host, and has the same limits.
    /// The exit code is that of the command: 127 if it is not found, 126 if it cannot be executed.
    #[command(
        alias = "ex",
        after_help = "Examples:\n  \
        europa exec red/r1 ip route\n  \
        europa exec red/r1 vtysh -c 'show ip ospf neighbor'\n  \
        europa exec h1 ping -c 3 10.0.2.2"
    )]
    Exec {
        /// SLICE/ROUTER, the name of a router that only one slice has, or a host.
        #[arg(add = ArgValueCompleter::new(complete::entered))]
        name: String,
        /// The command and its arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Run one platform on several machines, with documents in etcd.
    ///
    /// See docs/cluster.md.
    Cluster(ClusterArgs),
    /// Measure Europa in comparison with Linux, XDP, Click and testpmd.
    ///
    /// Runs `europa-bench` from this program's folder or from PATH. `europa bench --help` lists its
    /// cases and options.
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Bench {
        /// Cases and options; see `europa bench --help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run a Click configuration in this process, as the program `click` does.
    ///
    /// Options, messages and exit codes are those of `click`. There is no node and no isolation.
    /// `europa click check`, `flatten` and `graph` work on a configuration without running it;
    /// `europa click --list` lists all element classes.
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Click {
        /// Options and a file; see `europa click --help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Check an XDP program, a source in C or an object file. Needs no node.
    ///
    /// Shows all mistakes at once, each at its line with a remedy. A source is compiled as by
    /// `europa compile`.
    Check(CheckArgs),
    /// Compile an XDP program from C to an object, and check it. Needs no node.
    ///
    /// Runs clang in a sandbox, where it can read the headers of the system and of eBPF, and the
    /// source's folder.
    Compile(CompileArgs),
    /// Print a completion script for a shell.
    ///
    /// It also completes names of objects and handlers, if a node runs.
    Completion {
        /// The shell.
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
    /// The node stores its configuration in /var/lib/europa/NAME/state.redb and applies it when it
    /// starts. At SIGTERM it ends all its processes and then itself.
    Node {
        /// Delete the configuration at the end; `up` uses this.
        #[arg(long, hide = true)]
        temporary: bool,
        #[command(flatten)]
        starting: Starting,
    },
    #[command(flatten)]
    Role(Role),
}

/// A number of seconds.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let interval = seconds.filter(|seconds| *seconds >= Duration::from_millis(10));
    interval.ok_or_else(|| format!("{text:?} is not a number of seconds of at least 0.01"))
}

#[derive(Subcommand)]
enum Clab {
    /// Make links in a folder that run this binary as `containerlab`, `clab` and `docker`.
    ///
    /// Under such a name, Europa behaves like that command, for the functions that netlab and
    /// scripts of labs use. Put the folder first in PATH.
    Install {
        /// The folder, which is made if it is missing.
        folder: PathBuf,
    },
}

#[derive(Subcommand)]
enum Import {
    /// Convert from containerlab: kinds linux, frr, bridge, ext-container and host.
    ///
    /// Fields without a counterpart in Europa are printed to standard error with their lines.
    Containerlab {
        /// The topology, such as lab.clab.yml.
        file: PathBuf,
        /// The file to write. Default: standard output.
        #[arg(short, long)]
        output: Option<PathBuf>,
        /// The files of an image: an archive of `docker save`, or an OCI layout. The variable
        /// EUROPA_IMAGES can also name them, separated by commas.
        #[arg(long = "image", value_name = "NAME=PATH")]
        images: Vec<String>,
    },
}

impl Command {
    /// Whether the command asks a node, which may be on another machine.
    fn asks_a_node(&self) -> bool {
        !matches!(
            self,
            Command::Up { .. }
                | Command::Explain { .. }
                | Command::Plot(_)
                | Command::Bench { .. }
                | Command::Click { .. }
                | Command::Cluster(_)
                | Command::I3 { .. }
                | Command::Import { .. }
                | Command::Clab { .. }
                | Command::Sdk { .. }
                | Command::Doctor { .. }
                | Command::Check(_)
                | Command::Compile(_)
                | Command::Completion { .. }
                | Command::Schema { .. }
                | Command::Login { .. }
                | Command::Logout { .. }
                | Command::Context { .. }
                | Command::Node { .. }
                | Command::Role(_)
        )
    }

    /// The name of the command, if it asks a node and must run on the node's machine.
    fn on_the_machine(&self) -> Option<&'static str> {
        match self {
            Command::Exec { .. } => Some("exec"),
            Command::Trace(_) => Some("trace"),
            Command::Graph(_) => Some("graph"),
            _ => None,
        }
    }
}

impl Cli {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let name = self.instance.as_deref().unwrap_or("default");
        let instance = Instance::new(name).map_err(|error| Failure::usage(error.to_string()))?;
        if self.command.asks_a_node() {
            target::choose(&self.target, self.instance.is_some())?;
        }
        if let Some(command) = self.command.on_the_machine() {
            target::local_only(command)?;
        }
        match self.command {
            Command::Up { apply, starting } => up::up(&instance, &apply, &starting),
            Command::Apply(apply) => up::apply(&instance, &apply),
            Command::Diff { files, prune, exit_code, json } => {
                let apply = Apply { files, dry_run: true, prune, json };
                up::diff(&instance, &apply, exit_code)
            }
            Command::Down => up::down(&instance),
            Command::Status { json } => status::status(&instance, json),
            Command::Get(args) => get::get(&instance, &args),
            Command::Describe(args) => describe::describe(&instance, &args),
            Command::Watch(args) => observe::observe(&instance, &args),
            Command::Explain { path } => explain::explain(path.as_deref()),
            Command::Stats { name, watch: Some(every), json, .. } => {
                watch::stats(&instance, name.as_deref(), every, json)
            }
            Command::Stats { name, watch: None, all, json } => {
                show::stats(&instance, name.as_deref(), all, json)
            }
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
            Command::Cluster(args) => cluster::cluster(&instance, &args),
            Command::Capture(args) => capture::capture(&instance, &args),
            Command::Trace(args) => trace::trace(&instance, &args),
            Command::Graph(args) => graph::graph(&instance, &args),
            Command::Filter { command } => filter::filter(&instance, command),
            Command::Lsp { command } => lsp::lsp(&instance, command),
            Command::Token { command } => token::token(&instance, &command),
            Command::Login { to, user, name } => {
                login::login(&to, &user, name.as_deref(), &self.target)
            }
            Command::Logout { name } => login::logout(name.as_deref()),
            Command::Context { command } => login::context(&command),
            Command::SshConfig(args) => ssh::config(&instance, &args),
            Command::I3 { command } => i3::i3(command),
            Command::Import { from: Import::Containerlab { file, output, images } } => {
                Ok(import::containerlab(&file, output, &images)?)
            }
            Command::Clab { command: Clab::Install { folder } } => stand_in::install(&folder),
            Command::Sdk { command } => Ok(sdk::sdk(&command)?),
            Command::Restart { routers } => routers::restart(&instance, &routers),
            Command::Delete(args) => delete::delete(&instance, &args),
            Command::Doctor { live: true, json } => show::doctor_live(&instance, json),
            Command::Doctor { live: false, json } => show::doctor(json),
            Command::Check(args) => check::check(&args),
            Command::Compile(args) => compile::compile(&args),
            Command::Completion { shell } => print::completion(shell),
            Command::Schema { openapi } => print::schema(openapi),
            Command::Node { temporary, starting } => {
                let lifetime = if temporary { Lifetime::Temporary } else { Lifetime::Lasting };
                roles::node(instance, lifetime, starting.settings())
            }
            Command::Exec { name, command } => exec::exec(&instance, &name, &command),
            Command::Role(role) => role.run(&instance),
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

    #[test]
    fn other_habits_are_understood() {
        for line in [
            "europa apply network.yaml --dry-run",
            "europa apply -f network.yaml -f tenants",
            "europa diff -f network.yaml --exit-code",
            "europa get routers",
            "europa get router/red/r1 -o yaml",
            "europa get -o wide",
            "europa logs red/r1 --tail 5",
            "europa stats red/r1",
            "europa stats --watch",
            "europa stats -w",
            "europa stats red --watch=0.5",
            "europa stat",
            "europa delete router/red/r1 slice/red",
            "europa explain router.fast_path",
            "europa watch routers",
            "europa wr red/r1 a.reset",
            "europa --node https://n:1 --token-file t get routers",
            "europa get routers --node https://n:1 --token-file t --ca c",
            "europa login https://n:1 --user alice --token-file t --ca c",
            "europa token create alice --expires 12h",
            "europa token revoke alice --all",
            "europa up -f x.yaml --listen 0.0.0.0:7443",
            "europa up -f x.yaml --ssh 0.0.0.0:2222",
        ] {
            let words = line.split(' ');
            assert!(Cli::command().try_get_matches_from(words).is_ok(), "{line}");
        }
        assert!(Cli::command().try_get_matches_from(["europa", "apply"]).is_err());
    }
}
