//! Routers leave a node that is killed, drained or cut off, in a cluster with a real etcd.

#[path = "cluster/dev.rs"]
mod dev;

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use europa_tests::{Leftovers, Ping, Process, europa, skip_without};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use self::dev::{Cluster, PATIENCE};

/// A node's lease.
const LEASE: Duration = Duration::from_secs(5);

/// h1 on the first node, h3 on the third, and r1 — r2 — r3 between them, which may run on any node;
/// a router r4 that its document puts on the second node.
fn lab([first, second, third]: [u8; 3], routers: &[u8]) -> String {
    let mut text = "kind: slice\nname: lab\n".to_owned();
    for (number, interfaces, routes) in [
        (
            1,
            "h: {link: h, addresses: [10.1.0.1/24, \"fd01::1/64\"]}, \
             e: {link: a, addresses: [10.12.0.1/24, \"fd12::1/64\"]}",
            "{to: 0.0.0.0/0, via: 10.12.0.2}, {to: \"::/0\", via: \"fd12::2\"}",
        ),
        (
            2,
            "w: {link: a, addresses: [10.12.0.2/24, \"fd12::2/64\"]}, \
             e: {link: b, addresses: [10.23.0.2/24, \"fd23::2/64\"]}",
            "{to: 10.1.0.0/24, via: 10.12.0.1}, {to: 10.3.0.0/24, via: 10.23.0.3}, \
             {to: \"fd01::/64\", via: \"fd12::1\"}, {to: \"fd03::/64\", via: \"fd23::3\"}",
        ),
        (
            3,
            "h: {link: i, addresses: [10.3.0.1/24, \"fd03::1/64\"]}, \
             w: {link: b, addresses: [10.23.0.3/24, \"fd23::3/64\"]}",
            "{to: 0.0.0.0/0, via: 10.23.0.2}, {to: \"::/0\", via: \"fd23::2\"}",
        ),
    ] {
        if routers.contains(&number) {
            text += &format!(
                "---\nkind: router\nname: r{number}\nslice: lab\ninterfaces: {{{interfaces}}}\n\
                 fast_path: {{builtin: ipv4, routes: [{routes}]}}\n"
            );
        }
    }
    for (number, node, link) in [(1, first, "h"), (3, third, "i")] {
        text += &format!(
            "---\nkind: host\nname: h{number}\nnode: n{node}\n\
             gateway: [10.{number}.0.1, \"fd0{number}::1\"]\ninterfaces: {{eth0: {{link: {link}, \
             addresses: [10.{number}.0.2/24, \"fd0{number}::2/64\"]}}}}\n"
        );
    }
    text + &format!(
        "---\nkind: router\nname: r4\nslice: lab\nnode: n{second}\ninterfaces: {{x: {{link: x}}}}\n\
         fast_path: {{builtin: ipv4}}\n"
    )
}

impl Cluster {
    /// The number of the leading node.
    fn leader(&self) -> u8 {
        let status: Value = serde_json::from_str(&self.run(&["status", "--json"])).expect("JSON");
        let nodes = status["nodes"].as_array().expect("nodes");
        let leader = nodes.iter().find(|node| node["leader"] == true).expect("a leader");
        leader["name"].as_str().expect("a name")[1..].parse().expect("a number")
    }

    /// The number of the node that a router is placed on.
    fn place(&self, router: &str) -> u8 {
        let got = self.run(&["get", "routers"]);
        let line =
            got.lines().find(|line| line.contains(router)).unwrap_or_else(|| panic!("{got}"));
        let node = line.split_whitespace().nth(2).expect("a node");
        node[1..].parse().unwrap_or_else(|_| panic!("{line}"))
    }

    /// The nodes that have a running copy of a router.
    fn runs(&self, router: &str) -> Vec<u8> {
        let has = |node: &u8| self.node(*node, &["get", "routers"]).stdout.contains(router);
        [1, 2, 3].into_iter().filter(has).collect()
    }

    /// Starts a host's pings, one every `every` seconds; they continue beside the test's work.
    fn stream(&self, node: u8, host: &str, to: &str, count: u32, every: &str) -> Process {
        let (program, instance) = (europa(), format!("{}-{node}", self.name));
        let words = [program.to_str().expect("a path"), "--instance", &instance, "exec", host];
        let count = count.to_string();
        let ping = ["ping", "-c", &count, "-i", every, "-W", "1", to];
        Process::start(&[&words[..], &ping].concat()).expect("ping")
    }

    /// Checks that a router's address answers every ping from a host exactly once.
    fn answers_once(&self, node: u8, host: &str, to: &str) {
        let count = 30;
        let output = self.stream(node, host, to, count, "0.02").wait(PATIENCE).expect("it ends");
        let ping = Ping::parse(&output.stdout, count);
        let found = (ping.sent, ping.received, ping.duplicates);
        assert_eq!(found, (count, count, 0), "{}{}", output.stdout, self.logs());
    }

    /// Kills a node, its routers and its agent, as if its machine had failed. `cluster dev` starts
    /// them again when it continues.
    fn kill_machine(&self, number: u8) {
        self.dev.signal(Signal::SIGSTOP);
        let mut all = vec![self.agent_process(number)];
        let mut next = vec![self.node_process(number)];
        while let Some(pid) = next.pop() {
            all.push(pid);
            next.extend(children(pid));
        }
        // The node is killed first: it would restart the other processes.
        for pid in all {
            // The process may have ended with its parent.
            let _ = kill(pid, Signal::SIGKILL);
        }
    }
}

fn children(parent: Pid) -> Vec<Pid> {
    let tasks = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let pids: BTreeSet<i32> = lists
        .flat_map(|list| {
            list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()
        })
        .collect();
    pids.into_iter().map(Pid::from_raw).collect()
}

/// The leading node, and the two others.
fn nodes(cluster: &Cluster) -> [u8; 3] {
    let leader = cluster.leader();
    [leader, leader % 3 + 1, (leader + 1) % 3 + 1]
}

/// Applies the lab; r1, r2 and r3 begin on these nodes.
fn begin(cluster: &Cluster, nodes: [u8; 3]) {
    let [first, _, third] = nodes;
    cluster.apply(&lab(nodes, &[1, 3]));
    // The cluster places nothing on cordoned nodes, so r2 begins on the second node.
    for node in [first, third] {
        cluster.run(&["cordon", &format!("n{node}")]);
    }
    cluster.apply(&lab(nodes, &[1, 2, 3]));
    for node in [first, third] {
        cluster.run(&["uncordon", &format!("n{node}")]);
    }
    assert_eq!(["lab/r1", "lab/r2", "lab/r3"].map(|router| cluster.place(router)), nodes);
    cluster.pings(first, "h1", "10.3.0.2");
    cluster.pings(first, "h1", "fd03::2");
    cluster.answers_once(first, "h1", "10.12.0.2");
}

/// Ends the cluster, and checks that nothing is left.
fn end(cluster: Cluster, before: &Leftovers) {
    let pid = i32::try_from(cluster.dev.id()).expect("a number");
    kill(Pid::from_raw(pid), Signal::SIGINT).expect("it runs");
    let end = cluster.dev.wait(PATIENCE).expect("it ends");
    assert!(end.status.success(), "{}{}", end.stdout, end.stderr);
    assert_eq!(before.new_ones().expect("a look"), [""; 0]);
}

#[test]
fn routers_leave_their_node() {
    skip_without!("etcd", "ping", "nsenter", "setpriv");
    let before = Leftovers::look().expect("a look");
    let cluster = Cluster::start();
    // The second node does not lead, so the leader notices its end at once.
    let nodes = nodes(&cluster);
    let [first, second, _] = nodes;
    let name = |node: u8| format!("n{node}");
    begin(&cluster, nodes);

    let refused = cluster.refused(&[
        "apply",
        &cluster.file(&lab(nodes, &[1, 2, 3]).replace("name: r4\n", "name: r4\ntakeover: true\n")),
    ]);
    assert!(refused.contains("router lab/r4 cannot be taken over: its document says"), "{refused}");
    let refused = cluster.refused(&["takeover", &name(second)]);
    assert!(refused.contains("has a lease"), "{refused}");

    // The second node fails.
    cluster.kill_machine(second);
    let start = Instant::now();
    cluster.pings(first, "h1", "10.3.0.2");
    let took = start.elapsed();
    println!("takeover: pings pass again after {} ms", took.as_millis());
    assert!(took < LEASE + Duration::from_secs(2), "{took:?}{}", cluster.logs());
    let place = cluster.place("lab/r2");
    assert!(place != second, "{place}");
    assert_eq!(cluster.place("lab/r4"), second, "its document puts it there");
    cluster.answers_once(first, "h1", "10.12.0.2");
    cluster.answers_once(first, "h1", "fd12::2");

    // The second node comes back, and ends its copy of the router before it takes a lease.
    cluster.dev.signal(Signal::SIGCONT);
    cluster.settles();
    assert_eq!(cluster.runs("lab/r2"), [place]);
    assert_eq!(cluster.runs("lab/r4"), [second]);
    cluster.answers_once(first, "h1", "10.12.0.2");
    drained(&cluster, nodes, place);
    stale(&cluster, nodes);
    without_etcd(&cluster, nodes);

    end(cluster, &before);
}

#[test]
#[ignore = "make nightly: half a minute"]
fn the_leader_ends() {
    skip_without!("etcd", "ping", "nsenter", "setpriv");
    let before = Leftovers::look().expect("a look");
    let cluster = Cluster::start();
    let [leader, other, third] = nodes(&cluster);
    begin(&cluster, [other, leader, third]);
    cluster.kill_machine(leader);
    let start = Instant::now();
    cluster.pings(other, "h1", "10.3.0.2");
    let took = start.elapsed();
    println!("takeover from the leader: pings pass again after {} ms", took.as_millis());
    assert!(took > LEASE && took < 2 * LEASE + Duration::from_secs(6), "{took:?}");
    cluster.answers_once(other, "h1", "10.12.0.2");
    cluster.dev.signal(Signal::SIGCONT);
    cluster.settles();
    assert_eq!(cluster.runs("lab/r2"), [cluster.place("lab/r2")]);
    end(cluster, &before);
}

#[test]
#[ignore = "make nightly: half a minute"]
fn the_new_node_ends_in_a_drain() {
    skip_without!("etcd", "ping", "nsenter", "setpriv");
    let before = Leftovers::look().expect("a look");
    let cluster = Cluster::start();
    let nodes = nodes(&cluster);
    let [first, second, third] = nodes;
    begin(&cluster, nodes);
    cluster.run(&["cordon", &format!("n{first}")]);
    let (program, etcd) = (europa(), cluster.etcd());
    let program = program.to_str().expect("a path");
    let drain = [program, "cluster", "--etcd", &etcd, "drain", &format!("n{second}")];
    let drain = Process::start(&drain).expect("europa");
    let start = Instant::now();
    while cluster.place("lab/r2") == second {
        assert!(start.elapsed() < PATIENCE, "{}", cluster.logs());
    }
    cluster.kill_machine(third);
    let told = drain.wait(PATIENCE).expect("it ends");
    println!("{}{}", told.stdout, told.stderr);
    for node in [first, second] {
        cluster.run(&["uncordon", &format!("n{node}")]);
    }
    cluster.pings(first, "h1", "10.12.0.2");
    cluster.answers_once(first, "h1", "10.12.0.2");
    let place = cluster.place("lab/r2");
    let alive: Vec<u8> = cluster.runs("lab/r2");
    assert_eq!(alive, [place], "{}", cluster.logs());
    cluster.dev.signal(Signal::SIGCONT);
    cluster.settles();
    assert_eq!(cluster.runs("lab/r2"), [place]);
    end(cluster, &before);
}

/// Drains the node that has r2: it hands r2 and its other router over to the second node, under
/// traffic.
fn drained(cluster: &Cluster, [first, second, third]: [u8; 3], from: u8) {
    let (own, other) = if from == first { ("lab/r1", third) } else { ("lab/r3", first) };
    cluster.run(&["cordon", &format!("n{other}")]);
    let told = cluster.run(&["drain", &format!("n{from}"), "--dry-run"]);
    let wanted = format!("router lab/r2: n{from} to n{second} by a start there; lost: counters");
    assert!(told.contains(&wanted) && told.contains("nothing was changed"), "{told}");
    let host = if from == first { "h1" } else { "h3" };
    assert!(
        told.contains(&format!("host {host} stays: its document says `node: n{from}`")),
        "{told}"
    );
    assert_eq!(cluster.place("lab/r2"), from);

    let count = 1200;
    let pings = cluster.stream(first, "h1", "10.3.0.2", count, "0.005");
    let told = cluster.run(&["drain", &format!("n{from}")]);
    assert!(told.contains("2 moved, 1 stay"), "{told}");
    let output = pings.wait(PATIENCE).expect("it ends");
    let ping = Ping::parse(&output.stdout, count);
    let lost = count - ping.received;
    println!("{told}drain of two routers: {lost} of {count} pings lost, one each 5 ms");
    assert_eq!((ping.sent, ping.duplicates), (count, 0), "{}", output.stdout);
    assert!(lost < 200, "{lost}: {}", cluster.logs());
    for router in ["lab/r2", own] {
        assert_eq!((cluster.place(router), cluster.runs(router)), (second, vec![second]));
    }
    cluster.answers_once(first, "h1", "10.12.0.2");
    for node in [from, other] {
        cluster.run(&["uncordon", &format!("n{node}")]);
    }
}

/// Stops the agent of the second node, which runs on. The node's copies of routers that now run
/// elsewhere answer no ping.
fn stale(cluster: &Cluster, [first, second, _]: [u8; 3]) {
    let agent = cluster.agent_process(second);
    kill(agent, Signal::SIGSTOP).expect("an agent");
    let start = Instant::now();
    while cluster.place("lab/r2") == second {
        assert!(start.elapsed() < PATIENCE, "{}", cluster.logs());
        std::thread::sleep(Duration::from_millis(50));
    }
    cluster.pings(first, "h1", "10.3.0.2");
    let place = cluster.place("lab/r2");
    let runs: BTreeSet<u8> = cluster.runs("lab/r2").into_iter().collect();
    assert_eq!(runs, BTreeSet::from([second, place]), "one that is right, and one that is not");
    cluster.answers_once(first, "h1", "10.12.0.2");
    cluster.answers_once(first, "h1", "fd12::2");
    kill(agent, Signal::SIGCONT).expect("an agent");
    cluster.settles();
    assert_eq!(cluster.runs("lab/r2"), [place]);
    cluster.answers_once(first, "h1", "10.12.0.2");
}

/// Without etcd, changes are refused and routers stay where they are. They also stay when etcd is
/// back and all leases have ended.
fn without_etcd(cluster: &Cluster, nodes: [u8; 3]) {
    let places = ["lab/r1", "lab/r2", "lab/r3"].map(|router| cluster.place(router));
    let etcd = cluster.etcd_process();
    kill(etcd, Signal::SIGSTOP).expect("etcd");
    let error = cluster.refused(&["drain", "n1"]);
    assert!(
        error.contains("has not answered within") && error.contains("routers go on"),
        "{error}"
    );
    cluster.answers_once(nodes[0], "h1", "10.12.0.2");
    std::thread::sleep(Duration::from_secs(2));
    kill(etcd, Signal::SIGCONT).expect("etcd");
    cluster.settles();
    std::thread::sleep(LEASE);
    assert_eq!(["lab/r1", "lab/r2", "lab/r3"].map(|router| cluster.place(router)), places);
    cluster.answers_once(nodes[0], "h1", "10.12.0.2");
}
