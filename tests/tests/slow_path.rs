//! Slow paths with real routing daemons: FRR and BIRD converge through fast paths, and the fast
//! path always has the routes that Linux knows.

mod slow;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use europa_tests::{Namespace, Node, run, skip_without};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use slow::{compare, count, linux, program, programs, reach, router_pid, turn, wait};

/// Routers of the example, and their interfaces.
const ROUTERS: [(&str, &[&str]); 4] = [
    ("red/r1", &["lan", "east", "west", "isp"]),
    ("red/r2", &["west", "east"]),
    ("red/r3", &["lan", "west", "east"]),
    ("red/r4", &["west", "east"]),
];
/// Routes of the example's provider.
const ROUTES: usize = 100_000;

fn example() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/ospf-bgp.yaml");
    fs::read_to_string(path).expect("the example")
}

/// Real prefixes: see `tests/data/README.md`.
fn prefixes() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/prefixes.txt.gz");
    run(&["gzip", "-dc", &path.to_string_lossy()]).expect("the prefixes").stdout
}

/// The provider's configuration in the example, with all prefixes instead of one.
fn provider(example: &str) -> String {
    let begin = example.find("router id 192.0.2.2").expect("the provider's configuration");
    let end = begin + example[begin..].find("  run:").expect("its end");
    let one = "route 198.51.100.0/24 blackhole;";
    let mut text = String::new();
    for line in example[begin..end].lines() {
        if line.contains(one) {
            let all = prefixes();
            text.extend(all.lines().map(|prefix| format!("route {prefix} blackhole;\n")));
        } else {
            text += line;
            text.push('\n');
        }
    }
    text
}

/// Sends a numbered stream from `a` to `b` while something happens.
fn stream<T>(
    a: &Namespace,
    b: &Namespace,
    number: u64,
    during: impl FnOnce() -> T,
) -> (T, europa_tests::Received) {
    let sink = b.sink("10.3.0.2:7000", number).expect("a sink");
    let stream = a.stream("10.3.0.2:7000", number, 2000, 200).expect("a stream");
    std::thread::sleep(Duration::from_millis(500));
    let result = during();
    std::thread::sleep(Duration::from_millis(500));
    let sent = stream.stop();
    (result, sink.stop(sent))
}

/// Sends a stream while nothing changes: it must lose nothing.
fn calm(a: &Namespace, b: &Namespace, number: u64, when: &str) {
    let sink = b.sink("10.3.0.2:7000", number).expect("a sink");
    let stream = a.stream("10.3.0.2:7000", number, 2000, 200).expect("a stream").paced_by(&sink);
    std::thread::sleep(Duration::from_secs(2));
    let received = sink.stop(stream.stop());
    assert!(received.is_perfect(), "{when}: {received:?}");
}

/// Waits until fast paths have all routes of their Linux. Before that Linux forwards, and later
/// packets overtake on the fast path.
fn agree(node: &Node) {
    for (router, interfaces) in ROUTERS {
        compare(node, router, interfaces);
    }
}

/// One topology for all tests: the daemons need ten seconds to converge.
#[test]
fn frr_and_bird_converge_reroute_and_survive() {
    skip_without!("ping", "bird", "vtysh");
    let _turn = turn();
    let before = europa_tests::Leftovers::look().expect("a look");
    let node = Node::new(None);
    let example = example();
    node.up(&example);
    let (a, b) = (node.host("a"), node.host("b"));
    let start = Instant::now();
    reach(&b, "203.0.113.1", Duration::from_secs(60));
    reach(&a, "10.3.0.2", Duration::from_secs(60));
    reach(&a, "fd00:3::2", Duration::from_secs(60));
    println!("OSPF, OSPFv3 and BGP converged in {:.1} s", start.elapsed().as_secs_f64());
    for (router, interfaces) in ROUTERS {
        wait("BGP everywhere", Duration::from_secs(30), || {
            node.run(&["read", router, "route.table", "198.51.100.0/24"])
                .contains("198.51.100.0/24")
        });
        compare(&node, router, interfaces);
    }

    // All prefixes of the Internet, or a sixth of them.
    let file = node.directory().join("slow/internet.isp/root/tmp/full.conf");
    fs::write(file, provider(&example)).expect("a configuration");
    let start = Instant::now();
    node.run(&[
        "exec",
        "internet/isp",
        "birdc",
        "-s",
        "/run/bird.ctl",
        "configure \"/tmp/full.conf\"",
    ]);
    let mut done = [None; ROUTERS.len()];
    wait("100 000 routes in all fast paths", Duration::from_secs(60), || {
        for (done, (router, _)) in done.iter_mut().zip(ROUTERS) {
            if done.is_none() && count(&node, router) >= ROUTES {
                *done = Some(start.elapsed());
            }
        }
        done.iter().all(Option::is_some)
    });
    for (done, (router, interfaces)) in done.iter().zip(ROUTERS) {
        let seconds = done.unwrap_or_default().as_secs_f64();
        let rate = ROUTES as f64 / seconds;
        let entries = compare(&node, router, interfaces);
        println!(
            "{router}: {entries} routes, all as in Linux, {seconds:.1} s after the provider, {rate:.0} a second"
        );
        assert!(entries > ROUTES);
    }

    a_link_fails(&node, &a, &b);
    a_router_is_killed(&node, &a, &b);
    a_daemon_is_killed(&node);

    // The kill of a node ends no more than the node's own processes.
    let pids: Vec<i32> = ROUTERS
        .iter()
        .flat_map(|(router, _)| programs(&node, router))
        .map(|(pid, _)| pid)
        .collect();
    assert!(pids.len() > 10, "{pids:?}");
    node.kill("node");
    node.run(&["down"]);
    // An ended process may still wait to be reaped.
    let goes_on = |pid: &&i32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.contains("State:") && !status.contains("State:\tZ")
    };
    let left: Vec<_> = pids.iter().filter(goes_on).collect();
    assert!(left.is_empty(), "programs go on: {left:?}");
    assert_eq!(before.new_ones().expect("a look"), Vec::<String>::new());
}

/// The traffic takes the other way round, and later returns.
fn a_link_fails(node: &Node, a: &Namespace, b: &Namespace) {
    // For a moment there may be no route at all.
    let goes_by = |interface: &str| {
        let route = linux(node, "red/r1").ip(&["route", "get", "10.3.0.2"]);
        route.is_ok_and(|route| route.stdout.contains(&format!("dev {interface} ")))
    };
    assert!(goes_by("east"));
    calm(a, b, 1, "before");
    let ((), failure) = stream(a, b, 2, || {
        node.run(&["exec", "red/r1", "ip", "link", "set", "east", "down"]);
        wait("the other way", Duration::from_secs(20), || goes_by("west"));
        std::thread::sleep(Duration::from_secs(1));
    });
    println!(
        "a link fails: {} of {} packets lost, longest gap {:.0} ms",
        failure.lost,
        failure.packets + failure.lost,
        failure.longest_gap.as_secs_f64() * 1e3
    );
    assert!(failure.duplicates + failure.corrupted + failure.foreign == 0, "{failure:?}");
    assert!(failure.longest_gap < Duration::from_secs(5), "{failure:?}");
    agree(node);
    calm(a, b, 3, "after");
    let ((), recovery) = stream(a, b, 4, || {
        node.run(&["exec", "red/r1", "ip", "link", "set", "east", "up"]);
        wait("the shorter way again", Duration::from_secs(30), || goes_by("east"));
        std::thread::sleep(Duration::from_secs(1));
    });
    println!("it comes back: {} lost, {} late", recovery.lost, recovery.late);
    assert!(recovery.duplicates + recovery.corrupted + recovery.foreign == 0, "{recovery:?}");
    assert!(recovery.longest_gap < Duration::from_secs(2), "{recovery:?}");
    agree(node);
    calm(a, b, 5, "back");
}

/// The adjacency survives, and the new process has the whole table.
fn a_router_is_killed(node: &Node, a: &Namespace, b: &Namespace) {
    let old = router_pid(node, "red/r1").expect("a process");
    let zebra = program(node, "red/r1", "zebra");
    let (took, received) = stream(a, b, 6, || {
        let start = Instant::now();
        kill(Pid::from_raw(old), Signal::SIGKILL).expect("a kill");
        wait("another process", Duration::from_secs(5), || {
            router_pid(node, "red/r1").is_some_and(|pid| pid != old)
        });
        wait("the whole table", Duration::from_secs(20), || {
            let read = node.attempt(&["read", "red/r1", "route.count"]).stdout;
            read.trim().parse().is_ok_and(|count: usize| count > ROUTES)
        });
        start.elapsed()
    });
    let entries = compare(node, "red/r1", ROUTERS[0].1);
    println!(
        "a router is killed: {entries} routes again after {:.0} ms, {} packets lost, longest gap {:.0} ms",
        took.as_secs_f64() * 1e3,
        received.lost,
        received.longest_gap.as_secs_f64() * 1e3
    );
    assert_eq!(program(node, "red/r1", "zebra"), zebra, "daemons go on");
    let neighbours = node.run(&["exec", "red/r1", "vtysh", "-c", "show ip ospf neighbor"]);
    assert_eq!(neighbours.matches("Full").count(), 2, "{neighbours}");
    assert!(received.longest_gap < Duration::from_secs(2), "{received:?}");
}

/// The daemon is started again, and learns its routes again.
fn a_daemon_is_killed(node: &Node) {
    let old = program(node, "red/r1", "ospfd").expect("ospfd");
    kill(Pid::from_raw(old), Signal::SIGKILL).expect("a kill");
    wait("another ospfd", Duration::from_secs(10), || {
        program(node, "red/r1", "ospfd").is_some_and(|pid| pid != old)
    });
    let told = node.run(&["events"]);
    assert!(told.contains("ospfd was killed by signal 9; it is started again"), "{told}");
    let described = node.run(&["describe", "router", "red/r1"]);
    assert!(described.contains("was killed by signal 9"), "{described}");
    let log = node.attempt(&["logs", "red/r1.nobody"]);
    assert!(log.stderr.contains("it has: zebra, ospfd, ospf6d, bgpd"), "{}", log.stderr);
    assert!(!node.run(&["logs", "red/r1.zebra"]).is_empty());
    wait("OSPF again", Duration::from_secs(30), || {
        let routes = linux(node, "red/r1").ip(&["route", "show", "proto", "ospf"]).expect("routes");
        routes.stdout.contains("10.3.0.0/24")
    });
    compare(node, "red/r1", ROUTERS[0].1);
}
