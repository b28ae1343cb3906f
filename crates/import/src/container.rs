//! What a node says about its container: command, user, files of variables, names of other machines.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use crate::Notes;
use crate::frr::{absolute, quoted};
use crate::node::Lined;
use crate::yaml::Node as Yaml;

/// Most bytes of a file of variables.
const MOST_BYTES: u64 = 1 << 20;

/// The words of a field with a command, such as `cmd`: a text as a shell splits it, or a list.
pub(crate) fn words(
    node: &str,
    field: &str,
    value: Option<&Yaml>,
    notes: &mut Notes,
) -> Vec<String> {
    let Some(value) = value else { return Vec::new() };
    let Some(text) = value.text() else {
        return value.items().iter().filter_map(|item| item.text().map(str::to_owned)).collect();
    };
    shlex::split(text).unwrap_or_else(|| {
        let message = format!("node {node}: `{field}` has a quote that does not end: left out");
        notes.add(value.line, message);
        Vec::new()
    })
}

/// The variables of files with lines of the form `NAME=VALUE`. Later files have precedence.
pub(crate) fn variables(
    node: &str,
    files: &[Lined],
    folder: &Path,
    notes: &mut Notes,
) -> Vec<(String, Lined)> {
    let mut all = Vec::new();
    for (line, file) in files {
        let path = absolute(folder, file);
        let read = match fs::metadata(&path) {
            Ok(found) if found.len() > MOST_BYTES => Err("too long".to_owned()),
            _ => fs::read_to_string(&path).map_err(|error| error.to_string()),
        };
        let text = read.unwrap_or_else(|error| {
            notes.add(*line, format!("node {node}: {path}: {error}"));
            String::new()
        });
        for pair in text.lines().map(str::trim).filter(|pair| !pair.starts_with('#')) {
            let Some((name, value)) = pair.split_once('=') else { continue };
            let name = name.strip_prefix("export ").unwrap_or(name).trim();
            all.push((name.to_owned(), (*line, value.trim_matches('"').to_owned())));
        }
    }
    all
}

/// Shell lines that write `extra-hosts` into `/etc/hosts`, and `dns` into `/etc/resolv.conf`.
pub(crate) fn names(
    node: &str,
    hosts: &[Lined],
    dns: Option<&Yaml>,
    notes: &mut Notes,
) -> Vec<String> {
    let mut lines = Vec::new();
    for (line, host) in hosts {
        // An IPv6 address has colons, too.
        let found = host.split_once(':').and_then(|(name, address)| {
            let address: IpAddr = address.trim_matches(['[', ']']).parse().ok()?;
            Some(format!("{address} {name}"))
        });
        match found {
            Some(entry) => lines.push(format!("echo {} >> /etc/hosts", quoted(&entry))),
            None => notes.add(*line, format!("node {node}: {host:?} is no NAME:ADDRESS")),
        }
    }
    let items = |field: &str| -> Vec<&str> {
        let list = dns.and_then(|dns| dns.get(field)).map_or(&[][..], Yaml::items);
        list.iter().filter_map(Yaml::text).collect()
    };
    let servers = items("servers").into_iter().map(|server| format!("nameserver {server}"));
    let rest = [("search", items("search")), ("options", items("options"))];
    let rest = rest.iter().filter(|(_, words)| !words.is_empty());
    let rest = rest.map(|(name, words)| format!("{name} {}", words.join(" ")));
    let resolver: Vec<String> = servers.chain(rest).map(|line| quoted(&line)).collect();
    if !resolver.is_empty() {
        lines.push(format!("printf '%s\\n' {} > /etc/resolv.conf", resolver.join(" ")));
    }
    lines
}
