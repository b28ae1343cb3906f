//! Kernel routers: what a program may take: instructions for a frame, a share of a CPU, memory of maps.

use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{Node, skip_without};

/// Passes frames on between two devices in a stage that first goes round in a loop.
const SPIN: &str = r#"
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

const volatile __u32 rounds = 1;

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} stages SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u64);
} sum SEC(".maps");

SEC("xdp/work")
int work(struct xdp_md *ctx)
{
	__u32 zero = 0, all = 0;
	__u64 *value = bpf_map_lookup_elem(&sum, &zero);

	for (__u32 round = 0; round < rounds; round++) {
#pragma unroll
		for (int call = 0; call < 16; call++)
			all += bpf_get_prandom_u32();
	}
	if (value)
		*value = all;
	return bpf_redirect(3 - ctx->ingress_ifindex, 0);
}

SEC("xdp/entry")
int entry(struct xdp_md *ctx)
{
	bpf_tail_call(ctx, &stages, 0);
	return XDP_ABORTED;
}
char LICENSE[] SEC("license") = "Dual BSD/GPL";
"#;

/// A kernel router between hosts `a` and `b`. `slice` has more fields of the slice.
fn document(source: &str, slice: &str, rounds: u32) -> String {
    let mut text = format!(
        "kind: slice\nname: red\nprograms: operator\n{slice}---\nkind: router\nname: r\nslice: red\n\
         run: kernel\ninterfaces:\n  a: {{link: a}}\n  b: {{link: b}}\nfast_path:\n\
         \x20 xdp:\n    source: {source}\n    program: entry\n    constants: {{rounds: {rounds}}}\n\
         \x20   tail_calls: {{stages: {{0: work}}}}\n"
    );
    for (host, last) in [("a", 1), ("b", 2)] {
        text += &format!(
            "---\nkind: link\nname: {host}\n---\nkind: host\nname: {host}\n\
             interfaces: {{eth0: {{link: {host}, addresses: [10.0.0.{last}/24, \"fd00::{last}/64\"]}}}}\n"
        );
    }
    text
}

fn ping(node: &Node, address: &str) {
    let begun = Instant::now();
    while !node.host("a").ping(address, 3, &["-i", "0.1"]).is_ok_and(|ping| ping.is_perfect()) {
        let waited = begun.elapsed();
        assert!(waited < Duration::from_secs(10), "{address}: {}", node.run(&["stats"]));
    }
}

/// Frames dropped because a program has used up its share of a CPU.
fn over_share(node: &Node) -> u64 {
    let stats = node.stats();
    let interfaces = stats["routers"][0]["interfaces"].as_array().expect("interfaces");
    let drops = interfaces.iter().flat_map(|one| one["drops"].as_array().expect("causes"));
    let own = drops.filter(|drop| drop[0] == "XDP program over its CPU share");
    own.filter_map(|drop| drop[1].as_u64()).sum()
}

#[test]
fn a_stage_with_too_many_instructions_is_refused_by_name() {
    skip_without!("ping", "nsenter", "clang");
    let node = Node::new(None);
    let source = node.file("spin.bpf.c", SPIN);
    node.up(&document(&source, "", 10));
    ping(&node, "10.0.0.2");
    ping(&node, "fd00::2");
    // 5,000 rounds of 16 calls.
    let beyond = node.file("beyond.yaml", &document(&source, "", 5_000));
    let output = node.attempt(&["apply", &beyond]);
    assert!(!output.status.success(), "{}", output.stdout);
    for part in ["along the stages entry, work: 'work' has", "at most 100000", "fewer rounds"] {
        assert!(output.stderr.contains(part), "'{part}' is missing:\n{}", output.stderr);
    }
    // The program before goes on.
    ping(&node, "10.0.0.2");
    let limits = "program_limits: {instructions: 500000}\n";
    let raised = node.file("raised.yaml", &document(&source, limits, 5_000));
    node.run(&["apply", &raised]);
    ping(&node, "10.0.0.2");
    ping(&node, "fd00::2");
}

#[test]
fn a_program_gets_no_frames_while_it_is_over_its_share_of_a_cpu() {
    skip_without!("ping", "nsenter", "clang");
    let node = Node::new(None);
    let source = node.file("spin.bpf.c", SPIN);
    // 1,500 rounds of 16 calls: about 50 µs for a frame.
    let text = |cpu: &str| document(&source, &format!("program_limits: {{{cpu}}}\n"), 1_500);
    node.up(&text("cpu: 0.2"));
    ping(&node, "10.0.0.2");
    assert_eq!(over_share(&node), 0, "a few frames need no share");
    let flood = |wanted: bool| {
        let sink = node.host("b").sink("10.0.0.2:5000", 1).expect("a sink");
        let stream = node.host("a").stream("10.0.0.2:5000", 1, 20_000, 64).expect("a stream");
        sleep(Duration::from_secs(1));
        let (sent, arrived) = (stream.stop(), sink.packets());
        let over = over_share(&node);
        assert_eq!(over > 0, wanted, "{sent} sent, {arrived} arrived, {over} dropped");
        assert!(arrived > 0 && sent > 1_000, "{sent} sent, {arrived} arrived");
    };
    flood(true);
    // When its share is there again, it gets frames again.
    ping(&node, "10.0.0.2");
    node.run(&["down"]);
    node.up(&text("instructions: 100000"));
    ping(&node, "10.0.0.2");
    flood(false);
}

#[test]
fn the_maps_of_a_slice_have_the_slices_memory() {
    skip_without!("ping", "nsenter", "clang");
    let node = Node::new(None);
    let maps = SPIN.replace("max_entries, 1024", "max_entries, 1048576");
    let source = node.file("spin.bpf.c", &maps);
    let text = |bytes: &str| document(&source, &format!("reservation: {{memory: {bytes}}}\n"), 1);
    node.up(&text("256MB"));
    ping(&node, "10.0.0.2");
    let output = node.attempt(&["apply", &node.file("less.yaml", &text("4MB"))]);
    assert!(!output.status.success(), "{}", output.stdout);
    for part in ["the program's maps have", "the slice has 4000000", "reservation.memory"] {
        assert!(output.stderr.contains(part), "'{part}' is missing:\n{}", output.stderr);
    }
    ping(&node, "10.0.0.2");
}
