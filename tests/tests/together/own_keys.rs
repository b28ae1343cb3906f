//! Rules for keys that routers write, with real traffic: their actions, results over a link or to
//! the same router, and that no other slice's rules match.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{Node, skip_without};
use serde_json::Value;

/// Two hosts at a slice's ends: `a` and `b`, followed by its number.
fn hosts(number: u8) -> String {
    let host = |name: &str, last: u8| {
        format!(
            "---\nkind: link\nname: {name}{number}\n---\nkind: host\nname: {name}{number}\n\
             interfaces: {{eth0: {{link: {name}{number}, addresses: [10.0.{number}.{last}/24]}}}}\n"
        )
    };
    host("a", 1) + &host("b", 2)
}

/// Slice `lab` has two Click routers in a row; the first one writes keys. Slice `evil` has one that
/// writes the same keys.
fn topology() -> String {
    let first = "FromDevice(a, PROMISC true) -> c :: Classifier(12/0800 23/11, -);
    out :: Queue -> ToDevice(s);
    c[0] -> SetFilterKey(36/2, value 0102) -> out;
    c[1] -> out;
    FromDevice(s, PROMISC true) -> answered :: FilterResult(20);
    answered[0] -> plain :: CheckPaint(1, 20) -> out;
    plain[1] -> StoreData(42, BACK) -> out;
    answered[1] -> Queue -> ToDevice(a);";
    let second = "FromDevice(r, PROMISC true) -> answered :: FilterResult(16);
    out :: Queue -> ToDevice(b);
    answered[0] -> CheckPaint(7) -> StoreData(42, LINK) -> out;
    answered[1] -> out;
    FromDevice(b, PROMISC true) -> Queue -> ToDevice(r);";
    let evil =
        "FromDevice(a, PROMISC true) -> SetFilterKey(36/2, value 0102) -> Queue -> ToDevice(b);
    FromDevice(b, PROMISC true) -> SetFilterKey(36/2, value 0102) -> Queue -> ToDevice(a);";
    format!(
        "kind: slice\nname: lab\n---\nkind: slice\nname: evil\n---\nkind: link\nname: rs\n---\n\
         kind: router\nname: r\nslice: lab\ninterfaces: {{a: {{link: a1}}, s: {{link: rs}}}}\n\
         fast_path:\n  click: |\n    {first}\n---\n\
         kind: router\nname: s\nslice: lab\ninterfaces: {{r: {{link: rs}}, b: {{link: b1}}}}\n\
         fast_path:\n  click: |\n    {second}\n---\n\
         kind: router\nname: r\nslice: evil\ninterfaces: {{a: {{link: a2}}, b: {{link: b2}}}}\n\
         fast_path:\n  click: |\n    {evil}\n{}{}",
        hosts(1),
        hosts(2)
    )
}

fn pings(node: &Node, number: u8) {
    let begun = Instant::now();
    let (host, to) = (format!("a{number}"), format!("10.0.{number}.2"));
    let ping = || node.host(&host).ping(&to, 5, &["-i", "0.02", "-W", "1"]);
    while !ping().is_ok_and(|ping| ping.is_perfect()) {
        assert!(begun.elapsed() < Duration::from_secs(20), "{}", node.run(&["stats"]));
    }
}

/// Sends three datagrams to a port of the other host; returns a field of those that arrive there.
fn arrives(node: &Node, number: u8, port: u16, field: &str) -> Vec<String> {
    let filter = format!("udp dst port {port}");
    let capture = node.host(&format!("b{number}")).capture("eth0", &filter).expect("a capture");
    let send = format!("for i in 1 2 3; do echo -n xxxx > /dev/udp/10.0.{number}.2/{port}; done");
    node.host(&format!("a{number}")).run(&["bash", "-c", &send]).expect("bash");
    sleep(Duration::from_millis(500));
    let fields = capture.stop().expect("captured").fields("udp", &[field]).expect("fields");
    fields.into_iter().flatten().collect()
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// Packets that the rules of a slice counted, in the order of the list.
fn counted(node: &Node, slice: &str) -> Vec<u64> {
    let list: Value =
        serde_json::from_str(&node.run(&["filter", "list", slice, "--json"])).expect("JSON");
    let filters = list["filters"].as_array().expect("a list");
    filters.iter().map(|filter| filter["packets"].as_u64().expect("a count")).collect()
}

#[test]
fn rules_answer_to_keys_of_their_own_slice() {
    skip_without!("ping", "tcpdump", "tshark");
    let node = Node::new(None);
    node.up(&topology());
    let rules = "kind: filters\nname: keys\nslice: lab\nrules:\n\
        - {priority: 9, key: \"1b59\", action: drop}\n\
        - {priority: 9, key: \"1b5a 0102\", action: {back: true, result: \"00\"}}\n\
        - {priority: 9, key: \"1b5b????\", action: {result: \"07\"}}\n\
        - {priority: 9, key: \"1b5c\", action: {result: \"07\"}}\n\
        - {priority: 1, key: \"1b58%fff8\", action: count}\n\
        - {priority: 9, key: \"1b5e\", action: {result: \"08\"}}\n\
        - {protocol: udp, destination_port: 7004, action: drop}\n---\n\
        kind: filters\nname: keys2\nslice: evil\nrules:\n\
        - {key: \"1b5b\", action: drop}\n";
    node.run(&["apply", &node.file("filters.yaml", rules)]);
    pings(&node, 1);
    pings(&node, 2);
    let payload = |number, port| arrives(&node, number, port, "udp.payload");
    for (what, port, wanted) in [
        ("dropped", 7001, None),
        ("back to the router, which sends it again", 7002, Some("BACK")),
        ("an answer over a link", 7003, Some("LINK")),
        ("rules for packets hold all the same", 7004, None),
        ("a key that is only counted: an answer of zeros", 7005, None),
        ("an answer that the next router does not want", 7006, None),
        ("no rule", 7100, Some("xxxx")),
    ] {
        let wanted = wanted.map_or(vec![], |text| vec![hex(text); 3]);
        assert_eq!(payload(1, port), wanted, "{what}");
    }
    // The other slice's rules see the other slice's keys.
    for (port, wanted) in [(7001, 3), (7002, 3), (7003, 0), (7004, 3)] {
        assert_eq!(payload(2, port).len(), wanted, "port {port} of the other slice");
    }
    assert_eq!(counted(&node, "lab"), [3, 3, 3, 3, 3, 3, 3]);
    assert_eq!(counted(&node, "evil"), [3]);

    // While packets pass, the rule gets another answer, and then none.
    node.run(&["filter", "add", "lab", "priority: 10, key: \"1b5a\", action: {result: \"07\"}"]);
    assert_eq!(payload(1, 7002), [(); 3].map(|()| hex("LINK")));
    node.run(&["filter", "del", "lab", "1"]);
    assert_eq!(payload(1, 7002), [(); 3].map(|()| hex("BACK")));
    let refused = node.attempt(&["filter", "add", "lab", "key: 0800, action: drop"]);
    assert!(refused.stderr.contains("in quotes"), "{}", refused.stderr);
}

#[test]
fn many_packets_come_back_and_no_slot_is_lost() {
    skip_without!("ping");
    let node = Node::new(None);
    node.up(&topology());
    node.run(&["filter", "add", "lab", "key: \"??\", action: {back: true, result: \"01\"}"]);
    pings(&node, 1);
    let sink = node.host("b1").sink("10.0.1.2:5000", 1).expect("a sink");
    let stream = node.host("a1").stream("10.0.1.2:5000", 1, 20_000, 64).expect("a stream");
    let stream = stream.paced_by(&sink);
    let begun = Instant::now();
    while sink.packets() < 40_000 && begun.elapsed() < Duration::from_secs(30) {
        sleep(Duration::from_millis(50));
    }
    let sent = stream.stop();
    sleep(Duration::from_millis(100));
    let mut received = sink.stop(sent);
    let drops: Vec<_> = node.counters().into_iter().map(|(name, c)| (name, c.drops)).collect();
    eprintln!("{received:?} of {sent} after a way back: {drops:?}");
    let counted = counted(&node, "lab");
    assert!(counted[0] >= sent, "{counted:?} of {sent}");
    // The hosts' own ends lose packets on a busy machine.
    let end = |host: &str, counter| node.host(host).counter("eth0", counter).unwrap_or_default();
    let lost = end("a1", "tx_dropped") + end("b1", "rx_dropped");
    received.lost = received.lost.saturating_sub(lost);
    assert!(received.is_perfect(), "{received:?}: {drops:?}");
    pings(&node, 1);
}

/// `sdk/c/lookup.c`, and the same in Python, in folders that every user may read.
fn programs(folder: &Path) -> [String; 2] {
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk");
    let built: PathBuf = folder.join("lookup");
    let cc = Command::new("cc")
        .args(["-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .args([&built, &sdk.join("c/lookup.c")])
        .output()
        .expect("cc runs");
    assert!(cc.status.success(), "{}", String::from_utf8_lossy(&cc.stderr));
    fs::copy(sdk.join("python/europa.py"), folder.join("europa.py")).expect("a file");
    let main = "from europa import Pool\n\
        pool = Pool()\n\
        while True:\n    \
            for interface in (0, 1):\n        \
                for packet in pool.receive(interface):\n            \
                    if packet.result:\n                \
                        packet[0:6] = packet.result[0:6]\n                \
                        pool.send(interface, packet)\n                \
                        continue\n            \
                    if len(packet) >= 42 and packet[12:15] == b'\\x08\\0\\x45' and packet[23] == 17:\n                \
                        packet.set_key(packet[36:38])\n            \
                    pool.send(1 - interface, packet)\n    \
            pool.wait()\n";
    fs::write(folder.join("__main__.py"), main).expect("a file");
    [format!("[{}]", built.display()), format!("[/usr/bin/python3, {}]", folder.display())]
}

#[test]
fn programs_in_c_and_python_have_keys_looked_up() {
    skip_without!("cc", "python3", "ping", "tcpdump", "tshark");
    let folder = tempfile::tempdir().expect("a folder");
    for program in programs(folder.path()) {
        let node = Node::new(None);
        node.up(&format!(
            "kind: slice\nname: red\n---\nkind: router\nname: r\nslice: red\n\
             interfaces: {{a: {{link: a1}}, b: {{link: b1}}}}\nfast_path: {{program: {program}}}\n{}",
            hosts(1)
        ));
        pings(&node, 1);
        node.run(&[
            "filter",
            "add",
            "red",
            "key: \"1b59\", action: {back: true, result: \"02000000 0007\"}",
            "key: \"1b5a\", action: drop",
        ]);
        let to = |port| arrives(&node, 1, port, "eth.dst");
        assert_eq!(to(7001), ["02:00:00:00:00:07"; 3], "{program}");
        assert!(to(7002).is_empty(), "{program}");
        let plain = to(7003);
        assert!(plain.len() == 3 && plain[0] != "02:00:00:00:00:07", "{program}: {plain:?}");
    }
}
