//! `events` and `logs`: print them once, or continuously.

use std::io::{self, Write};
use std::process::ExitCode;

use europa_api::rest::Event;
use europa_client::{ClientError, escape};
use europa_node::Instance;

use crate::exit::Failure;
use crate::table::{Colours, plain_lines};
use crate::up::client;

pub(crate) fn events(instance: &Instance, watch: bool, json: bool) -> Result<ExitCode, Failure> {
    let path = if watch { "/v1/events?follow=true" } else { "/v1/events" };
    let colours = Colours::stdout();
    let mut rest = Vec::new();
    let ended = client(instance).stream(path, |bytes| {
        if json {
            return put(bytes);
        }
        rest.extend_from_slice(bytes);
        let Some(end) = rest.iter().rposition(|byte| *byte == b'\n') else { return Ok(()) };
        let mut text = String::new();
        for line in rest.drain(..=end).collect::<Vec<u8>>().split(|byte| *byte == b'\n') {
            if let Ok(event) = serde_json::from_slice::<Event>(line) {
                text += &event_line(&event, colours);
            }
        }
        put(text.as_bytes())
    });
    finished(ended)
}

fn event_line(event: &Event, colours: Colours) -> String {
    let reason = format!("{:<10}", event.reason);
    let reason = if event.warning { colours.yellow(&reason) } else { reason };
    let object = format!("{} {}", event.kind, event.name);
    format!(
        "{}  {reason}  {:<24}  {}\n",
        event.time,
        object.trim_end(),
        plain_lines(&event.message)
    )
}

pub(crate) fn logs(
    instance: &Instance,
    of: &str,
    follow: bool,
    lines: usize,
) -> Result<ExitCode, Failure> {
    let of: Vec<String> = of.split('/').map(escape).collect();
    let path = format!("/v1/logs/{}?follow={follow}&lines={lines}", of.join("/"));
    finished(client(instance).stream(&path, put))
}

fn put(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// A closed pipe, as after `head`, is no failure.
fn finished(result: Result<(), ClientError>) -> Result<ExitCode, Failure> {
    match result {
        Err(ClientError::Connection(error)) if error.contains("Broken pipe") => {
            Ok(ExitCode::SUCCESS)
        }
        other => Ok(other.map(|()| ExitCode::SUCCESS)?),
    }
}
