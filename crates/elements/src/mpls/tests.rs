//! Packets in, packets out.

use europa_label::{Entry, Head, Hop, LspId, StackEntry, WhileDown};
use europa_pool::packet::annotation::DST_IP6;

use super::label_switch::LabelSwitch;
use crate::testing::{Bench, ip_packet};

/// Two interfaces: neighbours by outputs 0 to 3, routes by 4 and 5, too long by 6 and 7, tails by 8 and 9.
fn bench(arguments: &[&str]) -> Bench {
    let all = [&["a b"], arguments].concat();
    Bench::with_inputs_outputs("LabelSwitch", &all, 6, 10)
}

fn id(lsp: u16) -> LspId {
    let [destination, extended] = ["10.9.0.1", "10.0.0.1"].map(|text| text.parse().unwrap());
    LspId { destination, tunnel: 1, extended, sender: extended, lsp }
}

fn entry(incoming: Option<u32>, outgoing: Option<(u32, &str, u32)>) -> Entry {
    let hop = |(interface, via, label): (u32, &str, u32)| Hop {
        interface,
        via: via.parse().unwrap(),
        label,
    };
    Entry { incoming, outgoing: outgoing.map(hop), bucket: [0.0; 3], sizes: [64, 1500] }
}

fn set(bench: &mut Bench, lsp: u16, entry: Entry) -> bool {
    bench.element::<LabelSwitch>().program.set(id(lsp), Some(entry))
}

fn label(label: u32, is_bottom: bool, ttl: u8) -> Vec<u8> {
    StackEntry { label, class: 0, is_bottom, ttl }.to_bytes().to_vec()
}

fn ip(ttl: u8) -> Vec<u8> {
    ip_packet(0x0a00_0002, 0x0a09_0005, ttl, b"payload")
}

fn drops(bench: &mut Bench) -> String {
    let all = bench.router.read("e.drops", "").unwrap();
    let counted = all.lines().filter(|line| !line.starts_with("0 "));
    counted.collect::<Vec<_>>().join(", ")
}

#[test]
fn labels_are_swapped_popped_and_dropped() {
    let mut bench = bench(&[]);
    assert!(set(&mut bench, 1, entry(Some(16), Some((1, "10.0.1.2", 99)))));
    assert!(set(&mut bench, 2, entry(Some(17), Some((1, "10.0.1.2", 3)))));
    assert!(set(&mut bench, 3, entry(Some(18), None)));
    assert!(set(&mut bench, 4, entry(Some(19), Some((0, "2001:db8::2", 0)))));
    let below = |top: Vec<u8>, rest: &[u8]| [&top, rest].concat();
    for (what, packet, wanted) in [
        ("swap", below(label(16, true, 9), &ip(60)), Some((1, below(label(99, true, 8), &ip(60))))),
        ("last but one", below(label(17, true, 9), &ip(60)), Some((1, ip(8)))),
        ("an IP TTL that is less stays", below(label(17, true, 200), &ip(60)), Some((1, ip(60)))),
        ("the end", below(label(18, true, 9), &ip(60)), Some((8, ip(8)))),
        ("explicit null", below(label(0, true, 9), &ip(60)), Some((8, ip(8)))),
        (
            "two labels, the last but one of the upper",
            [label(17, false, 9), label(500, true, 60), ip(60)].concat(),
            Some((1, [label(500, true, 8), ip(60)].concat())),
        ),
        (
            "two labels that end here",
            [label(18, false, 9), label(18, true, 60), ip(60)].concat(),
            Some((8, ip(7))),
        ),
        (
            "by IPv6",
            below(label(19, true, 9), &ip(60)),
            Some((2, below(label(0, true, 8), &ip(60)))),
        ),
        ("unknown", below(label(20, true, 9), &ip(60)), None),
        ("no hop is left", below(label(16, true, 1), &ip(60)), None),
        ("no hop is left at the end", below(label(18, true, 1), &ip(60)), None),
        ("nothing below", label(18, true, 9), None),
        ("no whole label", vec![0, 1], None),
        ("labels without end", label(18, false, 9).repeat(20), None),
    ] {
        let out = bench.push(0, &[&packet]);
        assert_eq!(out, wanted.into_iter().collect::<Vec<_>>(), "{what}");
    }
    assert_eq!(drops(&mut bench), "1 unknown label, 2 no hop left, 3 malformed");
    let table = bench.router.read("e.table", "").unwrap();
    assert!(table.starts_with("10.0.0.1 10.9.0.1 1 1 16 99 b 10.0.1.2 2 "), "{table}");
}

#[test]
fn in_the_pipe_model_an_lsp_is_one_hop() {
    let mut bench = bench(&["MODEL pipe"]);
    set(&mut bench, 2, entry(Some(17), Some((1, "10.0.1.2", 3))));
    let packet = [label(17, true, 9), ip(60)].concat();
    assert_eq!(bench.push(0, &[&packet]), [(1, ip(60))]);
}

fn head(while_down: WhileDown, lsp: Option<u16>, police: [f64; 2]) -> Head {
    let prefixes = vec!["10.9.0.0/16".parse().unwrap(), "2001:db8:9::/48".parse().unwrap()];
    Head { name: "f".into(), prefixes, lsp: lsp.map(id), while_down, police }
}

/// Pushes an IPv4 packet as if a look-up had sent it.
fn push_head(bench: &mut Bench, packet: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let mut made = bench.arena.packet(packet).unwrap();
    made.set_network_header(0, 20);
    made.set_dst_ip(u32::from_be_bytes(packet[16..20].try_into().unwrap()));
    bench.push_packets(4, vec![made])
}

#[test]
fn flows_enter_their_lsps() {
    let mut bench = bench(&["OWN 10.9.7.0/24"]);
    let other = ip_packet(1, 0x0b00_0001, 9, b"");
    let own = ip_packet(1, 0x0a09_0701, 9, b"");
    assert_eq!(push_head(&mut bench, &ip(60)), [(4, ip(60))], "there is no flow");
    let flows = |bench: &mut Bench, head| {
        bench.element::<LabelSwitch>().program.set_flows(vec![head], 0);
    };
    flows(&mut bench, head(WhileDown::Drop, Some(1), [0.0; 2]));
    assert_eq!(push_head(&mut bench, &ip(60)), [], "its LSP is not there");
    flows(&mut bench, head(WhileDown::Route, Some(1), [0.0; 2]));
    assert_eq!(push_head(&mut bench, &ip(60)), [(4, ip(60))]);
    set(&mut bench, 1, entry(None, Some((1, "10.0.1.2", 77))));
    let labelled = [label(77, true, 59), ip(59)].concat();
    assert_eq!(push_head(&mut bench, &ip(60)), [(1, labelled)]);
    assert_eq!(bench.paints(), [255]);
    for (what, packet) in [("another's", &other), ("own subnet", &own), ("last hop", &ip(1))] {
        assert_eq!(push_head(&mut bench, packet), [(4, packet.clone())], "{what}");
    }
    set(&mut bench, 1, entry(None, Some((0, "10.0.0.9", 3))));
    assert_eq!(push_head(&mut bench, &ip(60)), [(0, ip(59))], "one hop away: no label");
    assert_eq!(bench.paints(), [0]);
    // A packet has 27 bytes: the bucket holds two.
    flows(&mut bench, head(WhileDown::Drop, Some(1), [27.0, 54.0]));
    let sent = (0..5).filter(|_| !push_head(&mut bench, &ip(60)).is_empty()).count();
    assert_eq!(sent, 2);
    bench.now_ns = 1_000_000_000;
    assert_eq!(push_head(&mut bench, &ip(60)).len(), 1);
    assert_eq!(drops(&mut bench), "1 flow is down, 3 more than the flow may send");
    assert_eq!(bench.router.read("e.flows", ""), Ok("f 1\n".into()));
}

#[test]
fn flows_of_ipv6_enter_too() {
    let mut bench = bench(&[]);
    let program = &mut bench.element::<LabelSwitch>().program;
    program.set_flows(vec![head(WhileDown::Drop, Some(1), [0.0; 2])], 0);
    set(&mut bench, 1, entry(None, Some((1, "2001:db8::2", 77))));
    let mut packet = vec![0x60, 0, 0, 0, 0, 0, 59, 9];
    packet.extend([0; 16]);
    packet.extend("2001:db8:9::1".parse::<std::net::Ipv6Addr>().unwrap().octets());
    let mut made = bench.arena.packet(&packet).unwrap();
    made.set_network_header(0, 40);
    made.set_annotation::<16>(DST_IP6, packet[24..40].try_into().unwrap());
    packet[7] = 8;
    let wanted = [label(77, true, 8), packet].concat();
    assert_eq!(bench.push_packets(5, vec![made]), [(3, wanted)]);
}

#[test]
fn packets_that_are_too_long_are_told() {
    let mut bench = bench(&[]);
    let program = &mut bench.element::<LabelSwitch>().program;
    program.set_flows(vec![head(WhileDown::Drop, Some(1), [0.0; 2])], 0);
    set(&mut bench, 1, entry(None, Some((1, "10.0.1.2", 77))));
    for (length, output) in [(1496, 1), (1497, 6)] {
        let mut packet = ip(60);
        packet.resize(length, 0);
        assert_eq!(push_head(&mut bench, &packet)[0].0, output, "{length}");
    }
}

#[test]
fn entries_that_make_no_sense_are_refused() {
    let mut bench = bench(&[]);
    assert!(set(&mut bench, 1, entry(Some(16), None)));
    for (what, wrong) in [
        ("a label that another has", entry(Some(16), None)),
        ("a reserved label", entry(Some(3), None)),
        ("more than 20 bits", entry(Some(1 << 20), None)),
        ("an interface that is not there", entry(Some(17), Some((2, "10.0.0.1", 16)))),
        ("a reserved label that leaves", entry(Some(17), Some((0, "10.0.0.1", 7)))),
    ] {
        assert!(!set(&mut bench, 2, wrong), "{what}");
    }
    assert_eq!(bench.router.read("e.count", ""), Ok("1".into()));
    assert!(set(&mut bench, 1, entry(Some(17), None)), "another label in its place");
    let gone = [label(16, true, 9), ip(60)].concat();
    assert_eq!(bench.push(0, &[&gone]), []);
    let program = &mut bench.element::<LabelSwitch>().program;
    assert!(program.set(id(1), None) && program.set(id(1), None));
    assert_eq!(bench.router.read("e.count", ""), Ok("0".into()));
}

#[test]
fn bad_arguments_are_refused() {
    for (arguments, inputs, outputs, wanted) in [
        (&["a b", "MODEL tube"][..], 6, 10, "MODEL: expected uniform or pipe, found 'tube'"),
        (&["a b", "OWN 10.0.0.1/33"], 6, 10, "OWN: expected prefix, found '10.0.0.1/33'"),
        (&["a"], 6, 10, "with 1 interfaces it has 4 inputs and 8 outputs"),
    ] {
        let found = Bench::try_new("LabelSwitch", arguments, Some(inputs), Some(outputs));
        assert_eq!(found.err().as_deref(), Some(wanted));
    }
}
