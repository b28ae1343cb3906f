//! Ports of the machine: unmodified servers in slow paths, reached from outside by what their slices
//! reserve.

mod firewalls;
mod libraries;

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{Lab, Namespace, Node, skip_without};
use serde_json::Value;

/// ```text
///  s/r1, t/r2 ─ uplinks ─ [node] 192.0.2.1, 198.51.100.1 ── 192.0.2.2 [outside]
///                                2001:db8::1                2001:db8::2
/// ```
struct Net {
    node: Node,
    around: Namespace,
    outside: Namespace,
    _lab: Lab,
}

impl Net {
    fn new() -> Net {
        let mut lab = Lab::new().expect("a lab");
        let around = lab.namespace("around").expect("a namespace");
        let outside = lab.namespace("outside").expect("a namespace");
        lab.veth((&around, "eth0"), (&outside, "eth0")).expect("a line");
        for (at, device, address) in [
            (&around, "eth0", "192.0.2.1/24"),
            (&around, "lo", "198.51.100.1/32"),
            (&around, "eth0", "2001:db8::1/64"),
            (&outside, "eth0", "192.0.2.2/24"),
            (&outside, "eth0", "2001:db8::2/64"),
        ] {
            at.address(device, address).expect("an address");
        }
        around.route("default", "192.0.2.2").expect("a route");
        around.route("default", "2001:db8::2").expect("a route");
        outside.route("198.51.100.1/32", "192.0.2.1").expect("a route");
        around.sysctl("net.ipv4.ip_forward", "1").expect("a parameter");
        around.sysctl("net.ipv6.conf.all.forwarding", "1").expect("a parameter");
        let node = Node::new(Some(&around));
        Net { node, around, outside, _lab: lab }
    }

    /// The ports of a slice, as the node shows them.
    fn ports(&self, slice: &str) -> Vec<Value> {
        let text = self.node.run(&["get", "slice", slice, "--json"]);
        let object: Value = serde_json::from_str(&text).expect("JSON");
        let items = object["status"]["details"]["machine_ports"]["items"].as_array();
        items.cloned().unwrap_or_default()
    }

    /// The port of the machine that leads to this port inside.
    fn outside_of(&self, slice: &str, inside: u64) -> Option<u64> {
        let ports = self.ports(slice);
        ports.iter().find(|one| one["inside"] == inside)?["port"].as_u64()
    }

    /// The body of a page; `None` without an answer.
    fn page(&self, from: &Namespace, url: &str) -> Option<String> {
        let curl = ["curl", "-s", "-g", "--fail", "--max-time", "3", url];
        let output = from.attempt(Duration::from_secs(10), &curl).ok()?;
        output.status.success().then_some(output.stdout)
    }

    /// The output of a program in the namespace of the node that binds a port.
    fn bind_here(&self, port: u64) -> String {
        let code = format!("import socket; socket.create_server(('', {port})); print('bound')");
        let python = ["python3", "-c", &code];
        let output = self.around.attempt(Duration::from_secs(10), &python).expect("python ends");
        output.stdout + &output.stderr
    }

    fn reserved_here(&self) -> String {
        let path = "/proc/sys/net/ipv4/ip_local_reserved_ports";
        self.around.run(&["cat", path]).expect("a parameter").stdout.trim().to_owned()
    }

    /// The answer to a request at the door of a router: status and body.
    fn door(&self, router: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
        let output = self.node.attempt(&[
            "exec",
            router,
            "--",
            "curl",
            "-s",
            "--abstract-unix-socket",
            "europa",
            "-X",
            method,
            "-H",
            "content-type: application/json",
            "-w",
            "\n%{http_code}",
            "-d",
            body,
            &format!("http://europa{path}"),
        ]);
        let (text, status) = output.stdout.rsplit_once('\n').unwrap_or_default();
        let status = status.parse().unwrap_or_else(|_| panic!("{output:?}"));
        (status, serde_json::from_str(text).unwrap_or_default())
    }
}

fn wait(what: &str, limit: Duration, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < limit, "{what}: not within {limit:?}");
        sleep(Duration::from_millis(100));
    }
}

/// A slice with reservations, and a router with a slow path alone.
fn slice(name: &str, router: &str, reserved: &str, slow_path: &str) -> String {
    format!(
        "kind: slice\nname: {name}\nreservation: {{machine_ports: [{reserved}]}}\n---\n\
         kind: router\nname: {router}\nslice: {name}\nslow_path:\n  uplink: true\n{slow_path}---\n"
    )
}

const ANY: &str = "{protocol: tcp, port: any}";

/// Unmodified servers, and a page with the name of their slice.
fn servers(name: &str, key: &str) -> String {
    let key = key.lines().map(|line| format!("        {line}\n")).collect::<String>();
    format!(
        "  files:\n    - {{path: /run/who, text: {name}}}\n    - {{path: /run/sshd/}}\n    \
         - path: /run/key\n      mode: \"0600\"\n      text: |\n{key}  run:\n    \
         - {{name: web, command: [python3, -m, http.server, \"8080\"]}}\n    \
         - {{name: iperf, command: [iperf3, -s]}}\n    \
         - {{name: sshd, command: [/usr/sbin/sshd, -D, -e, -h, /run/key]}}\n"
    )
}

#[test]
fn unmodified_servers_have_the_ports_that_their_slices_reserve() {
    skip_without!("nft", "python3", "curl", "iperf3", "ssh-keygen", "/usr/sbin/sshd");
    let net = Net::new();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("key");
    let file = file.to_string_lossy();
    europa_tests::run(&["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", &file])
        .expect("a key");
    let key = fs::read_to_string(&*file).expect("a key");
    let three = format!("{ANY}, {ANY}, {ANY}");
    let first = format!("{{protocol: tcp, port: 8080}}, {ANY}, {ANY}");
    let yaml = slice("s", "r1", &first, &servers("s", &key))
        + &slice("t", "r2", &three, &servers("t", &key));
    net.node.up(&yaml);

    // Both bind 8080 inside; outside, the first has 8080, and the second what the node chose.
    let all = [8080, 5201, 22];
    let led = |slice: &str| all.iter().all(|inside| net.outside_of(slice, *inside).is_some());
    wait("all servers", Duration::from_secs(20), || led("s") && led("t"));
    assert_eq!(net.outside_of("s", 8080), Some(8080));
    let other = net.outside_of("t", 8080).expect("a port");
    assert!((1024..32_768).contains(&other) && other != 8080, "{other}");
    for (port, wanted) in [(8080, "s"), (other, "t")] {
        for at in ["192.0.2.1", "198.51.100.1"] {
            let url = format!("http://{at}:{port}/run/who");
            assert_eq!(net.page(&net.outside, &url).as_deref(), Some(wanted), "{url}");
        }
        // From the machine itself, and from the other slice.
        let url = format!("http://192.0.2.1:{port}/run/who");
        assert_eq!(net.page(&net.around, &url).as_deref(), Some(wanted), "{url}");
        let curl = ["exec", "s/r1", "--", "curl", "-s", "--max-time", "3", &url];
        assert_eq!(net.node.run(&curl), wanted, "{url} from a slice");
    }
    for slice in ["s", "t"] {
        let port = net.outside_of(slice, 5201).expect("a port").to_string();
        let iperf = ["iperf3", "-c", "192.0.2.1", "-p", &port, "-t", "1", "-J"];
        let output = net.outside.run_for(Duration::from_secs(20), &iperf).expect("iperf3 ends");
        let report: Value = serde_json::from_str(&output.stdout).expect("JSON");
        assert!(report["end"]["sum_received"]["bytes"].as_u64() > Some(0), "{slice}");
        let port = net.outside_of(slice, 22).expect("a port").to_string();
        let scan = ["ssh-keyscan", "-T", "5", "-p", &port, "192.0.2.1"];
        let output = net.outside.run_for(Duration::from_secs(20), &scan).expect("it ends");
        assert!(output.stdout.contains("ssh-ed25519"), "{slice}: {output:?}");
    }
    // No server has met a port in use.
    for program in ["s/r1.web", "t/r2.web", "s/r1.iperf", "t/r2.iperf", "t/r2.sshd"] {
        let log = net.node.run(&["logs", program]);
        assert!(!log.contains("in use"), "{program}: {log}");
    }

    // Nothing else of the machine gets a reserved port.
    for slice in ["s", "t"] {
        for one in net.ports(slice) {
            let port = one["port"].as_u64().expect("a port");
            assert!(net.bind_here(port).contains("Address already in use"), "{port}");
        }
    }
    assert!(net.reserved_here().split([',', '-']).any(|port| port == "8080"));

    // The same numbers after the node was killed, and without its programs.
    let before = (net.ports("s"), net.ports("t"));
    let pid = net.node.kill("node");
    wait("the end of the node", Duration::from_secs(10), || {
        fs::metadata(format!("/proc/{pid}")).is_err()
    });
    let url = format!("http://192.0.2.1:{other}/run/who");
    assert_eq!(net.page(&net.outside, &url).as_deref(), Some("t"), "without a node");
    net.node.up(&yaml);
    wait("the same ports", Duration::from_secs(20), || (net.ports("s"), net.ports("t")) == before);
    assert_eq!(net.page(&net.outside, &url).as_deref(), Some("t"));

    // Without its server a port leads nowhere, and stays reserved.
    let quiet = slice("s", "r1", &first, "") + &slice("t", "r2", &three, &servers("t", &key));
    net.node.run(&["apply", &net.node.file("node.yaml", &quiet)]);
    wait("a free port", Duration::from_secs(10), || net.outside_of("s", 8080).is_none());
    assert_eq!(net.page(&net.outside, "http://192.0.2.1:8080/run/who"), None);
    assert!(net.bind_here(8080).contains("Address already in use"));
    assert_eq!(net.outside_of("t", 8080), Some(other));

    net.node.run(&["down"]);
    assert_eq!(net.reserved_here(), "");
    assert!(net.bind_here(8080).contains("bound"));
    assert!(!net.node.directory().join("binds").exists());
}

/// A server for both families that tells each client the client's address.
const SERVER: &str = r#"
import socket
listener = socket.create_server(("::", 80), family=socket.AF_INET6, dualstack_ipv6=True)
while True:
    client, address = listener.accept()
    client.recv(1000)
    body = address[0].removeprefix("::ffff:")
    client.sendall(f"HTTP/1.0 200 OK\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())
    client.close()
"#;

#[test]
fn documents_and_requests_lead_ports() {
    skip_without!("nft", "python3", "curl");
    let net = Net::new();
    let server = serde_json::json!(["python3", "-c", SERVER]);
    let run = format!(
        "  machine_ports: [{{protocol: tcp, port: any, inside: 80}}]\n  \
         run: [{{name: server, command: {server}}}]\n"
    );
    let own = format!(
        "{ANY}, {{protocol: tcp, port: 443, addresses: [192.0.2.1, \"2001:db8::1\"]}}, \
         {{protocol: udp, port: 53}}"
    );
    let yaml = slice("s", "r1", &own, &run) + &slice("t", "r2", ANY, "");
    net.node.up(&yaml);
    let port = net.outside_of("s", 80).expect("led by the document");
    // Clients keep their addresses.
    for (at, client) in [("192.0.2.1", "192.0.2.2"), ("[2001:db8::1]", "2001:db8::2")] {
        let url = format!("http://{at}:{port}/");
        wait(&url, Duration::from_secs(10), || {
            net.page(&net.outside, &url).as_deref() == Some(client)
        });
    }

    // A program asks for a port at its door, and has the answer at once.
    let body = r#"{"protocol": "tcp", "port": 443, "router": "r1", "inside": 80}"#;
    let path = "/v1/slices/s/machine-ports";
    let (status, answer) = net.door("s/r1", "POST", path, body);
    assert_eq!((status, answer["port"].as_u64()), (200, Some(443)), "{answer}");
    for (at, client) in [("192.0.2.1", "192.0.2.2"), ("[2001:db8::1]", "2001:db8::2")] {
        assert_eq!(net.page(&net.outside, &format!("http://{at}:443/")).as_deref(), Some(client));
    }
    // Only at the addresses that it reserves.
    assert_eq!(net.page(&net.outside, "http://198.51.100.1:443/"), None);
    for (method, path, body, wanted) in [
        ("POST", path, r#"{"protocol": "tcp", "port": 444, "router": "r1", "inside": 80}"#, 404),
        ("POST", path, r#"{"protocol": "tcp", "port": "any", "router": "r1", "inside": 81}"#, 404),
        ("POST", path, r#"{"protocol": "tcp", "port": 443, "router": "r2", "inside": 80}"#, 404),
        ("POST", path, r#"{"protocol": "tcp", "port": 443, "router": "r1", "inside": 81}"#, 409),
        ("POST", path, r#"{"protocol": "tcp", "port": 0, "router": "r1", "inside": 80}"#, 422),
        ("POST", path, r#"{"protocol": "tcp", "port": 443, "router": "r1", "inside": 0}"#, 422),
        ("GET", "/v1/slices/t/machine-ports", "", 404),
        ("GET", "/v1/slices/t/resources", "", 404),
        ("DELETE", "/v1/slices/t/machine-ports/tcp/443", "", 404),
        ("DELETE", "/v1/slices/s/machine-ports/udp/53", "", 404),
        ("DELETE", "/v1/slices/s/machine-ports/sctp/53", "", 404),
    ] {
        let (status, answer) = net.door("s/r1", method, path, body);
        assert_eq!(status, wanted, "{method} {path} {body}: {answer}");
    }

    // The slice sees its resources and its documents, and no others.
    let (status, answer) = net.door("s/r1", "GET", "/v1/slices/s/resources", "");
    assert_eq!(status, 200, "{answer}");
    let of = |name: &str| {
        let items = answer["items"].as_array().expect("a list");
        let one = items.iter().find(|one| one["name"] == name).expect("a resource").clone();
        (one["used"].as_f64(), one["most"].as_f64())
    };
    assert_eq!(of("machine_ports"), (Some(2.0), Some(3.0)));
    assert_eq!(of("routers"), (Some(1.0), None));
    let (status, answer) = net.door("s/r1", "GET", "/v1/routers", "");
    let names = answer["items"].as_array().expect("a list").iter();
    let names: Vec<_> = names.map(|one| one["name"].as_str().unwrap_or_default()).collect();
    assert_eq!((status, names), (200, vec!["s/r1"]));

    // The socket is that namespace's alone, and the node's own socket is not there at all.
    let code = "import socket; socket.socket(socket.AF_UNIX).connect('\\0europa')";
    let refused = net.around.attempt(Duration::from_secs(10), &["python3", "-c", code]);
    assert!(refused.expect("python ends").stderr.contains("refused"));
    let (status, _) = net.door("t/r2", "GET", "/v1/slices/s/resources", "");
    assert_eq!(status, 404);
    let seen = net.node.attempt(&["exec", "s/r1", "--", "ls", "/run/europa"]);
    assert!(!seen.status.success(), "{seen:?}");

    // The request holds after the node was killed, until another one ends it.
    let pid = net.node.kill("node");
    wait("the end of the node", Duration::from_secs(10), || {
        fs::metadata(format!("/proc/{pid}")).is_err()
    });
    net.node.up(&yaml);
    assert_eq!(net.page(&net.outside, "http://192.0.2.1:443/").as_deref(), Some("192.0.2.2"));
    let (status, answer) = net.door("s/r1", "DELETE", "/v1/slices/s/machine-ports/tcp/443", "");
    assert_eq!(status, 200, "{answer}");
    assert_eq!(net.page(&net.outside, "http://192.0.2.1:443/"), None);

    // A port that another program of the machine has is refused, with the reason.
    let taken = net.around.start(&["python3", "-m", "http.server", "8081"]).expect("a server");
    wait("the other program", Duration::from_secs(10), || {
        net.page(&net.around, "http://192.0.2.1:8081/").is_some()
    });
    let more = yaml.clone() + &slice("u", "r3", "{protocol: tcp, port: 8081}", "");
    let refused = net.node.attempt(&["apply", &net.node.file("more.yaml", &more)]);
    assert!(!refused.status.success());
    let said = refused.stderr + &refused.stdout;
    assert!(said.contains("tcp port 8081 of the machine: another program"), "{said}");
    drop(taken);
    net.node.run(&["down"]);
    assert_eq!(net.reserved_here(), "");
}

/// Processes that bind ports of their own at the same time, and say which.
const RACE: &str = r#"
import os, socket, time
start = time.time() + 1
for number in range(40):
    if os.fork() == 0:
        s = socket.socket()
        while time.time() < start: pass
        s.bind(("", 3000 + number))
        s.listen()
        time.sleep(600)
time.sleep(600)
"#;

#[test]
fn of_many_binds_at_once_as_many_get_a_port_as_are_reserved() {
    skip_without!("nft", "python3");
    let net = Net::new();
    let race = serde_json::json!(["python3", "-c", RACE]);
    let run = format!("  run: [{{name: race, command: {race}}}]\n");
    let five = [ANY; 5].join(", ");
    net.node.up(&slice("s", "r1", &five, &run));
    let insides =
        || -> Vec<u64> { net.ports("s").iter().filter_map(|one| one["inside"].as_u64()).collect() };
    wait("five", Duration::from_secs(20), || insides().len() == 5);
    let mut all = insides();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 5, "no port inside has two: {all:?}");
    assert!(all.iter().all(|inside| (3000..3040).contains(inside)), "{all:?}");
    // Clients' ports, and those of the loopback device, take none.
    let before = insides();
    let code = "import socket\na = socket.socket(); a.bind(('', 0))\n\
                b = socket.socket(); b.bind(('127.0.0.1', 99)); print(a.getsockname()[1])";
    net.node.run(&["exec", "s/r1", "--", "python3", "-c", code]);
    assert_eq!(insides(), before);
    net.node.run(&["down"]);
}
