//! Removes everything when the demo ends: at its end, after a failure, or by Ctrl-C. A child
//! process does the work, so that a failure of the work does not prevent the removal.

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

use europa_tests::{Lab, Leftovers};
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::unistd::Pid;

use crate::node::Node;
use crate::report::say;

/// The signals that end the demo.
const ENDINGS: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];

/// Runs the demo that does `work` in a child process, if these programs are installed, and cleans
/// up afterwards.
pub(crate) fn guard(work: &str, programs: &[&str]) -> Result<(), String> {
    if let Some(reason) = europa_tests::missing(programs) {
        return Err(reason);
    }
    clean_up_after_killed_ones();
    let before = Leftovers::look().map_err(|error| error.to_string())?;
    let instance = format!("demo-{}", std::process::id());

    let mut signals: SigSet = ENDINGS.into_iter().collect();
    signals.add(Signal::SIGCHLD);
    signals.thread_block().map_err(|errno| format!("blocking signals: {errno}"))?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut child = Command::new(program)
        .args([work, &instance])
        .process_group(0)
        .spawn()
        .map_err(|error| format!("starting the demo: {error}"))?;
    let status = watch(&mut child, &signals)?;

    let tag = format!("-{}", child.id());
    Node::new(&instance).down();
    // A new laboratory first removes the namespaces of processes that have ended.
    drop(Lab::new().map_err(|error| error.to_string())?);
    let left: Vec<String> = before
        .new_ones()
        .map_err(|error| error.to_string())?
        .into_iter()
        .filter(|what| what.contains(&instance) || what.contains(&tag))
        .collect();
    if left.is_empty() {
        say("Nothing is left behind: no process, namespace, device, program or file.");
    } else {
        return Err(format!("left behind:\n  {}", left.join("\n  ")));
    }
    match (status.success(), status.signal()) {
        (true, _) => Ok(()),
        (_, Some(_)) => Err("interrupted".to_owned()),
        _ => Err("it did not succeed".to_owned()),
    }
}

/// Waits for the child, and kills it when a signal asks for the end.
fn watch(child: &mut Child, signals: &SigSet) -> Result<ExitStatus, String> {
    loop {
        let signal = signals.wait().map_err(|errno| format!("waiting: {errno}"))?;
        if ENDINGS.contains(&signal) {
            let group = i32::try_from(child.id()).unwrap_or(i32::MAX);
            // The child may have ended just now.
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
            say("");
            return child.wait().map_err(|error| error.to_string());
        }
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            return Ok(status);
        }
    }
}

/// Cleans up after demos that SIGKILL ended before they could clean up.
fn clean_up_after_killed_ones() {
    for entry in fs::read_dir("/run/europa").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(pid) = name.strip_prefix("demo-")
            && !Path::new("/proc").join(pid).exists()
        {
            Node::new(&name).down();
        }
    }
}
