//! Routing protocols of a slow path, during a flood of packets that only Linux can answer.

#[path = "differential/far.rs"]
mod far;
mod slow;

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use europa_packet::{Frame, MacAddr};
use europa_tests::{Namespace, Node, skip_without};
use far::Far;
use serde_json::Value;
use slow::wait;

/// Packets that a host sends each millisecond.
const BURST: usize = 60;
/// Duration of a flood.
const FLOOD: Duration = Duration::from_secs(5);
/// Number of floods. In one of them no BFD session may end. A machine that stands still for 300 ms
/// ends a session as well.
const TRIES: usize = 3;

/// Two routers with OSPF and BFD between them, and a host behind each: h1 - r1 - r2 - h2.
fn routers() -> String {
    let mut text = String::from("kind: slice\nname: s\n");
    for n in 1..=2 {
        let _ = write!(
            text,
            "---\nkind: host\nname: h{n}\ninterfaces: {{eth0: {{link: h{n}, addresses: [10.{n}.0.2/24]}}}}\n\
             gateway: [10.{n}.0.1]\n\
             ---\nkind: router\nname: r{n}\nslice: s\ninterfaces:\n  \
               lan: {{link: h{n}, addresses: [10.{n}.0.1/24]}}\n  \
               core: {{link: core, addresses: [10.12.0.{n}/24]}}\n\
             fast_path: {{builtin: ipv4, routes: kernel}}\nslow_path:\n  files:\n    \
               - {{path: /run/frr/, owner: frr}}\n    \
               - {{path: /etc/frr/vtysh.conf}}\n    \
               - path: /etc/frr/zebra.conf\n      text: |\n          hostname r{n}\n    \
               - path: /etc/frr/bfdd.conf\n      text: |\n          \
                     bfd\n           profile fast\n            detect-multiplier 3\n            \
                     receive-interval 100\n            transmit-interval 100\n    \
               - path: /etc/frr/ospfd.conf\n      text: |\n          \
                     interface core\n           ip ospf bfd\n           ip ospf bfd profile fast\n           \
                     ip ospf network point-to-point\n           \
                     ip ospf dead-interval minimal hello-multiplier 10\n          \
                     interface lan\n           ip ospf passive\n          \
                     router ospf\n           ospf router-id 10.255.0.{n}\n           \
                     network 10.0.0.0/8 area 0\n  run:\n"
        );
        for (daemon, needs) in [("zebra", ""), ("bfdd", "zebra"), ("ospfd", "zebra, bfdd")] {
            let _ = write!(
                text,
                "    - name: {daemon}\n      \
                   command: [/usr/lib/frr/{daemon}, --log, stdout, -f, /etc/frr/{daemon}.conf]\n      \
                   needs: [{needs}]\n      capabilities: [sys_admin]\n"
            );
        }
    }
    text
}

/// The answer of a router's daemon, as JSON.
fn ask(node: &Node, router: &str, command: &str) -> Value {
    let output = node.attempt(&["exec", router, "vtysh", "-c", &format!("{command} json")]);
    serde_json::from_str(&output.stdout).unwrap_or_default()
}

/// How many times the BFD session with the other router went down; `None` if no session is up.
fn failures(node: &Node, router: &str) -> Option<u64> {
    let peers = ask(node, router, "show bfd peers");
    let peer = peers.as_array()?.first()?;
    let is_fast = peer["detect-multiplier"] == 3 && peer["transmit-interval"] == 100;
    if peer["status"] != "up" || !is_fast {
        return None;
    }
    let counters = ask(node, router, "show bfd peers counters");
    counters.as_array()?.first()?["session-down"].as_u64()
}

/// Whether OSPF has the other router as a full neighbour.
fn is_adjacent(node: &Node, router: &str) -> bool {
    ask(node, router, "show ip ospf neighbor").to_string().contains("Full")
}

/// A router's Ethernet address.
fn mac(node: &Node, router: &str, device: &str) -> MacAddr {
    let path = format!("/sys/class/net/{device}/address");
    let text = node.host(router).run(&["cat", &path]).expect("an address").stdout;
    text.trim().parse().expect("an Ethernet address")
}

/// Sends a frame repeatedly by a host's interface, until `stop` is set. Returns the number of
/// frames.
fn flood(host: &Namespace, frame: &[u8], stop: &AtomicBool) -> u64 {
    let sender = Far::sender(host.name(), "eth0");
    let mut sent = 0;
    while !stop.load(Ordering::Relaxed) {
        sent += (0..BURST).filter(|_| sender.try_send(frame)).count() as u64;
        // The pause stands for a flood from another machine, which takes no time from the daemons.
        std::thread::sleep(Duration::from_millis(1));
    }
    sent
}

/// Packets over the limit, which a router did not give to Linux.
fn policed(node: &Node, router: &str) -> u64 {
    let told = node.run(&["read", router, "police.drops"]);
    let line = told.lines().find(|line| line.ends_with(" exceptions"));
    line.and_then(|line| line.split(' ').next()?.parse().ok()).unwrap_or(0)
}

#[test]
fn ospf_and_bfd_survive_a_flood_of_exceptions() {
    skip_without!("vtysh", "/usr/lib/frr/bfdd", "/usr/lib/frr/ospfd");
    let node = Node::new(None);
    node.up(&routers());
    let routers = ["s/r1", "s/r2"];
    wait("both sessions", Duration::from_secs(60), || {
        let has_bfd = |router: &&str| failures(&node, router).is_some();
        routers.iter().all(|router| has_bfd(router) && is_adjacent(&node, router))
    });
    // The time to live of these packets ends at r1. Those of h1 have a TTL of 1, those of h2 a TTL
    // of 2. So they arrive by both interfaces, also by that of the protocols.
    let near = Frame::new(MacAddr([2, 0, 0, 0, 0, 9]), mac(&node, "s.r1", "lan"));
    let near = near.ipv4([10, 1, 0, 2], [10, 2, 0, 2]).ttl(1).udp(1000, 7000, b"data");
    let far = Frame::new(MacAddr([2, 0, 0, 0, 0, 9]), mac(&node, "s.r2", "lan"));
    let far = far.ipv4([10, 2, 0, 2], [10, 1, 0, 2]).ttl(2).udp(1000, 7000, b"data");
    let mut told = Vec::new();
    for _ in 0..TRIES {
        let before = routers.map(|router| failures(&node, router));
        let over = policed(&node, "s/r1");
        let stop = AtomicBool::new(false);
        let start = Instant::now();
        let sent: u64 = std::thread::scope(|scope| {
            let floods = [("h1", &near), ("h2", &far)].map(|(host, frame)| {
                let (host, stop) = (node.host(host), &stop);
                scope.spawn(move || flood(&host, frame, stop))
            });
            std::thread::sleep(FLOOD);
            stop.store(true, Ordering::Relaxed);
            floods.into_iter().map(|flood| flood.join().expect("a flood")).sum()
        });
        let seconds = start.elapsed().as_secs_f64();
        let over = policed(&node, "s/r1") - over;
        let after = routers.map(|router| failures(&node, router));
        let are_full = routers.iter().all(|router| is_adjacent(&node, router));
        println!(
            "{:.0} packets a second, {:.0} of them over the limit: BFD went down {before:?} before, \
             {after:?} after it; OSPF is {}",
            sent as f64 / seconds,
            over as f64 / seconds,
            if are_full { "up" } else { "down" },
        );
        assert!(over > 1000, "the flood was none: {over} packets over the limit");
        let is_good = before == after && after.iter().all(Option::is_some) && are_full;
        if is_good {
            return;
        }
        told.push(format!("{before:?} {after:?} {are_full}"));
        wait("both sessions again", Duration::from_secs(30), || {
            routers
                .iter()
                .all(|router| failures(&node, router).is_some() && is_adjacent(&node, router))
        });
    }
    panic!("a session ends in each of {TRIES} floods: {told:?}");
}
