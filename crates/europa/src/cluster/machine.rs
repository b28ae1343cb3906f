//! Machines of `cluster dev`: a network namespace each, joined by a bridge, and processes.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::exit::Failure;

/// Time between the end of a process and its next start.
const AGAIN: Duration = Duration::from_secs(1);

/// Runs a program that must succeed.
pub(super) fn run(words: &[&str]) -> Result<(), Failure> {
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("`{}`: {}", words.join(" "), said.trim()).into())
}

/// The namespace of a machine by number; 0 is that of the bridge.
pub(super) fn namespace(name: &str, number: u8) -> String {
    format!("europa-{name}-{number}")
}

/// The address of a machine.
pub(super) fn address(number: u8) -> String {
    format!("10.213.0.{number}")
}

/// Makes a machine: its namespace, and its device `eth0` on the bridge.
pub(super) fn make(name: &str, number: u8) -> Result<(), Failure> {
    let (own, bridge) = (namespace(name, number), namespace(name, 0));
    run(&["ip", "netns", "add", &own])?;
    run(&["ip", "-n", &own, "link", "set", "lo", "up"])?;
    let outer = format!("eth{number}");
    let pair = ["link", "add", "eth0", "type", "veth", "peer", "name", &outer, "netns", &bridge];
    run(&[&["ip", "-n", &own], &pair[..]].concat())?;
    run(&["ip", "-n", &bridge, "link", "set", &outer, "master", "lan", "up"])?;
    let own_address = format!("{}/24", address(number));
    run(&["ip", "-n", &own, "address", "add", &own_address, "dev", "eth0"])?;
    let ipv6 = format!("fd00:213::{number}/64");
    run(&["ip", "-n", &own, "address", "add", &ipv6, "dev", "eth0", "nodad"])?;
    // Tunnels add up to 98 bytes before frames of up to 1514 bytes, and split longer packets.
    run(&["ip", "-n", &own, "link", "set", "eth0", "mtu", "1700", "up"])
}

/// Makes the bridge that joins machines.
pub(super) fn make_bridge(name: &str) -> Result<(), Failure> {
    let bridge = namespace(name, 0);
    run(&["ip", "netns", "add", &bridge])?;
    run(&["ip", "-n", &bridge, "link", "add", "lan", "type", "bridge", "mcast_snooping", "0"])?;
    run(&["ip", "-n", &bridge, "link", "set", "lan", "mtu", "1700", "up"])
}

/// Namespaces of this cluster; the bridge's comes last.
pub(super) fn namespaces(name: &str) -> Vec<(u8, String)> {
    let entries = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut found: Vec<(u8, String)> = names
        .filter_map(|one| {
            let number = one.strip_prefix(&format!("europa-{name}-"))?.parse().ok()?;
            Some((number, one))
        })
        .collect();
    found.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
    found
}

/// A process that is started again when it ends.
#[derive(Debug)]
pub(super) struct Kept {
    name: String,
    words: Vec<String>,
    log: std::path::PathBuf,
    child: Option<Child>,
    ended: Instant,
}

impl Kept {
    /// Starts a process, which writes to a file. It is killed when this process ends.
    pub(super) fn start(name: &str, words: &[&str], folder: &Path) -> Result<Kept, Failure> {
        let die = ["setpriv", "--pdeathsig", "KILL", "--"];
        let mut kept = Kept {
            name: name.to_owned(),
            words: die.iter().chain(words).map(|&word| word.to_owned()).collect(),
            log: folder.join(format!("{name}.log")),
            child: None,
            ended: Instant::now(),
        };
        kept.spawn()?;
        Ok(kept)
    }

    fn spawn(&mut self) -> Result<(), Failure> {
        let log = File::options().create(true).append(true).open(&self.log)?;
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // Only this process gets Ctrl-C; it ends the others in order.
        command.process_group(0);
        let child = command.spawn().map_err(|error| format!("{}: {error}", self.words[0]))?;
        self.child = Some(child);
        Ok(())
    }

    /// Restarts the process a second after its end. Returns a line about an event.
    pub(super) fn look(&mut self) -> Result<Option<String>, Failure> {
        if let Some(child) = &mut self.child {
            let Ok(Some(status)) = child.try_wait() else { return Ok(None) };
            self.child = None;
            self.ended = Instant::now();
            return Ok(Some(format!("{} ended ({status}) and is started again", self.name)));
        }
        if self.ended.elapsed() >= AGAIN {
            self.spawn()?;
        }
        Ok(None)
    }

    /// Whether the process is a node, which `down` ends.
    pub(super) fn is_node(&self) -> bool {
        self.name.starts_with("node-")
    }

    /// Whether it runs.
    pub(super) fn runs(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// The end of its output.
    pub(super) fn said(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }

    /// Kills it.
    pub(super) fn kill(mut self) {
        if let Some(child) = &mut self.child {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
