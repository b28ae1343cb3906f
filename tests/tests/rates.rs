//! Commands that watch counters: `record` and `plot`, `stats --watch`, `top`, and `/metrics`.

mod line;

use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{europa, run};
use line::Line;
use nix::sys::signal::Signal;
use serde_json::Value;

/// The packets received by interface `in` of the router, in a reading.
fn received(reading: &Value) -> u64 {
    reading["routers"][0]["interfaces"][0]["rx_packets"].as_u64().expect("a number")
}

/// Waits until `so` is true.
fn until(so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it is never so");
        sleep(Duration::from_millis(20));
    }
}

/// Sends at least this many packets from one host to the other; returns their number.
fn send(line: &Line, packets: u64) -> u64 {
    let sink = line.b.sink("10.0.2.2:7000", 1).expect("a sink");
    let stream = line.a.stream("10.0.2.2:7000", 1, 2000, 100).expect("a stream").paced_by(&sink);
    until(|| stream.sent() >= packets);
    let sent = stream.stop();
    assert!(sink.stop(sent).is_perfect());
    sent
}

#[test]
fn what_is_recorded_is_what_was_sent() {
    let line = Line::new();
    line.up_ipv4();
    // Hosts know their neighbours from now on.
    assert!(line.a.ping("10.0.2.2", 1, &[]).expect("ping").is_perfect());
    let file = line.node.file("run.jsonl", "");
    let recording = line.node.start(&["record", "--every", "0.05", "-o", &file]);
    let readings = || -> Vec<Value> {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        text.lines().map_while(|line| serde_json::from_str(line).ok()).collect()
    };
    until(|| !readings().is_empty());
    let before = line.node.counters()["red/r1.in"].rx;
    let sent = send(&line, 2000);
    let after = line.node.counters()["red/r1.in"].rx;
    let so_far = readings().len();
    until(|| readings().len() > so_far);
    recording.signal(Signal::SIGINT);
    let output = recording.wait(Duration::from_secs(10)).expect("it ends");
    assert!(output.status.success(), "{}", output.stderr);

    let readings = readings();
    let times: Vec<u64> = readings.iter().filter_map(|r| r["at_ns"].as_u64()).collect();
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
    let [first, last] = [&readings[0], &readings[readings.len() - 1]].map(received);
    // The router received the stream, and at most a few packets that hosts send on their own.
    assert!((sent..sent + 10).contains(&(after - before)), "{sent}: {before} {after}");
    assert!(first <= before && last >= after, "{first} {before} {after} {last}");

    let svg = line.node.run(&["plot", &file, "--by", "interface", "--of", "red/r1"]);
    assert_eq!(svg.matches("<polyline").count(), 3 * 2, "three charts of two curves");
    let wrong = line.node.file("wrong.jsonl", "{}\nnonsense\n{}\n");
    let refused = line.node.attempt(&["plot", &wrong]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.stderr.contains("wrong.jsonl:1: "), "{}", refused.stderr);

    let mut watching = line.node.start(&["stats", "--watch=0.1"]);
    watching.wait_for("red/r1.out", Duration::from_secs(10)).expect("a table");
    watching.signal(Signal::SIGINT);
    let output = watching.wait(Duration::from_secs(10)).expect("it ends");
    assert!(output.status.success() && !output.stdout.contains('\x1b'), "{}", output.stdout);
}

#[test]
fn prometheus_gets_the_same_counters() {
    let line = Line::new();
    line.middle.ip(&["link", "set", "lo", "up"]).expect("loopback");
    let yaml = line.node.file("node.yaml", &(line::ports() + line::ROUTER));
    line.node.run(&["up", "--metrics", "127.0.0.1:9464", &yaml]);
    assert!(line.a.ping("10.0.2.2", 3, &["-i", "0.05"]).expect("ping").is_perfect());
    let ask = |path: &str| {
        let get = format!("GET {path} HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n");
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/9464; printf '{get}' >&3; cat <&3");
        line.middle.run(&["bash", "-c", &script]).expect("an answer").stdout
    };
    let text = ask("/metrics");
    let value = |name: &str| -> u64 {
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let found = found.unwrap_or_else(|| panic!("{name} is missing in {text}"));
        found.trim().parse().expect("a number")
    };
    let counters = line.node.counters();
    for (interface, other) in [("in", "red/r1.in"), ("out", "red/r1.out")] {
        let labels = format!("{{slice=\"red\",router=\"r1\",interface=\"{interface}\"}}");
        let receive = value(&format!("europa_interface_receive_packets_total{labels}"));
        let transmit = value(&format!("europa_interface_transmit_packets_total{labels}"));
        let now = &counters[other];
        assert!((3..=now.rx).contains(&receive), "{receive}, now {}", now.rx);
        assert!((3..=now.tx).contains(&transmit), "{transmit}, now {}", now.tx);
    }
    assert_eq!(value("europa_router_up{slice=\"red\",router=\"r1\"}"), 1);
    assert!(text.trim_end().ends_with("# EOF"));
    assert!(ask("/v1/down").starts_with("HTTP/1.1 404"), "nothing else is served");

    // A second node cannot use the same address, and reports it.
    let other = europa_tests::Node::new(Some(&line.middle));
    let refused = other.attempt(&["up", "--metrics", "127.0.0.1:9464", &yaml]);
    assert!(!refused.status.success());
    assert!(refused.stderr.contains("listening at 127.0.0.1:9464"), "{}", refused.stderr);
}

#[test]
fn top_shows_what_goes_and_gives_the_terminal_back() {
    let line = Line::new();
    line.up_ipv4();
    let program = europa();
    let top = format!(
        "stty rows 24 cols 140; {} --instance {} top --every 0.1",
        program.display(),
        line.node.instance()
    );
    // The keys select the view of routers, and then quit.
    let keys = "sleep 1; printf '\\t'; sleep 1; printf q";
    let script = format!("({keys}) | script -qfec '{top}' /dev/null");
    let shown = run(&["bash", "-c", &script]).expect("it ends well").stdout;
    // The command draws only differences: the view of routers continues after the slice's name.
    for text in ["1 Slices", "red", "/r1", "red in, at most", "/r1 in,"] {
        assert!(shown.contains(text), "{text} is missing in {shown:?}");
    }
    assert!(shown.contains("\x1b[?1049h") && shown.contains("\x1b[?1049l"), "{shown:?}");
    // Without a terminal the command says what to do.
    let refused = line.node.attempt(&["top"]);
    assert!(refused.stderr.contains("needs a terminal"), "{}", refused.stderr);
}
