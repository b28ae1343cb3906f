//! The network of `examples/rsvp.yaml`, and what the tests ask of it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use europa_tests::{Namespace, Node, Process};
use nix::sys::signal::Signal;
use serde_json::Value;

/// Longest wait for a path, or for its end: some lifetimes of 5.25 s.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn example() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/rsvp.yaml");
    std::fs::read_to_string(path).expect("the example")
}

/// A flow beside that of the example.
pub(super) fn flow(name: &str, rest: &str) -> String {
    format!(
        "kind: flow\nname: {name}\nslice: lab\nfrom: head\nto: tail\npath: [north, south]\n{rest}\n"
    )
}

pub(super) struct Net {
    pub(super) node: Node,
    pub(super) ann: Namespace,
    pub(super) bob: Namespace,
}

impl Net {
    /// Makes the network; returns when its flow is up and the neighbours are known.
    pub(super) fn new(yaml: &str) -> Net {
        let node = Node::new(None);
        node.up(yaml);
        let [ann, bob] = ["ann", "bob"].map(|name| node.host(name));
        let net = Net { node, ann, bob };
        net.wait("the flow is up", || net.is_up("voice"));
        for _ in 0..20 {
            if net.ann.ping("10.9.2.2", 1, &[]).expect("a ping").received == 1 {
                break;
            }
        }
        net
    }

    pub(super) fn show(&self, flow: &str) -> Value {
        let output = self.node.run(&["lsp", "show", flow, "--json"]);
        serde_json::from_str(&output).expect("JSON")
    }

    pub(super) fn is_up(&self, flow: &str) -> bool {
        self.show(flow)["state"] == "up"
    }

    pub(super) fn hops(&self, flow: &str) -> Vec<String> {
        let shown = self.show(flow);
        let hops = shown["hops"].as_array().cloned().unwrap_or_default();
        hops.iter().filter_map(|hop| Some(hop["router"].as_str()?.to_owned())).collect()
    }

    pub(super) fn list(&self) -> Value {
        serde_json::from_str(&self.node.run(&["lsp", "list", "--json"])).expect("JSON")
    }

    /// Free bandwidth of an interface, in Mb/s.
    pub(super) fn left(&self, interface: &str) -> u64 {
        let list = self.list();
        let all = list["interfaces"].as_array().cloned().unwrap_or_default();
        let found = all.iter().find(|one| one["name"] == interface);
        found.and_then(|one| one["left"].as_u64()).expect("an interface") / 1_000_000
    }

    /// Routers that have an entry of a path.
    pub(super) fn routers_with_paths(&self) -> BTreeSet<String> {
        let list = self.list();
        let all = list["lsps"].as_array().cloned().unwrap_or_default();
        all.iter().filter_map(|one| Some(one["hop"]["router"].as_str()?.to_owned())).collect()
    }

    pub(super) fn apply(&self, yaml: &str) {
        self.node.run(&["apply", &self.node.file("change.yaml", yaml)]);
    }

    /// Events of a flow: reason and message.
    pub(super) fn events(&self, flow: &str) -> Vec<String> {
        let lines = self.node.run(&["events"]);
        lines.lines().filter(|line| line.contains(flow)).map(str::to_owned).collect()
    }

    pub(super) fn wait(&self, what: &str, done: impl Fn() -> bool) {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if done() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("{what}: not within {PATIENCE:?}\n{}", self.node.run(&["lsp", "list", "--all"]));
    }
}

/// A running `europa capture` that writes a file.
pub(super) struct Watch {
    process: Process,
    file: PathBuf,
}

impl Watch {
    pub(super) fn begin(node: &Node, target: &str) -> Watch {
        let file = node.file(&format!("{}.pcapng", target.replace(['/', '.'], "-")), "");
        let mut process = node.start(&["capture", target, "-w", &file]);
        process.wait_for("end with Ctrl-C", Duration::from_secs(5)).expect("a capture");
        Watch { process, file: file.into() }
    }

    /// Ends the capture, and returns its file.
    pub(super) fn end(self) -> PathBuf {
        self.process.signal(Signal::SIGINT);
        self.process.wait(Duration::from_secs(10)).expect("the capture ends");
        self.file
    }
}
