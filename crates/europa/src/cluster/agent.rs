//! `cluster agent`: makes the node of this machine follow the cluster.

use std::process::ExitCode;
use std::time::Duration;

use europa_client::{Client, await_node};
use europa_cluster::{Access, Settings, run_agent, wait};
use europa_node::{Instance, Lifetime};

use crate::exit::Failure;

/// Time limit until the node listens: both may be started at the same time.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn agent(
    instance: &Instance,
    access: Access,
    name: Option<&str>,
    replace: bool,
) -> Result<ExitCode, Failure> {
    tracing_subscriber::fmt().with_ansi(false).log_internal_errors(false).init();
    let name = match name {
        Some(name) => name.to_owned(),
        None => {
            let machine = nix::unistd::gethostname().map_err(|error| error.to_string())?;
            machine.to_string_lossy().into_owned()
        }
    };
    name.parse::<europa_api::Name>().map_err(|why| {
        Failure::usage(format!("{name:?} cannot be the name of a node: {why}; give one by --name"))
    })?;
    let client = Client::new(instance.socket());
    if !await_node(&client, PATIENCE, || false) {
        let name = instance.name();
        return Err(format!(
            "no node listens at {}: start it by `systemctl start europa@{name}`",
            instance.socket().display()
        )
        .into());
    }
    // The note lies beside the documents of a permanent node. A temporary node's documents are
    // deleted, and the note with them.
    let lasting = instance.state(Lifetime::Lasting);
    let state = match lasting.exists() {
        true => lasting,
        false => instance.state(Lifetime::Temporary),
    };
    let note = state.with_file_name("cluster");
    let socket = instance.socket();
    wait(run_agent(Settings { access, name, socket, note, replace }))?;
    Ok(ExitCode::SUCCESS)
}
