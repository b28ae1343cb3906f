//! IPv6 sessions over several hops.

use europa_tests::{skip_without, tshark};

use super::net::{Net, Watch, example};

/// The example, in which 10.A.B.C/N is also fd00:A:B::C/64.
fn both() -> String {
    let mut text = String::new();
    for line in example().lines() {
        match line.split_once("addresses: [") {
            Some((before, rest)) => {
                let (own, after) = rest.split_once(']').expect("one address");
                let address = own.split('/').next().expect("an address");
                let parts: Vec<&str> = address.split('.').collect();
                let six = format!("fd00:{}:{}::{}/64", parts[1], parts[2], parts[3]);
                text += &format!("{before}addresses: [{own}, '{six}']{after}\n");
            }
            None => text += &format!("{line}\n"),
        }
    }
    for (from, to) in [
        ("gateway: 10.9.1.1", "gateway: [10.9.1.1, 'fd00:9:1::1']"),
        ("gateway: 10.9.2.1", "gateway: [10.9.2.1, 'fd00:9:2::1']"),
        (
            "    - {to: 0.0.0.0/0, via: 10.1.4.1}",
            "    - {to: 0.0.0.0/0, via: 10.1.4.1}\n    - {to: '::/0', via: 'fd00:1:4::1'}",
        ),
        (
            "    - {to: 10.1.2.0/30, via: 10.1.3.2}",
            "    - {to: 10.1.2.0/30, via: 10.1.3.2}\n    - {to: 'fd00:9:1::/64', via: 'fd00:1:1::1'}",
        ),
    ] {
        assert!(text.contains(from), "{from}");
        text = text.replacen(from, to, 1);
    }
    text + "---\nkind: flow\nname: six\nslice: lab\nfrom: head\nto: 'fd00:1:5::2'\n\
        path: [north, south]\nbandwidth: 5Mb/s\nprefixes: ['fd00:9:2::/64']\n"
}

#[test]
fn an_ipv6_path_carries_ipv6_packets_over_three_hops() {
    skip_without!("ping", "tshark");
    let net = Net::new(&both());
    net.wait("the IPv6 path is up", || net.is_up("six"));
    assert_eq!(net.hops("six"), ["head", "north", "south", "tail"]);
    assert_eq!(net.left("lab/north.south"), 25);
    let watch = Watch::begin(&net.node, "lab/north.south");
    for _ in 0..20 {
        if net.ann.ping("fd00:9:2::2", 1, &[]).expect("a ping").received == 1 {
            break;
        }
    }
    let ping = net.ann.ping_exactly("fd00:9:2::2", 20, &[]).expect("a ping");
    assert!(ping.is_perfect(), "{ping:?}");
    let file = watch.end();
    let labelled = tshark(&file, "mpls && ipv6", &["ipv6.dst"]).expect("a capture");
    assert!(labelled.len() >= 20 && labelled.iter().all(|line| line[0] == "fd00:9:2::2"));
    // Path messages of the session go to its end behind a hop-by-hop header.
    let paths = tshark(&file, "rsvp.msg == 1 && ipv6", &["ipv6.dst", "_ws.malformed"]);
    let paths = paths.expect("a capture");
    assert!(paths.iter().all(|line| line[0] == "fd00:1:5::2" && line[1].is_empty()), "{paths:?}");
    // Without a named path, the signaller finds one.
    net.node.run(&[
        "lsp",
        "create",
        "found",
        "--slice",
        "lab",
        "--from",
        "head",
        "--to",
        "fd00:1:5::2",
        "--bandwidth",
        "1Mb/s",
    ]);
    net.wait("another IPv6 path is up", || net.is_up("found"));
}
