//! All descendants of a process, including those whose parents have ended.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Makes the calling process the parent of its descendants whose parents end.
///
/// # Errors
/// The kernel's error.
pub fn keep_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(true)?)
}

/// Ends all descendants of the calling process, and reaps them. The calling process must have
/// called [`keep_orphans`] before it started any. The descendants get SIGHUP, and SIGKILL after
/// `grace`. Returns whether all have ended within `patience`.
pub fn end_descendants(grace: Duration, patience: Duration) -> bool {
    let start = Instant::now();
    let mut warned = false;
    loop {
        if !reap() {
            return true;
        }
        let late = start.elapsed() >= grace;
        if late || !warned {
            let signal = if late { Signal::SIGKILL } else { Signal::SIGHUP };
            for number in descendants() {
                // It may have ended already.
                let _ = kill(Pid::from_raw(number), signal);
            }
            warned = true;
        }
        if start.elapsed() >= patience {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Reaps children that have ended. Returns whether other children exist.
fn reap() -> bool {
    loop {
        match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => return true,
            Err(Errno::ECHILD) => return false,
            _ => {}
        }
    }
}

/// The numbers of all descendants, in the pid namespace of the calling process. `/proc` may belong
/// to a pid namespace above that one.
fn descendants() -> Vec<i32> {
    let own = fs::read_link("/proc/self").ok();
    let Some(own) = own.and_then(|own| own.to_str()?.parse().ok()) else { return Vec::new() };
    let Some(depth) = numbers(own).map(|all| all.len()) else { return Vec::new() };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let parents: HashMap<u32, u32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| {
            Some((pid, parent(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?))
        })
        .collect();
    let below = below(own, &parents);
    below.into_iter().filter_map(|pid| numbers(pid)?.get(depth - 1).copied()).collect()
}

/// A process's parent, from the text of its `/proc/PID/stat` (proc(5)).
fn parent(stat: &str) -> Option<u32> {
    // The name is in parentheses and may contain any character.
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// A process's numbers, that of the outermost namespace first.
fn numbers(pid: u32) -> Option<Vec<i32>> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    Some(line.split_whitespace().filter_map(|word| word.parse().ok()).collect())
}

/// All processes below `top`, from the parent of each.
fn below(top: u32, parents: &HashMap<u32, u32>) -> Vec<u32> {
    let mut found = vec![top];
    let mut next = 0;
    while let Some(above) = found.get(next).copied() {
        found.extend(parents.iter().filter(|(_, parent)| **parent == above).map(|(pid, _)| *pid));
        next += 1;
        if next > parents.len() {
            break;
        }
    }
    found.split_off(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_tree_is_found() {
        let parents = [(2, 1), (3, 2), (4, 3), (5, 1), (9, 8)].into_iter().collect();
        let mut found = below(2, &parents);
        found.sort_unstable();
        assert_eq!(found, [3, 4]);
        assert!(below(7, &parents).is_empty());
        assert_eq!(parent("12 (a ) b) S 7 12 12 0"), Some(7));
        assert_eq!(parent("nonsense"), None);
    }
}
