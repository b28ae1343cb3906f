//! `europa capture`, `trace` and `graph` on real traffic.

mod line;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use europa_tests::{Counters, Node, Process, skip_without, tshark};
use line::{Line, ROUTER, ports};
use nix::sys::signal::Signal;

/// The text of `tshark` for each packet of a capture.
const FIELDS: [&str; 5] = [
    "frame.interface_name",
    "frame.packet_flags_direction",
    "frame.comment",
    "frame.len",
    "frame.cap_len",
];

/// A running `europa capture` that writes a file.
struct Capturing {
    process: Process,
    file: PathBuf,
}

impl Capturing {
    fn start(line: &Line, target: &str, options: &[&str]) -> Capturing {
        let file = line.node.file(&format!("{}.pcapng", target.replace('/', "-")), "");
        let arguments = [&["capture", target, "-w", &file], options].concat();
        let mut process = line.node.start(&arguments);
        process.wait_for("end with Ctrl-C", Duration::from_secs(5)).expect("a capture");
        Capturing { process, file: file.into() }
    }

    /// Ends the capture as Ctrl-C does. Returns its file, and the text at its end.
    fn stop(self) -> (PathBuf, String) {
        // Answers may still be on their way.
        sleep(Duration::from_millis(200));
        self.process.signal(Signal::SIGINT);
        let output = self.process.wait(Duration::from_secs(10)).expect("it ends");
        assert!(output.status.success(), "{}", output.stderr);
        let last = output.stderr.lines().last().unwrap_or_default().to_owned();
        (self.file, last)
    }
}

/// Packets by interface and direction (1 in, 2 out) that were not dropped.
fn passed(file: &Path) -> Counts {
    let mut counts = BTreeMap::new();
    for packet in tshark(file, "frame", &FIELDS).expect("a capture file") {
        let [interface, direction, comment, ..] = packet.as_slice() else { panic!("{packet:?}") };
        let router = interface.split('.').next().expect("a name");
        let start = format!("slice {}, router {router}: ", router.split('/').next().expect("it"));
        assert!(comment.starts_with(&start), "{packet:?}");
        if !comment.contains("dropped") {
            *counts.entry((interface.clone(), direction.clone())).or_default() += 1;
        }
    }
    counts
}

/// Packets by interface and direction.
type Counts = BTreeMap<(String, String), u64>;

/// The node's counts since `before`, in the same form.
fn counted(before: &BTreeMap<String, Counters>, after: &BTreeMap<String, Counters>) -> Counts {
    let mut counts = BTreeMap::new();
    for (name, now) in after {
        let then = before.get(name).cloned().unwrap_or_default();
        for (direction, count) in
            [("0x00000001", now.rx - then.rx), ("0x00000002", now.tx - then.tx)]
        {
            if count > 0 {
                counts.insert((name.clone(), direction.to_owned()), count);
            }
        }
    }
    counts
}

/// Whether the captured packets match the counters. They are at least those counted from the
/// beginning to the end of the capture. They are at most those counted a little longer, because
/// hosts may send packets of their own meanwhile.
fn same(found: &Counts, inside: &Counts, around: &Counts) -> bool {
    let of = |counts: &Counts, key| counts.get(key).copied().unwrap_or(0);
    found
        .keys()
        .chain(around.keys())
        .all(|key| (of(inside, key)..=of(around, key)).contains(&of(found, key)))
}

#[test]
fn a_capture_has_every_packet_of_both_directions() {
    skip_without!("ping", "iperf3", "tshark");
    let line = Line::new();
    line.up_ipv4();
    let before = line.node.counters();
    let capturing = Capturing::start(&line, "red/r1", &[]);
    let begun = line.node.counters();
    for to in ["10.0.2.2", "fd00:2::2"] {
        assert!(line.a.ping(to, 20, &["-s", "1000"]).expect("a ping").is_perfect());
    }
    let _server = line.b.iperf_server().expect("a server");
    line.a.iperf("10.0.2.2", 1, &["-b", "100M"]).expect("a result");
    line.a.iperf("10.0.2.2", 1, &["-u", "-b", "8M", "-l", "100"]).expect("a result");
    sleep(Duration::from_millis(200));
    let ending = line.node.counters();
    let (file, said) = capturing.stop();
    let (found, after) = (passed(&file), line.node.counters());
    let (inside, around) = (counted(&begun, &ending), counted(&before, &after));
    assert!(same(&found, &inside, &around), "{said}: {found:?}, not {inside:?} to {around:?}");
    let all: u64 = found.values().sum();
    assert!(all > 10_000, "{found:?}");
    // The other packets found no room, as the process may stand still on a shared machine.
    let whole = tshark(&file, "frame", &["frame.number"]).expect("a capture file").len();
    assert_eq!(said, format!("{whole} packets captured, 0 lost"));
    // The capture shows packets as the router sees them: an answer follows its request, checksums
    // are complete.
    let echo = tshark(&file, "icmp", &["frame.interface_name", "icmp.type", "icmp.seq"]);
    let echo = echo.expect("fields");
    let steps = [("in", "8"), ("out", "8"), ("out", "0"), ("in", "0")];
    // An answer that is late comes after the next question.
    for seq in 1..=20 {
        let seq = seq.to_string();
        let group: Vec<_> = echo.iter().filter(|packet| packet[2] == seq).collect();
        assert_eq!(group.len(), steps.len(), "{group:?}");
        for (packet, (interface, kind)) in group.into_iter().zip(steps) {
            assert_eq!(packet, &[&format!("red/r1.{interface}"), kind, &seq]);
        }
    }
    // A packet without room is dropped before its checksum is completed.
    let bad = "(tcp.checksum.status == 0 || udp.checksum.status == 0) \
               && !(frame.comment contains \"dropped\")";
    let checked = europa_tests::run(&[
        "tshark",
        "-n",
        "-r",
        &file.to_string_lossy(),
        "-o",
        "tcp.check_checksum:TRUE",
        "-o",
        "udp.check_checksum:TRUE",
        "-Y",
        bad,
    ]);
    assert_eq!(checked.expect("tshark").stdout, "");
    // Without a file, the command prints a line for each packet; filters are pcap filters.
    let mut process =
        line.node.start(&["capture", "red/r1.out", "-f", "icmp[icmptype] == 0", "-c", "2"]);
    process.wait_for("end with Ctrl-C", Duration::from_secs(5)).expect("a capture");
    line.a.ping("10.0.2.2", 3, &[]).expect("a ping");
    let output = process.wait(Duration::from_secs(5)).expect("it ends by itself");
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{output:?}");
    assert!(
        lines[0].contains(" red/r1.out in  ") && lines[0].contains("ICMP echo reply"),
        "{lines:?}"
    );
    for (arguments, code, why) in [
        (
            &["capture", "nobody"][..],
            5,
            "there is no interface, router, port, link or slice `nobody`",
        ),
        (
            &["capture", "red/r1", "-f", "icmp and and"],
            1,
            "the filter `icmp and and` cannot be read",
        ),
    ] {
        let output = line.node.attempt(arguments);
        assert_eq!(output.status.code(), Some(code));
        assert!(output.stderr.contains(why), "{}", output.stderr);
    }
}

#[test]
fn links_large_frames_and_drops_are_captured() {
    skip_without!("ping", "tshark", "iperf3", "python3");
    let line = Line::with_mtus(9000, 9000);
    let routers = r#"kind: router
name: r1
slice: red
interfaces:
  in: {port: left, mac: "02:00:00:00:00:01", addresses: [10.0.1.1/24]}
  mid: {link: middle, mtu: 9000, addresses: [10.0.3.1/24]}
fast_path: {builtin: ipv4, routes: [{to: 10.0.2.0/24, via: 10.0.3.2}]}
---
kind: router
name: r2
slice: red
interfaces:
  mid: {link: middle, mtu: 9000, addresses: [10.0.3.2/24]}
  out: {port: right, mac: "02:00:00:00:00:02", addresses: [10.0.2.1/24]}
fast_path: {builtin: ipv4, routes: [{to: 10.0.1.0/24, via: 10.0.3.1}]}
"#;
    line.node.up(&(ports() + routers));
    let before = line.node.counters();
    let whole = Capturing::start(&line, "red", &[]);
    let cut = Capturing::start(&line, "middle", &["-s", "64"]);
    let begun = line.node.counters();
    for bytes in ["56", "3000", "8972"] {
        let ping = line.a.ping("10.0.2.2", 5, &["-s", bytes, "-M", "do"]).expect("a ping");
        assert!(ping.is_perfect(), "{ping:?}");
    }
    sleep(Duration::from_millis(200));
    let ending = line.node.counters();
    let (file, said) = whole.stop();
    let (short, _) = cut.stop();
    let (found, after) = (passed(&file), line.node.counters());
    let (inside, around) = (counted(&begun, &ending), counted(&before, &after));
    assert!(same(&found, &inside, &around), "{said}: {found:?}, not {inside:?} to {around:?}");
    let jumbo = tshark(&file, "icmp && frame.len == 9014 && frame.cap_len == 9014", &FIELDS);
    assert_eq!(jumbo.expect("fields").len(), 5 * 8, "both ways by four interfaces");
    let on_link: BTreeMap<_, _> =
        found.into_iter().filter(|((name, _), _)| name.ends_with(".mid")).collect();
    assert_eq!(passed(&short), on_link);
    let longer = tshark(&short, "frame.cap_len > 64", &FIELDS).expect("fields");
    assert!(longer.is_empty(), "{longer:?}");
}

#[test]
fn a_killed_capture_leaves_nothing_and_a_flood_is_bounded() {
    skip_without!("ping", "iperf3", "tshark");
    let line = Line::new();
    let other = r#"---
kind: slice
name: blue
---
kind: router
name: r1
slice: blue
interfaces:
  in: {port: left, mac: "02:00:00:00:00:03", addresses: [10.0.1.3/24]}
  out: {port: right, mac: "02:00:00:00:00:04", addresses: [10.0.2.3/24]}
fast_path: {builtin: ipv4}
"#;
    line.node.up(&(ports() + line::ROUTER + other));
    // There are eight taps: the ninth begins only if the killed captures have released theirs.
    for _ in 0..9 {
        let capturing = Capturing::start(&line, "left", &[]);
        capturing.process.signal(Signal::SIGKILL);
        let _ = capturing.process.wait(Duration::from_secs(5)).expect("killed");
        sleep(Duration::from_millis(50));
    }
    // Blue's stream uses blue's router, and the same ports as red's flood.
    line.b.ip(&["address", "add", "10.0.2.9/32", "dev", "eth0"]).expect("an address");
    line.a.route("10.0.2.9/32", "10.0.1.3").expect("a route");
    // Hosts know their neighbours before the flood.
    for to in ["10.0.2.9", "10.0.2.2"] {
        assert!(line.a.ping(to, 2, &[]).expect("a ping").is_perfect());
    }
    let _server = line.b.iperf_server().expect("a server");
    let sink = line.b.sink("10.0.2.9:5000", 1).expect("a sink");
    let before = line.node.counters();
    let capturing = Capturing::start(&line, "red/r1", &["--rate", "1000"]);
    let begun = line.node.counters();
    let stream = line.a.stream_of("10.0.2.9:5000", 1, 500, &[64, 1000]).expect("a stream");
    line.a.iperf("10.0.2.2", 3, &["-u", "-b", "60M", "-l", "400"]).expect("a result");
    let sent = stream.stop();
    let received = sink.stop(sent);
    let ending = line.node.counters();
    let (file, said) = capturing.stop();
    let after = line.node.counters();
    assert!(received.is_perfect(), "of {sent}: {received:?} {after:?}");
    let numbers: Vec<u64> = said
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .collect();
    let [captured, lost, rate] = numbers[..] else { panic!("{said}") };
    assert!(said.ends_with("over the rate") && lost == rate, "{said}");
    // 1000 packets a second, and a burst at the beginning.
    assert!((2_000..20_000).contains(&captured), "{said}");
    // Packets of the flood that were lost because red's ring was full have passed the tap too.
    let red = |counters: &BTreeMap<String, Counters>| -> u64 {
        let red = counters.iter().filter(|(name, _)| name.starts_with("red/"));
        red.map(|(_, count)| count.rx + count.tx + count.drops.values().sum::<u64>()).sum()
    };
    let (inside, around) = (red(&ending) - red(&begun), red(&after) - red(&before));
    assert!((inside..=around).contains(&(captured + lost)), "{said}, not {inside} to {around}");
    let in_file = tshark(&file, "frame", &FIELDS).expect("a capture file").len();
    assert_eq!(in_file as u64, captured);
}

/// Runs `europa trace` while `send` sends; returns the output.
fn traced(line: &Line, arguments: &[&str], send: impl FnOnce()) -> String {
    let mut process = line.node.start(&[&["trace", "red/r1"], arguments].concat());
    process.wait_for("end with Ctrl-C", Duration::from_secs(5)).expect("a trace");
    send();
    let output = process.wait(Duration::from_secs(20)).expect("it ends by itself");
    assert!(output.status.success(), "{}", output.stderr);
    output.stdout
}

/// Whether the texts come in this order, possibly with others between them.
fn in_order(text: &str, wanted: &[&str]) -> bool {
    let mut lines = text.lines();
    wanted.iter().all(|word| lines.any(|line| line.contains(word)))
}

#[test]
fn single_packets_are_followed() {
    skip_without!("ping", "python3");
    let line = Line::new();
    line.up_ipv4();
    line.a.ping("10.0.2.2", 1, &[]).expect("a ping");
    let ping = |to: &str, options: &[&str]| {
        line.a.ping(to, 3, options).expect("a ping");
    };
    let echo = "icmp[icmptype] == 8";
    let forwarded = traced(&line, &[echo], || ping("10.0.2.2", &[]));
    let wanted = [
        "#1 ",
        "10.0.1.2 > 10.0.2.2: ICMP echo request",
        "class0 :: Classifier",
        "14 bytes taken off",
        "CheckIPHeader",
        "route :: ",
        "route to 10.0.2.2: output 1",
        "DecIPTTL",
        "TTL: 64 to 63",
        "arp1 :: ARPQuerier",
        "neighbour 10.0.2.2 1 02-00-00-00-00-0B",
        "14 bytes put before it",
        "out1 :: ToDevice",
        "sent by red/r1.out",
        "left by port right, by its socket",
    ];
    assert!(in_order(&forwarded, &wanted), "{forwarded}");
    assert!(!forwarded.contains("#2") && !forwarded.contains("DROPPED"), "{forwarded}");
    let expired = traced(&line, &[echo], || ping("10.0.2.2", &["-t", "1"]));
    let wanted = [
        "received by red/r1.in",
        "ttl1 :: DecIPTTL [1]",
        "ICMPError",
        "sent by red/r1.in",
        "10.0.1.1 > 10.0.1.2: ICMP time exceeded",
        "left by port left",
    ];
    assert!(in_order(&expired, &wanted), "{expired}");
    // A drop of an element has a cause.
    let dropped = traced(&line, &["udp dst port 777"], || {
        line.a
            .scapy(
                "sendp(Ether(dst='02:00:00:00:00:01') / IP(dst='10.0.2.2', chksum=0x1234) \
                 / UDP(dport=777), iface='eth0')",
            )
            .expect("scapy");
    });
    assert!(in_order(&dropped, &["Strip", "DROPPED", "bad IP checksum"]), "{dropped}");
    let by = dropped.lines().find(|line| line.contains("DROPPED")).expect("the line");
    assert!(by.contains("CheckIPHeader"), "{by}");
    let json = traced(&line, &["--json", "-c", "2", echo], || ping("10.0.2.2", &[]));
    let steps: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let received = steps.iter().filter(|step| step["what"]["received"].is_object());
    assert_eq!(received.count(), 2, "{json}");
    // No capture runs any more: the router forwards at the former rate.
    assert_eq!(line.node.run(&["read", "red/r1", "trace"]).trim(), EMPTY);
    let output = line.node.attempt(&["trace", "red/none"]);
    let named = "there is no router red/none; there are: red/r1";
    assert!(output.stderr.contains(named), "{}", output.stderr);
}

/// The value of the handler `trace` when no packet is followed.
const EMPTY: &str = r#"{"left":0,"under_way":0,"lost":0,"events":[]}"#;

#[test]
fn a_router_inside_the_switch_is_seen_as_well() {
    skip_without!("ping", "tshark");
    let line = Line::new();
    line.node.up(&(ports() + &ROUTER.replace("fast_path:", "run: inline\nfast_path:")));
    assert!(line.node.stats()["routers"][0]["pid"].is_null(), "it has no process");
    line.a.ping("10.0.2.2", 1, &[]).expect("a ping");
    let before = line.node.counters();
    let capturing = Capturing::start(&line, "red/r1", &[]);
    let begun = line.node.counters();
    for to in ["10.0.2.2", "fd00:2::2"] {
        assert!(line.a.ping(to, 20, &["-s", "1000"]).expect("a ping").is_perfect());
    }
    let sink = line.b.sink("10.0.2.2:5000", 1).expect("a sink");
    let stream = line.a.stream("10.0.2.2:5000", 1, 2000, 200).expect("a stream").paced_by(&sink);
    sleep(Duration::from_secs(1));
    let received = sink.stop(stream.stop());
    assert!(received.is_perfect(), "{received:?}");
    let ending = line.node.counters();
    let (file, said) = capturing.stop();
    let (found, after) = (passed(&file), line.node.counters());
    let (inside, around) = (counted(&begun, &ending), counted(&before, &after));
    assert!(same(&found, &inside, &around), "{said}: {found:?}, not {inside:?} to {around:?}");
    assert!(found.values().sum::<u64>() > 2 * received.packets, "{found:?}");
    let forwarded = traced(&line, &["icmp[icmptype] == 8"], || {
        line.a.ping("10.0.2.2", 3, &[]).expect("a ping");
    });
    let wanted = ["received by red/r1.in", "route :: ", "DecIPTTL", "sent by red/r1.out"];
    assert!(in_order(&forwarded, &wanted), "{forwarded}");
}

#[test]
fn drawings_name_everything() {
    skip_without!("ping", "python3");
    let line = Line::new();
    line.up_ipv4();
    line.a.ping("10.0.2.2", 5, &[]).expect("a ping");
    let topology = line.node.file("topology.svg", "");
    line.node.run(&["graph", "-o", &topology]);
    let elements = line.node.run(&["graph", "red/r1"]);
    let elements_file = line.node.file("r1.svg", &elements);
    for (file, wanted) in [
        (&topology, &["red/r1", "left", "right", "in", "out", "10.0.1.1/24", "fd00:2::1/64"][..]),
        (&elements_file, &["route :: ", "class0 :: Classifier", "ttl1 :: DecIPTTL", " packets"]),
    ] {
        let svg = std::fs::read_to_string(file).expect("a drawing");
        // The picture is well-formed XML, and has no two boxes in one place.
        let check = format!(
            "import xml.etree.ElementTree as xml\n\
             root = xml.parse({file:?}).getroot()\n\
             space = '{{http://www.w3.org/2000/svg}}'\n\
             assert root.tag == space + 'svg', root.tag\n\
             boxes = [[float(box.get(k)) for k in ('x', 'y', 'width', 'height')]\n\
                      for box in root.iter(space + 'rect') if box.get('x')]\n\
             assert len(boxes) > 3\n\
             for i, a in enumerate(boxes):\n    \
                 for b in boxes[i + 1:]:\n        \
                     assert a[0] + a[2] <= b[0] or b[0] + b[2] <= a[0] \\\n            \
                         or a[1] + a[3] <= b[1] or b[1] + b[3] <= a[1], (a, b)\n"
        );
        europa_tests::run(&["python3", "-c", &check]).expect("well-formed");
        for word in wanted {
            assert!(svg.contains(word), "{word}: {svg}");
        }
    }
    let dot = line.node.run(&["graph", "--dot"]);
    assert!(dot.starts_with("digraph \"Topology\"") && dot.contains("red/r1"), "{dot}");
    let json: serde_json::Value =
        serde_json::from_str(&line.node.run(&["graph", "red/r1", "--json"])).expect("JSON");
    let names = json["elements"].as_array().expect("elements").iter();
    assert!(names.filter(|element| element["packets"].as_u64() > Some(4)).count() > 5, "{json}");
    let output = line.node.attempt(&["graph", "red/none"]);
    assert_eq!(output.status.code(), Some(5));
    assert!(output.stderr.contains("there is no router red/none"), "{}", output.stderr);
}

#[test]
fn a_capture_is_read_from_a_pipe_and_shows_what_links_lose() {
    skip_without!("ping", "tshark");
    let node = Node::new(None);
    let host = |name: &str, net: u32| {
        format!(
            "---\nkind: host\nname: {name}\ngateway: 10.0.{net}.1\n\
             interfaces: {{eth0: {{link: {name}, addresses: [10.0.{net}.2/24]}}}}\n"
        )
    };
    node.up(&format!(
        "kind: slice\nname: red\n---\nkind: link\nname: a\na: a\na_to_b: {{loss: 30%}}\n---\n\
         kind: link\nname: b\na: b\nb_to_a: {{loss: 20%}}\n---\n\
         kind: router\nname: r1\nslice: red\nfast_path: {{builtin: ipv4}}\ninterfaces:\n\
         \x20 a: {{link: a, addresses: [10.0.1.1/24]}}\n\
         \x20 b: {{link: b, addresses: [10.0.2.1/24]}}\n{}{}",
        host("a", 1),
        host("b", 2)
    ));
    let (a, b) = (node.host("a"), node.host("b"));
    let _ = a.ping("10.0.2.2", 5, &[]).expect("a ping");
    // The command is as a user types it: the program behind the pipe reads while packets come.
    let program = europa_tests::europa();
    let command = format!(
        "{} --instance {} capture red/r1 -w - | tshark -n -l -r - -T fields -E separator=\\| \
         -e frame.interface_name -e frame.packet_flags_direction -e frame.comment -Y udp",
        program.display(),
        node.instance()
    );
    let mut process = Process::start(&["sh", "-c", &command]).expect("a pipe");
    process.wait_for("end with Ctrl-C", Duration::from_secs(10)).expect("a capture");
    let lost = |from: &str| -> u64 {
        let stats = node.stats();
        let links = stats["links"].as_array().cloned().unwrap_or_default();
        let link = links.into_iter().find(|link| link["from"] == from).expect("a direction");
        link["drops"][0][1].as_u64().unwrap_or(0)
    };
    let before = (lost("a.eth0"), lost("red/r1.b"));
    let sink = b.sink("10.0.2.2:7000", 1).expect("a sink");
    let stream = a.stream("10.0.2.2:7000", 1, 1000, 64).expect("a stream");
    sleep(Duration::from_secs(2));
    let sent = stream.stop();
    sleep(Duration::from_millis(300));
    let received = sink.stop(sent);
    let after = (lost("a.eth0"), lost("red/r1.b"));
    // The capture ends with its node; the reader of the pipe has all packets by then.
    node.run(&["down"]);
    let output = process.wait(Duration::from_secs(10)).expect("it ends");
    let count = |interface: &str, direction: &str, what: &str| {
        let is = |line: &&str| {
            line.starts_with(&format!("red/r1.{interface}|{direction}|")) && line.contains(what)
        };
        output.stdout.lines().filter(is).count() as u64
    };
    let said = "dropped: lost on the link";
    let (on_a, on_b) = (count("a", "0x00000001", said), count("b", "0x00000002", said));
    eprintln!("{sent} sent, {on_a} and {on_b} shown as lost, {received:?}");
    assert!(on_a > 300 && on_b > 100, "{}", output.stderr);
    // Hosts send little else meanwhile: neighbour discovery.
    assert!((after.0 - before.0).abs_diff(on_a) <= 20, "{before:?} {after:?}");
    assert!((after.1 - before.1).abs_diff(on_b) <= 20, "{before:?} {after:?}");
    assert_eq!(received.packets + on_a + on_b, sent, "each packet came or is shown as lost");
}
