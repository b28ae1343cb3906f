use std::process::Command;

use crate::testing::Bench;

/// Compiles a program; the folder is removed on drop.
fn compile(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let (source, object) = (folder.path().join("p.bpf.c"), folder.path().join("p.o"));
    std::fs::write(&source, format!("{HEADER}{text}")).unwrap();
    let arch = format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let status = Command::new("clang")
        .args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-c", &arch, "-o"])
        .args([&object, &source])
        .status()
        .unwrap();
    assert!(status.success());
    let name = object.to_str().unwrap().to_owned();
    (folder, name)
}

const HEADER: &str = r#"
#include <linux/bpf.h>
#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int (*name)[value]
#define __type(name, type) typeof(type) *name
#define __array(name, type) typeof(type) *name[]
static void *(*lookup)(void *, const void *) = (void *)1;
static long (*update)(void *, const void *, const void *, unsigned long long) = (void *)2;
static long (*print)(const char *, unsigned, ...) = (void *)6;
static long (*tail_call)(void *, void *, unsigned) = (void *)12;
static long (*redirect)(unsigned, unsigned long long) = (void *)23;
static long (*adjust_head)(void *, int) = (void *)44;
static long (*redirect_map)(void *, unsigned long long, unsigned long long) = (void *)51;
static long (*fib_lookup)(void *, void *, int, unsigned) = (void *)69;
static long (*ring_output)(void *, void *, unsigned long long, unsigned long long) = (void *)130;
"#;

const SWITCH: &str = r#"
struct count { __u32 packets; __u32 bytes; };
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 8); __type(key, __u8); __type(value, struct count); } counts SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_DEVMAP); __uint(max_entries, 8); __type(key, __u32); __type(value, __u32); } devices SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 4096); } records SEC(".maps");
const volatile __u8 verdict_of_a = 2;
__u32 seen;
SEC("xdp") int program(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	if (data + 2 > end)
		return XDP_ABORTED;
	seen++;
	__u8 kind = data[0];
	struct count *count = lookup(&counts, &kind), first = {1, end - data};
	if (count) {
		count->packets++;
		count->bytes += end - data;
	} else {
		update(&counts, &kind, &first, 0);
	}
	switch (kind) {
	case 'a': return verdict_of_a;
	case 't': return XDP_TX;
	case 'd': return XDP_DROP;
	case 'r': return redirect(data[1] - '0', 0);
	case 'm': return redirect_map(&devices, data[1] - '0', XDP_PASS);
	case 'b': return redirect_map(&devices, 0, BPF_F_BROADCAST | BPF_F_EXCLUDE_INGRESS);
	case 'h': return adjust_head(ctx, -2) ? XDP_DROP : XDP_PASS;
	case 'x': return data[100];
	case 'l': for (;;) *(volatile __u8 *)data = 'l';
	case 'o': ring_output(&records, data, 2, 0); return XDP_DROP;
	case 'p': print("kind %d of %s\n", 15, kind); return XDP_DROP;
	}
	return 17;
}
"#;

fn read(bench: &mut Bench, handler: &str, parameter: &str) -> String {
    bench.router.read(&format!("e.{handler}"), parameter).unwrap_or_else(|error| error.to_string())
}

#[test]
fn verdicts_are_outputs() {
    let (_folder, file) = compile(SWITCH);
    let mut bench =
        Bench::with_inputs_outputs("XDP", &[&file, "MAPS \"devices 1=2; devices 3=3\""], 2, 4);
    let long = [b'x'; 60];
    let longer = [&b"h"[..], &long].concat();
    for (input, packet, leaves) in [
        (0, &b"aaaa"[..], vec![0]),
        (0, b"tttt", vec![1]),
        (1, b"tttt", vec![2]),
        (0, b"dddd", vec![]),
        (0, b"r3..", vec![3]),
        (0, b"r4..", vec![]),
        (0, b"m1..", vec![2]),
        (0, b"m2..", vec![0]),
        (0, b"b...", vec![2, 3]),
        (1, b"b...", vec![3]),
        (0, &long, vec![]),
        (0, b"llll", vec![]),
        (0, b"????", vec![]),
        (0, b"?", vec![]),
    ] {
        let out = bench.push(input, &[packet]);
        let mut outputs: Vec<usize> = out.iter().map(|(output, _)| *output).collect();
        outputs.sort_unstable();
        assert_eq!(outputs, leaves, "{packet:?}");
        assert!(out.iter().all(|(_, data)| data == packet));
    }
    assert_eq!(bench.push(0, &[&longer]), [(0, [&[0, 0], &longer[..]].concat())]);
    for (handler, value) in [
        ("passed", "3"),
        ("transmitted", "2"),
        ("redirected", "4"),
        ("dropped", "1"),
        ("aborted", "2"),
        ("out_of_bounds", "1"),
        ("out_of_fuel", "1"),
        ("other_faults", "0"),
        ("no_output", "1"),
        ("seen", "14"),
    ] {
        assert_eq!(read(&mut bench, handler, ""), value, "{handler}");
    }
    let fault = read(&mut bench, "fault", "");
    assert!(fault.contains("p.bpf.c:") && fault.contains("too many instructions"), "{fault}");
    bench.router.write("e.reset_counts", "").unwrap();
    assert_eq!(read(&mut bench, "passed", ""), "0");
}

#[test]
fn maps_and_variables_are_handlers() {
    let (_folder, file) = compile(SWITCH);
    let mut bench = Bench::with_outputs("XDP", &[&file, "CONSTANTS \"verdict_of_a 3\""], 4);
    assert_eq!(bench.push(0, &[b"a1", b"a2", b"d3", b"o4", b"p5"]).len(), 2);
    assert_eq!(read(&mut bench, "transmitted", ""), "2");
    assert_eq!(read(&mut bench, "counts", "97"), "{packets: 2, bytes: 4}");
    assert!(read(&mut bench, "counts", "").contains("100={packets: 1, bytes: 2}\n"));
    assert_eq!(read(&mut bench, "counts", "1"), "'counts' has no key 1");
    bench.router.write("e.counts", "1={packets: 7, bytes: 0x10}\n-100\n").unwrap();
    assert_eq!(read(&mut bench, "counts", "1"), "{packets: 7, bytes: 16}");
    assert_eq!(read(&mut bench, "counts", "100"), "'counts' has no key 100");
    let error = bench.router.write("e.counts", "-100").unwrap_err().to_string();
    assert_eq!(error, "'counts' has no such key: -100");
    bench.router.write("e.seen", "40").unwrap();
    bench.router.write("e.verdict_of_a", "1").unwrap();
    assert!(bench.push(0, &[b"a1"]).is_empty());
    assert_eq!(read(&mut bench, "seen", ""), "41");
    assert_eq!(read(&mut bench, "records", ""), "6f34\n");
    assert_eq!(read(&mut bench, "records", ""), "");
    assert_eq!(read(&mut bench, "trace", ""), "kind 112 of (string)\n");
    assert!(read(&mut bench, "maps", "").contains("counts BPF_MAP_TYPE_HASH 1 8 8\n"));
    assert!(bench.router.write("e.records", "1=1").is_err());
}

#[test]
fn routes_are_looked_up() {
    let (_folder, file) = compile(
        r#"
SEC("xdp") int program(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct bpf_fib_lookup fib = {.family = 2};
	if (data + 18 > end)
		return XDP_ABORTED;
	fib.ipv4_dst = *(__u32 *)(data + 14);
	long error = fib_lookup(ctx, &fib, sizeof(fib), 0);
	data[12] = error;
	if (error)
		return XDP_PASS;
	__builtin_memcpy(data, fib.dmac, 6);
	__builtin_memcpy(data + 6, fib.smac, 6);
	return redirect(fib.ifindex, 0);
}"#,
    );
    let mut bench = Bench::with_outputs("XDP", &[&file], 3);
    let routes =
        "10.0.0.0/8 1 02:00:00:00:00:01 02:00:00:00:00:02\n10.1.0.0/16 2 02:00:00:00:00:03\n";
    bench.router.write("e.routes", routes).unwrap();
    assert_eq!(read(&mut bench, "routes", ""), routes);
    let packet = |address: [u8; 4]| [&[9; 14][..], &address].concat();
    let out = bench.push(0, &[&packet([10, 2, 0, 1])]);
    assert_eq!((out[0].0, &out[0].1[..13]), (1, &[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0][..]));
    for (address, answer) in [([10, 1, 0, 1], 7), ([11, 0, 0, 1], 4)] {
        let out = bench.push(0, &[&packet(address)]);
        assert_eq!((out[0].0, out[0].1[12]), (0, answer));
    }
    let error = bench.router.write("e.routes", "10.0.0.0/8 x").unwrap_err().to_string();
    assert!(error.contains("found '10.0.0.0/8 x'"), "{error}");
}

#[test]
fn mistakes_in_arguments_and_files() {
    let (folder, file) = compile(SWITCH);
    let text = folder.path().join("text.o");
    std::fs::write(&text, "no object").unwrap();
    for (arguments, wanted) in [
        (&[text.to_str().unwrap()][..], "not a readable eBPF object file"),
        (&["/none/there.o"], "No such file"),
        (&[&file, "other"], "the object has no program 'other'"),
        (&[&file, "CONSTANTS \"verdict_of_b 3\""], "no constant 'verdict_of_b'"),
        (&[&file, "CONSTANTS \"verdict_of_a 300\""], "'300' is no value of 1 bytes"),
        (&[&file, "MAPS \"none 3=1\""], "no map 'none'"),
        (&[&file, "MAPS \"devices 9=1\""], "has no room for 9=1"),
        (&[&file, "TAIL_CALLS \"counts 1 program\""], "'counts' is no program array"),
        (&[&file, "MEMORY 10"], "are left for maps"),
    ] {
        let found = Bench::error("XDP", arguments);
        assert!(found.contains(wanted), "{arguments:?}: {found}");
    }
}

#[test]
fn stages_are_called_and_maps_are_kept() {
    let (_folder, file) = compile(
        r#"
int second(struct xdp_md *ctx);
struct { __uint(type, BPF_MAP_TYPE_PROG_ARRAY); __uint(max_entries, 4); __type(key, __u32); __array(values, int(void *)); } stages SEC(".maps") = {.values = {[1] = (void *)&second}};
SEC("xdp") int first(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	if (data + 1 <= end)
		tail_call(ctx, &stages, data[0]);
	return XDP_DROP;
}
SEC("xdp") int second(struct xdp_md *ctx) { return XDP_PASS; }
SEC("xdp/third") int third(struct xdp_md *ctx) { return XDP_TX; }
"#,
    );
    let mut bench =
        Bench::with_outputs("XDP", &[&file, "first", "TAIL_CALLS \"stages 2 third\""], 2);
    for (packet, output) in [([1, 0], Some(0)), ([2, 0], Some(1)), ([3, 0], None)] {
        let out = bench.push(0, &[&packet]);
        assert_eq!(out.first().map(|(output, _)| *output), output);
    }
}
