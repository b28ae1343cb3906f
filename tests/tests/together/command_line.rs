//! Parts of the command line that other tests do not use: a node that does not answer, few file
//! descriptors, names of processes, and the commands that show and change objects.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{Node, Process, europa, skip_without, stop};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Two hosts and a router between them, with an automatic address on the second link.
const NETWORK: &str = "kind: slice\nname: red\n---\nkind: router\nname: r1\nslice: red\ninterfaces:\n  \
    a: {link: l1, addresses: [10.0.1.1/24, \"2001:db8:1::1/64\"]}\n  b: {link: l2}\n\
    fast_path: {builtin: ipv4}\n---\nkind: host\nname: pc1\ninterfaces:\n  \
    eth0: {link: l1, addresses: [10.0.1.2/24]}\ngateway: 10.0.1.1\nrun: [echo hello from $NAME]\n\
    env: {NAME: pc1}\n---\nkind: host\nname: pc2\n\
    interfaces:\n  eth0: {link: l2}\n---\nkind: link\nname: l1\n---\nkind: link\nname: l2\n";

#[test]
fn n05_a_stopped_node_is_named_after_ten_seconds() {
    skip_without!();
    let node = Node::new(None);
    node.up(NETWORK);
    let pid = Pid::from_raw(node.process("node"));
    let following: [&[&str]; 2] = [&["events", "--watch"], &["logs", "node", "--follow"]];
    let mut waiting: Vec<_> =
        following.iter().map(|&command| (command, node.start(command))).collect();
    for (_, process) in &mut waiting {
        process.wait_for("Applied", Duration::from_secs(10)).expect("what has happened");
    }
    stop(pid);
    let start = Instant::now();
    let file = node.file("node.yaml", NETWORK);
    let commands: [&[&str]; 4] =
        [&["get"], &["apply", &file], &["events", "--watch"], &["capture", "red/r1"]];
    waiting.extend(commands.iter().map(|&command| (command, node.start(command))));
    for (command, process) in waiting {
        let output = process.wait(Duration::from_secs(60)).expect("it ends");
        let error = &output.stderr;
        assert!(!output.status.success(), "{command:?}");
        assert!(error.contains("seems to be stopped") && error.contains("ps -C"), "{error}");
    }
    assert!(start.elapsed() < Duration::from_secs(45), "{:?}", start.elapsed());
    kill(pid, Signal::SIGCONT).expect("a signal");
    assert!(node.run(&["get", "routers"]).contains("running"));
}

#[test]
fn n05_few_file_descriptors_suffice_or_are_named() {
    skip_without!();
    for (limit, may_fail) in [("-S -n 64", false), ("-n 64", true)] {
        let node = Node::new(None);
        let file = node.file("node.yaml", NETWORK);
        let command = format!(
            "ulimit {limit}; exec {} --instance {} up {file}",
            europa().display(),
            node.instance()
        );
        let output = Process::start(&["bash", "-c", &command]).expect("bash starts");
        let output = output.wait(Duration::from_secs(60)).expect("it ends");
        // With CAP_SYS_RESOURCE the node raises the hard limit too.
        let named = output.stderr.contains("`ulimit -n`");
        assert!(output.status.success() || (may_fail && named), "{limit}: {}", output.stderr);
    }
}

#[test]
fn processes_have_the_names_of_their_roles() {
    skip_without!();
    let node = Node::new(None);
    node.up(NETWORK);
    for role in ["node", "switch", "router"] {
        let folder = Path::new("/proc").join(node.process(role).to_string());
        let read = |file: &str| fs::read_to_string(folder.join(file)).expect("a process");
        assert_eq!(read("comm").trim(), format!("europa-{role}"));
        let line = read("cmdline");
        assert_eq!(line.split('\0').next(), Some("europa"), "{line}");
    }
}

#[test]
fn objects_are_shown_named_and_explained() {
    skip_without!();
    let node = Node::new(None);
    let file = node.file("node.yaml", NETWORK);
    node.run(&["up", "-f", &file]);

    let status = node.run(&["status"]);
    assert!(status.contains("routers      1: 1 running"), "{status}");
    let json: Value = serde_json::from_str(&node.run(&["status", "--json"])).expect("JSON");
    assert_eq!(json["objects"]["host"]["active"], 2, "{json}");
    assert_eq!(json["not_as_configured"], Value::Array(Vec::new()), "{json}");

    assert_eq!(node.run(&["get", "router/red/r1", "-o", "yaml"]), {
        node.run(&["get", "router", "red/r1", "--yaml"])
    });
    assert!(node.run(&["get", "routers", "-o", "wide"]).contains("10.0.1.1/24"));

    // The pool of links gives the second interface its address, and IPv6 a link-local one.
    let described = node.run(&["describe", "router/red/r1"]);
    let (_, table) = described.split_once("\naddresses:\n").expect("addresses");
    let line = |name: &str| {
        let is = |line: &&str| line.trim_start().starts_with(name);
        table.lines().find(is).unwrap_or_else(|| panic!("{table}")).to_owned()
    };
    assert!(line("a ").contains("2001:db8:1::1/64 fe80::"), "{described}");
    assert!(line("b ").contains(" link l2 ") && line("b ").contains("100."), "{described}");
    assert!(node.run(&["describe", "host", "pc2"]).contains("100."));

    let stats = node.run(&["stats", "red/r1.a"]);
    assert!(stats.contains("\n  a ") && !stats.contains("\n  b "), "{stats}");
    assert!(!node.run(&["stats"]).contains("pc1.eth0 ("));
    assert!(node.run(&["stats", "--all"]).contains("pc1.eth0 ("));
    let json: Value = serde_json::from_str(&node.run(&["stats", "pc1", "--json"])).expect("JSON");
    assert_eq!(json["hosts"][0]["name"], "pc1", "{json}");
    let unknown = node.attempt(&["stats", "blue"]);
    assert_eq!(unknown.status.code(), Some(5));
    assert!(unknown.stderr.contains("red/r1.a"), "{}", unknown.stderr);

    let start = Instant::now();
    while !node.run(&["logs", "pc1"]).contains("hello from pc1") {
        assert!(start.elapsed() < Duration::from_secs(20), "{}", node.run(&["events"]));
        sleep(Duration::from_millis(50));
    }
    let unknown = node.attempt(&["logs", "pc3"]);
    assert_eq!(unknown.status.code(), Some(5), "{}", unknown.stderr);
    let one = node.run(&["logs", "node", "--tail", "1"]);
    assert_eq!(one.lines().count(), 1, "{one}");
    assert!(node.run(&["explain", "router.interfaces"]).contains("addresses"));
}

#[test]
fn differences_and_changes_are_shown() {
    skip_without!();
    let node = Node::new(None);
    let file = node.file("node.yaml", NETWORK);
    node.run(&["up", &file]);
    assert!(node.run(&["diff", "--exit-code", &file]).contains("0 changed"));
    let changed = NETWORK.replace("gateway: 10.0.1.1\n", "");
    let changed = node.file("changed.yaml", &changed);
    assert!(node.run(&["diff", &changed]).contains("~ host pc1"));
    let output = node.attempt(&["diff", "-f", &changed, "--exit-code"]);
    assert_eq!(output.status.code(), Some(6), "{}", output.stderr);
    assert!(node.run(&["diff", &file]).contains("0 changed"), "nothing was applied");

    let mut watching = node.start(&["watch", "--every", "0.05"]);
    watching.wait_for("router red/r1 running", Duration::from_secs(20)).expect("the router");
    node.run(&["restart", "red/r1"]);
    let more = "kind: slice\nname: blue\n---\nkind: slice\nname: grey\n";
    node.run(&["apply", "-f", &node.file("more.yaml", more)]);
    watching.wait_for("slice blue active", Duration::from_secs(20)).expect("a new slice");
    let told = node.run(&["delete", "slice/blue", "slice/grey"]);
    assert_eq!(told, "- slice blue\n- slice grey\n");
    watching.wait_for("slice blue removed", Duration::from_secs(20)).expect("its end");
    watching.signal(Signal::SIGINT);
    assert!(watching.wait(Duration::from_secs(20)).expect("it ends").status.success());
    let error = node.attempt(&["delete", "slice/none", "slice/red"]);
    assert_eq!(error.status.code(), Some(5), "{}", error.stderr);
}

/// The requests of shells' completion scripts.
#[test]
fn handlers_and_hosts_are_completed() {
    skip_without!();
    let node = Node::new(None);
    node.up(NETWORK);
    let complete = |words: &[&str]| {
        let program = europa().display().to_string();
        let index = words.len();
        let mut argv = vec!["env".to_owned(), "COMPLETE=bash".to_owned()];
        argv.push(format!("_CLAP_COMPLETE_INDEX={index}"));
        argv.push("_CLAP_COMPLETE_COMP_TYPE=9".to_owned());
        argv.push("_CLAP_IFS=\n".to_owned());
        argv.push(format!("EUROPA_INSTANCE={}", node.instance()));
        argv.extend([program, "--".to_owned(), "europa".to_owned()]);
        argv.extend(words.iter().map(|word| (*word).to_owned()));
        let process = Process::start(&argv).expect("it starts");
        process.wait(Duration::from_secs(20)).expect("it ends").stdout
    };
    for (words, wanted) in [
        (&["describe", "host", ""][..], "pc1"),
        (&["describe", "host/"], "host/pc2"),
        (&["delete", "router/"], "router/red/r1"),
        (&["read", "red/r1", ""], "version"),
        (&["read", "red/r1", "rou"], "route"),
        (&["stats", "red/r1."], "red/r1.a"),
        (&["explain", "host.inter"], "host.interfaces"),
    ] {
        let found = complete(words);
        assert!(found.lines().any(|line| line.starts_with(wanted)), "{words:?}: {found:?}");
    }
    let elements = node.run(&["read", "red/r1", "list"]);
    let element = elements.lines().nth(1).expect("an element");
    let handlers = complete(&["read", "red/r1", &format!("{element}.")]);
    assert!(handlers.contains(&format!("{element}.class")), "{handlers}");
    assert!(!complete(&["write", "red/r1", &format!("{element}.")]).contains(".class"));
}
