//! Tests of the laboratory, on whose instruments all other tests depend.

use std::thread::sleep;
use std::time::Duration;

use europa_tests::{Lab, Leftovers, Namespace, skip_without, skipped};

/// Two namespaces, joined.
fn pair(lab: &mut Lab) -> (Namespace, Namespace) {
    let a = lab.namespace("a").expect("a namespace");
    let b = lab.namespace("b").expect("a namespace");
    lab.veth((&a, "eth0"), (&b, "eth0")).expect("a veth pair");
    for (namespace, number) in [(&a, 1), (&b, 2)] {
        namespace.address("eth0", &format!("10.0.0.{number}/24")).expect("an address");
        namespace.address("eth0", &format!("fd00::{number}/64")).expect("an address");
    }
    (a, b)
}

#[test]
fn nothing_is_left() {
    skip_without!();
    let before = Leftovers::look().expect("a look");
    let mut lab = Lab::new().expect("a lab");
    let (a, _) = pair(&mut lab);
    let process = a.start(&["sleep", "1000"]).expect("sleep");
    let new = before.new_ones().expect("a look");
    assert_eq!(new.len(), 2, "{new:?}");
    // A killed test drops nothing: the process inside must be found by the lab.
    std::mem::forget(process);
    drop(lab);
    assert_eq!(before.new_ones().expect("a look"), [""; 0]);
}

#[test]
fn leftovers_of_killed_runs_are_removed() {
    skip_without!();
    // No process has this number: it is above the kernel's limit.
    let name = "eut4194999-0-dead";
    europa_tests::run(&["ip", "netns", "add", name]).expect("a namespace");
    let _lab = Lab::new().expect("a lab");
    let list = europa_tests::run(&["ip", "netns", "list"]).expect("a list");
    assert!(!list.stdout.contains(name));
}

#[test]
fn pings() {
    skip_without!("ping");
    let mut lab = Lab::new().expect("a lab");
    let (a, _b) = pair(&mut lab);
    for to in ["10.0.0.2", "fd00::2"] {
        let ping = a.ping(to, 5, &[]).expect("a ping");
        assert!(ping.is_perfect(), "{ping:?}");
        assert_eq!(ping.ttl, Some(64));
    }
    let ping = a.ping("10.0.0.3", 1, &[]).expect("a ping");
    assert_eq!((ping.sent, ping.received), (1, 0));
}

#[test]
fn a_stream_is_judged() {
    skip_without!("nft");
    let mut lab = Lab::new().expect("a lab");
    let (a, b) = pair(&mut lab);
    let run = |stream: u64| {
        let sink = b.sink("10.0.0.2:5000", 7).expect("a sink");
        let sender = a.stream("10.0.0.2:5000", stream, 5000, 200).expect("a stream");
        sleep(Duration::from_millis(200));
        let sent = sender.stop();
        assert!(sent > 500, "only {sent} packets were sent");
        sink.stop(sent)
    };
    let received = run(7);
    assert!(received.is_perfect(), "{received:?}");
    let received = run(8);
    assert!(received.foreign > 500 && received.packets == 0, "{received:?}");
    // Every tenth packet is dropped on the way.
    b.run(&["nft", "add", "table", "ip", "t"]).expect("a table");
    let chain = "{ type filter hook input priority 0; }";
    b.run(&["nft", "add", "chain", "ip", "t", "input", chain]).expect("a chain");
    let rule = ["udp", "dport", "5000", "numgen", "inc", "mod", "10", "0", "drop"];
    match b.run(&[&["nft", "add", "rule", "ip", "t", "input"][..], &rule].concat()) {
        Ok(_) => {
            let received = run(7);
            let total = received.packets + received.lost;
            assert!((received.lost * 10).abs_diff(total) <= 10, "{received:?}");
        }
        Err(error) => skipped(&format!("numgen: {error}")),
    }
}

#[test]
fn iperf_and_capture() {
    skip_without!("iperf3", "tcpdump");
    let mut lab = Lab::new().expect("a lab");
    let (a, b) = pair(&mut lab);
    let capture = b.capture("eth0", "icmp").expect("a capture");
    a.ping("10.0.0.2", 2, &[]).expect("a ping");
    let lines = capture.stop().expect("captured").lines("icmp[0] == 8").expect("lines");
    assert_eq!(lines.len(), 2, "{lines:?}");
    let _server = b.iperf_server().expect("a server");
    let result = a.iperf("10.0.0.2", 1, &[]).expect("a result");
    assert!(result.bits_per_second > 1e6, "{result:?}");
}

#[test]
fn scapy_sends_tags() {
    skip_without!("python3", "tcpdump");
    let mut lab = Lab::new().expect("a lab");
    let (a, b) = pair(&mut lab);
    let capture = b.capture("eth0", "vlan 10").expect("a capture");
    let script = "sendp(Ether(dst='02:00:00:00:00:01')/Dot1Q(vlan=10)/IP(dst='10.0.0.9')/ICMP(), iface='eth0')\n\
                  r = reply(Ether(dst='ff:ff:ff:ff:ff:ff')/ARP(pdst='10.0.0.2'), 'eth0', lambda p: ARP in p and p[ARP].op == 2)\n\
                  print(r[ARP].psrc if r else 'no answer')";
    let printed = match a.scapy(script) {
        Ok(printed) => printed,
        Err(error) if error.to_string().contains("No module named 'scapy'") => {
            skipped("scapy is not installed");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    assert_eq!(printed.trim(), "10.0.0.2");
    let lines = capture.stop().expect("captured").lines("vlan 10").expect("lines");
    assert_eq!(lines.len(), 1, "{lines:?}");
}

#[test]
fn a_fence_keeps_tenants_apart() {
    skip_without!("nft", "ping");
    let mut lab = Lab::new().expect("a lab");
    let bridge = lab.namespace("bridge").expect("a namespace");
    let mut members = Vec::new();
    let mut hosts = Vec::new();
    for (number, name) in ["router", "red", "blue"].into_iter().enumerate() {
        let host = lab.namespace(name).expect("a namespace");
        lab.veth((&host, "eth0"), (&bridge, name)).expect("a veth pair");
        host.mac("eth0", &format!("02:00:00:00:00:0{number}")).expect("a MAC");
        members.push(name);
        hosts.push(host);
    }
    lab.bridge(&bridge, "br0", &members).expect("a bridge");
    let [router, red, blue] = hosts.as_slice() else { panic!("three hosts") };
    router.address("eth0", "10.0.0.1/24").expect("an address");
    // Two hosts have the same address: without the fence either may answer.
    red.address("eth0", "10.0.0.2/24").expect("an address");
    blue.address("eth0", "10.0.0.2/24").expect("an address");
    lab.fence(&bridge, "blue", &["02:00:00:00:00:09"]).expect("a fence");
    for _ in 0..3 {
        router.ip(&["neighbour", "flush", "dev", "eth0"]).expect("a flush");
        assert!(router.ping("10.0.0.2", 1, &[]).expect("a ping").is_perfect());
        let neighbours = router.ip(&["neighbour"]).expect("neighbours").stdout;
        assert!(neighbours.contains("02:00:00:00:00:01"), "{neighbours}");
    }
}
