//! Programs of hosts: `exec HOST`, and the processes that run the commands of `run:`.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use europa_host::{Inside, folder};
use europa_node::{Instance, host_group, host_inside, note_host_code};
use europa_sandbox::Identity;
use europa_sandbox::cgroup::Cgroups;
use europa_slowpath::environment::PATH;
use europa_slowpath::init;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;

use crate::exit::Failure;
use crate::roles::name_process;
use crate::slow_path::{as_a_shell, code};

fn started(pid: u32) -> Option<u64> {
    Identity::of(pid).map(|found| found.started)
}

fn inside(instance: &Instance, host: &str) -> Result<Inside, Failure> {
    host_inside(instance, host).ok_or_else(|| {
        Failure::missing(format!("node `{}` has not made a host {host}", instance.name()))
    })
}

/// Runs the shell for a command of a host's `run`, or the command of its image, and notes how it
/// ends.
pub(crate) fn run(
    instance: &Instance,
    (host, image): (&str, bool),
    command: &[String],
) -> Result<ExitCode, Failure> {
    name_process(c"europa-run");
    // The node returns the last lines of the log, which contain this line.
    let code = execute(instance, host, command).unwrap_or_else(|failure| {
        failure.report();
        1
    });
    if !image {
        note_host_code(instance, host, code);
    }
    Ok(ExitCode::from(code))
}

/// Runs a command, or a shell, in a host.
pub(crate) fn exec(
    instance: &Instance,
    host: &str,
    command: &[String],
) -> Result<ExitCode, Failure> {
    execute(instance, host, command).map(ExitCode::from)
}

/// Returns the command's code, as a shell reports it.
fn execute(instance: &Instance, host: &str, command: &[String]) -> Result<u8, Failure> {
    inside(instance, host)?;
    // The host's limits apply to the command. Without control groups there are no limits.
    if let Ok(group) =
        Cgroups::detect().and_then(|groups| groups.group(instance.name(), &host_group(host)))
    {
        let _ = group.add(std::process::id());
    }
    let failed = |error: io::Error| format!("entering host {host}: {error}");
    let mut holder = role(instance, "host-hold", host);
    europa_host::ensure(&folder(&instance.directory(), host), &mut holder, started)
        .map_err(failed)?;
    let mut enter = role(instance, "host-enter", host);
    enter.arg("--").args(command);
    // Only a child of this process is in the host's pid namespace.
    Ok(code(init::accompany(enter).map_err(failed)?))
}

fn role(instance: &Instance, role: &str, host: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("europa").args(["--instance", instance.name(), role, host]);
    command
}

/// Executes a command, or a shell, in place of this process, in a host whose pid namespace this
/// process is in. Returns only on error.
pub(crate) fn enter(
    instance: &Instance,
    host: &str,
    command: &[String],
) -> Result<ExitCode, Failure> {
    let failed = |error: io::Error| format!("entering host {host}: {error}");
    init::begin_anew().map_err(failed)?;
    // This process ends when the process that waits for it ends.
    set_pdeathsig(Signal::SIGKILL).map_err(|error| failed(error.into()))?;
    let inside = inside(instance, host)?;
    europa_host::join(&folder(&instance.directory(), host), &inside, started).map_err(failed)?;
    let shell = ["/bin/sh".to_owned()];
    let words = if command.is_empty() { &shell } else { command };
    let (place, user) = inside.beginning(words).map_err(failed)?;
    let Some((program, arguments)) = words.split_first() else { return Ok(ExitCode::SUCCESS) };
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(variables(host)).envs(inside.environment);
    if let Some((user, group)) = user {
        command.uid(user).gid(group);
    }
    let error = command.current_dir(place).exec();
    Err(Failure::execution(program, &as_a_shell(program, error)))
}

/// Variables of every program: few, and the same on every machine.
fn variables(host: &str) -> Vec<(&'static str, String)> {
    let mut all: Vec<(&str, String)> =
        [("PATH", PATH), ("HOME", "/root"), ("LANG", "C.UTF-8"), ("HOSTNAME", host)]
            .map(|(name, value)| (name, value.to_owned()))
            .to_vec();
    // A program at a terminal needs to know the terminal's type.
    all.extend(std::env::var("TERM").ok().map(|kind| ("TERM", kind)));
    all
}

/// Holds a host's namespaces as its process 1.
pub(crate) fn hold(instance: &Instance, host: &str) -> Result<ExitCode, Failure> {
    name_process(c"europa-host");
    let inside = inside(instance, host)?;
    match europa_host::hold(&inside, &folder(&instance.directory(), host)) {
        Ok(never) => match never {},
        Err(error) => Err(error.to_string().into()),
    }
}
