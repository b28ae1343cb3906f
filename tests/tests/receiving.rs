//! Ports receive frames by tc or by XDP: the packets are the same.

mod line;

use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{Namespace, Node, skip_without};
use line::{A, IN, Line, ROUTER, ports};

/// The method by which a port receives now, as `europa get` shows it.
fn receives_by(line: &Line, port: &str) -> String {
    let all = line.node.run(&["get", "ports", "--json"]);
    let all: serde_json::Value = serde_json::from_str(&all).expect("JSON");
    let found = all["items"].as_array().into_iter().flatten().find(|one| {
        let name = one.pointer("/document/name").or(one.pointer("/name"));
        name.is_some_and(|name| name == port)
    });
    let port = found.unwrap_or_else(|| panic!("no port {port} in {all}"));
    let by = port.pointer("/status/details/receives_by").and_then(|by| by.as_str());
    by.unwrap_or_else(|| panic!("no `receives_by` in {port}")).to_owned()
}

/// Waits until a port receives with the method `by`.
fn await_receiving(line: &Line, port: &str, by: &str) {
    let start = Instant::now();
    while receives_by(line, port) != by {
        assert!(start.elapsed() < Duration::from_secs(40), "{port} does not receive by {by}");
        sleep(Duration::from_millis(200));
    }
}

/// The documents of a line whose ports receive by this method.
fn receiving(by: &str) -> String {
    ports().replace("device: eu-left", &format!("device: eu-left\nreceive: {by}")) + ROUTER
}

/// Sends 20,000 bytes as datagrams of 900 in one call (UDP_SEGMENT), the last one shorter, and
/// compares what arrives.
fn datagrams(from: &Namespace, to: &Namespace, at: &str) {
    const SERVE: &str = "import socket, sys\n\
        s = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)\n\
        s.settimeout(5)\n\
        s.bind((sys.argv[1], 7001))\n\
        print('ready', flush=True)\n\
        data = bytes(i * 7 % 251 for i in range(20000))\n\
        got = [s.recv(2000) for _ in range(23)]\n\
        sizes = sorted(len(d) for d in got)\n\
        assert sizes == [200] + [900] * 22, sizes\n\
        assert b''.join(got) == data, 'other bytes'\n\
        print('right', flush=True)\n";
    const SEND: &str = "import socket, sys\n\
        s = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)\n\
        s.setsockopt(17, 103, 900)\n\
        s.sendto(bytes(i * 7 % 251 for i in range(20000)), (sys.argv[1], 7001))\n";
    let mut server = to.start(&["/usr/bin/python3", "-c", SERVE, at]).expect("a server");
    server.wait_for("ready", Duration::from_secs(5)).expect("a server");
    from.run(&["/usr/bin/python3", "-c", SEND, at]).expect("sent");
    let said = server.wait(Duration::from_secs(10)).expect("all arrived, as they were sent");
    assert!(said.stdout.contains("right"), "{said:?}");
}

/// Packets that a host has counted as wrong.
fn wrong(host: &Namespace) -> u64 {
    let text = host.run(&["nstat", "-az", "--json"]).expect("counters").stdout;
    let all: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let count = |name: &str| all["kernel"][name].as_u64().unwrap_or(0);
    let names = ["IpInHdrErrors", "Ip6InHdrErrors", "TcpInErrs", "TcpInCsumErrors"];
    let more = ["UdpInErrors", "UdpInCsumErrors", "Udp6InErrors", "Udp6InCsumErrors"];
    names.iter().chain(&more).map(|name| count(name)).sum()
}

#[test]
fn packets_are_cut_as_their_sender_would_have() {
    skip_without!("iperf3", "python3", "nstat", "ping");
    for by in ["tc", "xdp"] {
        let line = Line::new();
        line.node.up(&receiving(by));
        assert_eq!(receives_by(&line, "left"), by);
        let _server = line.b.iperf_server().expect("a server");
        for to in ["10.0.2.2", "fd00:2::2"] {
            assert!(line.a.ping(to, 2, &[]).expect("a ping").is_perfect());
            datagrams(&line.a, &line.b, to);
            let sent = |line: &Line| line.a.counter("eth0", "tx_packets").expect("a counter");
            let (before, frames) = (sent(&line), line.node.counters()["red/r1.in"].rx);
            let result = line.a.iperf(to, 1, &["-P", "4"]).expect("a result");
            assert!(result.bytes > 20_000_000, "{by} {to}: {} bytes", result.bytes);
            let packets = sent(&line) - before;
            let frames = line.node.counters()["red/r1.in"].rx - frames;
            eprintln!("{by} {to}: {packets} packets came as {frames} frames");
            // A sender that does not split packets sends far fewer of them.
            assert_eq!(packets < frames / 3, by == "tc", "{packets} packets, {frames} frames");
        }
        assert_eq!(wrong(&line.b) + wrong(&line.a), 0, "{by}: a host has found wrong packets");
    }
}

#[test]
fn a_capture_shows_what_the_router_sees() {
    skip_without!("iperf3", "tshark");
    let line = Line::new();
    line.node.up(&receiving("tc"));
    let _server = line.b.iperf_server().expect("a server");
    let file = line.node.file("capture.pcap", "");
    let options = ["capture", "red/r1.in", "-w", &file, "-f", "tcp"];
    let mut capture = line.node.start(&options);
    capture.wait_for("end with Ctrl-C", Duration::from_secs(5)).expect("a capture");
    // The rate is so low that the capture omits no packet.
    line.a.iperf("10.0.2.2", 1, &["-b", "20M"]).expect("a result");
    capture.signal(nix::sys::signal::Signal::SIGINT);
    capture.wait(Duration::from_secs(5)).expect("an end");
    let tshark = |filter: &str| {
        let checks = ["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"];
        let arguments = [&["tshark", "-r", &file][..], &checks, &["-Y", filter]].concat();
        line.middle.run(&arguments).expect("what was captured").stdout.lines().count()
    };
    assert!(tshark("tcp.len > 1000") > 500, "{} segments", tshark("tcp.len > 1000"));
    assert_eq!(tshark("frame.len > 1514"), 0, "packets that were not cut");
    let bad = "tcp.checksum.status == Bad or ip.checksum.status == Bad";
    assert_eq!(tshark(bad), 0, "wrong checksums");
    assert_eq!(tshark("tcp.analysis.out_of_order or tcp.analysis.lost_segment"), 0);
}

/// A router that sends live frames as fast as it can, to `IN`.
fn sender() -> String {
    format!(
        "kind: port\nname: out\ndevice: eth0\n---\nkind: slice\nname: s\n---\n\
         kind: router\nname: r\nslice: s\ninterfaces:\n  out: {{port: out, mac: \"{A}\"}}\n\
         fast_path:\n  click: |\n    FromDevice(out) -> Discard;\n    \
         RatedSource(LENGTH 100, RATE 150000) -> UDPIPEncap(10.0.1.2, 1000, 10.0.2.2, 9) \
         -> EtherEncap(0x0800, {A}, {IN}) -> Queue(1000) -> ToDevice(out);\n"
    )
}

#[test]
fn a_port_follows_how_its_peer_sends() {
    skip_without!("iperf3");
    let line = Line::new();
    line.up_ipv4();
    line.b.neighbour("10.0.2.1", line::OUT, "eth0").expect("a neighbour");
    assert_eq!(receives_by(&line, "left"), "tc");
    let received = || line.node.counters()["red/r1.in"].rx;
    {
        // Another node is the left port's peer: it sends live frames.
        let other = Node::new(Some(&line.a));
        other.up(&sender());
        await_receiving(&line, "left", "xdp");
        let before = received();
        sleep(Duration::from_secs(1));
        assert!(received() - before > 10_000, "{} frames in a second", received() - before);
    }
    let _server = line.b.iperf_server().expect("a server");
    std::thread::scope(|scope| {
        let stream = scope.spawn(|| line.a.iperf("10.0.2.2", 8, &[]).expect("a result"));
        await_receiving(&line, "left", "tc");
        assert!(stream.join().expect("a stream").bytes > 20_000_000);
    });
    let told = line.node.run(&["events"]);
    for message in ["frames are received by xdp", "frames are received by tc"] {
        assert!(told.contains(message), "{told}");
    }
}
