//! Which packets belong to which interface: the table, the precedence and the broadcasts of
//! docs/matches.md, with real frames.
//!
//! One router has an interface of each kind on the left, and for each of them one in a VLAN of its
//! own on the right. The router sends frames of a left interface unchanged to the right, with that
//! tag. It sends tagged frames from the right by that left interface:
//!
//! ```text
//!            ┌ mac ──── 100 ┐
//!  a ─ left ─┼ office ─ 101 ┼─ right ─ b
//!            └ ...          ┘
//! ```

use crate::line::{Line, ports};
use crate::wire::{bytes, of_row, send, shown, tagged};
use europa_tests::skip_without;

/// Name and fields of an interface on the left.
type Kind = (&'static str, &'static str);

const KINDS: &[Kind] = &[
    ("mac", "mac: '02:00:00:00:00:01'"),
    ("office", "mac: '02:00:00:00:00:01', match: {vlan: 10}"),
    ("net", "match: {prefix: [10.1.0.0/16, 'fd01::/32']}"),
    ("longer", "match: {prefix: [10.1.2.0/24, 'fd01:0:2::/48']}"),
    ("udp", "match: {udp: [5000, 5001]}"),
    ("udp10", "match: {vlan: 10, udp: [5000]}"),
    ("label", "match: {mpls: [100, 102]}"),
    ("label10", "match: {vlan: 10, mpls: [100]}"),
    ("net10", "match: {vlan: 10, prefix: [10.1.0.0/16]}"),
    ("tunnel4", "match: {vxlan: {vni: 100, local: 10.0.1.1, remote: 10.0.1.2}}"),
    ("tunnel6", "match: {vxlan: {vni: 101, local: 'fd00:1::1', remote: 'fd00:1::2'}}"),
    ("vlan30", "match: {vlan: 30, all: true}"),
    ("inner", "mac: '02:00:00:00:00:01', match: {vlan: 20, inner_tags: true}"),
    ("inner40", "match: {vlan: 40, all: true, inner_tags: true}"),
];

/// The tag on the right of interface `index` on the left.
fn tag(index: usize) -> u16 {
    100 + index as u16
}

/// The router: interface `index` on the left and VLAN 100 + `index` on the right.
fn router(kinds: &[Kind]) -> String {
    let mut text = ports() + "kind: router\nname: tap\nslice: red\ninterfaces:\n";
    let mut click = String::new();
    for (index, (name, fields)) in kinds.iter().enumerate() {
        text += &format!("  {name}: {{port: left, {fields}}}\n");
        let all = format!("{{vlan: {}, all: true, inner_tags: true}}", tag(index));
        text += &format!("  r{name}: {{port: right, match: {all}}}\n");
        for (from, to) in [(*name, format!("r{name}")), (&*format!("r{name}"), (*name).to_owned())]
        {
            click += &format!(
                "    FromDevice({from}, PROMISC true) -> Queue(4000) -> ToDevice({to});\n"
            );
        }
    }
    text + "fast_path:\n  click: |\n" + &click
}

/// The line with addresses for Linux on the left port, which receives by `by`, and the router on it.
fn up(kinds: &[Kind], by: &str) -> Line {
    let line = Line::new();
    line.middle.sysctl("net.ipv6.conf.eu-left.disable_ipv6", "0").expect("a parameter");
    line.middle.address("eu-left", "10.0.1.1/24").expect("an address");
    line.middle.address("eu-left", "fd00:1::1/64").expect("an address");
    let port = format!("device: eu-left\nreceive: {by}");
    line.node.up(&router(kinds).replace("device: eu-left", &port));
    let (seen, shown) = ((&line.middle, "seen"), (&line.middle, "shown"));
    line.lab.veth(seen, shown).expect("a veth pair");
    line.middle.run(&["nft", COPY]).expect("copies");
    line
}

/// Methods by which the left port receives: `auto` is tc, where the kernel can.
const WAYS: [&str; 2] = ["xdp", "auto"];
/// Copies the frames that the left port gives to Linux to `seen`, behind the programs of XDP and of
/// tc. A capture at the port itself comes before the programs of tc, and also sees frames that they
/// take.
const COPY: &str = "add table netdev seen; add chain netdev seen by \
    { type filter hook ingress device eu-left priority 0; }; \
    add rule netdev seen by dup to seen";

/// A frame that arrives at the left port: the bytes that each interface sees, and whether Linux
/// does.
struct Arrival {
    what: &'static str,
    frame: &'static str,
    seen: &'static [(&'static str, &'static str)],
    linux: bool,
}

const fn arrival(
    what: &'static str,
    frame: &'static str,
    seen: &'static [(&'static str, &'static str)],
    linux: bool,
) -> Arrival {
    Arrival { what, frame, seen, linux }
}

/// Frames that a router does not see go to Linux.
const LINUX: bool = true;
/// Linux does not see frames that a router sees.
const ALONE: bool = false;
const NOBODY: &[(&str, &str)] = &[];

fn check_arrivals(kinds: &[Kind], rows: &[Arrival]) {
    WAYS.iter().for_each(|by| check_arrivals_at(&up(kinds, by), kinds, rows));
}

fn check_arrivals_at(line: &Line, kinds: &[Kind], rows: &[Arrival]) {
    let mut expressions = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        expressions.push((index, row.frame));
        expressions.extend(row.seen.iter().map(|(_, bytes)| (index, *bytes)));
    }
    let mut compiled = bytes(&line.a, &expressions).into_iter();
    let mut next = || compiled.next().expect("an expression");
    let rows: Vec<_> = rows
        .iter()
        .map(|row| (row, next(), row.seen.iter().map(|(by, _)| (*by, next())).collect::<Vec<_>>()))
        .collect();
    let linux = line.middle.capture("shown", "ether src 02:00:00:00:00:0a").expect("a capture");
    let right = line.b.capture("eth0", "").expect("a capture");
    send(&line.a, "eth0", &rows.iter().map(|(_, frame, _)| frame.clone()).collect::<Vec<_>>(), 1);
    let [linux, right] = [linux, right].map(|capture| capture.stop().expect("captured"));
    let mut wrong = String::new();
    for (index, (row, frame, seen)) in rows.iter().enumerate() {
        let number =
            |by: &str| kinds.iter().position(|(name, _)| *name == by).expect("an interface");
        let mut wanted: Vec<_> =
            seen.iter().map(|(by, frame)| tagged(frame, tag(number(by)))).collect();
        wanted.sort();
        let found = of_row(&right, index);
        if found != wanted {
            let (found, wanted) = (shown(&found), shown(&wanted));
            wrong += &format!("{}: routers see{found}\n  not{wanted}\n", row.what);
        }
        let wanted = if row.linux { vec![frame.clone()] } else { vec![] };
        let found = of_row(&linux, index);
        if found != wanted {
            wrong += &format!("{}: Linux sees{}, not{}\n", row.what, shown(&found), shown(&wanted));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// A frame that a router sends by an interface: what leaves, or why not.
struct Departure {
    what: &'static str,
    by: &'static str,
    frame: &'static str,
    leaves: Result<&'static str, &'static str>,
}

const fn departure(
    what: &'static str,
    by: &'static str,
    frame: &'static str,
    leaves: Result<&'static str, &'static str>,
) -> Departure {
    Departure { what, by, frame, leaves }
}

const SOURCE: Result<&str, &str> = Err("foreign source MAC address");
const TAG: Result<&str, &str> = Err("VLAN tag not allowed");
const UNBOUND: Result<&str, &str> = Err("source address not bound");

/// Clears the field that differs from flow to flow: the UDP source port of a tunnel, which is a
/// dynamic one (RFC 7348, section 5).
fn without_flow(mut frame: Vec<u8>) -> Vec<u8> {
    let at = if frame.get(12..14) == Some(&[0x86, 0xdd]) { 54 } else { 34 };
    let port = frame.get(at).is_some_and(|byte| *byte >= 0xc0);
    if port && frame.get(at + 2..at + 4) == Some(&4789u16.to_be_bytes()) {
        frame[at..at + 2].fill(0);
    }
    frame
}

/// Checks that both ways out, the socket's and the live frames', do the same.
fn check_departures(line: &Line, kinds: &[Kind], rows: &[Departure]) {
    let expressions: Vec<_> = rows
        .iter()
        .enumerate()
        .flat_map(|(index, row)| [(index, row.frame), (index, row.leaves.unwrap_or("Ether()"))])
        .collect();
    let compiled = bytes(&line.a, &expressions);
    let number = |by: &str| kinds.iter().position(|(name, _)| *name == by).expect("an interface");
    let frames: Vec<_> = rows
        .iter()
        .zip(compiled.chunks_exact(2))
        .map(|(row, pair)| tagged(&pair[0], tag(number(row.by))))
        .collect();
    for (way, times) in [("socket_frames", 1), ("live_frames", 1500)] {
        let switch = |line: &Line| line.node.stats()["switch"][way].as_u64().expect("a number");
        let (before, way_before) = (line.node.counters(), switch(line));
        let left = line.a.capture("eth0", "not ether src 02:00:00:00:00:0a").expect("a capture");
        send(&line.b, "eth0", &frames, times);
        let left = left.stop().expect("captured");
        let (after, way_after) = (line.node.counters(), switch(line));
        assert!(way_after > way_before, "nothing left by {way}");
        let mut wrong = String::new();
        for (index, (row, pair)) in rows.iter().zip(compiled.chunks_exact(2)).enumerate() {
            let wanted = row.leaves.map_or(vec![], |_| vec![pair[1].clone()]);
            let mut found: Vec<_> = of_row(&left, index).into_iter().map(without_flow).collect();
            found.dedup();
            if found != wanted {
                let (found, wanted) = (shown(&found), shown(&wanted));
                wrong += &format!("{}, {way}: left{found}\n  not{wanted}\n", row.what);
            }
        }
        // The port counts every refusal under its cause, and loses nothing else.
        for (name, _) in kinds {
            let name = format!("red/tap.{name}");
            let causes = [
                "foreign source MAC address",
                "VLAN tag not allowed",
                "source address not bound",
                "bad length",
            ];
            for cause in causes {
                let count =
                    |counters: &std::collections::BTreeMap<String, europa_tests::Counters>| {
                        counters[&name].drops.get(cause).copied().unwrap_or(0)
                    };
                let refused = rows.iter().filter(|row| {
                    name.ends_with(&format!(".{}", row.by)) && row.leaves == Err(cause)
                });
                let (wanted, found) = (refused.count() * times, count(&after) - count(&before));
                let met =
                    if times == 1 { found == wanted as u64 } else { (found > 0) == (wanted > 0) };
                if !met {
                    wrong += &format!("{name}, {way}: {cause} {found} times, not {wanted}\n");
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong}");
    }
}

#[test]
fn each_kind_gets_its_own_and_linux_the_rest() {
    skip_without!("tcpdump", "scapy", "nft");
    check_arrivals(
        KINDS,
        &[
            // MAC addresses and VLANs.
            arrival("own MAC", "E(I)/U()", &[("mac", "E(I)/U()")], ALONE),
            arrival("own MAC, IPv6", "E(I)/U6()", &[("mac", "E(I)/U6()")], ALONE),
            arrival(
                "own MAC, priority tag",
                "E(I)/V(0, prio=5)/U()",
                &[("mac", "E(I)/V(0, prio=5)/U()")],
                ALONE,
            ),
            arrival("own MAC, VLAN 10", "E(I)/V(10)/U()", &[("office", "E(I)/U()")], ALONE),
            arrival(
                "own MAC, VLAN 10 with a priority",
                "E(I)/V(10, prio=3)/U6()",
                &[("office", "E(I)/U6()")],
                ALONE,
            ),
            arrival(
                "own MAC, two tags, the outer one is 10",
                "E(I, type=0x88a8)/V(10)/V(77)/U()",
                &[("office", "E(I)/V(77)/U()")],
                ALONE,
            ),
            arrival(
                "own MAC, two tags, the inner one is 10",
                "E(I, type=0x88a8)/V(77)/V(10)/U()",
                NOBODY,
                LINUX,
            ),
            arrival("own MAC, VLAN 11", "E(I)/V(11)/U()", NOBODY, LINUX),
            arrival("foreign MAC", "E(X)/U()", NOBODY, LINUX),
            arrival("foreign MAC, VLAN 10", "E(X)/V(10)/U()", NOBODY, LINUX),
            arrival(
                "own MAC, no IP at all",
                "E(I, type=0x88b5)/M",
                &[("mac", "E(I, type=0x88b5)/M")],
                ALONE,
            ),
            arrival(
                "own MAC, UDP port of another",
                "E(I)/U(port=5000)",
                &[("mac", "E(I)/U(port=5000)")],
                ALONE,
            ),
            // The port's own MAC.
            arrival("port's MAC, IPv4 of nobody", "E(P)/U()", NOBODY, LINUX),
            arrival("port's MAC, IPv6 of nobody", "E(P)/U6()", NOBODY, LINUX),
            arrival("prefix", "E(P)/U('10.1.3.4')", &[("net", "E(P)/U('10.1.3.4')")], ALONE),
            arrival("prefix, IPv6", "E(P)/U6('fd01::9')", &[("net", "E(P)/U6('fd01::9')")], ALONE),
            arrival(
                "prefix, priority tag",
                "E(P)/V(0, prio=5)/U('10.1.3.4')",
                &[("net", "E(P)/V(0, prio=5)/U('10.1.3.4')")],
                ALONE,
            ),
            arrival(
                "longer prefix",
                "E(P)/U('10.1.2.4')",
                &[("longer", "E(P)/U('10.1.2.4')")],
                ALONE,
            ),
            arrival(
                "longer prefix, IPv6",
                "E(P)/U6('fd01:0:2::9')",
                &[("longer", "E(P)/U6('fd01:0:2::9')")],
                ALONE,
            ),
            arrival("beside the prefix", "E(P)/U('10.2.0.1')", NOBODY, LINUX),
            arrival("prefix behind a foreign MAC", "E(X)/U('10.1.3.4')", NOBODY, LINUX),
            arrival(
                "prefix in VLAN 10",
                "E(P)/V(10)/U('10.1.3.4')",
                &[("net10", "E(P)/U('10.1.3.4')")],
                ALONE,
            ),
            arrival("prefix in VLAN 11", "E(P)/V(11)/U('10.1.3.4')", NOBODY, LINUX),
            arrival(
                "UDP port before prefix",
                "E(P)/U('10.1.2.4', 5000)",
                &[("udp", "E(P)/U('10.1.2.4', 5000)")],
                ALONE,
            ),
            arrival("second UDP port", "E(P)/U(port=5001)", &[("udp", "E(P)/U(port=5001)")], ALONE),
            arrival(
                "UDP port, IPv6",
                "E(P)/U6(port=5000)",
                &[("udp", "E(P)/U6(port=5000)")],
                ALONE,
            ),
            arrival(
                "UDP port in VLAN 10",
                "E(P)/V(10)/U(port=5000)",
                &[("udp10", "E(P)/U(port=5000)")],
                ALONE,
            ),
            arrival(
                "UDP port behind IPv4 options",
                "E(P)/U(port=5000, options=[IPOption_RR()])",
                &[("udp", "E(P)/U(port=5000, options=[IPOption_RR()])")],
                ALONE,
            ),
            arrival(
                "TCP to the number of a UDP port",
                "E(P)/IP(src='10.0.1.2', dst='10.9.9.9')/TCP(dport=5000)/M",
                NOBODY,
                LINUX,
            ),
            arrival(
                "first fragment",
                "E(P)/U('10.1.3.4', 5000, flags='MF')",
                &[("udp", "E(P)/U('10.1.3.4', 5000, flags='MF')")],
                ALONE,
            ),
            arrival(
                "later fragment that looks like the port",
                "E(P)/U('10.1.3.4', 5000, frag=8)",
                &[("net", "E(P)/U('10.1.3.4', 5000, frag=8)")],
                ALONE,
            ),
            arrival("later fragment to nobody", "E(P)/U(port=5000, frag=8)", NOBODY, LINUX),
            arrival(
                "behind an extension header",
                "E(P)/IPv6(src='fd00:1::2', dst='fd01::9')/IPv6ExtHdrDestOpt()/UDP(dport=5000)/M",
                &[(
                    "net",
                    "E(P)/IPv6(src='fd00:1::2', dst='fd01::9')/IPv6ExtHdrDestOpt()/UDP(dport=5000)/M",
                )],
                ALONE,
            ),
            // MPLS.
            arrival(
                "label on top",
                "E(P)/MPLS(label=100, s=0)/MPLS(label=7, s=1)/U()",
                &[("label", "E(P)/MPLS(label=100, s=0)/MPLS(label=7, s=1)/U()")],
                ALONE,
            ),
            arrival(
                "second label",
                "E(P)/MPLS(label=102)/U()",
                &[("label", "E(P)/MPLS(label=102)/U()")],
                ALONE,
            ),
            arrival(
                "label below",
                "E(P)/MPLS(label=101, s=0)/MPLS(label=100, s=1)/U()",
                NOBODY,
                LINUX,
            ),
            arrival(
                "label before prefix and port",
                "E(P)/MPLS(label=101)/U('10.1.3.4', 5000)",
                NOBODY,
                LINUX,
            ),
            arrival(
                "label in VLAN 10",
                "E(P)/V(10)/MPLS(label=100)/U()",
                &[("label10", "E(P)/MPLS(label=100)/U()")],
                ALONE,
            ),
            arrival("label behind a foreign MAC", "E(X)/MPLS(label=100)/U()", NOBODY, LINUX),
            // VXLAN.
            arrival(
                "tunnel",
                "E(P)/X4(100, E(X, src=B)/U())",
                &[("tunnel4", "E(X, src=B)/U()")],
                ALONE,
            ),
            arrival(
                "tunnel, IPv6 outside",
                "E(P)/X6(101, E(X, src=B)/U())",
                &[("tunnel6", "E(X, src=B)/U()")],
                ALONE,
            ),
            arrival(
                "tunnel, IPv6 inside",
                "E(P)/X4(100, E(X)/U6())",
                &[("tunnel4", "E(X)/U6()")],
                ALONE,
            ),
            arrival(
                "tunnel, tag inside",
                "E(P)/X4(100, E(X)/V(5)/U())",
                &[("tunnel4", "E(X)/V(5)/U()")],
                ALONE,
            ),
            arrival(
                "tunnel, broadcast inside",
                "E(P)/X4(100, E(ALL)/U())",
                &[("tunnel4", "E(ALL)/U()")],
                ALONE,
            ),
            arrival(
                "tunnel, one of another's MAC addresses inside",
                "E(P)/X6(101, E(I)/U())",
                &[("tunnel6", "E(I)/U()")],
                ALONE,
            ),
            arrival(
                "tunnel from elsewhere",
                "E(P)/X4(100, E(X)/U(), src='10.0.1.3')",
                NOBODY,
                LINUX,
            ),
            arrival(
                "tunnel to elsewhere, in a prefix",
                "E(P)/X4(100, E(X)/U(), dst='10.1.0.9')",
                NOBODY,
                LINUX,
            ),
            arrival(
                "tunnel from elsewhere, IPv6",
                "E(P)/X6(101, E(X)/U(), src='fd00:1::3')",
                NOBODY,
                LINUX,
            ),
            arrival(
                "tunnel to elsewhere, IPv6",
                "E(P)/X6(101, E(X)/U(), dst='fd01::1')",
                NOBODY,
                LINUX,
            ),
            arrival("tunnel of the other family", "E(P)/X6(100, E(X)/U())", NOBODY, LINUX),
            arrival("unknown identifier", "E(P)/X4(102, E(X)/U())", NOBODY, LINUX),
            arrival(
                "unknown identifier, in a prefix",
                "E(P)/X4(102, E(X)/U(), dst='10.1.3.4')",
                &[("net", "E(P)/X4(102, E(X)/U(), dst='10.1.3.4')")],
                ALONE,
            ),
            arrival("tunnel in VLAN 10", "E(P)/V(10)/X4(100, E(X)/U())", NOBODY, LINUX),
            // A whole VLAN.
            arrival(
                "whole VLAN, own MAC of another",
                "E(I)/V(30)/U()",
                &[("vlan30", "E(I)/U()")],
                ALONE,
            ),
            arrival("whole VLAN, any MAC", "E(X)/V(30)/U6()", &[("vlan30", "E(X)/U6()")], ALONE),
            arrival(
                "whole VLAN, port's MAC",
                "E(P)/V(30)/U(port=5000)",
                &[("vlan30", "E(P)/U(port=5000)")],
                ALONE,
            ),
            arrival(
                "whole VLAN, two tags",
                "E(X)/V(30)/V(10)/U()",
                &[("vlan30", "E(X)/V(10)/U()")],
                ALONE,
            ),
            // Broadcast and multicast: all interfaces that share port and VLAN.
            arrival(
                "broadcast",
                "E(ALL)/U('255.255.255.255')",
                &[
                    ("mac", "E(ALL)/U('255.255.255.255')"),
                    ("net", "E(ALL)/U('255.255.255.255')"),
                    ("longer", "E(ALL)/U('255.255.255.255')"),
                    ("udp", "E(ALL)/U('255.255.255.255')"),
                    ("label", "E(ALL)/U('255.255.255.255')"),
                ],
                LINUX,
            ),
            arrival(
                "multicast in VLAN 10",
                "E('33:33:00:00:00:09')/V(10)/U6('ff02::9')",
                &[
                    ("office", "E('33:33:00:00:00:09')/U6('ff02::9')"),
                    ("udp10", "E('33:33:00:00:00:09')/U6('ff02::9')"),
                    ("label10", "E('33:33:00:00:00:09')/U6('ff02::9')"),
                    ("net10", "E('33:33:00:00:00:09')/U6('ff02::9')"),
                ],
                LINUX,
            ),
            arrival("broadcast in VLAN 30", "E(ALL)/V(30)/U()", &[("vlan30", "E(ALL)/U()")], LINUX),
            arrival("broadcast in VLAN 11", "E(ALL)/V(11)/U()", NOBODY, LINUX),
            // Answers of neighbours do not show which interface asked.
            arrival(
                "ARP to the port's MAC",
                "E(P)/N4/M",
                &[
                    ("net", "E(P)/N4/M"),
                    ("longer", "E(P)/N4/M"),
                    ("udp", "E(P)/N4/M"),
                    ("label", "E(P)/N4/M"),
                ],
                LINUX,
            ),
            arrival(
                "ARP to the port's MAC in VLAN 10",
                "E(P)/V(10)/N4/M",
                &[("udp10", "E(P)/N4/M"), ("label10", "E(P)/N4/M"), ("net10", "E(P)/N4/M")],
                LINUX,
            ),
            arrival(
                "neighbour advertisement to the port's MAC",
                "E(P)/IPv6(src='fd00:1::2', dst='fd00:1::77', hlim=255)/ICMPv6ND_NA(tgt='fd00:1::2')/M",
                &[
                    (
                        "net",
                        "E(P)/IPv6(src='fd00:1::2', dst='fd00:1::77', hlim=255)/ICMPv6ND_NA(tgt='fd00:1::2')/M",
                    ),
                    (
                        "longer",
                        "E(P)/IPv6(src='fd00:1::2', dst='fd00:1::77', hlim=255)/ICMPv6ND_NA(tgt='fd00:1::2')/M",
                    ),
                    (
                        "udp",
                        "E(P)/IPv6(src='fd00:1::2', dst='fd00:1::77', hlim=255)/ICMPv6ND_NA(tgt='fd00:1::2')/M",
                    ),
                    (
                        "label",
                        "E(P)/IPv6(src='fd00:1::2', dst='fd00:1::77', hlim=255)/ICMPv6ND_NA(tgt='fd00:1::2')/M",
                    ),
                ],
                LINUX,
            ),
            arrival("ARP to an own MAC", "E(I)/N4/M", &[("mac", "E(I)/N4/M")], ALONE),
        ],
    );
}

#[test]
fn n12_each_kind_adds_its_own_tag_and_lets_no_other_out() {
    skip_without!("tcpdump", "scapy");
    let line = up(KINDS, "auto");
    check_departures(
        &line,
        KINDS,
        &[
            departure("own MAC", "mac", "E(A, src=I)/U()", Ok("E(A, src=I)/U()")),
            departure("broadcast", "mac", "E(ALL, src=I)/U6()", Ok("E(ALL, src=I)/U6()")),
            departure("port's MAC", "mac", "E(A, src=P)/U()", SOURCE),
            departure("a tag of its own", "mac", "E(A, src=I)/V(10)/U()", TAG),
            departure("a priority tag of its own", "mac", "E(A, src=I)/V(0)/U()", TAG),
            departure("a service tag of its own", "mac", "E(A, src=I, type=0x88a8)/V(10)/U()", TAG),
            departure("VLAN", "office", "E(A, src=I)/U()", Ok("E(A, src=I)/V(10)/U()")),
            departure("VLAN, IPv6", "office", "E(A, src=I)/U6()", Ok("E(A, src=I)/V(10)/U6()")),
            // A switch whose native VLAN is 10 would put these into VLAN 9.
            departure("tag in a VLAN", "office", "E(A, src=I)/V(9)/U()", TAG),
            departure("priority tag in a VLAN", "office", "E(A, src=I)/V(0)/U()", TAG),
            departure("service tag in a VLAN", "office", "E(A, src=I, type=0x88a8)/V(9)/U()", TAG),
            departure("tag in a VLAN, UDP port", "udp10", "E(A, src=P)/V(9)/U()", TAG),
            departure("tag in a whole VLAN", "vlan30", "E(A, src=X)/V(9)/U()", TAG),
            departure(
                "allowed tag in a VLAN",
                "inner",
                "E(A, src=I)/V(9)/U()",
                Ok("E(A, src=I)/V(20)/V(9)/U()"),
            ),
            departure("no tag where one is allowed", "inner", "E(A, src=I)/U()", {
                Ok("E(A, src=I)/V(20)/U()")
            }),
            departure("foreign MAC before an allowed tag", "inner", "E(A, src=X)/V(9)/U()", SOURCE),
            departure(
                "allowed tags in a whole VLAN",
                "inner40",
                "E(A, src=X, type=0x88a8)/V(9)/V(8)/U()",
                Ok("E(A, src=X)/V(40, type=0x88a8)/V(9)/V(8)/U()"),
            ),
            departure("foreign MAC in a VLAN", "office", "E(A, src=X)/U()", SOURCE),
            departure("prefix", "net", "E(A, src=P)/U()", Ok("E(A, src=P)/U()")),
            departure("prefix, another's MAC", "net", "E(A, src=I)/U()", SOURCE),
            departure("prefix in a VLAN", "net10", "E(A, src=P)/U()", Ok("E(A, src=P)/V(10)/U()")),
            departure("UDP port", "udp", "E(A, src=P)/U6()", Ok("E(A, src=P)/U6()")),
            departure("UDP port, another's MAC", "udp", "E(A, src=X)/U()", SOURCE),
            departure(
                "UDP port in a VLAN",
                "udp10",
                "E(A, src=P)/U()",
                Ok("E(A, src=P)/V(10)/U()"),
            ),
            departure(
                "label",
                "label",
                "E(A, src=P)/MPLS(label=9)/U()",
                Ok("E(A, src=P)/MPLS(label=9)/U()"),
            ),
            departure("label, another's MAC", "label", "E(A, src=X)/MPLS(label=9)/U()", SOURCE),
            departure(
                "label in a VLAN",
                "label10",
                "E(A, src=P)/MPLS(label=9)/U()",
                Ok("E(A, src=P)/V(10)/MPLS(label=9)/U()"),
            ),
            departure(
                "tunnel",
                "tunnel4",
                "E(A, src=X)/U()",
                Ok("E(A, src=P)/X4(100, E(A, src=X)/U(), '10.0.1.1', '10.0.1.2', 0)"),
            ),
            departure(
                "tunnel, tag inside",
                "tunnel4",
                "E(ALL, src=I)/V(7)/U6()",
                Ok("E(A, src=P)/X4(100, E(ALL, src=I)/V(7)/U6(), '10.0.1.1', '10.0.1.2', 0)"),
            ),
            departure(
                "tunnel, IPv6 outside",
                "tunnel6",
                "E(A, src=X)/U()",
                Ok("E(A, src=P)/X6(101, E(A, src=X)/U(), 'fd00:1::1', 'fd00:1::2', 0)"),
            ),
            departure(
                "whole VLAN, any MAC",
                "vlan30",
                "E(A, src=X)/U()",
                Ok("E(A, src=X)/V(30)/U()"),
            ),
            departure(
                "whole VLAN, the port's MAC",
                "vlan30",
                "E(A, src=P)/U6()",
                Ok("E(A, src=P)/V(30)/U6()"),
            ),
        ],
    );
}

const WHOLE: &[Kind] = &[("whole", "match: {all: true}")];

#[test]
fn a_whole_port_sees_everything_as_it_is() {
    skip_without!("tcpdump", "scapy", "nft");
    check_arrivals(
        WHOLE,
        &[
            arrival("any MAC", "E(X)/U()", &[("whole", "E(X)/U()")], ALONE),
            arrival("port's MAC", "E(P)/U6()", &[("whole", "E(P)/U6()")], ALONE),
            arrival("tag", "E(X)/V(10)/U()", &[("whole", "E(X)/V(10)/U()")], ALONE),
            arrival("priority tag", "E(X)/V(0)/U()", &[("whole", "E(X)/V(0)/U()")], ALONE),
            arrival(
                "two tags",
                "E(X, type=0x88a8)/V(10)/V(11)/U()",
                &[("whole", "E(X, type=0x88a8)/V(10)/V(11)/U()")],
                ALONE,
            ),
            arrival(
                "label",
                "E(P)/MPLS(label=100)/U()",
                &[("whole", "E(P)/MPLS(label=100)/U()")],
                ALONE,
            ),
            arrival("broadcast", "E(ALL)/U()", &[("whole", "E(ALL)/U()")], LINUX),
            arrival(
                "tagged broadcast",
                "E(ALL)/V(10)/U()",
                &[("whole", "E(ALL)/V(10)/U()")],
                LINUX,
            ),
            arrival("ARP to the port's MAC", "E(P)/N4/M", NOBODY, LINUX),
            arrival("ARP to another MAC", "E(X)/N4/M", &[("whole", "E(X)/N4/M")], ALONE),
        ],
    );
    let line = up(WHOLE, "auto");
    check_departures(
        &line,
        WHOLE,
        &[
            departure("any MAC", "whole", "E(A, src=X)/U()", Ok("E(A, src=X)/U()")),
            departure("tag", "whole", "E(A, src=X)/V(10)/U()", Ok("E(A, src=X)/V(10)/U()")),
            departure(
                "service tag",
                "whole",
                "E(A, src=X, type=0x88a8)/V(10)/U()",
                Ok("E(A, src=X, type=0x88a8)/V(10)/U()"),
            ),
        ],
    );
}

const BOUND: &[Kind] = &[
    ("mac", "mac: '02:00:00:00:00:01', bind: [10.1.0.0/16, 'fd01::/64']"),
    ("office", "mac: '02:00:00:00:00:01', match: {vlan: 10}, bind: [10.2.0.0/16]"),
    ("net", "match: {prefix: [10.3.0.0/16]}, bind: [10.3.0.0/16, 'fd03::/64']"),
    ("vlan30", "match: {vlan: 30, all: true}, bind: [10.4.0.0/16, 'fd04::/64']"),
    ("inner", "mac: '02:00:00:00:00:01', match: {vlan: 20, inner_tags: true}, bind: [10.2.0.0/16]"),
];

#[test]
fn only_bound_addresses_leave() {
    skip_without!("tcpdump", "scapy");
    let line = up(BOUND, "auto");
    check_departures(
        &line,
        BOUND,
        &[
            departure(
                "IPv4",
                "mac",
                "E(A, src=I)/U(src='10.1.9.9')",
                Ok("E(A, src=I)/U(src='10.1.9.9')"),
            ),
            departure("foreign IPv4", "mac", "E(A, src=I)/U(src='10.2.9.9')", UNBOUND),
            departure(
                "IPv6",
                "mac",
                "E(A, src=I)/U6(src='fd01::9')",
                Ok("E(A, src=I)/U6(src='fd01::9')"),
            ),
            departure("foreign IPv6", "mac", "E(A, src=I)/U6(src='fd01:0:0:1::9')", UNBOUND),
            departure(
                "ARP",
                "mac",
                "E(A, src=I)/ARP(psrc='10.1.0.1', hwsrc=I)/M",
                Ok("E(A, src=I)/ARP(psrc='10.1.0.1', hwsrc=I)/M"),
            ),
            departure("foreign ARP", "mac", "E(A, src=I)/ARP(psrc='10.2.0.1', hwsrc=I)/M", UNBOUND),
            departure("other protocols", "mac", "E(A, src=I, type=0x88b5)/M", UNBOUND),
            departure(
                "VLAN",
                "office",
                "E(A, src=I)/U(src='10.2.0.1')",
                Ok("E(A, src=I)/V(10)/U(src='10.2.0.1')"),
            ),
            departure("foreign in VLAN", "office", "E(A, src=I)/U(src='10.1.0.1')", UNBOUND),
            departure(
                "IPv6 where only IPv4 is bound",
                "office",
                "E(A, src=I)/U6(src='fd01::9')",
                UNBOUND,
            ),
            departure(
                "hidden behind an allowed tag",
                "inner",
                "E(A, src=I)/V(5)/U(src='10.1.0.1')",
                UNBOUND,
            ),
            departure(
                "prefix",
                "net",
                "E(A, src=P)/U6(src='fd03::9')",
                Ok("E(A, src=P)/U6(src='fd03::9')"),
            ),
            departure("foreign in prefix", "net", "E(A, src=P)/U(src='10.1.0.1')", UNBOUND),
            departure(
                "whole VLAN",
                "vlan30",
                "E(A, src=X)/U(src='10.4.0.1')",
                Ok("E(A, src=X)/V(30)/U(src='10.4.0.1')"),
            ),
            departure("foreign in whole VLAN", "vlan30", "E(A, src=X)/U6(src='fd01::9')", UNBOUND),
        ],
    );
}
