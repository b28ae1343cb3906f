//! Kernel routers from sources in C, their links to other routers, and queues for their frames,
//! with real traffic.

mod line;

use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{Node, Received, skip_without};
use line::Line;

/// Passes frames between its first two devices, except those to a closed UDP port.
const FORWARD: &str = r#"
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "closed.h"

SEC("xdp")
int forward(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *ethernet = data;
	struct iphdr *ip = (void *)(ethernet + 1);
	struct udphdr *udp = (void *)(ip + 1);

	if ((void *)(udp + 1) <= end && ethernet->h_proto == bpf_htons(ETH_P_IP) &&
	    ip->protocol == IPPROTO_UDP && udp->dest == bpf_htons(closed_port))
		return XDP_DROP;
	return bpf_redirect(3 - ctx->ingress_ifindex, 0);
}
char LICENSE[] SEC("license") = "Dual BSD/GPL";
"#;

/// A folder with the source of [`FORWARD`], and the path of the source.
fn sources() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("forward.c"), FORWARD).expect("a source");
    let header = "const volatile __u16 closed_port = 5999;\n";
    fs::write(folder.path().join("closed.h"), header).expect("a header");
    let source = folder.path().join("forward.c").display().to_string();
    (folder, source)
}

/// A slice whose programs run in the kernel, and hosts `a` and `b`, each at a link of its name.
fn hosts() -> String {
    let mut text = "kind: slice\nname: red\nprograms: operator\n".to_owned();
    for (host, last) in [("a", 1), ("b", 2)] {
        text += &format!(
            "---\nkind: link\nname: {host}\n---\nkind: host\nname: {host}\n\
             interfaces: {{eth0: {{link: {host}, addresses: [10.0.0.{last}/24]}}}}\n"
        );
    }
    text
}

/// A kernel router of two interfaces.
fn router(name: &str, source: &str, interfaces: &str) -> String {
    format!(
        "---\nkind: router\nname: {name}\nslice: red\nrun: kernel\n\
         interfaces: {{{interfaces}}}\nfast_path: {{xdp: {{source: {source}}}}}\n"
    )
}

fn pings(node: &Node) {
    let begun = Instant::now();
    while !node.host("a").ping("10.0.0.2", 3, &["-i", "0.1"]).is_ok_and(|ping| ping.is_perfect()) {
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "{}\n{}",
            node.run(&["stats"]),
            node.run(&["events"])
        );
    }
}

#[test]
fn a_source_in_c_becomes_a_router() {
    skip_without!("ping", "nsenter", "clang", "curl");
    let (folder, source) = sources();
    let node = Node::new(None);
    let text = hosts() + &router("r", &source, "a: {link: a}, b: {link: b}");
    node.up(&text);
    pings(&node);
    let value = |name: &str| node.run(&["read", "red/r", name]).trim().to_owned();
    assert_eq!(value("closed_port"), "5999");

    // The same source gives the same object in every folder.
    let file = node.file("same.yaml", &text);
    let same = node.attempt(&["diff", "--exit-code", &file]);
    assert!(same.status.success(), "{}{}", same.stdout, same.stderr);
    // Another source replaces it.
    fs::write(folder.path().join("closed.h"), "const volatile __u16 closed_port = 5001;\n")
        .expect("a header");
    let said = node.run(&["apply", &file]);
    assert!(said.contains("fast_path.xdp"), "{said}");
    let begun = Instant::now();
    while value("closed_port") != "5001" {
        assert!(begun.elapsed() < Duration::from_secs(10), "{}", node.run(&["events"]));
    }
    pings(&node);

    // Mistakes appear in the words of clang and the verifier, and nothing changes.
    let wrong = |old: &str, new: &str| {
        fs::write(&source, FORWARD.replace(old, new)).expect("a source");
        node.attempt(&["apply", &file])
    };
    let output = wrong("XDP_DROP", "XDP_DRIP");
    assert_eq!(output.status.code(), Some(4), "{}", output.stderr);
    for part in ["does not compile", "same.yaml:", "use of undeclared identifier 'XDP_DRIP'"] {
        assert!(output.stderr.contains(part), "{part} is not in\n{}", output.stderr);
    }
    let output = wrong("(void *)(udp + 1) <= end &&", "");
    let line = FORWARD.lines().position(|line| line.contains("h_proto")).expect("a line") + 1;
    for part in [&format!("forward.c:{line}"), "beyond what was compared with `data_end`"] {
        assert!(output.stderr.contains(part), "{part} is not in\n{}", output.stderr);
    }
    let output = wrong("closed.h", "/etc/shadow");
    assert_eq!(output.status.code(), Some(4), "{}", output.stderr);
    assert!(!output.stderr.contains("root:"), "{}", output.stderr);
    pings(&node);

    // The node compiles a text that comes without its object.
    let whole =
        FORWARD.replace("#include \"closed.h\"", "const volatile __u16 closed_port = 5002;");
    let request = serde_json::json!({
        "sources": [{"path": "r.yaml", "text": text.replace(&source, "f.c")}],
        "files": {"f.c": whole},
    });
    let request = node.file("request.json", &request.to_string());
    let socket = node.directory().join("node.sock").display().to_string();
    let output = Command::new("curl")
        .args(["-s", "--unix-socket", &socket, "-H", "content-type: application/json"])
        .args(["--data-binary", &format!("@{request}"), "http://europa/v1/apply"])
        .output()
        .expect("curl");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("\"revision\""), "{said}");
    let begun = Instant::now();
    while value("closed_port") != "5002" {
        assert!(begun.elapsed() < Duration::from_secs(10), "{said}\n{}", node.run(&["events"]));
    }
    pings(&node);
}

#[test]
fn a_router_enters_the_kernel_and_leaves_it_without_loss() {
    skip_without!("ping", "nsenter", "clang");
    let (_folder, source) = sources();
    let node = Node::new(None);
    let kernel = hosts() + &router("r", &source, "x: {link: a}, y: {link: b}");
    let process = hosts() + &isolated("r", ["{link: a}", "{link: b}"]);
    node.up(&process);
    pings(&node);
    let into = node.file("kernel.yaml", &kernel);
    let out = node.file("process.yaml", &process);
    while_moving(&node, "into the kernel", || {
        let said = node.run(&["apply", &into]);
        assert!(said.contains("hot swap"), "{said}");
    });
    // The router's process sees none of the frames now.
    let sent = || node.counters()["red/r.y"].tx;
    while_streaming(&node, "in the kernel", || ());
    assert_eq!(node.run(&["read", "red/r", "passed.count"]).trim(), "0");
    let before = sent();
    while_moving(&node, "out of the kernel", || drop(node.run(&["apply", &out])));
    assert!(sent() > before);
    // The router's process sees the frames now.
    assert!(!node.attempt(&["read", "red/r", "passed.count"]).status.success());
    while_moving(&node, "there and back", || {
        node.run(&["apply", &into]);
        node.run(&["apply", &out]);
    });
}

#[test]
fn frames_are_followed_through_the_program() {
    skip_without!("ping", "nsenter", "clang");
    let (_folder, source) = sources();
    let node = Node::new(None);
    node.up(&(hosts() + &router("r", &source, "a: {link: a}, b: {link: b}")));
    pings(&node);
    let follow = |filter: &str, send: &dyn Fn()| {
        let mut trace = node.start(&["trace", "red/r", filter]);
        // The command prints when it has begun.
        let begun = Instant::now();
        while !trace.stderr().contains("end with Ctrl-C") {
            assert!(begun.elapsed() < Duration::from_secs(5), "{}", trace.stderr());
            sleep(Duration::from_millis(10));
        }
        send();
        while trace.is_running() {
            assert!(begun.elapsed() < Duration::from_secs(15), "{}", trace.stdout());
            sleep(Duration::from_millis(10));
        }
        trace.stdout()
    };
    let said = follow("icmp and dst host 10.0.0.2", &|| pings(&node));
    for part in
        ["#k1 ", "received by red/r.a, in the kernel", "#k1 red/r.b: left by", "from the kernel"]
    {
        assert!(said.contains(part), "{part} is not in\n{said}");
    }
    let said = follow("udp dst port 5999", &|| {
        let stream = node.host("a").stream("10.0.0.2:5999", 1, 100, 64).expect("a stream");
        sleep(Duration::from_millis(200));
        stream.stop();
    });
    assert!(said.contains("#k1 red/r.a: DROPPED: dropped by the XDP program"), "{said}");
}

/// Sends frames that arrive by device 2 back there, and all others on.
const REFLECT: &str = r#"
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int reflect(struct xdp_md *ctx)
{
	return ctx->ingress_ifindex == 2 ? XDP_TX : bpf_redirect(2, 0);
}
char LICENSE[] SEC("license") = "Dual BSD/GPL";
"#;

/// A process router that passes frames from its first interface to the second, and back.
fn isolated(name: &str, interfaces: [&str; 2]) -> String {
    let [x, y] = interfaces;
    format!(
        "---\nkind: router\nname: {name}\nslice: red\ninterfaces: {{x: {x}, y: {y}}}\nfast_path:\n\
         \x20 click: |\n\
         \x20   FromDevice(x, PROMISC true) -> Queue(4096) -> ToDevice(y);\n\
         \x20   FromDevice(y, PROMISC true) -> Queue(4096) -> ToDevice(x);\n"
    )
}

/// Numbered streams both ways between the two hosts: nothing is lost, late or changed meanwhile.
fn while_streaming(node: &Node, what: &str, act: impl FnOnce()) {
    stream_while(node, what, act, Received::is_perfect);
}

/// The same, where frames on another way may overtake others.
fn while_moving(node: &Node, what: &str, act: impl FnOnce()) {
    stream_while(node, what, act, |received| {
        Received { late: 0, ..received.clone() }.is_perfect() && received.late < 1000
    });
}

fn stream_while(node: &Node, what: &str, act: impl FnOnce(), is_right: impl Fn(&Received) -> bool) {
    let mut streams = Vec::new();
    for (number, from, to, at) in [(1, "a", "b", "10.0.0.2:5000"), (2, "b", "a", "10.0.0.1:5000")] {
        let sink = node.host(to).sink(at, number).expect("a sink");
        let stream = node.host(from).stream_of(at, number, 5_000, &[32, 200, 1472]);
        streams.push((stream.expect("a stream").paced_by(&sink), sink));
    }
    sleep(Duration::from_millis(300));
    act();
    sleep(Duration::from_millis(300));
    for (stream, sink) in streams {
        let sent = stream.stop();
        let received = sink.stop(sent);
        assert!(
            is_right(&received) && sent > 200,
            "{what}: {sent} sent: {received:?}\n{}",
            node.run(&["stats"])
        );
    }
}

/// Packets dropped for this cause, at all interfaces.
fn dropped(node: &Node, cause: &str) -> u64 {
    node.counters().values().filter_map(|one| one.drops.get(cause)).sum()
}

/// Waits until `wanted` packets were dropped for this cause.
fn await_dropped(node: &Node, cause: &str, wanted: u64) {
    let begun = Instant::now();
    while dropped(node, cause) < wanted {
        assert!(begun.elapsed() < Duration::from_secs(5), "{cause}\n{}", node.run(&["stats"]));
    }
}

#[test]
fn kernel_routers_have_links_to_other_routers() {
    skip_without!("ping", "nsenter", "clang", "iperf3");
    let (_folder, source) = sources();
    let node = Node::new(None);
    // a - r1 - r2 - r3 - b; r3 is a process.
    let text = |end: &str| {
        hosts()
            + &router("r1", &source, "a: {link: a}, b: {link: l1}")
            + &router("r2", &source, "a: {link: l1}, b: {link: l2}")
            + end
    };
    let process = isolated("r3", ["{link: l2}", "{link: b}"]);
    node.up(&text(&process));
    pings(&node);
    while_streaming(&node, "kernel, kernel, process", || ());
    // TCP uses all offloads of a device, and checksums are right.
    let server = node.host("b").iperf_server().expect("a server");
    let measured = node.host("a").iperf("10.0.0.2", 1, &[]).expect("iperf3");
    assert!(measured.bits_per_second > 50e6, "{} Mb/s", measured.bits_per_second / 1e6);
    drop(server);

    // A link works on while its node, its switch and its processes are killed and restarted.
    while_streaming(&node, "killed", || {
        node.kill("node");
        node.up(&text(&process));
    });

    // The process router becomes a kernel router too: three of them in a row.
    let kernel = router("r3", &source, "x: {link: l2}, y: {link: b}");
    let file = node.file("kernel.yaml", &text(&kernel));
    node.run(&["apply", &file]);
    pings(&node);
    while_streaming(&node, "three in a row", || ());
    assert_eq!(dropped(&node, "too many kernel routers in a row"), 0);

    // An end of the link is removed and added: the link works again.
    node.run(&["delete", "router", "red/r3"]);
    assert!(!node.host("a").ping("10.0.0.2", 1, &["-W", "1"]).is_ok_and(|ping| ping.received > 0));
    node.run(&["apply", &node.file("process.yaml", &text(&process))]);
    pings(&node);
    // Nothing is left of removed links.
    node.run(&["apply", "--prune", &node.file("hosts.yaml", &hosts())]);
    let namespace = format!("europa.{}..slow", node.instance());
    let devices = Command::new("ip").args(["-n", &namespace, "-br", "link"]).output().expect("ip");
    let devices = String::from_utf8_lossy(&devices.stdout).into_owned();
    assert!(!devices.contains('@'), "{devices}");
}

#[test]
fn frames_cross_four_links_of_kernel_routers() {
    skip_without!("nsenter", "clang");
    let (folder, forward) = sources();
    fs::write(folder.path().join("reflect.c"), REFLECT).expect("a source");
    let reflect = folder.path().join("reflect.c").display().to_string();
    let node = Node::new(None);
    // Two routers send each other every frame that arrives over the link between them.
    let text = hosts()
        + &router("r1", &reflect, "a: {link: a}, l: {link: l}")
        + &router("r2", &reflect, "b: {link: b}, l: {link: l}");
    node.up(&text);
    let peer = |node: &Node| {
        let stats = node.stats();
        let hosts = stats["hosts"].as_array().expect("hosts");
        let b = hosts.iter().find(|host| host["name"] == "b").expect("a host");
        let mac = b["interfaces"][0]["mac"].as_str().expect("an address");
        node.host("a").neighbour("10.0.0.2", mac, "eth0").expect("a neighbour");
    };
    peer(&node);
    let stream = node.host("a").stream("10.0.0.2:5000", 1, 1_000, 100).expect("a stream");
    sleep(Duration::from_millis(300));
    let sent = stream.stop();
    await_dropped(&node, "too many kernel routers in a row", sent);
    // Each of them has crossed the link four times.
    let counters = node.counters();
    let crossed = counters["red/r1.l"].tx + counters["red/r2.l"].tx;
    assert!(crossed >= 4 * sent && crossed <= 4 * (sent + 20), "{crossed} of {sent}");

    // A link's MTU may exceed the longest frame of kernel routers. `apply` reports it, and longer
    // frames are counted.
    let long = |text: &str| text.replace("link: l}", "link: l, mtu: 9000}");
    let text = hosts().replace("{link: a,", "{link: a, mtu: 9000,")
        + &long(&router("r1", &forward, "a: {link: a, mtu: 9000}, l: {link: l}"))
        + &long(&router("r2", &forward, "l: {link: l}, b: {link: b}"));
    let said = node.attempt(&["apply", &node.file("long.yaml", &text)]);
    assert!(said.status.success(), "{}", said.stderr);
    let said = said.stdout + &said.stderr;
    assert!(said.contains("up to 3394 bytes over link \"l\""), "{said}");
    peer(&node);
    let sink = node.host("b").sink("10.0.0.2:5000", 2).expect("a sink");
    for (bytes, arrives) in [(1_400, true), (4_000, false)] {
        let stream = node.host("a").stream("10.0.0.2:5000", 2, 1_000, bytes).expect("a stream");
        sleep(Duration::from_millis(300));
        let sent = stream.stop();
        match arrives {
            true => assert!(sink.packets() > sent / 2, "{}", node.run(&["stats"])),
            false => await_dropped(&node, "too long for a kernel router's link", sent),
        }
    }
    drop(sink);
}

/// Packets a second that arrive at `b` while `a` sends much more than its port's rate.
fn rate_of_flood(line: &Line, bytes: usize) -> f64 {
    let sink = line.b.sink("10.0.9.2:5000", 7).expect("a sink");
    let flood = line.a.stream("10.0.9.2:5000", 7, 20_000, bytes).expect("a stream");
    sleep(Duration::from_millis(300));
    let (begun, before) = (Instant::now(), sink.packets());
    sleep(Duration::from_secs(1));
    let rate = (sink.packets() - before) as f64 / begun.elapsed().as_secs_f64();
    flood.stop();
    rate
}

#[test]
fn nothing_that_a_kernel_router_sends_escapes_its_queue() {
    skip_without!("ping", "clang");
    let (_folder, source) = sources();
    let line = Line::new();
    for (host, last) in [(&line.a, 1), (&line.b, 2)] {
        host.address("eth0", &format!("10.0.9.{last}/24")).expect("an address");
    }
    let text = |rate: &str, more: &str| {
        format!(
            "kind: port\nname: left\ndevice: eu-left\n---\n\
             kind: port\nname: right\ndevice: eu-right\n{rate}---\n\
             kind: slice\nname: red\nprograms: operator\n{}{more}",
            router(
                "r",
                &source,
                "a: {port: left, match: {all: true}}, b: {port: right, match: {all: true}}"
            )
        )
    };
    line.node.up(&text("rate: 20Mb/s\n", ""));
    let ping = |wanted: bool| {
        let begun = Instant::now();
        let answers = || line.a.ping("10.0.9.2", 3, &["-i", "0.1"]);
        while answers().is_ok_and(|ping| ping.is_perfect()) != wanted {
            assert!(begun.elapsed() < Duration::from_secs(10), "{}", line.node.run(&["stats"]));
        }
    };
    ping(true);
    // Each packet has 1042 bytes on the wire: 2399 packets a second.
    let rate = rate_of_flood(&line, 1000);
    assert!((2100.0..2600.0).contains(&rate), "{rate} packets/s\n{}", line.node.run(&["stats"]));
    let lost = ["port queue full", "no free slot", "receive ring full"];
    let lost: u64 = lost.iter().map(|cause| dropped(&line.node, cause)).sum();
    assert!(lost > 0, "{}", line.node.run(&["stats"]));
    // Below the rate nothing is lost, once the waiting frames have left.
    let begun = Instant::now();
    let is_quick = || {
        let ping = line.a.ping("10.0.9.2", 1, &["-W", "1"]);
        ping.is_ok_and(|ping| ping.median().is_some_and(|time| time < Duration::from_millis(50)))
    };
    while !is_quick() {
        assert!(begun.elapsed() < Duration::from_secs(10), "{}", line.node.run(&["stats"]));
    }
    let sink = line.b.sink("10.0.9.2:5000", 8).expect("a sink");
    let stream = line.a.stream("10.0.9.2:5000", 8, 1_500, 1_000).expect("a stream").paced_by(&sink);
    sleep(Duration::from_millis(500));
    let sent = stream.stop();
    let received = sink.stop(sent);
    assert!(received.is_perfect() && sent > 400, "{sent} sent: {received:?}");

    // A slice's filters take effect.
    let filters = "---\nkind: filters\nname: f\nslice: red\n\
                   rules: [{protocol: udp, destination_port: 5000, action: drop}]\n";
    line.node.run(&["apply", &line.node.file("filters.yaml", &text("", filters))]);
    ping(true);
    assert!(rate_of_flood(&line, 100) < 1.0, "{}", line.node.run(&["stats"]));
    assert!(dropped(&line.node, "dropped by a filter") > 100);

    // Without a rate and filters, the kernel sends frames at once.
    line.node.run(&["apply", "--prune", &line.node.file("free.yaml", &text("", ""))]);
    ping(true);
    let rate = rate_of_flood(&line, 1000);
    assert!(rate > 8000.0, "{rate} packets/s\n{}", line.node.run(&["stats"]));
}

#[test]
fn a_line_delays_what_a_kernel_router_sends() {
    skip_without!("ping", "nsenter", "clang");
    let (_folder, source) = sources();
    let node = Node::new(None);
    let text = hosts()
        + "---\nkind: link\nname: l\ndelay: 20ms\n"
        + &router("r1", &source, "a: {link: a}, b: {link: l}")
        + &isolated("r2", ["{link: l}", "{link: b}"]);
    node.up(&text);
    pings(&node);
    let ping = node.host("a").ping("10.0.0.2", 5, &["-i", "0.1"]).expect("ping");
    let median = ping.median().expect("answers");
    assert!((40..60).contains(&median.as_millis()), "{median:?}");
    while_streaming(&node, "a line", || ());
}
