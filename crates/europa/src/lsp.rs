//! `lsp`: shows and changes flows and their label switched paths.

mod trace;
mod write;

use std::process::ExitCode;

use clap::Subcommand;
use clap_complete::engine::ArgValueCompleter;
use europa_api::lsp::{FlowPath, LspList, PathHop};
use europa_client::escape;
use europa_node::Instance;

use crate::complete;
use crate::exit::Failure;
use crate::table::{Colours, Table, line, out};
use crate::up::client;

/// Commands about label switched paths.
#[derive(Subcommand)]
pub(crate) enum LspCommand {
    /// Show all flows and whether their paths are up.
    #[command(visible_alias = "ls")]
    List {
        /// Also show every router's part of each path, and the reservations of interfaces.
        #[arg(long)]
        all: bool,
        /// Print JSON, always with all data.
        #[arg(long)]
        json: bool,
    },
    /// Show the path of a flow, its labels, and the reason if it is down.
    Show {
        /// The flow.
        #[arg(add = ArgValueCompleter::new(complete::flows))]
        flow: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show every router on the path of a flow, with labels and the packets that took them.
    Trace {
        /// The flow.
        #[arg(add = ArgValueCompleter::new(complete::flows))]
        flow: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Create a flow: its path is signalled at once.
    Create(write::CreateArgs),
    /// Change a flow: fields that are not given stay the same.
    Change(write::ChangeArgs),
    /// Remove flows and their paths.
    #[command(visible_alias = "rm")]
    Delete(write::DeleteArgs),
}

pub(crate) fn lsp(instance: &Instance, command: LspCommand) -> Result<ExitCode, Failure> {
    match command {
        LspCommand::List { all, json } => list(instance, all, json),
        LspCommand::Show { flow, json } => show(instance, &flow, json),
        LspCommand::Trace { flow, json } => trace::trace(instance, &flow, json),
        LspCommand::Create(args) => write::create(instance, &args),
        LspCommand::Change(args) => write::change(instance, &args),
        LspCommand::Delete(args) => write::delete(instance, &args),
    }
}

fn dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// The reason why a flow lacks its desired path.
fn why(flow: &FlowPath) -> String {
    match &flow.error {
        None => "-".to_owned(),
        Some(error) => {
            format!("{} at {} (error {}/{})", error.message, error.router, error.code, error.value)
        }
    }
}

fn list(instance: &Instance, all: bool, json: bool) -> Result<ExitCode, Failure> {
    let list: LspList = client(instance).get("/v1/lsps")?;
    if json {
        line!("{}", serde_json::to_string_pretty(&list)?);
        return Ok(ExitCode::SUCCESS);
    }
    if list.flows.is_empty() {
        line!("no flows");
    } else {
        let mut table = Table::new(&["NAME", "STATE", "SLICE", "LSP", "PATH", "MESSAGE"]).state(1);
        for flow in &list.flows {
            let path: Vec<&str> = flow.hops.iter().map(|hop| hop.router.as_str()).collect();
            let (name, state, slice) = (flow.name.clone(), flow.state.clone(), flow.slice.clone());
            let path = if path.is_empty() { "-".to_owned() } else { path.join(" ") };
            table.row([name, state, slice, dash(flow.lsp), path, why(flow)]);
        }
        out!("{}", table.text(Colours::stdout()));
    }
    if all {
        let headings = ["ROUTER", "FROM", "TO", "TUNNEL", "LSP", "IN", "OUT", "INTERFACE", "VIA"];
        let mut table = Table::new(&headings).right(&[3, 4, 5, 6]);
        for lsp in &list.lsps {
            let router = format!("{}/{}", lsp.slice, lsp.hop.router);
            let ends = [lsp.from.to_string(), lsp.to.to_string()];
            let numbers = [lsp.tunnel.to_string(), lsp.lsp.to_string()];
            let row = [router].into_iter().chain(ends).chain(numbers);
            table.row(row.chain(labels(&lsp.hop)));
        }
        out!("\n{}", table.text(Colours::stdout()));
        let mut table = Table::new(&["INTERFACE", "RESERVABLE b/s", "LEFT b/s"]).right(&[1, 2]);
        for interface in &list.interfaces {
            let rates = [interface.bandwidth.to_string(), interface.left.to_string()];
            table.row([interface.name.clone()].into_iter().chain(rates));
        }
        out!("\n{}", table.text(Colours::stdout()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Labels, interface and neighbour.
fn labels(hop: &PathHop) -> [String; 4] {
    let PathHop { label_in, label_out, interface, via, .. } = hop;
    // 3 is implicit null: no label.
    let out = label_out.map(|label| match label {
        3 => "none".to_owned(),
        label => label.to_string(),
    });
    [dash(*label_in), dash(out), dash(interface.as_ref()), dash(*via)]
}

fn show(instance: &Instance, name: &str, json: bool) -> Result<ExitCode, Failure> {
    let flow: FlowPath = client(instance).get(&format!("/v1/lsps/{}", escape(name)))?;
    if json {
        line!("{}", serde_json::to_string_pretty(&flow)?);
        return Ok(ExitCode::SUCCESS);
    }
    let colours = Colours::stdout();
    line!("{} of slice {}: {}", flow.name, flow.slice, colours.state(&flow.state));
    if flow.error.is_some() {
        line!("{}", why(&flow));
    }
    if let Some(next) = flow.next {
        line!("path {next} is being signalled");
    }
    if let Some(lsp) = flow.lsp.filter(|_| flow.state == "up") {
        line!("path {lsp}:");
    }
    let mut table = Table::new(&["ROUTER", "IN", "OUT", "INTERFACE", "VIA"]).right(&[1, 2]);
    for hop in &flow.hops {
        table.row([hop.router.clone()].into_iter().chain(labels(hop)));
    }
    if !flow.hops.is_empty() {
        out!("{}", table.text(colours));
    }
    Ok(ExitCode::SUCCESS)
}
