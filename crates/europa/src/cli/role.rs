//! The hidden commands: processes that a node starts itself.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use europa_node::Instance;
use europa_node::ssh::Entry;

use crate::exit::Failure;
use crate::{compile, host, print, roles, slow_path, ssh};

#[derive(Subcommand)]
pub(super) enum Role {
    /// Write manual pages.
    #[command(hide = true)]
    Man {
        /// The directory for the pages.
        #[arg(long)]
        dir: PathBuf,
    },
    /// Run the switch; started by the node.
    #[command(hide = true)]
    Switch {
        /// CPUs that it may use.
        #[arg(long, value_delimiter = ',')]
        cpus: Vec<usize>,
    },
    /// Run clang in a sandbox; started by `compile`.
    #[command(hide = true)]
    Compiler {
        /// Files and folders that clang may read.
        #[arg(long)]
        read: Vec<PathBuf>,
        /// clang and its arguments.
        #[arg(last = true)]
        command: Vec<String>,
    },
    /// Hold the namespaces of a router's slow path; started by the node.
    #[command(hide = true)]
    Hold,
    /// Hold the pid namespace of a router's slow path; started by the node.
    #[command(hide = true)]
    Init {
        /// SLICE/ROUTER, as `ps` shows it.
        router: String,
    },
    /// Run a command in a router's slow path; started by `exec`.
    #[command(hide = true)]
    Enter {
        /// SLICE/ROUTER.
        router: String,
        /// The command and its arguments.
        #[arg(last = true)]
        command: Vec<String>,
    },
    /// Run a command in a host; started by the node.
    #[command(hide = true)]
    HostRun {
        /// The host.
        host: String,
        /// The command is that of the host's image: its end is not reported.
        #[arg(long)]
        image: bool,
        /// The command and its arguments.
        #[arg(last = true)]
        command: Vec<String>,
    },
    /// Hold the namespaces of a host's programs; the first program starts this.
    #[command(hide = true)]
    HostHold {
        /// The host.
        host: String,
    },
    /// Run a command in a host with this process's pid namespace; started by `exec`.
    #[command(hide = true)]
    HostEnter {
        /// The host.
        host: String,
        /// The command and its arguments.
        #[arg(last = true)]
        command: Vec<String>,
    },
    /// Run a program in a router's slow path; started by the node.
    #[command(hide = true)]
    Daemon {
        /// SLICE/ROUTER.
        router: String,
        /// The task of this process for the program.
        #[arg(long, value_enum, default_value = "waits")]
        part: slow_path::Part,
        /// Capabilities that the program keeps, in addition to those of all programs.
        #[arg(long)]
        keep: Vec<String>,
        /// The program and its arguments.
        #[arg(last = true)]
        command: Vec<String>,
    },
    /// Print the user of an SSH key; started by sshd.
    #[command(hide = true)]
    SshKeys {
        /// The type of the key.
        kind: String,
        /// The key in base64.
        key: String,
    },
    /// Run a session of a user in a router; started by sshd.
    #[command(hide = true)]
    Session {
        /// The user.
        #[arg(long)]
        user: String,
        /// The fingerprint of its key.
        #[arg(long)]
        key: String,
    },
    /// Connect a session to its terminal; started by the node.
    #[command(hide = true)]
    SshAttend {
        /// SLICE/ROUTER, as `ps` shows it.
        router: String,
    },
    /// Become the program of a session inside a router; the process of the session starts this.
    #[command(hide = true)]
    SshEnter {
        /// SLICE/ROUTER.
        router: String,
        /// Standard input is a terminal.
        #[arg(long)]
        terminal: bool,
        /// The kind of terminal.
        #[arg(long)]
        term: Option<String>,
        /// Run an sshd that accepts these keys.
        #[arg(long)]
        sshd: bool,
        /// A command line, or keys.
        #[arg(last = true)]
        words: Vec<String>,
    },
    /// Run sshd; started by the node.
    #[command(hide = true)]
    SshDaemon,
    /// Run an isolated router; started by the node.
    #[command(hide = true)]
    Router {
        /// Number on the node.
        #[arg(long)]
        number: u32,
        /// SLICE/ROUTER.
        #[arg(long)]
        name: String,
        /// CPUs that it may use.
        #[arg(long, value_delimiter = ',')]
        cpus: Vec<usize>,
        /// The router's grants include files to write.
        #[arg(long)]
        writes: bool,
        /// The router's grants include memory shared with other processes.
        #[arg(long)]
        shares: bool,
        /// The program that contains elements of the router's owner.
        #[arg(long)]
        elements: Option<String>,
    },
    /// Signal the flows of a slice; started by the node.
    #[command(hide = true)]
    Signaller {
        /// Number on the node.
        #[arg(long)]
        number: u32,
        /// The slice.
        #[arg(long)]
        slice: String,
        /// CPUs that it may use.
        #[arg(long, value_delimiter = ',')]
        cpus: Vec<usize>,
    },
    /// Run a user's program as a router's data plane; started by the node.
    #[command(hide = true)]
    Program {
        /// Number on the node.
        #[arg(long)]
        number: u32,
        /// SLICE/ROUTER.
        #[arg(long)]
        name: String,
        /// CPUs that it may use.
        #[arg(long, value_delimiter = ',')]
        cpus: Vec<usize>,
        /// The program and its arguments.
        #[arg(last = true)]
        command: Vec<String>,
    },
}

impl Role {
    pub(super) fn run(self, instance: &Instance) -> Result<ExitCode, Failure> {
        match self {
            Role::Man { dir } => print::man(&dir),
            Role::Compiler { read, command } => compile::compiler(&read, &command),
            Role::Hold => Ok(slow_path::hold()?),
            Role::Init { router: _ } => Ok(slow_path::init()?),
            Role::Enter { router, command } => slow_path::enter(instance, &router, &command),
            Role::HostRun { host, image, command } => host::run(instance, (&host, image), &command),
            Role::HostHold { host } => host::hold(instance, &host),
            Role::HostEnter { host, command } => host::enter(instance, &host, &command),
            Role::Daemon { router, part, keep, command } => {
                Ok(slow_path::daemon(instance, &router, part, &keep, &command)?)
            }
            Role::SshKeys { kind, key } => ssh::keys(instance, &kind, &key),
            Role::Session { user, key } => Ok(ssh::session(instance, &user, &key)),
            Role::SshAttend { router: _ } => ssh::attend(instance),
            Role::SshEnter { router, terminal, term, sshd, words } => {
                Ok(ssh::enter(instance, &router, &Entry { terminal, term, sshd, words }))
            }
            Role::SshDaemon => ssh::daemon(instance),
            Role::Switch { cpus } => roles::switch(&cpus),
            Role::Router { number, name, cpus, writes, shares, elements } => {
                roles::router(number, &name, &cpus, (writes, shares), elements.as_deref())
            }
            Role::Signaller { number, slice, cpus } => roles::signaller(number, &slice, &cpus),
            Role::Program { number, name, cpus, command } => {
                roles::program(number, &name, &cpus, &command)
            }
        }
    }
}
