//! Links that behave like real lines, and hosts made from the YAML, by real traffic.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use europa_tests::{Lab, Leftovers, Namespace, Node, Ping, Received, run, skip_without};

/// Tests measure delays and rates, so one runs at a time.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Three hosts and two routers:
///
/// ```text
///  a 10.0.1.2 ── west ══wan══ east ── b 10.0.2.2
///  c 10.0.3.2 ──┘
/// ```
fn topology(wan: &str) -> String {
    let mut text = format!(
        "kind: slice\nname: lab\n---\nkind: link\nname: wan\n{wan}\n---\n\
         kind: router\nname: west\nslice: lab\ninterfaces:\n\
         \x20 a: {{link: a, addresses: [10.0.1.1/24]}}\n\
         \x20 c: {{link: c, addresses: [10.0.3.1/24]}}\n\
         \x20 wan: {{link: wan}}\n\
         fast_path: {{builtin: ipv4, routes: [{{to: 10.0.2.0/24, interface: wan}}]}}\n---\n\
         kind: router\nname: east\nslice: lab\ninterfaces:\n\
         \x20 b: {{link: b, addresses: [10.0.2.1/24]}}\n\
         \x20 wan: {{link: wan}}\n\
         fast_path: {{builtin: ipv4, routes: [{{to: 0.0.0.0/0, interface: wan}}]}}\n"
    );
    for (host, net) in [("a", 1), ("b", 2), ("c", 3)] {
        text += &format!(
            "---\nkind: host\nname: {host}\ngateway: 10.0.{net}.1\n\
             interfaces: {{eth0: {{link: {host}, addresses: [10.0.{net}.2/24]}}}}\n"
        );
    }
    text
}

struct Net {
    node: Node,
    a: Namespace,
    b: Namespace,
    c: Namespace,
}

/// Brings a topology up; returns when the hosts know their neighbours.
fn net(wan: &str) -> Net {
    let node = Node::new(None);
    node.up(&topology(wan));
    let [a, b, c] = ["a", "b", "c"].map(|name| node.host(name));
    for _ in 0..20 {
        let pings = [a.ping("10.0.2.2", 1, &[]), a.ping("10.0.3.2", 1, &[])];
        if pings.into_iter().all(|ping| ping.expect("a ping").received == 1) {
            break;
        }
    }
    Net { node, a, b, c }
}

/// One direction of the link in the statistics.
fn link(node: &Node, from: &str) -> serde_json::Value {
    let stats = node.stats();
    let links = stats["links"].as_array().cloned().unwrap_or_default();
    links.into_iter().find(|link| link["from"] == from).expect("the link's direction")
}

/// Streams from `a` to `b` until `count` packets are sent. Returns the results, and the number of
/// sent packets.
fn stream(net: &Net, count: u64, rate: u32) -> (Received, u64) {
    let sink = net.b.sink("10.0.2.2:7000", 1).expect("a sink");
    let stream = net.a.stream("10.0.2.2:7000", 1, rate, 64).expect("a stream");
    let limit = Instant::now() + Duration::from_secs(60);
    while stream.sent() < count && Instant::now() < limit {
        std::thread::sleep(Duration::from_millis(10));
    }
    let sent = stream.stop();
    std::thread::sleep(Duration::from_millis(200));
    (sink.stop(sent), sent)
}

fn within(what: &str, found: f64, wanted: f64, tolerance: f64) {
    println!("{what}: {found:.3}, wanted {wanted:.3} ± {tolerance:.3}");
    assert!((found - wanted).abs() <= tolerance, "{what}: {found}, wanted {wanted} ± {tolerance}");
}

/// Milliseconds of the shortest round trip of 40: a line's delay is in every round trip, that of a
/// busy machine is not.
fn shortest_ms(from: &Namespace, to: &str) -> f64 {
    let ping = from.ping(to, 40, &[]).expect("a ping");
    assert!(ping.is_perfect(), "{ping:?}");
    println!("median {:?}", ping.median());
    shortest(&ping)
}

fn shortest(ping: &Ping) -> f64 {
    ping.times.iter().min().expect("answers").as_secs_f64() * 1e3
}

#[test]
fn a_delay_is_kept_and_another_link_does_not_feel_it() {
    skip_without!("ping");
    let _turn = turn();
    let net = net("delay: 20ms\njitter: 500us\nloss: 0%");
    within("round trip over the link, ms", shortest_ms(&net.a, "10.0.2.2"), 40.0, 2.0);
    within("round trip beside the link, ms", shortest_ms(&net.a, "10.0.3.2"), 0.0, 2.0);
}

#[test]
fn directions_differ() {
    skip_without!("ping");
    let _turn = turn();
    let net = net("delay: 5ms\na: lab/east\na_to_b: {delay: 25ms}");
    within("5 ms there and 25 ms back", shortest_ms(&net.a, "10.0.2.2"), 30.0, 2.0);
    let delayed = |from: &str| link(&net.node, from)["packets"].as_u64();
    assert!(delayed("lab/west.wan") >= Some(40) && delayed("lab/east.wan") >= Some(40));
}

#[test]
fn a_link_to_a_host_is_a_line_too() {
    skip_without!("ping");
    let _turn = turn();
    let node = Node::new(None);
    let clean = topology("");
    node.up(&format!(
        "{clean}---\nkind: link\nname: a\na: a\na_to_b: {{delay: 20ms, loss: 10%}}\n\
         b_to_a: {{delay: 5ms, duplicate: 10%}}\n"
    ));
    let [a, b] = ["a", "b"].map(|name| node.host(name));
    // Requests for neighbours pass the same line.
    for _ in 0..5 {
        let _ = a.ping("10.0.2.2", 1, &[]).expect("a ping");
    }
    let before = link(&node, "a.eth0");
    let pings: Vec<_> = (0..5).map(|_| a.ping("10.0.2.2", 100, &[]).expect("a ping")).collect();
    let after = link(&node, "a.eth0");
    let sum = |of: fn(&Ping) -> u32| pings.iter().map(of).sum::<u32>() as f64;
    within("20 ms there and 5 ms back", shortest(&pings[4]), 25.0, 2.0);
    let count = |stats: &serde_json::Value| stats["drops"][0][1].as_u64().unwrap_or(0) as f64;
    let lost = count(&after) - count(&before);
    assert_eq!(after["drops"][0][0], "lost on the link");
    let sigma = 4.0 * (0.1 * 0.9 * 500.0_f64).sqrt();
    within("lost of 500", lost, 50.0, sigma);
    within("answered", sum(|ping| ping.received), 500.0 - lost, 10.0);
    within("doubled of 450", sum(|ping| ping.duplicates), 45.0, sigma);
    // The line has the same effects in the other direction.
    let back = b.ping("10.0.1.2", 100, &[]).expect("a ping");
    within("5 ms there and 20 ms back", shortest(&back), 25.0, 2.0);
    // No process polls while a packet is under way, and no wake-up is missed.
    let one = a.ping("10.0.2.2", 5, &["-i", "0.5"]).expect("a ping");
    assert!(one.received >= 2, "{one:?}");
}

#[test]
fn losses_have_their_share_and_others_lose_nothing() {
    skip_without!("ping");
    let _turn = turn();
    for (wan, share, deviations) in [
        ("loss: 5%", 0.05, 1.0),
        // Bursts: 1 % of the packets begin one, 20 % end it, and all packets in it are lost. Bursts
        // make the share vary more.
        ("loss: {begin: 1%, end: 20%}", 0.01 / 0.21, 3.2),
    ] {
        let net = net(wan);
        let before = link(&net.node, "lab/west.wan");
        let beside = net.c.sink("10.0.3.2:7001", 2).expect("a sink");
        let other = net.a.stream("10.0.3.2:7001", 2, 2000, 64).expect("a stream").paced_by(&beside);
        let (received, sent) = stream(&net, 20_000, 10_000);
        let sent_beside = other.stop();
        let count = sent as f64;
        // Four standard deviations of the share that is found.
        let tolerance = 4.0 * deviations * (share * (1.0 - share) / count).sqrt();
        within(wan, received.lost as f64 / count, share, tolerance);
        assert_eq!((received.duplicates, received.corrupted, received.late), (0, 0, 0));
        let beside = beside.stop(sent_beside);
        assert!(beside.is_perfect(), "{beside:?}");
        let after = link(&net.node, "lab/west.wan");
        let lost = |stats: &serde_json::Value| stats["drops"][0][1].as_u64().unwrap_or(0);
        assert_eq!(after["drops"][0][0], "lost on the link");
        assert_eq!(lost(&after) - lost(&before), received.lost, "counted with its cause");
    }
}

#[test]
fn packets_are_reordered_doubled_and_damaged() {
    skip_without!("ping");
    let _turn = turn();
    let net = net("delay: 5ms\nreorder: 10%\nduplicate: 5%\na: lab/west\na_to_b: {corrupt: 2%}");
    let before = link(&net.node, "lab/west.wan");
    let (received, sent) = stream(&net, 20_000, 5000);
    let after = link(&net.node, "lab/west.wan");
    println!("{received:?} of {sent}; {after}");
    let counted = |what: &str| {
        (after[what].as_u64().unwrap_or(0) - before[what].as_u64().unwrap_or(0)) as f64
    };
    let sigma = |share: f64| 4.0 * (share * (1.0 - share) * sent as f64).sqrt();
    for (what, share) in [("reordered", 0.10), ("duplicated", 0.05), ("corrupted", 0.02)] {
        within(what, counted(what), share * sent as f64, sigma(share));
    }
    // An overtaken packet is late; 5 ms of a stream of 5000 a second are 25 packets.
    assert!(received.late as f64 > counted("reordered"), "{received:?}");
    within("doubled", received.duplicates as f64, 0.05 * 0.98 * sent as f64, sigma(0.05) * 1.5);
    // Receivers check packets, so a wrong bit mostly means a lost packet.
    within("lost", received.lost as f64, 0.02 * sent as f64, sigma(0.02) + 0.003 * sent as f64);
}

/// The highest of up to five rates, until one is near the expected one: a busy machine may keep a
/// line from being full, but no sender exceeds its rate.
fn best(wanted: f64, tolerance: f64, mut measure: impl FnMut() -> f64) -> f64 {
    let mut best = 0.0_f64;
    for _ in 0..5 {
        best = best.max(measure());
        if best >= wanted - tolerance {
            break;
        }
    }
    best
}

#[test]
fn a_rate_is_kept_by_tcp_and_udp() {
    skip_without!("ping", "iperf3");
    let _turn = turn();
    for (mbits, limit) in [(10.0, 50), (100.0, 200)] {
        let net = net(&format!("rate: {mbits}Mb/s\ndelay: 1ms\nlimit: {limit}"));
        let _server = net.b.iperf_server().expect("a server");
        // A rate counts Ethernet frames, so the rate of the payload is lower by the headers.
        let (tcp, udp) = (1448.0 / 1514.0, 1448.0 / 1490.0);
        let rate = best(mbits * tcp, mbits * 0.05, || {
            let found = net.a.iperf("10.0.2.2", 2, &["-O", "1"]).expect("a transfer");
            found.bits_per_second / 1e6
        });
        within(&format!("TCP at {mbits} Mb/s"), rate, mbits * tcp, mbits * 0.05);
        let offered = format!("{}M", mbits * 1.3);
        let options = ["-u", "-b", offered.as_str(), "-l", "1448", "-O", "1"];
        let rate = best(mbits * udp, mbits * 0.05, || {
            let found = net.a.iperf("10.0.2.2", 2, &options).expect("a transfer");
            found.bits_per_second / 1e6
        });
        within(&format!("UDP at {mbits} Mb/s"), rate, mbits * udp, mbits * 0.05);
        let drops = link(&net.node, "lab/west.wan")["drops"].clone();
        assert_eq!(drops[0][0], "link's queue full", "{drops}");
    }
}

#[test]
fn a_jammed_link_leaves_others_alone() {
    skip_without!("ping", "iperf3");
    let _turn = turn();
    let net = net("rate: 5Mb/s\ndelay: 50ms\nlimit: 8000");
    let _sink = net.b.sink("10.0.2.2:7000", 1).expect("a sink");
    // The stream has fifty times the line's rate: the line's queue takes all packets that the
    // router allows.
    let jam = net.a.stream("10.0.2.2:7000", 1, 20_000, 1400).expect("a stream");
    std::thread::sleep(Duration::from_secs(1));
    within("round trip beside the jam, ms", shortest_ms(&net.a, "10.0.3.2"), 0.0, 3.0);
    let direction = link(&net.node, "lab/west.wan");
    println!("{direction}");
    assert!(direction["waiting"].as_u64() >= Some(1000), "{direction}");
    assert!(direction["waiting"].as_u64() <= Some(4096), "half of the pool: {direction}");
    let drops = direction["drops"].to_string();
    assert!(drops.contains("sender's pool used up"), "{drops}");
    jam.stop();
}

#[test]
fn hosts_come_and_go_also_after_a_kill() {
    skip_without!("ping");
    let _turn = turn();
    let before = Leftovers::look().expect("a look");
    for killed in [false, true] {
        let net = net("delay: 1ms");
        let namespaces = run(&["ip", "netns", "list"]).expect("a list").stdout;
        for host in [&net.a, &net.b, &net.c] {
            assert!(namespaces.contains(host.name()), "{namespaces}");
            let forwards = host.run(&["cat", "/proc/sys/net/ipv4/ip_forward"]).expect("a file");
            assert_eq!(forwards.stdout.trim(), "0", "its document says nothing of that");
        }
        let sleeper = net.a.start(&["sleep", "100"]).expect("a process inside");
        if killed {
            net.node.kill("node");
            std::thread::sleep(Duration::from_millis(200));
        }
        net.node.run(&["down"]);
        drop(sleeper);
        assert_eq!(before.new_ones().expect("a look"), Vec::<String>::new(), "killed: {killed}");
    }
}

#[test]
fn links_without_addresses_get_some_and_hosts_their_gateways() {
    skip_without!("ping");
    let _turn = turn();
    let node = Node::new(None);
    node.up("kind: slice\nname: s\nlinks: {ipv4: 10.200.0.0/16, ipv6: \"fd20::/64\"}\n---\n\
         kind: router\nname: r\nslice: s\nfast_path: {builtin: ipv4}\n\
         interfaces: {x: {link: x}, y: {link: y}}\n---\n\
         kind: host\nname: x\ninterfaces: {eth0: {link: x}}\n---\n\
         kind: host\nname: y\ninterfaces: {eth0: {link: y}}\n---\n\
         kind: host\nname: z\ninterfaces: {eth0: {link: zz}}\n---\n\
         kind: host\nname: zz\ninterfaces: {eth0: {link: zz}}\n");
    let stats = node.stats();
    let hosts = stats["hosts"].as_array().cloned().unwrap_or_default();
    let address = |host: &str, index: usize| {
        let host = hosts.iter().find(|h| h["name"] == host).expect("the host");
        let text = host["interfaces"][0]["addresses"][index].as_str().expect("an address");
        text.split('/').next().unwrap_or_default().to_owned()
    };
    assert!(address("y", 0).starts_with("10.200."), "{stats}");
    for to in [address("y", 0), address("y", 1)] {
        let ping = node.host("x").ping(&to, 5, &[]).expect("a ping");
        assert!(ping.is_perfect(), "{to}: {ping:?}");
        assert_eq!(ping.ttl, Some(63));
    }
    // Two hosts without a router are joined by a plain pair; the range is the default one.
    assert!(address("zz", 0).starts_with("100."), "{stats}");
    let ping = node.host("z").ping(&address("zz", 0), 5, &[]).expect("a ping");
    assert!(ping.is_perfect() && ping.ttl == Some(64), "{ping:?}");
}

#[test]
fn a_host_runs_its_commands_with_its_parameters() {
    skip_without!("ping");
    let _turn = turn();
    let node = Node::new(None);
    node.up(
        "kind: slice\nname: s\n---\n\
         kind: router\nname: r\nslice: s\nfast_path: {builtin: ipv4}\n\
         interfaces: {p: {port: p, addresses: [10.1.0.1/24]}, q: {port: p, addresses: [10.2.0.1/24]}}\n\
         ---\nkind: host\nname: h\n\
         interfaces: {eth0: {port: p, mac: \"02:00:00:00:77:01\", mtu: 1400,\n\
         \x20 addresses: [10.1.0.2/24, 10.2.0.2/24]}}\n\
         sysctls: {net.ipv4.ip_forward: 1, net.ipv4.conf.eth0.rp_filter: 0}\n\
         env: {WORD: two words}\n\
         run:\n  - echo \"$WORD\" > /seen\n  - ls /sys/class/net >> /seen\n\
         \x20 - sleep 1000 &\n  - cat /sys/class/net/eth0/address /proc/sys/net/ipv4/ip_forward >> /seen\n",
    );
    let host = node.host("h");
    // Two interfaces share the port that the host makes.
    for to in ["10.1.0.1", "10.2.0.1"] {
        let ping = host.ping(to, 3, &[]).expect("a ping");
        assert!(ping.is_perfect(), "{to}: {ping:?}");
    }
    let limit = Instant::now() + Duration::from_secs(5);
    let text = loop {
        let text = node.attempt(&["exec", "h", "cat", "/seen"]).stdout;
        if text.ends_with("1\n") || Instant::now() > limit {
            break text;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(text, "two words\neth0\nlo\n02:00:00:00:77:01\n1\n");
    let link = host.ip(&["link", "show", "eth0"]).expect("a device").stdout;
    assert!(link.contains("mtu 1400"), "{link}");
}

#[test]
fn namespaces_processes_and_devices_that_are_there_are_attached() {
    skip_without!("ping", "unshare");
    let _turn = turn();
    let mut lab = Lab::new().expect("a lab");
    let named = lab.namespace("named").expect("a namespace");
    let home = lab.namespace("home").expect("a namespace");
    let far = lab.namespace("far").expect("a namespace");
    lab.veth((&home, "spare"), (&far, "spare")).expect("a pair");
    far.address("spare", "10.7.0.1/24").expect("an address");
    // Like a container: a process in a namespace without a name.
    let process = home.start(&["unshare", "--net", "sleep", "1000"]).expect("a process");
    let limit = Instant::now() + Duration::from_secs(5);
    let anonymous = |pid: u32| {
        let of = |what: &str| std::fs::read_link(what).ok();
        let found = of(&format!("/proc/{pid}/ns/net"));
        found.is_some() && found != of("/proc/self/ns/net") && {
            let home = std::fs::metadata(home.path()).expect("a namespace");
            let own = std::fs::metadata(format!("/proc/{pid}/ns/net")).expect("a namespace");
            use std::os::linux::fs::MetadataExt;
            home.st_ino() != own.st_ino()
        }
    };
    while !anonymous(process.id()) && Instant::now() < limit {
        std::thread::sleep(Duration::from_millis(10));
    }
    let node = Node::new(Some(&home));
    node.up(&format!(
        "kind: slice\nname: s\n---\n\
         kind: router\nname: r\nslice: s\nfast_path: {{builtin: ipv4}}\n\
         interfaces: {{x: {{link: x, addresses: [10.1.0.1/24]}}, y: {{link: y, addresses: [10.2.0.1/24]}}}}\n\
         ---\nkind: host\nname: x\nnamespace: {}\ngateway: 10.1.0.1\n\
         interfaces: {{eu0: {{link: x, addresses: [10.1.0.2/24]}}}}\n\
         ---\nkind: host\nname: y\npid: {}\nroutes: [{{to: 10.1.0.0/16, via: 10.2.0.1}}]\n\
         interfaces: {{eu0: {{link: y, addresses: [10.2.0.2/24]}}}}\n\
         ---\nkind: host\nname: z\ninterfaces: {{spare: {{device: spare, addresses: [10.7.0.2/24]}}}}\n",
        named.name(),
        process.id()
    ));
    let ping = named.ping("10.2.0.2", 5, &[]).expect("a ping");
    assert!(ping.is_perfect() && ping.ttl == Some(63), "{ping:?}");
    let ping = node.host("z").ping("10.7.0.1", 5, &[]).expect("a ping");
    assert!(ping.is_perfect(), "{ping:?}");
    assert!(home.ip(&["link", "show", "spare"]).is_err(), "it is inside the host");
    node.run(&["down"]);
    let spare = home.ip(&["link", "show", "up", "dev", "spare"]).expect("a list").stdout;
    assert!(spare.contains("spare"), "it came back, and up as it was: {spare}");
    assert!(named.ip(&["link", "show", "eu0"]).is_err(), "its line has gone");
    assert!(named.path().exists(), "but it is still there");
}

#[test]
fn what_cannot_be_attached_is_told() {
    skip_without!();
    let _turn = turn();
    for (host, wanted) in [
        ("container: web", "Docker cannot be asked for the container web: /var/run/docker.sock"),
        ("pid: 4194304", "there is no process 4194304"),
        ("namespace: nowhere", "there is no network namespace /run/netns/nowhere"),
    ] {
        if host.starts_with("container") && std::path::Path::new("/var/run/docker.sock").exists() {
            continue;
        }
        let node = Node::new(None);
        let file = node.file(
            "node.yaml",
            &format!(
                "kind: slice\nname: s\n---\nkind: host\nname: h\n{host}\ninterfaces: {{e: {{port: p}}}}\n\
                 ---\nkind: router\nname: r\nslice: s\nfast_path: {{builtin: ipv4}}\n\
                 interfaces: {{e: {{port: p, addresses: [10.0.0.1/24]}}}}\n"
            ),
        );
        let output = node.attempt(&["up", &file]);
        assert!(!output.status.success());
        assert!(output.stderr.contains(wanted), "{}", output.stderr);
    }
}
