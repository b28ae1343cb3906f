//! Kernel routers: tenants' XDP programs in the kernel, each in its cage, with real traffic.

mod line;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use europa_tests::{Namespace, Node, europa, skip_without, skipped};
use line::{B, Line};

/// Passes frames between two devices, counts them, closes a UDP port; a map changes it.
const FORWARD: &str = r#"
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

const volatile __u16 closed_port = 5999;

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 8);
	__type(key, __u32);
	__type(value, __u32);
} ports SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

SEC("xdp")
int forward(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *ethernet = data;
	struct iphdr *ip = (void *)(ethernet + 1);

	if ((void *)(ip + 1) <= end && ethernet->h_proto == bpf_htons(ETH_P_IP)) {
		struct udphdr *udp = (void *)ip + ip->ihl * 4;
		__u32 protocol = ip->protocol;
		__u64 *count = bpf_map_lookup_elem(&counts, &protocol);

		if (count)
			*count += 1;
		if (protocol == IPPROTO_UDP && (void *)(udp + 1) <= end &&
		    udp->dest == bpf_htons(closed_port))
			return XDP_DROP;
	}
	return bpf_redirect_map(&ports, ctx->ingress_ifindex, XDP_ABORTED);
}
char LICENSE[] SEC("license") = "Dual BSD/GPL";
"#;

/// Gives frames for its own address new Ethernet addresses and sends them by the other device. The
/// map `mode` selects further attempts.
const RELAY: &str = r#"
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

const volatile __u8 own1[6], own2[6], peer1[6], peer2[6], forged[6];

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} mode SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} foreign SEC(".maps");

static __always_inline void put(__u8 *to, const volatile __u8 *from)
{
	for (int i = 0; i < 6; i++)
		to[i] = from[i];
}

SEC("xdp")
int relay(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 zero = 0, *wanted = bpf_map_lookup_elem(&mode, &zero);
	__u64 *others = bpf_map_lookup_elem(&foreign, &zero);
	int first = ctx->ingress_ifindex == 1;

	if (data + 64 > end || !wanted || !others)
		return XDP_DROP;
	for (int i = 0; i < 6; i++)
		if (data[i] != (first ? own1[i] : own2[i]))
			*others += 1;
	put(data, first ? peer2 : peer1);
	put(data + 6, first ? own2 : own1);
	switch (*wanted) {
	case 1:
		put(data + 6, forged);
		return bpf_redirect(first ? 2 : 1, 0);
	case 2:
		return bpf_redirect(3 + (bpf_get_prandom_u32() & 127), 0);
	case 3:
		data[12] = 0x81, data[13] = 0, data[14] = 0, data[15] = 7;
		return bpf_redirect(first ? 2 : 1, 0);
	case 4:
		return 77;
	case 5:
		return XDP_ABORTED;
	case 6:
		if (bpf_xdp_adjust_head(ctx, -128))
			return XDP_DROP;
		data = (void *)(long)ctx->data, end = (void *)(long)ctx->data_end;
		if (data + 142 > end)
			return XDP_DROP;
		for (int i = 0; i < 128; i++)
			*others += data[i] != 0;
		return XDP_DROP;
	case 7:
		put(data, own2);
		return XDP_TX;
	}
	return bpf_redirect(first ? 2 : 1, 0);
}
char LICENSE[] SEC("license") = "Dual BSD/GPL";
"#;

/// Routes by the tables of Linux in the slow path.
const ROUTE: &str = r#"
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u32);
} ports SEC(".maps");

SEC("xdp")
int route(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *ethernet = data;
	struct bpf_fib_lookup to = {};
	struct iphdr *ip = data + sizeof(*ethernet);
	struct ipv6hdr *ip6 = data + sizeof(*ethernet);

	if (data + sizeof(*ethernet) > end)
		return XDP_DROP;
	if (ethernet->h_proto == bpf_htons(ETH_P_IP)) {
		if ((void *)(ip + 1) > end || ip->ttl <= 1)
			return XDP_PASS;
		to.family = 2, to.tot_len = bpf_ntohs(ip->tot_len);
		to.ipv4_src = ip->saddr, to.ipv4_dst = ip->daddr;
	} else if (ethernet->h_proto == bpf_htons(ETH_P_IPV6)) {
		if ((void *)(ip6 + 1) > end || ip6->hop_limit <= 1)
			return XDP_PASS;
		to.family = 10, to.tot_len = bpf_ntohs(ip6->payload_len) + 40;
		__builtin_memcpy(to.ipv6_src, &ip6->saddr, 16);
		__builtin_memcpy(to.ipv6_dst, &ip6->daddr, 16);
	} else {
		return XDP_PASS;
	}
	to.ifindex = ctx->ingress_ifindex;
	switch (bpf_fib_lookup(ctx, &to, sizeof(to), 0)) {
	case BPF_FIB_LKUP_RET_SUCCESS:
		break;
	case BPF_FIB_LKUP_RET_BLACKHOLE:
		return XDP_DROP;
	default:
		return XDP_PASS;
	}
	if (to.family == 2) {
		__u32 sum = ip->check + bpf_htons(0x0100);
		ip->check = sum + (sum >= 0xffff);
		ip->ttl--;
	} else {
		ip6->hop_limit--;
	}
	__builtin_memcpy(ethernet->h_dest, to.dmac, 6);
	__builtin_memcpy(ethernet->h_source, to.smac, 6);
	return bpf_redirect_map(&ports, to.ifindex, 0);
}
char LICENSE[] SEC("license") = "GPL";
"#;

/// A program of stages, with metadata between them, a map as old sources declare it, and a map of CPUs.
const STAGES: &str = r#"
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct bpf_map_def {
	unsigned int type, key_size, value_size, max_entries, map_flags;
};
struct bpf_map_def seen SEC("maps") = {
	.type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8, .max_entries = 4,
};

int send(struct xdp_md *ctx);
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 4);
	__uint(key_size, 4);
	__uint(value_size, 4);
	__array(values, int(void *));
} stages SEC(".maps") = {.values = {[1] = (void *)&send}};
struct {
	__uint(type, BPF_MAP_TYPE_CPUMAP);
	__uint(max_entries, 4);
	__uint(key_size, 4);
	__uint(value_size, 4);
} cpus SEC(".maps");

static __always_inline void count(__u32 place)
{
	__u64 *count = bpf_map_lookup_elem(&seen, &place);

	if (count)
		__sync_fetch_and_add(count, 1);
}

SEC("xdp/send")
int send(struct xdp_md *ctx)
{
	__u32 *note = (void *)(long)ctx->data_meta;

	if ((void *)(note + 1) > (void *)(long)ctx->data)
		return XDP_ABORTED;
	count(*note & 3);
	return bpf_redirect(*note, 0);
}

SEC("xdp/entry")
int entry(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 *note;

	if (data + 14 > end)
		return XDP_DROP;
	/* IPv6 is not this program's. */
	if (data[12] == 0x86 && data[13] == 0xdd)
		return bpf_redirect_map(&cpus, 0, XDP_DROP);
	if (bpf_xdp_adjust_meta(ctx, -4))
		return XDP_ABORTED;
	note = (void *)(long)ctx->data_meta;
	if ((void *)(note + 1) > (void *)(long)ctx->data)
		return XDP_ABORTED;
	*note = 3 - ctx->ingress_ifindex;
	bpf_tail_call(ctx, &stages, 1);
	count(0);
	return XDP_ABORTED;
}
char LICENSE[] SEC("license") = "Dual BSD/GPL";
"#;

/// A folder with objects of these sources.
fn compiled(sources: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in sources {
        fs::write(folder.path().join(format!("{name}.c")), text).expect("a source");
        let mut command = Command::new(europa());
        command.current_dir(folder.path()).args(["compile", &format!("{name}.c")]);
        let output = command.output().expect("europa runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    folder
}

/// A kernel router between hosts `a` and `b`.
fn between_hosts(object: &str, more: &str, slow_path: &str) -> String {
    let mut text = format!(
        "kind: slice\nname: red\nprograms: operator\n---\nkind: router\nname: r\nslice: red\n\
         run: kernel\ninterfaces:\n  a: {{link: a}}\n  b: {{link: b}}\n{slow_path}fast_path:\n\
         \x20 xdp:\n    object: {object}\n    maps: {{ports: {{1: 2, 2: 1}}}}\n{more}"
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
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "{}\n{}",
            node.run(&["stats"]),
            node.run(&["events"])
        );
    }
}

/// Packets of a protocol, by the program's counter.
fn counted(node: &Node, protocol: &str) -> u64 {
    let value = node.run(&["read", "red/r", "counts", protocol]);
    let numbers = value.trim().trim_matches(['[', ']']).split(',');
    numbers.map(|number| number.trim().parse::<u64>().expect("a number")).sum()
}

/// Numbered streams both ways between two hosts: nothing is lost, late or changed meanwhile.
fn while_streaming(node: &Node, what: &str, act: impl FnOnce()) -> u64 {
    let mut streams = Vec::new();
    for (number, from, to, at) in [(1, "a", "b", "10.0.0.2:5000"), (2, "b", "a", "10.0.0.1:5000")] {
        let sink = node.host(to).sink(at, number).expect("a sink");
        let stream = node.host(from).stream_of(at, number, 5_000, &[32, 200, 1472]);
        streams.push((stream.expect("a stream").paced_by(&sink), sink));
    }
    sleep(Duration::from_millis(300));
    act();
    sleep(Duration::from_millis(500));
    let mut all = 0;
    for (stream, sink) in streams {
        let sent = stream.stop();
        let received = sink.stop(sent);
        assert!(received.is_perfect() && sent > 200, "{what}: {sent} sent: {received:?}");
        all += sent;
    }
    all
}

#[test]
fn a_program_forwards_in_the_kernel() {
    skip_without!("ping", "nsenter", "clang", "iperf3");
    let folder = compiled(&[("forward", FORWARD)]);
    let object = folder.path().join("forward.o").display().to_string();
    let node = Node::new(None);
    node.up(&between_hosts(&object, "", ""));
    pings(&node);
    let before = counted(&node, "17");
    let sent = while_streaming(&node, "at rest", || ());
    assert!(counted(&node, "17") - before >= sent);
    // The router's process has seen no packet of the streams.
    let stats = node.stats();
    let interface = |name: &str| {
        let all = stats["routers"][0]["interfaces"].as_array().expect("interfaces").clone();
        all.into_iter().find(|one| one["name"] == name).expect("an interface")
    };
    assert!(interface("a")["rx_packets"].as_u64() >= Some(sent / 4), "{stats}");
    assert!(interface("b")["tx_packets"].as_u64() >= Some(sent / 4), "{stats}");

    // TCP uses all offloads of a device, and checksums are right.
    let server = node.host("b").iperf_server().expect("a server");
    let measured = node.host("a").iperf("10.0.0.2", 1, &[]).expect("iperf3");
    assert!(measured.bits_per_second > 50e6, "{} Mb/s", measured.bits_per_second / 1e6);
    drop(server);

    // A constant closes a port. Another generation of the program keeps the maps, and loses no
    // packet.
    let before = counted(&node, "17");
    let other = between_hosts(&object, "    constants: {closed_port: 5001}\n", "");
    let other = node.file("other.yaml", &other);
    while_streaming(&node, "another program", || drop(node.run(&["apply", &other])));
    assert!(counted(&node, "17") >= before, "its counters go on");
    assert_eq!(node.run(&["read", "red/r", "closed_port"]).trim(), "5001");
    let sink = node.host("b").sink("10.0.0.2:5001", 3).expect("a sink");
    let stream = node.host("a").stream("10.0.0.2:5001", 3, 500, 64).expect("a stream");
    sleep(Duration::from_millis(500));
    stream.stop();
    assert_eq!(sink.packets(), 0);
    assert!(node.run(&["stats"]).contains("dropped by the XDP program"));

    // Maps can be written while the program runs.
    node.run(&["write", "red/r", "ports", "1=0"]);
    let lost = node.host("a").ping("10.0.0.2", 2, &["-i", "0.1", "-W", "1"]);
    assert!(!lost.is_ok_and(|ping| ping.received > 0), "its map leads nowhere");
    node.run(&["write", "red/r", "ports", "1=2"]);
    pings(&node);

    // Mistakes are reported, and nothing changes.
    let wrong = between_hosts(&object, "    constants: {none: 1}\n", "");
    let output = node.attempt(&["apply", &node.file("wrong.yaml", &wrong)]);
    assert!(output.stderr.contains("no constant 'none'"), "{}", output.stderr);
    let wrong = between_hosts(&object, "", "").replace("programs: operator", "programs: none");
    let output = node.attempt(&["apply", &node.file("wrong.yaml", &wrong)]);
    assert!(output.stderr.contains("do not run in the kernel"), "{}", output.stderr);
    let wrong = between_hosts("/etc/passwd", "", "");
    let output = node.attempt(&["apply", &node.file("wrong.yaml", &wrong)]);
    assert!(!output.status.success(), "{}", output.stdout);
    pings(&node);
}

#[test]
fn a_kernel_router_outlives_its_node_and_its_process() {
    skip_without!("ping", "nsenter", "clang");
    let folder = compiled(&[("forward", FORWARD)]);
    let object = folder.path().join("forward.o").display().to_string();
    let node = Node::new(None);
    let text = between_hosts(&object, "", "");
    node.up(&text);
    pings(&node);
    let before = counted(&node, "17");
    let sent = while_streaming(&node, "kill -9", || {
        for role in ["router", "switch", "node"] {
            node.kill(role);
            sleep(Duration::from_millis(200));
        }
        node.up(&text);
    });
    let begun = Instant::now();
    let there = || node.attempt(&["read", "red/r", "counts", "17"]).status.success();
    while !there() {
        assert!(begun.elapsed() < Duration::from_secs(10), "{}", node.run(&["events"]));
        sleep(Duration::from_millis(50));
    }
    assert!(counted(&node, "17") - before >= sent, "its maps are those of before");
    pings(&node);
    node.run(&["restart", "red/r"]);
    pings(&node);
}

#[test]
fn what_a_program_passes_is_its_slow_paths() {
    skip_without!("ping", "nsenter", "clang");
    // This program forwards nothing, so Linux forwards.
    let pass = "#include <linux/bpf.h>\n#include <bpf/bpf_helpers.h>\nSEC(\"xdp\")\n\
        int pass(struct xdp_md *ctx)\n{\n\treturn XDP_PASS;\n}\n\
        char LICENSE[] SEC(\"license\") = \"GPL\";\n";
    let folder = compiled(&[("pass", pass)]);
    let object = folder.path().join("pass.o");
    let node = Node::new(None);
    let mut text = format!(
        "kind: slice\nname: red\nprograms: tenant\n---\nkind: router\nname: r\nslice: red\n\
         run: kernel\ninterfaces:\n  a: {{link: a, addresses: [10.0.1.1/24, 'fd00:1::1/64']}}\n\
         \x20 b: {{link: b, addresses: [10.0.2.1/24, 'fd00:2::1/64']}}\nslow_path: {{}}\n\
         fast_path: {{xdp: {{object: {}}}}}\n",
        object.display()
    );
    for (host, n) in [("a", 1), ("b", 2)] {
        text += &format!(
            "---\nkind: link\nname: {host}\n---\nkind: host\nname: {host}\ninterfaces: {{eth0: \
             {{link: {host}, addresses: [10.0.{n}.2/24, 'fd00:{n}::2/64']}}}}\n\
             gateway: [10.0.{n}.1, 'fd00:{n}::1']\n"
        );
    }
    node.up(&text);
    let begun = Instant::now();
    for to in ["10.0.1.1", "10.0.2.2", "fd00:2::2"] {
        let ping = || node.host("a").ping(to, 3, &["-i", "0.1"]);
        while !ping().is_ok_and(|ping| ping.is_perfect()) {
            assert!(begun.elapsed() < Duration::from_secs(15), "{to}: {}", node.run(&["stats"]));
        }
    }
    // Without a slow path the packet is dropped and counted.
    let alone = text.replace("slow_path: {}\n", "");
    node.run(&["apply", &node.file("alone.yaml", &alone)]);
    assert!(!node.host("a").ping("10.0.2.2", 1, &["-W", "1"]).is_ok_and(|ping| ping.received > 0));
    let passed: u64 =
        node.run(&["read", "red/r", "passed.count"]).trim().parse().expect("a number");
    assert!(passed > 0);
}

#[test]
fn stages_metadata_and_old_maps_work() {
    skip_without!("ping", "nsenter", "clang");
    let folder = compiled(&[("stages", STAGES)]);
    let object = folder.path().join("stages.o").display().to_string();
    let node = Node::new(None);
    let text = between_hosts(&object, "    program: entry\n", "")
        .replace("maps: {ports: {1: 2, 2: 1}}", "maps: {cpus: {0: 0}}");
    node.up(&text);
    pings(&node);
    let seen = |place: &str| -> u64 {
        node.run(&["read", "red/r", "seen", place]).trim().parse().expect("a number")
    };
    let before = (seen("1"), seen("2"));
    let sent = while_streaming(&node, "stages", || ());
    let after = (seen("1") - before.0, seen("2") - before.1);
    assert!(after.0 + after.1 >= sent && after.0 > 0 && after.1 > 0, "{after:?} of {sent}");
    assert_eq!(seen("0"), 0, "every tail call led to its stage");
    // Packets for another CPU go to the router's process, which has no slow path and counts them.
    let passed = || -> u64 {
        node.run(&["read", "red/r", "passed.count"]).trim().parse().expect("a number")
    };
    let before = passed();
    let sink = node.host("a").address("eth0", "fd00::1/64");
    sink.and_then(|()| node.host("a").neighbour("fd00::2", B, "eth0")).expect("addresses");
    let _ = node.host("a").ping("fd00::2", 2, &["-i", "0.2", "-W", "1"]);
    assert!(passed() > before, "{}", node.run(&["stats"]));
}

#[test]
fn a_program_routes_by_what_linux_knows() {
    skip_without!("ping", "nsenter", "clang", "nft");
    let folder = compiled(&[("route", ROUTE)]);
    let object = folder.path().join("route.o");
    let node = Node::new(None);
    let mut text = format!(
        "kind: slice\nname: red\nprograms: operator\n---\nkind: router\nname: r\nslice: red\n\
         run: kernel\ninterfaces:\n  a: {{link: a, addresses: [10.0.1.1/24, 'fd00:1::1/64']}}\n\
         \x20 b: {{link: b, addresses: [10.0.2.1/24, 'fd00:2::1/64']}}\n\
         slow_path: {{}}\n\
         fast_path: {{xdp: {{object: {}, maps: {{ports: {{1: 1, 2: 2}}}}}}}}\n",
        object.display()
    );
    for (host, n) in [("a", 1), ("b", 2)] {
        text += &format!(
            "---\nkind: link\nname: {host}\n---\nkind: host\nname: {host}\ninterfaces: {{eth0: \
             {{link: {host}, addresses: [10.0.{n}.2/24, 'fd00:{n}::2/64']}}}}\n\
             gateway: [10.0.{n}.1, 'fd00:{n}::1']\n"
        );
    }
    node.up(&text);
    let host = |name: &str| node.host(name);
    let begun = Instant::now();
    for to in ["10.0.1.1", "10.0.2.2", "fd00:2::2"] {
        while !host("a").ping(to, 3, &["-i", "0.1"]).is_ok_and(|ping| ping.is_perfect()) {
            assert!(begun.elapsed() < Duration::from_secs(15), "{to}: {}", node.run(&["stats"]));
        }
    }
    // Once Linux knows the neighbours, it sees no further packet.
    let through_linux = || -> u64 {
        let stats = node.stats();
        let all = stats["routers"][0]["interfaces"].as_array().expect("interfaces").clone();
        let hidden =
            all.iter().filter(|one| one["name"].as_str().is_some_and(|n| n.ends_with("@host")));
        hidden.filter_map(|one| one["tx_packets"].as_u64()).sum()
    };
    let stream = |at: &str, wanted: bool| {
        let sink = host("b").sink(at, 5).expect("a sink");
        let stream = host("a").stream(at, 5, 5_000, 200).expect("a stream");
        sleep(Duration::from_millis(500));
        let sent = stream.stop();
        if !wanted {
            sleep(Duration::from_millis(100));
            return sink.packets();
        }
        let received = sink.stop(sent);
        assert!(received.is_perfect() && sent > 1000, "{sent} sent: {received:?}");
        sent
    };
    for at in ["10.0.2.2:5000", "[fd00:2::2]:5000"] {
        let before = through_linux();
        let sent = stream(at, true);
        let seen = through_linux() - before;
        assert!(seen < sent / 10, "{at}: Linux saw {seen} of {sent}");
    }
    // Decisions of Linux beyond its routing tables take effect.
    let inside = |arguments: &[&str]| {
        let mut all = vec!["exec", "red/r", "--"];
        all.extend(arguments);
        node.run(&all)
    };
    inside(&["ip", "route", "add", "blackhole", "10.0.2.2/32"]);
    sleep(Duration::from_millis(100));
    assert_eq!(stream("10.0.2.2:5000", false), 0);
    inside(&["ip", "route", "del", "blackhole", "10.0.2.2/32"]);
    inside(&["nft", "add", "table", "ip", "f"]);
    inside(&[
        "nft",
        "add",
        "chain",
        "ip",
        "f",
        "c",
        "{ type filter hook forward priority 0; policy drop; }",
    ]);
    sleep(Duration::from_millis(100));
    assert_eq!(stream("10.0.2.2:5000", false), 0);
    stream("[fd00:2::2]:5000", true);
    inside(&["nft", "delete", "table", "ip", "f"]);
    sleep(Duration::from_millis(200));
    stream("10.0.2.2:5000", true);
}

/// Two slices' routers on the same two ports, each with an Ethernet address of its own on each.
struct Shared {
    line: Line,
    _folder: tempfile::TempDir,
}

const RED: [&str; 2] = ["02:00:00:00:02:01", "02:00:00:00:02:02"];
const BLUE: [&str; 2] = ["02:00:00:00:03:01", "02:00:00:00:03:02"];

impl Shared {
    fn up() -> Shared {
        let line = Line::new();
        let folder = compiled(&[("relay", RELAY)]);
        let object: PathBuf = folder.path().join("relay.o");
        let mut text = "kind: port\nname: left\ndevice: eu-left\n---\n\
             kind: port\nname: right\ndevice: eu-right\n"
            .to_owned();
        for (slice, own, forged) in [("red", RED, BLUE), ("blue", BLUE, RED)] {
            text += &format!(
                "---\nkind: slice\nname: {slice}\nprograms: operator\n---\nkind: router\nname: r\n\
                 slice: {slice}\nrun: kernel\ninterfaces:\n\
                 \x20 l: {{port: left, mac: '{}'}}\n  r: {{port: right, mac: '{}'}}\n\
                 fast_path:\n  xdp:\n    object: {}\n    constants:\n\
                 \x20     own1: '{}'\n      own2: '{}'\n      peer1: '{}'\n      peer2: '{}'\n\
                 \x20     forged: '{}'\n",
                own[0],
                own[1],
                object.display(),
                own[0],
                own[1],
                line::A,
                B,
                forged[1],
            );
        }
        line.node.up(&text);
        for (host, own, other) in [(&line.a, 2, 1), (&line.b, 1, 0)] {
            let near = if own == 2 { 1 } else { 2 };
            for (subnet, macs) in [(11, RED), (12, BLUE)] {
                let address = |last: i32| format!("10.0.{subnet}.{last}");
                host.address("eth0", &format!("{}/24", address(near))).expect("an address");
                let peer = address(3 - near);
                host.neighbour(&peer, macs[1 - other], "eth0").expect("a neighbour");
            }
        }
        Shared { line, _folder: folder }
    }

    fn stat(&self, slice: &str, what: &str) -> u64 {
        let stats = self.line.node.stats();
        let routers = stats["routers"].as_array().expect("routers");
        let router = routers.iter().find(|one| one["name"] == format!("{slice}/r"));
        let interfaces = router.expect("the router")["interfaces"].as_array().expect("interfaces");
        let drops = interfaces.iter().flat_map(|one| one["drops"].as_array().expect("causes"));
        drops.filter(|drop| drop[0] == what).filter_map(|drop| drop[1].as_u64()).sum()
    }
}

fn stream(from: &Namespace, to: &Namespace, at: &str, act: impl FnOnce()) {
    let sink = to.sink(at, 9).expect("a sink");
    let stream = from.stream(at, 9, 5_000, 200).expect("a stream").paced_by(&sink);
    sleep(Duration::from_millis(200));
    act();
    sleep(Duration::from_millis(200));
    let sent = stream.stop();
    let received = sink.stop(sent);
    assert!(received.is_perfect() && sent > 100, "{sent} sent: {received:?}");
}

#[test]
fn a_hostile_program_harms_no_neighbour_on_its_port() {
    skip_without!("ping", "clang", "tcpdump");
    let shared = Shared::up();
    let Line { node, a, b, .. } = &shared.line;
    stream(a, b, "10.0.11.2:5000", || ());
    stream(a, b, "10.0.12.2:5000", || ());
    let mode = |number: u32| drop(node.run(&["write", "blue/r", "mode", &format!("0={number}")]));
    let capture = b.capture("eth0", "udp port 6000").expect("a capture");
    stream(a, b, "10.0.11.2:5000", || {
        for (number, cause) in [
            (1, Some("foreign source MAC address")),
            (2, Some("redirected to no device")),
            (3, Some("VLAN tag not allowed")),
            (4, Some("XDP program aborted")),
            (5, Some("XDP program aborted")),
            (6, Some("dropped by the XDP program")),
            (7, Some("foreign source MAC address")),
        ] {
            mode(number);
            let before = cause.map(|cause| shared.stat("blue", cause));
            // No host answers, so only arriving packets count.
            let flood = a.stream("10.0.12.2:6000", 3, 2_000, 100).expect("a stream");
            sleep(Duration::from_millis(300));
            flood.stop();
            let after = cause.map(|cause| shared.stat("blue", cause));
            assert!(after > before, "mode {number}: {cause:?}\n{}", node.run(&["stats"]));
        }
    });
    assert_eq!(capture.stop().expect("captured").frames().expect("frames").len(), 0, "it got out");
    // Blue's program saw no frame of the neighbour, and no bytes of other frames.
    assert_eq!(node.run(&["read", "blue/r", "foreign", "0"]).trim(), "0");
    mode(0);
    stream(a, b, "10.0.12.2:5000", || ());
}

/// Programs of other projects, in the folder that `EUROPA_XDP_PROGRAMS` names. Each runs as a
/// router with a slow path and gets traffic, and the counters account for every frame.
#[test]
fn public_programs_run_as_routers() {
    skip_without!("ping", "nsenter");
    let Some(folder) = std::env::var_os("EUROPA_XDP_PROGRAMS") else {
        skipped("public_programs_run_as_routers: EUROPA_XDP_PROGRAMS names no folder");
        return;
    };
    let mut objects: Vec<PathBuf> = fs::read_dir(folder)
        .expect("EUROPA_XDP_PROGRAMS names a folder")
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "o"))
        .collect();
    objects.sort();
    let (mut ran, mut refused) = (0, Vec::new());
    for object in objects {
        let checked =
            Command::new(europa()).arg("check").arg(&object).output().expect("europa runs");
        let said = String::from_utf8_lossy(&checked.stdout).into_owned();
        if !checked.status.success() {
            refused.push(String::from_utf8_lossy(&checked.stderr).into_owned());
            continue;
        }
        let names = said.lines().filter(|line| line.contains("in the kernel"));
        for name in names.filter_map(|line| line.split_whitespace().nth(1)) {
            run_public(&object, name);
            ran += 1;
        }
    }
    for why in refused {
        println!("refused: {why}");
    }
    println!("{ran} programs ran as routers");
    assert!(ran > 0);
}

fn run_public(object: &std::path::Path, program: &str) {
    let node = Node::new(None);
    let text =
        between_hosts(&object.display().to_string(), &format!("    program: {program}\n"), "")
            .replace("    maps: {ports: {1: 2, 2: 1}}\n", "")
            .replace("a: {link: a}", "a: {link: a, addresses: [10.0.0.101/24]}")
            .replace("fast_path:\n", "slow_path: {}\nfast_path:\n");
    node.up(&text);
    let _ = node.host("a").ping("10.0.0.101", 3, &["-i", "0.1", "-W", "1"]);
    let stream = node.host("a").stream("10.0.0.2:5000", 1, 1_000, 100);
    if let Ok(stream) = stream {
        sleep(Duration::from_millis(300));
        stream.stop();
    }
    let stats = node.stats();
    let all = stats["routers"][0]["interfaces"].as_array().expect("interfaces");
    let a = all.iter().find(|one| one["name"] == "a").expect("an interface");
    assert!(a["rx_packets"].as_u64() > Some(0), "{program}: {stats}");
    assert_eq!(stats["routers"][0]["state"], "running", "{program}: {stats}");
}
