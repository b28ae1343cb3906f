//! Links between two nodes in two namespaces, joined by a veth pair: real traffic, kills, changes in
//! place, and forged packets.

use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{Lab, Namespace, Node, skip_without};
use serde_json::Value;

const KEYS: [&str; 2] = ["0123456789abcdef", "fedcba9876543210"];

/// Sends packets of a link. Each line of the arguments has epoch, key, number of the link, and the
/// damage of the packet.
const FORGE: &str = r#"
import socket, struct, sys
to, port = sys.argv[1], int(sys.argv[2])
s = socket.socket(socket.AF_INET6 if ":" in to else socket.AF_INET, socket.SOCK_DGRAM)
frame = bytes.fromhex("ffffffffffff0200000000010800") + bytes(46)
for line in sys.argv[3:]:
    epoch, key, link, how = line.split(",")
    options = struct.pack("!HBBQQII", 0xff45, 0x81, 6, int(key, 16), int(epoch), 77, 1)
    if how == "option": options = struct.pack("!HBBQQI", 0xff45, 0x81, 5, int(key, 16), int(epoch), 77)
    if how == "part": options += struct.pack("!HBBBBH", 0xff45, 0x82, 1, 5, 2, 1514)
    packet = struct.pack("!BBHI", len(options) // 4, 0x40, 0x6558, int(link) << 8) + options + frame
    if how == "long": packet += bytes(5000)
    if how == "short": packet = packet[:20]
    s.sendto(packet, (to, port))
"#;

/// ```text
///  a 10.1.0.2 ── s/r1 10.9.0.1 ══ 192.0.2.1 [n1] ── [n2] 192.0.2.2 ══ 10.9.0.2 s/r2 ── b 10.2.0.2
/// ```
struct Net {
    nodes: [Node; 2],
    around: [Namespace; 2],
    _lab: Lab,
}

/// The fields of a tunnel of node 0 or 1.
fn tunnel(at: usize, (local, remote): (&str, &str), epoch: u64, keys: [&str; 2]) -> String {
    let ends = [local, remote];
    format!(
        "tunnel: {{local: \"{}\", remote: \"{}\", id: 7, epoch: {epoch}, send_key: \"{}\", \
         receive_key: \"{}\"}}\n",
        ends[at],
        ends[1 - at],
        keys[at],
        keys[1 - at]
    )
}

const V4: (&str, &str) = ("192.0.2.1", "192.0.2.2");
const V6: (&str, &str) = ("2001:db8::1", "2001:db8::2");

/// A node with a host behind a router, whose other interface is on the link.
fn routed(at: usize, tunnel: &str, run: &str) -> String {
    let (own, other, name) = (at + 1, 2 - at, ["a", "b"][at]);
    format!(
        "kind: slice\nname: s\n---\nkind: link\nname: core\n{tunnel}---\n\
         kind: host\nname: {name}\ngateway: [10.{own}.0.1, \"fd0{own}::1\"]\n\
         interfaces: {{e: {{link: lan, addresses: [10.{own}.0.2/24, \"fd0{own}::2/64\"]}}}}\n---\n\
         kind: router\nname: r{own}\nslice: s\nrun: {run}\ninterfaces:\n  \
         lan: {{link: lan, addresses: [10.{own}.0.1/24, \"fd0{own}::1/64\"]}}\n  \
         core: {{link: core, addresses: [10.9.0.{own}/24, \"fd09::{own}/64\"]}}\n\
         fast_path:\n  builtin: ipv4\n  routes:\n  \
         - {{to: 10.{other}.0.0/24, via: 10.9.0.{other}}}\n  \
         - {{to: \"fd0{other}::/64\", via: \"fd09::{other}\"}}\n"
    )
}

/// A node with a host that is itself at the end of the link.
fn direct(at: usize, tunnel: &str) -> String {
    let (own, name) = (at + 1, ["a", "b"][at]);
    format!(
        "kind: link\nname: core\n{tunnel}---\nkind: host\nname: {name}\n\
         interfaces: {{e: {{link: core, addresses: [10.9.0.{own}/24, \"fd09::{own}/64\"]}}}}\n"
    )
}

impl Net {
    fn new() -> Net {
        let mut lab = Lab::new().expect("a lab");
        let around = ["n1", "n2"].map(|name| lab.namespace(name).expect("a namespace"));
        lab.veth((&around[0], "eth0"), (&around[1], "eth0")).expect("a line");
        for (at, number) in around.iter().zip(1..) {
            at.address("eth0", &format!("192.0.2.{number}/24")).expect("an address");
            at.address("eth0", &format!("2001:db8::{number}/64")).expect("an address");
        }
        let nodes = [Node::new(Some(&around[0])), Node::new(Some(&around[1]))];
        Net { nodes, around, _lab: lab }
    }

    fn host(&self, at: usize) -> Namespace {
        self.nodes[at].host(["a", "b"][at])
    }

    fn apply(&self, at: usize, text: &str) -> String {
        self.nodes[at].run(&["apply", &self.nodes[at].file("node.yaml", text)])
    }

    /// The counters of the link at a node.
    fn link(&self, at: usize) -> Value {
        self.nodes[at].stats()["tunnels"][0].clone()
    }

    fn dropped(&self, at: usize, cause: &str) -> u64 {
        let drops = self.link(at)["drops"].as_array().cloned().unwrap_or_default();
        let found = drops.iter().find(|drop| drop[0] == cause);
        found.and_then(|drop| drop[1].as_u64()).unwrap_or(0)
    }

    /// Sends forged packets from node 1's addresses to node 0.
    fn forge(&self, to: &str, lines: &[String]) {
        let mut argv = vec!["python3", "-c", FORGE, to, "6081"];
        argv.extend(lines.iter().map(String::as_str));
        self.around[1].run(&argv).expect("python");
    }

    /// Pings until there is an answer: Linux resolves new neighbours meanwhile.
    fn settle(&self, to: &str) {
        let begin = Instant::now();
        while self.host(0).ping(to, 1, &[]).expect("a ping").received == 0 {
            assert!(begin.elapsed() < Duration::from_secs(20), "nothing comes over the link");
            sleep(Duration::from_millis(50));
        }
    }

    /// Sockets at the tunnels' port in a node's namespace.
    fn sockets(&self, at: usize) -> usize {
        let listed = self.around[at].run(&["ss", "-Huan", "sport = :6081"]).expect("ss");
        listed.stdout.lines().count()
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

#[test]
fn routers_on_two_nodes_are_joined_by_a_link() {
    skip_without!("python3", "ping", "ss");
    let net = Net::new();
    for at in [0, 1] {
        let run = ["isolated", "inline"][at];
        net.nodes[at].up(&routed(at, &tunnel(at, V4, 3, KEYS), run));
    }
    net.settle("10.2.0.2");
    net.settle("fd02::2");
    for to in ["10.2.0.2", "fd02::2"] {
        let ping = net.host(0).ping(to, 50, &[]).expect("a ping");
        assert!(ping.is_perfect(), "{to}: {ping:?}");
        // The underlay does not carry these frames as a whole.
        let size = if to.contains(':') { "1452" } else { "1472" };
        let ping = net.host(0).ping(to, 50, &["-M", "do", "-s", size]).expect("a ping");
        assert!(ping.is_perfect(), "{to}, 1500 bytes: {ping:?}");
        eprintln!("{to}: {:?} for 1500 bytes", ping.median());
    }
    let link = net.link(0);
    assert!(number(&link["tx_packets"]) >= number(&link["tx_frames"]) + 100, "{link}");
    assert_eq!(number(&link["lost"]) + number(&link["reordered"]), 0, "{link}");

    longer_and_shorter(&net);
    let before = [net.nodes[0].process("router"), net.nodes[0].process("switch")];
    let sink = net.host(1).sink("10.2.0.2:5000", 1).expect("a sink");
    let stream = net.host(0).stream("10.2.0.2:5000", 1, 3000, 1400).expect("a stream");
    let stream = stream.paced_by(&sink);
    sleep(Duration::from_millis(300));
    // The node is killed and comes back.
    let file = net.nodes[0].file("node.yaml", &routed(0, &tunnel(0, V4, 3, KEYS), "isolated"));
    net.nodes[0].kill("node");
    sleep(Duration::from_millis(100));
    net.nodes[0].run(&["up", &file]);
    // Epoch and keys change, on one side after the other.
    net.apply(0, &routed(0, &tunnel(0, V4, 4, KEYS), "isolated"));
    net.apply(1, &routed(1, &tunnel(1, V4, 4, KEYS), "inline"));
    sleep(Duration::from_millis(300));
    let sent = stream.stop();
    let received = sink.stop(sent);
    eprintln!("kill of the node and two changes: {sent} packets, {received:?}");
    assert!(received.is_perfect(), "{received:?}");
    assert_eq!(before, [net.nodes[0].process("router"), net.nodes[0].process("switch")]);
    let events = net.nodes[0].run(&["events"]);
    assert!(events.contains("Adopted") && !events.contains("NotAdopted"), "{events}");

    // The switch is killed, and the next one has the same socket.
    net.nodes[0].kill("switch");
    net.settle("10.2.0.2");
    let ping = net.host(0).ping("10.2.0.2", 20, &["-s", "1472"]).expect("a ping");
    assert!(ping.is_perfect(), "{ping:?}");
    assert_eq!(before[0], net.nodes[0].process("router"));
    net.nodes[1].kill("switch");
    net.settle("10.2.0.2");

    // Nothing of the link is left after its removal.
    net.nodes[0].run(&["delete", "link", "core"]);
    assert_eq!(before[0], net.nodes[0].process("router"), "in place");
    let begin = Instant::now();
    while net.sockets(0) > 0 {
        assert!(begin.elapsed() < Duration::from_secs(10), "a socket is left");
        sleep(Duration::from_millis(100));
    }
    assert_eq!(net.nodes[0].stats()["tunnels"], Value::Array(Vec::new()));
    net.apply(0, &routed(0, &tunnel(0, V4, 4, KEYS), "isolated"));
    net.settle("10.2.0.2");
}

/// The underlay carries longer packets from now on, then shorter ones.
fn longer_and_shorter(net: &Net) {
    let split = |size: &str| {
        let of = |link: Value| number(&link["tx_packets"]) - number(&link["tx_frames"]);
        let before = of(net.link(0));
        let ping = net.host(0).ping("10.2.0.2", 20, &["-M", "do", "-s", size]).expect("a ping");
        (ping.is_perfect(), of(net.link(0)) - before)
    };
    for (mtu, wanted) in [(1600, 0), (1300, 20)] {
        net.around.iter().for_each(|at| at.mtu("eth0", mtu).expect("an MTU"));
        let begin = Instant::now();
        while split("1472") != (true, wanted) {
            assert!(begin.elapsed() < Duration::from_secs(10), "MTU {mtu}");
            sleep(Duration::from_millis(100));
        }
    }
}

#[test]
fn forged_packets_are_dropped_and_counted() {
    skip_without!("python3", "ping");
    let net = Net::new();
    for at in [0, 1] {
        net.nodes[at].up(&routed(at, &tunnel(at, V4, 3, KEYS), "isolated"));
    }
    net.settle("10.2.0.2");
    let frames = number(&net.link(0)["rx_frames"]);
    // Node 0 accepts the second key.
    let key = KEYS[1];
    let wrong = [
        (format!("3,{},7,", KEYS[0]), 5),
        (format!("2,{key},7,"), 6),
        (format!("3,{key},8,"), 7),
        (format!("3,{key},7,short"), 8),
        (format!("3,{key},7,option"), 9),
        (format!("3,{key},7,part"), 1),
        (format!("3,{key},7,long"), 1),
    ];
    let lines: Vec<String> =
        wrong.iter().flat_map(|(line, times)| vec![line.clone(); *times]).collect();
    net.forge(V4.0, &lines);
    let begin = Instant::now();
    let counted = || {
        let switch = &net.nodes[0].stats()["switch"];
        [
            net.dropped(0, "wrong key"),
            net.dropped(0, "lower epoch"),
            number(&switch["foreign_packets"]),
            number(&switch["malformed_packets"]),
        ]
    };
    while counted() != [5, 6, 7, 17] {
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", counted());
        sleep(Duration::from_millis(50));
    }
    // The packets have a part that no sender makes, and the same number again.
    assert_eq!(net.dropped(0, "impossible part of a frame"), 1, "{}", net.link(0));
    assert_eq!(net.dropped(0, "twice or too late"), 1, "{}", net.link(0));
    let now = number(&net.link(0)["rx_frames"]);
    assert!(now <= frames + 4, "{frames} frames before, {now} now: forged ones were taken");
    let ping = net.host(0).ping("10.2.0.2", 20, &[]).expect("a ping");
    assert!(ping.is_perfect(), "{ping:?}");
    // The packet has the right key and epoch, and an address that is not the other node's.
    net.around[1].address("eth0", "192.0.2.9/24").expect("an address");
    net.around[1]
        .ip(&["route", "replace", "192.0.2.1", "dev", "eth0", "src", "192.0.2.9"])
        .expect("a route");
    net.forge(V4.0, &[format!("3,{key},7,")]);
    let begin = Instant::now();
    while counted()[2] != 8 {
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", counted());
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn hosts_on_two_nodes_are_joined_by_a_link() {
    skip_without!("ping");
    let net = Net::new();
    for at in [0, 1] {
        net.nodes[at].up(&direct(at, &tunnel(at, V6, 0, KEYS)));
    }
    net.settle("10.9.0.2");
    for to in ["10.9.0.2", "fd09::2"] {
        let size = if to.contains(':') { "1452" } else { "1472" };
        let ping = net.host(0).ping(to, 50, &["-M", "do", "-s", size]).expect("a ping");
        assert!(ping.is_perfect(), "{to}: {ping:?}");
    }
    // An effect acts once, at the sender.
    let delayed = format!("delay: 20ms\n{}", tunnel(0, V6, 0, KEYS));
    net.apply(0, &direct(0, &delayed));
    let ping = net.host(0).ping("10.9.0.2", 10, &[]).expect("a ping");
    let median = ping.median().expect("answers");
    assert!((20..40).contains(&median.as_millis()), "{median:?}");
    for at in [0, 1] {
        net.apply(at, &direct(at, &tunnel(at, V6, 1, KEYS)));
    }
    let sink = net.host(0).sink("10.9.0.1:5000", 1).expect("a sink");
    let stream = net.host(1).stream("10.9.0.1:5000", 1, 3000, 200).expect("a stream");
    let stream = stream.paced_by(&sink);
    sleep(Duration::from_millis(200));
    let file = net.nodes[0].file("node.yaml", &direct(0, &tunnel(0, V6, 1, KEYS)));
    net.nodes[0].kill("node");
    net.nodes[0].run(&["up", &file]);
    sleep(Duration::from_millis(200));
    let sent = stream.stop();
    let received = sink.stop(sent);
    assert!(received.is_perfect(), "{received:?}");
    net.nodes[0].kill("switch");
    net.settle("10.9.0.2");
    // Linux still gets packets for the node's own address.
    let ping = net.around[1].ping(V6.0, 5, &[]).expect("a ping");
    assert!(ping.is_perfect(), "{ping:?}");
}

#[test]
fn a_tunnel_that_cannot_be_is_refused_with_place_and_remedy() {
    skip_without!("python3");
    let net = Net::new();
    let text = routed(0, &tunnel(0, ("192.0.2.77", V4.1), 0, KEYS), "isolated");
    let output = net.nodes[0].attempt(&["up", &net.nodes[0].file("node.yaml", &text)]);
    let told = output.stdout + &output.stderr;
    assert!(!output.status.success(), "{told}");
    assert!(told.contains("this machine has no address 192.0.2.77"), "{told}");
    assert!(told.contains("local"), "{told}");
    let take = "import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); \
                s.bind(('192.0.2.1', 6081)); print('bound', flush=True); time.sleep(60)";
    let _other = net.around[0].start(&["python3", "-c", take]).expect("python");
    let begin = Instant::now();
    while net.sockets(0) == 0 {
        assert!(begin.elapsed() < Duration::from_secs(10), "no socket");
        sleep(Duration::from_millis(20));
    }
    let text = routed(0, &tunnel(0, V4, 0, KEYS), "isolated");
    let output = net.nodes[0].attempt(&["up", &net.nodes[0].file("node.yaml", &text)]);
    let told = output.stdout + &output.stderr;
    assert!(
        !output.status.success() && told.contains("UDP port 6081 of 192.0.2.1 is in use"),
        "{told}"
    );
}
