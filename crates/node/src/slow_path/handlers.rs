//! Whether a program handles a signal: just after its start it may not, and the signal would end
//! it.

use std::collections::HashMap;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

/// Time for a program to install its handler.
const STARTING: Duration = Duration::from_secs(2);
/// Interval of the checks.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Waits until the program of the process `waits` (a `europa daemon`) handles or ignores a signal.
/// Returns whether it does.
pub(super) fn await_handler(waits: u32, signal: Signal) -> bool {
    let until = Instant::now() + STARTING;
    loop {
        // Without `/proc` this is unknown, and the signal is sent.
        match program(waits).map(|pid| handles(pid, signal)) {
            Some(Some(false)) | None if Instant::now() < until => sleep(LOOK_EVERY),
            Some(Some(handles)) => return handles,
            Some(None) => return true,
            None => return false,
        }
    }
}

/// The program: process 1 of its namespace is the child of the process that waits, and the
/// program is the child of that.
fn program(waits: u32) -> Option<u32> {
    let mut children = HashMap::new();
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        if let Some(parent) = parent(pid) {
            // The first child: others are orphans that process 1 has taken over.
            let first = children.entry(parent).or_insert(pid);
            *first = (*first).min(pid);
        }
    }
    children.get(children.get(&waits)?).copied()
}

fn parent(pid: u32) -> Option<u32> {
    field(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "PPid:")?.parse().ok()
}

/// Whether a process catches or ignores a signal; `None` if unknown.
fn handles(pid: u32, signal: Signal) -> Option<bool> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let mask = |name| u64::from_str_radix(field(&text, name)?, 16).ok();
    let bit = 1_u64.checked_shl((signal as u32).checked_sub(1)?)?;
    Some((mask("SigCgt:")? | mask("SigIgn:")?) & bit != 0)
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_program_is_waited_for_until_it_handles_a_signal() {
        // The shell that waits, the shell as process 1, and the program.
        for (program, wanted) in [
            ("sleep 0.3; trap : USR1; sleep 9; :", true),
            ("trap '' USR1; sleep 9; :", true),
            ("sleep 9; :", false),
        ] {
            let first = format!("sh -c \"{program}\"; :");
            let mut waits = Command::new("sh")
                .args(["-c", &format!("sh -c '{}'; :", first.replace('\'', "'\\''"))])
                .spawn()
                .expect("a shell");
            assert_eq!(await_handler(waits.id(), Signal::SIGUSR1), wanted, "{program}");
            let _ = Command::new("pkill").args(["-P", &waits.id().to_string()]).status();
            waits.kill().expect("a shell that runs");
            waits.wait().expect("its end");
        }
        assert!(!await_handler(u32::MAX, Signal::SIGUSR1), "there is no such process");
    }
}
