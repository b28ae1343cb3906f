//! Another graph takes over from a router that translates addresses, while numbered streams pass it
//! both ways. No packet is lost or overtaken, and flows keep their translations.

mod line;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use europa_tests::{Namespace, Received, Sink, Stream, europa, skip_without};
use line::{IN, Line, OUT, ROUTER, ports};

/// Packets a second, each way.
const RATE: u32 = 20_000;
const SWAPS: usize = 12;

/// Translates addresses between two devices. The messages of `round` differ from one to the next.
fn nat(left: &str, right: &str, round: usize) -> String {
    let ways = "Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -)";
    let (capacity, more) = match round % 3 {
        0 => (2000, ""),
        1 => (1000, "-> more :: Counter "),
        _ => (3000, "-> CheckIPHeader -> Null "),
    };
    let side = |name: &str, device: &str, address: &str, mac: &str, input: usize| {
        format!(
            "FromDevice({device}) -> c{name} :: {ways};\n\
             a{name} :: ARPQuerier({address}, {mac}) -> o{name} :: Queue(1000) \
             -> ToDevice({device});\n\
             c{name}[0] -> ARPResponder({address} {mac}) -> o{name};\n\
             c{name}[1] -> [1] a{name}; c{name}[3] -> Discard;\n\
             c{name}[2] -> Strip(14) -> CheckIPHeader -> s{name} :: Counter -> [{input}] nat;\n"
        )
    };
    let rules = "pattern 10.0.2.1 20000-60000 - - 0 1, pattern - - 10.0.1.2 - 1 0";
    format!("nat :: IPRewriter({rules});\n")
        + &side("l", left, "10.0.1.1", IN, 0)
        + &side("r", right, "10.0.2.1", OUT, 1)
        + &format!(
            "nat[0] -> qr :: Queue({capacity}) -> Unqueue {more}-> GetIPAddress(16) -> ar;\n\
             nat[1] -> ql :: Queue({capacity}) -> Unqueue -> GetIPAddress(16) -> al;\n"
        )
}

/// Both streams.
struct Load(Vec<(Stream, Sink)>);

impl Load {
    fn begin(line: &Line) -> Load {
        // The hosts resolve their next hops before the first packet counts.
        let ways = [(&line.a, &line.b, "10.0.2.2"), (&line.b, &line.a, "10.0.2.1")];
        for (from, _, to) in ways {
            let first = from.stream(&format!("{to}:9"), 9, 100, 64).expect("a stream");
            std::thread::sleep(Duration::from_millis(200));
            first.stop();
        }
        let begin = |(number, (from, to, at)): (u64, (&Namespace, &Namespace, &str))| {
            let sink = to.sink("0.0.0.0:5000", number).expect("a sink");
            let stream = from.stream(&format!("{at}:5000"), number, RATE, 100).expect("a stream");
            (stream.paced_by(&sink), sink)
        };
        Load((1..).zip(ways).map(begin).collect())
    }

    /// Waits until this many more packets have arrived each way.
    fn pass(&self, packets: u64) {
        for (_, sink) in &self.0 {
            let (before, begun) = (sink.packets(), Instant::now());
            while sink.packets() < before + packets {
                assert!(begun.elapsed() < Duration::from_secs(20), "nothing is forwarded");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Checks that every packet arrived, in order. A failure prints the text of `counters`.
    fn end(self, begun: Instant, counters: impl Fn() -> String) {
        let seconds = begun.elapsed().as_secs_f64();
        for (stream, sink) in self.0 {
            let rate = sink.packets() as f64 / seconds;
            let sent = stream.stop();
            let received: Received = sink.stop(sent);
            eprintln!("{rate:.0} packets/s, of {sent}: {received:?}");
            // A stream is paced by its sink, which a busy machine slows down.
            assert!(rate > f64::from(RATE) * 0.25, "too slow to show anything: {rate}");
            assert!(received.is_perfect(), "of {sent}: {received:?}; {}", counters());
        }
    }
}

/// The drops of the hosts' own ends of the veth pairs.
fn dropped(line: &Line) -> String {
    let of = |host: &Namespace| {
        ["tx_dropped", "rx_dropped"]
            .map(|counter| host.counter("eth0", counter).unwrap_or_default())
    };
    format!("sent and received by the hosts, dropped: {:?} {:?}", of(&line.a), of(&line.b))
}

/// The mappings: the table without times.
fn flows(table: &str) -> Vec<String> {
    let flow = |line: &str| line.split(" i").next().unwrap_or_default().trim().to_owned();
    let mut flows: Vec<String> = table
        .lines()
        .filter(|line| line.contains(":5000") || line.contains(", 5000"))
        .map(flow)
        .collect();
    flows.sort();
    flows
}

#[test]
fn a_router_is_swapped_at_20000_packets_a_second_each_way() {
    skip_without!("iperf3");
    let line = Line::new();
    let yaml = |round: usize| {
        let text = nat("in", "out", round).replace('\n', "\n    ");
        let fast_path = format!("fast_path:\n  click: |\n    {text}\n");
        ports() + &ROUTER.replace("fast_path: {builtin: ipv4}\n", &fast_path)
    };
    line.node.up(&yaml(0));
    let _server = line.b.iperf_server().expect("a server");
    let load = Load::begin(&line);
    load.pass(100);
    let read = |handler: &str| line.node.run(&["read", "red/r1", handler]);
    let before = flows(&read("nat.udp_table"));
    assert!(!before.is_empty(), "{}", read("nat.udp_table"));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let tcp = scope.spawn(|| line.a.iperf("10.0.2.2", 4, &["-b", "2M"]));
        let mut last = 0;
        for round in 1..=SWAPS {
            let told = line.node.run(&["apply", &line.node.file("edited.yaml", &yaml(round))]);
            assert!(told.contains("~ router red/r1 (hot swap)"), "{told}");
            load.pass(u64::from(RATE) / 10);
            let count: u64 = read("sl.count").trim().parse().expect("a count");
            assert!(count > last, "what the elements know goes along: {last} {count}");
            last = count;
        }
        let tcp = tcp.join().expect("a thread").expect("a TCP connection goes on");
        assert!(tcp.bytes > 500_000, "{tcp:?}");
    });
    assert_eq!(flows(&read("nat.udp_table")), before, "the flows are those of before");
    load.end(begun, || format!("{} {:?}", dropped(&line), line.node.counters()));
}

#[test]
fn what_is_odd_is_told() {
    skip_without!();
    let line = Line::new();
    // Makes a file with a configuration of this burst.
    let yaml = |burst: &str| {
        let text = format!(
            "FromDevice(in) -> Queue -> u :: Unqueue({burst}) -> Discard; Idle -> ToDevice(out)"
        );
        let fast_path =
            format!("fast_path:\n  click: |\n    FromDevice(out) -> Discard;\n    {text}\n");
        line.node.file(
            "odd.yaml",
            &(ports() + &ROUTER.replace("fast_path: {builtin: ipv4}\n", &fast_path)),
        )
    };
    line.node.run(&["up", &yaml("1")]);
    let told = line.node.run(&["apply", &yaml("0")]);
    let warning = "u :: Unqueue: BURST size 0, no packets will be pulled";
    assert!(told.contains("warning: ") && told.contains(warning), "{told}");
    assert!(told.contains("odd.yaml:"), "{told}");
    let log = line.node.run(&["logs", "red/r1"]);
    assert!(log.contains("BURST size 0"), "{log}");
}

/// Writes a configuration to `hotconfig`, and checks that the router accepts it.
fn replace(socket: &Path, text: &str) {
    let stream = UnixStream::connect(socket).expect("a connection");
    let mut client = BufReader::new(stream);
    let mut line = String::new();
    client.read_line(&mut line).expect("a greeting");
    let order = format!("WRITEDATA hotconfig {}\n{text}", text.len());
    client.get_mut().write_all(order.as_bytes()).expect("sent");
    line.clear();
    client.read_line(&mut line).expect("an answer");
    assert!(line.starts_with("200"), "{line}");
    client.get_mut().write_all(b"QUIT\n").expect("sent");
    let _ = client.read_to_string(&mut line);
}

#[test]
fn a_hot_configuration_takes_over_at_20000_packets_a_second_each_way() {
    skip_without!();
    let line = Line::new();
    // Packet sockets show packets without the checksums that a card would complete.
    for host in [&line.a, &line.b] {
        host.offloads("eth0", &[("tx", false)]).expect("offloads");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("control");
    let (program, path) = (europa().display().to_string(), socket.display().to_string());
    let text = |round| nat("eu-left", "eu-right", round);
    let first = text(0);
    let argv = [&program, "click", "-R", "-u", &path, "-e", &first];
    let _router = line.middle.start(&argv).expect("it starts");
    let begun = Instant::now();
    while !socket.exists() {
        assert!(begun.elapsed() < Duration::from_secs(20), "no control socket");
        std::thread::sleep(Duration::from_millis(5));
    }
    let load = Load::begin(&line);
    load.pass(100);
    let begun = Instant::now();
    for round in 1..=SWAPS {
        replace(&socket, &text(round));
        load.pass(u64::from(RATE) / 10);
    }
    load.end(begun, || dropped(&line));
}
