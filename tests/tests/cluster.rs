//! A cluster of three nodes on one machine, with a real etcd: one lab over all of them.

use std::fs;
use std::time::{Duration, Instant};

use europa_tests::{Leftovers, Output, Process, europa, skip_without};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Time for anything that is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// `europa cluster dev`, and files of a test.
struct Cluster {
    name: String,
    dev: Process,
    folder: tempfile::TempDir,
}

impl Cluster {
    fn start() -> Cluster {
        let name = format!("t{}", std::process::id());
        let dev = dev(&name);
        Cluster { name, dev, folder: tempfile::tempdir().expect("a folder") }
    }

    fn etcd(&self) -> String {
        let file = format!("/dev/shm/cluster-{}/etcd.url", self.name);
        fs::read_to_string(file).expect("etcd's URL")
    }

    /// Runs `europa cluster`, and ignores its result.
    fn attempt(&self, arguments: &[&str]) -> Output {
        let program = europa();
        let words = [program.to_str().expect("a path"), "cluster", "--etcd"];
        let etcd = self.etcd();
        let argv = [&words[..], &[etcd.as_str()], arguments].concat();
        Process::start(&argv).expect("europa").wait(Duration::from_secs(90)).expect("it ends")
    }

    fn run(&self, arguments: &[&str]) -> String {
        let output = self.attempt(arguments);
        let ok = output.status.success();
        assert!(ok, "{arguments:?}: {}{}{}", output.stdout, output.stderr, self.logs());
        output.stdout
    }

    /// Runs a command that must fail; returns its error.
    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.attempt(arguments);
        assert!(!output.status.success(), "{arguments:?}: {}", output.stdout);
        output.stderr
    }

    fn file(&self, text: &str) -> String {
        let path = self.folder.path().join("lab.yaml");
        fs::write(&path, text).expect("a file");
        path.to_string_lossy().into_owned()
    }

    fn apply(&self, text: &str) -> String {
        self.run(&["apply", &self.file(text)])
    }

    /// Runs `europa` for one node.
    fn node(&self, number: u8, arguments: &[&str]) -> Output {
        let (program, instance) = (europa(), format!("{}-{number}", self.name));
        let words = [program.to_str().expect("a path"), "--instance", &instance];
        let process = Process::start(&[&words[..], arguments].concat()).expect("europa");
        process.wait(Duration::from_secs(60)).expect("it ends")
    }

    /// The revision of a node's own documents.
    fn revision(&self, number: u8) -> u64 {
        let status = self.node(number, &["status", "--json"]);
        let value: Value = serde_json::from_str(&status.stdout).expect("JSON");
        value["node"]["revision"].as_u64().or(value["revision"].as_u64()).expect("a revision")
    }

    /// Pings from a host until an answer comes.
    fn pings(&self, number: u8, host: &str, to: &str) {
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
    fn settles(&self) {
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
    fn process(&self, words: &[&str]) -> Pid {
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

    fn etcd_process(&self) -> Pid {
        self.process(&["--data-dir", &format!("/dev/shm/cluster-{}/data", self.name)])
    }

    fn node_process(&self, number: u8) -> Pid {
        self.process(&["--instance", &format!("{}-{number}", self.name), "node"])
    }

    fn agent_process(&self, number: u8) -> Pid {
        self.process(&["--instance", &format!("{}-{number}", self.name), "cluster"])
    }

    /// Waits until a node has no lease.
    fn is_absent(&self, node: &str) {
        let start = Instant::now();
        while !self.run(&["status"]).lines().any(|l| l.starts_with(node) && l.contains("absent")) {
            assert!(start.elapsed() < PATIENCE, "{node} has a lease: {}", self.logs());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The ends of all logs.
    fn logs(&self) -> String {
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

fn dev(name: &str) -> Process {
    let program = europa();
    let words = [program.to_str().expect("a path"), "cluster", "dev", "3", "--name", name];
    let mut dev = Process::start(&words).expect("europa");
    dev.wait_for("Ctrl-C ends", Duration::from_secs(60)).unwrap_or_else(|error| panic!("{error}"));
    dev
}

/// h1 — r1 on n1, r2 on n2, r3 — h3 on n3: a chain of routers over three nodes, with both families.
fn lab(more: &str) -> String {
    let mut text = "kind: slice\nname: lab\nlinks: {ipv6: \"fd09::/64\"}\n".to_owned();
    for (number, interfaces, routes) in [
        (
            1,
            "h: {link: h, addresses: [10.1.0.1/24, \"fd01::1/64\"]}, e: {link: a}",
            "{to: 0.0.0.0/0, interface: e}, {to: \"::/0\", interface: e}",
        ),
        (
            2,
            "w: {link: a}, e: {link: b}",
            "{to: 10.1.0.0/24, interface: w}, {to: 10.3.0.0/24, interface: e}, \
             {to: \"fd01::/64\", interface: w}, {to: \"fd03::/64\", interface: e}",
        ),
        (
            3,
            "h: {link: i, addresses: [10.3.0.1/24, \"fd03::1/64\"]}, w: {link: b}",
            "{to: 0.0.0.0/0, interface: w}, {to: \"::/0\", interface: w}",
        ),
    ] {
        text += &format!(
            "---\nkind: router\nname: r{number}\nslice: lab\nnode: n{number}\n\
             interfaces: {{{interfaces}}}\nfast_path: {{builtin: ipv4, routes: [{routes}]}}\n"
        );
    }
    for (number, link, extra) in [(1, "h", ""), (3, "i", more)] {
        text += &format!(
            "---\nkind: host\nname: h{number}\nnode: n{number}\n\
             gateway: [10.{number}.0.1, \"fd0{number}::1\"]\n{extra}interfaces: {{eth0: {{link: {link}, \
             addresses: [10.{number}.0.2/24, \"fd0{number}::2/64\"]}}}}\n"
        );
    }
    text
}

#[test]
fn one_lab_over_three_nodes() {
    skip_without!("etcd", "ping", "nsenter", "setpriv");
    let before = Leftovers::look().expect("a look");
    let mut cluster = Cluster::start();
    let applied = cluster.apply(&lab(""));
    assert!(applied.contains("+ router lab/r2 on n2 (node)"), "{applied}");
    let crosses = |cluster: &Cluster| {
        cluster.pings(1, "h1", "10.3.0.2");
        cluster.pings(1, "h1", "fd03::2");
        cluster.pings(3, "h3", "10.1.0.2");
    };
    crosses(&cluster);
    let got = cluster.run(&["get", "routers"]);
    assert_eq!(got.matches("lab/r").count(), 3, "{got}");

    // A changed document reaches its node only.
    let revisions = [1, 2, 3].map(|number| cluster.revision(number));
    cluster.apply(&lab("sysctls: {net.ipv4.ip_default_ttl: 77}\n"));
    let now = [1, 2, 3].map(|number| cluster.revision(number));
    assert_eq!(revisions[..2], now[..2]);
    assert!(now[2] > revisions[2], "{now:?}");

    // One node refuses, and nothing changes anywhere.
    let wrong = lab("").replace("name: r2\nslice: lab\n", "name: r2\nslice: lab\ncpu: [999]\n");
    let error = cluster.refused(&["apply", &cluster.file(&wrong)]);
    assert!(error.contains("node n2 refuses") && error.contains("no CPU 999"), "{error}");
    assert_eq!([1, 2, 3].map(|number| cluster.revision(number)), now);

    // A node is killed and comes back.
    kill(cluster.node_process(2), Signal::SIGKILL).expect("a node");
    crosses(&cluster);
    cluster.settles();
    crosses(&cluster);

    // etcd stands still: routers go on, also on a node that is restarted; changes are refused.
    let etcd = cluster.etcd_process();
    kill(etcd, Signal::SIGSTOP).expect("etcd");
    let start = Instant::now();
    let error = cluster.refused(&["apply", &cluster.file(&lab(""))]);
    assert!(error.contains("has not answered within"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    crosses(&cluster);
    kill(cluster.node_process(3), Signal::SIGKILL).expect("a node");
    std::thread::sleep(Duration::from_millis(1500));
    crosses(&cluster);
    kill(etcd, Signal::SIGCONT).expect("etcd");
    cluster.settles();
    cluster.apply(&lab(""));

    // An agent stands still: it is silent, then without a lease, and carries out later what it missed.
    let agent = cluster.agent_process(3);
    kill(agent, Signal::SIGSTOP).expect("an agent");
    let changed = cluster.file(&lab("sysctls: {net.ipv4.ip_default_ttl: 76}\n"));
    let error = cluster.refused(&["apply", &changed]);
    assert!(error.contains("node n3 is"), "{error}");
    cluster.is_absent("n3");
    let error = cluster.refused(&["apply", &changed]);
    assert!(error.contains("node n3 is concerned and has no lease"), "{error}");
    let accepted = cluster.attempt(&["apply", "--allow-absent", &changed]);
    assert!(accepted.status.success(), "{}", accepted.stderr);
    assert!(accepted.stderr.contains("node n3 does not run its part yet"), "{}", accepted.stderr);
    crosses(&cluster);
    kill(agent, Signal::SIGCONT).expect("an agent");
    cluster.settles();
    let ttl = cluster.node(3, &["exec", "h3", "cat", "/proc/sys/net/ipv4/ip_default_ttl"]);
    assert_eq!(ttl.stdout.trim(), "76", "{}", ttl.stderr);

    // etcd is killed and comes back with its data.
    kill(cluster.etcd_process(), Signal::SIGKILL).expect("etcd");
    crosses(&cluster);
    cluster.settles();
    let applied = cluster.apply(&lab("sysctls: {net.ipv4.ip_default_ttl: 78}\n"));
    assert!(applied.contains("~ host h3"), "{applied}");
    crosses(&cluster);

    // All of it is killed, and the next one begins with nothing.
    cluster.dev.signal(Signal::SIGKILL);
    while cluster.dev.is_running() {
        std::thread::sleep(Duration::from_millis(5));
    }
    cluster.dev = dev(&cluster.name);
    assert!(!cluster.run(&["get"]).contains("router"));
    let pid = i32::try_from(cluster.dev.id()).expect("a number");
    kill(Pid::from_raw(pid), Signal::SIGINT).expect("it runs");
    let Cluster { dev, .. } = cluster;
    let end = dev.wait(PATIENCE).expect("it ends");
    assert!(end.status.success(), "{}{}", end.stdout, end.stderr);
    assert_eq!(before.new_ones().expect("a look"), [""; 0]);
}
