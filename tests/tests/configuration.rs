//! Mistakes in configurations on the command line: each has its message, leaves nothing and changes
//! nothing.

mod line;

use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use europa_tests::{Leftovers, Namespace, Node, skip_without};
use line::{Line, ROUTER, ports};

/// The settings of a device that a node might change.
fn state(namespace: &Namespace, device: &str) -> String {
    let link = namespace.ip(&["-details", "link", "show", device]).expect("a device").stdout;
    let features = namespace.run(&["ethtool", "-k", device]).expect("offloads").stdout;
    link + &features
}

fn everything(line: &Line) -> String {
    let devices = [(&line.middle, "eu-left"), (&line.middle, "eu-right"), (&line.a, "eth0")];
    devices.map(|(namespace, device)| state(namespace, device)).concat()
}

/// Whether all processes of a node end within a second.
fn gone(node: &Node) -> bool {
    (0..50).any(|_| {
        let gone = node.processes().is_empty();
        if !gone {
            sleep(Duration::from_millis(20));
        }
        gone
    })
}

/// A router between the ports with this fast path; its text begins at line 17.
fn with(fast_path: &str) -> String {
    ports()
        + "kind: router\nname: r1\nslice: red\ninterfaces:\n  in: {port: left}\n  \
           out: {port: right}\n"
        + fast_path
}

fn click(text: &str) -> String {
    with(&format!("fast_path:\n  click: |\n    {}\n", text.replace('\n', "\n    ")))
}

const AFTER: &str = "\nFromDevice(out) -> Discard;";

#[test]
fn mistakes_are_shown_where_they_stand() {
    skip_without!("ethtool");
    let line = Line::new();
    let before = Leftovers::look().expect("a look");
    let devices = everything(&line);
    let ipv4 = "fast_path: {builtin: ipv4}\n";
    let replaced = |from: &str, to: &str| with(ipv4).replace(from, to);
    let mut wrong = String::new();
    // A message has file and line, the underlined text, the mistake, and a remedy.
    for (what, yaml, shown) in [
        ("no YAML", "kind: [port\n".to_owned(), &["node.yaml:", "×"][..]),
        (
            "unknown kind",
            replaced("kind: slice", "kind: slize"),
            &["node.yaml:9:7", "kind: slize", "slice"],
        ),
        (
            "unknown field",
            replaced("device: eu-left", "devise: eu-left"),
            &["node.yaml:3:1", "devise: eu-left", "──", "did you mean", "device"],
        ),
        (
            "unknown port",
            replaced("{port: left}", "{port: lift}"),
            &["node.yaml:16:14", "there is no port \"lift\"", "did you mean \"left\"?"],
        ),
        (
            "device twice",
            replaced("device: eu-right", "device: eu-left"),
            &["node.yaml:7:9", "device \"eu-left\" has two users", "the first"],
        ),
        (
            "MAC address twice",
            replaced("{port: left}", "{port: left, mac: '02:00:00:00:00:07'}")
                .replace("{port: right}", "{port: left, mac: '02:00:00:00:00:07'}"),
            &["node.yaml:17:26", "match the Ethernet address", "the second", "the first"],
        ),
        (
            "whole port and another",
            replaced("{port: left}", "{port: left, match: {all: true}}")
                .replace("{port: right}", "{port: left}"),
            &["node.yaml:17:", "belongs to one interface as a whole", "{vlan: N, all: true}"],
        ),
        (
            "two kinds of match",
            replaced("{port: left}", "{port: left, match: {udp: [53], mpls: [100]}}"),
            &["node.yaml:16:", "a match has one kind beside `vlan`", "a second kind"],
        ),
        (
            "out of range",
            replaced("{port: left}", "{port: left, match: {vlan: 4095}}"),
            &["node.yaml:16:", "a VLAN is 1 to 4094, not 4095", "────"],
        ),
        (
            "not a prefix",
            replaced("{port: left}", "{port: left, match: {prefix: [10.1.2.3/16]}}"),
            &["node.yaml:16:", "10.1.2.3/16 has bits after its prefix length", "10.1.0.0/16"],
        ),
        (
            "a kernel router without a program",
            replaced(ipv4, &format!("run: kernel\n{ipv4}")),
            &["node.yaml:19:12", "run: kernel"],
        ),
        (
            "two at once",
            replaced("{port: left}", "{port: lift}").replace("{port: right}", "{port: wright}"),
            &["\"lift\"", "\"wright\"", "node.yaml:16:14", "node.yaml:17:15"],
        ),
        (
            "no such Click file",
            with("fast_path: {click_file: missing.click}\n"),
            &["node.yaml:18:25", "missing.click", "it is searched beside the YAML file"],
        ),
        (
            "Click: syntax",
            click(&format!("FromDevice(in -> ToDevice(out);{AFTER}")),
            &["node.yaml:20:11", "(in -> ToDevice(out)", "──", "expected ')'", "never closed"],
        ),
        (
            "Click: unknown element",
            click(&format!("FromDevice(in) -> Nonsense -> ToDevice(out);{AFTER}")),
            &[
                "node.yaml:20:19",
                "FromDevice(in) -> Nonsense",
                "────────",
                "undeclared element 'Nonsense'",
            ],
        ),
        (
            "Click: wrong argument",
            click(&format!("FromDevice(in) -> Strip(abc) -> ToDevice(out);{AFTER}")),
            &["node.yaml:20:19", "─────", "expected unsigned integer, found 'abc'"],
        ),
        (
            "Click: output that is not there",
            click(&format!(
                "FromDevice(in) -> c :: Counter -> ToDevice(out); c[1] -> Discard;{AFTER}"
            )),
            &["node.yaml:20:19", "'c :: Counter'", "output 1"],
        ),
        (
            "Click: output that leads nowhere",
            click(&format!("FromDevice(in) -> Tee(2) -> ToDevice(out);{AFTER}")),
            &["node.yaml:20:19", "───", "1 outputs are connected, not 2"],
        ),
        (
            "Click: push into pull",
            click(&format!("FromDevice(in) -> Unqueue -> ToDevice(out);{AFTER}")),
            &["node.yaml:20:", "push", "pull"],
        ),
        (
            "Click: unknown interface",
            click(&format!("FromDevice(inn) -> ToDevice(out);{AFTER}")),
            &["node.yaml:20:1", "──────────", "this router has no interface 'inn'"],
        ),
        (
            "a bridge with an address of its own",
            replaced(ipv4, "fast_path: {builtin: bridge}\n"),
            &["node.yaml:16:7", "\"in\" of a bridge", "match: {all: true}", "────"],
        ),
        (
            "a router without addresses",
            with(ipv4),
            &["node.yaml:18:22", "──", "no interface has an address", "addresses: ["],
        ),
        (
            "a program of the user's own",
            with("fast_path: {program: [./mine]}\n"),
            &["node.yaml:18:23", "───", "\"./mine\" is no path from the root"],
        ),
        // Only the machine can find these mistakes.
        (
            "no such device",
            replaced("device: eu-right", "device: eu-wright"),
            &["eu-wright", "there are: ", "eu-right"],
        ),
        (
            "no such namespace",
            replaced("device: eu-right", "device: eu-right\nnamespace: nowhere"),
            &["port right", "nowhere"],
        ),
        (
            "MTU above the device's",
            replaced("device: eu-right", "device: eu-right\nmtu: 9000"),
            &["port right", "9000", "1500", "ip link set eu-right mtu 9000"],
        ),
        (
            "interface's MTU above the device's",
            replaced("{port: left}", "{port: left, mtu: 9000}"),
            &["r1", "in", "9000", "1500"],
        ),
        (
            "loopback",
            replaced("device: eu-right", "device: lo"),
            &["lo", "use one end of a veth pair"],
        ),
        (
            "tunnel to nowhere",
            replaced(
                "{port: left}",
                "{port: left, addresses: [10.0.0.1/24], \
                 match: {vxlan: {vni: 1, local: 192.0.2.1, remote: 192.0.2.2}}}",
            ),
            &["192.0.2.2"],
        ),
    ] {
        let addressed = "out: {port: right, addresses: [10.0.2.1/24]}\n";
        let yaml = match what {
            "a router without addresses" => yaml,
            _ => yaml.replace("out: {port: right}\n", addressed),
        };
        let node = Node::new(Some(&line.middle));
        let output = node.attempt(&["up", &node.file("node.yaml", &yaml)]);
        let text = output.stderr;
        // 4 if a check found the mistake, 1 if a device refused it.
        assert!(matches!(output.status.code(), Some(1 | 4)), "{what}: {text}");
        assert_eq!(output.stdout, "", "{what}");
        for part in shown.iter().filter(|part| !text.contains(**part)) {
            wrong += &format!("{what}: {part:?} is not in\n{text}\n");
        }
        // The folder vanishes at once; only the process itself may still be exiting.
        assert!(!node.directory().exists(), "{what}");
        assert!(gone(&node), "{what}");
        assert_eq!(everything(&line), devices, "{what}");
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert_eq!(before.new_ones().expect("a look"), [""; 0]);
}

#[test]
fn a_file_that_is_not_there_is_told() {
    skip_without!();
    let line = Line::new();
    let output = line.node.attempt(&["up", "/nowhere/node.yaml"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(output.stderr.contains("/nowhere/node.yaml"), "{}", output.stderr);
    let output = line.node.attempt(&["up"]);
    assert_eq!(output.status.code(), Some(2), "a wrong command line");
}

#[test]
fn a_running_node_is_left_alone() {
    skip_without!("ping", "ethtool");
    let line = Line::new();
    line.up_ipv4();
    let processes = line.node.processes();
    let (devices, yaml) = (everything(&line), ports() + ROUTER);
    // Neither the same file a second time nor a mistake changes the node.
    let again = line.node.run(&["up", &line.node.file("again.yaml", &yaml)]);
    assert_eq!(again, "0 added, 0 changed, 0 removed, 4 unchanged\n");
    let output = line.node.attempt(&["up", &line.node.file("wrong.yaml", "kind: nonsense\n")]);
    assert_eq!(output.status.code(), Some(4));
    assert!(output.stderr.contains("wrong.yaml:1:7"), "{}", output.stderr);
    // Another node that wants the same device does not change it.
    let other = Node::new(Some(&line.middle));
    let output = other.attempt(&["up", &other.file("node.yaml", &yaml)]);
    assert_eq!(output.status.code(), Some(1));
    for part in ["port left", "eu-left has another XDP program", "ip link show eu-left"] {
        assert!(output.stderr.contains(part), "{part:?} is not in {}", output.stderr);
    }
    assert!(gone(&other));
    assert_eq!(line.node.processes(), processes);
    assert_eq!(everything(&line), devices);
    let ping = line.a.ping("10.0.2.2", 3, &[]).expect("a ping");
    assert!(ping.is_perfect(), "{ping:?}");
}

#[test]
fn devices_are_given_back_as_they_were() {
    skip_without!("ethtool");
    let line = Line::new();
    let before = everything(&line);
    line.node.up(&(ports() + &ROUTER.replace("port: left", "match: {vlan: 10}, port: left")));
    assert_ne!(everything(&line), before);
    line.node.run(&["down"]);
    assert_eq!(everything(&line), before);
}

/// The mutants of crates/api/tests/wrong.rs, which tries a thousand of them without a node.
#[path = "../../crates/api/tests/mutants/mod.rs"]
mod mutants;

#[test]
fn wrong_files_change_nothing_on_a_running_node() {
    skip_without!("ping");
    let line = Line::new();
    let text = ports() + ROUTER;
    line.node.up(&text);
    let folder = PathBuf::from(line.node.file("of-this-node.yaml", &text));
    let folder = folder.parent().expect("a folder").to_owned();
    let _ = fs::remove_file(folder.join("node.yaml"));
    let (processes, state) = (line.node.processes(), line.node.run(&["get", "--yaml"]));
    let revision = || {
        let told =
            line.node.run(&["apply", "--dry-run", "--json", &line.node.file("n.yml", &text)]);
        let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
        told["revision"].as_u64().expect("a number")
    };
    let before = revision();
    let mut wrong = 0;
    for mutant in mutants::mutants(&folder, 90) {
        let file = line.node.file("wrong.yml", &mutant.text);
        // Some mutants are correct by chance.
        if line.node.attempt(&["apply", "--dry-run", &file]).status.success() {
            assert!(!mutant.wrong, "{}: it is taken for right\n{}", mutant.what, mutant.text);
            continue;
        }
        wrong += 1;
        let output = line.node.attempt(&["apply", &file]);
        assert_eq!(output.status.code(), Some(4), "{}: {}", mutant.what, output.stderr);
        let place = output.stderr.split("wrong.yml:").nth(1).unwrap_or_default();
        assert!(
            place.starts_with(|c: char| c.is_ascii_digit()) && output.stderr.contains('╰'),
            "{}: {}",
            mutant.what,
            output.stderr
        );
    }
    assert!(wrong >= 50, "only {wrong}");
    assert_eq!(revision(), before, "desired state has not changed once");
    assert_eq!(line.node.run(&["get", "--yaml"]), state);
    assert_eq!(line.node.processes(), processes);
    let ping = line.a.ping("10.0.2.2", 3, &[]).expect("a ping");
    assert!(ping.is_perfect(), "{ping:?}");
    eprintln!("{wrong} wrong files told, and nothing changed");
}
