//! Changes while packets flow: only the differing objects change, and no other stream loses a
//! packet.

mod line;

use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{Namespace, Process, Received, Sink, Stream, skip_without};
use line::{IN, Line, OUT, ROUTER, ports};
use nix::sys::signal::Signal;
use serde_json::Value;

/// Packets a second. A receive ring holds 1024 packets: a router that gets no CPU for a fifth of a
/// second, on a busy machine, must not look like one that loses packets.
const RATE: u32 = 5_000;
/// Packets a second where a change pauses a router no longer than building a graph takes.
const FAST: u32 = 20_000;

/// A second tenant on the same ports.
const BLUE: &str = r#"kind: slice
name: blue
---
kind: router
name: r2
slice: blue
interfaces:
  in: {port: left, mac: "02:00:00:00:02:01", addresses: [10.9.1.1/24]}
  out: {port: right, mac: "02:00:00:00:02:02", addresses: [10.9.2.1/24]}
fast_path: {builtin: ipv4}
"#;

/// A numbered stream through the router of a line.
struct Load<'a> {
    line: &'a Line,
    sink: Sink,
    stream: Stream,
    /// Packets that the hosts' kernels dropped before.
    dropped: u64,
}

/// Packets that the hosts' own ends of the veth pairs dropped. On a busy machine, their rings of
/// 256 packets overflow before the packets reach Europa.
fn dropped(line: &Line) -> u64 {
    let count = |host: &Namespace, counter| host.counter("eth0", counter).unwrap_or_default();
    count(&line.a, "tx_dropped") + count(&line.b, "rx_dropped")
}

impl Load<'_> {
    fn begin(line: &Line) -> Load<'_> {
        Load::at(line, RATE)
    }

    /// Starts a stream of `rate` packets a second.
    fn at(line: &Line, rate: u32) -> Load<'_> {
        Load::sent(line, rate, Stream::paced_by)
    }

    /// Starts a stream that may lose packets: a lost packet does not hold up the next ones.
    fn through_a_restart(line: &Line) -> Load<'_> {
        Load::sent(line, RATE, |stream, _| stream)
    }

    fn sent(line: &Line, rate: u32, pace: fn(Stream, &Sink) -> Stream) -> Load<'_> {
        let (from, to, dropped) = (&line.a, &line.b, dropped(line));
        // The host resolves its next hop before the first packet counts: few packets may wait.
        let first = from.stream("10.0.2.2:9", 9, 100, 64).expect("a stream");
        sleep(Duration::from_millis(200));
        first.stop();
        let at = "10.0.2.2:5000";
        let sink = to.sink(at, 1).expect("a sink");
        let stream = pace(from.stream(at, 1, rate, 200).expect("a stream"), &sink);
        sleep(Duration::from_millis(300));
        assert!(sink.packets() > 500, "only {} packets", sink.packets());
        Load { line, sink, stream, dropped }
    }

    fn end(self, what: &str) -> Received {
        sleep(Duration::from_millis(200));
        let sent = self.stream.stop();
        let mut received = self.sink.stop(sent);
        let dropped = dropped(self.line) - self.dropped;
        eprintln!(
            "{what}: {} of {sent} lost, {dropped} dropped by the hosts, longest gap {:?}",
            received.lost, received.longest_gap
        );
        received.lost = received.lost.saturating_sub(dropped);
        received
    }
}

#[test]
fn routers_come_and_go_and_others_lose_nothing() {
    skip_without!();
    let line = Line::new();
    line.up_ipv4();
    let blue = line.node.file("blue.yaml", BLUE);
    let before = line.node.processes();
    let load = Load::begin(&line);
    for _ in 0..3 {
        let added = line.node.run(&["apply", &blue]);
        assert!(added.contains("+ router blue/r2"), "{added}");
        assert!(added.contains("2 added, 0 changed, 0 removed"), "{added}");
        line.node.run(&["restart", "blue/r2"]);
        line.node.run(&["delete", "router", "blue/r2"]);
        let removed = line.node.run(&["delete", "slice", "blue"]);
        assert!(removed.contains("- slice blue"), "{removed}");
    }
    let received = load.end("a router of others added, restarted and removed three times");
    assert!(received.is_perfect(), "{received:?}");
    assert_eq!(line.node.processes(), before, "nobody else was restarted");
}

#[test]
fn ports_come_and_go_and_others_lose_nothing() {
    skip_without!();
    let line = Line::new();
    line.up_ipv4();
    line.middle
        .ip(&["link", "add", "eu-third", "type", "veth", "peer", "name", "eu-peer"])
        .expect("a veth pair");
    let third = line.node.file("third.yaml", "kind: port\nname: third\ndevice: eu-third\n");
    let load = Load::begin(&line);
    for _ in 0..3 {
        line.node.run(&["apply", &third]);
        line.node.run(&["delete", "port", "third"]);
    }
    let received = load.end("a port added and removed three times");
    assert!(received.is_perfect(), "{received:?}");
}

#[test]
fn routes_and_neighbours_change_in_place() {
    skip_without!();
    let line = Line::new();
    line.up_ipv4();
    let pid = pid(&line);
    let load = Load::begin(&line);
    for round in 0..20 {
        let routes = format!(
            "\n  routes:\n  - {{to: 10.{}.0.0/16, via: 10.0.2.{}}}\n  - {{to: 2001:db8::/32, \
             via: \"fd00:2::2\"}}\n  neighbours:\n  - {{address: 10.0.2.{}, \
             mac: \"02:00:00:00:00:77\", interface: out}}\n",
            50 + round,
            10 + round,
            10 + round
        );
        let fast_path = format!("fast_path:\n  builtin: ipv4{routes}");
        let yaml = ports() + &ROUTER.replace("fast_path: {builtin: ipv4}\n", &fast_path);
        let told = line.node.run(&["apply", &line.node.file("edited.yaml", &yaml)]);
        assert!(told.contains("~ router red/r1 (in place)"), "{told}");
        let look_up = ["read", "red/r1", "route.lookup", &format!("10.{}.1.1", 50 + round)];
        assert_eq!(line.node.run(&look_up), format!("1 10.0.2.{}\n", 10 + round));
        let table = line.node.run(&["read", "red/r1", "arp1.table"]);
        let own = format!("10.0.2.{} 1 02-00-00-00-00-77", 10 + round);
        assert!(table.contains(&own), "{table}");
        assert_eq!(table.matches("-77").count(), 1, "the one before has gone: {table}");
    }
    let told = line.node.run(&["apply", &line.node.file("node.yaml", &(ports() + ROUTER))]);
    assert!(told.contains("- fast_path.routes[10.69.0.0/16]"), "{told}");
    // The document has no default route, so an unknown destination is unreachable.
    assert_eq!(line.node.run(&["read", "red/r1", "route.lookup", "10.69.1.1"]), "4\n");
    let received = load.end("routes and neighbours edited 21 times");
    assert!(received.is_perfect(), "{received:?}");
    assert_eq!(self::pid(&line), pid, "the same process");
}

/// A configuration that forwards to `b` with fixed addresses; `extra` is on its path.
fn click(extra: &str) -> String {
    let text = format!(
        "FromDevice(in) -> kind :: Classifier(12/0800, -) -> Strip(14) -> seen :: Counter{extra}\n\
         -> EtherEncap(0x0800, {OUT}, {}) -> ToDevice(out);\n\
         kind[1] -> Discard; FromDevice(out) -> Discard; Idle -> ToDevice(in);\n",
        line::B
    );
    let text = text.replace('\n', "\n    ");
    let fast_path = format!("fast_path:\n  click: |\n    {text}\n");
    ports() + &ROUTER.replace("fast_path: {builtin: ipv4}\n", &fast_path)
}

#[test]
fn a_click_configuration_is_swapped_without_loss() {
    skip_without!();
    let line = Line::new();
    line.a.neighbour("10.0.1.1", IN, "eth0").expect("a neighbour");
    line.node.up(&click(""));
    let pid = pid(&line);
    let load = Load::at(&line, FAST);
    let start = Instant::now();
    let count = || -> u64 {
        line.node.run(&["read", "red/r1", "seen.count"]).trim().parse().expect("a count")
    };
    let mut last = count();
    for round in 0..10 {
        let extra = format!(" -> more{round} :: Counter");
        let told = line.node.run(&["apply", &line.node.file("edited.yaml", &click(&extra))]);
        assert!(told.contains("~ router red/r1 (hot swap)"), "{told}");
        let now = count();
        assert!(now >= last, "what the elements know goes along: {last} {now}");
        last = now;
        line.node.run(&["read", "red/r1", &format!("more{round}.count")]);
    }
    // A wrong configuration changes nothing.
    let wrong = line.node.file("wrong.yaml", &click(" -> Conter"));
    let output = line.node.attempt(&["apply", &wrong]);
    assert_eq!(output.status.code(), Some(4), "{}", output.stderr);
    for part in ["wrong.yaml:", "Conter", "did you mean 'Counter'?"] {
        assert!(output.stderr.contains(part), "{part:?} is not in {}", output.stderr);
    }
    let patience = Instant::now();
    while count() <= last {
        assert!(patience.elapsed() < Duration::from_secs(5), "nothing is forwarded any more");
    }
    let seconds = start.elapsed().as_secs_f64();
    let received = load.end("the router's own Click configuration edited ten times");
    let rate = received.packets as f64 / (seconds + 0.5);
    eprintln!("{} packets forwarded, {rate:.0} a second", received.packets);
    assert!(rate > f64::from(FAST) * 0.8, "the stream was too slow to show anything: {rate}");
    assert!(received.is_perfect(), "{received:?}");
    assert_eq!(self::pid(&line), pid, "the same process");
}

#[test]
fn a_restart_is_of_one_router_only() {
    skip_without!();
    let line = Line::new();
    line.node.up(&(ports() + ROUTER + "---\n" + BLUE));
    let load = Load::begin(&line);
    // An interface of the other router changes.
    let changed = BLUE.replace("10.9.1.1/24", "10.9.3.1/24");
    let told = line.node.run(&["apply", &line.node.file("blue.yaml", &changed)]);
    assert!(told.contains("~ router blue/r2 (restart)"), "{told}");
    assert!(told.contains("0 added, 1 changed, 0 removed, 5 unchanged"), "{told}");
    let received = load.end("an interface of another router changed");
    assert!(received.is_perfect(), "{received:?}");
    // A change restarts the router itself, which soon forwards again.
    let load = Load::through_a_restart(&line);
    let before = load.sink.packets();
    line.node.run(&["restart", "red/r1"]);
    let start = Instant::now();
    while load.sink.packets() < before + u64::from(RATE) / 2 {
        assert!(start.elapsed() < Duration::from_secs(5), "the router does not come back");
        sleep(Duration::from_millis(1));
    }
    let received = load.end("the router itself restarted");
    eprintln!("the longest time without a packet: {:?}", received.longest_gap);
    assert_eq!((received.duplicates, received.corrupted, received.foreign), (0, 0, 0));
    assert!(received.longest_gap < Duration::from_millis(500), "{received:?}");
}

#[test]
fn what_cannot_be_carried_out_changes_nothing() {
    skip_without!();
    let line = Line::new();
    line.up_ipv4();
    let before = line.node.run(&["get", "--json"]);
    let documents = |text: &str| -> Vec<(String, u64, Value)> {
        let all: Value = serde_json::from_str(text).expect("JSON");
        let items = all["items"].as_array().cloned().unwrap_or_default();
        let one = |item: &Value| {
            let name = item["name"].as_str().unwrap_or_default().to_owned();
            (name, item["generation"].as_u64().unwrap_or_default(), item["document"].clone())
        };
        items.iter().map(one).collect()
    };
    let load = Load::begin(&line);
    let processes = line.node.processes();
    for (what, yaml, code, shown) in [
        (
            "a device that is missing",
            "kind: port\nname: x\ndevice: eu-none\n".to_owned(),
            4,
            "eu-none",
        ),
        (
            "a device that is refused",
            format!("kind: port\nname: x\ndevice: lo\n---\n{BLUE}"),
            4,
            "lo",
        ),
        ("a match of another", BLUE.replace("02:00:00:00:02:01", IN), 4, "two interfaces of port"),
        ("a reference to nothing", BLUE.replace("left", "lft"), 4, "did you mean"),
        ("a CPU that there is not", BLUE.to_owned() + "cpu: [1023]\n", 4, "there is no CPU 1023"),
    ] {
        let output = line.node.attempt(&["apply", &line.node.file("wrong.yaml", &yaml)]);
        assert_eq!(output.status.code(), Some(code), "{what}: {}", output.stderr);
        assert!(output.stderr.contains(shown), "{what}: {}", output.stderr);
        let after = line.node.run(&["get", "--json"]);
        assert_eq!(documents(&after), documents(&before), "{what}");
        assert_eq!(line.node.processes(), processes, "{what}");
    }
    let received = load.end("five changes refused");
    assert!(received.is_perfect(), "{received:?}");
    // Objects that other objects need cannot be deleted.
    for (kind, name) in [("port", "left"), ("slice", "red")] {
        assert_eq!(line.node.attempt(&["delete", kind, name]).status.code(), Some(4));
    }
    assert_eq!(line.node.attempt(&["delete", "router", "red/none"]).status.code(), Some(5));
}

/// `europa node` as systemd runs it.
struct Service<'a> {
    line: &'a Line,
    process: Process,
}

impl<'a> Service<'a> {
    fn start(line: &'a Line) -> Service<'a> {
        let program = europa_tests::europa();
        let net = format!("--net={}", line.middle.path().display());
        let program = program.to_string_lossy();
        let argv = ["nsenter", &net, &program, "--instance", line.node.instance(), "node"];
        let process = Process::start(&argv).expect("the node starts");
        let start = Instant::now();
        while !line.node.directory().join("node.sock").exists() {
            assert!(start.elapsed() < Duration::from_secs(10), "{}", process.stderr());
            sleep(Duration::from_millis(5));
        }
        Service { line, process }
    }

    fn stop(self) {
        self.process.signal(Signal::SIGTERM);
        let output = self.process.wait(Duration::from_secs(10)).expect("the node ends");
        assert!(output.status.success(), "{}", output.stderr);
        assert!(!self.line.node.directory().exists());
    }
}

/// The state of an instance; removed when dropped.
struct State(PathBuf);

impl Drop for State {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_node_that_starts_brings_back_what_was_wanted() {
    skip_without!("ping");
    let line = Line::new();
    let state = State(PathBuf::from("/var/lib/europa").join(line.node.instance()));
    let service = Service::start(&line);
    line.node.run(&["apply", &line.node.file("node.yaml", &(ports() + ROUTER))]);
    line.node.run(&["apply", &line.node.file("blue.yaml", BLUE)]);
    line.node.run(&["delete", "router", "blue/r2"]);
    let ping = line.a.ping("10.0.2.2", 3, &[]).expect("a ping");
    assert!(ping.is_perfect(), "{ping:?}");
    let wanted = line.node.run(&["get", "--yaml"]);
    service.stop();
    for _ in 0..2 {
        let service = Service::start(&line);
        let start = Instant::now();
        while !line.node.run(&["get", "router", "red/r1"]).contains("running") {
            assert!(start.elapsed() < Duration::from_secs(10), "it is not brought back");
            sleep(Duration::from_millis(10));
        }
        eprintln!("a node brought its router back in {:?}", start.elapsed());
        assert_eq!(line.node.run(&["get", "--yaml"]), wanted);
        let ping = line.a.ping("10.0.2.2", 3, &[]).expect("a ping");
        assert!(ping.is_perfect(), "{ping:?}");
        service.stop();
    }
    assert!(state.0.join("state.redb").exists());
}

#[test]
fn a_device_that_comes_late_is_taken_when_it_comes() {
    skip_without!("ping");
    let line = Line::new();
    let _state = State(PathBuf::from("/var/lib/europa").join(line.node.instance()));
    let service = Service::start(&line);
    line.node.run(&["apply", &line.node.file("node.yaml", &(ports() + ROUTER))]);
    service.stop();
    line.middle.ip(&["link", "set", "eu-right", "name", "eu-late"]).expect("another name");
    let service = Service::start(&line);
    sleep(Duration::from_millis(300));
    let told = line.node.run(&["get"]);
    assert!(told.contains("missing") && told.contains("waiting"), "{told}");
    line.middle.ip(&["link", "set", "eu-late", "name", "eu-right"]).expect("its name");
    let start = Instant::now();
    while !line.node.run(&["get", "router", "red/r1"]).contains("running") {
        assert!(start.elapsed() < Duration::from_secs(10), "{}", line.node.run(&["events"]));
        sleep(Duration::from_millis(50));
    }
    let ping = line.a.ping("10.0.2.2", 3, &[]).expect("a ping");
    assert!(ping.is_perfect(), "{ping:?}");
    service.stop();
}

#[test]
fn wrong_files_are_told_by_file_and_line_and_change_nothing() {
    skip_without!();
    let line = Line::new();
    line.up_ipv4();
    let before = line.node.run(&["get", "--yaml"]);
    let text = ports() + ROUTER;
    let mut told = 0;
    // Removes every seventh character, each in a file of its own.
    for at in (0..text.len()).step_by(7).filter(|at| text.is_char_boundary(*at)) {
        let mut wrong = text.clone();
        wrong.remove(at);
        let file = line.node.file("wrong.yaml", &wrong);
        let output = line.node.attempt(&["apply", "--dry-run", &file]);
        match output.status.code() {
            // The removed text was a space, or part of a name or number.
            Some(0) => {}
            Some(4) => {
                told += 1;
                let place = output.stderr.find("wrong.yaml:").map(|at| at + "wrong.yaml:".len());
                let line = place.and_then(|at| output.stderr.get(at..at + 1));
                assert!(
                    line.is_some_and(|line| line.as_bytes()[0].is_ascii_digit())
                        || output.stderr.contains("eu-"),
                    "{at}: {}",
                    output.stderr
                );
            }
            other => panic!("{at}: {other:?} {}", output.stderr),
        }
    }
    assert!(told > 30, "only {told}");
    assert_eq!(line.node.run(&["get", "--yaml"]), before);
}

#[test]
fn everything_can_be_had_as_json_and_through_the_socket() {
    skip_without!("curl");
    let line = Line::new();
    line.up_ipv4();
    let socket = line.node.directory().join("node.sock");
    let curl = |arguments: &[&str]| {
        let socket = socket.to_string_lossy().into_owned();
        let argv = [&["curl", "-s", "--unix-socket", &socket], arguments].concat();
        let text = europa_tests::run(&argv).expect("curl").stdout;
        serde_json::from_str::<Value>(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    };
    let router = curl(&["http://europa/v1/routers/red/r1"]);
    assert_eq!(router["status"]["state"], "running");
    let yaml = "kind: slice\nname: green\n";
    let body = ["-X", "PUT", "--data-binary", yaml, "http://europa/v1/slices/green"];
    assert_eq!(curl(&body)["changes"][0]["action"], "add");
    let body = ["-H", "content-type: application/yaml", "--data-binary", "kind: frob\nname: x\n"];
    let problem = curl(&[&body[..], &["http://europa/v1/apply"]].concat());
    assert_eq!((&problem["status"], &problem["errors"][0]["line"]), (&422.into(), &1.into()));
    assert_eq!(curl(&["http://europa/v1/frobs"])["status"], 404);
    assert_eq!(curl(&["-X", "DELETE", "http://europa/v1/slices/green"])["unchanged"], 4);
    for command in [
        &["get", "--json"][..],
        &["describe", "router", "red/r1", "--json"],
        &["stats", "--json"],
        &["apply", "--dry-run", "--json", &line.node.file("n.yaml", &(ports() + ROUTER))],
        &["read", "--json", "red/r1", "route.table"],
        &["schema"],
        &["schema", "--openapi"],
    ] {
        let text = line.node.run(command);
        assert!(serde_json::from_str::<Value>(&text).is_ok(), "{command:?}: {text}");
    }
    let events = line.node.run(&["events", "--json"]);
    let events: Vec<Value> =
        events.lines().map(|line| serde_json::from_str(line).expect("an event")).collect();
    let numbers: Vec<u64> = events.iter().filter_map(|event| event["sequence"].as_u64()).collect();
    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>());
    assert!(events.iter().any(|e| e["kind"] == "router" && e["reason"] == "Started"));
    assert!(line.node.run(&["logs", "node"]).contains("Applied"));
}

fn pid(line: &Line) -> Option<u64> {
    line.node.stats()["routers"][0]["pid"].as_u64()
}
