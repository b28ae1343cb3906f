//! The node's loop serves requests between two turns: no turn takes long, however many objects there are.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use europa_tests::{Node, skip_without};

/// Number of slices, each with all the ways that it may have: together all ways of the switch.
const SLICES: usize = 16;
const WAYS: usize = 4095;
const HOSTS: usize = 1000;

/// Routers whose rules lead to many Ethernet addresses, and hosts on links.
fn documents(hosts: usize) -> String {
    let mut text = String::new();
    for slice in 0..SLICES {
        let _ = write!(
            text,
            "kind: slice\nname: s{slice}\n---\nkind: router\nname: r\nslice: s{slice}\nrun: inline\n\
             interfaces: {{a: {{link: a{slice}}}, b: {{link: b{slice}}}}}\nfast_path: {{builtin: bridge}}\n\
             ---\nkind: filters\nname: f{slice}\nslice: s{slice}\nrules:\n"
        );
        for way in 0..WAYS {
            let (high, low) = (way >> 8, way & 0xff);
            let _ = writeln!(
                text,
                "  - {{priority: 1, destination: 10.{slice}.{high}.{low}/32, action: {{interface: r.b, \
                 destination_mac: \"02:00:00:{slice:02x}:{high:02x}:{low:02x}\"}}}}"
            );
        }
        text += "---\n";
    }
    // Two hosts at the ends of each link.
    for host in 0..hosts {
        let (link, end) = (host / 2, 1 + host % 2);
        let (high, low) = (link >> 8, link & 0xff);
        let _ = write!(
            text,
            "kind: host\nname: h{host}\n\
             interfaces: {{eth0: {{link: l{link}, addresses: [172.{}.{low}.{end}/24]}}}}\n---\n",
            16 + high
        );
    }
    for end in ["a", "b"] {
        for slice in 0..SLICES {
            let _ = write!(
                text,
                "kind: host\nname: {end}{slice}\n\
                 interfaces: {{eth0: {{link: {end}{slice}, addresses: [10.99.{slice}.{}/24]}}}}\n---\n",
                if end == "a" { 1 } else { 2 }
            );
        }
    }
    text
}

/// Lines of the node's log about the longest turn of each cause so far.
fn longest_of(node: &Node) -> Vec<String> {
    let log = fs::read_to_string(node.directory().join("log/node.log")).unwrap_or_default();
    let took = |line: &str| -> Option<(u64, String)> {
        let (_, said) = line.split_once("a turn of the loop took ")?;
        Some((said.split(' ').next()?.parse().ok()?, said.to_owned()))
    };
    let mut all: Vec<_> = log.lines().filter_map(took).collect();
    all.sort();
    let cause = |said: &str| -> String {
        let causes = said.split(", of which ").skip(1);
        causes.filter_map(|one| Some(one.rsplitn(3, ' ').nth(2)?.to_owned() + ", ")).collect()
    };
    let mut seen = HashSet::new();
    let new = all.into_iter().rev().filter(|(_, said)| seen.insert(cause(said)));
    new.take(12).map(|(_, said)| said).collect()
}

/// Turns of the loop stay short while it has 65,520 ways and more than 1,000 hosts, and while these
/// change.
#[test]
#[ignore = "takes two minutes"]
fn no_turn_of_the_loop_is_long() {
    skip_without!("ping");
    let node = Node::new(None);
    let step = |what: &str, begun: Instant| {
        let (long, longest) = node.turns().expect("a node");
        println!("{what}: {:.1} s, {long} long turns, {longest} us", begun.elapsed().as_secs_f64());
        for line in longest_of(&node) {
            println!("  {line}");
        }
    };
    let all = documents(HOSTS);
    let begun = Instant::now();
    node.up(&all);
    step("up", begun);
    let begun = Instant::now();
    node.run(&["stats", "--json"]);
    step("stats", begun);
    let begun = Instant::now();
    node.run(&["restart", "s0/r"]);
    step("restart", begun);
    let begun = Instant::now();
    node.run(&["apply", &node.file("two.yaml", &all.replacen("priority: 1,", "priority: 2,", 1))]);
    step("one rule more important", begun);
    let begun = Instant::now();
    node.run(&["apply", "--prune", &node.file("less.yaml", &documents(HOSTS - 2))]);
    step("two hosts less", begun);
    let begun = Instant::now();
    node.kill("switch");
    let host = node.host("a3");
    while !host.ping("10.99.3.2", 1, &[]).is_ok_and(|ping| ping.is_perfect()) {
        assert!(begun.elapsed() < Duration::from_secs(30), "nothing forwards");
    }
    step("another switch", begun);
    std::thread::sleep(Duration::from_secs(2));
    step("its routers", begun);
}
