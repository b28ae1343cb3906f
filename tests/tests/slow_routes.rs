//! Routes of a slow path's Linux in the fast path: speed and correctness.

mod slow;

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use europa_tests::{Node, run, skip_without};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use slow::{compare, count, linux, reach, router_pid, turn, wait};

const INTERFACES: &[&str] = &["eth0", "eth1"];

/// A router between two hosts; `more` are further lines of its configuration.
fn up(more: &str) -> Node {
    let node = Node::new(None);
    let mut text = format!(
        "kind: slice\nname: s\n---\nkind: router\nname: r\nslice: s\n{more}\
         fast_path: {{builtin: ipv4, routes: kernel}}\nslow_path: {{}}\ninterfaces:\n"
    );
    for n in 0..2 {
        let _ = writeln!(
            text,
            "  eth{n}: {{link: h{n}, addresses: [10.0.{n}.1/24, \"fd00:{n}::1/64\"]}}"
        );
    }
    for n in 0..2 {
        let _ = write!(
            text,
            "---\nkind: host\nname: h{n}\n\
             interfaces: {{eth0: {{link: h{n}, addresses: [10.0.{n}.2/24, \"fd00:{n}::2/64\"]}}}}\n"
        );
    }
    node.up(&text);
    for (near, far) in [(0, 1), (1, 0)] {
        let host = node.host(&format!("h{near}"));
        host.route(&format!("10.0.{far}.0/24"), &format!("10.0.{near}.1")).expect("a route");
        host.route(&format!("fd00:{far}::/64"), &format!("fd00:{near}::1")).expect("a route");
    }
    compare(&node, "s/r", INTERFACES);
    node
}

/// Runs lines of `ip` in the router's Linux; some may fail.
fn batch(node: &Node, lines: &str) {
    let file = node.file("batch", lines);
    let namespace = linux(node, "s/r");
    let argv = ["ip", "-force", "-netns", namespace.name(), "-batch", &file];
    let process = europa_tests::Process::start(&argv).expect("ip");
    process.wait(Duration::from_secs(60)).expect("its end");
}

/// Prefixes that no traffic uses.
fn prefixes(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|n| format!("{}.{}.{}.0/24", 20 + (n >> 16), n >> 8 & 255, n & 255))
}

#[test]
fn a_hundred_thousand_routes_a_second() {
    skip_without!();
    let _turn = turn();
    let node = up("");
    const ROUTES: usize = 100_000;
    let mut lines = String::new();
    for (n, prefix) in prefixes(ROUTES).enumerate() {
        let _ = writeln!(lines, "route add {prefix} via 10.0.{}.{}", n & 1, 2 + n % 7);
    }
    let base = count(&node, "s/r");
    let start = Instant::now();
    batch(&node, &lines);
    let ip = start.elapsed();
    wait("all routes", Duration::from_secs(20), || count(&node, "s/r") >= base + ROUTES);
    let all = start.elapsed();
    println!(
        "{ROUTES} routes: `ip` took {:.2} s, the fast path had them {:.0} ms later",
        ip.as_secs_f64(),
        (all - ip).as_secs_f64() * 1e3
    );
    compare(&node, "s/r", INTERFACES);

    // A new process learns all routes at once, so only the mirror's own speed counts.
    let old = router_pid(&node, "s/r").expect("a process");
    let start = Instant::now();
    kill(Pid::from_raw(old), Signal::SIGKILL).expect("a kill");
    wait("all routes again", Duration::from_secs(20), || {
        let read = node.attempt(&["read", "s/r", "route.count"]).stdout;
        read.trim().parse().is_ok_and(|count: usize| count >= base + ROUTES)
    });
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "a new process, with its start: {:.0} ms, {:.0} routes a second",
        seconds * 1e3,
        ROUTES as f64 / seconds
    );
    compare(&node, "s/r", INTERFACES);
    assert!(ROUTES as f64 / seconds > 100_000.0, "{seconds} s");
}

/// A small random number generator with a seed: a failed run can be repeated.
struct Random(u64);

impl Random {
    fn of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }

    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) as usize % most
    }
}

#[test]
fn flapping_routes_end_up_as_in_linux() {
    skip_without!();
    let _turn = turn();
    let node = up("");
    let seed = std::time::UNIX_EPOCH.elapsed().map_or(1, |time| time.as_nanos() as u64);
    println!("seed {seed}");
    let mut random = Random(seed);
    let mut changes = 0;
    for round in 0..3 {
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(1500) {
            let mut lines = String::new();
            for _ in 0..2000 {
                changes += 1;
                line(&mut random, &mut lines);
            }
            batch(&node, &lines);
        }
        let entries = compare(&node, "s/r", INTERFACES);
        println!("round {round}: {changes} changes so far, {entries} entries, all as in Linux");
    }
    // Nothing is left after the last route is removed.
    run(&["ip", "-netns", linux(&node, "s/r").name(), "route", "flush", "root", "20.0.0.0/6"])
        .expect("a flush");
    compare(&node, "s/r", INTERFACES);
}

/// A random change of routes.
fn line(random: &mut Random, to: &mut String) {
    let verbs = ["add", "add", "replace", "replace", "change", "append", "del", "del"];
    let verb = random.of(&verbs);
    let metric = random.of(&["", "", " metric 10", " metric 20"]);
    let _ = match random.below(100) {
        0 => writeln!(
            to,
            "link set {} {}",
            random.of(&["eth0", "eth1"]),
            random.of(&["down", "up", "up"])
        ),
        1..=59 => {
            let way = random.of(&[
                "via 10.0.0.9",
                "via 10.0.1.9",
                "via 10.0.1.8",
                "dev eth0",
                "dev lo",
                "nexthop via 10.0.0.9 weight 2 nexthop via 10.0.1.9",
                "nexthop via 10.0.0.9 nexthop via 10.0.0.8 nexthop via 10.0.1.8 weight 5",
            ]);
            let kind = random.of(&["", "", "", "", "blackhole ", "unreachable ", "prohibit "]);
            let way = if kind.is_empty() { way } else { "" };
            let bits = 8 * (1 + random.below(3));
            let [x, y] = [random.below(3), random.below(64)];
            let address = match bits {
                8 => format!("{}.0.0.0", 20 + x),
                16 => format!("{}.{y}.0.0", 20 + x),
                _ => format!("{}.{y}.{x}.0", 20 + x),
            };
            writeln!(to, "route {verb} {kind}{address}/{bits} {way}{metric}")
        }
        _ => {
            let way = random.of(&[
                "via fd00::9",
                "via fd00:1::9",
                "via fe80::9 dev eth0",
                "nexthop via fd00::9 nexthop via fd00:1::9 weight 3",
            ]);
            let kind = random.of(&["", "", "", "", "blackhole ", "unreachable "]);
            let way = if kind.is_empty() { way } else { "" };
            writeln!(
                to,
                "-6 route {verb} {kind}fd1{}::/{} {way}{metric}",
                random.below(8),
                32 + 16 * random.below(3)
            )
        }
    };
}

/// Adds routes to the first `count` prefixes, or takes them away.
fn routes(node: &Node, what: &str, count: usize) {
    let lines = prefixes(count).map(|prefix| format!("route {what} {prefix} via 10.0.0.2\n"));
    batch(node, &lines.collect::<String>());
}

#[test]
fn a_router_inside_the_switch_learns_them_as_well() {
    skip_without!("ping");
    let _turn = turn();
    let node = up("run: inline\ninline: {memory: 16MB}\n");
    assert!(router_pid(&node, "s/r").is_none(), "it has no process");
    const ROUTES: usize = 5000;
    let base = count(&node, "s/r");
    routes(&node, "add", ROUTES);
    wait("all routes", Duration::from_secs(20), || count(&node, "s/r") >= base + ROUTES);
    compare(&node, "s/r", INTERFACES);
    // Packets pass through the router; its Linux answers packets to its own addresses.
    let host = node.host("h0");
    let reached = |when: &str| {
        for to in ["10.0.1.2", "fd00:1::2", "10.0.0.1", "fd00:0::1"] {
            reach(&host, to, Duration::from_secs(10));
            let ping = host.ping(to, 20, &["-i", "0.01"]).expect("a ping");
            assert!(ping.is_perfect(), "{when}, {to}: {ping:?}");
        }
    };
    reached("at first");
    // A new switch makes the router learn all routes again.
    let restarts = || node.stats()["switch_restarts"].as_u64().expect("a number");
    let before = restarts();
    node.kill("switch");
    wait("a new switch", Duration::from_secs(20), || restarts() > before);
    let learnt = || {
        let read = node.attempt(&["read", "s/r", "route.count"]).stdout;
        read.trim().parse().is_ok_and(|count: usize| count >= base + ROUTES)
    };
    wait("all routes again", Duration::from_secs(20), learnt);
    compare(&node, "s/r", INTERFACES);
    reached("in another switch");
}

#[test]
fn more_routes_than_its_memory_holds_end_a_router_inside_the_switch_and_nobody_else() {
    skip_without!("ping");
    let _turn = turn();
    let node = up("run: inline\ninline: {memory: 1MB}\n");
    const ROUTES: usize = 50_000;
    routes(&node, "add", ROUTES);
    let why = "bytes of memory, and may take 1000000";
    wait("its end", Duration::from_secs(20), || node.run(&["events"]).contains(why));
    assert_eq!(node.stats()["switch_restarts"], 0, "the switch goes on");
    routes(&node, "del", ROUTES);
    reach(&node.host("h0"), "10.0.1.2", Duration::from_secs(20));
    compare(&node, "s/r", INTERFACES);
    assert_eq!(node.stats()["switch_restarts"], 0, "the switch goes on");
}
