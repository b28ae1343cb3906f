//! Every lost packet has a cause. Elements of a router account for each packet of real traffic.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use europa_tests::{Lab, Namespace, Node};
use serde_json::Value;

const IN: &str = "02:00:00:00:01:01";
const OUT: &str = "02:00:00:00:02:01";
const FAR: &str = "02:00:00:00:01:02";

/// A router between two ports, and a sender.
struct Net {
    // The node ends before the laboratory does.
    node: Node,
    near: Namespace,
    far: Namespace,
    _lab: Lab,
}

/// The documents of the router, with this fast path, on `in` and `out`.
fn documents(near: &Namespace, run: &str, fast_path: &str) -> String {
    let mut yaml = String::new();
    for (name, device) in [("left", "eth0"), ("right", "eth1")] {
        let near = near.name();
        yaml += &format!("kind: port\nname: {name}\ndevice: {device}\nnamespace: {near}\n---\n");
    }
    // A bridge takes all frames of its ports.
    let [left, right] = [IN, OUT].map(|mac| match fast_path.contains("bridge") {
        true => "match: {all: true}".to_owned(),
        false => format!("mac: \"{mac}\""),
    });
    yaml + &format!(
        "kind: slice\nname: red\n---\nkind: router\nname: r1\nslice: red\n{run}interfaces:\n  \
         in: {{port: left, {left}}}\n  out: {{port: right, {right}}}\nfast_path:\n{fast_path}"
    )
}

impl Net {
    fn new(run: &str, fast_path: &str) -> Net {
        let mut lab = Lab::new().expect("a laboratory");
        let near = lab.namespace("near").expect("a namespace");
        let far = lab.namespace("far").expect("a namespace");
        // The namespaces send no packets except the test's.
        for namespace in [&near, &far] {
            namespace.sysctl("net.ipv6.conf.all.disable_ipv6", "1").expect("a parameter");
            namespace.sysctl("net.ipv6.conf.default.disable_ipv6", "1").expect("a parameter");
        }
        for device in ["eth0", "eth1"] {
            lab.veth((&near, device), (&far, device)).expect("a pair");
        }
        let node = Node::new(None);
        node.up(&documents(&near, run, fast_path));
        Net { node, near, far, _lab: lab }
    }

    /// Makes the router run another configuration.
    fn swap(&self, run: &str, fast_path: &str) {
        let yaml = documents(&self.near, run, fast_path);
        self.node.run(&["apply", &self.node.file("other.yaml", &yaml)]);
    }

    /// Sends frames to the router's first interface: each in hexadecimal, with its number of
    /// repetitions.
    fn send(&self, frames: &[(&str, usize)]) {
        let list: Vec<String> =
            frames.iter().map(|(frame, times)| format!("('{frame}', {times})")).collect();
        let script = format!(
            "import socket\ns = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n\
             s.bind(('eth0', 0))\nfor frame, times in [{}]:\n for _ in range(times): \
             s.send(bytes.fromhex(frame.replace(':', '')))",
            list.join(", ")
        );
        self.far.run(&["/usr/bin/python3", "-c", &script]).expect("frames");
    }

    /// The ledger of the router.
    fn ledger(&self) -> Value {
        self.node.stats()["routers"][0]["ledger"].clone()
    }

    /// Waits until the router has received this many packets and is idle.
    fn received(&self, packets: u64) -> Value {
        let begun = Instant::now();
        loop {
            let ledger = self.ledger();
            if ledger["received"] == packets {
                return ledger;
            }
            assert!(begun.elapsed() < Duration::from_secs(10), "{packets} packets: {ledger}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Packets by cause.
fn causes(of: &Value) -> BTreeMap<String, u64> {
    let list = of.as_array().expect("a list");
    let pair = |one: &Value| Some((one[0].as_str()?.to_owned(), one[1].as_u64()?));
    list.iter().map(|one| pair(one).expect("a cause")).collect()
}

fn expected(causes: &[(&str, u64)]) -> BTreeMap<String, u64> {
    causes.iter().map(|(cause, count)| ((*cause).to_owned(), *count)).collect()
}

/// A frame to the router with this type, and what follows.
fn frame(kind: &str, rest: &str) -> String {
    format!("{IN}{FAR}{kind}{rest}{}", "00".repeat(46usize.saturating_sub(rest.len() / 2)))
}

/// An IPv4 packet from 10.0.`source`, with this time to live, and a correct or a wrong header
/// checksum.
fn ipv4(source: [u8; 2], ttl: u8, right: bool) -> String {
    let [a, b] = source;
    let mut header = [0x45, 0, 0, 20, 0, 0, 0, 0, ttl, 17, 0, 0, 10, 0, a, b, 10, 0, 2, 2u8];
    let words = header.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum: u32 = words.sum();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    let checksum = if right { checksum } else { checksum ^ 1 };
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    header.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Elements with a cause for each way in which a packet can end.
const ELEMENTS: &str = "  click: |
    FromDevice(in) -> class :: Classifier(12/0800, 12/88b5, 12/88b6);
    FromDevice(out) -> Discard;
    class[0] -> Strip(14) -> check :: CheckIPHeader -> martians :: DropMartians(10.0.0.255)
      -> ttl :: DecIPTTL -> EtherEncap(0x0800, 02:00:00:00:02:01, 02:00:00:00:02:02) -> tee :: Tee(2);
    tee[0] -> ToDevice(out);
    tee[1] -> copies :: Discard;
    class[1] -> full :: Queue(4) -> Idle;
    class[2] -> sink :: Discard;
    source :: RatedSource(LENGTH 60, RATE 1000, LIMIT 9) -> made :: Discard;
    Idle -> ToDevice(in);
";

fn every_cause(run: &str) {
    let net = Net::new(run, ELEMENTS);
    let good = frame("0800", &ipv4([1, 2], 64, true));
    let bad = frame("0800", &ipv4([1, 2], 64, false));
    let martian = frame("0800", &ipv4([0, 255], 64, true));
    let last = frame("0800", &ipv4([1, 2], 1, true));
    let (queued, ended, unknown) = (frame("88b5", ""), frame("88b6", ""), frame("1234", ""));
    net.send(&[
        (&good, 10),
        (&bad, 2),
        (&martian, 3),
        (&last, 5),
        (&queued, 11),
        (&ended, 6),
        (&unknown, 8),
    ]);
    let begun = Instant::now();
    let ledger = loop {
        let ledger = net.received(45);
        // The source can be slower than the test's packets.
        if ledger["made"] == 9 {
            break ledger;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{ledger}");
    };
    assert_eq!(
        (&ledger["copied"], &ledger["sent"], &ledger["to_linux"]),
        (&10.into(), &10.into(), &0.into())
    );
    assert_eq!(ledger["held"], 4, "the queue's");
    let consumed = [("copies (Discard)", 10), ("sink (Discard)", 6), ("made (Discard)", 9)];
    assert_eq!(causes(&ledger["consumed"]), expected(&consumed));
    let dropped = [
        ("class (Classifier)", 8),
        ("check (CheckIPHeader): output 1 is not connected", 2),
        ("martians (DropMartians): output 1 is not connected", 3),
        ("ttl (DecIPTTL): output 1 is not connected", 5),
        ("full (Queue): output 1 is not connected", 7),
    ];
    assert_eq!(causes(&ledger["dropped"]), expected(&dropped));
    let said = net.node.run(&["stats"]);
    assert!(said.contains("\n    8 dropped by class (Classifier)\n"), "{said}");
    let doctor = net.node.run(&["doctor", "--live"]);
    let line = "ok       red/r1: received 45 + made 9 + copied 10 = sent 10 + to Linux 0 + \
                consumed 25 + dropped 25 + held 4\n";
    assert!(doctor.contains(line), "{doctor}");
    let line = "ok       red/r1.out: offered 10 = sent 10 + elsewhere 0 + dropped 0 + waiting 0\n";
    assert!(doctor.contains(line), "{doctor}");
    // Another configuration keeps the accounts; packets that waited in the queue are lost.
    let other = "  click: 'FromDevice(in) -> sink :: Discard; FromDevice(out) -> Discard; \
                 Idle -> ToDevice(in); Idle -> ToDevice(out);'\n";
    net.swap(run, other);
    net.send(&[(&ended, 2)]);
    let ledger = net.received(47);
    assert_eq!((&ledger["held"], &ledger["copied"]), (&0.into(), &10.into()));
    let after = causes(&ledger["dropped"]);
    assert_eq!(after.get("waited in a configuration that was replaced"), Some(&4), "{after:?}");
    assert_eq!(after.get("ttl (DecIPTTL): output 1 is not connected"), Some(&5), "{after:?}");
    assert_eq!(causes(&ledger["consumed"]).get("sink (Discard)"), Some(&8));
}

#[test]
fn each_cause_has_its_number() {
    every_cause("");
}

#[test]
fn each_cause_has_its_number_inside_the_switch() {
    every_cause("run: inline\n");
}

#[test]
fn a_bridge_counts_copies_and_what_stays_with_it() {
    let net = Net::new("", "  builtin: bridge\n");
    let all = format!("ff:ff:ff:ff:ff:ff{FAR}88b5{}", "00".repeat(46));
    let reserved = format!("01:80:c2:00:00:00{FAR}88b5{}", "00".repeat(46));
    net.send(&[(&all, 3), (&reserved, 4)]);
    let ledger = net.received(7);
    assert_eq!(ledger["sent"], 3);
    assert_eq!(causes(&ledger["dropped"]), expected(&[("bridge (EtherSwitch)", 4)]));
}

/// A planted fault: an element that loses packets in such a way that no counter has them.
#[test]
fn a_planted_loss_without_a_cause_is_found() {
    let elements = europa_tests::europa().with_file_name("elements");
    let fast_path = format!(
        "  elements: {}\n  click: 'FromDevice(in) -> Vanish; FromDevice(out) -> Discard; \
         Idle -> ToDevice(in); Idle -> ToDevice(out);'\n",
        elements.display()
    );
    let net = Net::new("", &fast_path);
    net.send(&[(&frame("88b6", ""), 5)]);
    net.received(5);
    let doctor = net.node.attempt(&["doctor", "--live"]);
    assert!(!doctor.status.success(), "{}", doctor.stdout);
    let line = "WRONG    red/r1: received 5 + made 0 + copied 0 != sent 0 + to Linux 0 + \
                consumed 0 + dropped 0 + held 0 (5 without a cause)\n";
    assert!(doctor.stdout.contains(line), "{}", doctor.stdout);
    // Each end-to-end test ends with this check of its node.
    let Net { node, _lab, .. } = net;
    let end = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(node)));
    let said = end.expect_err("the test of this node fails");
    let said = said.downcast_ref::<String>().expect("a message");
    assert!(said.contains("(5 without a cause)"), "{said}");
}
