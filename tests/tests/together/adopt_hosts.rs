//! A node is killed and started again: hosts, lines, slow paths and their programs run on too.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{Namespace, Node, Received, Sink, Stream, run, skip_without};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Two hosts, and two routers with slow paths and a slow line between them. A line to a host also
/// has effects on packets.
///
/// ```text
///  a 10.0.1.2 ══ west ══wan══ east ── b 10.0.2.2
/// ```
const TOPOLOGY: &str = r#"kind: slice
name: lab
---
kind: link
name: wan
delay: 20ms
jitter: 1ms
---
kind: link
name: a
delay: 5ms
---
kind: router
name: west
slice: lab
interfaces:
  a: {link: a, addresses: [10.0.1.1/24]}
  wan: {link: wan, addresses: [10.9.0.1/24]}
fast_path: {builtin: ipv4, routes: [{to: 10.0.2.0/24, via: 10.9.0.2}]}
slow_path:
  run:
    - {name: sleeper, command: [/bin/sleep, "1000"]}
    - {name: once, command: [/bin/true], restart: never}
---
kind: router
name: east
slice: lab
interfaces:
  b: {link: b, addresses: [10.0.2.1/24]}
  wan: {link: wan, addresses: [10.9.0.2/24]}
fast_path: {builtin: ipv4, routes: [{to: 10.0.1.0/24, via: 10.9.0.1}]}
slow_path: {run: []}
---
kind: host
name: a
gateway: 10.0.1.1
interfaces: {eth0: {link: a, addresses: [10.0.1.2/24]}}
---
kind: host
name: b
gateway: 10.0.2.1
interfaces: {eth0: {link: b, addresses: [10.0.2.2/24]}}
run: ["exec sleep 1000"]
"#;

fn await_true(what: &str, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < Duration::from_secs(10), "{what}");
        sleep(Duration::from_millis(50));
    }
}

/// Kills the node; its children run on.
fn kill_node(node: &Node) {
    let pid = node.processes()[0];
    kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL).expect("a kill");
    await_true("the node does not end", || {
        fs::read(format!("/proc/{pid}/cmdline")).map_or(true, |line| line.is_empty())
    });
}

/// The routers' processes, by name.
fn routers(node: &Node) -> Vec<(String, Option<u64>)> {
    let stats = node.stats();
    let all = stats["routers"].as_array().cloned().unwrap_or_default();
    all.iter().map(|one| (one["name"].to_string(), one["pid"].as_u64())).collect()
}

/// The record of a program.
fn program(node: &Node, name: &str) -> Option<Value> {
    let path = node.directory().join(format!("kept/daemon-lab.west.{name}.json"));
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}

/// Processes in a namespace.
fn inside(namespace: &Namespace) -> String {
    run(&["ip", "netns", "pids", namespace.name()]).expect("a list").stdout
}

struct Load {
    there: (Stream, Sink),
    back: (Stream, Sink),
}

impl Load {
    fn begin(a: &Namespace, b: &Namespace) -> Load {
        let one = |from: &Namespace, to: &Namespace, at: &str, number| {
            let sink = to.sink(at, number).expect("a sink");
            (from.stream(at, number, 2_000, 200).expect("a stream").paced_by(&sink), sink)
        };
        let there = one(a, b, "10.0.2.2:7000", 1);
        Load { there, back: one(b, a, "10.0.1.2:7000", 2) }
    }

    fn end(self) -> [(u64, Received); 2] {
        [self.there, self.back].map(|(stream, sink)| {
            let sent = stream.stop();
            sleep(Duration::from_millis(200));
            (sent, sink.stop(sent))
        })
    }
}

#[test]
fn hosts_lines_and_slow_paths_go_on() {
    skip_without!("ping");
    let node = Node::new(None);
    let file = node.file("node.yaml", TOPOLOGY);
    node.run(&["up", &file]);
    let [a, b] = ["a", "b"].map(|name| node.host(name));
    let ping = || a.ping("10.0.2.2", 5, &["-i", "0.05"]).expect("a ping");
    await_true("no way from a to b", || ping().is_perfect());
    await_true("the program that runs once", || {
        program(&node, "once").is_some_and(|record| record["record"]["done"] == true)
    });
    let sleeper = program(&node, "sleeper").expect("it runs")["process"].clone();
    let before = (routers(&node), inside(&b));
    assert!(!before.1.is_empty(), "a host's command runs");
    let load = Load::begin(&a, &b);
    for round in 0..3 {
        sleep(Duration::from_millis(200));
        kill_node(&node);
        sleep(Duration::from_millis(150 * round));
        let said = node.run(&["up", &file]);
        assert!(said.contains("0 added, 0 changed, 0 removed"), "{said}");
        assert_eq!((routers(&node), inside(&b)), before, "round {round}");
        assert_eq!(program(&node, "sleeper").expect("it runs")["process"], sleeper);
    }
    for (sent, received) in load.end() {
        eprintln!("hosts, lines, slow paths: {} of {sent} lost, {received:?}", received.lost);
        assert!(received.is_perfect(), "{received:?} of {sent}");
    }
    assert_eq!(program(&node, "once").expect("a record")["record"]["done"], true);
    assert!(ping().is_perfect());

    // Linux removes entries while no node runs; the fast path removes them when a node runs again.
    let linux = |arguments: &[&str]| {
        node.run(&[&["exec", "lab/west", "ip", "route"], arguments].concat());
    };
    let answer = |to: &str| node.run(&["read", "lab/west", "route.lookup", to]);
    let host = answer("10.77.0.1");
    linux(&["add", "10.77.0.0/16", "via", "10.9.0.2"]);
    await_true("a new route", || answer("10.77.0.1").contains("10.9.0.2"));
    kill_node(&node);
    linux(&["del", "10.77.0.0/16"]);
    linux(&["add", "10.78.0.0/16", "via", "10.9.0.2"]);
    node.run(&["up", &file]);
    await_true("a route that came meanwhile", || answer("10.78.0.1").contains("10.9.0.2"));
    await_true("a route that went meanwhile", || answer("10.77.0.1") == host);
    assert_eq!(routers(&node), before.0);
    assert!(ping().is_perfect());

    node.run(&["down"]);
    assert!(!node.directory().exists());
    let left = run(&["ip", "netns", "list"]).expect("a list").stdout;
    assert!(!left.contains(&format!("europa.{}", node.instance())), "{left}");
}

/// The desired state differs from the running state: the node is killed during a change.
#[test]
fn a_change_that_was_cut_off_is_carried_out() {
    skip_without!("ping");
    let node = Node::new(None);
    let slow = ["slow_path", "  run:", "    - {name"];
    let plain = TOPOLOGY.lines().filter(|line| !slow.iter().any(|word| line.starts_with(word)));
    let plain = plain.collect::<Vec<_>>().join("\n") + "\n";
    node.run(&["up", &node.file("node.yaml", &plain)]);
    let a = node.host("a");
    await_true("no way from a to b", || a.ping("10.0.2.2", 2, &[]).expect("a ping").is_perfect());
    let third = "---\nkind: router\nname: more\nslice: lab\nfast_path: {builtin: ipv4}\n\
                 interfaces: {c: {link: c, addresses: [10.0.3.1/24]}}\n---\n\
                 kind: host\nname: c\ngateway: 10.0.3.1\n\
                 interfaces: {eth0: {link: c, addresses: [10.0.3.2/24]}}\n";
    let slower = plain.replace("delay: 20ms", "delay: 30ms");
    let texts = [format!("{slower}{third}"), plain];
    for (round, after_ms) in [5, 20, 40, 80, 160, 320].into_iter().enumerate() {
        let text = &texts[round % 2];
        let changed = node.file("changed.yaml", text);
        let applying = node.start(&["apply", "--prune", &changed]);
        sleep(Duration::from_millis(after_ms));
        kill_node(&node);
        let output = applying.wait(Duration::from_secs(30)).expect("europa ends");
        // The moment of the kill decides whether the node has stored the change. The former work is
        // done, and this `up` does the rest.
        node.run(&["up", &changed]);
        node.run(&["apply", "--prune", &changed]);
        let what = format!("killed after {after_ms} ms: {}{}", output.stdout, output.stderr);
        await_true(&what, || a.ping("10.0.2.2", 2, &[]).expect("a ping").is_perfect());
        let count = if round % 2 == 0 { 3 } else { 2 };
        assert_eq!(routers(&node).len(), count, "{what}");
        if round % 2 == 0 {
            let c = node.host("c");
            await_true(&what, || c.ping("10.0.3.1", 2, &[]).expect("a ping").is_perfect());
        }
    }
    node.run(&["down"]);
    assert!(!node.directory().exists());
}
