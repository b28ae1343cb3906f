//! `exec`, and the programs of slow paths.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode};

use europa_client::ClientError;
use europa_node::Instance;
use europa_sandbox::cgroup::Cgroups;
use europa_slowpath::environment::{Environment, folder, variables};
use europa_slowpath::init;

use crate::exit::Failure;
use crate::up::client;

/// Runs a command, or a shell, in the slow path of a router; comes back only with an error.
pub(crate) fn exec(
    instance: &Instance,
    router: &str,
    command: &[String],
) -> Result<ExitCode, Failure> {
    if !nix::unistd::geteuid().is_root() {
        return Err("`europa exec` needs root: it enters the router's namespaces".into());
    }
    // A slow path goes on while its node is away: only what is missing is the node's business.
    let environment = environment(instance, router).map_err(|missing| {
        if client(instance).is_there() {
            Failure::missing(missing)
        } else {
            ClientError::Absent(instance.socket()).into()
        }
    })?;
    // Under the router's limits, like everything of it. Without groups there are none.
    if let Ok(group) =
        Cgroups::detect().and_then(|groups| groups.group(instance.name(), &environment.group))
    {
        let _ = group.add(std::process::id());
    }
    environment.enter(false, &[]).map_err(|error| format!("entering {router}: {error}"))?;
    let shell = [std::env::var("SHELL").unwrap_or("/bin/sh".into())];
    let words = if command.is_empty() { &shell } else { command };
    let Some((program, arguments)) = words.split_first() else { return Ok(ExitCode::SUCCESS) };
    let error = Command::new(program).args(arguments).env("EUROPA_ROUTER", router).exec();
    Err(Failure::execution(program, &told(program, error)))
}

/// A command that is nowhere is not found, whatever of `PATH` could not be looked at.
fn told(program: &str, error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::PermissionDenied || program.contains('/') {
        return error;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    if found { error } else { io::ErrorKind::NotFound.into() }
}

/// Holds the namespaces of a router until the node has them.
pub(crate) fn hold() -> Result<ExitCode, String> {
    match europa_slowpath::users::hold() {
        Ok(never) => match never {},
        Err(error) => Err(error.to_string()),
    }
}

/// A program that the node starts and keeps running.
pub(crate) fn daemon(
    instance: &Instance,
    router: &str,
    capabilities: &[String],
    command: &[String],
) -> Result<ExitCode, String> {
    let environment = environment(instance, router)?;
    environment.enter(true, capabilities).map_err(|error| format!("entering {router}: {error}"))?;
    let Some((program, arguments)) = command.split_first() else { return Ok(ExitCode::SUCCESS) };
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(variables(router)).current_dir("/");
    let status = init::run(&mut command).map_err(|error| format!("{program}: {error}"))?;
    match (status.code(), status.signal()) {
        (Some(code), _) => Ok(ExitCode::from(code as u8)),
        // As a shell says it: the first of its process numbers cannot die of a signal itself.
        (None, signal) => Ok(ExitCode::from(128 + signal.unwrap_or(0) as u8)),
    }
}

fn environment(instance: &Instance, router: &str) -> Result<Environment, String> {
    Environment::read(&folder(&instance.directory(), router)).map_err(|_| {
        format!("there is no router {router} with a slow path in the node `{}`", instance.name())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_is_nowhere_is_not_found() {
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        for (program, wanted) in [
            ("no-such-command", io::ErrorKind::NotFound),
            ("sh", io::ErrorKind::PermissionDenied),
            ("/root/secret", io::ErrorKind::PermissionDenied),
        ] {
            assert_eq!(told(program, denied()).kind(), wanted, "{program}");
        }
    }
}
