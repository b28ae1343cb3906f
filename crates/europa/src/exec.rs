//! `exec`: runs a command in a router's slow path or in a host.

use std::fs;
use std::process::ExitCode;

use europa_import::Object;
use europa_node::{Instance, host_inside, host_namespace};

use crate::exit::Failure;
use crate::{host, slow_path, stand_in};

pub(crate) fn exec(
    instance: &Instance,
    name: &str,
    command: &[String],
) -> Result<ExitCode, Failure> {
    if !nix::unistd::geteuid().is_root() {
        return Err("`europa exec` needs root: it enters namespaces".into());
    }
    if name.contains('/') {
        return slow_path::exec(instance, name, command);
    }
    if host_inside(instance, name).is_some() {
        return host::exec(instance, name, command);
    }
    if let Some(path) = host_namespace(instance, name) {
        return Err(Failure::usage(format!(
            "Europa has not made host {name}; its network is entered by `nsenter --net={}`",
            path.display()
        )));
    }
    // In a lab, the name may be that of the lab's node; Europa may have changed it for the object.
    match stand_in::object(instance, name) {
        Some(Object::Host(host)) => return host::exec(instance, &host, command),
        Some(Object::Router(router)) => return slow_path::exec(instance, &router, command),
        _ => {}
    }
    match routers(instance, name).as_slice() {
        [one] => slow_path::exec(instance, one, command),
        [] => slow_path::exec(instance, name, command),
        several => Err(Failure::usage(format!(
            "{name} is the name of several routers: write {}",
            several.join(" or ")
        ))),
    }
}

/// The routers of this name that have a slow path, with their slices.
fn routers(instance: &Instance, name: &str) -> Vec<String> {
    let folders = fs::read_dir(instance.directory().join("slow"));
    let mut found: Vec<String> = folders
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|folder| folder.file_name().into_string().ok())
        .filter_map(|folder| folder.split_once('.').map(|(s, r)| (s.to_owned(), r.to_owned())))
        .filter(|(_, router)| router == name)
        .map(|(slice, router)| format!("{slice}/{router}"))
        .collect();
    found.sort();
    found
}
