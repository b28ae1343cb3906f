//! `cluster`: several nodes with their documents in etcd.

mod agent;
mod dev;
mod machine;
mod moves;
mod show;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use europa_api::Key;
use europa_api::rest::Action;
use europa_cluster::{Access, ClusterError, Etcd, Options, Outcome, TlsFiles, Wish, wait};
use europa_node::Instance;

use crate::cli::Apply;
use crate::exit::Failure;
use crate::kinds::Reference;
use crate::table::{Colours, line};
use crate::up::{Progress, request};

/// etcd's own default for clients.
const ETCD: &str = "http://127.0.0.1:2379";

/// Arguments of `cluster`.
#[derive(Args)]
pub(crate) struct ClusterArgs {
    #[command(flatten)]
    access: AccessArgs,
    #[command(subcommand)]
    command: ClusterCommand,
}

/// The cluster's etcd.
#[derive(Args)]
struct AccessArgs {
    /// URLs of etcd's members. Default: those of a running `cluster dev`, otherwise this machine's.
    #[arg(long, global = true, value_name = "URL", env = "EUROPA_ETCD", value_delimiter = ',')]
    etcd: Vec<String>,
    /// Name of the cluster; one etcd may hold several.
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "EUROPA_CLUSTER",
        default_value = "default"
    )]
    cluster: String,
    /// PEM file with the certificates of the authorities that have signed those of etcd's members.
    #[arg(long, global = true, value_name = "FILE", env = "EUROPA_ETCD_CA")]
    etcd_ca: Option<PathBuf>,
    /// PEM file with a certificate for etcd.
    #[arg(long, global = true, value_name = "FILE", env = "EUROPA_ETCD_CERT",
        requires_all = ["etcd_key", "etcd_ca"])]
    etcd_cert: Option<PathBuf>,
    /// PEM file with the private key of --etcd-cert.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "EUROPA_ETCD_KEY",
        requires = "etcd_cert"
    )]
    etcd_key: Option<PathBuf>,
}

#[derive(Subcommand)]
enum ClusterCommand {
    /// Apply files to the cluster; each node runs its part.
    ///
    /// All documents are checked together; then each node concerned checks its part. If a node
    /// refuses or does not answer, nothing changes.
    Apply {
        #[command(flatten)]
        apply: Apply,
        /// Accept the change although some nodes concerned have no lease: they carry it out when
        /// they return.
        #[arg(long)]
        allow_absent: bool,
    },
    /// Remove objects from the cluster.
    Delete {
        /// KIND/NAME, once or several times.
        #[arg(required = true, value_name = "KIND/NAME")]
        objects: Vec<String>,
        /// As for `apply`.
        #[arg(long)]
        allow_absent: bool,
    },
    /// Show the cluster's documents, and which node runs each.
    Get {
        /// A kind of document, or KIND/NAME. Default: all.
        what: Option<String>,
        /// Print JSON: the documents in their stored form.
        #[arg(long)]
        json: bool,
    },
    /// Show nodes with their leases, the leader, and etcd.
    Status {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Place no new routers and hosts on a node; its present ones stay.
    Cordon {
        /// The node.
        node: String,
    },
    /// End a cordon. No object moves back automatically.
    Uncordon {
        /// The node.
        node: String,
    },
    /// Move routers and hosts away from a node, one after the other, and cordon it.
    ///
    /// Objects that are bound to the machine stay: by `node:` in a document, a port, a grant, or a
    /// flow. Each object starts on its new node before its links change. The command prints why an
    /// object stays.
    Drain {
        /// The node.
        node: String,
        /// Print the new node and the losses for each router and host, and change nothing.
        #[arg(long)]
        dry_run: bool,
    },
    /// Start the routers and hosts of a node without a lease on other nodes at once.
    ///
    /// The cluster does this automatically, unless more than half of the nodes have no lease.
    Takeover {
        /// The node.
        node: String,
    },
    /// Make this machine's node run its part of the cluster; runs in the foreground, for systemd.
    ///
    /// The node was started by `europa node` or `europa up`. It continues when the agent or etcd
    /// ends.
    Agent {
        /// Name of the node in the cluster. Default: the machine's host name.
        #[arg(long)]
        name: Option<String>,
        /// Replace the node's own documents.
        #[arg(long)]
        replace: bool,
    },
    /// Run several nodes on this machine, for trials and tests, until Ctrl-C.
    ///
    /// Each node has a network namespace; a bridge joins them. etcd keeps its data in memory. The
    /// remains of a killed `cluster dev` are removed first.
    Dev {
        /// Number of nodes.
        #[arg(default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=16))]
        nodes: u8,
        /// Name of this cluster, if several run: its nodes are the instances NAME-1, NAME-2.
        #[arg(long, default_value = "dev")]
        name: String,
        /// Remove the remains of a killed `cluster dev`, and run nothing.
        #[arg(long)]
        remove: bool,
    },
}

impl AccessArgs {
    fn access(&self) -> Access {
        let endpoints = match self.etcd.is_empty() {
            true => vec![dev::etcd("dev").unwrap_or_else(|| ETCD.to_owned())],
            false => self.etcd.clone(),
        };
        let own = self.etcd_cert.clone().zip(self.etcd_key.clone());
        let tls = self.etcd_ca.clone().map(|authority| TlsFiles { authority, own });
        Access { endpoints, cluster: self.cluster.clone(), tls }
    }
}

impl From<ClusterError> for Failure {
    fn from(error: ClusterError) -> Failure {
        match error {
            ClusterError::Mistakes(report) => Failure::configuration(report),
            other => other.to_string().into(),
        }
    }
}

pub(crate) fn cluster(instance: &Instance, args: &ClusterArgs) -> Result<ExitCode, Failure> {
    let access = args.access.access();
    match &args.command {
        ClusterCommand::Apply { apply, allow_absent } => {
            let request = request(apply)?;
            let wish = Wish {
                prune: apply.prune,
                colour: request.colour,
                bundle: request.bundle(),
                ..Wish::default()
            };
            let options = Options { dry_run: apply.dry_run, allow_absent: *allow_absent };
            carry_out(&access, &wish, options)
        }
        ClusterCommand::Delete { objects, allow_absent } => {
            let delete = objects.iter().map(|text| key(text)).collect::<Result<_, Failure>>()?;
            let wish = Wish { delete, ..Wish::default() };
            carry_out(&access, &wish, Options { dry_run: false, allow_absent: *allow_absent })
        }
        ClusterCommand::Get { what, json } => show::get(&access, what.as_deref(), *json),
        ClusterCommand::Status { json } => show::status(&access, *json),
        ClusterCommand::Cordon { node } => moves::cordon(&access, node, Some("by hand")),
        ClusterCommand::Uncordon { node } => moves::cordon(&access, node, None),
        ClusterCommand::Drain { node, dry_run } => moves::drain(&access, node, *dry_run),
        ClusterCommand::Takeover { node } => moves::takeover(&access, node),
        ClusterCommand::Agent { name, replace } => {
            agent::agent(instance, access, name.as_deref(), *replace)
        }
        ClusterCommand::Dev { name, remove: true, .. } => dev::remove(name),
        ClusterCommand::Dev { nodes, name, remove: false } => dev::dev(*nodes, name),
    }
}

/// The key that `KIND/NAME` names.
fn key(text: &str) -> Result<Key, Failure> {
    if let Some(name) = text.strip_prefix("node/") {
        return Ok(Key::new("node", name));
    }
    let Reference { kind, name } = Reference::of(text, None)?;
    Ok(Key::new(crate::kinds::singular(kind), name))
}

fn carry_out(access: &Access, wish: &Wish, options: Options) -> Result<ExitCode, Failure> {
    let progress = Progress::new(if options.dry_run { "checking" } else { "applying" });
    let done = wait(async {
        let etcd = Etcd::connect(access).await?;
        europa_cluster::apply(&etcd, wish, options).await
    });
    progress.end();
    let outcome = done?;
    print(&outcome, options.dry_run);
    for (node, why) in &outcome.waiting {
        eprintln!("europa: node {node} does not run its part yet: {why}");
    }
    Ok(if outcome.waiting.is_empty() || options.allow_absent {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn print(outcome: &Outcome, dry_run: bool) {
    let colours = Colours::stdout();
    let count = |wanted| outcome.changes.iter().filter(|(action, ..)| *action == wanted).count();
    for (action, key, place) in &outcome.changes {
        let place = place.as_ref().map_or(String::new(), |p| format!(" on {} ({})", p.node, p.why));
        line!(
            "{}",
            match action {
                Action::Add => colours.green(&format!("+ {key}{place}")),
                Action::Change => colours.yellow(&format!("~ {key}{place}")),
                Action::Remove => colours.red(&format!("- {key}")),
            }
        );
    }
    let (added, changed) = (count(Action::Add), count(Action::Change));
    let counts = format!(
        "{added} added, {changed} changed, {} removed, {} unchanged",
        count(Action::Remove),
        outcome.unchanged
    );
    match dry_run {
        true => line!("dry run, nothing was changed: {counts}"),
        false if outcome.changes.is_empty() => line!("{counts}"),
        false => line!("change {}: {counts}; runs on {}", outcome.sequence, nodes(&outcome.ready)),
    }
}

fn nodes(names: &[String]) -> String {
    if names.is_empty() { "no node".to_owned() } else { names.join(", ") }
}
