//! Object files that are not as clang makes them today, and programs that are stopped.

mod common;

use europa_cage::user::{Cause, Closed, Frame, Input, Limits, Machine, Setup, Verdict};
use europa_cage::{Object, link, values};

/// The only program of an object, ready to run.
fn machine(object: &Object, setup: &Setup) -> Result<Machine, String> {
    let program = object.program(None).map_err(|problem| problem.to_string())?;
    let linked = link(object, &[program]).map_err(|problems| problems.to_string())?;
    Machine::new(object, &linked, setup).map_err(|problems| problems.to_string())
}

/// Runs a machine on a frame of zeros.
fn run(machine: &mut Machine, bytes: usize) -> Result<Verdict, Cause> {
    let mut buffer = vec![0; 256 + bytes + 64];
    let mut frame = Frame { buffer: &mut buffer, meta: 256, start: 256, end: 256 + bytes };
    let input = Input { device: 1, queue: 0 };
    machine.run(&mut frame, input, &mut Closed::default()).map_err(|fault| fault.cause)
}

#[test]
fn old_maps_and_section_names() {
    let object = Object::read(&common::compile("legacy")).expect("an object");
    assert_eq!(object.programs().collect::<Vec<_>>(), ["count"]);
    assert_eq!(object.program(Some("my own name")), object.program(Some("count")));
    let mut machine = machine(&object, &Setup::default()).expect("a machine");
    for _ in 0..3 {
        assert_eq!(run(&mut machine, 60), Ok(Verdict::Pass));
    }
    assert_eq!(run(&mut machine, 70), Ok(Verdict::Pass));
    let [counts, lengths] = ["counts", "lengths"].map(|name| {
        let map = machine.maps().iter().find(|map| map.name() == name).expect("a map");
        let mut entries = map.entries();
        entries.sort();
        entries
    });
    assert_eq!(counts[1], (vec![1, 0, 0, 0], vec![4, 0, 0, 0, 0, 0, 0, 0]));
    assert_eq!(lengths.iter().map(|(key, _)| key[0]).collect::<Vec<_>>(), [60, 70]);
}

/// A program with this body, and the declarations before it.
fn program(before: &str, body: &str) -> Vec<u8> {
    let text = format!(
        "#include <linux/bpf.h>\n#include <bpf/bpf_helpers.h>\n{before}\nSEC(\"xdp\")\n\
         int program(struct xdp_md *ctx)\n{{\n\t{body}\n}}\n"
    );
    common::compile_text(&text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn what_a_program_may_not_do_is_stopped() {
    let map = "struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 2); \
               __type(key, __u32); __type(value, __u32); } map SEC(\".maps\");";
    let data = "__u8 *data = (void *)(long)ctx->data;";
    for (before, body, cause) in [
        ("", format!("{data} return data[60];"), "a read of 1 bytes out of bounds"),
        ("", format!("{data} return data[-1];"), "a read of 1 bytes out of bounds"),
        ("", format!("{data} data[60] = 1; return 2;"), "a write of 1 bytes out of bounds"),
        ("", "return *(volatile int *)0;".into(), "a read of 4 bytes out of bounds, at 0x0"),
        ("", "return *(volatile int *)-8l;".into(), "a read of 4 bytes out of bounds"),
        ("", "*(volatile int *)ctx = 1; return 2;".into(), "a write of 4 bytes out of bounds"),
        ("", "volatile int x = 1; while (x) x++; return 2;".into(), "too many instructions"),
        (
            "__noinline int deep(int n) { return n > 9 ? n : deep(n + 1) * 3 + deep(n + 2); }",
            "return deep(ctx->ingress_ifindex);".into(),
            "functions call each other more than 8 deep",
        ),
        (
            map,
            "__u32 k = 0, *v = bpf_map_lookup_elem(&map, &k); return v ? v[1] : 0;".into(),
            "a read of 4 bytes out of bounds",
        ),
        (
            map,
            "__u32 k = 2; return *(volatile __u32 *)bpf_map_lookup_elem(&map, &k);".into(),
            "a read of 4 bytes out of bounds, at 0x0",
        ),
        (map, "return *(volatile __u32 *)&map;".into(), "a read of 4 bytes out of bounds"),
        (map, "bpf_ringbuf_submit(&map, 0); return 2;".into(), "argument 1 of a helper"),
        ("const volatile int c = 1;", "*(volatile int *)&c = 2; return 2;".into(), "a write of 4"),
    ] {
        let object = Object::read(&program(before, &body)).expect("an object");
        let mut machine = machine(&object, &Setup::default()).unwrap_or_else(|e| panic!("{e}"));
        let found = run(&mut machine, 60).map_err(|cause| cause.to_string());
        let error = found.expect_err(&body);
        assert!(error.contains(cause), "{body}: {error}");
    }
}

#[test]
fn mistakes_are_told_all_at_once_with_their_lines() {
    let text = "#include <linux/bpf.h>\n#include <bpf/bpf_helpers.h>\n\
        struct { __uint(type, BPF_MAP_TYPE_SOCKMAP); __uint(max_entries, 2); \
        __type(key, __u32); __type(value, __u32); } sockets SEC(\".maps\");\n\
        extern int bpf_xdp_metadata_rx_hash(const void *ctx, __u32 *hash) __ksym;\n\
        SEC(\"xdp\")\nint program(struct xdp_md *ctx)\n{\n\
        \t__u32 key = 0;\n\
        \tvoid *found = bpf_map_lookup_elem(&sockets, &key);\n\
        \tlong task = bpf_get_current_pid_tgid();\n\
        \treturn found ? task : bpf_probe_read_kernel(&key, 4, ctx);\n}\n";
    let object = Object::read(&common::compile_text(text).expect("compiled")).expect("an object");
    let problems = machine(&object, &Setup::default()).expect_err("three mistakes");
    for wanted in [
        ".c:9:16: map 'sockets': map type 15 is not allowed",
        "void *found = bpf_map_lookup_elem(&sockets, &key);",
        ".c:10:14: `bpf_get_current_pid_tgid` is not allowed in an XDP program of a router",
        "help: an XDP program runs for no process; remove the call",
        "`bpf_probe_read_kernel` is not allowed",
    ] {
        assert!(problems.contains(wanted), "{wanted} is not in:\n{problems}");
    }
    let text = text.replace("void *found =", "bpf_xdp_metadata_rx_hash(ctx, &key); void *found =");
    let object = Object::read(&common::compile_text(&text).expect("compiled")).expect("an object");
    let problems = machine(&object, &Setup::default()).expect_err("a kfunc");
    assert!(
        problems.contains("'bpf_xdp_metadata_rx_hash' is not in the object: kernel functions"),
        "{problems}"
    );
}

#[test]
fn constants_and_values_as_text() {
    let before = "struct pair { __u16 a; __s8 b[2]; };\nconst volatile __u32 limit = 5;\n\
        const volatile struct pair both = {1, {2, -3}}; const volatile _Bool on;\n__u64 sum = 9;";
    let body = "sum += both.a + both.b[1]; return on ? limit : 0;";
    let mut object = Object::read(&program(before, body)).expect("an object");
    for (name, text) in [("limit", "3"), ("both", "{a: 0x10, b: [1, -1]}"), ("on", "true")] {
        values::set_constant(&mut object, name, text).expect(name);
    }
    for (name, text, wanted) in [
        ("limit", "-1", "constant 'limit': '-1' is no value of 4 bytes"),
        ("limit", "4294967296", "is no value of 4 bytes"),
        ("both", "{c: 1}", "no member 'c'; there are a, b"),
        ("both", "{b: [1, 2, 3]}", "more values than the array has"),
        ("none", "1", "the program has no constant 'none'"),
    ] {
        let error = values::set_constant(&mut object, name, text).expect_err(text).to_string();
        assert!(error.contains(wanted), "{error}");
    }
    let mut machine = machine(&object, &Setup::default()).expect("a machine");
    assert_eq!(run(&mut machine, 60), Ok(Verdict::Transmit));
    let map = machine.maps().iter().find(|map| map.name() == ".data").expect("data");
    assert_eq!(map.entries()[0].1[..8], 24_u64.to_le_bytes());
    let [(_, bytes)] =
        &machine.maps().iter().find(|map| map.name() == ".rodata").unwrap().entries()[..]
    else {
        panic!("one entry");
    };
    let (_, both) = object.btf.variables(".rodata").find(|(name, _)| *name == "both").unwrap();
    let part = &bytes[both.offset as usize..][..4];
    assert_eq!(values::format(&object.btf, Some(both.of), part), "{a: 16, b: [1, -1]}");
}

#[test]
fn maps_have_a_limit() {
    let before = "struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 100000000); \
                  __type(key, __u64); __type(value, __u64[8]); } large SEC(\".maps\");";
    let body = "__u64 k = 1; return bpf_map_lookup_elem(&large, &k) ? 1 : 2;";
    let object = Object::read(&program(before, body)).expect("an object");
    let error = machine(&object, &Setup::default()).expect_err("too large");
    assert!(
        error.contains("map 'large': 9600000000 bytes, of which 268435456 are left"),
        "{error}"
    );
    let fuel = Setup { limits: Limits { fuel: 10, ..Limits::default() }, ..Setup::default() };
    let body = "volatile int x = 0; for (int i = 0; i < 100; i++) x++; return 2;";
    let object = Object::read(&program("", body)).expect("an object");
    assert_eq!(run(&mut machine(&object, &fuel).expect("a machine"), 60), Err(Cause::Fuel));
    assert_eq!(run(&mut machine(&object, &Setup::default()).expect("one"), 60), Ok(Verdict::Pass));
}

#[test]
fn mutated_objects_are_errors() {
    let count: usize =
        std::env::var("EUROPA_XDP_MUTATIONS").ok().map_or(20_000, |n| n.parse().expect("a number"));
    let files = ["parse", "stages", "send", "legacy"].map(common::compile);
    let mut random = common::Random(77);
    let (mut read, mut ran) = (0, 0);
    for turn in 0..count {
        let mut file = files[turn % files.len()].clone();
        for _ in 0..=random.below(6) {
            let at = random.below(file.len() as u64) as usize;
            match random.below(4) {
                0 => file[at] = random.next() as u8,
                1 => file[at] ^= 1 << random.below(8),
                2 => {
                    let value =
                        [0_u64, 1, 0xffff_ffff, u64::MAX, 0x7fff_ffff][random.below(5) as usize];
                    let end = (at + 8).min(file.len());
                    file[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
                }
                _ => file.truncate(at.max(64)),
            }
        }
        let Ok(object) = Object::read(&file) else { continue };
        read += 1;
        let all: Vec<usize> = (0..object.functions.len())
            .filter(|number| object.functions[*number].program)
            .collect();
        let Ok(linked) = link(&object, &all) else { continue };
        let limits = Limits { map_bytes: 1 << 24, fuel: 10_000 };
        let setup = Setup { limits, ..Setup::default() };
        let Ok(mut machine) = Machine::new(&object, &linked, &setup) else { continue };
        ran += 1;
        let _ = run(&mut machine, 64);
    }
    println!("{count} mutated files: {read} read, {ran} ran");
    assert!(read > count / 10 && ran > count / 20, "{read} {ran}");
}

#[test]
fn a_million_frames_are_judged() {
    let object = Object::read(&common::compile("rewrite")).expect("an object");
    let mut machine = machine(&object, &Setup::default()).expect("a machine");
    let mut buffer = vec![0; 4096 - 360];
    // A frame to forward: addresses are exchanged, TTL and checksum changed.
    let header = [0x45, 7, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let begun = std::time::Instant::now();
    for _ in 0..1_000_000 {
        buffer[216 + 12..216 + 14].copy_from_slice(&[8, 0]);
        buffer[216 + 14..216 + 34].copy_from_slice(&header);
        let mut frame = Frame { buffer: &mut buffer, meta: 216, start: 216, end: 276 };
        let input = Input { device: 1, queue: 0 };
        let verdict = machine.run(&mut frame, input, &mut Closed::default());
        assert_eq!(verdict, Ok(Verdict::Transmit));
    }
    println!("{:.2} million frames a second", 1.0 / begun.elapsed().as_secs_f64());
}
