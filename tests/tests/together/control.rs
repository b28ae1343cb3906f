//! The promises of control: a dry run lists all changes, a failed change is taken back, and changes
//! by other programs are repaired.

use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{Lab, Node, skip_without};

const LAB: &str = "\
kind: slice\nname: red\n---\n\
kind: host\nname: h\n\
interfaces: {eth0: {link: a, addresses: [10.0.0.2/24]}}\ngateway: 10.0.0.1\n---\n\
kind: router\nname: r1\nslice: red\n\
interfaces: {h: {link: a, addresses: [10.0.0.1/24]}, up: {link: ab}}\n\
fast_path: {builtin: ipv4}\n---\n\
kind: router\nname: r2\nslice: red\n\
interfaces: {down: {link: ab}, own: {link: own, addresses: [10.2.0.1/24]}}\n\
fast_path: {builtin: ipv4}\n---\n\
kind: host\nname: g\n\
interfaces: {eth0: {link: own, addresses: [10.2.0.2/24]}}\ngateway: 10.2.0.1\n";

/// A node in a namespace of its own. The namespace is dropped after the node.
fn node() -> (Lab, Node) {
    let mut lab = Lab::new().expect("a lab");
    let inside = lab.namespace("node").expect("a namespace");
    let node = Node::new(Some(&inside));
    (lab, node)
}

fn until(what: &str, so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what} is never so");
        sleep(Duration::from_millis(100));
    }
}

fn routes(node: &Node, host: &str) -> String {
    node.host(host).ip(&["route"]).expect("routes").stdout
}

#[test]
fn n01_a_dry_run_tells_what_is_done() {
    skip_without!();
    let (_lab, node) = node();
    node.up(LAB);
    let to = LAB.replacen("name: red\n---", "name: red\nlinks: {ipv4: 10.255.0.0/16}\n---", 1);
    let file = node.file("more.yaml", &to);
    let pids = |node: &Node| -> Vec<serde_json::Value> {
        let stats = node.stats();
        stats["routers"]
            .as_array()
            .cloned()
            .unwrap_or_default()
            .iter()
            .map(|r| r["pid"].clone())
            .collect()
    };
    let before = pids(&node);
    let told = node.run(&["apply", "--dry-run", &file]);
    for wanted in ["~ router red/r1 (restart)", "~ router red/r2 (restart)", "end router red/r1"] {
        assert!(told.contains(wanted), "{wanted} is not in\n{told}");
    }
    assert_eq!(pids(&node), before, "a dry run changes nothing");
    let done = node.run(&["apply", &file]);
    for wanted in ["~ router red/r1 (restart)", "~ router red/r2 (restart)"] {
        assert!(done.contains(wanted), "{wanted} is not in\n{done}");
    }
    assert!(pids(&node).iter().all(|pid| !before.contains(pid)), "both begin anew");
}

#[test]
fn n02_what_fails_half_way_is_taken_back() {
    skip_without!();
    let (_lab, node) = node();
    node.up(LAB);
    let default = "default via 10.0.0.1";
    assert!(routes(&node, "h").contains(default));
    // The slow path already has a route to that destination. The change fails there, after the node
    // has removed the default route.
    node.host("h").ip(&["route", "add", "10.60.0.0/16", "via", "10.0.0.1"]).expect("a route");
    let bad = LAB.replacen(
        "gateway: 10.0.0.1\n",
        "gateway: 10.0.0.9\nroutes: [{to: 10.60.0.0/16, via: 10.0.0.1}]\n",
        1,
    );
    let refused = node.attempt(&["apply", &node.file("bad.yaml", &bad)]);
    assert!(!refused.status.success(), "{}", refused.stdout);
    assert!(refused.stderr.contains("as it was before"), "{}", refused.stderr);
    assert!(routes(&node, "h").contains(default), "{}", routes(&node, "h"));
}

#[test]
fn n02_an_apply_mends_what_other_hands_have_changed() {
    skip_without!();
    let (_lab, node) = node();
    node.up(LAB);
    let file = node.file("node.yaml", LAB);
    node.host("h").ip(&["route", "del", "default"]).expect("it goes");
    let told = node.run(&["apply", &file]);
    assert!(told.contains("~ host h"), "{told}");
    assert!(routes(&node, "h").contains("default via 10.0.0.1"), "{}", routes(&node, "h"));
}

#[test]
fn what_other_hands_have_changed_is_mended_by_itself() {
    skip_without!("ping");
    let (_lab, node) = node();
    node.up(LAB);
    node.host("h").ip(&["address", "del", "10.0.0.2/24", "dev", "eth0"]).expect("it goes");
    until("the address", || {
        node.host("h").ip(&["address"]).is_ok_and(|text| text.stdout.contains("10.0.0.2/24"))
    });
    until("the route", || routes(&node, "h").contains("default via 10.0.0.1"));
    let name = format!("europa.{}.g", node.instance());
    europa_tests::run(&["ip", "netns", "del", &name]).expect("it goes");
    until("the way through", || {
        let ping = node.host("g").ping("10.2.0.1", 1, &["-W", "1"]);
        ping.is_ok_and(|ping| ping.is_perfect())
    });
    let events = node.run(&["events"]);
    assert!(events.contains("Drifted"), "{events}");
}

#[test]
fn a_slow_path_without_its_namespace_is_made_anew() {
    skip_without!("ping");
    let (_lab, node) = node();
    let slow =
        LAB.replacen("name: r1\nslice: red\n", "name: r1\nslice: red\nslow_path: {run: []}\n", 1);
    node.up(&slow);
    let inside = || node.attempt(&["exec", "red/r1", "ip", "address"]);
    until("the slow path", || inside().stdout.contains("10.0.0.1/24"));
    let name = format!("europa.{}.red.r1", node.instance());
    europa_tests::run(&["ip", "netns", "del", &name]).expect("it goes");
    assert!(!inside().status.success());
    until("the slow path again", || inside().stdout.contains("10.0.0.1/24"));
    until("the way through", || {
        let ping = node.host("h").ping("10.0.0.1", 1, &["-W", "1"]);
        ping.is_ok_and(|ping| ping.is_perfect())
    });
    let events = node.run(&["events"]);
    assert!(events.contains("the network namespace of its slow path is gone"), "{events}");
}

#[test]
fn n03_a_router_on_a_link_goes_and_comes_alone() {
    skip_without!("curl");
    let (_lab, node) = node();
    node.up(LAB);
    node.run(&["delete", "router", "red/r2"]);
    let left = node.run(&["get", "routers"]);
    assert!(left.contains("red/r1") && !left.contains("red/r2"), "{left}");
    let socket = node.directory().join("node.sock").display().to_string();
    let router = "{kind: router, name: r2, slice: red, interfaces: {down: {link: ab}, own: {link: own, \
         addresses: [10.2.0.1/24]}}, fast_path: {builtin: ipv4}}";
    let put = ["curl", "-s", "--unix-socket", &socket, "-X", "PUT", "--data-binary", router];
    let answer = europa_tests::run(&[&put[..], &["http://europa/v1/routers/red/r2"]].concat());
    let answer = answer.expect("curl").stdout;
    assert!(answer.contains("\"add\""), "{answer}");
    until("both run", || node.run(&["get", "routers"]).matches("running").count() == 2);
}

#[test]
fn n05_a_change_outlives_a_switch_that_is_killed() {
    skip_without!();
    let (_lab, node) = node();
    node.up(LAB);
    for turn in 0..6 {
        let to = LAB.replacen(
            "name: r2\nslice: red\n",
            &format!("name: r2\nslice: red\npool: {{slots: {}}}\n", 1024 << (turn % 2)),
            1,
        );
        let file = node.file("next.yaml", &to);
        node.kill("switch");
        node.run(&["apply", &file]);
        until("the switch", || node.stats()["switch"].is_object());
    }
}

/// A tenant's configuration cannot use up the node's memory; the refusal names the configuration.
#[test]
fn n10_a_configuration_that_takes_all_memory_is_refused() {
    skip_without!();
    if !std::path::Path::new("/sys/fs/cgroup/memory").exists()
        && !std::fs::read_to_string("/sys/fs/cgroup/cgroup.controllers")
            .is_ok_and(|names| names.contains("memory"))
    {
        println!("skipped: no memory controller");
        return;
    }
    let (_lab, node) = node();
    node.up(LAB);
    // A table of a million addresses takes 24 MB.
    let tables: String = (0..200)
        .map(|number| {
            format!(
                "s{number} :: EtherSwitch(CAPACITY 1048576); Idle -> s{number} -> Discard;\n      "
            )
        })
        .collect();
    let greedy = format!(
        "{LAB}---\nkind: router\nname: greedy\nslice: red\ninterfaces: {{x: {{link: x}}}}\n\
         fast_path:\n  click: |\n      {tables}\n"
    );
    let file = node.file("greedy.yaml", &greedy);
    let refused = node.attempt(&["apply", &file]);
    assert!(!refused.status.success(), "{}", refused.stdout);
    for wanted in ["red/greedy", "takes more than 1024 MiB"] {
        assert!(refused.stderr.contains(wanted), "{wanted} is not in\n{}", refused.stderr);
    }
    let ping = node.host("h").ping("10.0.0.1", 2, &["-W", "1"]);
    assert!(ping.is_ok_and(|ping| ping.is_perfect()), "the other routers go on");
    let file = node.file("good.yaml", LAB);
    node.run(&["apply", &file]);
}
