//! `builtin: bridge` between three ports.

use std::thread::sleep;
use std::time::Duration;

use europa_tests::{Lab, Namespace, Node, skip_without};

/// Three hosts in one subnet, and a node with a bridge between them.
struct Lan {
    node: Node,
    hosts: Vec<Namespace>,
    _lab: Lab,
}

fn mac(host: usize) -> String {
    format!("02:00:00:00:00:{:02x}", host + 1)
}

fn lan() -> Lan {
    let mut lab = Lab::new().expect("a lab");
    let middle = lab.namespace("node").expect("a namespace");
    middle.sysctl("net.ipv6.conf.default.disable_ipv6", "1").expect("a parameter");
    let (mut ports, mut interfaces) = (String::new(), String::new());
    let mut hosts = Vec::new();
    for number in 0..3 {
        let host = lab.namespace(&format!("h{number}")).expect("a namespace");
        host.sysctl("net.ipv6.conf.default.router_solicitations", "0").expect("a parameter");
        lab.veth((&middle, &format!("eu-p{number}")), (&host, "eth0")).expect("a veth pair");
        host.mac("eth0", &mac(number)).expect("a MAC address");
        host.address("eth0", &format!("10.0.0.{}/24", number + 1)).expect("an address");
        host.address("eth0", &format!("fd00::{}/64", number + 1)).expect("an address");
        ports += &format!("kind: port\nname: p{number}\ndevice: eu-p{number}\n---\n");
        interfaces += &format!("  i{number}: {{port: p{number}, match: {{all: true}}}}\n");
        hosts.push(host);
    }
    let node = Node::new(Some(&middle));
    node.up(&format!(
        "{ports}kind: slice\nname: red\n---\nkind: router\nname: lan\nslice: red\n\
         interfaces:\n{interfaces}fast_path: {{builtin: bridge}}\n"
    ));
    Lan { node, hosts, _lab: lab }
}

impl Lan {
    /// The numbers of the hosts that receive a frame which host `from` sends.
    fn heard(&self, from: usize, source: &str, destination: &str, times: usize) -> Vec<usize> {
        let captures: Vec<_> = self
            .hosts
            .iter()
            .map(|host| host.capture("eth0", "ether proto 0x88b5").expect("a capture"))
            .collect();
        let frame = format!("{destination}{source}88b5{}", "00".repeat(46)).replace(':', "");
        // Uses no scapy, which takes a second to start.
        let script = format!(
            "import socket\ns = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n\
             s.bind(('eth0', 0))\nfor _ in range({times}): s.send(bytes.fromhex('{frame}'))"
        );
        self.hosts[from].run(&["/usr/bin/python3", "-c", &script]).expect("frames");
        let mut heard = Vec::new();
        for (host, capture) in captures.into_iter().enumerate() {
            let frames = capture.stop().expect("captured").frames().expect("frames");
            // The sender's capture has the frames that it sends, once.
            let own = if host == from { times } else { 0 };
            assert!(frames.len() == own || frames.len() == own + times, "{host}: {frames:?}");
            if frames.len() > own {
                heard.push(host);
            }
        }
        heard
    }
}

#[test]
fn a_bridge_floods_learns_and_forgets_who_moved() {
    skip_without!("tcpdump");
    let lan = lan();
    let unknown = "02:00:00:00:00:77";
    for (what, from, source, destination, heard) in [
        ("broadcast", 0, mac(0), "ff:ff:ff:ff:ff:ff", vec![1, 2]),
        ("multicast", 1, mac(1), "01:00:5e:00:00:09", vec![0, 2]),
        ("spanning tree", 1, mac(1), "01:80:c2:00:00:00", vec![]),
        ("unknown", 0, mac(0), unknown, vec![1, 2]),
        ("learned", 0, mac(0), &*mac(1), vec![1]),
        ("learned, back", 1, mac(1), &*mac(0), vec![0]),
        ("at the side it comes from", 0, mac(0), &*mac(0), vec![]),
        ("a new one", 2, unknown.to_owned(), &*mac(0), vec![0]),
        ("is known from its first frame on", 0, mac(0), unknown, vec![2]),
        ("it moves", 1, unknown.to_owned(), &*mac(0), vec![0]),
        ("and is found where it went", 0, mac(0), unknown, vec![1]),
        ("whom it left hears nothing", 2, mac(2), unknown, vec![1]),
    ] {
        for times in [1, 50] {
            assert_eq!(lan.heard(from, &source, destination, times), heard, "{what}, {times}");
        }
    }
    let table = lan.node.run(&["read", "red/lan", "bridge.table"]);
    for host in 0..2 {
        assert!(table.to_lowercase().replace('-', ":").contains(&mac(host)), "{table}");
    }
}

#[test]
fn hosts_at_a_bridge_speak_with_each_other() {
    skip_without!("ping", "iperf3");
    let lan = lan();
    for (from, to) in [(0, 1), (1, 2), (2, 0)] {
        for to in [format!("10.0.0.{}", to + 1), format!("fd00::{}", to + 1)] {
            let ping = lan.hosts[from].ping(&to, 5, &[]).expect("a ping");
            assert!(ping.is_perfect() && ping.ttl == Some(64), "{to}: {ping:?}");
            let ping = lan.hosts[from].ping(&to, 2, &["-s", "1400", "-M", "do"]).expect("a ping");
            assert!(ping.is_perfect(), "{to}: {ping:?}");
        }
    }
    let _server = lan.hosts[1].iperf_server().expect("a server");
    for options in [&[][..], &["-R"]] {
        for to in ["10.0.0.2", "fd00::2"] {
            let result = lan.hosts[0].iperf(to, 1, options).expect("a result");
            assert!(result.bytes > 10_000_000, "{to} {options:?}: {} bytes", result.bytes);
        }
    }
    let sink = lan.hosts[2].sink("10.0.0.3:5000", 1).expect("a sink");
    let stream = lan.hosts[0]
        .stream_of("10.0.0.3:5000", 1, 5000, &[32, 1400])
        .expect("a stream")
        .paced_by(&sink);
    sleep(Duration::from_millis(500));
    let sent = stream.stop();
    let received = sink.stop(sent);
    assert!(sent > 1000 && received.is_perfect(), "of {sent}: {received:?}");
}
