//! Names of objects, for the shell's completion: the node is asked, if one runs.

use std::ffi::OsStr;

use clap_complete::engine::CompletionCandidate;
use europa_api::rest::Objects;
use europa_client::Client;
use europa_node::Instance;

fn names(kinds: &[&str], current: &OsStr) -> Vec<CompletionCandidate> {
    let instance = std::env::var("EUROPA_INSTANCE").unwrap_or_else(|_| "default".to_owned());
    let Ok(instance) = Instance::new(&instance) else { return Vec::new() };
    let client = Client::new(instance.socket());
    let current = current.to_string_lossy();
    let objects =
        kinds.iter().filter_map(|kind| client.get::<Objects>(&format!("/v1/{kind}")).ok());
    objects
        .flat_map(|objects| objects.items)
        .filter(|object| object.name.starts_with(&*current))
        .map(|object| CompletionCandidate::new(object.name).help(Some(object.kind.into())))
        .collect()
}

/// Routers.
pub(crate) fn routers(current: &OsStr) -> Vec<CompletionCandidate> {
    names(&["routers"], current)
}

/// All objects.
pub(crate) fn objects(current: &OsStr) -> Vec<CompletionCandidate> {
    names(&["ports", "slices", "links", "hosts", "routers"], current)
}

/// Whatever has a log.
pub(crate) fn logs(current: &OsStr) -> Vec<CompletionCandidate> {
    let own = ["node", "switch"].into_iter().filter(|name| {
        let current = current.to_string_lossy();
        name.starts_with(&*current)
    });
    own.map(CompletionCandidate::new).chain(routers(current)).collect()
}
