//! A tenant's XDP program in user mode. `europa compile` compiles it; the element XDP runs it in an
//! isolated router with real traffic, and in `europa click`; `europa check` reports its mistakes.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{Node, europa, skip_without};

/// Passes frames on between two devices, counts them, and closes a UDP port.
const FORWARD: &str = r#"
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "common.h"

const volatile __u16 closed_port = 5999;

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 8);
	__type(key, __u32);
	__type(value, __u32);
} ports SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __u8);
	__type(value, struct count);
} counts SEC(".maps");

SEC("xdp")
int forward(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *ethernet = data;
	struct iphdr *ip = (void *)(ethernet + 1);

	if ((void *)(ip + 1) <= end && ethernet->h_proto == bpf_htons(ETH_P_IP)) {
		struct udphdr *udp = (void *)(ip + 1);
		__u8 protocol = ip->protocol;
		struct count *count = bpf_map_lookup_elem(&counts, &protocol), first = {1, end - data};

		if (count) {
			count->packets++;
			count->bytes += end - data;
		} else {
			bpf_map_update_elem(&counts, &protocol, &first, BPF_ANY);
		}
		if (protocol == IPPROTO_UDP && (void *)(udp + 1) <= end &&
		    udp->dest == bpf_htons(closed_port))
			return XDP_DROP;
	}
	return bpf_redirect_map(&ports, ctx->ingress_ifindex, XDP_ABORTED);
}
char LICENSE[] SEC("license") = "Dual BSD/GPL";
"#;
const COMMON: &str = "struct count {\n\t__u64 packets;\n\t__u64 bytes;\n};\n";

/// Runs `europa` in a folder.
fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(europa());
    command.current_dir(folder).args(arguments).output().expect("europa runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A folder with the program, compiled.
fn compiled() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("forward.bpf.c"), FORWARD).expect("a source");
    fs::write(folder.path().join("common.h"), COMMON).expect("a header");
    let output = run(folder.path(), &["compile", "forward.bpf.c", "-o", "forward.o"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.contains("program forward (section xdp)") && said.contains("ports"), "{said}");
    folder
}

/// A router between hosts `a` and `b`.
fn document(file: &Path, arguments: &str) -> String {
    let file = file.display();
    let mut text = format!(
        "kind: slice\nname: red\n---\nkind: router\nname: r\nslice: red\ninterfaces:\n\
         \x20 a: {{link: a}}\n  b: {{link: b}}\ngrants: [{{read: {file}}}]\nfast_path:\n  click: |\n\
         \x20   x :: XDP({file}, forward, MAPS \"ports 1=2; ports 2=1\"{arguments});\n\
         \x20   FromDevice(a, PROMISC true) -> [0]x; FromDevice(b, PROMISC true) -> [1]x;\n\
         \x20   x[0] -> Discard; x[1] -> Queue(4096) -> ToDevice(a);\n\
         \x20   x[2] -> Queue(4096) -> ToDevice(b);\n"
    );
    for (host, last) in [("a", 1), ("b", 2)] {
        text += &format!(
            "---\nkind: link\nname: {host}\n---\nkind: host\nname: {host}\n\
             interfaces: {{eth0: {{link: {host}, addresses: [10.0.0.{last}/24]}}}}\n"
        );
    }
    text
}

fn pings(node: &Node) {
    let begun = Instant::now();
    while !node.host("a").ping("10.0.0.2", 3, &["-i", "0.1"]).is_ok_and(|ping| ping.is_perfect()) {
        assert!(begun.elapsed() < Duration::from_secs(20), "{}", node.run(&["logs", "red/r"]));
    }
}

/// Packets of UDP that the program has counted.
fn counted(node: &Node) -> u64 {
    let value = node.run(&["read", "red/r", "x.counts", "17"]);
    let (_, rest) = value.split_once("packets: ").expect("a count");
    rest.split(',').next().expect("a number").parse().expect("a number")
}

#[test]
fn a_program_forwards_in_an_isolated_router() {
    skip_without!("ping", "nsenter", "clang");
    let folder = compiled();
    let object = folder.path().join("forward.o");
    let node = Node::new(None);
    node.up(&document(&object, ""));
    pings(&node);

    // Everything arrives once, in order and unchanged, both ways.
    let mut streams = Vec::new();
    for (number, from, to, at) in [(1, "a", "b", "10.0.0.2:5000"), (2, "b", "a", "10.0.0.1:5000")] {
        let sink = node.host(to).sink(at, number).expect("a sink");
        let stream =
            node.host(from).stream_of(at, number, 5_000, &[32, 200, 1472]).expect("a stream");
        streams.push((stream.paced_by(&sink), sink));
    }
    sleep(Duration::from_secs(1));
    let mut all = 0;
    for (stream, sink) in streams {
        let sent = stream.stop();
        let received = sink.stop(sent);
        assert!(received.is_perfect() && sent > 200, "{sent} sent: {received:?}");
        all += sent;
    }
    let before = counted(&node);
    assert!(before >= all, "{before} of {all}");

    // The closed port is closed, and a written constant closes another one.
    let dropped =
        || -> u64 { node.run(&["read", "red/r", "x.dropped"]).trim().parse().expect("a number") };
    assert_eq!(dropped(), 0);
    node.run(&["write", "red/r", "x.closed_port", "5001"]);
    let sink = node.host("b").sink("10.0.0.2:5001", 3).expect("a sink");
    let stream = node.host("a").stream("10.0.0.2:5001", 3, 500, 64).expect("a stream");
    let begun = Instant::now();
    while dropped() < 50 {
        assert!(begun.elapsed() < Duration::from_secs(10), "nothing is dropped");
    }
    stream.stop();
    assert_eq!(sink.packets(), 0);

    // With another configuration the program restarts, and its maps stay.
    let before = counted(&node);
    let file = node.file("other.yaml", &document(&object, ", CONSTANTS \"closed_port 7\""));
    node.run(&["apply", &file]);
    pings(&node);
    assert!(counted(&node) >= before, "{} after {before}", counted(&node));
    assert_eq!(node.run(&["read", "red/r", "x.closed_port"]).trim(), "7");
    node.run(&["write", "red/r", "x.ports", "-1"]);
    assert!(
        !node
            .host("a")
            .ping("10.0.0.2", 2, &["-i", "0.1", "-W", "1"])
            .is_ok_and(|p| p.received > 0)
    );

    // Without the grant, or with a mistake, the error is shown in the document.
    let wrong = document(&object, ", CONSTANTS \"none 7\"");
    let output = node.attempt(&["apply", &node.file("wrong.yaml", &wrong)]);
    assert!(output.stderr.contains("no constant 'none'"), "{}", output.stderr);
    let wrong = document(&object, "").replace("grants", "# grants");
    let output = node.attempt(&["apply", &node.file("wrong.yaml", &wrong)]);
    assert!(output.stderr.contains("has no grant for"), "{}", output.stderr);
}

#[test]
fn click_runs_programs_too() {
    skip_without!("clang");
    let folder = compiled();
    let configuration = "x :: XDP(forward.o, MAPS \"ports 1=1\");\n\
        InfiniteSource(DATA \\<0200000000010200000000020800 450000200000000040110000 0a000001 0a000002 \
        10001770 000c0000 00000000>, LIMIT 1000, STOP true) -> x -> Discard; x[1] -> c :: Counter -> Discard;";
    fs::write(folder.path().join("x.click"), configuration).expect("a file");
    let arguments = ["click", "-h", "c.count", "-h", "x.counts", "-h", "x.passed", "x.click"];
    let output = run(folder.path(), &arguments);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(said.contains("c.count:\n1000\n"), "{said}");
    assert!(said.contains("17={packets: 1000, bytes: 46000}"), "{said}");
}

#[test]
fn a_compiler_reads_its_own_files_only() {
    skip_without!("clang");
    let folder = tempfile::tempdir().expect("a folder");
    let secret = tempfile::tempdir().expect("a folder");
    fs::write(secret.path().join("secret.h"), "int the_secret_is_told;\n").expect("a file");
    let outside = secret.path().join("secret.h");
    std::os::unix::fs::symlink(&outside, folder.path().join("link.h")).expect("a link");
    let outside = outside.display();
    let end = "\n#include <linux/bpf.h>\n__attribute__((section(\"xdp\"))) int p(void *c) { return 2; }\n";
    for (source, allowed) in [
        ("", true),
        ("#include \"/etc/shadow\"", false),
        ("#include \"/etc/hostname\"", false),
        ("#include \"/proc/self/environ\"", false),
        ("#include \"../../etc/passwd\"", false),
        ("#include \"link.h\"", false),
        (&format!("#include \"{outside}\""), false),
        ("__asm__(\".incbin \\\"/etc/shadow\\\"\");", false),
        (&format!("__asm__(\".incbin \\\"{outside}\\\"\");"), false),
        ("__asm__(\".include \\\"/etc/shadow\\\"\");", false),
    ] {
        fs::write(folder.path().join("p.c"), format!("{source}{end}")).expect("a file");
        let output = run(folder.path(), &["compile", "p.c"]);
        let (said, object) = (text(&output.stderr), folder.path().join("p.o"));
        assert_eq!(output.status.success(), allowed, "{source}: {said}");
        assert_eq!(object.exists(), allowed, "{source}");
        assert!(
            !said.contains("the_secret_is_told") && !said.contains("root:"),
            "{source}: {said}"
        );
        let _ = fs::remove_file(object);
    }
    // A folder that the command names is read.
    fs::write(folder.path().join("p.c"), format!("#include \"secret.h\"{end}")).expect("a file");
    let include = format!("-I{}", secret.path().display());
    let output = run(folder.path(), &["compile", "p.c", &include]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    // A program that needs too much memory is ended.
    let endless = "__asm__(\".rept 2000000000\\n.quad 1\\n.endr\");";
    fs::write(folder.path().join("p.c"), format!("{endless}{end}")).expect("a file");
    assert!(!run(folder.path(), &["compile", "p.c"]).status.success());
}

#[test]
fn mistakes_are_told_at_their_lines() {
    skip_without!("clang");
    let folder = tempfile::tempdir().expect("a folder");
    let source = "#include <linux/bpf.h>\n#include <bpf/bpf_helpers.h>\n\nSEC(\"xdp\")\n\
        int program(struct xdp_md *ctx)\n{\n\tlong task = bpf_get_current_pid_tgid();\n\
        \tbpf_printk(\"%ld\", task);\n\treturn bpf_probe_read_kernel(&task, 8, ctx) ? XDP_DROP : XDP_PASS;\n}\n";
    fs::write(folder.path().join("p.bpf.c"), source).expect("a file");
    let output = run(folder.path(), &["check", "p.bpf.c"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    for wanted in [
        "p.bpf.c: 2 mistakes",
        "p.bpf.c:7:14: `bpf_get_current_pid_tgid` is not allowed",
        "    long task = bpf_get_current_pid_tgid();",
        "p.bpf.c:9:9: `bpf_probe_read_kernel` is not allowed",
        "help: read the frame through `ctx->data`",
    ] {
        assert!(said.contains(wanted), "{wanted} is not in:\n{said}");
    }
    fs::write(folder.path().join("p.bpf.c"), source.replace("long task", "lnog task"))
        .expect("a file");
    let output = run(folder.path(), &["check", "p.bpf.c"]);
    assert!(text(&output.stderr).contains("p.bpf.c:7:2: error: "), "{}", text(&output.stderr));
    let output = run(folder.path(), &["check", "/bin/true"]);
    assert!(text(&output.stderr).contains("it is for another machine"), "{}", text(&output.stderr));
}
