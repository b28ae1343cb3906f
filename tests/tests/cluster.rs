//! A cluster of three nodes on one machine, with a real etcd: one lab over all of them.

#[path = "cluster/dev.rs"]
mod dev;

use std::time::{Duration, Instant};

use europa_tests::{Leftovers, skip_without};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use self::dev::{Cluster, PATIENCE};

/// h1 — r1 on n1, r2 on n2, r3 — h3 on n3: a chain of routers over three nodes, with both families.
fn lab(more: &str) -> String {
    let mut text = "kind: slice\nname: lab\nlinks: {ipv6: \"fd09::/64\"}\n".to_owned();
    for (number, interfaces, routes) in [
        (
            1,
            "h: {link: h, addresses: [10.1.0.1/24, \"fd01::1/64\"]}, e: {link: a}",
            "{to: 0.0.0.0/0, interface: e}, {to: \"::/0\", interface: e}",
        ),
        (
            2,
            "w: {link: a}, e: {link: b}",
            "{to: 10.1.0.0/24, interface: w}, {to: 10.3.0.0/24, interface: e}, \
             {to: \"fd01::/64\", interface: w}, {to: \"fd03::/64\", interface: e}",
        ),
        (
            3,
            "h: {link: i, addresses: [10.3.0.1/24, \"fd03::1/64\"]}, w: {link: b}",
            "{to: 0.0.0.0/0, interface: w}, {to: \"::/0\", interface: w}",
        ),
    ] {
        text += &format!(
            "---\nkind: router\nname: r{number}\nslice: lab\nnode: n{number}\n\
             interfaces: {{{interfaces}}}\nfast_path: {{builtin: ipv4, routes: [{routes}]}}\n"
        );
    }
    for (number, link, extra) in [(1, "h", ""), (3, "i", more)] {
        text += &format!(
            "---\nkind: host\nname: h{number}\nnode: n{number}\n\
             gateway: [10.{number}.0.1, \"fd0{number}::1\"]\n{extra}interfaces: {{eth0: {{link: {link}, \
             addresses: [10.{number}.0.2/24, \"fd0{number}::2/64\"]}}}}\n"
        );
    }
    text
}

#[test]
fn one_lab_over_three_nodes() {
    skip_without!("etcd", "ping", "nsenter", "setpriv");
    let before = Leftovers::look().expect("a look");
    let mut cluster = Cluster::start();
    let applied = cluster.apply(&lab(""));
    assert!(applied.contains("+ router lab/r2 on n2 (node)"), "{applied}");
    let crosses = |cluster: &Cluster| {
        cluster.pings(1, "h1", "10.3.0.2");
        cluster.pings(1, "h1", "fd03::2");
        cluster.pings(3, "h3", "10.1.0.2");
    };
    crosses(&cluster);
    let got = cluster.run(&["get", "routers"]);
    assert_eq!(got.matches("lab/r").count(), 3, "{got}");

    // A changed document reaches only its node.
    let revisions = [1, 2, 3].map(|number| cluster.revision(number));
    cluster.apply(&lab("sysctls: {net.ipv4.ip_default_ttl: 77}\n"));
    let now = [1, 2, 3].map(|number| cluster.revision(number));
    assert_eq!(revisions[..2], now[..2]);
    assert!(now[2] > revisions[2], "{now:?}");

    // If one node refuses a change, no node changes.
    let wrong = lab("").replace("name: r2\nslice: lab\n", "name: r2\nslice: lab\ncpu: [999]\n");
    let error = cluster.refused(&["apply", &cluster.file(&wrong)]);
    assert!(error.contains("node n2 refuses") && error.contains("no CPU 999"), "{error}");
    assert_eq!([1, 2, 3].map(|number| cluster.revision(number)), now);

    // A killed node comes back.
    kill(cluster.node_process(2), Signal::SIGKILL).expect("a node");
    crosses(&cluster);
    cluster.settles();
    crosses(&cluster);

    // While etcd is stopped, routers still forward, also on a restarted node, and changes are
    // refused.
    let etcd = cluster.etcd_process();
    kill(etcd, Signal::SIGSTOP).expect("etcd");
    let start = Instant::now();
    let error = cluster.refused(&["apply", &cluster.file(&lab(""))]);
    assert!(error.contains("has not answered within"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    crosses(&cluster);
    kill(cluster.node_process(3), Signal::SIGKILL).expect("a node");
    std::thread::sleep(Duration::from_millis(1500));
    crosses(&cluster);
    kill(etcd, Signal::SIGCONT).expect("etcd");
    cluster.settles();
    cluster.apply(&lab(""));

    // A stopped agent becomes silent, then loses its lease. Later it carries out the changes that
    // it missed.
    let agent = cluster.agent_process(3);
    kill(agent, Signal::SIGSTOP).expect("an agent");
    let changed = cluster.file(&lab("sysctls: {net.ipv4.ip_default_ttl: 76}\n"));
    let error = cluster.refused(&["apply", &changed]);
    assert!(error.contains("node n3 is"), "{error}");
    cluster.is_absent("n3");
    let error = cluster.refused(&["apply", &changed]);
    assert!(error.contains("node n3 is concerned and has no lease"), "{error}");
    let accepted = cluster.attempt(&["apply", "--allow-absent", &changed]);
    assert!(accepted.status.success(), "{}", accepted.stderr);
    assert!(accepted.stderr.contains("node n3 does not run its part yet"), "{}", accepted.stderr);
    crosses(&cluster);
    kill(agent, Signal::SIGCONT).expect("an agent");
    cluster.settles();
    let ttl = cluster.node(3, &["exec", "h3", "cat", "/proc/sys/net/ipv4/ip_default_ttl"]);
    assert_eq!(ttl.stdout.trim(), "76", "{}", ttl.stderr);

    // etcd is killed and comes back with its data.
    kill(cluster.etcd_process(), Signal::SIGKILL).expect("etcd");
    crosses(&cluster);
    cluster.settles();
    let applied = cluster.apply(&lab("sysctls: {net.ipv4.ip_default_ttl: 78}\n"));
    assert!(applied.contains("~ host h3"), "{applied}");
    crosses(&cluster);

    // The whole cluster is killed, and the next one begins with nothing.
    cluster.dev.signal(Signal::SIGKILL);
    while cluster.dev.is_running() {
        std::thread::sleep(Duration::from_millis(5));
    }
    cluster.dev = dev::dev(&cluster.name);
    assert!(!cluster.run(&["get"]).contains("router"));
    let pid = i32::try_from(cluster.dev.id()).expect("a number");
    kill(Pid::from_raw(pid), Signal::SIGINT).expect("it runs");
    let end = cluster.dev.wait(PATIENCE).expect("it ends");
    assert!(end.status.success(), "{}{}", end.stdout, end.stderr);
    assert_eq!(before.new_ones().expect("a look"), [""; 0]);
}
