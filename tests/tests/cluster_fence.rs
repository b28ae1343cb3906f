//! Ports of routers that another node may take over carry frames only while their node has a lease.

#[path = "cluster/dev.rs"]
mod dev;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use europa_tests::{Leftovers, Process, skip_without};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use self::dev::{Cluster, PATIENCE};

/// Time from the sending of a renewal to its deadline: a lease of 5 s, less 1 s.
const DEADLINE: Duration = Duration::from_secs(4);
/// Time between two renewals.
const RENEW: Duration = Duration::from_millis(1500);
/// Time between two pings, and the tolerance of a busy machine.
const PING: Duration = Duration::from_millis(20);
const LATE: Duration = Duration::from_millis(300);

/// A LAN beside the machines: a bridge with a device `p0` of each machine, and a station.
struct Lan {
    namespace: String,
}

fn ip(arguments: &[&str]) {
    let output = Process::start(&[&["ip"], arguments].concat()).expect("ip");
    let output = output.wait(PATIENCE).expect("it ends");
    assert!(output.status.success(), "ip {arguments:?}: {}", output.stderr);
}

impl Lan {
    fn new(cluster: &Cluster) -> Lan {
        let namespace = format!("lan-{}", cluster.name);
        let own = ["-n", namespace.as_str()];
        ip(&["netns", "add", &namespace]);
        ip(&[&own[..], &["link", "add", "lan", "type", "bridge", "mcast_snooping", "0"]].concat());
        for number in 1..=3 {
            let (machine, outer) = (cluster.machine(number), format!("p{number}"));
            let pair = ["link", "add", &outer, "type", "veth", "peer", "name", "p0", "netns"];
            ip(&[&own[..], &pair[..], &[machine.as_str()]].concat());
            ip(&[&own[..], &["link", "set", &outer, "master", "lan", "up"]].concat());
            ip(&["-n", &machine, "link", "set", "p0", "up"]);
        }
        for address in ["10.9.0.9/24", "fd09::9/64"] {
            let add = ["address", "add", address, "dev", "lan"];
            let nodad: &[&str] = if address.contains(':') { &["nodad"] } else { &[] };
            ip(&[&own[..], &add[..], nodad].concat());
        }
        ip(&[&own[..], &["link", "set", "lan", "up"]].concat());
        Lan { namespace }
    }

    /// Pings from the station until it is stopped, a line with the time for each answer.
    fn stream(&self, to: &str) -> Stream {
        let words = ["ip", "netns", "exec", &self.namespace, "ping", "-n", "-D", "-i", "0.02", to];
        Stream(Process::start(&words).expect("ping"))
    }

    fn pings(&self, cluster: &Cluster, to: &str) {
        let start = Instant::now();
        let words = ["ip", "netns", "exec", &self.namespace, "ping", "-c", "1", "-W", "1", to];
        while !Process::start(&words)
            .expect("ping")
            .wait(PATIENCE)
            .expect("it ends")
            .status
            .success()
        {
            assert!(start.elapsed() < PATIENCE, "{to} does not answer: {}", cluster.logs());
        }
    }
}

impl Drop for Lan {
    fn drop(&mut self) {
        ip(&["netns", "delete", &self.namespace]);
    }
}

struct Stream(Process);

impl Stream {
    /// Ends it. Returns the times of its answers since the epoch; no request has two.
    fn end(self) -> Vec<f64> {
        self.0.signal(Signal::SIGINT);
        let output = self.0.wait(PATIENCE).expect("it ends");
        assert!(!output.stdout.contains("DUP!"), "{}", output.stdout);
        let answers = output.stdout.lines().filter(|line| line.contains("bytes from"));
        let time = |line: &str| line.strip_prefix('[')?.split_once(']')?.0.parse().ok();
        answers.filter_map(time).collect()
    }
}

/// Seconds since the epoch.
fn now() -> f64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("a clock").as_secs_f64()
}

impl Cluster {
    fn machine(&self, number: u8) -> String {
        format!("europa-{}-{number}", self.name)
    }

    /// A node's frames that the fence has dropped: received ones, and sent ones.
    fn fenced(&self, number: u8) -> [u64; 2] {
        let output = self.node(number, &["stats", "--json"]);
        let stats: Value = serde_json::from_str(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}{}", output.stdout, output.stderr));
        let mut found = [0, 0];
        let interfaces = stats["routers"].as_array().into_iter().flatten();
        for interface in interfaces.flat_map(|r| r["interfaces"].as_array().into_iter().flatten()) {
            for (way, cause) in ["fenced: no lease, in", "fenced: no lease, out"].iter().enumerate()
            {
                let drops = interface["drops"].as_array().into_iter().flatten();
                let own = drops.filter(|drop| drop[0] == *cause);
                found[way] += own.filter_map(|drop| drop[1].as_u64()).sum::<u64>();
            }
        }
        found
    }

    /// The nodes, the leading one first.
    fn leader_first(&self) -> [u8; 3] {
        let status: Value = serde_json::from_str(&self.run(&["status", "--json"])).expect("JSON");
        let nodes = status["nodes"].as_array().expect("nodes");
        let leader = nodes.iter().find(|node| node["leader"] == true).expect("a leader");
        let leader: u8 = leader["name"].as_str().expect("a name")[1..].parse().expect("a number");
        [leader, leader % 3 + 1, (leader + 1) % 3 + 1]
    }

    fn router_is_on(&self, node: u8) -> bool {
        let got = self.run(&["get", "routers"]);
        let line =
            got.lines().find(|line| line.contains("lab/gw")).unwrap_or_else(|| panic!("{got}"));
        line.split_whitespace().nth(2) == Some(&format!("n{node}"))
    }
}

/// A router that sends by itself, too: its packets must stop as well as its answers.
fn lab(own: u8, other: u8, more: &str, standby: &str) -> String {
    format!(
        "kind: port\nname: left\nnode: n{own}\ndevice: p0\n---\n\
         kind: port\nname: right\nnode: n{other}\ndevice: p0\n---\n\
         kind: slice\nname: lab\n---\n\
         kind: router\nname: gw\nslice: lab\n{more}interfaces: {{x: {{port: left, {standby}\
         addresses: [10.9.0.1/24, \"fd09::1/64\"]}}}}\nfast_path: {{builtin: ipv4}}\n"
    )
}

/// Stops a process, and waits until it is stopped.
fn stop(process: Pid) {
    kill(process, Signal::SIGSTOP).expect("a process");
    let path = PathBuf::from(format!("/proc/{process}/stat"));
    let start = Instant::now();
    while !fs::read_to_string(&path).expect("a process").contains(") T ") {
        assert!(start.elapsed() < PATIENCE, "{process} is not stopped");
    }
}

#[test]
fn frames_stop_at_the_deadline() {
    skip_without!("etcd", "ping", "nsenter", "setpriv");
    let before = Leftovers::look().expect("a look");
    let cluster = Cluster::start();
    let lan = Lan::new(&cluster);
    let nodes = cluster.leader_first();
    let [_, second, third] = nodes;

    let wrong = lab(second, third, "without_lease: stop\nslow_path: {uplink: true}\n", "");
    let refused = cluster.refused(&["apply", &cluster.file(&wrong)]);
    assert!(refused.contains("has an uplink and stops without a lease"), "{refused}");

    // `keep`: without a lease, and without its node, the router forwards.
    cluster.apply(&lab(second, third, "without_lease: keep\n", "standby: right, "));
    without_lease_kept(&cluster, &lan, nodes);
    cluster.apply(&lab(second, third, "", "standby: right, "));
    for to in ["10.9.0.1", "fd09::1"] {
        lan.pings(&cluster, to);
    }
    restarted_within_its_lease(&cluster, &lan, nodes);
    stopped(&cluster, &lan, nodes);
    taken_over(&cluster, &lan, nodes);

    drop(lan);
    let pid = i32::try_from(cluster.dev.id()).expect("a number");
    kill(Pid::from_raw(pid), Signal::SIGINT).expect("it runs");
    let end = cluster.dev.wait(PATIENCE).expect("it ends");
    assert!(end.status.success(), "{}{}", end.stdout, end.stderr);
    assert_eq!(before.new_ones().expect("a look"), [""; 0]);
}

/// With `keep`, nothing drops frames, and no other node takes the router over.
fn without_lease_kept(cluster: &Cluster, lan: &Lan, [_, second, _]: [u8; 3]) {
    lan.pings(cluster, "10.9.0.1");
    let agent = cluster.agent_process(second);
    stop(agent);
    cluster.is_absent(&format!("n{second}"));
    std::thread::sleep(Duration::from_millis(500));
    lan.pings(cluster, "10.9.0.1");
    assert!(cluster.router_is_on(second), "{}", cluster.logs());
    assert_eq!(cluster.fenced(second), [0, 0]);
    kill(agent, Signal::SIGCONT).expect("an agent");
    cluster.settles();
}

/// A killed node process, whose successor goes on with the lease.
fn restarted_within_its_lease(cluster: &Cluster, lan: &Lan, [_, second, _]: [u8; 3]) {
    let before = cluster.fenced(second);
    let stream = lan.stream("10.9.0.1");
    std::thread::sleep(Duration::from_millis(300));
    kill(cluster.node_process(second), Signal::SIGKILL).expect("a node");
    std::thread::sleep(Duration::from_secs(3));
    let answers = stream.end();
    let longest = answers.windows(2).map(|two| two[1] - two[0]).fold(0.0, f64::max);
    assert!(answers.len() > 100 && longest < 1.0, "{} answers, {longest} s", answers.len());
    cluster.settles();
    assert_eq!(cluster.fenced(second), before);
}

/// The node process is stopped, and etcd does not answer, so no process moves the deadline.
fn stopped(cluster: &Cluster, lan: &Lan, [_, second, third]: [u8; 3]) {
    let streams = ["10.9.0.1", "fd09::1"].map(|to| lan.stream(to));
    std::thread::sleep(Duration::from_secs(1));
    let (etcd, node) = (cluster.etcd_process(), cluster.node_process(second));
    let begin = now();
    stop(etcd);
    stop(node);
    std::thread::sleep(DEADLINE + LATE + Duration::from_secs(1));
    for (to, answers) in ["10.9.0.1", "fd09::1"].into_iter().zip(streams.map(Stream::end)) {
        let last = answers.last().expect("answers") - begin;
        println!("{to}: the last frame {last:.2} s after etcd and the node were stopped");
        let earliest = DEADLINE - RENEW - LATE;
        assert!(last < (DEADLINE + PING + LATE).as_secs_f64(), "{last}");
        assert!(last > earliest.as_secs_f64(), "{last}");
    }
    kill(node, Signal::SIGCONT).expect("a node");
    let [received, _] = cluster.fenced(second);
    assert!(received > 20, "{received}");
    kill(etcd, Signal::SIGCONT).expect("etcd");
    cluster.settles();
    // Nothing was taken over: all nodes had lost their lease.
    assert!(cluster.router_is_on(second), "it is not on n{third}");
    lan.pings(cluster, "10.9.0.1");
    lan.pings(cluster, "fd09::1");
}

/// The agent is stopped, so that its node's lease ends: the router starts on the other node, on its
/// standby port, after the fence on the first one is up. The copy there sends nothing.
fn taken_over(cluster: &Cluster, lan: &Lan, [_, second, third]: [u8; 3]) {
    let stream = lan.stream("10.9.0.1");
    std::thread::sleep(Duration::from_millis(500));
    let agent = cluster.agent_process(second);
    stop(agent);
    let start = Instant::now();
    while !cluster.router_is_on(third) {
        assert!(start.elapsed() < PATIENCE, "{}", cluster.logs());
        std::thread::sleep(Duration::from_millis(50));
    }
    lan.pings(cluster, "10.9.0.1");
    let took = start.elapsed();
    lan.pings(cluster, "fd09::1");
    std::thread::sleep(Duration::from_secs(1));
    let answers = stream.end();
    let gap = answers.windows(2).map(|two| two[1] - two[0]).fold(0.0, f64::max);
    println!("taken over within {took:.2?}; {gap:.2} s without an answer");
    // The lease, one more for etcd before 3.4.31 and 3.5.13, and 2 s.
    assert!(took < Duration::from_secs(12), "{took:?}");
    let copy = cluster.node(second, &["get", "routers"]).stdout;
    assert!(copy.contains("lab/gw"), "{copy}");
    kill(agent, Signal::SIGCONT).expect("an agent");
    cluster.settles();
    let copy = cluster.node(second, &["get", "routers"]).stdout;
    assert!(!copy.contains("lab/gw"), "{copy}");
    lan.pings(cluster, "10.9.0.1");
    assert!(cluster.router_is_on(third), "no failback by itself");
}
