//! Processes of a node: found, stopped, killed, and kept short of resources.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use europa_control::witness::Effect;
use europa_tests::run;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The usual limit of a node's descriptors.
const USUAL: u32 = 4096;

/// Sends a signal; a process that has just ended gets none.
pub(crate) fn send(process: i32, signal: Signal) {
    let _ = kill(Pid::from_raw(process), signal);
}

/// Stops a process for a second.
pub(crate) fn stop_for_a_second(process: i32) {
    send(process, Signal::SIGSTOP);
    thread::spawn(move || {
        thread::sleep(Duration::from_secs(1));
        send(process, Signal::SIGCONT);
    });
}

/// Limits a process to this many further descriptors.
pub(crate) fn starve(process: i32, more: u32) {
    let open = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let open: BTreeSet<u32> =
        open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let mut free = (0..).filter(|number| !open.contains(number));
    limit(process, &format!("--nofile={}:", free.nth(more as usize).unwrap_or(USUAL)));
}

/// Makes all writes of a process to files fail. The process ignores the signal of such a write.
pub(crate) fn fill(process: i32) {
    limit(process, "--fsize=0:");
}

/// Removes the limits of a process.
pub(crate) fn feed(process: i32) {
    limit(process, &format!("--nofile={USUAL}:"));
    limit(process, "--fsize=unlimited:");
}

fn limit(process: i32, what: &str) {
    // The node may have ended.
    let _ = run(&["prlimit", "--pid", &process.to_string(), what]);
}

/// The process that must answer after an effect: a router's, or the one that tries configurations.
pub(crate) fn answerer(node: i32, effect: Effect, object: &str) -> Option<i32> {
    let name = match effect {
        Effect::AddRouter | Effect::UpdateRouter => object,
        Effect::Check => "check/configurations",
        _ => return None,
    };
    children(node).into_iter().rfind(|child| has_word(*child, name))
}

/// The process of the switch, by the records in the node's folder.
pub(crate) fn switch(kept: &Path) -> Option<i32> {
    let records = fs::read_dir(kept).into_iter().flatten().flatten();
    let of_record = |entry: fs::DirEntry| -> Option<i32> {
        entry.file_name().to_str()?.strip_suffix(".json")?.rsplit('.').next()?.parse().ok()
    };
    records.filter_map(of_record).find(|pid| has_word(*pid, "switch"))
}

fn has_word(process: i32, wanted: &str) -> bool {
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).any(|word| word == wanted.as_bytes())
}

/// The children of all threads of a process, the youngest last.
fn children(process: i32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let mut all: Vec<i32> = lists
        .flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|pid| pid.parse().ok())
        .collect();
    all.sort_unstable();
    all
}
