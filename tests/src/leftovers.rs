//! Finds remains of Europa by comparing the machine before and after a test.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::command::{Error, run};

/// All objects on this machine now of the kinds that Europa makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftovers(BTreeSet<String>);

impl Leftovers {
    /// Lists namespaces, devices, XDP programs, pinned BPF objects, cgroups, processes, sockets and
    /// files.
    ///
    /// # Errors
    /// `ip` does not answer.
    pub fn look() -> Result<Leftovers, Error> {
        let mut found = BTreeSet::new();
        for line in run(&["ip", "netns", "list"])?.stdout.lines() {
            // The number behind the name may change between two calls.
            let name = line.split_whitespace().next().unwrap_or(line);
            found.insert(format!("namespace {name}"));
        }
        for line in run(&["ip", "-oneline", "link"])?.stdout.lines() {
            let name = line.split(": ").nth(1).unwrap_or(line);
            found.insert(format!("device {name}"));
            for kind in ["xdp", "xdpgeneric", "xdpoffload"] {
                if line.contains(&format!(" {kind} ")) || line.contains(&format!("prog/{kind} ")) {
                    found.insert(format!("XDP program on {name}"));
                }
            }
        }
        files(Path::new("/sys/fs/bpf"), &|_| true, "BPF pin", &mut found);
        let ours = |path: &Path| path.to_string_lossy().to_lowercase().contains("europa");
        files(Path::new("/sys/fs/cgroup"), &ours, "cgroup", &mut found);
        for folder in ["/run/europa", "/var/lib/europa", "/var/log/europa", "/dev/shm"] {
            files(Path::new(folder), &ours, "file", &mut found);
        }
        processes(&mut found);
        for line in fs::read_to_string("/proc/net/unix").unwrap_or_default().lines() {
            if let Some(path) =
                line.split_whitespace().nth(7).filter(|path| path.contains("europa"))
            {
                found.insert(format!("socket {path}"));
            }
        }
        Ok(Leftovers(found))
    }

    /// Objects that did not exist when `self` was made. Waits up to two seconds for objects that
    /// vanish by themselves, such as a killed process before it is reaped.
    ///
    /// # Errors
    /// `ip` does not answer.
    pub fn new_ones(&self) -> Result<Vec<String>, Error> {
        let limit = Instant::now() + Duration::from_secs(2);
        loop {
            let now = Leftovers::look()?;
            let new: Vec<String> = now.0.difference(&self.0).cloned().collect();
            if new.is_empty() || Instant::now() > limit {
                return Ok(new);
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Adds the files and folders under `folder` for which `ours` is true. The folder may be missing.
fn files(folder: &Path, ours: &dyn Fn(&Path) -> bool, what: &str, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if ours(&path) {
            found.insert(format!("{what} {}", path.display()));
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            files(&path, ours, what, found);
        }
    }
}

/// Adds processes by number and start time, because the kernel uses numbers again.
fn processes(found: &mut BTreeSet<String>) {
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let (Some(open), Some(close)) = (stat.find('('), stat.rfind(')')) else { continue };
        let name = &stat[open + 1..close];
        let rest: Vec<&str> = stat[close + 1..].split_whitespace().collect();
        // Names of test programs also contain the word; these programs are not Europa's.
        if name == "europa" || name.starts_with("europa-") || name.starts_with("europa:") {
            let start = rest.get(19).copied().unwrap_or("?");
            found.insert(format!("process {pid} {name} started at {start}"));
        }
    }
}
