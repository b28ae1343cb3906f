//! User parts of kernel routers: programs of the SDK with the packets that an XDP program redirects to
//! a socket map.

mod line;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{Node, europa, skip_without};
use line::{A, B, Line};

/// Passes frames between two devices. Packets to UDP ports 5000 to 5003 go to the user part, with
/// metadata: the device, and a mark.
const SPLIT: &str = r#"
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

SEC("xdp")
int split(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *ethernet = data;
	struct iphdr *ip = (void *)(ethernet + 1);
	struct ipv6hdr *ip6 = (void *)(ethernet + 1);
	struct udphdr *udp = 0;
	__u32 *note;

	if ((void *)(ip + 1) <= end && ethernet->h_proto == bpf_htons(ETH_P_IP) &&
	    ip->protocol == IPPROTO_UDP)
		udp = (void *)(ip + 1);
	else if ((void *)(ip6 + 1) <= end && ethernet->h_proto == bpf_htons(ETH_P_IPV6) &&
		 ip6->nexthdr == IPPROTO_UDP)
		udp = (void *)(ip6 + 1);
	if (!udp || (void *)(udp + 1) > end || bpf_ntohs(udp->dest) >> 2 != 5000 >> 2)
		return bpf_redirect(3 - ctx->ingress_ifindex, 0);
	if (bpf_xdp_adjust_meta(ctx, -8))
		return XDP_ABORTED;
	note = (void *)(long)ctx->data_meta;
	if ((void *)(note + 2) > (void *)(long)ctx->data)
		return XDP_ABORTED;
	note[0] = ctx->ingress_ifindex, note[1] = 0xc0ffee;
	return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_DROP);
}
char LICENSE[] SEC("license") = "Dual BSD/GPL";
"#;

/// Sends packets by the other interface, the first byte of whose metadata becomes the code point.
/// Packets without metadata are dropped. With an argument, changes Ethernet addresses: of packets to
/// port 5001, the source address to one of others.
const NOTE: &str = r#"
#include <stdio.h>
#include "europa.h"
#include "europa_packet.h"

static int address(const char *text, uint8_t *to)
{
	return sscanf(text, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", to, to + 1, to + 2, to + 3, to + 4,
		      to + 5) == 6;
}

int main(int count, char **words)
{
	struct europa_packet packet;
	struct europa pool;
	uint8_t next[2][6];

	if (europa_open(&pool) < 0 || pool.interfaces != 2)
		return 1;
	if (count == 3 && (!address(words[1], next[0]) || !address(words[2], next[1])))
		return 2;
	for (;;) {
		for (uint32_t from = 0; from < 2; from++)
			while (europa_receive(&pool, from, &packet)) {
				const uint32_t *note = (const void *)packet.metadata;

				if (packet.metadata_length != 8 || note[0] != from + 1 ||
				    note[1] != 0xc0ffee) {
					europa_drop(&pool, &packet);
					continue;
				}
				europa_set_dscp(packet.data, packet.length, 40 + note[0]);
				if (count == 3) {
					memcpy(packet.data, next[1 - from], 6);
					memcpy(packet.data + 6, europa_mac(&pool, 1 - from), 6);
					if (packet.length > 38 && packet.data[37] == (5001 & 255))
						packet.data[11] ^= 0x40;
				}
				if (!europa_send(&pool, 1 - from, &packet))
					europa_drop(&pool, &packet);
			}
		europa_wait(&pool);
	}
}
"#;

/// The same in Python. The folder of the SDK is the argument.
const NOTE_IN_PYTHON: &str = r#"
import struct, sys
sys.path.insert(0, sys.argv[1])
from europa import Pool
from europa_packet import set_dscp

pool = Pool()
while True:
    for number in (0, 1):
        for packet in pool.receive(number):
            if packet.front != struct.pack("=II", number + 1, 0xC0FFEE):
                pool.drop(packet)
                continue
            set_dscp(packet, 41 + number)
            pool.send(1 - number, packet)
    pool.wait()
"#;

fn sdk() -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk");
    path.canonicalize().expect("the SDK")
}

/// Files that routers name: XDP program, and user parts.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Files {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in [("split.bpf.c", SPLIT), ("note.c", NOTE), ("note.py", NOTE_IN_PYTHON)]
        {
            fs::write(folder.path().join(name), text).expect("a file");
        }
        // The program runs under a user of its own.
        let mut open = Command::new("chmod");
        assert!(open.arg("755").arg(folder.path()).status().is_ok_and(|done| done.success()));
        Files(folder)
    }

    fn at(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// Compiles a user part in C; returns its file.
    fn compiled(&self, source: &str, name: &str) -> String {
        let mut command = Command::new("cc");
        command.args(["-std=gnu11", "-O2", "-Wall", "-Werror", "-I"]).arg(sdk().join("c"));
        let done = command.args(["-o", &self.at(name), source]).output().expect("cc runs");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        self.at(name)
    }
}

/// The fast path of a router with this user part.
fn fast_path(files: &Files, command: &str) -> String {
    let user = match command {
        "" => String::new(),
        command => format!("    user: {{program: [{command}]}}\n"),
    };
    format!("fast_path:\n  xdp:\n    source: {}\n{user}", files.at("split.bpf.c"))
}

/// A kernel router between hosts `a` and `b`, with this user part.
fn between_hosts(files: &Files, command: &str) -> String {
    let mut text = format!(
        "kind: slice\nname: red\nprograms: operator\n---\nkind: router\nname: r\nslice: red\n\
         run: kernel\ninterfaces: {{a: {{link: a}}, b: {{link: b}}}}\n{}",
        fast_path(files, command)
    );
    for (host, last) in [("a", 1), ("b", 2)] {
        text += &format!(
            "---\nkind: link\nname: {host}\n---\nkind: host\nname: {host}\n\
             interfaces: {{eth0: {{link: {host}, addresses: [10.0.0.{last}/24, \"fd00::{last}/64\"]}}}}\n"
        );
    }
    text
}

fn told(node: &Node) -> String {
    format!(
        "{}\n{}\n{}",
        node.run(&["stats"]),
        node.run(&["events"]),
        node.run(&["logs", "red/r@user"])
    )
}

fn until(node: &Node, what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(15), "{what}: {}", told(node));
        sleep(Duration::from_millis(20));
    }
}

/// Drops of a router's interfaces by this cause.
fn drops(node: &Node, router: &str, cause: &str) -> u64 {
    let stats = node.stats();
    let routers = stats["routers"].as_array().expect("routers");
    let router = routers.iter().find(|one| one["name"] == router).expect("the router");
    let interfaces = router["interfaces"].as_array().expect("interfaces");
    let all = interfaces.iter().flat_map(|one| one["drops"].as_array().expect("causes"));
    all.filter(|drop| drop[0] == cause).filter_map(|drop| drop[1].as_u64()).sum()
}

/// Whether a packet to the user part arrives from `a` at `b`.
fn arrives(node: &Node, at: &str) -> bool {
    let sink = node.host("b").sink(at, 7).expect("a sink");
    let stream = node.host("a").stream(at, 7, 500, 64).expect("a stream");
    sleep(Duration::from_millis(100));
    stream.stop();
    sleep(Duration::from_millis(50));
    sink.packets() > 0
}

/// Numbered streams both ways pass the user part without loss, and get these code points.
fn marks(node: &Node, codes: [u8; 2], act: impl FnOnce()) {
    until(node, "packets pass the user part", || arrives(node, "10.0.0.2:5003"));
    let mut captures = Vec::new();
    let mut streams = Vec::new();
    for (number, from, to, at) in [(1, "a", "b", "10.0.0.2:5000"), (2, "b", "a", "[fd00::1]:5001")]
    {
        let filter = format!("udp port {}", &at[at.len() - 4..]);
        captures.push(node.host(to).capture("eth0", &filter).expect("a capture"));
        let sink = node.host(to).sink(at, number).expect("a sink");
        let stream = node.host(from).stream_of(at, number, 3_000, &[32, 200, 1400]);
        streams.push((stream.expect("a stream").paced_by(&sink), sink));
    }
    sleep(Duration::from_millis(300));
    act();
    sleep(Duration::from_millis(500));
    for (stream, sink) in streams {
        let sent = stream.stop();
        let received = sink.stop(sent);
        assert!(received.is_perfect() && sent > 200, "{sent} sent: {received:?}\n{}", told(node));
    }
    for (capture, code) in captures.into_iter().zip(codes) {
        let frames = capture.stop().expect("it ends").frames().expect("packets");
        let code_of = |frame: &Vec<u8>| match frame[12] {
            8 => frame[15] >> 2,
            _ => (frame[14] << 4 | frame[15] >> 4) >> 2,
        };
        let found: Vec<u8> = frames.iter().map(code_of).collect();
        assert!(found.len() > 100 && found.iter().all(|of| *of == code), "{code}: {found:?}");
    }
    // All other packets leave from the kernel.
    for to in ["10.0.0.2", "fd00::2"] {
        until(node, "a ping", || {
            node.host("a").ping(to, 3, &["-i", "0.05"]).is_ok_and(|ping| ping.is_perfect())
        });
    }
}

#[test]
fn user_parts_in_c_python_and_rust_get_what_sockets_would() {
    skip_without!("ping", "nsenter", "clang", "cc", "tcpdump", "python3");
    let files = Files::new();
    let node = Node::new(None);
    let note = files.compiled(&files.at("note.c"), "note");
    node.up(&between_hosts(&files, &note));
    marks(&node, [41, 42], || ());
    assert!(node.run(&["stats"]).contains("red/r@user"));

    // A killed node loses no packet of the user part, and the next one adopts it.
    let text = between_hosts(&files, &note);
    marks(&node, [41, 42], || {
        node.kill("node");
        node.up(&text);
    });
    // A killed user part starts again.
    node.kill("program");
    marks(&node, [41, 42], || ());

    let apply = |command: &str| {
        let file = node.file("other.yaml", &between_hosts(&files, command));
        node.run(&["apply", &file]);
    };
    let sdk = sdk().join("python").display().to_string();
    apply(&format!("/usr/bin/python3, {}, {sdk}", files.at("note.py")));
    marks(&node, [41, 42], || ());
    // The example of the crate europa-dataplane marks packets to an address.
    let rust = europa().with_file_name("my-program").display().to_string();
    apply(&format!("{rust}, 10.0.0.2"));
    marks(&node, [46, 0], || ());

    // Without a user part its packets are the slow path's, and there is none.
    apply("");
    until(&node, "dropped by their own cause", || {
        let arrived = arrives(&node, "10.0.0.2:5000");
        !arrived && drops(&node, "red/r", "passed, but there is no slow path") > 0
    });
    let stats = node.stats();
    assert!(stats["routers"].as_array().is_some_and(|all| all.len() == 1), "{stats}");
    apply(&note);
    marks(&node, [41, 42], || ());
}

#[test]
fn a_user_part_sends_as_its_router_may() {
    skip_without!("ping", "nsenter", "clang", "cc");
    let files = Files::new();
    let line = Line::new();
    let note = files.compiled(&files.at("note.c"), "note");
    let text = format!(
        "kind: port\nname: left\ndevice: eu-left\n---\nkind: port\nname: right\ndevice: eu-right\n---\n\
         kind: slice\nname: red\nprograms: operator\n---\nkind: router\nname: r\nslice: red\n\
         run: kernel\ninterfaces:\n  l: {{port: left, mac: '{}'}}\n\
         \x20 r: {{port: right, mac: '{}', bind: [10.0.1.0/24]}}\n{}",
        line::IN,
        line::OUT,
        fast_path(&files, &format!("{note}, '{A}', '{B}'")),
    );
    let node = &line.node;
    node.up(&text);
    line.a.neighbour("10.0.1.1", line::IN, "eth0").expect("a neighbour");
    let offered = |to: &str| {
        let sink = line.b.sink(to, 3).expect("a sink");
        let stream = line.a.stream(to, 3, 1_000, 64).expect("a stream");
        sleep(Duration::from_millis(200));
        stream.stop();
        sleep(Duration::from_millis(50));
        sink.packets()
    };
    until(node, "packets pass the user part", || offered("10.0.2.2:5000") > 0);
    // The user part forges the source address of others; a filter of source addresses holds.
    assert_eq!(offered("10.0.2.2:5001"), 0);
    assert!(drops(node, "red/r@user", "foreign source MAC address") > 0, "{}", told(node));
    line.a.address("eth0", "10.0.9.9/32").expect("an address");
    line.a
        .ip(&["route", "replace", "10.0.2.0/24", "via", "10.0.1.1", "src", "10.0.9.9"])
        .expect("a route");
    assert_eq!(offered("10.0.2.2:5000"), 0);
    assert!(drops(node, "red/r@user", "source address not bound") > 0, "{}", told(node));
}

#[test]
fn mistakes_in_a_user_part_are_told() {
    skip_without!("nsenter", "clang", "cc");
    let files = Files::new();
    let node = Node::new(None);
    let note = files.compiled(&files.at("note.c"), "note");
    node.up(&between_hosts(&files, &note));
    for (command, part) in [
        ("plane", "is no path from the root"),
        ("/nowhere/plane", "No such file"),
        ("/etc/passwd", "cannot be executed by everybody"),
    ] {
        let wrong = node.file("wrong.yaml", &between_hosts(&files, command));
        let output = node.attempt(&["apply", &wrong]);
        assert!(!output.status.success() && output.stderr.contains(part), "{}", output.stderr);
    }
    let none = between_hosts(&files, &note).replace(&format!("[{note}]"), "[]");
    let output = node.attempt(&["apply", &node.file("none.yaml", &none)]);
    assert!(output.stderr.contains("a user part needs `program`"), "{}", output.stderr);
    assert!(arrives(&node, "10.0.0.2:5000"), "{}", told(&node));
}
