//! A node for a test, which calls `europa` as a user does.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::command::{Output, Process};
use crate::namespace::Namespace;
use crate::skip::{europa, patience};

/// No turn of the node's loop takes more CPU time than this, in microseconds. The node counts turns
/// over its goal of 5 ms. This bound is higher, because tests run hardly optimised programs on slow
/// machines.
const LONGEST_TURN_US: u64 = 150_000;

static NODES: AtomicU32 = AtomicU32::new(0);

/// A node, which is taken down when dropped. A failure ends the test: all its methods panic.
#[derive(Debug)]
pub struct Node {
    instance: String,
    inside: Option<PathBuf>,
    folder: tempfile::TempDir,
    /// Longest allowed CPU time of a turn of the loop, in microseconds.
    longest_turn_us: u64,
    /// Whether the test checks the node's equations of counters at the end.
    ledgers_checked: AtomicBool,
    /// Arguments of `env`: variables as `NAME=value`, after ignored signals.
    environment: Vec<String>,
}

/// A node's counters of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets put into the router's ring.
    pub rx: u64,
    /// Packets that left.
    pub tx: u64,
    /// Packets lost, by cause.
    pub drops: BTreeMap<String, u64>,
}

impl Node {
    /// A node that runs inside a network namespace, or in the test's own namespace.
    #[allow(clippy::missing_panics_doc, reason = "stands at the type")]
    pub fn new(inside: Option<&Namespace>) -> Node {
        let number = NODES.fetch_add(1, Ordering::Relaxed);
        Node {
            instance: format!("e{}-{number}", std::process::id()),
            inside: inside.map(Namespace::path),
            folder: tempfile::tempdir().expect("a folder"),
            longest_turn_us: LONGEST_TURN_US * u64::from(patience()),
            ledgers_checked: AtomicBool::new(true),
            environment: Vec::new(),
        }
    }

    /// Leaves out the check at the end that every lost packet has a cause, for the printed reason
    /// `why`: its equations cannot hold in this test.
    pub fn leave_ledgers_out(&self, why: &str) {
        eprintln!("{}: the counters are not checked at the end: {why}", self.instance);
        self.ledgers_checked.store(false, Ordering::Relaxed);
    }

    /// The same node with another bound for the CPU time of a turn of its loop, for tests with
    /// longer turns.
    #[must_use]
    pub fn with_turns_of(mut self, longest: Duration) -> Node {
        self.longest_turn_us = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
        self
    }

    /// The same node with a variable in its environment.
    #[must_use]
    pub fn with_variable(mut self, name: &str, value: &str) -> Node {
        self.environment.push(format!("{name}={value}"));
        self
    }

    /// The same node, whose processes ignore a signal from their start.
    #[must_use]
    pub fn ignoring_signals(mut self, signal: &str) -> Node {
        self.environment.insert(0, format!("--ignore-signal={signal}"));
        self
    }

    /// Runs `europa` for this node, and ignores its result.
    #[allow(clippy::missing_panics_doc, reason = "stands at the type")]
    pub fn attempt(&self, arguments: &[&str]) -> Output {
        self.start(arguments).wait(Duration::from_secs(90) * patience()).expect("europa ends")
    }

    /// Starts `europa` for this node.
    #[allow(clippy::missing_panics_doc, reason = "stands at the type")]
    pub fn start(&self, arguments: &[&str]) -> Process {
        let program = europa();
        let program = program.to_string_lossy();
        let mut argv = Vec::new();
        let net = self.inside.as_ref().map(|path| format!("--net={}", path.display()));
        if let Some(net) = &net {
            // The command enters only this namespace: `ip netns exec` would hide mounts that the
            // node makes.
            argv.extend(["nsenter", net.as_str()]);
        }
        if !self.environment.is_empty() {
            argv.push("env");
            argv.extend(self.environment.iter().map(String::as_str));
        }
        argv.extend([&program[..], "--instance", &self.instance]);
        argv.extend(arguments);
        Process::start(&argv).expect("europa starts")
    }

    /// Runs `europa` for this node, which must succeed, and returns what it printed.
    #[allow(clippy::missing_panics_doc, reason = "stands at the type")]
    pub fn run(&self, arguments: &[&str]) -> String {
        let output = self.attempt(arguments);
        let ok = output.status.success();
        assert!(ok, "europa {arguments:?}: {}{}", output.stdout, output.stderr);
        output.stdout
    }

    /// Writes a file into the folder of this node's configuration and returns its path.
    #[allow(clippy::missing_panics_doc, reason = "stands at the type")]
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, text).expect("a file");
        path.to_string_lossy().into_owned()
    }

    /// Brings up a configuration.
    pub fn up(&self, yaml: &str) {
        self.run(&["up", &self.file("node.yaml", yaml)]);
    }

    /// The whole output of `europa stats --json`.
    #[allow(clippy::missing_panics_doc, reason = "stands at the type")]
    pub fn stats(&self) -> Value {
        serde_json::from_str(&self.run(&["stats", "--json"])).expect("statistics are JSON")
    }

    /// The counters of every interface, by `slice/router.interface`.
    pub fn counters(&self) -> BTreeMap<String, Counters> {
        let stats = self.stats();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let mut all = BTreeMap::new();
        for router in list(&stats["routers"]) {
            for interface in list(&router["interfaces"]) {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let number = |value: &Value| value.as_u64().unwrap_or_default();
                let drops = list(&interface["drops"]);
                let drops = drops.iter().map(|drop| (text(&drop[0]), number(&drop[1]))).collect();
                let name = format!("{}.{}", text(&router["name"]), text(&interface["name"]));
                let (rx, tx) = (number(&interface["rx_packets"]), number(&interface["tx_packets"]));
                all.insert(name, Counters { rx, tx, drops });
            }
        }
        all
    }

    /// A number in the statistics of a port, like `to_linux`.
    #[allow(clippy::missing_panics_doc, reason = "stands at the type")]
    pub fn port(&self, name: &str, what: &str) -> u64 {
        let stats = self.stats();
        let ports = stats["ports"].as_array().cloned().unwrap_or_default();
        let port = ports.iter().find(|port| port["name"] == name).expect("the port");
        port[what].as_u64().expect("a number")
    }

    /// The namespace of a host that the node has made.
    pub fn host(&self, name: &str) -> Namespace {
        Namespace::new(format!("europa.{}.{name}", self.instance))
    }

    /// The name of the node's instance.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// The folder of the node's files while it runs.
    pub fn directory(&self) -> PathBuf {
        Path::new("/run/europa").join(&self.instance)
    }

    /// The process id of a role: `node`, `switch`, or `router`, if there is one.
    pub fn process(&self, role: &str) -> i32 {
        let is = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|word| word == role.as_bytes())
        };
        let found = self.processes().into_iter().find(is);
        found.unwrap_or_else(|| panic!("the {role} does not run")).cast_signed()
    }

    /// Kills the process of a role by SIGKILL, and returns its process id.
    pub fn kill(&self, role: &str) -> i32 {
        let pid = self.process(role);
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap_or_else(|error| panic!("{role}: {error}"));
        pid
    }

    /// Processes of this node: the node itself, then its children, also children that it has
    /// adopted or left running.
    pub fn processes(&self) -> Vec<u32> {
        let words = [b"--instance".as_slice(), self.instance.as_bytes(), b"node"];
        let line = |pid: u32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let is_node = |pid: &u32| line(*pid).split(|byte| *byte == 0).skip(1).take(3).eq(words);
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let all: Vec<u32> =
            entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        let mut found: Vec<u32> = all.iter().copied().filter(is_node).collect();
        let records = fs::read_dir(self.directory().join("kept")).into_iter().flatten().flatten();
        let of_record = |entry: fs::DirEntry| -> Option<u32> {
            entry.file_name().to_str()?.strip_suffix(".json")?.rsplit('.').next()?.parse().ok()
        };
        found.extend(records.filter_map(of_record).filter(|pid| !line(*pid).is_empty()));
        // A child mostly has a higher number than its parent, but numbers wrap: repeat until none
        // is new.
        loop {
            let new = |pid: &&u32| {
                !found.contains(pid) && parent(**pid).is_some_and(|parent| found.contains(&parent))
            };
            let more: Vec<u32> = all.iter().filter(new).copied().collect();
            if more.is_empty() {
                return found;
            }
            found.extend(more);
        }
    }

    /// Turns of the node's loop that took more than 5 ms of CPU time, and the longest in
    /// microseconds; `None` if no node answers.
    pub fn turns(&self) -> Option<(u64, u64)> {
        let output = self.attempt(&["status", "--json"]);
        let status: Value = serde_json::from_str(&output.stdout).ok()?;
        Some((status["node"]["long_turns"].as_u64()?, status["node"]["longest_turn_us"].as_u64()?))
    }

    /// The lines of the node's log about long turns.
    fn lines_of_long_turns(&self) -> Vec<String> {
        let log = fs::read_to_string(self.directory().join("log/node.log")).unwrap_or_default();
        let lines = log.lines().filter(|line| line.contains("a turn of the loop took"));
        lines.map(str::to_owned).collect()
    }

    /// Equations of counters that do not hold although the node is at rest: packets were lost
    /// without a cause. Empty if no node answers.
    fn unbalanced(&self) -> Vec<String> {
        if !self.ledgers_checked.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let output = self.attempt(&["doctor", "--live", "--json"]);
        let Ok(Value::Array(checked)) = serde_json::from_str(&output.stdout) else {
            return vec![format!("europa doctor --live: {}{}", output.stdout, output.stderr)];
        };
        let wrong = |one: &&Value| one["holds"] == false;
        checked.iter().filter(wrong).map(|one| one["equation"].to_string()).collect()
    }

    fn tell(&self) {
        let mut stderr = std::io::stderr();
        let logs = fs::read_dir(self.directory().join("log")).into_iter().flatten().flatten();
        for log in logs {
            let text = fs::read_to_string(log.path()).unwrap_or_default();
            let _ = writeln!(stderr, "--- {}\n{text}", log.path().display());
        }
        if !self.processes().is_empty() {
            let _ = writeln!(stderr, "{}", self.attempt(&["stats", "--json"]).stdout);
        }
    }
}

fn parent(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.tell();
        }
        let turns = self.turns();
        let of_log = self.lines_of_long_turns();
        let unbalanced = match turns.is_some() && !std::thread::panicking() {
            true => self.unbalanced(),
            false => Vec::new(),
        };
        self.attempt(&["down"]);
        if !unbalanced.is_empty() {
            panic!("packets were lost without a cause:\n{}", unbalanced.join("\n"));
        }
        if let Some((long, longest)) = turns
            && std::env::var_os("EUROPA_TURNS").is_some()
        {
            eprintln!("{}: {long} long turns, {longest} us", self.instance);
        }
        if let Some((long, longest)) = turns.filter(|(_, longest)| *longest > self.longest_turn_us)
            && !std::thread::panicking()
        {
            panic!(
                "the longest turn of the node's loop took {longest} us of CPU time, and {long} took \
                 more than 5 ms: nobody was served meanwhile\n{}",
                of_log.join("\n")
            );
        }
    }
}
