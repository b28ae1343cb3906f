//! TCP through routers in super-packets, which are cut into segments behind the routers, or never.

mod line;

use std::time::Duration;

use europa_tests::{Namespace, skip_without};
use line::{Line, ROUTER, ports};

/// Bytes of a transfer, 200 MB.
const BYTES: u64 = 200_000_000;

const SERVE: &str = "import hashlib, socket, sys\n\
    s = socket.create_server((sys.argv[1], 7000), family=socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET)\n\
    print('ready', flush=True)\n\
    c, _ = s.accept()\n\
    h = hashlib.sha256()\n\
    while data := c.recv(1 << 16):\n    h.update(data)\n\
    print(h.hexdigest(), flush=True)\n";
const SEND: &str = "import hashlib, os, socket, sys\n\
    c = socket.create_connection((sys.argv[1], 7000))\n\
    h, left = hashlib.sha256(), int(sys.argv[2])\n\
    while left:\n    \
    data = os.urandom(min(left, 1 << 20))\n    h.update(data)\n    c.sendall(data)\n    left -= len(data)\n\
    c.close()\n\
    print(h.hexdigest())\n";

/// Sends random bytes by TCP to `at`, and compares the hashes of both ends.
fn transfer(from: &Namespace, to: &Namespace, at: &str, bytes: u64) {
    let mut server = to.start(&["/usr/bin/python3", "-c", SERVE, at]).expect("a server");
    server.wait_for("ready", Duration::from_secs(5)).expect("a server");
    let sent = from.run(&["/usr/bin/python3", "-c", SEND, at, &bytes.to_string()]).expect("sent");
    let received = server.wait(Duration::from_secs(20)).expect("received").stdout;
    assert_eq!(received.trim_start_matches("ready\n"), sent.stdout, "{at}: other bytes arrived");
}

/// Packets that a host has counted as wrong.
fn wrong(host: &Namespace) -> u64 {
    let text = host.run(&["nstat", "-az", "--json"]).expect("counters").stdout;
    let all: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let count = |name: &str| all["kernel"][name].as_u64().unwrap_or(0);
    let names = ["IpInHdrErrors", "Ip6InHdrErrors", "TcpInErrs", "TcpInCsumErrors"];
    names.iter().map(|name| count(name)).sum()
}

/// Packets that a router has taken from its rings; a super-packet counts as one. Checks that all
/// equations of packets hold.
fn taken(line: &Line, router: &str) -> u64 {
    let said = line.node.run(&["doctor", "--live"]);
    let received = said.lines().find_map(|line| line.split(&format!("{router}: received ")).nth(1));
    let number = received.and_then(|rest| rest.split(' ').next()?.parse().ok());
    number.unwrap_or_else(|| panic!("no packets received in {said}"))
}

/// Frames that the interfaces of a router have received.
fn frames(line: &Line, router: &str) -> u64 {
    let counters = line.node.counters();
    ["in", "out"].iter().map(|name| counters[&format!("{router}.{name}")].rx).sum()
}

/// [`through_one`] for the only router.
fn through(line: &Line) -> f64 {
    through_one(line, "red/r1")
}

/// Transfers in both families and both directions through a router. Returns the part of the frames
/// that reached the router as packets of their own.
fn through_one(line: &Line, router: &str) -> f64 {
    let before = (taken(line, router), frames(line, router));
    for (from, to, at) in [(&line.a, &line.b, "10.0.2.2"), (&line.b, &line.a, "fd00:1::2")] {
        transfer(from, to, at, BYTES);
    }
    assert_eq!(wrong(&line.a) + wrong(&line.b), 0, "a host has found wrong packets");
    let after = (taken(line, router), frames(line, router));
    let share = (after.0 - before.0) as f64 / (after.1 - before.1) as f64;
    eprintln!("{} frames came as {} packets", after.1 - before.1, after.0 - before.0);
    share
}

#[test]
fn a_router_gets_tcp_uncut_and_each_byte_arrives() {
    skip_without!("python3", "nstat");
    for run in ["isolated", "inline"] {
        let line = Line::new();
        line.node
            .up(&(ports() + &ROUTER.replace("fast_path:", &format!("run: {run}\nfast_path:"))));
        assert!(through(&line) < 0.4, "{run}: few frames came in super-packets");
    }
}

/// Two routers in a row, joined by a link.
const ROW: &str = r#"kind: router
name: r1
slice: red
interfaces:
  in: {port: left, mac: "02:00:00:00:00:01", addresses: [10.0.1.1/24, "fd00:1::1/64"]}
  out: {link: middle, addresses: [10.0.3.1/24, "fd00:3::1/64"]}
fast_path:
  builtin: ipv4
  routes: [{to: 10.0.2.0/24, via: 10.0.3.2}, {to: "fd00:2::/64", via: "fd00:3::2"}]
---
kind: router
name: r2
slice: red
interfaces:
  in: {link: middle, addresses: [10.0.3.2/24, "fd00:3::2/64"]}
  out: {port: right, mac: "02:00:00:00:00:02", addresses: [10.0.2.1/24, "fd00:2::1/64"]}
fast_path:
  builtin: ipv4
  routes: [{to: 10.0.1.0/24, via: 10.0.3.1}, {to: "fd00:1::/64", via: "fd00:3::1"}]
"#;

#[test]
fn tcp_crosses_a_link_uncut() {
    skip_without!("python3", "nstat");
    for run in ["isolated", "inline"] {
        let line = Line::new();
        line.node.up(&(ports() + &ROW.replace("fast_path:", &format!("run: {run}\nfast_path:"))));
        for router in ["red/r1", "red/r2"] {
            let share = through_one(&line, router);
            assert!(share < 0.4, "{run}: few frames came to {router} in super-packets");
        }
    }
}

/// A router of Click elements between the hosts.
fn click(extra: &str) -> String {
    let side = |from: &str, to: &str, host: &str, own: &str| {
        format!(
            "FromDevice({from}) -> c_{from} :: Classifier(12/0800, 12/86dd, -);\n    \
             c_{from}[2] -> Discard;\n    \
             c_{from}[0] -> Strip(14) -> CheckIPHeader -> DecIPTTL -> EtherEncap(0x0800, {own}, {host}) \
             -> {extra} Queue -> ToDevice({to});\n    \
             c_{from}[1] -> Strip(14) -> CheckIP6Header -> DecIP6HLIM -> EtherEncap(0x86dd, {own}, {host}) \
             -> {extra} Queue -> ToDevice({to});\n"
        )
    };
    ports()
        + &format!(
            "kind: router\nname: r1\nslice: red\ninterfaces:\n  \
             in: {{port: left, mac: \"{}\"}}\n  out: {{port: right, mac: \"{}\"}}\n\
             fast_path:\n  click: |\n    {}    {}",
            line::IN,
            line::OUT,
            side("in", "out", line::B, line::OUT),
            side("out", "in", line::A, line::IN),
        )
}

fn neighbours(line: &Line) {
    for (host, mac, v4, v6) in [
        (&line.a, line::IN, "10.0.1.1", "fd00:1::1"),
        (&line.b, line::OUT, "10.0.2.1", "fd00:2::1"),
    ] {
        host.neighbour(v4, mac, "eth0").expect("a neighbour");
        host.neighbour(v6, mac, "eth0").expect("a neighbour");
    }
}

#[test]
fn a_graph_whose_elements_do_not_keep_them_gets_segments() {
    skip_without!("python3", "nstat");
    let line = Line::new();
    line.node.up(&click("Counter ->"));
    neighbours(&line);
    assert!(through(&line) < 0.4, "few frames came in super-packets");
    // The configuration is exchanged while it runs.
    line.node.up(&click("SetTimestamp ->"));
    assert!(through(&line) > 0.99, "a router got what it does not keep");
    let told = line.node.run(&["describe", "router", "red/r1"]);
    assert!(told.contains("super-packets: in segments, as SetTimestamp"), "{told}");
    line.node.up(&click("Paint(1) ->"));
    assert!(line.node.run(&["describe", "router", "red/r1"]).contains("super-packets: kept"));
    assert!(through(&line) < 0.4, "few frames came in super-packets");
}

#[test]
fn where_no_device_cuts_them_the_switch_does() {
    skip_without!("python3", "nstat", "ethtool");
    let line = Line::new();
    line.up_ipv4();
    for device in ["eu-left", "eu-right"] {
        line.middle.offloads(device, &[("tso", false)]).expect("offloads");
    }
    // Super-packets arrive uncut, and each byte arrives.
    assert!(through(&line) < 0.4, "few frames came in super-packets");
}

#[test]
fn a_sender_learns_how_long_segments_may_be() {
    skip_without!("python3", "nstat");
    // Segments of 8,948 bytes do not fit the other side.
    let line = Line::with_mtus(9000, 1500);
    line.up_ipv4();
    for at in ["10.0.2.2", "fd00:2::2"] {
        // Otherwise both ends agree on short segments at once.
        line.b
            .run(&[
                "ip",
                "route",
                "change",
                if at.contains(':') { "fd00:1::/64" } else { "10.0.1.0/24" },
                "via",
                if at.contains(':') { "fd00:2::1" } else { "10.0.2.1" },
                "advmss",
                "8900",
            ])
            .expect("a route");
        transfer(&line.a, &line.b, at, BYTES / 4);
    }
    assert_eq!(wrong(&line.a) + wrong(&line.b), 0);
}
