//! `exec`, and the programs of slow paths.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode, ExitStatus};

use europa_client::ClientError;
use europa_node::Instance;
use europa_sandbox::Identity;
use europa_sandbox::cgroup::Cgroups;
use europa_slowpath::environment::{Environment, folder};
use europa_slowpath::init;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;

use crate::exit::Failure;
use crate::roles::name_process;
use crate::routers;
use crate::up::client;

/// Runs a command, or a shell, in the slow path and the pid namespace of a router.
pub(crate) fn exec(
    instance: &Instance,
    router: &str,
    command: &[String],
) -> Result<ExitCode, Failure> {
    // A slow path continues without its node, so the node is asked only after a failure.
    let environment = environment(instance, router).map_err(|missing| {
        if client(instance).is_there() {
            Failure::missing(missing).with(&routers::known(instance))
        } else {
            ClientError::Absent(instance.socket()).into()
        }
    })?;
    // The router's limits apply to the command. Without control groups there are no limits.
    if let Ok(group) =
        Cgroups::detect().and_then(|groups| groups.group(instance.name(), &environment.group))
    {
        let _ = group.add(std::process::id());
    }
    let folder = folder(&instance.directory(), router);
    let failed = |error: io::Error| format!("entering {router}: {error}");
    init::numbers(&folder, |pid| Identity::of(pid).map(|found| found.started))
        .and_then(init::choose_numbers)
        .map_err(failed)?;
    // Only a child of this process is in the chosen pid namespace.
    Ok(ExitCode::from(code(init::accompany(inner(instance, router, command)).map_err(failed)?)))
}

/// `europa enter`: the same command, run by a child.
fn inner(instance: &Instance, router: &str, command: &[String]) -> Command {
    let mut inner = Command::new("/proc/self/exe");
    inner.arg0("europa").args(["--instance", instance.name(), "enter", router, "--"]);
    inner.args(command);
    inner
}

/// Executes a command, or a shell, in place of this process, in the slow path of a router whose pid
/// namespace this process is in. Returns only on error.
pub(crate) fn enter(
    instance: &Instance,
    router: &str,
    command: &[String],
) -> Result<ExitCode, Failure> {
    let failed = |error: io::Error| format!("entering {router}: {error}");
    init::begin_anew().map_err(failed)?;
    // This process ends when the process that waits for it ends.
    set_pdeathsig(Signal::SIGKILL).map_err(|error| failed(error.into()))?;
    if std::process::id() == 1 {
        // Process 1 reaps orphans. This process stays outside the namespace, where no program of
        // the router can signal it.
        let status = init::accompany(inner(instance, router, command)).map_err(failed)?;
        return Ok(ExitCode::from(code(status)));
    }
    let environment = environment(instance, router)?;
    environment.enter(&[]).map_err(failed)?;
    // A change of user ids resets it.
    set_pdeathsig(Signal::SIGKILL).map_err(|error| failed(error.into()))?;
    let shell = [std::env::var("SHELL").unwrap_or("/bin/sh".into())];
    let words = if command.is_empty() { &shell } else { command };
    let Some((program, arguments)) = words.split_first() else { return Ok(ExitCode::SUCCESS) };
    let mut command = Command::new(program);
    command.args(arguments).env("EUROPA_ROUTER", router).envs(environment.of_image());
    let error = command.exec();
    Err(Failure::execution(program, &as_a_shell(program, error)))
}

/// The code of an ended command, as a shell reports it.
pub(crate) fn code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, signal) => 128 + signal.unwrap_or(0) as u8,
    }
}

/// "Permission denied" for a folder of `PATH` becomes "not found", as in a shell.
pub(crate) fn as_a_shell(program: &str, error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::PermissionDenied || program.contains('/') {
        return error;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    if found { error } else { io::ErrorKind::NotFound.into() }
}

/// Holds the namespaces of a router until the node has them.
pub(crate) fn hold() -> Result<ExitCode, String> {
    name_process(c"europa-hold");
    match europa_slowpath::users::hold() {
        Ok(never) => match never {},
        Err(error) => Err(error.to_string()),
    }
}

/// Holds a router's pid namespace as its process 1.
pub(crate) fn init() -> Result<ExitCode, String> {
    name_process(c"europa-init");
    init::first().map_err(|error| error.to_string())?;
    Ok(ExitCode::SUCCESS)
}

/// The task of a `europa daemon` process for a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// The process starts process 1 of the program's pid namespace and waits for it.
    Waits,
    /// The process is process 1 and starts the program.
    First,
    /// The process runs a command in the pid namespace of a running program.
    Beside,
}

/// Runs a program that the node keeps running, or a command for such a program.
pub(crate) fn daemon(
    instance: &Instance,
    router: &str,
    part: Part,
    capabilities: &[String],
    command: &[String],
) -> Result<ExitCode, String> {
    name_process(c"europa-daemon");
    if part == Part::Waits {
        init::choose_numbers(None).map_err(|error| format!("making a pid namespace: {error}"))?;
        let mut first = Command::new("/proc/self/exe");
        first.arg0("europa").args(["--instance", instance.name(), "daemon", router]);
        first.args(["--part", "first"]);
        first.args(capabilities.iter().flat_map(|one| ["--keep", one.as_str()]));
        first.arg("--").args(command);
        let status = init::accompany(first).map_err(|error| error.to_string())?;
        return Ok(ExitCode::from(code(status)));
    }
    if part == Part::First {
        init::begin_anew().map_err(|error| error.to_string())?;
        set_pdeathsig(Signal::SIGKILL).map_err(|error| error.to_string())?;
    }
    let environment = environment(instance, router)?;
    environment.enter(capabilities).map_err(|error| format!("entering {router}: {error}"))?;
    if part == Part::First {
        // A change of user ids resets it.
        set_pdeathsig(Signal::SIGKILL).map_err(|error| error.to_string())?;
    }
    let (place, user) = environment.beginning(command).map_err(|error| error.to_string())?;
    let Some((program, arguments)) = command.split_first() else { return Ok(ExitCode::SUCCESS) };
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(environment.variables()).current_dir(place);
    if let Some((user, group)) = user {
        command.uid(user).gid(group);
    }
    let status = init::run(&mut command).map_err(|error| format!("{program}: {error}"))?;
    // Process 1 of a pid namespace cannot end by a signal, so its exit code names the signal.
    Ok(ExitCode::from(code(status)))
}

fn environment(instance: &Instance, router: &str) -> Result<Environment, String> {
    Environment::read(&folder(&instance.directory(), router))
        .map_err(|_| format!("node `{}` has no router {router} with a slow path", instance.name()))
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
            assert_eq!(as_a_shell(program, denied()).kind(), wanted, "{program}");
        }
    }
}
