//! Elements of a user's own, in Rust, in the router of a node: they run in its sandbox, keep their
//! state in a hot swap, outlive the node, and a panic ends that router only.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{Node, europa, skip_without};

/// A program of this workspace, built beside `europa`.
fn built(name: &str) -> PathBuf {
    europa().parent().expect("a folder").join(name)
}

/// Two routers of two slices, each between two hosts. One has elements of its own.
fn document(click: &str, elements: &Path) -> String {
    let mut text = format!(
        "kind: slice\nname: red\n---\nkind: slice\nname: blue\n---\n\
         kind: router\nname: r\nslice: red\ninterfaces:\n  a: {{link: a}}\n  b: {{link: b}}\n\
         fast_path:\n  elements: {}\n  click: |\n    {click}\n---\n\
         kind: router\nname: r\nslice: blue\ninterfaces:\n  a: {{link: c}}\n  b: {{link: d}}\n\
         fast_path: {{builtin: bridge}}\n",
        elements.display()
    );
    for (host, last) in [("a", 1), ("b", 2), ("c", 1), ("d", 2)] {
        text += &format!(
            "---\nkind: link\nname: {host}\n---\nkind: host\nname: {host}\n\
             interfaces: {{eth0: {{link: {host}, addresses: [10.0.0.{last}/24]}}}}\n"
        );
    }
    text
}

const BOMB: &str = "FromDevice(a, PROMISC true) -> bomb :: Bomb -> ToDevice(b); FromDevice(b, PROMISC true) -> ToDevice(a);";

fn pings(node: &Node, from: &str) {
    let begun = Instant::now();
    let ping = || node.host(from).ping("10.0.0.2", 10, &["-i", "0.02", "-W", "1"]);
    while !ping().is_ok_and(|ping| ping.is_perfect()) {
        assert!(begun.elapsed() < Duration::from_secs(15), "{}", node.run(&["logs", "red/r"]));
    }
}

fn count(node: &Node) -> u64 {
    let told = node.run(&["read", "red/r", "bomb.count"]);
    told.trim().parse().unwrap_or_else(|_| panic!("{told}"))
}

fn pid(node: &Node, slice: &str) -> serde_json::Value {
    let stats = node.stats();
    let routers = stats["routers"].as_array().expect("routers").clone();
    let name = format!("{slice}/r");
    let found = routers.iter().find(|router| router["name"] == name.as_str());
    found.expect("the router")["pid"].clone()
}

#[test]
fn they_keep_state_outlive_the_node_and_fail_alone() {
    skip_without!("ping");
    let node = Node::new(None);
    let elements = built("elements");
    node.up(&document(BOMB, &elements));
    pings(&node, "a");
    let before = count(&node);
    assert!(before >= 10, "{before}");

    // A hot swap keeps the state, and the process.
    let process = pid(&node, "red");
    let swapped = BOMB.replace("-> ToDevice(b)", "-> c :: Counter -> ToDevice(b)");
    node.run(&["apply", &node.file("swapped.yaml", &document(&swapped, &elements))]);
    assert!(count(&node) >= before);
    assert_eq!(pid(&node, "red"), process);
    pings(&node, "a");
    let drawn = node.run(&["graph", "red/r"]);
    assert!(drawn.contains("Bomb"), "{drawn}");
    let mut tracing = node.start(&["trace", "red/r", "icmp"]);
    tracing.wait_for("end with Ctrl-C", Duration::from_secs(5)).expect("a trace");
    pings(&node, "a");
    let traced = tracing.wait(Duration::from_secs(10)).expect("a packet is traced");
    assert!(traced.stdout.contains("bomb"), "{}", traced.stdout);

    // The next node adopts the router: no packet of a stream is lost.
    let sink = node.host("b").sink("10.0.0.2:9", 1).expect("a sink");
    let stream = node.host("a").stream("10.0.0.2:9", 1, 2000, 64).expect("a stream");
    sleep(Duration::from_millis(300));
    node.kill("node");
    node.up(&document(&swapped, &elements));
    sleep(Duration::from_millis(300));
    let sent = stream.stop();
    sleep(Duration::from_millis(200));
    let received = sink.packets();
    sink.stop(sent);
    assert_eq!(received, sent);
    assert_eq!(pid(&node, "red"), process);

    // A panic ends this router, and only this one.
    let other = pid(&node, "blue");
    let bomb = "printf 'a packet, to be long enough, with a bomb' > /dev/udp/10.0.0.2/7";
    node.host("a").run(&["bash", "-c", bomb]).expect("a datagram");
    let begun = Instant::now();
    while pid(&node, "red") == process || pid(&node, "red").is_null() {
        assert!(begun.elapsed() < Duration::from_secs(10), "it goes on");
        sleep(Duration::from_millis(50));
    }
    assert!(node.run(&["logs", "red/r"]).contains("a packet asked for it"));
    assert_eq!(pid(&node, "blue"), other);
    pings(&node, "a");
    pings(&node, "c");
}

#[test]
fn what_cannot_run_is_refused() {
    skip_without!("ping");
    let node = Node::new(None);
    let elements = built("elements");
    node.up(&document(BOMB, &elements));
    pings(&node, "a");
    let whole = document(BOMB, &elements);
    let named = elements.display().to_string();
    for (from, to, wanted) in [
        ("Bomb ->", "Bomp ->", "unknown element class 'Bomp'"),
        (
            "slice: red\ninterfaces",
            "slice: red\nrun: inline\ninterfaces",
            "Europa's own elements only",
        ),
        (&*named, "/bin/true", "ended before it answered"),
        (&*named, "/etc/passwd", "cannot be executed"),
        (&*named, "./nothing", "No such file"),
    ] {
        assert!(whole.contains(from), "{from}");
        let file = node.file("wrong.yaml", &whole.replacen(from, to, 1));
        let refused = node.attempt(&["apply", &file]);
        assert!(!refused.status.success(), "{to}: {}", refused.stdout);
        assert!(refused.stderr.contains(wanted), "{to}: {}", refused.stderr);
    }
    pings(&node, "a");
}

/// `europa sdk new element` makes a crate from the texts of this one, which is built already.
#[test]
fn the_example_of_the_sdk_passes_one_packet_of_two() {
    skip_without!("ping");
    let node = Node::new(None);
    let click = "FromDevice(a, PROMISC true) -> e :: Every(2) -> ToDevice(b); FromDevice(b, PROMISC true) -> ToDevice(a);";
    let host = node.file("example.yaml", &document(click, &built("my-click")));
    node.run(&["up", &host]);
    node.run(&["write", "red/r", "e.n", "1"]);
    pings(&node, "a");
    node.run(&["write", "red/r", "e.n", "2"]);
    let ping = node.host("a").ping("10.0.0.2", 20, &["-i", "0.02", "-W", "1"]).expect("ping");
    assert!((9..=11).contains(&ping.received), "{ping:?}");
}
