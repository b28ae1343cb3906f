//! A DPDK application is a router's data plane: all packets between two hosts pass through
//! `dpdk-testpmd`, with either side as the server.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{Node, skip_without};

/// Time limit of every wait on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
const EXAMPLE: &str = include_str!("../../examples/memif.yaml");

/// A running testpmd, killed at the end.
struct Testpmd(Child);

impl Testpmd {
    /// Starts a testpmd that passes frames from one memif to the other. It runs as long as its
    /// standard input is open.
    fn start(folder: &Path, role: &str) -> Testpmd {
        let sockets = ["left", "right"].map(|side| (path(folder, side), 0));
        Testpmd::between(folder, role, sockets)
    }

    /// The same with the socket and the number of each interface.
    fn between(folder: &Path, role: &str, interfaces: [(String, u32); 2]) -> Testpmd {
        let log = fs::File::create(folder.join("testpmd.log")).expect("a log");
        let mut command = Command::new("dpdk-testpmd");
        command.args(["--lcores", "0@0,1@0", "--no-huge", "--no-pci", "--no-shconf", "-m", "192"]);
        command.arg("--no-telemetry");
        for (number, (socket, id)) in interfaces.iter().enumerate() {
            command.arg("--vdev").arg(format!(
                "net_memif{number},id={id},role={role},secret=sesame,socket-abstract=no,socket={socket}"
            ));
        }
        command.args(["--", "--total-num-mbufs=8192", "--no-flush-rx", "--forward-mode=io"]);
        command.stdin(Stdio::piped()).stdout(log.try_clone().expect("a log")).stderr(log);
        Testpmd(command.spawn().expect("testpmd"))
    }

    /// Kills testpmd, like a crash.
    fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        self.end();
    }
}

fn path(folder: &Path, side: &str) -> String {
    folder.join(format!("{side}.sock")).to_str().expect("a path").to_owned()
}

/// The example with its sockets in a folder, a secret, and this role of its router.
fn document(folder: &Path, server: bool) -> String {
    let mut text = EXAMPLE.to_owned();
    for side in ["left", "right"] {
        let (old, new) = (format!("/run/memif-{side}.sock"), path(folder, side));
        let arguments = format!("Memif({new}, SERVER {server}, SECRET sesame)");
        text = text.replace(&format!("Memif({old})"), &arguments).replace(&old, &new);
    }
    if server { text } else { text.replace("listen: memif", "connect: memif") }
}

/// Waits until the hosts reach each other.
fn passes(node: &Node, folder: &Path) {
    let begun = Instant::now();
    while !node.host("a").ping("10.0.0.2", 3, &["-i", "0.1"]).is_ok_and(|ping| ping.is_perfect()) {
        assert!(
            begun.elapsed() < PATIENCE,
            "{}{}{}",
            node.run(&["read", "red/r1", "memif0.reason"]),
            node.run(&["logs", "red/r1"]),
            fs::read_to_string(folder.join("testpmd.log")).unwrap_or_default()
        );
    }
}

/// Sends numbered packets of all lengths both ways: all arrive once, unchanged and in order.
fn carries(node: &Node) {
    let mut streams = Vec::new();
    for (number, from, to, at) in [(1, "a", "b", "10.0.0.2:5000"), (2, "b", "a", "10.0.0.1:5000")] {
        let sink = node.host(to).sink(at, number).expect("a sink");
        let lengths = [32, 200, 1000, 1472];
        let stream = node.host(from).stream_of(at, number, 5_000, &lengths).expect("a stream");
        streams.push((stream.paced_by(&sink), sink));
    }
    sleep(Duration::from_secs(1));
    for (stream, sink) in streams {
        let sent = stream.stop();
        let received = sink.stop(sent);
        let perfect = received.is_perfect() && sent > 200;
        assert!(perfect, "{sent} sent: {received:?}\n{}", node.run(&["stats"]));
    }
}

/// Waits until a handler has this value.
fn becomes(node: &Node, handler: &str, value: &str) {
    let begun = Instant::now();
    loop {
        let found = node.run(&["read", "red/r1", handler]);
        if found.trim() == value {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{handler} is {found}");
        sleep(Duration::from_millis(20));
    }
}

/// Kills a testpmd that listens; another one takes its place.
fn another(node: &Node, folder: &Path, testpmd: Testpmd) -> Testpmd {
    testpmd.kill();
    becomes(node, "memif0.connected", "false");
    // testpmd does not replace the former socket.
    for side in ["left", "right"] {
        fs::remove_file(path(folder, side)).expect("a socket that was left");
    }
    let testpmd = Testpmd::start(folder, "server");
    passes(node, folder);
    testpmd
}

#[test]
fn a_testpmd_that_connects_is_the_data_plane() {
    skip_without!("dpdk-testpmd", "ping", "nsenter");
    let folder = tempfile::tempdir().expect("a folder");
    let node = Node::new(None);
    node.up(&document(folder.path(), true));
    let testpmd = Testpmd::start(folder.path(), "client");
    passes(&node, folder.path());
    carries(&node);
    assert!(node.run(&["read", "red/r1", "memif0.peer"]).starts_with("DPDK"));
    testpmd.kill();
    becomes(&node, "memif0.connected", "false");
    assert_eq!(node.run(&["read", "red/r1", "memif0.reason"]).trim(), "the peer has gone");
    let _testpmd = Testpmd::start(folder.path(), "client");
    passes(&node, folder.path());
    // A new configuration keeps the connection.
    let text = document(folder.path(), true).replace("Queue(4096)", "Queue(4000)");
    node.run(&["apply", &node.file("swap.yaml", &text)]);
    passes(&node, folder.path());
    carries(&node);
    assert_eq!(node.run(&["read", "red/r1", "memif0.disconnects"]).trim(), "1");
}

#[test]
fn both_interfaces_may_share_a_socket() {
    skip_without!("dpdk-testpmd", "ping", "nsenter");
    let folder = tempfile::tempdir().expect("a folder");
    let node = Node::new(None);
    let (left, right) = (path(folder.path(), "left"), path(folder.path(), "right"));
    let text = document(folder.path(), true)
        .replace(&format!("- listen: memif {right}\n"), "")
        .replace(&format!("Memif({right}, "), &format!("Memif({left}, ID 7, "));
    node.up(&text);
    let connect = || {
        let interfaces = [(left.clone(), 0), (left.clone(), 7)];
        Testpmd::between(folder.path(), "client", interfaces)
    };
    let testpmd = connect();
    passes(&node, folder.path());
    carries(&node);
    // The element that has listened for both comes second in this configuration.
    let (first, second) = ("FromDevice(left", "FromDevice(right");
    let at = |text: &str, word| text.find(word).expect("a line of the configuration");
    let (head, rest) = text.split_at(at(&text, first));
    let (left_path, rest) = rest.split_at(at(rest, second));
    let (right_path, tail) = rest.split_at(at(rest, "---"));
    let swapped = format!("{head}{}\n    {}\n{tail}", right_path.trim(), left_path.trim());
    node.run(&["apply", &node.file("swap.yaml", &swapped)]);
    passes(&node, folder.path());
    carries(&node);
    for memif in ["memif0", "memif1"] {
        assert_eq!(node.run(&["read", "red/r1", &format!("{memif}.disconnects")]).trim(), "0");
    }
    // The element also gets later frames.
    testpmd.kill();
    becomes(&node, "memif1.connected", "false");
    let _testpmd = connect();
    passes(&node, folder.path());
}

#[test]
fn a_testpmd_that_listens_is_the_data_plane_also_of_another_node() {
    skip_without!("dpdk-testpmd", "ping", "nsenter");
    let folder = tempfile::tempdir().expect("a folder");
    let node = Node::new(None);
    node.up(&document(folder.path(), false));
    let testpmd = Testpmd::start(folder.path(), "server");
    passes(&node, folder.path());
    carries(&node);
    let testpmd = another(&node, folder.path(), testpmd);
    // The router's connector ends with its node; the next node has its own connector.
    node.kill("node");
    node.up(&document(folder.path(), false));
    passes(&node, folder.path());
    assert_eq!(node.run(&["read", "red/r1", "memif0.disconnects"]).trim(), "1");
    another(&node, folder.path(), testpmd);
}

#[test]
fn without_a_grant_or_inside_the_switch_it_is_refused() {
    skip_without!("nsenter");
    let folder = tempfile::tempdir().expect("a folder");
    let node = Node::new(None);
    let text = document(folder.path(), true);
    let (left, grants) = (path(folder.path(), "left"), "grants:\n");
    let without = text.replace(&format!("- listen: memif {left}\n"), "");
    assert!(without.contains(grants));
    let inline = text
        .replace(&format!("- listen: memif {left}\n"), "")
        .replace(&format!("- listen: memif {}\n", path(folder.path(), "right")), "")
        .replace(grants, "run: inline\n");
    for (text, reason, place) in [
        (without, format!("`grants: [{{listen: memif {left}}}]`"), "refused.yaml:40"),
        (inline, "shares memory with another process".to_owned(), "refused.yaml:"),
        (text.replace("SECRET sesame", "RING_SIZE 3"), "RING_SIZE".to_owned(), "refused.yaml:"),
    ] {
        let output = node.attempt(&["up", &node.file("refused.yaml", &text)]);
        assert!(!output.status.success(), "{reason}");
        let said = output.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(&reason), "{reason} is not in: {}", output.stderr);
        assert!(said.contains(place), "{place} is not in: {}", output.stderr);
    }
}
