//! Programs with a common mistake each: the kernel's message appears in plain words, at the line.

mod common;

use std::sync::Mutex;

use europa_cage::verifier::explain;
use libbpf_rs::{ObjectBuilder, PrintLevel, set_print};

static LOG: Mutex<String> = Mutex::new(String::new());

fn keep(_: PrintLevel, text: String) {
    LOG.lock().expect("one thread").push_str(&text);
}

/// The line with the mistake ends with `// here`.
const PROGRAMS: &[(&str, &str, &str)] = &[
    ("", "return data[60]; // here", "beyond what was compared with `data_end`"),
    (
        "",
        "if (data + 14 > end) return 1;\nbpf_xdp_adjust_head(ctx, 4);\nreturn data[0]; // here",
        "a number is used as a pointer|a variable or result is used|beyond what was compared",
    ),
    ("", "if (data + 14 > end) return 1;\nreturn data[14]; // here", "beyond what was compared"),
    (
        "",
        "__u32 k = 0, *v = bpf_map_lookup_elem(&array, &k);\nreturn *v; // here",
        "`bpf_map_lookup_elem` is used without asking whether it is NULL",
    ),
    (
        "",
        "__u32 k = 0, *v = bpf_map_lookup_elem(&array, &k);\nif (!v) return 1;\nreturn v[2]; // here",
        "a map's value is read or written beyond its end",
    ),
    (
        "",
        "__u32 k = 0, *v = bpf_map_lookup_elem(&array, &k);\nif (!v) return 1;\n\
         return v[*(volatile __u32 *)v]; // here",
        "an index or length has no limit|beyond its end",
    ),
    (
        "",
        "__s32 k = 0, *v = bpf_map_lookup_elem(&array, &k);\nif (!v) return 1;\n__s32 n = *(volatile __s32 *)v;\n\
         if (n > 1) return 1;\nreturn v[n]; // here",
        "could be negative|has no limit|may be too large or negative",
    ),
    (
        "",
        "volatile int i = 0;\nfor (;;) i++; // here",
        "a loop has no end|too many paths|does not end with `return`",
    ),
    (
        "",
        "struct __sk_buff *skb = (void *)ctx;\nreturn bpf_skb_pull_data(skb, 4); // here",
        "XDP programs cannot call this helper",
    ),
    (
        "struct pair { __u8 a; __u32 b; };\nstruct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 4); \
         __type(key, struct pair); __type(value, __u32); } pairs SEC(\".maps\");",
        "struct pair key; key.b = ctx->ingress_ifindex;\nasm volatile(\"\" : : \"r\"(&key) : \"memory\");\nreturn bpf_map_lookup_elem(&pairs, (void *)ctx) ? 1 : 2; // here",
        "a helper's argument is of the wrong kind",
    ),
    (
        "",
        "char start[8] = {};\nif (data + 8 > end) return 1;\nreturn bpf_strncmp((char *)data, 8, word); // here",
        "does not take a pointer into the frame",
    ),
    (
        "",
        "asm volatile(\"*(u64 *)(r10 - 520) = %0\" : : \"r\"(data)); // here\nreturn 2;",
        "the stack is written or read beyond its 512 bytes",
    ),
    (
        "static __noinline int deep(struct xdp_md *ctx, int n) { volatile char large[300] = {}; return large[7] + n; }",
        "volatile char large[300] = {};\nreturn deep(ctx, large[1]) + large[2];",
        "more than 512 bytes of stack together",
    ),
    (
        "",
        "asm volatile(\"r1 = %0; r1 += 4; r0 = *(u32 *)(r1 + 0)\" : : \"r\"(ctx) : \"r0\", \"r1\"); // here\nreturn 2;",
        "the context is accessed at a place that was calculated|no member at this place",
    ),
    (
        "",
        "return *(volatile __u64 *)((char *)ctx + 40); // here",
        "the context has no member at this place",
    ),
    (
        "",
        "*(volatile __u32 *)&ctx->ingress_ifindex = 1; // here\nreturn 2;",
        "the context has no member at this place",
    ),
    (
        "const volatile __u32 constant = 4;",
        "*(volatile __u32 *)&constant = 5; // here\nreturn 2;",
        "a constant is written",
    ),
    (
        "",
        "asm volatile(\"r1 = %0; r1 *= 2; r0 = *(u8 *)(r1 + 0)\" : : \"r\"(data) : \"r0\", \"r1\"); // here\nreturn 2;",
        "an operation on a pointer that is not allowed",
    ),
    (
        "",
        "if (data + 14 > end) return 1;\n__u64 n = *(volatile __u64 *)data;\ndata += n; // here\n\
         if (data + 1 > end) return 1;\nreturn *data; // here",
        "moved by a number that may be too large|beyond what was compared",
    ),
    (
        "struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 4096); } ring SEC(\".maps\");",
        "__u32 *record = bpf_ringbuf_reserve(&ring, 4, 0);\nif (!record) return 1;\n*record = 1;\nreturn 2;",
        "not given back on some path",
    ),
    (
        "struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 4096); } ring SEC(\".maps\");",
        "__u32 *record = bpf_ringbuf_reserve(&ring, 4, 0);\n*record = 1; // here\n\
         bpf_ringbuf_submit(record, 0);\nreturn 2;",
        "a pointer that may be NULL is used",
    ),
    (
        "struct { __uint(type, BPF_MAP_TYPE_DEVMAP); __uint(max_entries, 4); __type(key, __u32); \
         __type(value, __u32); } devices SEC(\".maps\");",
        "__u32 k = 0;\nreturn bpf_map_update_elem(&devices, &k, &k, 0); // here",
        "a map that programs may not write",
    ),
    (
        "",
        "if (data + 16 > end) return 1;\n__sync_fetch_and_add((__u64 *)data, 1); // here\nreturn 2;",
        "an atomic operation on something that is not a map's value",
    ),
    (
        "",
        "__u32 k = 0, *v = bpf_map_lookup_elem(&array, &k);\n\
         return bpf_map_update_elem(&array, &k, v, 0); // here",
        "a helper is given a pointer that may be NULL",
    ),
    (
        "",
        "return *(volatile __u32 *)(long)ctx->ingress_ifindex; // here",
        "a number is used as a pointer",
    ),
    (
        "static long turn(__u32 i, void *with) { return 7; }",
        "bpf_loop(9, turn, 0, 0);\nreturn 2;",
        "a result is not in the range that is wanted|NEVER",
    ),
];

#[test]
fn common_mistakes_in_plain_words() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: loading programs takes root");
        return;
    }
    set_print(Some((PrintLevel::Warn, keep)));
    let mut wrong = Vec::new();
    for (before, body, wanted) in PROGRAMS {
        let text = format!(
            "#include <linux/bpf.h>\n#include <bpf/bpf_helpers.h>\n\
             struct {{ __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 2); \
             __type(key, __u32); __type(value, __u64); }} array SEC(\".maps\");\n\
             static const char word[] = \"word\";\n{before}\nSEC(\"xdp\")\n\
             int program(struct xdp_md *ctx)\n{{\n\
             __u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;\n{body}\n}}\n\
             char LICENSE[] SEC(\"license\") = \"GPL\";\n"
        );
        let object = common::compile_text(&text).unwrap_or_else(|error| panic!("{error}"));
        LOG.lock().expect("one thread").clear();
        let loaded =
            ObjectBuilder::default().open_memory(&object).expect("libbpf reads it").load().is_ok();
        let log = LOG.lock().expect("one thread").clone();
        let log = log.split("-- BEGIN PROG LOAD LOG --").nth(1).unwrap_or_default();
        let log = log.split("-- END PROG LOAD LOG --").next().unwrap_or_default();
        if loaded {
            // Programs that a newer kernel accepts are no mistake.
            println!("taken by this kernel: {body}");
            continue;
        }
        let problem = explain(log, |_| None);
        let fits = wanted.split('|').any(|wanted| problem.what.contains(wanted));
        let lines: Vec<usize> = (1..)
            .zip(text.lines())
            .filter(|(_, of)| of.ends_with("// here"))
            .map(|(n, _)| n)
            .collect();
        let line = problem.place.as_ref().map_or(0, |place| place.line as usize);
        // Kernels before 6.10 name no lines.
        let placed = lines.is_empty() || line == 0 || lines.contains(&line);
        if !fits || !placed || problem.remedy.is_empty() {
            let end: Vec<&str> = log.lines().rev().take(6).collect();
            wrong.push(format!("{body}\n=> {problem}\nwanted {wanted}, line {lines:?}, {end:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), PROGRAMS.len(), wrong.join("\n\n"));
}
