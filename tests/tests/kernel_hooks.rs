//! Programs by tc and of type `cgroup_skb` beside the XDP program of a kernel router: they share its maps
//! by name.

use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{Node, skip_without};

/// Passes all frames to Linux. Each program counts in a place of its own of a shared map. The program of
/// sockets drops pings with a TTL of 99.
const COUNT: &str = r#"
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

static __always_inline void count(__u32 place)
{
	__u64 *value = bpf_map_lookup_elem(&counts, &place);

	if (value)
		__sync_fetch_and_add(value, 1);
}

SEC("xdp")
int pass(struct xdp_md *ctx)
{
	count(0);
	return XDP_PASS;
}

SEC("tc")
int received(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct ethhdr *ethernet = data;

	if ((void *)(ethernet + 1) <= end && ethernet->h_proto == bpf_htons(ETH_P_IP))
		count(1);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int sent(struct __sk_buff *skb)
{
	skb->mark = 7;
	count(2);
	return TC_ACT_UNSPEC;
}

SEC("cgroup_skb/egress")
int leaving(struct __sk_buff *skb)
{
	struct iphdr ip;

	if (bpf_skb_load_bytes(skb, 0, &ip, sizeof(ip)))
		return 1;
	if (ip.version != 4 || ip.protocol != IPPROTO_ICMP)
		return 1;
	count(3);
	return ip.ttl != 99;
}

SEC("tc")
int escaping(struct __sk_buff *skb)
{
	return bpf_redirect(1, 0);
}

SEC("tc")
int leaking(struct __sk_buff *skb)
{
	__u32 place = 5;
	__u64 *value = bpf_map_lookup_elem(&counts, &place);

	if (value)
		*value = (long)skb;
	return TC_ACT_UNSPEC;
}
char LICENSE[] SEC("license") = "GPL";
"#;

/// A kernel router that hosts `a` and `b` ping.
fn document(source: &str, hooks: &str) -> String {
    let mut text = format!(
        "kind: slice\nname: red\nprograms: operator\n---\nkind: router\nname: r\nslice: red\n\
         run: kernel\ninterfaces:\n  a: {{link: a, addresses: [10.0.1.1/24]}}\n\
         \x20 b: {{link: b, addresses: [10.0.2.1/24]}}\nslow_path: {{}}\nfast_path:\n\
         \x20 xdp:\n    source: {source}\n    program: pass\n{hooks}"
    );
    for (host, subnet) in [("a", 1), ("b", 2)] {
        text += &format!(
            "---\nkind: link\nname: {host}\n---\nkind: host\nname: {host}\n\
             interfaces: {{eth0: {{link: {host}, addresses: [10.0.{subnet}.2/24]}}}}\n"
        );
    }
    text
}

const ALL: &str = "    tc: {ingress: received, egress: sent}\n    cgroup: {egress: leaving}\n";

fn counted(node: &Node, place: u32) -> u64 {
    let value = node.run(&["read", "red/r", "counts", &place.to_string()]);
    value.trim().parse().expect("a number")
}

fn pings(node: &Node) {
    let begun = Instant::now();
    while !node.host("a").ping("10.0.1.1", 3, &["-i", "0.1"]).is_ok_and(|ping| ping.is_perfect()) {
        let waited = begun.elapsed();
        assert!(waited < Duration::from_secs(15), "{}", node.run(&["events"]));
    }
}

/// Waits until pings make all of these counters grow.
fn until_counted(node: &Node, places: &[u32]) {
    let begun = Instant::now();
    let before: Vec<u64> = places.iter().map(|place| counted(node, *place)).collect();
    loop {
        pings(node);
        let grown = |(place, before): (&u32, &u64)| counted(node, *place) > *before;
        if places.iter().zip(&before).all(grown) {
            return;
        }
        let counts = node.run(&["read", "red/r", "counts"]);
        let waited = begun.elapsed();
        assert!(waited < Duration::from_secs(15), "{counts}\n{}", node.run(&["events"]));
    }
}

#[test]
fn programs_in_linux_share_maps_with_the_xdp_program() {
    skip_without!("ping", "nsenter", "clang");
    let node = Node::new(None);
    let source = node.file("count.bpf.c", COUNT);
    node.up(&document(&source, ALL));
    until_counted(&node, &[0, 1, 2]);

    // Sockets of the slow path's programs.
    let inside = |ttl: &str| {
        let ping = ["exec", "red/r", "--", "ping", "-c", "2", "-i", "0.1", "-W", "1", "-t", ttl];
        node.attempt(&[&ping[..], &["10.0.1.2"]].concat()).status.success()
    };
    let begun = Instant::now();
    let before = counted(&node, 3);
    while !inside("64") || counted(&node, 3) == before {
        assert!(begun.elapsed() < Duration::from_secs(15), "{}", node.run(&["events"]));
    }
    assert!(!inside("99"), "the program of sockets drops it");

    // A killed node leaves them in force, and the next one replaces them.
    node.kill("node");
    node.up(&document(&source, ALL));
    until_counted(&node, &[0, 1, 2]);
    assert!(!inside("99") && inside("64"));

    // Without them in the document, they are taken out.
    node.run(&["apply", &node.file("less.yaml", &document(&source, ""))]);
    let begun = Instant::now();
    loop {
        let before = (counted(&node, 1), counted(&node, 2));
        pings(&node);
        if (counted(&node, 1), counted(&node, 2)) == before && inside("99") {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(15), "{}", node.run(&["events"]));
        sleep(Duration::from_millis(50));
    }

    // Each type has its own list of helpers, and the maps of the XDP program stay its own.
    for (hooks, part) in [
        ("    tc: {ingress: escaping}\n", "`bpf_redirect` is not allowed in a program by tc"),
        ("    tc: {egress: leaking}\n", "a pointer is stored where it can be read as a number"),
        ("    cgroup: {ingress: nothing}\n", "the object has no program 'nothing'"),
        ("    cgroup: {}\n", "one of `ingress` and `egress` names a program"),
    ] {
        let wrong = node.file("wrong.yaml", &document(&source, hooks));
        let output = node.attempt(&["apply", &wrong]);
        assert!(!output.status.success() && output.stderr.contains(part), "{}", output.stderr);
    }
    let none = document(&source, ALL).replace("slow_path: {}\n", "");
    let output = node.attempt(&["apply", &node.file("none.yaml", &none)]);
    assert!(output.stderr.contains("programs of the slow path"), "{}", output.stderr);
    pings(&node);
}
