//! Packets received by a port for a slice with a reserved rate: policed by the receive program,
//! with real traffic, while a neighbour on the same port loses nothing.

use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{Lab, Namespace, Node};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

const CAUSE: &str = "over the reserved rate in";
/// Bytes that a bucket holds at the rates of these tests, a little more for the clock.
const BURST: f64 = 80_000.0;

/// Two slices on one port, each with a receiving router, and their senders.
struct Net {
    // The node ends before the laboratory does.
    node: Node,
    near: Namespace,
    far: Namespace,
    _lab: Lab,
}

fn text(near: &Namespace, red: &str) -> String {
    let mut text = format!("kind: port\nname: p\ndevice: eth0\nnamespace: {}\n", near.name());
    for (index, (slice, part)) in [("red", red), ("blue", "")].into_iter().enumerate() {
        let reservation = match part {
            "" => String::new(),
            part => format!("reservation: {{ports: {{p: {{{part}}}}}}}\n"),
        };
        text += &format!(
            "---\nkind: slice\nname: {slice}\n{reservation}---\n\
             kind: router\nname: r\nslice: {slice}\n\
             interfaces:\n  in: {{port: p, mac: \"02:00:00:00:01:0{index}\"}}\n\
             fast_path: {{click: \"FromDevice(in) -> Discard; Idle -> ToDevice(in)\"}}\n"
        );
    }
    text
}

impl Net {
    fn new(red: &str) -> Net {
        let mut lab = Lab::new().expect("a laboratory");
        let near = lab.namespace("near").expect("a namespace");
        let far = lab.namespace("far").expect("a namespace");
        // The namespaces send no packets except the test's.
        for namespace in [&near, &far] {
            namespace.sysctl("net.ipv6.conf.all.disable_ipv6", "1").expect("a parameter");
            namespace.sysctl("net.ipv6.conf.default.disable_ipv6", "1").expect("a parameter");
        }
        lab.veth((&near, "eth0"), (&far, "eth0")).expect("a pair");
        far.address("eth0", "10.0.0.1/24").expect("an address");
        for index in 0..2 {
            let (address, mac) =
                (format!("10.0.0.{}", index + 2), format!("02:00:00:00:01:0{index}"));
            far.neighbour(&address, &mac, "eth0").expect("a neighbour");
        }
        let node = Node::new(None);
        node.up(&text(&near, red));
        Net { node, near, far, _lab: lab }
    }

    fn apply(&self, red: &str) -> String {
        let text = text(&self.near, red);
        self.node.run(&["apply", &self.node.file("changed.yaml", &text)])
    }

    fn router(&self, slice: &str) -> Value {
        let stats = self.node.stats();
        let name = format!("{slice}/r");
        let routers = stats["routers"].as_array().cloned().unwrap_or_default();
        routers.into_iter().find(|router| router["name"] == name).expect("the router")
    }

    /// Bytes that red received, and frames that the program dropped.
    fn red(&self) -> (f64, u64) {
        let interface = &self.router("red")["interfaces"][0];
        let bytes = interface["rx_bytes"].as_u64().expect("a number");
        let drops = interface["drops"].as_array().cloned().unwrap_or_default();
        let over = drops.iter().filter(|drop| drop[0] == CAUSE);
        (bytes as f64, over.map(|drop| drop[1].as_u64().unwrap_or_default()).sum())
    }

    /// Looks for a second in which red receives its rate, in bits a second, to within 2 %. Red
    /// never receives more. In seconds in which the machine or the sender stands still, it receives
    /// less.
    fn is_cut_to(&self, bits: f64) {
        let (wanted, mut nearest) = (bits / 8.0, f64::MAX);
        for _ in 0..30 {
            let start = Instant::now();
            let (before, _) = self.red();
            let least = start.elapsed();
            sleep(Duration::from_secs(1));
            let between = start.elapsed() - least;
            let (after, _) = self.red();
            let most = start.elapsed().as_secs_f64() * wanted + BURST;
            let given = after - before;
            assert!(given <= most, "more than the rate: {given} bytes of {most}");
            // A reading takes time, so the counts belong to the interval between the middles of two
            // readings.
            let middle = (between + start.elapsed()).as_secs_f64() / 2.0;
            let off = (given / (middle * wanted) - 1.0).abs();
            eprintln!("{:.2} % off its {:.0} Mb/s", off * 100.0, bits / 1e6);
            nearest = nearest.min(off);
            if nearest <= 0.02 {
                return;
            }
        }
        panic!("{:.2} % off in the best of 30 seconds", nearest * 100.0);
    }

    fn pids(&self) -> [Value; 2] {
        ["red", "blue"].map(|slice| self.router(slice)["pid"].clone())
    }
}

#[test]
fn a_flood_is_cut_to_its_rate_and_the_neighbour_loses_nothing() {
    let net = Net::new("rate_in: 40Mb/s");
    let flood = net.far.stream("10.0.0.2:9", 1, 20_000, 1000).expect("a flood");
    let voice = net.far.stream("10.0.0.3:9", 2, 2000, 200).expect("a stream");
    net.is_cut_to(40e6);
    let pids = net.pids();

    // The change is in place: the neighbour loses nothing meanwhile, and the new rate holds at
    // once.
    let told = net.apply("rate_in: 80Mb/s");
    assert!(told.contains("in place"), "{told}");
    net.is_cut_to(80e6);
    net.apply("rate_in: 20Mb/s");
    net.is_cut_to(20e6);
    assert!(net.node.run(&["stats"]).contains(CAUSE));

    // The node is killed, and its successor starts: the rate holds before, meanwhile and after.
    net.node.kill("node");
    net.node.up(&text(&net.near, "rate_in: 20Mb/s"));
    assert_eq!(net.pids(), pids, "nothing was restarted");
    net.is_cut_to(20e6);
    net.apply("rate_in: 40Mb/s");
    net.is_cut_to(40e6);

    // Without a reservation all packets arrive.
    net.apply("");
    sleep(Duration::from_millis(100));
    let (_, over) = net.red();
    sleep(Duration::from_millis(500));
    let sent = flood.stop();
    assert_eq!(net.red().1, over, "nothing is over a rate any more");
    assert!(over > 10_000 && over < sent, "{over} of {sent}");

    let sent = voice.stop();
    let limit = Instant::now() + Duration::from_secs(5);
    let counters = || net.node.counters().remove("blue/r.in").expect("the interface");
    while counters().rx < sent && Instant::now() < limit {
        sleep(Duration::from_millis(50));
    }
    let found = counters();
    assert_eq!((found.rx, &found.drops), (sent, &Default::default()), "the neighbour");
}

#[test]
fn interfaces_of_a_slice_share_its_rate_also_after_a_router_was_restarted() {
    let net = Net::new("rate_in: 20Mb/s");
    // Red has one more router on the port.
    let more = "---\nkind: router\nname: s\nslice: red\ninterfaces:\n  \
                in: {port: p, mac: \"02:00:00:00:01:05\"}\n\
                fast_path: {click: \"FromDevice(in) -> Discard; Idle -> ToDevice(in)\"}\n";
    let all = text(&net.near, "rate_in: 20Mb/s") + more;
    net.node.run(&["apply", &net.node.file("more.yaml", &all)]);
    net.far.neighbour("10.0.0.9", "02:00:00:00:01:05", "eth0").expect("a neighbour");
    let floods = ["10.0.0.2:9", "10.0.0.9:9"]
        .map(|to| net.far.stream(to, 1, 10_000, 1000).expect("a flood"));
    let pid = net.router("red")["pid"].as_i64().expect("a process");
    kill(Pid::from_raw(pid as i32), Signal::SIGKILL).expect("the router");
    let limit = Instant::now() + Duration::from_secs(10);
    while net.router("red")["pid"].as_i64().is_none_or(|new| new == pid) {
        assert!(Instant::now() < limit, "the router does not come back");
        sleep(Duration::from_millis(20));
    }
    let given = || {
        let stats = net.node.stats();
        let routers = stats["routers"].as_array().cloned().unwrap_or_default();
        let red = routers.iter().filter(|router| router["name"] != "blue/r");
        red.map(|router| router["interfaces"][0]["rx_bytes"].as_u64().unwrap_or_default())
            .sum::<u64>()
    };
    let (start, before) = (Instant::now(), given());
    sleep(Duration::from_secs(2));
    let (sum, seconds) = ((given() - before) as f64, start.elapsed().as_secs_f64());
    eprintln!("{:.2} Mb/s for both", sum * 8e-6 / seconds);
    assert!(sum <= seconds * 2.5e6 + BURST, "{sum} bytes in {seconds} s");
    assert!(sum > 0.5e6, "{sum} bytes in {seconds} s");
    drop(floods);
}
