//! Routers inside the switch forward like routers with processes. A router over its limits affects
//! no other. The routers return with the switch, and stay when the node ends.

mod line;

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::skip_without;
use line::{Line, ROUTER, ports};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

const RATE: u32 = 5_000;

/// The router of [`ROUTER`], inside the switch.
fn red() -> String {
    ROUTER.replace("fast_path:", "run: inline\npool: {slots: 512}\nfast_path:")
}

/// A second tenant on the same ports, with addresses of its own.
fn blue(line: &Line) -> &'static str {
    for (host, near, far) in [(&line.a, 1, 2), (&line.b, 2, 1)] {
        host.address("eth0", &format!("10.8.{near}.2/24")).expect("an address");
        host.route(&format!("10.8.{far}.0/24"), &format!("10.8.{near}.1")).expect("a route");
    }
    r#"---
kind: slice
name: blue
---
kind: router
name: r2
slice: blue
run: inline
pool: {slots: 512}
interfaces:
  in: {port: left, mac: "02:00:00:00:02:01", addresses: [10.8.1.1/24]}
  out: {port: right, mac: "02:00:00:00:02:02", addresses: [10.8.2.1/24]}
fast_path: {builtin: ipv4}
"#
}

/// A third router, which forwards its packets in an endless circle.
const GREEN: &str = r#"---
kind: slice
name: green
---
kind: router
name: r3
slice: green
run: inline
inline: {budget: 50us, memory: 1MB}
pool: {slots: 64}
interfaces:
  in: {port: left, mac: "02:00:00:00:03:01"}
  out: {port: right, mac: "02:00:00:00:03:02"}
fast_path:
  click: |
    FromDevice(in) -> a :: Null -> b :: Counter -> a;
    Idle -> ToDevice(out); FromDevice(out) -> Discard; Idle -> ToDevice(in);
"#;

fn router(line: &Line, name: &str) -> Value {
    let stats = line.node.stats();
    let routers = stats["routers"].as_array().cloned().unwrap_or_default();
    routers.into_iter().find(|router| router["name"] == name).expect("the router")
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn await_that(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        sleep(Duration::from_millis(10));
    }
}

fn ping_both(line: &Line) {
    for to in ["10.0.2.2", "10.8.2.2"] {
        let ping = line.a.ping(to, 20, &["-i", "0.01"]).expect("a ping");
        assert!(ping.is_perfect(), "{to}: {ping:?}");
    }
}

/// The process id of the switch, by the node's records.
fn switch_pid(line: &Line) -> Option<i32> {
    let entries = fs::read_dir(line.node.directory().join("kept")).ok()?.flatten();
    let pids = entries.filter_map(|entry| {
        let name = entry.file_name();
        name.to_str()?.strip_prefix("switch.")?.strip_suffix(".json")?.parse().ok()
    });
    pids.last()
}

/// The private memory of the switch.
fn memory_kb(line: &Line) -> u64 {
    let pid = switch_pid(line).expect("a switch");
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let own = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    own.and_then(|own| own.split_whitespace().next()?.parse().ok()).expect("a number")
}

/// The mean time of a turn, over the best of several short intervals: in others the machine takes
/// the core away in the middle of a turn.
fn mean_turn_us(line: &Line, name: &str) -> u64 {
    let read = || {
        let inline = router(line, name)["inline"].clone();
        (number(&inline["spent_ns"]), number(&inline["turns"]))
    };
    let mean = |_| {
        let (spent, turns) = read();
        sleep(Duration::from_millis(100));
        let (spent_later, turns_later) = read();
        (spent_later - spent).checked_div((turns_later - turns) * 1000)
    };
    (0..20).filter_map(mean).min().expect("it has turns")
}

#[test]
fn two_tenants_forward_and_one_in_circles_hurts_neither() {
    skip_without!();
    let line = Line::new();
    let blue = blue(&line);
    line.node.up(&(ports() + &red() + blue + GREEN));
    ping_both(&line);
    let all = line.node.stats();
    for router in all["routers"].as_array().expect("routers") {
        assert!(router["pid"].is_null() && router["state"] == "running", "{router}");
    }
    assert_eq!(line.node.processes().len(), 2, "a node, a switch, and nobody else");
    let took = router(&line, "red/r1");
    let inline = &took["inline"];
    assert!(number(&inline["turns"]) > 0 && number(&inline["packets"]) > 20, "{took}");
    assert_eq!(number(&inline["budget_ns"]), 100_000);
    assert!(number(&inline["memory_bytes"]) < 1_000_000, "{took}");

    // Eight packets circulate from now on.
    line.a.neighbour("10.0.1.9", "02:00:00:00:03:01", "eth0").expect("a neighbour");
    let circle = line.a.stream("10.0.1.9:9", 9, 100, 64).expect("a stream");
    await_that("the circle begins", || number(&router(&line, "green/r3")["inline"]["cut"]) > 100);
    circle.stop();
    let streams = [("10.0.2.2:5000", 1), ("10.8.2.2:5000", 2)].map(|(to, number)| {
        let at = to.split(':').next().expect("an address");
        let sink = line.b.sink(&format!("{at}:5000"), number).expect("a sink");
        (line.a.stream(to, number, RATE, 200).expect("a stream").paced_by(&sink), sink)
    });
    sleep(Duration::from_secs(1));
    for (stream, sink) in streams {
        let sent = stream.stop();
        let received = sink.stop(sent);
        eprintln!("beside a circle: {received:?} of {sent}");
        assert!(received.is_perfect() && received.packets > 1000, "{received:?} of {sent}");
    }
    let hog = router(&line, "green/r3");
    assert_eq!(hog["restarts"], 0, "it is cut off, and not ended: {hog}");
    let mean_us = mean_turn_us(&line, "green/r3");
    eprintln!("the one in circles: {}, {mean_us} us a turn", hog["inline"]);
    // A turn also ends after a number of batches: on a fast machine before its budget of 100 us.
    assert!((10..100).contains(&mean_us), "{mean_us}");
    // The router still answers, and accepts another configuration.
    assert!(!line.node.run(&["read", "green/r3", "b.count"]).is_empty());
    let tame = GREEN.replace("-> a;", "-> Discard;");
    let told =
        line.node.run(&["apply", &line.node.file("n.yaml", &(ports() + &red() + blue + &tame))]);
    assert!(told.contains("~ router green/r3 (hot swap)"), "{told}");
    let cut = number(&router(&line, "green/r3")["inline"]["cut"]);
    ping_both(&line);
    assert_eq!(number(&router(&line, "green/r3")["inline"]["cut"]), cut, "it rests");
    let shown = line.node.run(&["stats"]);
    assert!(shown.contains("inside the switch: "), "{shown}");
}

#[test]
fn a_panic_ends_its_router_only_and_that_comes_back() {
    skip_without!();
    let line = Line::new();
    // The router panics at the fifth packet of its interface `in`, after each restart again.
    let fails = GREEN
        .replace("a :: Null -> b :: Counter -> a;", "b :: Counter -> PanicTest(4) -> Discard;");
    line.node.up(&(ports() + &red() + &fails));
    let switch = switch_pid(&line).expect("a switch");
    let sink = line.b.sink("10.0.2.2:5000", 1).expect("a sink");
    let stream = line.a.stream("10.0.2.2:5000", 1, RATE, 200).expect("a stream").paced_by(&sink);
    line.a.neighbour("10.0.1.9", "02:00:00:00:03:01", "eth0").expect("a neighbour");
    let poison = line.a.stream("10.0.1.9:9", 9, 100, 64).expect("a stream");
    await_that("it has come back twice", || number(&router(&line, "green/r3")["restarts"]) >= 2);
    poison.stop();
    await_that("it runs", || router(&line, "green/r3")["state"] == "running");
    let count = line.node.run(&["read", "green/r3", "b.count"]);
    assert!(count.trim().parse::<u32>().is_ok_and(|count| count <= 4), "{count}: it began anew");
    // The other router inside the same worker has lost nothing, and the worker is the same.
    let sent = stream.stop();
    let received = sink.stop(sent);
    assert!(received.is_perfect() && received.packets > 1000, "{received:?} of {sent}");
    assert_eq!(switch_pid(&line), Some(switch));
    assert_eq!(router(&line, "red/r1")["restarts"], 0);
    let told = line.node.run(&["events"]);
    assert!(told.contains("it panicked: PanicTest has got its packet"), "{told}");
}

#[test]
fn another_graph_takes_over_without_loss() {
    skip_without!();
    let line = Line::new();
    let simple = |round: usize| {
        let more = if round.is_multiple_of(2) { "" } else { "-> more :: Counter " };
        let text = format!(
            "FromDevice(in, PROMISC true) -> c :: Counter {more}-> Queue(500) -> ToDevice(out);\n    \
             FromDevice(out, PROMISC true) -> Queue(500) -> ToDevice(in);\n"
        );
        format!(
            "{}kind: router\nname: r1\nslice: red\nrun: inline\ninterfaces:\n  \
             in: {{port: left, match: {{all: true}}}}\n  \
             out: {{port: right, match: {{all: true}}}}\nfast_path:\n  click: |\n    {text}",
            ports()
        )
    };
    // The router is a wire: the hosts reach each other.
    line.a.address("eth0", "10.7.0.1/24").expect("an address");
    line.b.address("eth0", "10.7.0.2/24").expect("an address");
    line.node.up(&simple(0));
    let ping = line.a.ping("10.7.0.2", 10, &["-i", "0.01"]).expect("a ping");
    assert!(ping.is_perfect(), "{ping:?}");
    let sink = line.b.sink("10.7.0.2:5000", 1).expect("a sink");
    let stream = line.a.stream("10.7.0.2:5000", 1, RATE, 200).expect("a stream").paced_by(&sink);
    let mut last = 0;
    for round in 1..=8 {
        let told = line.node.run(&["apply", &line.node.file("n.yaml", &simple(round))]);
        assert!(told.contains("~ router red/r1 (hot swap)"), "{told}");
        let before = sink.packets();
        await_that("packets pass", || sink.packets() > before + 200);
        let count = line.node.run(&["read", "red/r1", "c.count"]);
        let count: u64 = count.trim().parse().expect("a count");
        assert!(count > last + 200, "what elements know goes along: {last} {count}");
        last = count;
    }
    line.node.run(&["write", "red/r1", "c.reset", ""]);
    // A configuration that may not run there is refused with a message, and nothing changes.
    let file = line.node.file("n.yaml", &simple(1).replace("Queue(500)", "Script(wait 1s)"));
    let refused = line.node.attempt(&["apply", &file]);
    let why = refused.stderr + &refused.stdout;
    assert!(!refused.status.success(), "{why}");
    assert!(why.contains("cannot run inside the switch: it runs a program"), "{why}");
    assert!(why.contains("n.yaml:"), "{why}");
    let sent = stream.stop();
    let received = sink.stop(sent);
    assert!(received.is_perfect(), "{received:?} of {sent}");
    // The node restarts a router that ends.
    let _ = line.node.attempt(&["write", "red/r1", "stop", "true"]);
    await_that("it is started again", || router(&line, "red/r1")["restarts"] == 1);
    await_that("it runs", || router(&line, "red/r1")["state"] == "running");
    let ping = line.a.ping("10.7.0.2", 10, &["-i", "0.01"]).expect("a ping");
    assert!(ping.is_perfect(), "{ping:?}");
    let events = line.node.run(&["events"]);
    assert!(events.contains("it has stopped itself"), "{events}");
    // The node also restarts a router that a user has restarted.
    line.node.run(&["restart", "red/r1"]);
    let ping = line.a.ping("10.7.0.2", 10, &["-i", "0.01"]).expect("a ping");
    assert!(ping.is_perfect(), "{ping:?}");
}

#[test]
fn it_comes_back_with_the_switch_and_stays_without_the_node() {
    skip_without!();
    let line = Line::new();
    let yaml = ports() + &red() + blue(&line);
    line.node.up(&yaml);
    ping_both(&line);
    for round in 0..3 {
        let pid = switch_pid(&line).expect("a switch");
        kill(Pid::from_raw(pid), Signal::SIGKILL).expect("a signal");
        let begun = Instant::now();
        await_that("both forward again", || {
            let passes = |to| line.a.ping(to, 1, &["-W", "0.2"]).is_ok_and(|p| p.is_perfect());
            passes("10.0.2.2") && passes("10.8.2.2")
        });
        eprintln!("round {round}: both forward {:?} after the switch's end", begun.elapsed());
        ping_both(&line);
    }
    let restarts = number(&router(&line, "red/r1")["restarts"]);
    assert!(restarts >= 3, "{restarts}");
    for _ in 0..3 {
        let sink = line.b.sink("10.0.2.2:5000", 1).expect("a sink");
        let stream =
            line.a.stream("10.0.2.2:5000", 1, RATE, 200).expect("a stream").paced_by(&sink);
        await_that("packets pass", || sink.packets() > 200);
        line.node.kill("node");
        sleep(Duration::from_millis(100));
        line.node.up(&yaml);
        let before = sink.packets();
        await_that("packets pass", || sink.packets() > before + 200);
        let sent = stream.stop();
        let received = sink.stop(sent);
        assert!(received.is_perfect(), "{received:?} of {sent}");
        assert_eq!(number(&router(&line, "red/r1")["restarts"]), restarts, "it was adopted");
        let count = line.node.run(&["read", "red/r1", "handlers"]);
        assert!(!count.is_empty());
    }
    // Another node than the one that started the router restarts and removes it.
    line.node.run(&["restart", "blue/r2"]);
    ping_both(&line);
    line.node.run(&["delete", "router", "blue/r2"]);
    let ping = line.a.ping("10.0.2.2", 10, &["-i", "0.01"]).expect("a ping");
    assert!(ping.is_perfect(), "{ping:?}");
}

/// Number of routers at the same time.
const MANY: u32 = 200;

#[test]
fn two_hundred_run_at_once() {
    skip_without!();
    let line = Line::new();
    let mut yaml = ports();
    for number in 1..=MANY {
        yaml += &format!(
            "kind: router\nname: r{number}\nslice: red\nrun: inline\npool: {{slots: 64}}\n\
             interfaces:\n  in: {{port: left, addresses: [10.200.1.{number}/16]}}\n  \
             out: {{port: right, addresses: [10.201.1.{number}/16]}}\n\
             fast_path:\n  builtin: ipv4\n  \
             routes: [{{to: 172.16.{number}.0/24, via: 10.201.0.2}}]\n---\n"
        );
        let own = format!("172.16.{number}.2/32");
        line.b.address("eth0", &own).expect("an address");
    }
    line.a.address("eth0", "10.200.0.2/16").expect("an address");
    line.b.address("eth0", "10.201.0.2/16").expect("an address");
    for number in 1..=MANY {
        let via = format!("10.200.1.{number}");
        line.a.route(&format!("172.16.{number}.2/32"), &via).expect("a route");
    }
    line.b.route("10.200.0.0/16", "10.201.1.1").expect("a route");
    line.node.up(&ports());
    let before_kb = memory_kb(&line);
    let begun = Instant::now();
    line.node.up(yaml.trim_end_matches("---\n"));
    let up = begun.elapsed();
    for number in 1..=MANY {
        let to = format!("172.16.{number}.2");
        let ping = line.a.ping(&to, 2, &["-i", "0.01"]).expect("a ping");
        assert!(ping.is_perfect(), "{to}: {ping:?}");
    }
    let stats = line.node.stats();
    let all = stats["routers"].as_array().expect("routers");
    assert_eq!(all.len(), MANY as usize);
    let each_kb = memory_kb(&line).saturating_sub(before_kb) / u64::from(MANY);
    eprintln!("{MANY} routers up in {up:?}, {each_kb} kB each beside their pools");
    assert!(each_kb < 1000, "{each_kb}");
    assert_eq!(line.node.processes().len(), 2, "a node and a switch");
}
