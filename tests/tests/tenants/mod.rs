//! Two tenants on the same two ports: the victim, whose traffic must not suffer, and the one that
//! the tests change.
//!
//! ```text
//!  victim-a ──┐                                           ┌── victim-b
//!             ├─ bridge (wire-left) ─ left  right ─ (wire-right) bridge ─┤
//!  other-a ───┘                         node              └── other-b
//! ```
#![allow(dead_code, reason = "each test program uses a part of it")]

pub(crate) mod streams;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use europa_tests::{Lab, Namespace, Output, europa};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// A tenant: its hosts, and the Ethernet addresses of its router.
pub(crate) struct Tenant {
    pub(crate) a: Namespace,
    pub(crate) b: Namespace,
    /// Ethernet addresses of the router's interfaces `in` and `out`.
    pub(crate) macs: [String; 2],
    /// Ethernet addresses of hosts a and b.
    pub(crate) hosts: [String; 2],
    /// Addresses of hosts a and b.
    pub(crate) addresses: [String; 2],
}

/// Hosts, wires and ports, without a node.
pub(crate) struct Tenants {
    pub(crate) node: Namespace,
    /// The device behind each port; the port's peer is called `port`.
    pub(crate) wires: [Namespace; 2],
    pub(crate) victim: Tenant,
    pub(crate) other: Tenant,
    pub(crate) instance: String,
    file: tempfile::NamedTempFile,
    _lab: Lab,
}

const SIDES: [&str; 2] = ["left", "right"];
static NODES: AtomicU32 = AtomicU32::new(0);

fn mac(tenant: usize, of: &str) -> String {
    format!("02:e0:00:0{tenant}:00:{of}")
}

impl Tenants {
    pub(crate) fn new() -> Tenants {
        let mut lab = Lab::new().expect("a lab");
        let node = lab.namespace("node").expect("a namespace");
        // Ports have no addresses, and send nothing on their own.
        node.sysctl("net.ipv6.conf.default.disable_ipv6", "1").expect("a parameter");
        let wires = SIDES.map(|side| {
            let wire = lab.namespace(&format!("wire-{side}")).expect("a namespace");
            lab.veth((&node, side), (&wire, "port")).expect("a veth pair");
            wire
        });
        let [victim, other] = [(1, "victim"), (2, "other")].map(|(number, name)| {
            let [a, b] = [(0, "a"), (1, "b")].map(|(side, letter)| {
                let host = lab.namespace(&format!("{name}-{letter}")).expect("a namespace");
                // The hosts send no packets except the test's.
                host.sysctl("net.ipv6.conf.all.disable_ipv6", "1").expect("a parameter");
                lab.veth((&host, "eth0"), (&wires[side], name)).expect("a veth pair");
                host.mac("eth0", &mac(number, ["0a", "0b"][side])).expect("a MAC address");
                let (near, far) = (side + 1, 2 - side);
                host.address("eth0", &format!("10.{number}.{near}.2/24")).expect("an address");
                let gateway = format!("10.{number}.{near}.1");
                host.neighbour(&gateway, &mac(number, ["01", "02"][side]), "eth0")
                    .expect("a neighbour");
                host.route(&format!("10.{number}.{far}.0/24"), &gateway).expect("a route");
                host
            });
            Tenant {
                a,
                b,
                macs: ["01", "02"].map(|of| mac(number, of)),
                hosts: ["0a", "0b"].map(|of| mac(number, of)),
                addresses: [1, 2].map(|side| format!("10.{number}.{side}.2")),
            }
        });
        for (wire, side) in wires.iter().zip(0..2) {
            lab.bridge(wire, "br0", &["port", "victim", "other"]).expect("a bridge");
            for (name, number) in [("victim", 1), ("other", 2)] {
                // Frames to unknown addresses reach no host, as on a switch that has learned its
                // hosts.
                wire.run(&[
                    "bridge", "link", "set", "dev", name, "flood", "off", "learning", "off",
                ])
                .expect("no flooding");
                let host = mac(number, ["0a", "0b"][side]);
                wire.run(&["bridge", "fdb", "replace", &host, "dev", name, "master", "static"])
                    .expect("a known host");
                lab.fence(wire, name, &[&mac(number, ["01", "02"][side])]).expect("a fence");
            }
        }
        let file = tempfile::Builder::new().suffix(".yaml").tempfile().expect("a file");
        fs::write(file.path(), documents(&node)).expect("a file");
        let number = NODES.fetch_add(1, Ordering::Relaxed);
        let instance = format!("t-{}-{number}", std::process::id());
        Tenants { node, wires, victim, other, instance, file, _lab: lab }
    }

    /// Starts `europa` for this node.
    pub(crate) fn start(&self, arguments: &[&str]) -> europa_tests::Process {
        let program = europa();
        let program = program.to_string_lossy();
        let argv = [&[&program[..], "--instance", &self.instance], arguments].concat();
        europa_tests::Process::start(&argv).expect("europa starts")
    }

    /// Runs `europa` for this node, and ignores its result.
    pub(crate) fn attempt(&self, arguments: &[&str]) -> Output {
        self.start(arguments).wait(Duration::from_secs(60)).expect("europa ends")
    }

    /// Runs `europa` for this node, which must succeed.
    pub(crate) fn europa(&self, arguments: &[&str]) -> String {
        let output = self.attempt(arguments);
        assert!(
            output.status.success(),
            "europa {arguments:?}: {}{}",
            output.stdout,
            output.stderr
        );
        output.stdout
    }

    pub(crate) fn up(&self) {
        self.europa(&["up", &self.file.path().to_string_lossy()]);
    }

    /// A file like that of [`Tenants::up`], with an additional route for the other tenant.
    pub(crate) fn changed(&self) -> tempfile::NamedTempFile {
        let file = tempfile::Builder::new().suffix(".yaml").tempfile().expect("a file");
        let more = "  routes:\n    - {to: 10.77.0.0/16, via: 10.2.2.2}\n  neighbours:\n    - \
                    {address: 10.2.1.2";
        let text = documents(&self.node);
        let changed = text.replace("  neighbours:\n    - {address: 10.2.1.2", more);
        assert_ne!(text, changed);
        fs::write(file.path(), changed).expect("a file");
        file
    }

    /// A file like that of [`Tenants::up`] where the other tenant's data plane is a program.
    pub(crate) fn with_program(&self, command: &[&str]) -> tempfile::NamedTempFile {
        let file = tempfile::Builder::new().suffix(".yaml").tempfile().expect("a file");
        let text = documents(&self.node);
        let at = text.rfind("fast_path:").expect("the other tenant's data plane");
        let (before, _) = text.split_at(at);
        let text = format!("{before}fast_path: {{program: {command:?}}}\n");
        fs::write(file.path(), text).expect("a file");
        file
    }

    pub(crate) fn down(&self) {
        self.europa(&["down"]);
    }

    /// The folder of the node's files.
    pub(crate) fn directory(&self) -> PathBuf {
        Path::new("/run/europa").join(&self.instance)
    }

    /// The log of a process of the node.
    pub(crate) fn log(&self, of: &str) -> String {
        fs::read_to_string(self.directory().join(format!("log/{of}.log"))).unwrap_or_default()
    }

    pub(crate) fn stats(&self) -> Value {
        let text = self.europa(&["stats", "--json"]);
        serde_json::from_str(&text).expect("statistics are JSON")
    }

    /// The statistics about a router: `victim` or `other`.
    pub(crate) fn router(&self, slice: &str) -> Value {
        let stats = self.stats();
        let routers = stats["routers"].as_array().expect("routers");
        let name = format!("{slice}/r1");
        routers.iter().find(|router| router["name"] == name.as_str()).expect("the router").clone()
    }

    pub(crate) fn router_pid(&self, slice: &str) -> Option<i32> {
        self.router(slice)["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok())
    }

    /// The node's process.
    pub(crate) fn node_pid(&self) -> Option<i32> {
        let words = [b"--instance".as_slice(), self.instance.as_bytes(), b"node"];
        processes().find(|pid| {
            command_line(*pid)
                .is_some_and(|line| line.split(|byte| *byte == 0).skip(1).take(3).eq(words))
        })
    }

    /// The switch's process, also while no node runs.
    pub(crate) fn switch_pid(&self) -> Option<i32> {
        let entries = fs::read_dir(self.directory().join("kept")).ok()?.flatten();
        let pids = entries.filter_map(|entry| {
            let name = entry.file_name();
            name.to_str()?.strip_prefix("switch.")?.strip_suffix(".json")?.parse().ok()
        });
        pids.filter(|pid| is_alive(*pid)).last()
    }

    /// Waits until the node has another switch than `old`. Returns the time that this took.
    pub(crate) fn await_switch(&self, old: i32) -> Duration {
        let start = Instant::now();
        while self.switch_pid().is_none_or(|pid| pid == old) {
            assert!(start.elapsed() < Duration::from_secs(10), "{}", self.log("node"));
            std::thread::sleep(Duration::from_millis(2));
        }
        start.elapsed()
    }
}

impl Drop for Tenants {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for of in ["node", "switch", "victim.r1", "other.r1"] {
                eprintln!("--- {of}.log\n{}", self.log(of));
            }
            if self.node_pid().is_some() {
                eprintln!("{}", self.attempt(&["stats"]).stdout);
            }
        }
        self.attempt(&["down"]);
    }
}

pub(crate) fn kill_9(pid: i32) {
    kill(Pid::from_raw(pid), Signal::SIGKILL).expect("a process to kill");
}

pub(crate) fn is_alive(pid: i32) -> bool {
    // An ended process before it is reaped has no memory and so no command line.
    command_line(pid).is_some_and(|line| !line.is_empty())
}

fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn command_line(pid: i32) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{pid}/cmdline")).ok()
}

/// Seconds that a test under attack or load lasts.
pub(crate) fn seconds() -> u64 {
    if std::env::var_os("EUROPA_LONG_TESTS").is_some() { 60 } else { 10 }
}

fn documents(node: &Namespace) -> String {
    let mut text = String::new();
    for side in SIDES {
        text +=
            &format!("kind: port\nname: {side}\ndevice: {side}\nnamespace: {}\n---\n", node.name());
    }
    for (number, name) in [(1, "victim"), (2, "other")] {
        let [m1, m2, ma, mb] = ["01", "02", "0a", "0b"].map(|of| mac(number, of));
        text += &format!(
            r#"kind: slice
name: {name}
---
kind: router
name: r1
slice: {name}
interfaces:
  in: {{port: left, mac: "{m1}", addresses: [10.{number}.1.1/24], bind: [10.{number}.0.0/16]}}
  out: {{port: right, mac: "{m2}", addresses: [10.{number}.2.1/24], bind: [10.{number}.0.0/16]}}
fast_path:
  builtin: ipv4
  neighbours:
    - {{address: 10.{number}.1.2, mac: "{ma}", interface: in}}
    - {{address: 10.{number}.2.2, mac: "{mb}", interface: out}}
---
"#
        );
    }
    text.trim_end_matches("---\n").to_owned()
}
