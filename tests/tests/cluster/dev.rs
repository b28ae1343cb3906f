//! `europa cluster dev` for tests.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::fs;
use std::time::{Duration, Instant};

use europa_tests::{Output, Process, europa};
use nix::unistd::Pid;
use serde_json::Value;

/// Time limit of every wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// `europa cluster dev`, and files of a test.
pub(crate) struct Cluster {
    pub(crate) name: String,
    pub(crate) dev: Process,
    folder: tempfile::TempDir,
}

impl Cluster {
    pub(crate) fn start() -> Cluster {
        let name = format!("t{}", std::process::id());
        let dev = dev(&name);
        Cluster { name, dev, folder: tempfile::tempdir().expect("a folder") }
    }

    pub(crate) fn etcd(&self) -> String {
        let file = format!("/dev/shm/cluster-{}/etcd.url", self.name);
        fs::read_to_string(file).expect("etcd's URL")
    }

    /// Runs `europa cluster`, and ignores its result.
    pub(crate) fn attempt(&self, arguments: &[&str]) -> Output {
        let program = europa();
        let words = [program.to_str().expect("a path"), "cluster", "--etcd"];
        let etcd = self.etcd();
        let argv = [&words[..], &[etcd.as_str()], arguments].concat();
        Process::start(&argv).expect("europa").wait(Duration::from_secs(90)).expect("it ends")
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        let output = self.attempt(arguments);
        let ok = output.status.success();
        assert!(ok, "{arguments:?}: {}{}{}", output.stdout, output.stderr, self.logs());
        output.stdout
    }

    /// Runs a command that must fail; returns its error.
    pub(crate) fn refused(&self, arguments: &[&str]) -> String {
        let output = self.attempt(arguments);
        assert!(!output.status.success(), "{arguments:?}: {}", output.stdout);
        output.stderr
    }

    pub(crate) fn file(&self, text: &str) -> String {
        let path = self.folder.path().join("lab.yaml");
        fs::write(&path, text).expect("a file");
        path.to_string_lossy().into_owned()
    }

    pub(crate) fn apply(&self, text: &str) -> String {
        self.run(&["apply", &self.file(text)])
    }

    /// Runs `europa` for one node.
    pub(crate) fn node(&self, number: u8, arguments: &[&str]) -> Output {
        let (program, instance) = (europa(), format!("{}-{number}", self.name));
        let words = [program.to_str().expect("a path"), "--instance", &instance];
        let process = Process::start(&[&words[..], arguments].concat()).expect("europa");
        process.wait(Duration::from_secs(60)).expect("it ends")
    }

    /// The revision of a node's own documents.
    pub(crate) fn revision(&self, number: u8) -> u64 {
        let status = self.node(number, &["status", "--json"]);
        let value: Value = serde_json::from_str(&status.stdout).expect("JSON");
        value["node"]["revision"].as_u64().or(value["revision"].as_u64()).expect("a revision")
    }

    /// Pings from a host until an answer comes.
    pub(crate) fn pings(&self, number: u8, host: &str, to: &str) {
        let start = Instant::now();
        loop {
            let ping = self.node(number, &["exec", host, "ping", "-c", "1", "-W", "1", to]);
            if ping.status.success() {
                return;
            }
            let said = ping.stdout + &ping.stderr;
            assert!(start.elapsed() < PATIENCE, "{host} to {to}: {said}{}", self.logs());
        }
    }

    /// Waits until all nodes run the last change.
    pub(crate) fn settles(&self) {
        let start = Instant::now();
        loop {
            let output = self.attempt(&["status", "--json"]);
            let status: Value = serde_json::from_str(&output.stdout).unwrap_or_default();
            let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
            if nodes.len() == 3 && nodes.iter().all(|node| node["state"] == "running") {
                return;
            }
            assert!(
                start.elapsed() < PATIENCE,
                "{}{}{}",
                output.stdout,
                output.stderr,
                self.logs()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The process of etcd or of a node.
    pub(crate) fn process(&self, words: &[&str]) -> Pid {
        let entries = fs::read_dir("/proc").expect("/proc").flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let has = |pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
            line.windows(words.len())
                .any(|part| part.iter().zip(words).all(|(a, b)| *a == b.as_bytes()))
        };
        let mut found: Vec<i32> = pids.filter(has).collect();
        found.sort_unstable();
        Pid::from_raw(*found.first().unwrap_or_else(|| panic!("{words:?} does not run")))
    }

    pub(crate) fn etcd_process(&self) -> Pid {
        self.process(&["--data-dir", &format!("/dev/shm/cluster-{}/data", self.name)])
    }

    pub(crate) fn node_process(&self, number: u8) -> Pid {
        self.process(&["--instance", &format!("{}-{number}", self.name), "node"])
    }

    pub(crate) fn agent_process(&self, number: u8) -> Pid {
        self.process(&["--instance", &format!("{}-{number}", self.name), "cluster"])
    }

    /// Waits until a node has no lease.
    pub(crate) fn is_absent(&self, node: &str) {
        let start = Instant::now();
        while !self.run(&["status"]).lines().any(|l| l.starts_with(node) && l.contains("absent")) {
            assert!(start.elapsed() < PATIENCE, "{node} has a lease: {}", self.logs());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The ends of all logs.
    pub(crate) fn logs(&self) -> String {
        let mut all = String::new();
        for log in ["etcd", "agent-1", "agent-2", "agent-3", "node-1", "node-2", "node-3"] {
            let path = format!("/dev/shm/cluster-{}/{log}.log", self.name);
            let text = fs::read_to_string(path).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            all += &format!("\n--- {log}\n{}", lines[lines.len().saturating_sub(12)..].join("\n"));
        }
        all
    }
}

pub(crate) fn dev(name: &str) -> Process {
    let program = europa();
    let words = [program.to_str().expect("a path"), "cluster", "dev", "3", "--name", name];
    let mut dev = Process::start(&words).expect("europa");
    dev.wait_for("Ctrl-C ends", Duration::from_secs(60)).unwrap_or_else(|error| panic!("{error}"));
    dev
}
