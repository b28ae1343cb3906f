//! Messages and packets that a host sends on an interface that signals.

use europa_tests::skip_without;

use super::net::{Net, example};

/// Frames that a host sends on an interface that signals: messages with changed bytes, and messages
/// in the name of routers.
const GARBAGE: &str = "
import random, struct
random.seed(7)
def message(kind, body):
    length = 8 + len(body)
    head = struct.pack('!BBHBBH', 0x10, kind, 0, 9, 0, length)
    check = checksum(head + body)
    return head[:2] + struct.pack('!H', check) + head[4:] + body
def thing(number, kind, body):
    return struct.pack('!HBB', 4 + len(body), number, kind) + body
session = thing(1, 7, bytes([10, 1, 4, 2, 0, 0, 0, 9, 10, 9, 1, 2]))
hop = thing(3, 1, bytes([10, 9, 1, 2, 0, 0, 0, 1]))
times = thing(5, 1, struct.pack('!I', 1000))
request = thing(19, 1, struct.pack('!HH', 0, 0x800))
sender = thing(11, 7, bytes([10, 9, 1, 2, 0, 0, 0, 1]))
bucket = struct.pack('!fffII', 1e5, 1e4, 1e9, 64, 1400)
traffic = thing(12, 2, struct.pack('!HHBBHBBH', 0, 7, 1, 0, 6, 127, 0, 5) + bucket)
path = session + hop + times + request + sender + traffic
frames = []
for number in range(1500):
    body = bytearray(path)
    for _ in range(random.randrange(6)):
        body[random.randrange(len(body))] = random.randrange(256)
    kind = random.choice([1, 1, 2, 3, 4, 5, 6, 7, 12, 13, 15, 20, 77])
    body = bytes(body[:len(body) - 4 * random.randrange(4)])
    data = message(kind, body) if number % 3 else bytes(body)
    frames.append(Ether(dst=MAC) / IP(src='10.9.1.2', dst='10.1.4.2', proto=46, ttl=9) / Raw(data))
    frames.append(Ether(dst=MAC, type=0x8847) / Raw(bytes(random.randrange(256) for _ in range(60))))
sendp(frames, iface='eth0')
print(len(frames))
";

#[test]
fn garbage_of_a_host_harms_nobody() {
    skip_without!("ping");
    let signals =
        "addresses: [10.9.1.1/24], signalling: {rsvp_te: {refresh: 1s, bandwidth: 9Mb/s}}";
    let net = Net::new(&example().replace("addresses: [10.9.1.1/24]", signals));
    let [signaller, head] = ["signaller", "lab/head"].map(|role| net.node.process(role));
    let neighbours = net.ann.ip(&["neigh", "show", "10.9.1.1"]).expect("a neighbour").stdout;
    let mac = neighbours.split_whitespace().skip_while(|word| *word != "lladdr").nth(1);
    let mac = mac.expect("the router's Ethernet address");
    let sent = net.ann.scapy(&format!("MAC = '{mac}'\n{GARBAGE}")).expect("scapy");
    assert_eq!(sent.trim(), "3000");
    assert!(net.ann.ping("10.9.2.2", 20, &[]).expect("a ping").is_perfect());
    let counted = net.node.run(&["read", "lab/head", "labels.drops"]);
    println!("{counted}");
    // The state that the host has made ends with its lifetime.
    net.wait("all state of the host goes", || {
        let list = net.list();
        let all = list["lsps"].as_array().cloned().unwrap_or_default();
        net.is_up("voice") && all.iter().all(|one| one["from"] == "10.9.1.1")
    });
    assert_eq!([signaller, head], ["signaller", "lab/head"].map(|role| net.node.process(role)));
    assert_eq!(net.left("lab/head.north"), 30);
    assert!(net.ann.ping("10.9.2.2", 20, &[]).expect("a ping").is_perfect());
}
