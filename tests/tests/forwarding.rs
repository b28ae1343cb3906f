//! The duties of an IPv4 and IPv6 router to the hosts at its sides, by real traffic.

mod line;

use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{Lab, Namespace, skip_without, stop};
use line::{A, B, IN, Line, OUT, ROUTER, ports};
use nix::sys::signal::{Signal, kill};
use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;

/// Fields of the only packet that passes a display filter.
fn only(captured: &europa_tests::Captured, filter: &str, fields: &[&str]) -> Vec<String> {
    let mut found = captured.fields(filter, fields).expect("fields");
    assert_eq!(found.len(), 1, "{filter}: {found:?}");
    found.remove(0)
}

#[test]
fn packets_are_forwarded_and_rewritten() {
    skip_without!("ping", "tcpdump", "tshark");
    let line = Line::new();
    line.up_ipv4();
    for (to, echo, from, ttl) in [
        ("10.0.2.2", "icmp.type == 8", "ip.src", "ip.ttl"),
        ("fd00:2::2", "icmpv6.type == 128", "ipv6.src", "ipv6.hlim"),
    ] {
        let capture = line.b.capture("eth0", "").expect("a capture");
        let ping = line.a.ping_exactly(to, 5, &[]).expect("a ping");
        assert!(ping.is_perfect(), "{ping:?}");
        assert_eq!(ping.ttl, Some(63));
        let captured = capture.stop().expect("captured");
        let source = if to.contains(':') { "fd00:1::2" } else { "10.0.1.2" };
        let packets = captured.fields(echo, &["eth.src", "eth.dst", from, ttl]).expect("fields");
        assert_eq!(packets, vec![[OUT, B, source, "63"]; 5]);
    }
    let counters = line.node.counters();
    for interface in ["red/r1.in", "red/r1.out"] {
        let counters = &counters[interface];
        assert!(counters.rx >= 10 && counters.tx >= 10, "{interface}: {counters:?}");
        assert!(counters.drops.is_empty(), "{interface}: {counters:?}");
    }
}

/// A pool sets unused slots aside. Packets that arrive while a router has no core use these slots.
#[test]
fn what_comes_while_the_router_stands_still_waits_in_its_pool() {
    skip_without!("ping");
    // More packets are under way than slots stay in use, and fewer than the pool has.
    const SLOTS: u32 = 512;
    const AT_ONCE: u64 = 350;
    let line = Line::new();
    let pool = format!("pool: {{slots: {SLOTS}}}\nfast_path:");
    line.node.up(&(ports() + &ROUTER.replace("fast_path:", &pool)));
    assert!(line.a.ping("10.0.2.2", 2, &[]).expect("a ping").is_perfect());
    let sink = line.b.sink("10.0.2.2:5000", 1).expect("a sink");
    let stream = line.a.stream("10.0.2.2:5000", 1, 20_000, 200).expect("a stream");
    let stream = stream.paced_by(&sink).at_most(AT_ONCE);
    let router = Pid::from_raw(line.node.process("router"));
    for _ in 0..5 {
        sleep(Duration::from_millis(200));
        stop(router);
        let limit = Instant::now() + Duration::from_secs(5);
        while stream.sent() < sink.packets() + AT_ONCE {
            assert!(Instant::now() < limit, "{} sent, {} seen", stream.sent(), sink.packets());
            sleep(Duration::from_micros(500));
        }
        kill(router, Signal::SIGCONT).expect("a router to go on");
    }
    sleep(Duration::from_millis(200));
    let received = sink.stop(stream.stop());
    assert!(received.is_perfect(), "{received:?}");
}

#[test]
fn neighbours_are_asked_and_answered() {
    skip_without!("ping", "tcpdump", "tshark");
    let line = Line::new();
    let (near, far) = (&line.a, &line.b);
    let captures = [near, far].map(|host| host.capture("eth0", "").expect("a capture"));
    line.up_ipv4();
    for to in ["10.0.2.2", "fd00:2::2"] {
        let ping = near.ping(to, 3, &[]).expect("a ping");
        assert!(ping.is_perfect(), "the first packet waits for its neighbour: {ping:?}");
    }
    let [left, right] = captures.map(|capture| capture.stop().expect("captured"));
    // The host asks, and the router answers from its own address to the host's.
    let arp = ["eth.src", "eth.dst", "arp.src.hw_mac", "arp.src.proto_ipv4", "arp.dst.proto_ipv4"];
    let answer = only(&left, "arp.opcode == 2 && eth.src == 02:00:00:00:00:01", &arp);
    assert_eq!(answer, [IN, A, IN, "10.0.1.1", "10.0.1.2"]);
    let nd = ["eth.src", "eth.dst", "ipv6.src", "icmpv6.nd.na.target_address"];
    let advertised = "icmpv6.type == 136 && eth.src == 02:00:00:00:00:01 && icmpv6.nd.na.flag.s";
    let answer = only(&left, &format!("{advertised} == 1"), &nd);
    assert_eq!(answer, [IN, A, "fd00:1::1", "fd00:1::1"]);
    // The router has announced itself to stations that know the address from before.
    let own = "arp.opcode == 1 && arp.src.proto_ipv4 == 10.0.1.1 && arp.dst.proto_ipv4 == 10.0.1.1";
    assert_eq!(only(&left, own, &arp), [IN, "ff:ff:ff:ff:ff:ff", IN, "10.0.1.1", "10.0.1.1"]);
    let all = left.fields(&format!("{advertised} == 0"), &nd).expect("fields");
    assert!(
        all.contains(
            &[IN, "33:33:00:00:00:01", "fd00:1::1", "fd00:1::1"].map(str::to_owned).into()
        )
    );
    // On the other side the router sends one request to all stations.
    let asked = "arp.opcode == 1 && eth.src == 02:00:00:00:00:02 && arp.dst.proto_ipv4 == 10.0.2.2";
    let asked = only(&right, asked, &arp);
    assert_eq!(asked, [OUT, "ff:ff:ff:ff:ff:ff", OUT, "10.0.2.1", "10.0.2.2"]);
    let nd = ["eth.src", "eth.dst", "ipv6.dst", "icmpv6.nd.ns.target_address"];
    let asked = only(&right, "icmpv6.type == 135 && eth.src == 02:00:00:00:00:02", &nd);
    assert_eq!(asked, [OUT, "33:33:ff:00:00:02", "ff02::1:ff00:2", "fd00:2::2"]);
    for (address, mac) in [("10.0.1.1", IN), ("fd00:1::1", IN)] {
        let neighbours = near.ip(&["neighbour", "show", address]).expect("neighbours").stdout;
        assert!(neighbours.contains(mac), "{neighbours}");
    }
}

#[test]
fn a_neighbour_that_moves_is_found_again() {
    skip_without!("ping");
    let line = Line::new();
    line.up_ipv4();
    for to in ["10.0.2.2", "fd00:2::2"] {
        assert!(line.a.ping(to, 2, &[]).expect("a ping").is_perfect());
    }
    line.b.mac("eth0", "02:00:00:00:00:0c").expect("a MAC address");
    // The host announces a new Ethernet address to its neighbours, as after a failover.
    line.b
        .scapy(
            "sendp(Ether(src='02:00:00:00:00:0c', dst='ff:ff:ff:ff:ff:ff') / ARP(op=2,\n\
             hwsrc='02:00:00:00:00:0c', psrc='10.0.2.2', hwdst='ff:ff:ff:ff:ff:ff',\n\
             pdst='10.0.2.2'), iface='eth0')\n\
             sendp(Ether(src='02:00:00:00:00:0c', dst='33:33:00:00:00:01') /\n\
             IPv6(src='fd00:2::2', dst='ff02::1') / ICMPv6ND_NA(R=0, S=0, O=1, tgt='fd00:2::2') /\n\
             ICMPv6NDOptDstLLAddr(lladdr='02:00:00:00:00:0c'), iface='eth0')",
        )
        .expect("scapy");
    for to in ["10.0.2.2", "fd00:2::2"] {
        let ping = line.a.ping(to, 2, &[]).expect("a ping");
        assert!(ping.is_perfect(), "{to}: {ping:?}");
    }
}

#[test]
fn the_router_answers_at_its_own_addresses() {
    skip_without!("ping");
    let line = Line::new();
    line.up_ipv4();
    // The near and the far address, and the link-local address, which follows from the Ethernet
    // address.
    for to in ["10.0.1.1", "10.0.2.1", "fd00:1::1", "fd00:2::1", "fe80::ff:fe00:1%eth0"] {
        let ping = line.a.ping(to, 3, &["-s", "1000"]).expect("a ping");
        assert!(ping.is_perfect(), "{to}: {ping:?}");
    }
}

/// The error of a connected UDP socket after one datagram.
fn udp_error(from: &Namespace, to: &str) -> String {
    let script = format!(
        "import socket\n\
         family = socket.AF_INET6 if ':' in '{to}' else socket.AF_INET\n\
         s = socket.socket(family, socket.SOCK_DGRAM)\n\
         s.settimeout(2)\n\
         s.connect(('{to}', 33434))\n\
         s.send(b'anybody there?')\n\
         try:\n    print(s.recv(100))\n\
         except Exception as error:\n    print(type(error).__name__)\n"
    );
    let output = from.run(&["python3", "-c", &script]).expect("python3");
    output.stdout.trim().to_owned()
}

#[test]
fn what_cannot_be_delivered_is_told() {
    skip_without!("ping", "python3");
    let line = Line::new();
    line.up_ipv4();
    let a = &line.a;
    a.route("10.9.0.0/16", "10.0.1.1").expect("a route");
    a.route("fd09::/16", "fd00:1::1").expect("a route");
    for (what, to, options, by, words) in [
        ("TTL", "10.0.2.2", &["-t", "1"][..], "10.0.1.1", "Time to live exceeded"),
        ("hop limit", "fd00:2::2", &["-t", "1"], "fd00:1::1", "Hop limit"),
        ("no route", "10.9.9.9", &[], "10.0.1.1", "Destination Net Unreachable"),
        ("no route, IPv6", "fd09::9", &[], "fd00:1::1", "No route"),
        ("no neighbour", "10.0.2.99", &["-W", "6"], "10.0.1.1", "Destination Host Unreachable"),
        ("no neighbour, IPv6", "fd00:2::99", &["-W", "6"], "fd00:1::1", "Address unreachable"),
    ] {
        let ping = a.ping(to, 1, options).expect("a ping");
        assert_eq!(ping.received, 0, "{what}");
        let [error] = ping.errors.as_slice() else { panic!("{what}: {ping:?}") };
        assert!(error.contains(&format!("From {by} ")), "{what}: {error}");
        assert!(error.contains(words), "{what}: {error}");
    }
    // A TTL of two is enough for the host behind the router.
    assert!(a.ping("10.0.2.2", 1, &["-t", "2"]).expect("a ping").is_perfect());
    for to in ["10.0.1.1", "10.0.2.1", "fd00:1::1", "fd00:2::1"] {
        assert_eq!(udp_error(a, to), "ConnectionRefusedError", "port of the router {to}");
    }
    // Routers answer no errors, no broadcasts, and only first fragments (RFC 1122, 3.2.2).
    let none = a
        .scapy(
            "quiet = [IP(dst='10.0.2.2', ttl=1) / ICMP(type=3, code=1) / IP() / UDP(),\n\
             IP(dst='10.0.2.2', ttl=1, frag=10) / UDP(),\n\
             IP(dst='10.0.2.2', src='0.0.0.0', ttl=1) / UDP()]\n\
             for packet in quiet:\n    \
             heard = reply(Ether(dst='02:00:00:00:00:01') / packet, 'eth0',\n        \
             lambda p: ICMP in p and p[IP].src == '10.0.1.1', 0.3)\n    \
             print(heard.summary() if heard else 'silence')\n",
        )
        .expect("scapy");
    assert_eq!(none, "silence\n".repeat(3));
}

#[test]
fn long_packets_are_fragmented_or_refused() {
    skip_without!("ping", "tcpdump", "tshark", "iperf3");
    let line = Line::with_mtus(1500, 1400);
    line.up_ipv4();
    let capture = line.b.capture("eth0", "icmp").expect("a capture");
    let ping = line.a.ping_exactly("10.0.2.2", 3, &["-s", "1472", "-M", "dont"]).expect("a ping");
    assert!(ping.is_perfect(), "{ping:?}");
    let captured = capture.stop().expect("captured");
    // 1376 bytes: the largest multiple of eight that 1400 bytes hold beside the header.
    let first = "ip.dst == 10.0.2.2 && ip.flags.mf == 1";
    assert_eq!(
        captured.fields(first, &["ip.len", "ip.frag_offset"]).expect("fields"),
        [["1396", "0"], ["1396", "0"], ["1396", "0"]]
    );
    let rest = "ip.dst == 10.0.2.2 && ip.flags.mf == 0";
    assert_eq!(captured.fields(rest, &["ip.len", "ip.frag_offset"]).expect("fields").len(), 3);
    let ping = line.a.ping("10.0.2.2", 1, &["-s", "1472", "-M", "do"]).expect("a ping");
    let [error] = ping.errors.as_slice() else { panic!("{ping:?}") };
    assert!(error.contains("From 10.0.1.1 ") && error.contains("mtu = 1400"), "{error}");
    let ping = line.a.ping("fd00:2::2", 1, &["-s", "1452", "-M", "do"]).expect("a ping");
    let [error] = ping.errors.as_slice() else { panic!("{ping:?}") };
    assert!(error.contains("From fd00:1::1 ") && error.contains("mtu=1400"), "{error}");
    // Hosts have learned the path MTU, and now send packets that fit.
    for to in ["10.0.2.2", "fd00:2::2"] {
        let fits = if to.contains(':') { "1352" } else { "1372" };
        let ping = line.a.ping(to, 1, &["-s", fits, "-M", "do"]).expect("a ping");
        assert!(ping.is_perfect(), "{to}: {ping:?}");
    }
}

#[test]
fn tcp_finds_the_path_mtu() {
    skip_without!("iperf3");
    // The hosts do not know the path MTU yet: b announces that of its own device, 1500.
    let line = Line::with_mtus(1500, 1400);
    line.b.mtu("eth0", 1500).expect("an MTU");
    line.up_ipv4();
    let _server = line.b.iperf_server().expect("a server");
    for to in ["10.0.2.2", "fd00:2::2"] {
        let result = line.a.iperf(to, 1, &[]).expect("a result");
        assert!(result.bytes > 1_000_000, "{to}: {} bytes", result.bytes);
        let route = line.a.ip(&["route", "get", to]).expect("a route").stdout;
        assert!(route.contains("mtu 1400"), "{route}");
    }
}

#[test]
fn jumbo_frames_pass_and_keep_their_order() {
    skip_without!("ping", "iperf3");
    let line = Line::with_mtus(9000, 9000);
    line.up_ipv4();
    let stats = line.node.stats();
    let pool = stats["routers"][0]["pool_bytes"].as_u64().expect("a number");
    assert!(pool > 4096 * 16384, "slots are small: {pool} bytes");
    for (to, most) in [("10.0.2.2", "8972"), ("fd00:2::2", "8952")] {
        for bytes in ["8000", most, "3366", "3367", "56"] {
            let ping = line.a.ping(to, 5, &["-s", bytes, "-M", "do"]).expect("a ping");
            assert!(ping.is_perfect(), "{to}, {bytes}: {ping:?}");
        }
    }
    // Live frames have at most 3408 bytes: longer frames leave by the socket.
    let sink = line.b.sink("10.0.2.2:5000", 1).expect("a sink");
    let sizes = [100, 8000, 64, 3300, 3500, 1400, 3340, 3400, 200, 8900, 32];
    let stream =
        line.a.stream_of("10.0.2.2:5000", 1, 10_000, &sizes).expect("a stream").paced_by(&sink);
    sleep(Duration::from_secs(2));
    let sent = stream.stop();
    let received = sink.stop(sent);
    assert!(sent > 5000 && received.is_perfect(), "of {sent}: {received:?}");
    let _server = line.b.iperf_server().expect("a server");
    for options in [&[][..], &["-R"]] {
        let result = line.a.iperf("10.0.2.2", 1, options).expect("a result");
        assert!(result.bytes > 10_000_000, "{options:?}: {} bytes", result.bytes);
    }
}

#[test]
fn ports_may_be_in_different_namespaces() {
    skip_without!("ping");
    let line = Line::apart();
    let index = |namespace: &Namespace, device: &str| {
        namespace
            .run(&["cat", &format!("/sys/class/net/{device}/ifindex")])
            .expect("an index")
            .stdout
    };
    assert_eq!(index(&line.middle, "eu-left"), index(&line.right, "eu-right"));
    let there = format!("device: eu-right\nnamespace: {}\n", line.right.name());
    line.node.up(&(line::ports().replace("device: eu-right\n", &there) + line::ROUTER));
    for to in ["10.0.2.2", "fd00:2::2"] {
        let ping = line.a.ping(to, 5, &[]).expect("a ping");
        assert!(ping.is_perfect(), "{ping:?}");
    }
}

/// A file of the examples.
fn example(name: &str) -> String {
    format!("{}/../examples/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn routers_may_be_joined_by_a_link() {
    skip_without!("ping", "iperf3");
    let line = Line::new();
    line.node.run(&["up", &example("link.yaml")]);
    // Two routers are on the way.
    let ping = line.a.ping("10.0.2.2", 10, &[]).expect("a ping");
    assert!(ping.is_perfect() && ping.ttl == Some(62), "{ping:?}");
    // The second router answers from its own end of the link.
    let ping = line.a.ping("10.0.2.2", 1, &["-t", "2"]).expect("a ping");
    assert_eq!(ping.errors, ["From 10.0.0.2 icmp_seq=1 Time to live exceeded"]);
    let _server = line.b.iperf_server().expect("a server");
    for options in [&[][..], &["-R"]] {
        let result = line.a.iperf("10.0.2.2", 1, options).expect("a result");
        assert!(result.bytes > 10_000_000, "{options:?}: {} bytes", result.bytes);
    }
    let counters = line.node.counters();
    let [up, down] = ["red/edge.up", "red/core.down"].map(|name| &counters[name]);
    assert_eq!((up.tx, down.tx), (down.rx, up.rx), "nothing is lost on a link");
}

#[test]
fn tenants_may_have_the_same_addresses() {
    skip_without!("ping", "nft", "iperf3");
    let mut lab = Lab::new().expect("a lab");
    let middle = lab.namespace("node").expect("a namespace");
    let mut hosts = Vec::new();
    for (device, near, far, last) in [("eu-left", 1, 2, "0a"), ("eu-right", 2, 1, "0b")] {
        let bridge = lab.namespace(device).expect("a namespace");
        lab.veth((&middle, device), (&bridge, "node")).expect("a veth pair");
        for (tenant, number) in [("red", 1), ("blue", 2)] {
            let host = lab.namespace(&format!("{tenant}-{last}")).expect("a namespace");
            lab.veth((&host, "eth0"), (&bridge, tenant)).expect("a veth pair");
            host.mac("eth0", &format!("02:00:00:0{number}:00:{last}")).expect("a MAC address");
            for (address, to, via) in [
                (format!("10.0.{near}.2/24"), format!("10.0.{far}.0/24"), format!("10.0.{near}.1")),
                (
                    format!("fd00:{near}::2/64"),
                    format!("fd00:{far}::/64"),
                    format!("fd00:{near}::1"),
                ),
            ] {
                host.address("eth0", &address).expect("an address");
                host.route(&to, &via).expect("a route");
            }
            hosts.push(host);
        }
        lab.bridge(&bridge, "br0", &["node", "red", "blue"]).expect("a bridge");
        for (member, number) in [("red", 1), ("blue", 2)] {
            let router = format!("02:00:00:0{number}:00:0{near}");
            lab.fence(&bridge, member, &[&router]).expect("a fence");
        }
    }
    let node = europa_tests::Node::new(Some(&middle));
    node.run(&["up", &example("two-slices.yaml")]);
    let [red_a, blue_a, red_b, blue_b] = hosts.as_slice() else { panic!("four hosts") };
    // Each host receives its own tenant's packets, and nothing else.
    let sinks = [(red_b, 1), (blue_b, 2)]
        .map(|(host, stream)| host.sink("10.0.2.2:5000", stream).expect("a sink"));
    let streams = [(red_a, 1, &sinks[0]), (blue_a, 2, &sinks[1])].map(|(host, stream, sink)| {
        host.stream("10.0.2.2:5000", stream, 5000, 300).expect("a stream").paced_by(sink)
    });
    for host in [red_a, blue_a] {
        let ping = host.ping("10.0.2.2", 20, &[]).expect("a ping");
        assert!(ping.is_perfect() && ping.ttl == Some(63), "{ping:?}");
    }
    assert!(red_a.ping("fd00:2::2", 5, &[]).expect("a ping").is_perfect());
    for (sink, stream) in sinks.into_iter().zip(streams) {
        let sent = stream.stop();
        let received = sink.stop(sent);
        assert!(sent > 500 && received.is_perfect(), "of {sent}: {received:?}");
    }
    // Blue's router is a Click configuration, so its elements have handlers.
    let asked = node.run(&["read", "blue/r1", "to_out.drops"]);
    assert_eq!(asked.trim(), "0");
    for (a, b) in [(red_a, red_b), (blue_a, blue_b)] {
        let _server = b.iperf_server().expect("a server");
        let result = a.iperf("10.0.2.2", 1, &[]).expect("a result");
        assert!(result.bytes > 10_000_000, "{} bytes", result.bytes);
    }
}

const ROUTERS: usize = 64;

/// CPU time that processes have used, with that of ended threads.
fn cpu_time(pids: &[u32]) -> Duration {
    let of = |pid: &u32| {
        let clock = clock_getcpuclockid(Pid::from_raw(pid.cast_signed())).expect("a process");
        Duration::from(clock.now().expect("its CPU time"))
    };
    pids.iter().map(of).sum()
}

#[test]
fn sixty_four_routers_share_two_ports_and_cost_nothing_when_idle() {
    skip_without!("ping", "python3");
    let line = Line::new();
    let mut yaml = line::ports();
    for number in 1..=ROUTERS {
        yaml += &format!(
            "kind: router\nname: r{number}\nslice: red\ninterfaces:\n  \
             in: {{port: left, mac: \"02:00:00:01:00:{number:02x}\", addresses: [10.{number}.1.1/24]}}\n  \
             out: {{port: right, mac: \"02:00:00:02:00:{number:02x}\", addresses: [10.{number}.2.1/24]}}\n\
             fast_path: {{builtin: ipv4}}\npool: {{slots: 256}}\n---\n"
        );
        for (host, near, far) in [(&line.a, 1, 2), (&line.b, 2, 1)] {
            host.address("eth0", &format!("10.{number}.{near}.2/24")).expect("an address");
            let (to, via) = (format!("10.{number}.{far}.0/24"), format!("10.{number}.{near}.1"));
            host.route(&to, &via).expect("a route");
        }
    }
    line.node.up(yaml.trim_end_matches("---\n"));
    let pids = line.node.processes();
    assert!(pids.len() >= ROUTERS + 2, "{} processes", pids.len());
    for number in 1..=ROUTERS {
        let ping = line.a.ping(&format!("10.{number}.2.2"), 3, &[]).expect("a ping");
        assert!(ping.is_perfect() && ping.ttl == Some(63), "router {number}: {ping:?}");
    }
    // All streams run at the same time, in both directions.
    let streams: Vec<_> = (1..=ROUTERS)
        .step_by(4)
        .map(|number| {
            let to = format!("10.{number}.2.2:5000");
            let sink = line.b.sink(&to, number as u64).expect("a sink");
            let stream = line.a.stream(&to, number as u64, 500, 200).expect("a stream");
            let stream = stream.paced_by(&sink);
            (sink, stream)
        })
        .collect();
    sleep(Duration::from_secs(1));
    for (sink, stream) in streams {
        let sent = stream.stop();
        let received = sink.stop(sent);
        assert!(sent > 100 && received.is_perfect(), "of {sent}: {received:?}");
    }
    // After this time the processes have counted the forwarded packets and probed the neighbours:
    // they are idle.
    sleep(Duration::from_secs(1));
    let before = cpu_time(&pids);
    let idle = Duration::from_secs(5);
    sleep(idle);
    let used = cpu_time(&pids) - before;
    eprintln!("{ROUTERS} idle routers: {used:?} of CPU time in {idle:?}");
    assert!(used < idle / 50, "{used:?} in {idle:?}");
    assert_eq!(pids, line.node.processes(), "no process has ended");
}

#[test]
fn a_source_sends_on_when_its_slots_come_back() {
    skip_without!();
    let line = Line::new();
    let click = format!(
        "fast_path:\n  click: |\n    FromDevice(in) -> Discard; FromDevice(out) -> Discard;\n    \
         InfiniteSource(LENGTH 100) -> UDPIPEncap(10.0.2.1, 9, 10.0.2.2, 9) \
         -> EtherEncap(0x0800, {OUT}, {B}) -> Queue(1000) -> ToDevice(out);\n"
    );
    line.node.up(&(ports() + &ROUTER.replace("fast_path: {builtin: ipv4}\n", &click)));
    // The host sends more packets than the router has slots for its own ones, repeatedly.
    let sent = || line.node.counters()["red/r1.out"].tx;
    for _ in 0..3 {
        let before = sent();
        sleep(Duration::from_millis(500));
        assert!(sent() - before > 5_000, "{} packets in half a second", sent() - before);
    }
}

#[test]
fn n05_a_port_has_the_name_and_the_mtu_of_its_device() {
    skip_without!("ping");
    let line = Line::new();
    line.up_ipv4();
    let told = |what: &str| {
        let start = Instant::now();
        while !line.node.run(&["describe", "port", "right"]).contains(what) {
            assert!(start.elapsed() < Duration::from_secs(10), "no port has {what}");
            sleep(Duration::from_millis(100));
        }
    };
    let whole = || line.a.ping("10.0.2.2", 2, &["-s", "1400", "-M", "do"]).expect("a ping");
    assert!(whole().is_perfect());
    line.right.ip(&["link", "set", "eu-right", "name", "eu-other"]).expect("another name");
    told("eu-other");
    assert!(whole().is_perfect());
    line.right.mtu("eu-other", 1300).expect("an MTU");
    told("1300");
    // Until the router knows the new MTU, too long packets reach the device.
    let start = Instant::now();
    while !whole().errors.iter().any(|error| error.contains("mtu = 1300")) {
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", whole());
    }
    line.right.mtu("eu-other", 1500).expect("an MTU");
    told("1500");
    let start = Instant::now();
    loop {
        // The host's learned entries last ten minutes.
        line.a.ip(&["route", "flush", "cache"]).expect("forgotten");
        if whole().is_perfect() {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", whole());
    }
}
