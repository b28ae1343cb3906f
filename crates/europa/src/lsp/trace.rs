//! `lsp trace`: each router on the path of a flow, with its labels and the packets that took it.

use std::process::ExitCode;

use europa_api::lsp::{FlowPath, LspAt, LspList};
use europa_api::rest::HandlerValue;
use europa_client::{Client, escape};
use europa_node::Instance;
use serde::Serialize;

use super::{labels, why};
use crate::exit::Failure;
use crate::table::{Colours, Table, line, out};
use crate::up::client;

/// Elements that have the label table of a router: of `builtin: ipv4`, and before other fast paths.
const TABLES: [&str; 2] = ["labels", "europa_labels"];

/// One router on the path.
#[derive(Serialize)]
struct Traced {
    #[serde(flatten)]
    hop: europa_api::lsp::PathHop,
    /// Packets of the path that the router has sent on; none if its label table has no entry.
    packets: Option<u64>,
    /// Their bytes.
    bytes: Option<u64>,
}

/// The path's name in label tables: head, tail, tunnel and number.
fn key(list: &LspList, flow: &FlowPath) -> Option<String> {
    let head = flow.hops.first()?;
    let is_head =
        |lsp: &&LspAt| lsp.slice == flow.slice && Some(lsp.lsp) == flow.lsp && lsp.hop == *head;
    let at = list.lsps.iter().find(is_head)?;
    Some(format!("{} {} {} {} ", at.from, at.to, at.tunnel, at.lsp))
}

/// Packets and bytes of a path at a router, from the line of its label table.
fn counters(client: &Client, slice: &str, router: &str, key: &str) -> Option<(u64, u64)> {
    let table = TABLES.iter().find_map(|table| {
        let (slice, router) = (escape(slice), escape(router));
        let path = format!("/v1/routers/{slice}/{router}/handlers/{table}.table");
        client.get::<HandlerValue>(&path).ok()
    })?;
    of_line(table.value.lines().find(|line| line.starts_with(key))?)
}

/// Packets and bytes are the last two words of a line.
fn of_line(line: &str) -> Option<(u64, u64)> {
    let mut words = line.rsplit(' ').map(str::parse::<u64>);
    let (bytes, packets) = (words.next()?.ok()?, words.next()?.ok()?);
    Some((packets, bytes))
}

pub(super) fn trace(instance: &Instance, name: &str, json: bool) -> Result<ExitCode, Failure> {
    let client = client(instance);
    let flow: FlowPath = client.get(&format!("/v1/lsps/{}", escape(name)))?;
    let list: LspList = client.get("/v1/lsps")?;
    let key = key(&list, &flow);
    let traced = flow.hops.iter().map(|hop| {
        let found = key.as_ref().and_then(|key| counters(&client, &flow.slice, &hop.router, key));
        let (packets, bytes) = found.unzip();
        Traced { hop: hop.clone(), packets, bytes }
    });
    let traced: Vec<Traced> = traced.collect();
    if json {
        line!("{}", serde_json::to_string_pretty(&traced)?);
        return Ok(ExitCode::SUCCESS);
    }
    let colours = Colours::stdout();
    line!("{} of slice {}: {}", flow.name, flow.slice, colours.state(&flow.state));
    if flow.error.is_some() {
        line!("{}", why(&flow));
    }
    let headings = ["", "ROUTER", "IN", "OUT", "INTERFACE", "VIA", "PACKETS", "BYTES"];
    let mut table = Table::new(&headings).right(&[2, 3, 6, 7]);
    for (number, one) in traced.iter().enumerate() {
        let counted = [one.packets, one.bytes].map(super::dash);
        let first = [(number + 1).to_string(), one.hop.router.clone()];
        table.row(first.into_iter().chain(labels(&one.hop)).chain(counted));
    }
    if !traced.is_empty() {
        out!("{}", table.text(colours));
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_of_a_line_are_counters() {
        let line = "10.9.1.1 10.1.4.2 7 1 16 17 south 10.1.3.2 50 4200";
        assert_eq!(of_line(line), Some((50, 4200)));
        assert_eq!(of_line("10.9.1.1 -"), None);
    }
}
