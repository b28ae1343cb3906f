//! A hijacked router attacks all others, and affects none.

mod tenants;

use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{ATTACKS, Hijacked, Neighbours, Report, can_hijack, skip_without, skipped};
use nix::libc;
use tenants::streams::{Both, RATE, await_forwarding, unseen, watch};
use tenants::{Tenant, Tenants, is_alive, kill_9, seconds};

fn neighbours(tenants: &Tenants) -> Neighbours {
    let bytes = |mac: &String| {
        let mut bytes = mac.split(':').map(|byte| u8::from_str_radix(byte, 16).expect("a byte"));
        std::array::from_fn(|_| bytes.next().expect("six bytes"))
    };
    let of =
        |tenant: &Tenant| (tenant.macs.each_ref().map(bytes), tenant.hosts.each_ref().map(bytes));
    let (own_macs, own_hosts) = of(&tenants.other);
    let (other_macs, other_hosts) = of(&tenants.victim);
    let (own_net, other_net) = ([10, 2], [10, 1]);
    Neighbours { own_macs, own_hosts, other_macs, other_hosts, own_net, other_net }
}

fn take_over(tenants: &Tenants, only: Option<usize>) -> Hijacked {
    let pid = tenants.router_pid("other").expect("the router runs");
    Hijacked::take(pid, &neighbours(tenants), only).expect("a router taken over")
}

fn told(report: &Report) -> String {
    let lines =
        ATTACKS.iter().zip(report.rounds).map(|(what, rounds)| format!("  {rounds:8} {what}"));
    lines.collect::<Vec<_>>().join("\n")
}

fn runs_here() -> bool {
    if !can_hijack() {
        skipped("taking a process over is written for x86-64 only");
    }
    can_hijack()
}

#[test]
fn a_hostile_router_harms_nobody_but_itself() {
    skip_without!("nft", "bridge", "tcpdump", "ping", "cc");
    if !runs_here() {
        return;
    }
    let tenants = Tenants::new();
    tenants.up();
    let pids = (tenants.node_pid(), tenants.switch_pid(), tenants.router_pid("victim"));
    let watches = [0, 1].map(|side| watch(&tenants, side));
    let both = Both::start(&tenants.victim);
    sleep(Duration::from_millis(300));
    // Some of the attacker's random words request a look-up of its random metadata.
    for rule in [
        "priority: 9, key: \"80%80\", action: {back: true, result: \"ff\"}",
        "priority: 1, key: \"??\", action: {result: \"ee\", ecn: ce}",
    ] {
        tenants.europa(&["filter", "add", "other", rule]);
    }
    let hostile = take_over(&tenants, None);
    let start = Instant::now();
    let mut slowest = Duration::ZERO;
    while start.elapsed() < Duration::from_secs(seconds()) {
        sleep(Duration::from_millis(500));
        let asked = Instant::now();
        assert_eq!(tenants.router("other")["pid"], hostile.pid(), "it has not even died");
        slowest = slowest.max(asked.elapsed());
        // The hijacked router answers wrongly or not at all: the node must tolerate both.
        tenants.attempt(&["read", "other/r1", "to_in.drops"]);
    }
    let report = hostile.report().expect("a report");
    eprintln!("rounds of each attack in {:?}:\n{}", start.elapsed(), told(&report));
    eprintln!("`europa stats` took at most {slowest:?}");
    let forwarded = both.stop();
    for (sent, received) in &forwarded {
        eprintln!("the neighbour: {received:?} of {sent}");
    }
    eprintln!("{}", tenants.europa(&["stats"]));
    for (sent, received) in &forwarded {
        assert!(*sent > u64::from(RATE) && received.is_perfect(), "of {sent}: {received:?}");
    }
    let now = (tenants.node_pid(), tenants.switch_pid(), tenants.router_pid("victim"));
    assert_eq!(now, pids, "nobody else has ended");
    assert_eq!(report.breaches, 0, "the last: {:#x}", report.breach);
    assert!(report.rounds.iter().all(|rounds| *rounds >= 10), "{:?}", report.rounds);
    let log = std::fs::metadata(tenants.directory().join("log/other.r1.log")).expect("a log");
    assert!(log.len() <= 32 << 20, "it has written {} bytes into its log", log.len());

    // Attacks that did not reach the checks would prove nothing.
    let other = tenants.router("other");
    for cause in [
        "foreign source MAC address",
        "source address not bound",
        "VLAN tag not allowed",
        "bad length",
    ] {
        let text = other["interfaces"].to_string();
        assert!(text.contains(cause), "nothing was refused as {cause}: {text}");
    }
    assert!(
        tenants.victim.a.ping(&tenants.victim.addresses[1], 5, &[]).expect("a ping").is_perfect()
    );
    unseen(watches);

    // A system call that is not in the router's list ends it, and its successor forwards.
    let mut hostile = Some(hostile);
    let anonymous = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    let filled = libc::MAP_POPULATE as u64;
    let calls = [
        ("bpf", libc::SYS_bpf, [0; 6]),
        ("socket", libc::SYS_socket, [17, 3, 0, 0, 0, 0]),
        ("ptrace", libc::SYS_ptrace, [16, 1, 0, 0, 0, 0]),
        ("kill", libc::SYS_kill, [u64::MAX, 9, 0, 0, 0, 0]),
        ("executable memory", libc::SYS_mmap, [0, 4096, 7, anonymous, u64::MAX, 0]),
        ("unshare", libc::SYS_unshare, [libc::CLONE_NEWUSER as u64, 0, 0, 0, 0, 0]),
        ("4 GiB of memory", libc::SYS_mmap, [0, 4 << 30, 3, anonymous | filled, u64::MAX, 0]),
    ];
    let restarts = calls.len();
    for (name, number, arguments) in calls {
        let hostile = hostile.take().unwrap_or_else(|| take_over(&tenants, Some(0)));
        hostile.call(number, arguments).expect("an order");
        let start = Instant::now();
        while is_alive(hostile.pid()) {
            assert!(start.elapsed() < Duration::from_secs(5), "{name}: {:?}", hostile.report());
            sleep(Duration::from_millis(1));
        }
        let took = await_forwarding(&tenants, &tenants.other);
        let log = tenants.log("node");
        let ends =
            log.lines().filter(|line| line.contains("router other/r1: Ended")).collect::<Vec<_>>();
        let signal = if name.contains("GiB") { "SIGKILL" } else { "SIGSYS" };
        assert!(ends.last().is_some_and(|line| line.contains(signal)), "{name}: {ends:?}");
        eprintln!("{name}: ended; its successor forwarded after {took:?}");
    }
    assert_eq!(tenants.router("other")["restarts"], restarts);
    assert_eq!(tenants.switch_pid(), pids.1);
}

#[test]
fn a_switch_killed_beside_a_hostile_router_comes_back() {
    skip_without!("nft", "bridge", "ping", "cc");
    if !runs_here() {
        return;
    }
    let tenants = Tenants::new();
    tenants.up();
    let hostile = take_over(&tenants, None);
    let mut longest = Duration::ZERO;
    for round in 0..10 {
        sleep(Duration::from_micros(100_000 + 1_700 * round));
        let pid = tenants.switch_pid().expect("the switch runs");
        kill_9(pid);
        let start = Instant::now();
        tenants.await_switch(pid);
        await_forwarding(&tenants, &tenants.victim);
        longest = longest.max(start.elapsed());
    }
    eprintln!("beside a hostile router, a killed switch forwards again after at most {longest:?}");
    let both = Both::start(&tenants.victim);
    sleep(Duration::from_secs(1));
    for (sent, received) in both.stop() {
        assert!(received.is_perfect(), "of {sent}: {received:?}");
    }
    assert!(hostile.report().expect("a report").rounds.iter().any(|rounds| *rounds > 0));
    // The node kills a router that hangs, and so does the test.
    kill_9(hostile.pid());
    let took = await_forwarding(&tenants, &tenants.other);
    eprintln!("a killed hostile router's successor forwarded after {took:?}");
}
