//! Flows along label switched paths, signalled by RSVP-TE and carried by real traffic: the network of
//! `examples/rsvp.yaml`.
//!
//! | file      | concern                                                              |
//! |-----------|----------------------------------------------------------------------|
//! | `net`     | the network                                                          |
//! | `kept`    | what survives the end of signaller and node                          |
//! | `places`  | routers of all kinds on a path                                       |
//! | `hostile` | messages and packets of hosts                                        |
//! | `keys`    | authenticated messages                                               |
//! | `six`     | IPv6                                                                 |

mod hostile;
mod kept;
mod keys;
mod net;
mod places;
mod six;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use europa_tests::{Node, Received, skip_without, tshark};

use self::net::{Net, Watch, example, flow};

#[test]
fn a_flow_carries_packets_with_labels_that_every_router_has_handed_out() {
    skip_without!("ping", "iperf3", "tshark");
    let net = Net::new(&example());
    assert_eq!(net.hops("voice"), ["head", "north", "south", "tail"]);
    let shown = net.show("voice");
    let label = |hop: usize, of: &str| shown["hops"][hop][of].as_u64();
    assert_eq!(label(0, "label_out"), label(1, "label_in"));
    assert_eq!(label(1, "label_out"), label(2, "label_in"));
    assert_eq!(label(2, "label_out"), Some(3), "the last router but one takes the label off");
    for interface in ["lab/head.north", "lab/north.south", "lab/south.tail"] {
        assert_eq!(net.left(interface), 30, "{interface}");
    }
    assert_eq!(net.left("lab/head.south"), 50);
    let watch = Watch::begin(&net.node, "lab/north.south");
    let ping = net.ann.ping_exactly("10.9.2.2", 50, &[]).expect("a ping");
    assert!(ping.is_perfect(), "{ping:?}");
    let file = watch.end();
    let fields = ["mpls.label", "mpls.ttl", "ip.dst"];
    let labelled = tshark(&file, "mpls && icmp", &fields).expect("a capture");
    assert_eq!(labelled.len(), 50, "{labelled:?}");
    let wanted = label(1, "label_out").expect("a label").to_string();
    assert!(labelled.iter().all(|line| line[0] == wanted && line[2] == "10.9.2.2"), "{labelled:?}");
    let traced = net.node.run(&["lsp", "trace", "voice", "--json"]);
    let traced: Vec<serde_json::Value> = serde_json::from_str(&traced).expect("JSON");
    let routers: Vec<&str> = traced.iter().filter_map(|hop| hop["router"].as_str()).collect();
    assert_eq!(routers, ["head", "north", "south", "tail"]);
    let packets: Vec<Option<u64>> = traced.iter().map(|hop| hop["packets"].as_u64()).collect();
    assert!(packets[..3].iter().all(|packets| *packets >= Some(50)), "{packets:?}");
    assert!(net.node.run(&["lsp", "trace", "voice"]).contains("PACKETS"));
    let _server = net.bob.iperf_server().expect("a server");
    let tcp = net.ann.iperf("10.9.2.2", 3, &[]).expect("a result");
    println!("TCP over 20 Mb/s: {:.1} Mb/s", tcp.bits_per_second / 1e6);
    assert!((8e6..21e6).contains(&tcp.bits_per_second), "{tcp:?}");
}

#[test]
fn another_path_is_made_before_the_old_one_is_broken() {
    skip_without!("ping", "tshark");
    let text = example();
    let net = Net::new(&text);
    let sink = net.bob.sink("10.9.2.2:7000", 1).expect("a sink");
    let stream = net.ann.stream("10.9.2.2:7000", 1, 1000, 200).expect("a stream").paced_by(&sink);
    for (path, hops) in [
        ("[south]", vec!["head", "south", "tail"]),
        ("[north]", vec!["head", "north", "tail"]),
        ("[south, north]", vec!["head", "south", "north", "tail"]),
        ("[north, south]", vec!["head", "north", "south", "tail"]),
    ] {
        let sent = stream.sent();
        net.apply(&text.replace("path: [north, south]", &format!("path: {path}")));
        net.wait(path, || net.hops("voice") == hops && net.is_up("voice"));
        net.wait("packets on the new path", || stream.sent() > sent + 500);
    }
    let sent = stream.stop();
    std::thread::sleep(Duration::from_millis(300));
    let received = sink.stop(sent);
    println!("{sent} packets while the path changed four times: {received:?}");
    // Packets on the old path may arrive after the first ones on the new path.
    let in_order = Received { late: 0, ..received.clone() };
    assert!(in_order.is_perfect() && received.late <= 40, "of {sent}: {received:?}");
    // The bandwidth of removed paths is free again.
    net.wait("old reservations go", || {
        net.left("lab/head.south") == 50 && net.left("lab/north.tail") == 50
    });
    assert_eq!(net.left("lab/north.south"), 30);
}

#[test]
fn what_does_not_fit_is_refused_with_the_rfcs_error() {
    skip_without!("ping");
    let net = Net::new(&example());
    net.apply(&flow("video", "bandwidth: 40Mb/s"));
    net.wait("an error", || net.show("video")["error"]["code"] == 1);
    let shown = net.show("video");
    assert_eq!((&shown["state"], &shown["error"]["value"]), (&"down".into(), &2.into()));
    assert_eq!(shown["error"]["router"], "head");
    let text = net.node.run(&["lsp", "show", "video"]);
    assert!(text.contains("bandwidth is not available at head (error 1/2)"), "{text}");
    // A router on the path with less bandwidth refuses the flow.
    net.apply(&flow("other", "bandwidth: 25Mb/s").replace("[north, south]", "[south, north]"));
    net.wait("another path is up", || net.is_up("other"));
    net.apply(&flow("third", "bandwidth: 26Mb/s").replace("[north, south]", "[north]"));
    net.wait("an error on the way", || net.show("third")["error"]["router"] == "north");
    // A change that does not fit leaves the flow unchanged.
    net.apply(&example().replace("bandwidth: 20Mb/s", "bandwidth: 60Mb/s"));
    net.wait("an error", || net.show("voice")["error"]["code"] == 1);
    assert!(net.is_up("voice") && net.left("lab/north.south") == 30);
    assert!(net.ann.ping("10.9.2.2", 20, &[]).expect("a ping").is_perfect());
}

#[test]
fn a_better_priority_preempts() {
    skip_without!("ping");
    let net = Net::new(&example());
    let ends = ["--slice", "lab", "--from", "head", "--to", "tail"];
    let create = [&["lsp", "create", "urgent", "--bandwidth", "40Mb/s"], &ends[..]].concat();
    net.node.run(&create);
    // The routes lead to the north, which has no free bandwidth.
    net.wait("it is up by another path", || net.is_up("urgent"));
    assert_eq!(net.hops("urgent"), ["head", "south", "north", "tail"]);
    assert!(net.is_up("voice"));
    let again = net.node.attempt(&create);
    assert!(again.stderr.contains("`europa lsp change urgent`"), "{}", again.stderr);
    let told = net.node.run(&["lsp", "change", "urgent", "--path", "north,south", "--setup", "1"]);
    assert!(told.contains("setup") && !told.contains("bandwidth"), "{told}");
    net.wait("the better one is up", || net.is_up("urgent") && net.hops("urgent").len() == 4);
    net.wait("the other one is down", || !net.is_up("voice"));
    let said = net.events("voice");
    assert!(said.iter().any(|line| line.contains("2/5")), "{said:?}");
    // While it is down, its packets are dropped and counted.
    let ping = net.ann.ping("10.9.2.2", 5, &[]).expect("a ping");
    assert_eq!(ping.received, 0, "{ping:?}");
    let drops = net.node.run(&["read", "lab/head", "labels.drops"]);
    let dropped = drops.lines().find(|line| line.ends_with("flow is down"));
    let dropped: Option<u64> = dropped.and_then(|line| line.split(' ').next()?.parse().ok());
    assert!(dropped >= Some(5), "{drops}");
    net.node.run(&["lsp", "delete", "urgent"]);
    net.wait("it comes back", || net.is_up("voice"));
    assert!(net.ann.ping("10.9.2.2", 20, &[]).expect("a ping").is_perfect());
}

#[test]
fn state_ends_when_its_head_has_died_in_silence() {
    skip_without!("ping");
    // Without Hello, only the lifetime ends the path.
    let net = Net::new(&example().replace("refresh: 1s", "refresh: 1s, hello: 0s"));
    let pid = net.node.process("lab/head");
    let kill = |signal: &str| europa_tests::run(&["kill", signal, &pid.to_string()]).expect("kill");
    kill("-STOP");
    let begun = Instant::now();
    net.wait("north and south forget", || {
        let there = net.routers_with_paths();
        !there.contains("north") && !there.contains("south")
    });
    let took = begun.elapsed();
    println!("forgotten after {took:?}");
    // The lifetime is 5.25 s from the last refresh, which was up to 1.5 s before.
    assert!((3.0..8.0).contains(&took.as_secs_f64()), "{took:?}");
    assert_eq!((net.left("lab/north.south"), net.left("lab/south.tail")), (50, 50));
    kill("-CONT");
    net.wait("the head is back", || net.is_up("voice") && net.hops("voice").len() == 4);
    assert!(net.ann.ping("10.9.2.2", 20, &[]).expect("a ping").is_perfect());
}

#[test]
fn no_message_is_malformed_for_tsharks_dissector() {
    skip_without!("ping", "tshark");
    let text = example();
    let net = Net::new(&text);
    let watched = ["lab/north.head", "lab/north.south", "lab/south.tail"];
    let watches: Vec<Watch> =
        watched.iter().map(|target| Watch::begin(&net.node, target)).collect();
    net.apply(&text.replace("path: [north, south]", "path: [south]"));
    net.wait("another path", || net.hops("voice") == ["head", "south", "tail"]);
    net.apply(&text);
    net.wait("the old path", || net.hops("voice").len() == 4);
    net.apply(&flow("urgent", "bandwidth: 40Mb/s\nsetup: 1"));
    net.wait("preempted", || net.is_up("urgent") && !net.is_up("voice"));
    net.node.run(&["delete", "flow", "urgent"]);
    net.wait("it comes back", || net.is_up("voice"));
    let mut kinds = BTreeSet::new();
    for watch in watches {
        let file = watch.end();
        let all = tshark(&file, "rsvp", &["rsvp.msg", "_ws.malformed", "_ws.expert.message"]);
        for line in all.expect("a capture") {
            assert!(line[1].is_empty(), "{line:?}");
            kinds.extend(line[0].split(',').map(str::to_owned));
        }
    }
    println!("messages: {kinds:?}");
    // The capture has at least Path, Resv, PathTear and Hello.
    for kind in ["1", "2", "5", "20"] {
        assert!(kinds.contains(kind), "no message {kind} in {kinds:?}");
    }
}

#[test]
fn mistakes_in_documents_are_told_with_their_place() {
    skip_without!();
    let node = Node::new(None);
    let text = example();
    for (from, to, wanted) in [
        ("from: head", "from: hed", "slice \"lab\" has no router \"hed\""),
        ("to: tail", "to: head", "a flow ends where it begins"),
        ("setup: 4", "setup: 4\nhold: 5", "`hold` 5 is weaker than `setup` 4"),
        ("setup: 4", "setup: 8", "a priority is 0 (best) to 7"),
        ("rate: 50Mb/s", "delay: 1ms", "what may be reserved of this interface is not known"),
        (
            "fast_path:\n  builtin: ipv4\n  routes:\n    - {to: 0.0.0.0/0, via: 10.1.1.2}",
            "fast_path: {builtin: bridge}",
            "a router that signals flows runs `builtin: ipv4`, `click` or `xdp`",
        ),
        (
            "addresses: [10.1.2.2/30], signalling",
            "signalling",
            "an interface that signals has an address",
        ),
        (
            "addresses: [10.1.2.2/30], signalling: {rsvp_te: {refresh: 1s",
            "addresses: [10.1.2.2/30], signalling: {rsvp_te: {refresh: 1s, key: {secret: short}",
            "it has 5 characters; 8 to 128 are wanted",
        ),
        (
            "addresses: [10.1.2.2/30], signalling: {rsvp_te: {refresh: 1s",
            "addresses: [10.1.2.2/30], signalling: {rsvp_te: {refresh: 1s, \
             key: {secret: long enough, id: 281474976710656}",
            "the number of a key is below 2^48",
        ),
        (
            "refresh: 1s}}}\n  south: {link: head-south",
            "refresh: 2s}}}\n  south: {link: head-south",
            "interfaces of a router have the same `refresh`",
        ),
    ] {
        assert!(text.contains(from), "{from}");
        let file = node.file("wrong.yaml", &text.replace(from, to));
        let output = node.attempt(&["up", &file]);
        assert!(output.stderr.contains(wanted), "{to}: {}", output.stderr);
    }
}
