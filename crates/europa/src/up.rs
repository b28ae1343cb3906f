//! `up` and `down`.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use europa_node::{Instance, Request, Response, ask};

/// How long a node may take to listen: it cleans up after a killed one first.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn up(instance: &Instance, files: &[PathBuf], colour: bool) -> Result<ExitCode, String> {
    if !nix::unistd::geteuid().is_root() {
        return Err("`europa up` needs root: it attaches eBPF programs to devices".into());
    }
    let files = files
        .iter()
        .map(|file| fs::canonicalize(file).map_err(|error| format!("{}: {error}", file.display())))
        .collect::<Result<Vec<_>, _>>()?;
    if ask(instance, &Request::Stats).is_err() {
        start(instance)?;
    }
    answered(ask(instance, &Request::Up { files, colour }))
}

/// Starts a node in the background and waits until it listens.
fn start(instance: &Instance) -> Result<(), String> {
    fs::create_dir_all(instance.logs()).map_err(|error| error.to_string())?;
    let path = instance.log("node");
    let log = File::create(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let errors = log.try_clone().map_err(|error| error.to_string())?;
    let mut node = Command::new("/proc/self/exe")
        .arg("--instance")
        .arg(instance.name())
        .arg("node")
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors)
        .spawn()
        .map_err(|error| format!("starting the node: {error}"))?;
    let start = Instant::now();
    while ask(instance, &Request::Stats).is_err() {
        let ended = node.try_wait().map_err(|error| error.to_string())?;
        if ended.is_some() || start.elapsed() > PATIENCE {
            let log = fs::read_to_string(&path).unwrap_or_default();
            return Err(format!("the node did not start:\n{}", log.trim_end()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

pub(crate) fn down(instance: &Instance) -> Result<ExitCode, String> {
    if ask(instance, &Request::Stats).is_err() {
        // Nobody answers: take away what a killed node left.
        let said = europa_node::clean_up(instance).map_err(|error| error.to_string())?;
        if said.is_empty() {
            println!("the node `{}` does not run", instance.name());
        }
        for line in said {
            println!("{line}");
        }
        return Ok(ExitCode::SUCCESS);
    }
    answered(ask(instance, &Request::Down))
}

/// Prints what a node answers.
pub(crate) fn answered(
    response: Result<Response, europa_node::NodeError>,
) -> Result<ExitCode, String> {
    match response {
        Ok(Response::Done(lines)) => {
            for line in lines {
                println!("{line}");
            }
            Ok(ExitCode::SUCCESS)
        }
        Ok(Response::Failed(why)) => Err(why),
        Ok(Response::Stats(_)) => Err("the node answered something else".into()),
        Err(error) => Err(error.to_string()),
    }
}
