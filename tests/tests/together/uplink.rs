//! Uplinks: programs of slow paths reach the outside by NAT; no other packets pass, in either direction.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{Lab, Namespace, Node, Ping, Process, skip_without};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// A server outside: it tells a client the client's address and port, and repeats the client's
/// bytes.
const SERVER: &str = r#"
import socket, threading
def serve(client, address):
    client.sendall(f"{address[0].removeprefix('::ffff:')} {address[1]}\n".encode())
    while data := client.recv(100): client.sendall(data)
listener = socket.create_server(("::", 8080), family=socket.AF_INET6, dualstack_ipv6=True)
while True: threading.Thread(target=serve, args=listener.accept(), daemon=True).start()
"#;

/// Prints the answer of a server.
const WHO: &str = r#"
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 2) as s: print(s.recv(100).decode())
"#;

/// A connection that stays: it writes the number of echoes that it got into a file.
const LASTING: &str = r#"
import os, socket, time
s = socket.create_connection(("203.0.113.1", 8080), 2)
s.recv(100)
count = 0
while True:
    s.sendall(b"x")
    if not s.recv(1): break
    count += 1
    open("/run/echoes.new", "w").write(str(count))
    os.replace("/run/echoes.new", "/run/echoes")
    time.sleep(0.05)
"#;

/// Begins UDP connections, each to another port of the server.
const FLOWS: &str = r#"
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for port in range(20000, 21200):
    try: s.sendto(b"x", ("203.0.113.1", port))
    except OSError: pass
"#;

/// ```text
///  host 10.1.0.2 ── s/r1 ─ uplink ─ [node] 192.0.2.1 ── 192.0.2.2 [outside] 203.0.113.1
///                   t/r2 ─ uplink ─┘  2001:db8::1       2001:db8::2          2001:db8:1::1
/// ```
struct Net {
    node: Node,
    around: Namespace,
    outside: Namespace,
    _server: Process,
    _lab: Lab,
}

fn yaml(r1: &str, r2: &str) -> String {
    let router = |slice: &str, name: &str, number: u8, slow: &str| {
        format!(
            "---\nkind: router\nname: {name}\nslice: {slice}\n\
             interfaces: {{lan: {{link: l{number}, addresses: [10.{number}.0.1/24]}}}}\n\
             fast_path: {{builtin: ipv4, routes: kernel}}\nslow_path: {slow}\n"
        )
    };
    format!(
        "kind: slice\nname: s\n---\nkind: slice\nname: t\n---\n\
         kind: host\nname: pc\ngateway: 10.1.0.1\n\
         interfaces: {{eth0: {{link: l1, addresses: [10.1.0.2/24]}}}}\n{}{}",
        router("s", "r1", 1, r1),
        router("t", "r2", 2, r2)
    )
}

const UPLINK: &str = "{uplink: true}";

impl Net {
    /// Makes everything except the configuration.
    fn new() -> Net {
        let mut lab = Lab::new().expect("a lab");
        let around = lab.namespace("around").expect("a namespace");
        let outside = lab.namespace("outside").expect("a namespace");
        lab.veth((&around, "eth0"), (&outside, "eth0")).expect("a line");
        for (at, device, address) in [
            (&around, "eth0", "192.0.2.1/24"),
            (&around, "eth0", "2001:db8::1/64"),
            (&outside, "eth0", "192.0.2.2/24"),
            (&outside, "eth0", "2001:db8::2/64"),
            (&outside, "lo", "203.0.113.1/32"),
            (&outside, "lo", "2001:db8:1::1/128"),
        ] {
            at.address(device, address).expect("an address");
        }
        around.route("default", "192.0.2.2").expect("a route");
        around.route("default", "2001:db8::2").expect("a route");
        around.sysctl("net.ipv6.conf.all.forwarding", "1").expect("a parameter");
        let server = outside.start(&["python3", "-c", SERVER]).expect("a server");
        let node = Node::new(Some(&around));
        Net { node, around, outside, _server: server, _lab: lab }
    }

    fn up(r1: &str, r2: &str) -> Net {
        let net = Net::new();
        net.around.sysctl("net.ipv4.ip_forward", "1").expect("a parameter");
        net.node.up(&yaml(r1, r2));
        net
    }

    /// Applies another text of the configuration.
    fn apply(&self, r1: &str, r2: &str) {
        self.node.run(&["apply", &self.node.file("node.yaml", &yaml(r1, r2))]);
    }

    /// The output of a program in a slow path; `None` if it fails.
    fn program(&self, router: &str, code: &str, arguments: &[&str]) -> Option<String> {
        let command = [&["exec", router, "--", "python3", "-c", code], arguments].concat();
        let output = self.node.attempt(&command);
        output.status.success().then_some(output.stdout)
    }

    fn linux(&self, router: &str) -> Namespace {
        self.node.host(&router.replace('/', "."))
    }

    /// The facts about a router's slow path.
    fn slow_path(&self, router: &str) -> Value {
        let text = self.node.run(&["describe", "router", router, "--json"]);
        let object: Value = serde_json::from_str(&text).expect("JSON");
        object["status"]["details"]["slow_path"].clone()
    }

    /// The facts about a router's uplink.
    fn uplink(&self, router: &str) -> Value {
        self.slow_path(router)["uplink"].clone()
    }

    /// The first address of a router's uplink.
    fn address(&self, router: &str) -> String {
        self.uplink(router)["addresses"][0].as_str().expect("an address").to_owned()
    }

    /// The node's table of nftables; `None` if it is not there.
    fn table(&self) -> Option<String> {
        let name = format!("europa_{}", self.node.instance());
        let list = ["nft", "list", "table", "inet", &name];
        let output = self.around.attempt(Duration::from_secs(10), &list).expect("nft ends");
        output.status.success().then_some(output.stdout)
    }

    /// Devices of uplinks.
    fn devices(&self) -> Vec<String> {
        let text = self.around.ip(&["-oneline", "link"]).expect("a list").stdout;
        let names = text.lines().filter_map(|line| line.split([':', '@']).nth(1));
        let names = names.map(|name| name.trim().to_owned());
        names.filter(|name| name.starts_with("europa-")).collect()
    }

    /// Packets that a rule of a chain has counted, by a part of the rule.
    fn counted(&self, chain: &str, part: &str) -> u64 {
        let table = self.table().expect("a table");
        let (_, rest) = table.split_once(&format!("chain {chain} {{")).expect("the chain");
        let rules = rest.split("\n\t}").next().unwrap_or_default();
        let rule = rules.lines().find(|line| line.contains(part) && line.contains(" packets "));
        let count = rule.and_then(|rule| rule.split(" packets ").nth(1)?.split(' ').next());
        count.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{part}: {table}"))
    }
}

/// Whether there is an answer to a ping from this namespace.
fn answered(from: &Namespace, to: &str) -> bool {
    from.ping(to, 1, &["-W", "1"]).is_ok_and(|Ping { received, .. }| received == 1)
}

fn wait(what: &str, limit: Duration, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < limit, "{what}: not within {limit:?}");
        sleep(Duration::from_millis(100));
    }
}

fn end(pid: u32) {
    let _ = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL);
    wait("the end of a process", Duration::from_secs(10), || {
        fs::read(format!("/proc/{pid}/cmdline")).map_or(true, |line| line.is_empty())
    });
}

#[test]
fn programs_reach_the_outside() {
    skip_without!("nft", "ping", "python3");
    let net = Net::new();
    // Without forwarding the node refuses the uplink, with the remedy.
    let file = net.node.file("node.yaml", &yaml(UPLINK, UPLINK));
    let refused = net.node.attempt(&["up", &file]);
    assert!(!refused.status.success());
    let said = refused.stderr + &refused.stdout;
    assert!(said.contains("sysctl -w net.ipv4.conf.eth0.forwarding=1"), "{said}");
    net.around.sysctl("net.ipv4.conf.eth0.forwarding", "1").expect("a parameter");
    net.node.run(&["up", &file]);

    let r1 = net.linux("s/r1");
    for to in ["203.0.113.1", "2001:db8:1::1"] {
        wait(to, Duration::from_secs(5), || answered(&r1, to));
    }
    // Each slice has ports of its own.
    for (router, to, address, first) in [
        ("s/r1", "203.0.113.1", "192.0.2.1", 1024),
        ("s/r1", "2001:db8:1::1", "2001:db8::1", 1024),
        ("t/r2", "203.0.113.1", "192.0.2.1", 1536),
    ] {
        let seen = net.program(router, WHO, &[to, "8080"]).expect("an answer");
        let (from, port) = seen.trim().split_once(' ').expect("an address and a port");
        let port: u16 = port.parse().expect("a port");
        assert_eq!(from, address, "{router} {to}");
        assert!((first..first + 512).contains(&port), "{router} {to}: port {port}");
        let ports = net.uplink(router)["ports"].clone();
        assert_eq!(ports, format!("{first}-{}", first + 511));
    }
    // The fast path still forwards by itself.
    wait("the fast path decides", Duration::from_secs(5), || {
        net.slow_path("s/r1")["by_linux"] == serde_json::json!([])
    });
}

#[test]
fn nothing_else_passes_an_uplink() {
    skip_without!("nft", "ping", "python3");
    let net = Net::up(UPLINK, UPLINK);
    let pc = net.node.host("pc");
    let (r1, r2) = (net.linux("s/r1"), net.linux("t/r2"));
    wait("the outside", Duration::from_secs(5), || answered(&r1, "203.0.113.1"));
    wait("the gateway", Duration::from_secs(5), || answered(&pc, "10.1.0.1"));

    // Packets of a host do not follow the uplink: the router has no route for them.
    assert!(!answered(&pc, "203.0.113.1"));
    assert_eq!(net.counted("prerouting", "counter"), 0);
    // Packets of a host do not follow the uplink even if the slow path has a route there.
    let gateway = net.uplink("s/r1")["gateways"][0].as_str().expect("an address").to_owned();
    let route = ["route", "add", "default", "via", &gateway, "dev", "uplink", "onlink"];
    r1.ip(&route).expect("a route");
    wait("a packet of the host at the uplink", Duration::from_secs(5), || {
        assert!(!answered(&pc, "203.0.113.1"));
        net.counted("prerouting", "counter") > 0
    });
    assert!(answered(&r1, "203.0.113.1"));
    r1.ip(&["route", "delete", "default"]).expect("a route less");

    // No uplink reaches another one.
    assert!(!answered(&r1, &net.address("t/r2")));
    assert!(net.counted("outward", "oifname") > 0);
    assert!(answered(&r2, "203.0.113.1"));
    // An uplink reaches no program of the machine, which others reach.
    let _server = net.around.start(&["python3", "-c", SERVER]).expect("a server");
    let who = |to: &str| ["python3", "-c", WHO, to, "8080"].map(str::to_owned);
    wait("the server", Duration::from_secs(5), || {
        let command = who("192.0.2.1");
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let output = net.outside.attempt(Duration::from_secs(10), &command);
        output.is_ok_and(|output| output.status.success())
    });
    for to in ["192.0.2.1", &gateway] {
        assert!(answered(&r1, to), "the machine answers pings at {to}");
        assert_eq!(net.program("s/r1", WHO, &[to, "8080"]), None, "{to}");
    }
    assert!(net.counted("input", "counter") > 0);
    // No host outside can begin a connection; it first needs a route to the uplink.
    net.outside.route("100.64.0.0/10", "192.0.2.1").expect("a route");
    assert!(!answered(&net.outside, &net.address("s/r1")));

    // A slice with too many connections cannot begin more; other slices can.
    net.program("s/r1", FLOWS, &[]).expect("it sends");
    let over = net.counted("slice-s", "ct count");
    assert!((100..=1200).contains(&over), "{over} of 1200 connections over the limit of 1024");
    assert!(!answered(&r1, "203.0.113.1"));
    assert!(answered(&r2, "203.0.113.1"));
    // Another change keeps the count.
    net.apply(UPLINK, "{}");
    assert!(!answered(&r1, "203.0.113.1"));
    assert!(!answered(&r2, "203.0.113.1"), "its uplink is gone");
}

#[test]
fn uplinks_change_and_are_adopted() {
    skip_without!("nft", "ping", "python3");
    let lasting = serde_json::json!(["python3", "-c", LASTING]);
    let r1 = format!("{{uplink: true, run: [{{name: lasting, command: {lasting}}}]}}");
    let net = Net::up(&r1, "{}");
    let echoes = || -> u64 {
        let output = net.node.attempt(&["exec", "s/r1", "--", "cat", "/run/echoes"]);
        output.stdout.trim().parse().unwrap_or(0)
    };
    let more_echoes = |what: &str| {
        let before = echoes();
        wait(what, Duration::from_secs(5), || echoes() > before);
    };
    more_echoes("an echo");
    let process = || net.slow_path("s/r1")["programs"]["lasting"]["pid"].clone();
    let program = process();

    // A second uplink is added in place, and removed again.
    let file = net.node.file("more.yaml", &yaml(&r1, UPLINK));
    let told = net.node.run(&["apply", "--dry-run", &file]);
    assert!(told.contains("in place") && !told.contains("restart"), "{told}");
    net.apply(&r1, UPLINK);
    wait("the second", Duration::from_secs(5), || answered(&net.linux("t/r2"), "203.0.113.1"));
    assert_eq!(net.devices().len(), 2);
    net.apply(&r1, "{}");
    assert_eq!(net.devices().len(), 1);
    let table = net.table().expect("a table");
    assert!(table.contains("chain slice-s {") && !table.contains("slice-t"), "{table}");
    more_echoes("an echo after changes");

    // The next node adopts the uplinks of a killed node.
    end(net.node.processes()[0]);
    net.node.up(&yaml(&r1, "{}"));
    more_echoes("an echo after adoption");
    assert_eq!(process(), program, "the same program");

    // The node makes parts again that another program has removed.
    let device = net.devices().pop().expect("a device");
    net.around.ip(&["link", "delete", &device]).expect("deleted");
    let name = format!("europa_{}", net.node.instance());
    net.around.run(&["nft", "delete", "table", "inet", &name]).expect("deleted");
    wait("the uplink", Duration::from_secs(25), || answered(&net.linux("s/r1"), "203.0.113.1"));
    assert!(net.node.run(&["events"]).contains("Drifted"));

    // Nothing is left after the last uplink; nor after a node was killed with all its processes.
    net.apply("{}", "{}");
    assert_eq!((net.devices(), net.table()), (Vec::new(), None));
    net.apply(UPLINK, "{}");
    assert!(net.table().is_some() && net.devices().len() == 1);
    net.node.processes().into_iter().for_each(end);
    net.node.run(&["down"]);
    assert_eq!((net.devices(), net.table()), (Vec::new(), None));
}
