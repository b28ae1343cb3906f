//! Rules of slices, with real traffic: the effect of each action, changes while packets pass, and
//! the rules that outlive a switch and a node.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{Namespace, Node, skip_without};
use serde_json::Value;

/// Hosts `a`, `b` and `c` around router `lab/r`, and slice `other` beside it.
fn topology() -> String {
    let mut text = "kind: slice\nname: lab\n---\nkind: slice\nname: other\n---\n\
        kind: router\nname: r\nslice: lab\ninterfaces:\n"
        .to_owned();
    for (host, net) in [("a", 1), ("b", 2), ("c", 3)] {
        text += &format!("  {host}: {{link: {host}, addresses: [10.0.{net}.1/24]}}\n");
    }
    text += "fast_path: {builtin: ipv4}\nslow_path: {}\n";
    for (host, net) in [("a", 1), ("b", 2), ("c", 3)] {
        text += &format!(
            "---\nkind: host\nname: {host}\ngateway: 10.0.{net}.1\n\
             interfaces: {{eth0: {{link: {host}, addresses: [10.0.{net}.2/24]}}}}\n"
        );
    }
    text
}

/// Brings everything up; returns when the neighbours are known.
fn up() -> Node {
    let node = Node::new(None);
    node.up(&topology());
    let known = (0..20).any(|_| {
        let ping = |to| node.host("a").ping(to, 1, &[]).expect("a ping").received == 1;
        ping("10.0.2.2") & ping("10.0.3.2")
    });
    assert!(known, "nobody answers");
    node
}

fn apply(node: &Node, text: &str) -> String {
    node.run(&["apply", &node.file("filters.yaml", text)])
}

/// Sends `count` datagrams from `a` to a port of `b`.
fn send(node: &Node, port: u16, count: u32) {
    let script = format!("for i in $(seq {count}); do echo x > /dev/udp/10.0.2.2/{port}; done");
    node.host("a").run(&["bash", "-c", &script]).expect("bash");
}

fn rules(node: &Node, slice: &str) -> Vec<Value> {
    let list: Value =
        serde_json::from_str(&node.run(&["filter", "list", slice, "--json"])).expect("JSON");
    list["filters"].as_array().cloned().expect("a list")
}

/// Packets that the rules for a port have counted.
fn counted(node: &Node, port: u16) -> u64 {
    let port = port.to_string();
    let of = |rule: &&Value| rule["rule"]["destination_port"] == *port;
    rules(node, "lab").iter().filter(of).filter_map(|rule| rule["packets"].as_u64()).sum()
}

/// Waits until `done` is true.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what} takes too long");
        sleep(Duration::from_millis(20));
    }
}

/// The datagrams to a port that a host receives within a while, as fields.
fn seen(node: &Node, host: &str, port: u16, count: u32, fields: &[&str]) -> Vec<Vec<String>> {
    let filter = format!("udp dst port {port}");
    let capture = node.host(host).capture("eth0", &filter).expect("a capture");
    send(node, port, count);
    sleep(Duration::from_millis(500));
    capture.stop().expect("captured").fields("udp", fields).expect("fields")
}

fn mac(host: &Namespace) -> String {
    let shown = host.ip(&["-br", "link", "show", "eth0"]).expect("a device").stdout;
    shown.split_whitespace().nth(2).expect("an address").to_owned()
}

#[test]
fn each_action_does_what_it_says() {
    skip_without!("ping", "tcpdump", "tshark");
    let node = up();
    let before = node.process("router");
    let c = mac(&node.host("c"));
    let told = apply(
        &node,
        &format!(
            "kind: filters\nname: actions\nslice: lab\nrules:\n\
             - {{protocol: udp, destination_port: 7001, action: drop}}\n\
             - {{protocol: udp, destination_port: 7002, action: count}}\n\
             - {{protocol: udp, destination_port: 7003, action: {{dscp: ef}}}}\n\
             - {{protocol: udp, destination_port: 7004, interface: r.b, action: {{mirror: r.c}}}}\n\
             - {{protocol: udp, destination_port: 7005, interface: r.b,\n\
             \x20  action: {{interface: r.c, destination_mac: \"{c}\"}}}}\n\
             - {{protocol: udp, destination_port: 7006, interface: r.b, action: slow_path}}\n\
             - {{protocol: udp, destination_port: 7007, interface: r.a, action: drop}}\n\
             - {{priority: 1, protocol: udp, destination_port: 7008, action: drop}}\n\
             - {{priority: 2, protocol: udp, destination_port: 7000-7100,\n\
             \x20  source: 10.0.1.2/32, dscp: cs1, action: count}}\n\
             - {{protocol: udp, destination_port: 7009, action: {{queue: 0, ecn: ce}}}}\n"
        ),
    );
    assert!(told.contains("+ filters actions"), "{told}");
    let shown = ["ip.dsfield.dscp", "ip.ttl"];
    for (what, port, at_b, at_c) in [
        ("dropped", 7001, None, None),
        ("counted", 7002, Some("0"), None),
        ("marked", 7003, Some("46"), None),
        ("another interface", 7007, Some("0"), None),
        ("no rule", 7010, Some("0"), None),
        ("lower priority, code point does not match", 7008, None, None),
        ("no congestion for who does not understand it", 7009, Some("0"), None),
    ] {
        for (host, wanted) in [("b", at_b), ("c", at_c)] {
            let wanted = wanted.map_or(vec![], |dscp| vec![[dscp, "63"]; 3]);
            assert_eq!(seen(&node, host, port, 3, &shown), wanted, "{what} at {host}");
        }
    }
    let to = ["eth.dst", "ip.ttl"];
    let at = |host: &str, port| seen(&node, host, port, 3, &to);
    let b = mac(&node.host("b"));
    assert_eq!(at("b", 7004), vec![[&*b, "63"]; 3], "what is mirrored goes on");
    assert_eq!(at("c", 7004).len(), 3, "and its copy");
    assert_eq!(at("b", 7005).len(), 0);
    assert_eq!(at("c", 7005), vec![[&*c, "63"]; 3], "sent elsewhere");
    // Linux also forwards the packet, back by the same interface, until its time to live ends.
    let linux = |node: &Node| node.counters()["lab/r.b@host"].tx;
    let before_slow = linux(&node);
    assert_eq!(at("b", 7006).len(), 0);
    assert!(linux(&node) >= before_slow + 3, "Linux gets it");
    // The test has sent each datagram twice, once for each reading.
    for (port, wanted) in [(7001, 6), (7002, 6), (7003, 6), (7004, 6), (7007, 0), (7008, 6)] {
        assert_eq!(counted(&node, port), wanted, "port {port}");
    }
    let drops = &node.counters()["lab/r.b"].drops;
    assert_eq!(drops.get("dropped by a filter"), Some(&12), "{drops:?}");
    assert_eq!(node.process("router"), before, "no router was restarted");
    // A capture shows the result, too; without rules everything passes.
    node.run(&["delete", "filters", "actions"]);
    assert_eq!(seen(&node, "b", 7001, 3, &shown).len(), 3);
}

#[test]
fn rules_of_another_slice_never_match() {
    skip_without!("ping");
    let node = up();
    node.run(&["filter", "add", "other", "priority: 4000000000, action: drop"]);
    node.run(&["filter", "add", "lab", "protocol: udp, destination_port: 9, action: drop"]);
    let ping = node.host("a").ping("10.0.2.2", 20, &["-i", "0.01"]).expect("a ping");
    assert!(ping.is_perfect(), "{ping:?}");
    assert_eq!(rules(&node, "other")[0]["packets"], 0);
    // The same rule in the router's own slice matches everything.
    node.run(&["filter", "add", "lab", "priority: 4000000000, action: drop"]);
    let ping = node.host("a").ping("10.0.2.2", 3, &["-i", "0.01", "-W", "1"]).expect("a ping");
    assert_eq!(ping.received, 0);
    let interface = "interface: other.x, action: drop";
    let refused = node.attempt(&["filter", "add", "lab", interface]);
    assert!(refused.stderr.contains("slice \"lab\" has no router \"other\""), "{refused:?}");
}

/// Filters as ClassBench writes them, for unused addresses except the last one, which is `b`'s.
fn many(count: u32, first: u32) -> String {
    let mut text = String::new();
    for number in 0..count {
        let [_, x, y, z] = (first + number).to_be_bytes();
        let bits = 24 + number % 9;
        let port = 1 + number % 60_000;
        text += &format!(
            "@172.16.0.0/12\t11.{x}.{y}.{z}/{bits}\t0 : 65535\t{port} : {port}\t0x11/0xFF\t0x0000/0x0000\n"
        );
    }
    text + "@0.0.0.0/0\t10.0.2.2/32\t0 : 65535\t5000 : 5000\t0x11/0xFF\t0x0000/0x0000\n"
}

#[test]
fn a_hundred_thousand_rules_are_loaded_while_a_stream_passes() {
    // The node's loop itself prepares changes of rules, so its turns are long.
    let node = up().with_turns_of(Duration::from_secs(1));
    let [a, b] = ["a", "b"].map(|host| node.host(host));
    // The hosts' own ends lose packets on a busy machine.
    let dropped = || {
        let count = |host: &Namespace, counter| host.counter("eth0", counter).unwrap_or_default();
        count(&a, "tx_dropped") + count(&b, "rx_dropped")
    };
    let before = dropped();
    let sink = b.sink("10.0.2.2:5000", 1).expect("a sink");
    let stream = a.stream("10.0.2.2:5000", 1, 5_000, 64).expect("a stream").paced_by(&sink);
    until("the stream", || sink.packets() > 500);
    let mut took = Vec::new();
    for round in 0..3 {
        let file = node.file("many.txt", &many(100_000, round << 20));
        let start = Instant::now();
        let said = node.run(&["filter", "load", "lab", &file, "--replace"]);
        took.push(start.elapsed());
        assert!(said.contains("100001 added"), "{said}");
    }
    eprintln!("100,001 rules instead of others: {took:?}");
    // Single rules change meanwhile.
    for _ in 0..5 {
        let said = node.run(&["filter", "add", "lab", "protocol: gre, action: count", "--json"]);
        let said: Value = serde_json::from_str(&said).expect("JSON");
        node.run(&["filter", "del", "lab", &said["added"][0].to_string()]);
    }
    let at = sink.packets();
    until("the stream", || sink.packets() > at + 500);
    let sent = stream.stop();
    sleep(Duration::from_millis(100));
    let mut received = sink.stop(sent);
    eprintln!("{} of {sent} lost, longest gap {:?}", received.lost, received.longest_gap);
    received.lost = received.lost.saturating_sub(dropped() - before);
    assert!(received.is_perfect(), "{received:?}");
    let all = rules(&node, "lab");
    assert_eq!(all.len(), 100_001);
    let last = all.iter().find(|rule| rule["rule"]["destination"] == "10.0.2.2/32");
    let packets = last.and_then(|rule| rule["packets"].as_u64()).expect("the stream's rule");
    assert!(packets >= 500, "only {packets} counted");
}

#[test]
fn rules_outlive_switch_and_node() {
    skip_without!("ping");
    let node = up();
    apply(
        &node,
        "kind: filters\nname: doc\nslice: lab\nrules:\n\
         - {protocol: icmp, destination: 10.0.3.2/32, interface: r.c, action: drop}\n",
    );
    node.run(&["filter", "add", "lab", "protocol: udp, destination_port: 7001, action: count"]);
    let holds = || {
        let ping = |to| node.host("a").ping(to, 3, &["-i", "0.01", "-W", "1"]).expect("a ping");
        (ping("10.0.2.2").received, ping("10.0.3.2").received)
    };
    assert_eq!(holds(), (3, 0));
    send(&node, 7001, 5);
    until("counting", || counted(&node, 7001) == 5);
    // The node is killed: the switch and its counters run on.
    let switch = node.process("switch");
    let pid = node.kill("node");
    assert_eq!(holds(), (3, 0), "no node runs");
    until("the end of the node", || fs::metadata(format!("/proc/{pid}")).is_err());
    node.up(&topology());
    assert_eq!(node.process("switch"), switch, "it was adopted");
    assert_eq!(holds(), (3, 0));
    assert_eq!(counted(&node, 7001), 5, "what stayed has its counters");
    assert_eq!(rules(&node, "lab").len(), 2);
    // The switch is killed: the next one has the rules before it has packets.
    node.kill("switch");
    until("the next switch", || {
        let running = node.stats()["switch_restarts"] == 1;
        running && node.host("a").ping("10.0.2.2", 1, &["-W", "1"]).expect("a ping").received == 1
    });
    assert_eq!(holds(), (3, 0));
    // A restarted router has other numbers, and the same rules.
    node.run(&["restart", "lab/r"]);
    until("the router", || {
        node.host("a").ping("10.0.2.2", 1, &["-W", "1"]).expect("a ping").received == 1
    });
    assert_eq!(holds(), (3, 0));
    node.run(&["filter", "del", "lab", "1"]);
    assert_eq!(rules(&node, "lab").len(), 1);
}

#[test]
fn wrong_rules_are_refused_with_their_place() {
    let node = up();
    let head = "kind: filters\nname: wrong\nslice: lab\nrules:\n- {action: count}\n";
    for (rule, wanted) in [
        ("- {protocol: tpc, action: drop}", "filters.yaml:6:14"),
        ("- {interface: r.d, action: drop}", "router lab/r has no interface \"d\""),
        ("- {interface: s.a, action: drop}", "slice \"lab\" has no router \"s\""),
        ("- {destination_port: 80, action: drop}", "add `protocol: tcp`"),
        ("- {action: {interface: r.a, drop: true}}", "goes one way"),
        ("- {action: {queue: 3}}", "slice \"lab\" has no queue 3"),
        ("- {action: dorp}", "did you mean \"drop\"?"),
    ] {
        let file = node.file("filters.yaml", &format!("{head}{rule}\n"));
        let refused = node.attempt(&["apply", &file]);
        assert!(!refused.status.success(), "{rule}");
        assert!(refused.stderr.contains(wanted), "{rule}: {}", refused.stderr);
        assert!(refused.stderr.contains("filters.yaml:6:"), "{rule}: {}", refused.stderr);
    }
    assert!(rules(&node, "lab").is_empty());
    // A slice's reservation is its limit: a request beyond it is refused as a whole.
    let limited = topology().replacen("name: lab", "name: lab\nreservation: {filters: 5}", 1);
    apply(&node, &limited);
    node.run(&["filter", "add", "lab", "source: 10.0.0.0/8, action: count"]);
    let two = format!("{head}- {{protocol: udp, destination_port: 6-9, action: count}}\n");
    let refused = node.attempt(&["apply", &node.file("filters.yaml", &two)]);
    let said = &refused.stderr;
    assert!(said.contains("may have 5 entries of filters: 1 are used"), "{said}");
    assert!(said.contains("filters.yaml:5:3"), "{said}");
    let refused = node.attempt(&[
        "filter",
        "add",
        "lab",
        "source: 10.0.0.0/8, action: count",
        "protocol: tcp, source_port: 1-6, action: count",
    ]);
    assert!(refused.stderr.contains("may have 5 entries"), "{}", refused.stderr);
    assert_eq!(rules(&node, "lab").len(), 1);
    let refused = node.attempt(&["filter", "load", "lab", &node.file("x.txt", "\n@1.2.3.4/33")]);
    assert!(refused.stderr.contains("x.txt:2:1"), "{}", refused.stderr);
    let refused = node.attempt(&["filter", "del", "lab", "7"]);
    assert!(refused.stderr.contains("has no filter 7"), "{}", refused.stderr);
}
