//! Routers behind every kind of match carry real traffic, both ways, while Linux keeps its own
//! traffic at the same port.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::line::{Line, ports};
use crate::wire::{bytes, send};
use europa_tests::{Namespace, skip_without};

fn pings(from: &Namespace, to: &str) {
    let ping = from.ping(to, 5, &[]).expect("a ping");
    assert!(ping.is_perfect(), "{to}: {ping:?}");
}

fn tcp(from: &Namespace, to: &str) {
    for options in [&[][..], &["-R"]] {
        let result = from.iperf(to, 1, options).expect("a result");
        assert!(result.bytes > 10_000_000, "{to} {options:?}: {} bytes", result.bytes);
    }
}

/// Sends a stream that must arrive whole, once the neighbours know each other.
fn streams(from: &Namespace, to: &Namespace, at: &str) {
    let greeting = from.stream(at, 2, 100, 32).expect("a stream");
    sleep(Duration::from_millis(200));
    drop(greeting);
    sleep(Duration::from_millis(100));
    let sink = to.sink(at, 1).expect("a sink");
    let stream = from.stream_of(at, 1, 5000, &[32, 1350, 200]).expect("a stream").paced_by(&sink);
    sleep(Duration::from_millis(700));
    let sent = stream.stop();
    let received = sink.stop(sent);
    assert!(sent > 1000 && received.is_perfect(), "{at}: of {sent}: {received:?}");
}

/// The line, with addresses for Linux on the left port.
fn with_linux(addresses: &[&str]) -> Line {
    let line = Line::new();
    line.middle.sysctl("net.ipv6.conf.eu-left.disable_ipv6", "0").expect("a parameter");
    for address in addresses {
        line.middle.address("eu-left", address).expect("an address");
    }
    line
}

#[test]
fn linux_is_the_other_end_of_a_tunnel() {
    skip_without!("ping", "iperf3");
    for (own, local, remote, mtu) in [
        ("192.0.2.1/24", "192.0.2.1", "192.0.2.2", "1450"),
        ("2001:db8::1/64", "2001:db8::1", "2001:db8::2", "1430"),
    ] {
        let line = with_linux(&[own]);
        let (a, b) = (&line.a, &line.b);
        a.address("eth0", &own.replace("1/", "2/")).expect("an address");
        // Linux sends and requires UDP checksums of tunnels over IPv6, unless configured otherwise.
        let device = ["link", "add", "vx0", "type", "vxlan", "id", "100", "dstport", "4789"];
        let ends = ["local", remote, "remote", local, "dev", "eth0"];
        let free = ["udp6zerocsumtx", "udp6zerocsumrx"];
        a.ip(&[&device[..], &ends[..], &free[..]].concat()).expect("a tunnel");
        a.address("vx0", "10.7.0.2/24").expect("an address");
        a.address("vx0", "fd07::2/64").expect("an address");
        a.ip(&["link", "set", "vx0", "up", "mtu", mtu]).expect("an MTU");
        a.ip(&["route", "replace", "10.0.2.0/24", "via", "10.7.0.1"]).expect("a route");
        a.ip(&["-6", "route", "replace", "fd00:2::/64", "via", "fd07::1"]).expect("a route");
        b.route("10.7.0.0/24", "10.0.2.1").expect("a route");
        b.route("fd07::/64", "fd00:2::1").expect("a route");
        let tunnel = format!("vxlan: {{vni: 100, local: '{local}', remote: '{remote}'}}");
        line.node.up(&format!(
            "{}kind: router\nname: r1\nslice: red\ninterfaces:\n  \
             in: {{port: left, match: {{{tunnel}}}, addresses: [10.7.0.1/24, 'fd07::1/64']}}\n  \
             out: {{port: right, addresses: [10.0.2.1/24, 'fd00:2::1/64']}}\n\
             fast_path: {{builtin: ipv4}}\n",
            ports()
        ));
        for (from, to) in [
            (a, "10.7.0.1"),
            (a, "10.0.2.2"),
            (a, "fd00:2::2"),
            (b, "10.7.0.2"),
            (b, "fd07::2"),
            // Linux answers outside the tunnel.
            (a, local),
        ] {
            pings(from, to);
        }
        // The longest packet that fits, and one that is too long.
        let most = (mtu.parse::<u32>().expect("a number") - 28).to_string();
        let ping = a.ping("10.0.2.2", 3, &["-s", &most, "-M", "do"]).expect("a ping");
        assert!(ping.is_perfect(), "{ping:?}");
        let ping = b.ping("10.7.0.2", 1, &["-s", "1472", "-M", "do"]).expect("a ping");
        let [error] = ping.errors.as_slice() else { panic!("{ping:?}") };
        assert!(error.contains(&format!("mtu = {mtu}")), "{error}");
        let _server = b.iperf_server().expect("a server");
        tcp(a, "10.0.2.2");
        tcp(a, "fd00:2::2");
        streams(a, b, "10.0.2.2:5000");
        streams(b, a, "[fd07::2]:5000");
    }
}

#[test]
fn a_router_for_prefixes_stands_beside_linux() {
    skip_without!("ping", "iperf3");
    // Hosts send to an address of the node. The destination decides whether a router gets the
    // packet.
    let line = with_linux(&["10.0.1.1/24", "fd00:1::1/64"]);
    line.node.up(&format!(
        "{}kind: router\nname: r1\nslice: red\ninterfaces:\n  in:\n    port: left\n    \
         match: {{prefix: [10.0.2.0/24, 10.0.1.77/32, 'fd00:2::/64', 'fd00:1::77/128']}}\n    \
         addresses: [10.0.1.77/24, 'fd00:1::77/64']\n    \
         bind: [10.0.2.0/24, 10.0.1.77/32, 'fd00:2::/64', 'fd00:1::77/128', 'fe80::/10']\n  \
         out: {{port: right, addresses: [10.0.2.1/24, 'fd00:2::1/64']}}\n\
         fast_path: {{builtin: ipv4}}\n",
        ports()
    ));
    let (a, b) = (&line.a, &line.b);
    for (from, to) in [
        (a, "10.0.2.2"),
        (a, "fd00:2::2"),
        (b, "10.0.1.2"),
        (b, "fd00:1::2"),
        // The router answers for its own addresses, Linux for the node's.
        (a, "10.0.1.77"),
        (a, "fd00:1::77"),
        (a, "10.0.1.1"),
        (a, "fd00:1::1"),
        // Linux can reach the hosts too.
        (&line.middle, "10.0.1.2"),
        (&line.middle, "fd00:1::2"),
    ] {
        pings(from, to);
    }
    let _server = b.iperf_server().expect("a server");
    tcp(a, "10.0.2.2");
    tcp(a, "fd00:2::2");
    streams(b, a, "10.0.1.2:5000");
    let _linux = line.middle.iperf_server().expect("a server");
    tcp(a, "10.0.1.1");
    for (name, counters) in line.node.counters() {
        assert!(!counters.drops.contains_key("source address not bound"), "{name}: {counters:?}");
    }
}

#[test]
fn a_router_for_a_udp_port_stands_beside_linux() {
    skip_without!("ping");
    let line = with_linux(&["10.0.1.1/24", "fd00:1::1/64"]);
    line.node.up(&format!(
        "{}kind: router\nname: r1\nslice: red\ninterfaces:\n  \
         in: {{port: left, match: {{udp: [5000]}}, addresses: [10.0.1.77/24, 'fd00:1::77/64']}}\n  \
         out: {{port: right, addresses: [10.0.2.1/24, 'fd00:2::1/64']}}\n\
         fast_path: {{builtin: ipv4}}\n",
        ports()
    ));
    let (a, b) = (&line.a, &line.b);
    for at in ["10.0.2.2:5000", "[fd00:2::2]:5000"] {
        streams(a, b, at);
    }
    // Packets to any UDP port leave by the interface.
    for at in ["10.0.1.2:6000", "[fd00:1::2]:6000"] {
        streams(b, a, at);
    }
    // Packets to other ports go to Linux, which does not forward.
    let sink = b.sink("10.0.2.2:5001", 1).expect("a sink");
    let stream = a.stream("10.0.2.2:5001", 1, 1000, 100).expect("a stream");
    sleep(Duration::from_millis(200));
    let sent = stream.stop();
    assert_eq!(sink.stop(sent).packets, 0);
    pings(a, "10.0.1.1");
    pings(a, "fd00:1::1");
}

#[test]
fn a_router_in_a_vlan_answers_with_its_tag() {
    skip_without!("ping");
    // Two tenants have the same subnet, each in a VLAN of its own.
    let line = Line::new();
    let router = |slice: &str, vlan: u32| {
        format!(
            "---\nkind: slice\nname: {slice}\n---\nkind: router\nname: r1\nslice: {slice}\n\
             interfaces:\n  in: {{port: left, match: {{vlan: {vlan}}}, \
             addresses: [10.5.0.1/24, 'fd05::1/64'], mac: '02:00:00:00:05:{vlan}'}}\n\
             fast_path:\n  builtin: ipv4\n  neighbours:\n    \
             - {{address: 10.5.0.2, mac: '02:00:00:00:00:0a', interface: in}}\n    \
             - {{address: 'fd05::2', mac: '02:00:00:00:00:0a', interface: in}}\n"
        )
    };
    line.node.up(&format!(
        "kind: port\nname: left\ndevice: eu-left\n{}{}",
        router("red", 10),
        router("blue", 20)
    ));
    let answers = line
        .a
        .scapy(
            "def vlan_of(p):\n    return p[Dot1Q].vlan if Dot1Q in p else 0\n\
             A = '02:00:00:00:00:0a'\n\
             for tag in (10, 20, 30, 0):\n    \
             mac = '02:00:00:00:05:%02d' % tag\n    \
             def on(to):\n        e = Ether(src=A, dst=to)\n        return e / Dot1Q(vlan=tag) if tag else e\n    \
             arp = reply(on('ff:ff:ff:ff:ff:ff') / ARP(psrc='10.5.0.2', hwsrc=A, pdst='10.5.0.1'), 'eth0',\n        \
             lambda p: ARP in p and p[ARP].op == 2, 0.7)\n    \
             print(tag, 'ARP', arp and (vlan_of(arp), arp[ARP].hwsrc))\n    \
             nd = reply(on('33:33:ff:00:00:01') / IPv6(src='fd05::2', dst='ff02::1:ff00:1', hlim=255) /\n        \
             ICMPv6ND_NS(tgt='fd05::1') / ICMPv6NDOptSrcLLAddr(lladdr=A), 'eth0',\n        \
             lambda p: ICMPv6ND_NA in p, 0.7)\n    \
             print(tag, 'ND', nd and (vlan_of(nd), nd.src))\n    \
             echo = reply(on(mac) / IP(src='10.5.0.2', dst='10.5.0.1') / ICMP() / b'hello', 'eth0',\n        \
             lambda p: ICMP in p and p[ICMP].type == 0, 0.7)\n    \
             print(tag, 'ping', echo and (vlan_of(echo), echo.src, bytes(echo[ICMP].payload)[:5]))\n    \
             echo6 = reply(on(mac) / IPv6(src='fd05::2', dst='fd05::1') / ICMPv6EchoRequest(data=b'hello'), 'eth0',\n        \
             lambda p: ICMPv6EchoReply in p, 0.7)\n    \
             print(tag, 'ping6', echo6 and (vlan_of(echo6), echo6.src, echo6.data))\n",
        )
        .expect("scapy");
    let mut wanted = String::new();
    for tag in [10, 20] {
        let mac = format!("02:00:00:00:05:{tag}");
        wanted += &format!(
            "{tag} ARP ({tag}, '{mac}')\n{tag} ND ({tag}, '{mac}')\n\
             {tag} ping ({tag}, '{mac}', b'hello')\n{tag} ping6 ({tag}, '{mac}', b'hello')\n"
        );
    }
    for tag in [30, 0] {
        wanted += &format!("{tag} ARP None\n{tag} ND None\n{tag} ping None\n{tag} ping6 None\n");
    }
    assert_eq!(answers, wanted);
}

#[test]
fn copies_of_broadcasts_are_bounded() {
    skip_without!("scapy");
    // Sixteen interfaces need more copies of a few thousand broadcasts than a port may make.
    let line = Line::new();
    let mut text = ports() + "kind: router\nname: r1\nslice: red\ninterfaces:\n";
    let mut click = String::new();
    for index in 0..16 {
        text += &format!("  i{index}: {{port: left}}\n");
        click += &format!("    FromDevice(i{index}) -> c{index} :: Counter -> Discard;\n");
    }
    line.node.up(&(text + "fast_path:\n  click: |\n" + &click));
    let frames = bytes(&line.a, &[(0, "E(ALL)/U()"), (1, "E('33:33:00:00:00:01')/U6()")]);
    let (few, many) = (100, 20_000);
    send(&line.a, "eth0", &frames, few);
    sleep(Duration::from_millis(100));
    let copies = || line.node.counters().values().map(|c| c.rx).sum::<u64>();
    let sent = 2 * few as u64;
    assert!(copies() >= 16 * sent, "of {sent}: {}", copies());
    assert_eq!(line.node.port("left", "copies_refused"), 0);
    let (before, linux) = (copies(), line.node.port("left", "to_linux"));
    let start = Instant::now();
    send(&line.a, "eth0", &frames, many);
    let most = 4096 + (start.elapsed().as_secs_f64() * 100_000.0) as u64;
    let made = copies() - before;
    let sent = 2 * many as u64;
    assert!(made <= most, "{made} copies of {sent} broadcasts, more than {most}");
    let refused = line.node.port("left", "copies_refused");
    let lost: u64 = line.node.counters().values().flat_map(|c| c.drops.values()).sum();
    assert!(refused > 0, "{made} copies of {sent} broadcasts");
    assert!(made + refused + lost >= 16 * sent, "{made} made, {refused} refused, {lost} lost");
    // Linux receives all of them.
    assert!(line.node.port("left", "to_linux") - linux >= sent);
}
