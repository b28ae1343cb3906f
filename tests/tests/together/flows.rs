//! Flows along label switched paths, signalled by RSVP-TE and carried by real traffic: the network of
//! `examples/rsvp.yaml`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use europa_tests::{Namespace, Node, Process, Received, skip_without, tshark};
use nix::sys::signal::Signal;
use serde_json::Value;

/// Longest wait for a path, or for its end: some lifetimes of 5.25 s.
const PATIENCE: Duration = Duration::from_secs(30);

fn example() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/rsvp.yaml");
    std::fs::read_to_string(path).expect("the example")
}

/// A flow beside that of the example.
fn flow(name: &str, rest: &str) -> String {
    format!(
        "kind: flow\nname: {name}\nslice: lab\nfrom: head\nto: tail\npath: [north, south]\n{rest}\n"
    )
}

struct Net {
    node: Node,
    ann: Namespace,
    bob: Namespace,
}

impl Net {
    /// Makes the network; returns when its flow is up and the neighbours are known.
    fn new(yaml: &str) -> Net {
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

    fn show(&self, flow: &str) -> Value {
        let output = self.node.run(&["lsp", "show", flow, "--json"]);
        serde_json::from_str(&output).expect("JSON")
    }

    fn is_up(&self, flow: &str) -> bool {
        self.show(flow)["state"] == "up"
    }

    fn hops(&self, flow: &str) -> Vec<String> {
        let shown = self.show(flow);
        let hops = shown["hops"].as_array().cloned().unwrap_or_default();
        hops.iter().filter_map(|hop| Some(hop["router"].as_str()?.to_owned())).collect()
    }

    fn list(&self) -> Value {
        serde_json::from_str(&self.node.run(&["lsp", "list", "--json"])).expect("JSON")
    }

    /// Free bandwidth of an interface, in Mb/s.
    fn left(&self, interface: &str) -> u64 {
        let list = self.list();
        let all = list["interfaces"].as_array().cloned().unwrap_or_default();
        let found = all.iter().find(|one| one["name"] == interface);
        found.and_then(|one| one["left"].as_u64()).expect("an interface") / 1_000_000
    }

    /// Routers that have an entry of a path.
    fn routers_with_paths(&self) -> BTreeSet<String> {
        let list = self.list();
        let all = list["lsps"].as_array().cloned().unwrap_or_default();
        all.iter().filter_map(|one| Some(one["hop"]["router"].as_str()?.to_owned())).collect()
    }

    fn apply(&self, yaml: &str) {
        self.node.run(&["apply", &self.node.file("change.yaml", yaml)]);
    }

    /// Events of a flow: reason and message.
    fn events(&self, flow: &str) -> Vec<String> {
        let lines = self.node.run(&["events"]);
        lines.lines().filter(|line| line.contains(flow)).map(str::to_owned).collect()
    }

    fn wait(&self, what: &str, done: impl Fn() -> bool) {
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
struct Watch {
    process: Process,
    file: PathBuf,
}

impl Watch {
    fn begin(node: &Node, target: &str) -> Watch {
        let file = node.file(&format!("{}.pcapng", target.replace(['/', '.'], "-")), "");
        let mut process = node.start(&["capture", target, "-w", &file]);
        process.wait_for("end with Ctrl-C", Duration::from_secs(5)).expect("a capture");
        Watch { process, file: file.into() }
    }

    /// Ends the capture, and returns its file.
    fn end(self) -> PathBuf {
        self.process.signal(Signal::SIGINT);
        self.process.wait(Duration::from_secs(10)).expect("the capture ends");
        self.file
    }
}

#[test]
fn a_flow_carries_packets_with_labels_that_every_router_has_handed_out() {
    skip_without!("ping", "iperf3", "tshark");
    let net = Net::new(&example());
    assert_eq!(net.hops("voice"), ["head", "north", "south", "tail"]);
    let shown = net.show("voice");
    let label = |hop: usize, of: &str| shown["hops"][hop][of].as_u64();
    assert_eq!(label(0, "label_out"), label(1, "label_in"));
    assert_eq!(label(1, "label_out"), label(2, "label_in"));
    assert_eq!(label(2, "label_out"), Some(3), "the last router but one takes the label off");
    for interface in ["lab/head.north", "lab/north.south", "lab/south.tail"] {
        assert_eq!(net.left(interface), 30, "{interface}");
    }
    assert_eq!(net.left("lab/head.south"), 50);
    let watch = Watch::begin(&net.node, "lab/north.south");
    let ping = net.ann.ping_exactly("10.9.2.2", 50, &[]).expect("a ping");
    assert!(ping.is_perfect(), "{ping:?}");
    let file = watch.end();
    let fields = ["mpls.label", "mpls.ttl", "ip.dst"];
    let labelled = tshark(&file, "mpls && icmp", &fields).expect("a capture");
    assert_eq!(labelled.len(), 50, "{labelled:?}");
    let wanted = label(1, "label_out").expect("a label").to_string();
    assert!(labelled.iter().all(|line| line[0] == wanted && line[2] == "10.9.2.2"), "{labelled:?}");
    let _server = net.bob.iperf_server().expect("a server");
    let tcp = net.ann.iperf("10.9.2.2", 3, &[]).expect("a result");
    println!("TCP over 20 Mb/s: {:.1} Mb/s", tcp.bits_per_second / 1e6);
    assert!((8e6..21e6).contains(&tcp.bits_per_second), "{tcp:?}");
}

#[test]
fn another_path_is_made_before_the_old_one_is_broken() {
    skip_without!("ping", "tshark");
    let text = example();
    let net = Net::new(&text);
    let sink = net.bob.sink("10.9.2.2:7000", 1).expect("a sink");
    let stream = net.ann.stream("10.9.2.2:7000", 1, 1000, 200).expect("a stream").paced_by(&sink);
    for (path, hops) in [
        ("[south]", vec!["head", "south", "tail"]),
        ("[north]", vec!["head", "north", "tail"]),
        ("[south, north]", vec!["head", "south", "north", "tail"]),
        ("[north, south]", vec!["head", "north", "south", "tail"]),
    ] {
        let sent = stream.sent();
        net.apply(&text.replace("path: [north, south]", &format!("path: {path}")));
        net.wait(path, || net.hops("voice") == hops && net.is_up("voice"));
        net.wait("packets on the new path", || stream.sent() > sent + 500);
    }
    let sent = stream.stop();
    std::thread::sleep(Duration::from_millis(300));
    let received = sink.stop(sent);
    println!("{sent} packets while the path changed four times: {received:?}");
    // Packets on the old path may arrive after the first ones on the new path.
    let in_order = Received { late: 0, ..received.clone() };
    assert!(in_order.is_perfect() && received.late <= 40, "of {sent}: {received:?}");
    // The bandwidth of removed paths is free again.
    net.wait("old reservations go", || {
        net.left("lab/head.south") == 50 && net.left("lab/north.tail") == 50
    });
    assert_eq!(net.left("lab/north.south"), 30);
}

#[test]
fn what_does_not_fit_is_refused_with_the_rfcs_error() {
    skip_without!("ping");
    let net = Net::new(&example());
    net.apply(&flow("video", "bandwidth: 40Mb/s"));
    net.wait("an error", || net.show("video")["error"]["code"] == 1);
    let shown = net.show("video");
    assert_eq!((&shown["state"], &shown["error"]["value"]), (&"down".into(), &2.into()));
    assert_eq!(shown["error"]["router"], "head");
    let text = net.node.run(&["lsp", "show", "video"]);
    assert!(text.contains("bandwidth is not available at head (error 1/2)"), "{text}");
    // A router on the way with less bandwidth refuses the flow.
    net.apply(&flow("other", "bandwidth: 25Mb/s").replace("[north, south]", "[south, north]"));
    net.wait("another path is up", || net.is_up("other"));
    net.apply(&flow("third", "bandwidth: 26Mb/s").replace("[north, south]", "[north]"));
    net.wait("an error on the way", || net.show("third")["error"]["router"] == "north");
    // A change that does not fit leaves the flow unchanged.
    net.apply(&example().replace("bandwidth: 20Mb/s", "bandwidth: 60Mb/s"));
    net.wait("an error", || net.show("voice")["error"]["code"] == 1);
    assert!(net.is_up("voice") && net.left("lab/north.south") == 30);
    assert!(net.ann.ping("10.9.2.2", 20, &[]).expect("a ping").is_perfect());
}

#[test]
fn a_better_priority_preempts() {
    skip_without!("ping");
    let net = Net::new(&example());
    let ends = ["--slice", "lab", "--from", "head", "--to", "tail"];
    let create = [&["lsp", "create", "urgent", "--bandwidth", "40Mb/s"], &ends[..]].concat();
    net.node.run(&create);
    // The routes lead to the north, which has no free bandwidth.
    net.wait("it is up by another path", || net.is_up("urgent"));
    assert_eq!(net.hops("urgent"), ["head", "south", "north", "tail"]);
    assert!(net.is_up("voice"));
    let again = net.node.attempt(&create);
    assert!(again.stderr.contains("`europa lsp change urgent`"), "{}", again.stderr);
    let told = net.node.run(&["lsp", "change", "urgent", "--path", "north,south", "--setup", "1"]);
    assert!(told.contains("setup") && !told.contains("bandwidth"), "{told}");
    net.wait("the better one is up", || net.is_up("urgent") && net.hops("urgent").len() == 4);
    net.wait("the other one is down", || !net.is_up("voice"));
    let said = net.events("voice");
    assert!(said.iter().any(|line| line.contains("2/5")), "{said:?}");
    // While it is down, its packets are dropped and counted.
    let ping = net.ann.ping("10.9.2.2", 5, &[]).expect("a ping");
    assert_eq!(ping.received, 0, "{ping:?}");
    let drops = net.node.run(&["read", "lab/head", "labels.drops"]);
    let dropped = drops.lines().find(|line| line.ends_with("flow is down"));
    let dropped: Option<u64> = dropped.and_then(|line| line.split(' ').next()?.parse().ok());
    assert!(dropped >= Some(5), "{drops}");
    net.node.run(&["lsp", "delete", "urgent"]);
    net.wait("it comes back", || net.is_up("voice"));
    assert!(net.ann.ping("10.9.2.2", 20, &[]).expect("a ping").is_perfect());
}

#[test]
fn state_ends_when_its_head_has_died_in_silence() {
    skip_without!("ping");
    // Without Hello, only the lifetime ends the path.
    let net = Net::new(&example().replace("refresh: 1s", "refresh: 1s, hello: 0s"));
    let pid = net.node.process("lab/head");
    let kill = |signal: &str| europa_tests::run(&["kill", signal, &pid.to_string()]).expect("kill");
    kill("-STOP");
    let begun = Instant::now();
    net.wait("north and south forget", || {
        let there = net.routers_with_paths();
        !there.contains("north") && !there.contains("south")
    });
    let took = begun.elapsed();
    println!("forgotten after {took:?}");
    // The lifetime is 5.25 s from the last refresh, which came up to 1.5 s before.
    assert!((3.0..8.0).contains(&took.as_secs_f64()), "{took:?}");
    assert_eq!((net.left("lab/north.south"), net.left("lab/south.tail")), (50, 50));
    kill("-CONT");
    net.wait("the head is back", || net.is_up("voice") && net.hops("voice").len() == 4);
    assert!(net.ann.ping("10.9.2.2", 20, &[]).expect("a ping").is_perfect());
}

#[test]
fn the_data_plane_outlives_its_signaller_and_its_node() {
    skip_without!("ping");
    let text = example();
    let net = Net::new(&text);
    let sink = net.bob.sink("10.9.2.2:7000", 1).expect("a sink");
    let stream = net.ann.stream("10.9.2.2:7000", 1, 1000, 200).expect("a stream").paced_by(&sink);
    let before = net.node.kill("signaller");
    let is_new = |pid: i32| net.node.processes().iter().all(|one| one.cast_signed() != pid);
    net.wait("the signaller is gone", || is_new(before));
    net.wait("it is up again", || {
        net.node.attempt(&["lsp", "show", "voice"]).status.success()
            && net.is_up("voice")
            && net.hops("voice").len() == 4
    });
    // By then, state that the router has not learned again would have ended.
    std::thread::sleep(Duration::from_secs(8));
    assert!(net.is_up("voice"));
    let signaller = net.node.process("signaller");
    net.node.kill("node");
    net.node.up(&text);
    net.wait("the flow is up", || net.is_up("voice"));
    assert_eq!(net.node.process("signaller"), signaller, "it was adopted");
    let sent = stream.stop();
    std::thread::sleep(Duration::from_millis(300));
    let received = sink.stop(sent);
    println!("{sent} packets while signaller and node were killed: {received:?}");
    assert!(received.is_perfect(), "of {sent}: {received:?}");
}

#[test]
fn no_message_is_malformed_for_tsharks_dissector() {
    skip_without!("ping", "tshark");
    let text = example();
    let net = Net::new(&text);
    let watched = ["lab/north.head", "lab/north.south", "lab/south.tail"];
    let watches: Vec<Watch> =
        watched.iter().map(|target| Watch::begin(&net.node, target)).collect();
    net.apply(&text.replace("path: [north, south]", "path: [south]"));
    net.wait("another path", || net.hops("voice") == ["head", "south", "tail"]);
    net.apply(&text);
    net.wait("the old path", || net.hops("voice").len() == 4);
    net.apply(&flow("urgent", "bandwidth: 40Mb/s\nsetup: 1"));
    net.wait("preempted", || net.is_up("urgent") && !net.is_up("voice"));
    net.node.run(&["delete", "flow", "urgent"]);
    net.wait("it comes back", || net.is_up("voice"));
    let mut kinds = BTreeSet::new();
    for watch in watches {
        let file = watch.end();
        let all = tshark(&file, "rsvp", &["rsvp.msg", "_ws.malformed", "_ws.expert.message"]);
        for line in all.expect("a capture") {
            assert!(line[1].is_empty(), "{line:?}");
            kinds.extend(line[0].split(',').map(str::to_owned));
        }
    }
    println!("messages: {kinds:?}");
    // The capture has at least Path, Resv, PathTear and Hello.
    for kind in ["1", "2", "5", "20"] {
        assert!(kinds.contains(kind), "no message {kind} in {kinds:?}");
    }
}

/// Frames that a host sends on an interface that signals: messages with changed bytes, and messages
/// in the name of routers.
const GARBAGE: &str = "
import random, struct
random.seed(7)
def message(kind, body):
    length = 8 + len(body)
    head = struct.pack('!BBHBBH', 0x10, kind, 0, 9, 0, length)
    check = checksum(head + body)
    return head[:2] + struct.pack('!H', check) + head[4:] + body
def thing(number, kind, body):
    return struct.pack('!HBB', 4 + len(body), number, kind) + body
session = thing(1, 7, bytes([10, 1, 4, 2, 0, 0, 0, 9, 10, 9, 1, 2]))
hop = thing(3, 1, bytes([10, 9, 1, 2, 0, 0, 0, 1]))
times = thing(5, 1, struct.pack('!I', 1000))
request = thing(19, 1, struct.pack('!HH', 0, 0x800))
sender = thing(11, 7, bytes([10, 9, 1, 2, 0, 0, 0, 1]))
bucket = struct.pack('!fffII', 1e5, 1e4, 1e9, 64, 1400)
traffic = thing(12, 2, struct.pack('!HHBBHBBH', 0, 7, 1, 0, 6, 127, 0, 5) + bucket)
path = session + hop + times + request + sender + traffic
frames = []
for number in range(1500):
    body = bytearray(path)
    for _ in range(random.randrange(6)):
        body[random.randrange(len(body))] = random.randrange(256)
    kind = random.choice([1, 1, 2, 3, 4, 5, 6, 7, 12, 13, 15, 20, 77])
    body = bytes(body[:len(body) - 4 * random.randrange(4)])
    data = message(kind, body) if number % 3 else bytes(body)
    frames.append(Ether(dst=MAC) / IP(src='10.9.1.2', dst='10.1.4.2', proto=46, ttl=9) / Raw(data))
    frames.append(Ether(dst=MAC, type=0x8847) / Raw(bytes(random.randrange(256) for _ in range(60))))
sendp(frames, iface='eth0')
print(len(frames))
";

#[test]
fn garbage_of_a_host_harms_nobody() {
    skip_without!("ping");
    let signals =
        "addresses: [10.9.1.1/24], signalling: {rsvp_te: {refresh: 1s, bandwidth: 9Mb/s}}";
    let net = Net::new(&example().replace("addresses: [10.9.1.1/24]", signals));
    let [signaller, head] = ["signaller", "lab/head"].map(|role| net.node.process(role));
    let neighbours = net.ann.ip(&["neigh", "show", "10.9.1.1"]).expect("a neighbour").stdout;
    let mac = neighbours.split_whitespace().skip_while(|word| *word != "lladdr").nth(1);
    let mac = mac.expect("the router's Ethernet address");
    let sent = net.ann.scapy(&format!("MAC = '{mac}'\n{GARBAGE}")).expect("scapy");
    assert_eq!(sent.trim(), "3000");
    assert!(net.ann.ping("10.9.2.2", 20, &[]).expect("a ping").is_perfect());
    let counted = net.node.run(&["read", "lab/head", "labels.drops"]);
    println!("{counted}");
    // The state that the host has made ends with its lifetime.
    net.wait("all state of the host goes", || {
        let list = net.list();
        let all = list["lsps"].as_array().cloned().unwrap_or_default();
        net.is_up("voice") && all.iter().all(|one| one["from"] == "10.9.1.1")
    });
    assert_eq!([signaller, head], ["signaller", "lab/head"].map(|role| net.node.process(role)));
    assert_eq!(net.left("lab/head.north"), 30);
    assert!(net.ann.ping("10.9.2.2", 20, &[]).expect("a ping").is_perfect());
}

#[test]
fn mistakes_in_documents_are_told_with_their_place() {
    skip_without!();
    let node = Node::new(None);
    let text = example();
    for (from, to, wanted) in [
        ("from: head", "from: hed", "slice \"lab\" has no router \"hed\""),
        ("to: tail", "to: head", "a flow ends where it begins"),
        ("setup: 4", "setup: 4\nhold: 5", "`hold` 5 is weaker than `setup` 4"),
        ("setup: 4", "setup: 8", "a priority is 0 (best) to 7"),
        ("rate: 50Mb/s", "delay: 1ms", "what may be reserved of this interface is not known"),
        (
            "kind: router\nname: north\nslice: lab\n",
            "kind: router\nname: north\nslice: lab\nrun: inline\n",
            "a router inside the switch or in the kernel does not signal flows",
        ),
        (
            "fast_path:\n  builtin: ipv4\n  routes:\n    - {to: 0.0.0.0/0, via: 10.1.1.2}",
            "fast_path: {click: Idle}",
            "a router that signals flows runs `builtin: ipv4`",
        ),
        (
            "kind: router\nname: tail\nslice: lab\n",
            "kind: router\nname: tail\nslice: lab\nslow_path: {}\n",
            "a router with a slow path does not signal flows",
        ),
        (
            "refresh: 1s}}}\n  south: {link: head-south",
            "refresh: 2s}}}\n  south: {link: head-south",
            "interfaces of a router have the same `refresh`",
        ),
    ] {
        assert!(text.contains(from), "{from}");
        let file = node.file("wrong.yaml", &text.replace(from, to));
        let output = node.attempt(&["up", &file]);
        assert!(output.stderr.contains(wanted), "{to}: {}", output.stderr);
    }
}
