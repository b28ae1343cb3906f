//! Routers of all kinds on a path: their label tables precede their fast paths.

use europa_tests::{skip_without, tshark};

use super::net::{Net, Watch, example};

/// The document of router south in the example, up to its fast path, and the fast path.
const SOUTH: &str = "kind: router\nname: south\nslice: lab\n";
const NORTH: &str = "kind: router\nname: north\nslice: lab\n";

/// A configuration of a user's own: it answers ARP, counts IP packets, and never forwards.
const CLICK: &str = "  click: |
    elementclass Side { $name, $address, $mac |
      FromDevice($name) -> class :: Classifier(12/0806 20/0001, 12/0800, -);
      class[0] -> ARPResponder($address $mac) -> out :: ToDevice($name);
      class[1] -> seen :: Counter -> Discard;
      class[2] -> Discard;
    }
    head :: Side(head, 10.1.2.2, 02:00:00:00:01:02);
    north :: Side(north, 10.1.3.2, 02:00:00:00:01:03);
    tail :: Side(tail, 10.1.5.1, 02:00:00:00:01:05);
";

/// The example, with another fast path of a router, and lines before it.
fn with(router: &str, lines: &str, fast_path: Option<&str>) -> String {
    let text = example();
    let begin = text.find(router).expect("the router");
    let end = begin + text[begin..].find("\n---").expect("its end");
    let mut own = text[begin..end].replace(router, &format!("{router}{lines}"));
    if let Some(fast_path) = fast_path {
        let at = own.find("fast_path:\n").expect("its fast path");
        own.truncate(at + "fast_path:\n".len());
        own += fast_path;
    }
    format!("{}{}{}", &text[..begin], own.trim_end(), &text[end..])
}

/// Packets to bob take the path over a router, whose label table has counted them. Packets of the
/// other direction follow routes, and do not pass south.
fn carries(net: &Net, router: &str, table: &str) {
    assert_eq!(net.hops("voice"), ["head", "north", "south", "tail"]);
    let watch = Watch::begin(&net.node, "lab/north.south");
    let ping = net.ann.ping_exactly("10.9.2.2", 50, &[]).expect("a ping");
    assert!(ping.is_perfect(), "{ping:?}");
    let labelled = tshark(&watch.end(), "mpls && icmp", &["mpls.label"]).expect("a capture");
    assert_eq!(labelled.len(), 50, "{labelled:?}");
    let counted = net.node.run(&["read", &format!("lab/{router}"), &format!("{table}.table")]);
    let packets: Vec<u64> =
        (counted.lines()).filter_map(|line| line.split(' ').nth(8)?.parse().ok()).collect();
    println!("{router}: {counted}");
    assert!(packets.iter().any(|packets| *packets >= 50), "{counted}");
    let messages = net.node.run(&["read", &format!("lab/{router}"), &format!("{table}.messages")]);
    let heard: Option<u64> = messages.split(' ').next().and_then(|count| count.parse().ok());
    assert!(heard >= Some(3), "{messages}");
    // A neighbour that answers Hellos is not lost.
    assert!(net.is_up("voice"));
}

#[test]
fn a_router_inside_the_switch_switches_labels() {
    skip_without!("ping", "tshark");
    let text = with(NORTH, "run: inline\n", None);
    let net = Net::new(&text);
    carries(&net, "north", "labels");
    // Its label table outlives signaller and node.
    let stream = net.bob.sink("10.9.2.2:7000", 1).expect("a sink");
    let sent = net.ann.stream("10.9.2.2:7000", 1, 1000, 200).expect("a stream").paced_by(&stream);
    net.node.kill("signaller");
    net.wait("it is up again", || {
        net.node.attempt(&["lsp", "show", "voice"]).status.success()
            && net.is_up("voice")
            && net.hops("voice").len() == 4
    });
    net.node.kill("node");
    net.node.up(&text);
    net.wait("the flow is up", || net.is_up("voice"));
    let count = sent.stop();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let received = stream.stop(count);
    println!("{count} packets while signaller and node were killed: {received:?}");
    assert!(received.is_perfect(), "of {count}: {received:?}");
}

#[test]
fn a_flow_begins_and_ends_at_routers_inside_the_switch() {
    skip_without!("ping", "tshark");
    let text =
        example().replace("name: head\nslice: lab\n", "name: head\nslice: lab\nrun: inline\n");
    let text = text.replace("name: tail\nslice: lab\n", "name: tail\nslice: lab\nrun: inline\n");
    let net = Net::new(&text.replace("refresh: 1s", "refresh: 1s, egress: label"));
    carries(&net, "head", "labels");
    carries(&net, "tail", "labels");
}

#[test]
fn a_click_configuration_of_ones_own_forwards_labels_before_it() {
    skip_without!("ping", "tshark");
    for run in ["", "run: inline\n"] {
        let with_macs = |fast_path: &str| {
            let mut text = with(SOUTH, run, Some(fast_path));
            for (address, last) in [("10.1.2.2", 2), ("10.1.3.2", 3), ("10.1.5.1", 5)] {
                let own = format!("addresses: [{address}/30]");
                assert!(text.contains(&own), "{own}");
                text = text.replace(&own, &format!("mac: '02:00:00:00:01:0{last}', {own}"));
            }
            text
        };
        let net = Net::new(&with_macs(CLICK));
        carries(&net, "south", "europa_labels");
        // Packets without labels still are the configuration's.
        let seen = net.node.run(&["read", "lab/south", "north/seen.count"]);
        assert_eq!(seen.trim(), "0", "messages and labelled packets are not");
        let mistake = with_macs(&(CLICK.to_owned() + "    FromDevice(tail) -> Discard;\n"));
        let output = net.node.attempt(&["apply", &net.node.file("two.yaml", &mistake)]);
        let wanted = "interface tail signals, so one FromDevice receives from it";
        assert!(output.stderr.contains(wanted), "{}", output.stderr);
    }
}

#[test]
fn a_router_with_a_slow_path_switches_labels() {
    skip_without!("ping", "tshark");
    let net = Net::new(&with(NORTH, "slow_path: {}\n", None));
    carries(&net, "north", "europa_labels");
}

#[test]
fn a_router_in_the_kernel_switches_labels() {
    skip_without!("ping", "tshark", "clang");
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("pass.c");
    let pass = "#include <linux/bpf.h>\n#include <bpf/bpf_helpers.h>\nSEC(\"xdp\")\n\
        int pass(struct xdp_md *ctx)\n{\n\treturn XDP_PASS;\n}\n\
        char LICENSE[] SEC(\"license\") = \"GPL\";\n";
    std::fs::write(&source, pass).expect("the program");
    let xdp = format!("  xdp: {{source: {}}}\n", source.display());
    let text = with(SOUTH, "run: kernel\nslow_path: {}\n", Some(&xdp));
    let net = Net::new(
        &text.replace("kind: slice\nname: lab\n", "kind: slice\nname: lab\nprograms: operator\n"),
    );
    carries(&net, "south", "europa_labels");
}
