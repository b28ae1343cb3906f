//! Changes affect only the objects that they concern: hosts, links and ports change while numbered
//! packets pass beside them. A change that fails half-way leaves the former state.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::thread::sleep;
use std::time::Duration;

use europa_tests::{Lab, Namespace, Node, Received, Sink, Stream, skip_without};
use serde_json::Value;

const RATE: u32 = 5_000;

/// Hosts `a` and `b` on the two sides of two routers, and `c` beside `a`. `a` and `wan` are further
/// fields of the links' documents.
fn topology(a: &str, wan: &str) -> String {
    let mut text = format!(
        "kind: slice\nname: lab\n---\nkind: link\nname: wan\n{wan}\n---\n\
         kind: link\nname: a\n{a}\n---\n\
         kind: router\nname: west\nslice: lab\ninterfaces:\n\
         \x20 a: {{link: a, addresses: [10.0.1.1/24]}}\n\
         \x20 c: {{link: c, addresses: [10.0.3.1/24]}}\n\
         \x20 wan: {{link: wan}}\n\
         fast_path: {{builtin: ipv4, routes: [{{to: 10.0.2.0/24, interface: wan}}]}}\n---\n\
         kind: router\nname: east\nslice: lab\ninterfaces:\n\
         \x20 b: {{link: b, addresses: [10.0.2.1/24]}}\n\
         \x20 wan: {{link: wan}}\n\
         fast_path: {{builtin: ipv4, routes: [{{to: 0.0.0.0/0, interface: wan}}]}}\n"
    );
    for (host, net) in [("a", 1), ("b", 2), ("c", 3)] {
        text += &format!(
            "---\nkind: host\nname: {host}\ngateway: 10.0.{net}.1\n\
             interfaces: {{eth0: {{link: {host}, addresses: [10.0.{net}.2/24]}}}}\n"
        );
    }
    text
}

/// Brings everything up; returns when the neighbours are known.
fn up(text: &str) -> Node {
    let node = Node::new(None);
    node.up(text);
    let known = (0..20).any(|_| {
        let [a, c] = ["a", "c"].map(|host| node.host(host));
        let pings = [a.ping("10.0.2.2", 1, &[]), c.ping("10.0.2.2", 1, &[])];
        pings.into_iter().all(|ping| ping.expect("a ping").received == 1)
    });
    assert!(known, "nobody answers");
    node
}

/// Numbered packets from `a` to `b`, and the packets that the hosts' ends had dropped before.
struct Load {
    ends: [Namespace; 2],
    sink: Sink,
    stream: Stream,
    dropped: u64,
}

/// Packets that the hosts' own ends dropped. On a busy machine, their rings of 256 packets overflow
/// before the packets reach Europa.
fn dropped([a, b]: &[Namespace; 2]) -> u64 {
    let count = |host: &Namespace, counter| host.counter("eth0", counter).unwrap_or_default();
    count(a, "tx_dropped") + count(b, "rx_dropped")
}

impl Load {
    fn begin(node: &Node) -> Load {
        let ends = ["a", "b"].map(|host| node.host(host));
        let dropped = dropped(&ends);
        let sink = ends[1].sink("10.0.2.2:5000", 1).expect("a sink");
        let stream =
            ends[0].stream("10.0.2.2:5000", 1, RATE, 64).expect("a stream").paced_by(&sink);
        sleep(Duration::from_millis(300));
        assert!(sink.packets() > 500, "only {} packets", sink.packets());
        Load { ends, sink, stream, dropped }
    }

    fn end(self, what: &str) -> Received {
        sleep(Duration::from_millis(300));
        let sent = self.stream.stop();
        sleep(Duration::from_millis(100));
        let mut received = self.sink.stop(sent);
        let dropped = dropped(&self.ends) - self.dropped;
        eprintln!(
            "{what}: {} of {sent} lost, {} late, {dropped} dropped by the hosts, longest gap {:?}",
            received.lost, received.late, received.longest_gap
        );
        received.lost = received.lost.saturating_sub(dropped);
        received
    }
}

/// Process ids of routers.
fn pids(node: &Node) -> Vec<(String, u64)> {
    let routers = node.stats()["routers"].as_array().cloned().unwrap_or_default();
    let one = |router: &Value| {
        (
            router["name"].as_str().unwrap_or_default().to_owned(),
            router["pid"].as_u64().unwrap_or(0),
        )
    };
    routers.iter().map(one).collect()
}

fn inode(host: &Namespace) -> u64 {
    fs::metadata(host.path()).expect("a namespace").ino()
}

fn apply(node: &Node, text: &str) -> String {
    node.run(&["apply", &node.file("changed.yaml", text)])
}

#[test]
fn what_links_do_changes_in_place() {
    skip_without!("ping");
    let node = up(&topology("", ""));
    let before = pids(&node);
    let load = Load::begin(&node);
    // With a longer delay no packet overtakes another; the last changes remove everything again.
    for (a, wan, changed) in [
        ("", "delay: 2ms", "wan"),
        ("", "delay: 4ms\nrate: 100Mb/s", "wan"),
        ("a: a\na_to_b: {delay: 3ms}", "delay: 4ms\nrate: 100Mb/s", "a"),
        ("a: a\na_to_b: {delay: 5ms}\nb_to_a: {loss: 1%}", "delay: 4ms\nrate: 100Mb/s", "a"),
        ("a: a\na_to_b: {delay: 5ms}\nb_to_a: {loss: 1%}", "", "wan"),
        ("", "", "a"),
    ] {
        let told = apply(&node, &topology(a, wan));
        assert!(told.contains(&format!("~ link {changed} (in place)")), "{told}");
        assert!(told.contains("0 added, 1 changed, 0 removed"), "{told}");
        sleep(Duration::from_millis(200));
    }
    let received = load.end("what two links do changed six times");
    assert_eq!((received.lost, received.duplicates, received.corrupted), (0, 0, 0), "{received:?}");
    // No packet overtakes another, except at the moment in which a line ends.
    assert!(received.late <= 5, "{received:?}");
    assert_eq!(pids(&node), before, "no router was restarted");
    // The change has its effect: the delays of 20 ms and twice 10 ms add up to 40 ms.
    apply(&node, &topology("a: a\na_to_b: {delay: 20ms}", "delay: 10ms"));
    let ping = node.host("a").ping("10.0.2.2", 200, &[]).expect("a ping");
    let shortest = ping.times.iter().min().expect("answers").as_secs_f64() * 1e3;
    assert!((39.0..45.0).contains(&shortest), "{shortest} ms, not 40");
    assert_eq!(pids(&node), before, "no router was restarted");
}

#[test]
fn only_the_host_that_differs_is_made_anew() {
    skip_without!("ping");
    let text = topology("", "");
    let node = up(&text);
    let (routers, a, c) = (pids(&node), inode(&node.host("a")), inode(&node.host("c")));
    let load = Load::begin(&node);
    let end = "interfaces: {eth0: {link: c, addresses: [10.0.3.2/24]}}\n";
    let with = |new: &str| text.replace(end, new);
    for (what, new, how) in [
        ("an address", "interfaces: {eth0: {link: c, addresses: [10.0.3.9/24]}}\n", "in place"),
        (
            "a route and a command",
            "interfaces: {eth0: {link: c, addresses: [10.0.3.9/24]}}\n\
             routes: [{to: 10.9.0.0/16, via: 10.0.3.1}]\nrun: [\"sleep 1000 &\"]\n",
            "in place",
        ),
        (
            "an Ethernet address",
            "interfaces: {eth0: {link: c, addresses: [10.0.3.2/24], mac: \"02:00:00:00:00:cc\"}}\n",
            "made anew",
        ),
        ("the one before", end, "made anew"),
    ] {
        let told = apply(&node, &with(new));
        assert!(told.contains(&format!("~ host c ({how})")), "{what}: {told}");
        let host = node.host("c");
        let shown =
            host.run(&["ip", "-o", "addr", "show", "dev", "eth0"]).expect("addresses").stdout;
        let wanted = if new.contains("10.0.3.9") { "10.0.3.9/24" } else { "10.0.3.2/24" };
        assert!(shown.contains(wanted), "{what}: {shown}");
        assert_eq!(shown.matches("inet 10.").count(), 1, "{what}: {shown}");
        let routes = host.run(&["ip", "route"]).expect("routes").stdout;
        assert_eq!(routes.contains("10.9.0.0/16"), new.contains("10.9"), "{what}: {routes}");
        assert!(routes.contains("default via 10.0.3.1"), "{what}: {routes}");
        let ping = (0..20).any(|_| host.ping("10.0.2.2", 1, &[]).expect("a ping").received == 1);
        assert!(ping, "{what}: no answer");
    }
    let received = load.end("a host's address, routes, commands and device changed");
    assert!(received.is_perfect(), "{received:?}");
    assert_eq!((pids(&node), inode(&node.host("a"))), (routers, a), "others stay");
    assert_eq!(inode(&node.host("c")), c, "its namespace too");
    // A host is added and removed beside the others.
    let load = Load::begin(&node);
    let more = "kind: host\nname: d\nnamespaces: {}\ninterfaces: {eth0: {port: lan}}\n";
    let told = apply(&node, &more.replace("namespaces: {}\n", ""));
    assert!(told.contains("+ host d"), "{told}");
    node.run(&["delete", "host", "d"]);
    assert!(!node.host("d").path().exists());
    let received = load.end("a host added and removed");
    assert!(received.is_perfect(), "{received:?}");
}

/// A port between `c`'s place and the node, made by the test.
struct Extra {
    _lab: Lab,
    device: String,
}

impl Extra {
    fn new() -> Extra {
        let mut lab = Lab::new().expect("a lab");
        let other = lab.namespace("other").expect("a namespace");
        let device = format!("x{}", std::process::id());
        europa_tests::run(&[
            "ip",
            "link",
            "add",
            &device,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            other.name(),
        ])
        .expect("a veth pair");
        europa_tests::run(&["ip", "link", "set", &device, "up"]).expect("it is up");
        Extra { _lab: lab, device }
    }
}

impl Drop for Extra {
    fn drop(&mut self) {
        let _ = europa_tests::run(&["ip", "link", "del", &self.device]);
    }
}

#[test]
fn a_port_changes_and_its_routers_stay() {
    skip_without!("ping");
    let extra = Extra::new();
    let port = |more: &str| format!("---\nkind: port\nname: x\ndevice: {}\n{more}", extra.device);
    let text = topology("", "").replace(
        "  b: {link: b,",
        "  x: {port: x, mtu: 1400, addresses: [10.0.9.1/24]}\n  b: {link: b,",
    );
    let node = up(&(text.clone() + &port("")));
    let before = pids(&node);
    let load = Load::begin(&node);
    for more in ["rate: 1Gb/s\n", "rate: 2Gb/s\nmtu: 1450\n", "mtu: 1500\n"] {
        let told = apply(&node, &(text.clone() + &port(more)));
        assert!(told.contains("~ port x (in place)"), "{told}");
    }
    // Another router has an interface on the same port.
    let more = "---\nkind: slice\nname: other\n---\nkind: router\nname: r\nslice: other\ninterfaces: \
                {x: {port: x, match: {vlan: 7}, addresses: [10.0.9.2/24]}}\nfast_path: {builtin: ipv4}\n";
    let told = apply(&node, &(text.clone() + &port("") + more));
    assert!(told.contains("+ router other/r"), "{told}");
    node.run(&["delete", "router", "other/r"]);
    let received = load.end("a port's rate and MTU changed, and a router came to it and went");
    assert!(received.is_perfect(), "{received:?}");
    assert_eq!(pids(&node), before, "no router was restarted");
    // A router is restarted if its interface depends on the changed MTU.
    let told = apply(&node, &(text.replace("mtu: 1400, ", "") + &port("mtu: 1300\n")));
    assert!(told.contains("~ port x (restart of its routers)"), "{told}");
}

/// The desired state, without the field that counts changes.
fn state(node: &Node) -> String {
    node.run(&["get", "--yaml"])
}

#[test]
fn a_change_that_fails_half_way_is_taken_back() {
    skip_without!("ping");
    let extra = Extra::new();
    let node = up(&topology("", ""));
    let (before, routers) = (state(&node), pids(&node));
    let hosts = ["a", "b", "c"].map(|host| inode(&node.host(host)));
    // Another program is on the device: only the attempt shows this.
    let other = Node::new(None);
    other.up(&format!("kind: port\nname: x\ndevice: {}\n", extra.device));
    // The node does many steps before each of these failures: a link and a router's routes change,
    // hosts and routers are added and changed. Then comes:
    let much = topology("a: a\na_to_b: {delay: 5ms}", "delay: 5ms")
        .replace(
            "routes: [{to: 10.0.2.0/24",
            "routes: [{to: 10.7.0.0/16, interface: c}, {to: 10.0.2.0/24",
        )
        .replace("10.0.3.2/24", "10.0.3.8/24")
        + "---\nkind: host\nname: d\ninterfaces: {eth0: {port: lan, addresses: [192.0.2.1/24]}}\n\
           ---\nkind: router\nname: south\nslice: lab\n\
           interfaces: {lan: {port: lan, addresses: [192.0.2.9/24]}}\nfast_path: {builtin: ipv4}\n";
    let load = Load::begin(&node);
    for (what, yaml, shown) in [
        (
            "a parameter that there is not",
            "kind: host\nname: e\ninterfaces: {eth0: {port: lan2}}\nsysctls: {net.ipv4.nonsense: 1}\n".to_owned(),
            "net.ipv4.nonsense",
        ),
        (
            "a route that there is already",
            "kind: host\nname: e\ninterfaces: {eth0: {port: lan2, addresses: [10.3.0.1/24]}}\n\
             routes: [{to: 10.9.0.0/16, via: 10.3.0.2}, {to: 10.9.0.0/16, via: 10.3.0.3}]\n".to_owned(),
            "10.9.0.0/16",
        ),
        (
            "a device that another node has",
            format!("kind: port\nname: y\ndevice: {}\n", extra.device),
            "has another XDP program",
        ),
        (
            "a tunnel whose next hop does not answer",
            "kind: router\nname: tunnel\nslice: lab\ninterfaces:\n  t:\n    port: lan\n    \
             addresses: [10.5.0.1/24]\n    match: {vxlan: {vni: 5, local: 192.0.2.7, remote: 192.0.2.77}}\n\
             fast_path: {builtin: ipv4}\n".to_owned(),
            "192.0.2.77",
        ),
    ] {
        let file = node.file("much.yaml", &format!("{much}---\n{yaml}"));
        let output = node.attempt(&["apply", &file]);
        eprintln!("{what}: {}", output.stderr.trim_end());
        assert_eq!(output.status.code(), Some(1), "{what}: {}", output.stderr);
        assert!(output.stderr.contains(shown), "{what}: {}", output.stderr);
        assert!(output.stderr.contains("Everything is as it was before."), "{what}: {}", output.stderr);
        assert_eq!(state(&node), before, "{what}");
        assert_eq!(pids(&node), routers, "{what}");
        for gone in ["d", "e"] {
            assert!(!node.host(gone).path().exists(), "{what}: host {gone} is there");
        }
        let shown = node.host("c").run(&["ip", "-o", "addr", "show", "dev", "eth0"]);
        assert!(shown.expect("addresses").stdout.contains("10.0.3.2/24"), "{what}");
        let found = node.run(&["read", "lab/west", "route.lookup", "10.7.1.1"]);
        assert_eq!(found, "5\n", "{what}: what has no route is unreachable again");
        let links = node.stats()["links"].to_string();
        assert!(!links.contains("a.eth0"), "{what}: {links}");
    }
    let received = load.end("four changes that failed half-way");
    assert_eq!((received.lost, received.duplicates, received.corrupted), (0, 0, 0), "{received:?}");
    assert_eq!(["a", "b", "c"].map(|host| inode(&node.host(host))), hosts);
    let ping = node.host("c").ping("10.0.2.2", 3, &[]).expect("a ping");
    assert!(ping.is_perfect(), "{ping:?}");
}
