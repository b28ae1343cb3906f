//! A node is killed between an effect and its record: the next node leaves nothing behind, and all
//! works.
//!
//! The node writes each record into a file `NAME.new`, which it renames. A pipe of this name holds
//! the node there: the effect has happened, and the record is not there.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{Lab, Leftovers, Namespace, Node, Process, skip_without};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

/// Time limit of each wait.
const PATIENCE: Duration = Duration::from_secs(20);

/// Two devices with a bridge between them.
const PORTS: &str = "kind: port\nname: p0\ndevice: d0\n---\nkind: port\nname: p1\ndevice: d1\n---\n\
    kind: slice\nname: red\n---\nkind: router\nname: lan\nslice: red\n\
    interfaces:\n  i0: {port: p0, match: {all: true}}\n  i1: {port: p1, match: {all: true}}\n\
    fast_path: {builtin: bridge}\n";

/// Two hosts with a bridge between them.
const HOSTS: &str = "kind: host\nname: a\ninterfaces: {eth0: {link: a, addresses: [10.0.0.1/24]}}\n\
    ---\nkind: host\nname: b\ninterfaces: {eth0: {link: b, addresses: [10.0.0.2/24]}}\n---\n\
    kind: slice\nname: red\n---\nkind: router\nname: lan\nslice: red\n\
    interfaces: {a: {link: a}, b: {link: b}}\nfast_path: {builtin: bridge}\n";

fn wait(what: &str, mut is_true: impl FnMut() -> bool) {
    let limit = Instant::now() + PATIENCE;
    while !is_true() {
        assert!(Instant::now() < limit, "{what}");
        sleep(Duration::from_millis(1));
    }
}

/// A pipe in the place of a record's next version.
struct Gate {
    record: PathBuf,
    pipe: PathBuf,
}

impl Gate {
    fn new(record: PathBuf) -> Gate {
        let pipe = PathBuf::from(format!("{}.new", record.display()));
        mkfifo(&pipe, Mode::S_IRUSR | Mode::S_IWUSR).expect("a pipe");
        Gate { record, pipe }
    }

    /// Lets one version of the record pass, and holds the next one.
    fn pass(self) -> Gate {
        let text = fs::read_to_string(&self.pipe).expect("a record");
        // The node renames the pipe.
        wait("the record is not renamed", || !self.pipe.exists());
        let next = Gate::new(self.record.clone());
        let written = self.record.with_extension("written");
        fs::write(&written, text).expect("a file");
        fs::rename(written, &self.record).expect("the record");
        next
    }

    fn remove(self) {
        fs::remove_file(self.pipe).expect("the pipe is still there");
    }
}

/// A node in a namespace with two devices, whose other ends are hosts.
struct Machine {
    node: Node,
    inside: Namespace,
    hosts: [Namespace; 2],
    process: Process,
    _lab: Lab,
}

impl Machine {
    fn new() -> Machine {
        let mut lab = Lab::new().expect("a lab");
        let inside = lab.namespace("node").expect("a namespace");
        inside.sysctl("net.ipv6.conf.default.disable_ipv6", "1").expect("a parameter");
        let hosts = [0, 1].map(|number| {
            let host = lab.namespace(&format!("h{number}")).expect("a namespace");
            lab.veth((&inside, &format!("d{number}")), (&host, "eth0")).expect("a veth pair");
            host.address("eth0", &format!("10.0.0.{}/24", number + 1)).expect("an address");
            host
        });
        let node = Node::new(Some(&inside));
        let process = start(&node);
        Machine { node, inside, hosts, process, _lab: lab }
    }

    /// The settings of a device that a port changes.
    fn device(&self) -> String {
        let features = self.inside.run(&["ethtool", "-k", "d0"]).expect("features").stdout;
        let link = self.inside.run(&["ip", "-oneline", "link", "show", "d0"]).expect("a link");
        format!("{features}{}", link.stdout)
    }

    /// Applies documents, kills the node when `has_happened`, and starts it again.
    fn kill_between(
        &mut self,
        documents: &str,
        gate: impl FnOnce(&Path) -> Gate,
        versions: usize,
        has_happened: impl Fn(&Machine) -> bool,
    ) {
        let path = self.node.file("node.yaml", documents);
        let mut gate = gate(&self.node.directory());
        let apply = self.node.start(&["apply", &path]);
        for _ in 1..versions {
            gate = gate.pass();
        }
        wait("the effect does not happen", || has_happened(self));
        self.node.kill("node");
        let output = apply.wait(PATIENCE).expect("apply ends");
        assert!(!output.status.success(), "the node was killed before it had an answer");
        wait("the node does not end", || !self.process.is_running());
        gate.remove();
        self.process = start(&self.node);
    }
}

/// Starts a node, and waits until it answers.
fn start(node: &Node) -> Process {
    let limit = Instant::now() + PATIENCE;
    let mut process = node.start(&["node", "--temporary"]);
    while !node.attempt(&["status"]).status.success() {
        assert!(Instant::now() < limit, "the node does not start: {}", process.stderr());
        // The kernel has not removed the killed process yet.
        if !process.is_running() {
            process = node.start(&["node", "--temporary"]);
        }
        sleep(Duration::from_millis(5));
    }
    process
}

/// A port's receive program is attached before the port is written down.
#[test]
fn a_port_without_its_record_is_put_back() {
    skip_without!("ping", "ethtool");
    let before = Leftovers::look().expect("a look");
    let mut machine = Machine::new();
    let device = machine.device();
    let pin = machine.node.directory().join("bpf/port_1");
    // The first version has the former state of the device.
    machine.kill_between(PORTS, |folder| Gate::new(folder.join("undo.json")), 2, |_| pin.exists());
    wait("the program is still attached", || !pin.exists());
    wait("the device is not as it was", || machine.device() == device);
    machine.node.run(&["apply", &machine.node.file("node.yaml", PORTS)]);
    let ping = machine.hosts[0].ping("10.0.0.2", 3, &[]).expect("a ping");
    assert!(ping.received > 0, "nothing is forwarded");
    machine.node.run(&["down"]);
    assert_eq!(machine.device(), device, "after the end");
    drop(machine);
    let new = before.new_ones().expect("a look");
    assert!(new.is_empty(), "left behind: {new:?}");
}

/// Hosts are made before they are written down.
#[test]
fn hosts_without_their_record_are_removed() {
    skip_without!("ping");
    let before = Leftovers::look().expect("a look");
    let mut machine = Machine::new();
    let name = format!("europa.{}.b", machine.node.instance());
    let is_there = || Path::new("/run/netns").join(&name).exists();
    let gate = |folder: &Path| Gate::new(folder.join("kept/hosts.json"));
    machine.kill_between(HOSTS, gate, 1, |machine| {
        let host = machine.node.host("b");
        let addresses = host.run(&["ip", "-oneline", "address", "show", "eth0"]);
        addresses.is_ok_and(|output| output.stdout.contains("10.0.0.2/24"))
    });
    wait("the host is still there", || !is_there());
    machine.node.run(&["apply", &machine.node.file("node.yaml", HOSTS)]);
    let ping = machine.node.host("a").ping("10.0.0.2", 3, &[]).expect("a ping");
    assert!(ping.received > 0, "nothing is forwarded");
    drop(machine);
    let new = before.new_ones().expect("a look");
    assert!(new.is_empty(), "left behind: {new:?}");
}
