//! The command `docker`.

use std::fs::File;
use std::io::IsTerminal;
use std::process::{ExitCode, Stdio};

use serde_json::{Value, json};

use super::arguments::{Arguments, Known};
use super::lab::{self, Container, Deployed, Surroundings};
use super::{copy, list, template};
use crate::exit::Failure;
use crate::slow_path::code;
use crate::table::{line, out};
use crate::{exec, follow};

/// The version of Docker whose options and output are imitated.
const LIKE: &str = "27.5.1";

const EXEC: Known = &[
    ("interactive", Some('i'), false),
    ("tty", Some('t'), false),
    ("detach", Some('d'), false),
    ("privileged", None, false),
    ("user", Some('u'), true),
    ("workdir", Some('w'), true),
    ("env", Some('e'), true),
];
const COPY: Known = &[
    ("quiet", Some('q'), false),
    ("archive", Some('a'), false),
    ("follow-link", Some('L'), false),
];
const LIST: Known = &[
    ("all", Some('a'), false),
    ("quiet", Some('q'), false),
    ("no-trunc", None, false),
    ("format", None, true),
    ("filter", Some('f'), true),
];
const INSPECT: Known =
    &[("format", Some('f'), true), ("type", None, true), ("size", Some('s'), false)];
const LOGS: Known = &[
    ("follow", Some('f'), false),
    ("tail", Some('n'), true),
    ("timestamps", Some('t'), false),
    ("details", None, false),
];

/// Runs a command line.
pub(super) fn run(words: &[String]) -> Result<ExitCode, Failure> {
    let texts: Vec<&str> = words.iter().map(String::as_str).collect();
    let from = |count: usize| words.get(count..).unwrap_or_default();
    match texts.as_slice() {
        ["--version" | "-v", ..] => line!("Docker version {LIKE}, build europa"),
        ["version", ..] => version(&Arguments::read("docker version", INSPECT, from(1), false)?)?,
        ["exec", ..] => return execute(from(1)),
        ["container", "exec", ..] => return execute(from(2)),
        ["cp", ..] => copy::run(&Arguments::read("docker cp", COPY, from(1), false)?)?,
        ["container", "cp", ..] => copy::run(&Arguments::read("docker cp", COPY, from(2), false)?)?,
        ["ps", ..] => list::containers(&Arguments::read("docker ps", LIST, from(1), false)?)?,
        ["container", "ls" | "list" | "ps", ..] => {
            list::containers(&Arguments::read("docker ps", LIST, from(2), false)?)?;
        }
        ["logs", ..] => return logs(&Arguments::read("docker logs", LOGS, from(1), false)?),
        ["container", "logs", ..] => {
            return logs(&Arguments::read("docker logs", LOGS, from(2), false)?);
        }
        ["images", ..] => list::images(&Arguments::read("docker images", LIST, from(1), false)?)?,
        ["image", "ls" | "list", ..] => {
            list::images(&Arguments::read("docker image ls", LIST, from(2), false)?)?;
        }
        ["inspect", ..] => inspect(&Arguments::read("docker inspect", INSPECT, from(1), false)?)?,
        ["container", "inspect", ..] => {
            inspect(&Arguments::read("docker inspect", INSPECT, from(2), false)?)?;
        }
        [] | ["help" | "--help", ..] => {
            line!("Europa in place of Docker: exec, cp, ps, logs, inspect, image ls, version")
        }
        other => return Err(refused(other)),
    }
    Ok(ExitCode::SUCCESS)
}

/// The error for an unsupported command, with a remedy.
fn refused(words: &[&str]) -> Failure {
    let remedy = match words.first().copied().unwrap_or_default() {
        "run" | "create" | "start" | "restart" | "compose" => {
            "a lab's nodes are started by `containerlab deploy`"
        }
        "stop" | "kill" | "rm" | "pause" | "unpause" => {
            "a lab's nodes end by `containerlab destroy`"
        }
        "pull" | "build" | "load" | "save" | "push" | "tag" | "image" | "rmi" => {
            "images are not run: nodes use the machine's programs"
        }
        "network" => "nodes have no management network: reach them by `docker exec`",
        _ => "it has exec, cp, ps, logs, inspect, image ls and version",
    };
    let word = words.iter().take(2).copied().collect::<Vec<_>>().join(" ");
    Failure::usage(format!("docker {word}: Europa's stand-in does not do that; {remedy}"))
}

fn version(all: &Arguments) -> Result<(), Failure> {
    let part = json!({"Version": LIKE, "ApiVersion": "1.47", "Os": "linux",
        "Platform": {"Name": "Europa, in place of Docker"}});
    let value = json!({"Client": part, "Server": part});
    match all.one("format") {
        Some("json") => line!("{value}"),
        Some(format) => line!("{}", template::fill(format, &value)?),
        None => out!(
            "Client: Europa {}, in place of Docker\n Version:           {LIKE}\n\n\
             Server:\n Engine:\n  Version:          {LIKE}\n",
            env!("CARGO_PKG_VERSION")
        ),
    }
    Ok(())
}

fn execute(words: &[String]) -> Result<ExitCode, Failure> {
    let all = Arguments::read("docker exec", EXEC, words, true)?;
    let [name, command @ ..] = all.words.as_slice() else {
        return Err(Failure::usage("docker exec: name a container and a command"));
    };
    if command.is_empty() {
        return Err(Failure::usage("docker exec: name a command behind the container"));
    }
    let (interactive, terminal) = (all.has("interactive"), all.has("tty"));
    if interactive && terminal && !std::io::stdin().is_terminal() {
        return Err("the input device is not a TTY".into());
    }
    let labs = lab::all();
    let container = lab::container(&labs, name)?;
    if !container.is_running() {
        return Err(format!("container {name} is not running").into());
    }
    let variable = |text: &str| match text.contains('=') {
        true => Some(text.to_owned()),
        false => std::env::var(text).ok().map(|value| format!("{text}={value}")),
    };
    let around = Surroundings {
        user: all.one("user").map(str::to_owned),
        folder: all.one("workdir").map(str::to_owned),
        variables: all.all("env").filter_map(variable).collect(),
    };
    let command = container.dressed(command, &around);
    if all.has("detach") {
        let mut detached = container.command(&command)?;
        let mut child = detached.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        // If the command cannot be started, it has ended by now.
        std::thread::sleep(std::time::Duration::from_millis(50));
        let status = child.try_wait()?;
        return Ok(status.map_or(ExitCode::SUCCESS, |status| ExitCode::from(code(status))));
    }
    if !interactive {
        // As with Docker, the command does not read standard input: a loop of a shell may use it.
        nix::unistd::dup2_stdin(File::open("/dev/null")?).map_err(std::io::Error::from)?;
    }
    exec::exec(&container.deployed.instance()?, container.target(), &command)
}

/// A container as `docker inspect` describes it.
fn described(one: &Container<'_>) -> Value {
    let running = one.is_running();
    let labels: serde_json::Map<String, Value> =
        one.labels().into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    let variables: Vec<String> =
        one.node.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    json!({
        "Id": one.id(),
        "Name": format!("/{}", one.name()),
        "Image": one.node.image,
        "State": {
            "Status": if running { "running" } else { "exited" },
            "Running": running,
            "Paused": false,
            "Restarting": false,
            "Dead": false,
            "Pid": one.pid().filter(|_| running).unwrap_or(0),
            "ExitCode": 0,
        },
        "Config": {
            "Hostname": one.node.name,
            "Image": one.node.image,
            "Env": variables,
            "Labels": labels,
        },
        "HostConfig": {"NetworkMode": "none"},
        "NetworkSettings": {"Networks": {}, "IPAddress": "", "Ports": {}},
    })
}

fn inspect(all: &Arguments) -> Result<(), Failure> {
    let labs = lab::all();
    let mut found = Vec::new();
    for name in &all.words {
        match lab::container(&labs, name) {
            Ok(one) => found.push(described(&one)),
            Err(failure) => {
                if all.one("format").is_none() {
                    line!("[]");
                }
                return Err(failure);
            }
        }
    }
    if found.is_empty() {
        return Err(Failure::usage("docker inspect: name a container"));
    }
    match all.one("format") {
        None | Some("json") => line!("{}", serde_json::to_string_pretty(&found)?),
        Some(format) => {
            for one in &found {
                line!("{}", template::fill(format, one)?);
            }
        }
    }
    Ok(())
}

fn logs(all: &Arguments) -> Result<ExitCode, Failure> {
    let [name] = all.words.as_slice() else {
        return Err(Failure::usage("docker logs: name one container"));
    };
    let lines = match all.one("tail") {
        None | Some("all") => 10_000,
        Some(text) => text
            .parse()
            .map_err(|_| Failure::usage(format!("docker logs: --tail {text} is no number")))?,
    };
    let labs: Vec<Deployed> = lab::all();
    let one = lab::container(&labs, name)?;
    let instance = one.deployed.instance()?;
    let target = one.target();
    if !target.contains('/') {
        return follow::logs(&instance, target, all.has("follow"), lines);
    }
    if one.node.runs {
        follow::logs(&instance, &format!("{target}.exec"), false, lines)?;
    }
    follow::logs(&instance, &format!("{target}.frr"), all.has("follow"), lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_refused_by_name_and_remedy() {
        for (words, wanted) in [
            (&["pull", "x"][..], "images are not run"),
            (&["stop", "x"], "containerlab destroy"),
            (&["network", "ls"], "no management network"),
            (&["swarm"], "docker swarm"),
            (&["exec", "--gpus", "all"], "--gpus"),
        ] {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let failure = run(&words).expect_err(wanted);
            assert!(format!("{failure:?}").contains(wanted), "{failure:?}");
        }
    }
}
