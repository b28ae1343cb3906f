//! Paths survive the end of their signaller and of the node.

use std::time::Duration;

use europa_tests::skip_without;
use serde_json::Value;

use super::net::{Net, example};

#[test]
fn the_data_plane_outlives_its_signaller_and_its_node() {
    skip_without!("ping");
    let text = example();
    let net = Net::new(&text);
    let sink = net.bob.sink("10.9.2.2:7000", 1).expect("a sink");
    let stream = net.ann.stream("10.9.2.2:7000", 1, 1000, 200).expect("a stream").paced_by(&sink);
    let before = net.node.kill("signaller");
    let is_new = |pid: i32| net.node.processes().iter().all(|one| one.cast_signed() != pid);
    net.wait("the signaller is gone", || is_new(before));
    net.wait("it is up again", || {
        net.node.attempt(&["lsp", "show", "voice"]).status.success()
            && net.is_up("voice")
            && net.hops("voice").len() == 4
    });
    // By then, state that the router has not learned again would have ended.
    std::thread::sleep(Duration::from_secs(8));
    assert!(net.is_up("voice"));
    let signaller = net.node.process("signaller");
    net.node.kill("node");
    net.node.up(&text);
    net.wait("the flow is up", || net.is_up("voice"));
    assert_eq!(net.node.process("signaller"), signaller, "it was adopted");
    let sent = stream.stop();
    std::thread::sleep(Duration::from_millis(300));
    let received = sink.stop(sent);
    println!("{sent} packets while signaller and node were killed: {received:?}");
    assert!(received.is_perfect(), "of {sent}: {received:?}");
}

/// Labels and routers of a flow's path.
fn labels(shown: &Value) -> Vec<String> {
    let hops = shown["hops"].as_array().cloned().unwrap_or_default();
    hops.iter().map(|hop| format!("{}:{}", hop["router"], hop["label_in"])).collect()
}

#[test]
fn a_path_that_was_found_is_kept_by_the_next_signaller() {
    skip_without!("ping");
    let net = Net::new(&example());
    // The routes lead to the north, which has no room for it.
    let ends = ["--slice", "lab", "--from", "head", "--to", "tail", "--bandwidth", "40Mb/s"];
    net.node.run(&[&["lsp", "create", "wide"], &ends[..]].concat());
    net.wait("it is up by another path", || net.is_up("wide"));
    let before = net.show("wide");
    assert_eq!(net.hops("wide"), ["head", "south", "north", "tail"]);
    let old = net.node.kill("signaller");
    let is_new = |pid: i32| net.node.processes().iter().all(|one| one.cast_signed() != pid);
    net.wait("the signaller is gone", || is_new(old));
    net.wait("another one knows the flow", || {
        net.node.attempt(&["lsp", "show", "wide"]).status.success()
            && net.is_up("wide")
            && net.hops("wide").len() == 4
    });
    // By then, state that the routers have not learned again would have ended.
    std::thread::sleep(Duration::from_secs(8));
    let after = net.show("wide");
    assert_eq!(labels(&after), labels(&before));
    assert_eq!((&after["lsp"], &after["state"]), (&before["lsp"], &"up".into()));
    assert_eq!((net.left("lab/head.south"), net.left("lab/north.tail")), (10, 10));
    let lost = net.events("wide").into_iter().filter(|line| line.contains("Down"));
    assert_eq!(lost.collect::<Vec<_>>(), Vec::<String>::new());
}
