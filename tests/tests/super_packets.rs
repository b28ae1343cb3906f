//! TCP through routers in packets that are cut into segments only behind them, or never.

mod line;

use std::time::Duration;

use europa_tests::{Namespace, skip_without};
use line::{Line, ROUTER, ports};

/// 200 MB.
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

/// Packets that a host has found wrong.
fn wrong(host: &Namespace) -> u64 {
    let text = host.run(&["nstat", "-az", "--json"]).expect("counters").stdout;
    let all: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let count = |name: &str| all["kernel"][name].as_u64().unwrap_or(0);
    let names = ["IpInHdrErrors", "Ip6InHdrErrors", "TcpInErrs", "TcpInCsumErrors"];
    names.iter().map(|name| count(name)).sum()
}

/// Packets that the router has taken from its rings; a super-packet is one. All equations of
/// packets hold.
fn taken(line: &Line) -> u64 {
    let said = line.node.run(&["doctor", "--live"]);
    let received = said.lines().find_map(|line| line.split("red/r1: received ").nth(1));
    let number = received.and_then(|rest| rest.split(' ').next()?.parse().ok());
    number.unwrap_or_else(|| panic!("no packets received in {said}"))
}

/// Frames that the interfaces have received.
fn frames(line: &Line) -> u64 {
    ["red/r1.in", "red/r1.out"].iter().map(|name| line.node.counters()[*name].rx).sum()
}

/// Transfers in both families and both directions through a router. The part of the frames that
/// came to it as packets of their own.
fn through(line: &Line) -> f64 {
    let before = (taken(line), frames(line));
    for (from, to, at) in [(&line.a, &line.b, "10.0.2.2"), (&line.b, &line.a, "fd00:1::2")] {
        transfer(from, to, at, BYTES);
    }
    assert_eq!(wrong(&line.a) + wrong(&line.b), 0, "a host has found wrong packets");
    let after = (taken(line), frames(line));
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
    // Exchanged while it runs.
    line.node.up(&click("SetTimestamp ->"));
    assert!(through(&line) > 0.99, "a router got what it does not keep");
    line.node.up(&click("Paint(1) ->"));
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
    // They come uncut, and each byte arrives.
    assert!(through(&line) < 0.4, "few frames came in super-packets");
}

#[test]
fn a_sender_learns_how_long_segments_may_be() {
    skip_without!("python3", "nstat");
    // Segments of 8,948 bytes do not fit the other side.
    let line = Line::with_mtus(9000, 1500);
    line.up_ipv4();
    for at in ["10.0.2.2", "fd00:2::2"] {
        // Both ends would agree on short segments at once.
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
