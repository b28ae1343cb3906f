//! Programs that would reveal an address are refused; ordinary programs are not.

mod common;

use europa_cage::instruction::{CALL, EXIT, Instruction};
use europa_cage::leak::analyse;
use europa_cage::{Linked, LinkedFunction, Object, link};

const MAPS: &str = r#"
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 4); __type(key, __u32); __type(value, __u64[2]); } array SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 4096); } ring SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_PROG_ARRAY); __uint(max_entries, 4); __type(key, __u32); __type(value, __u32); } stages SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY); __type(key, __u32); __type(value, __u32); } events SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_DEVMAP); __uint(max_entries, 4); __type(key, __u32); __type(value, __u32); } devices SEC(".maps");
SEC("xdp") int program(struct xdp_md *ctx)
{
	__u32 key = 0;
	bpf_map_lookup_elem(&array, &key);
	bpf_ringbuf_output(&ring, &key, 4, 0);
	bpf_tail_call(ctx, &stages, 1);
	bpf_perf_event_output(ctx, &events, 0, &key, 4);
	return bpf_redirect_map(&devices, 0, 0);
}
"#;

fn op(code: u8, dst: u8, src: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction { code, dst, src, offset, immediate }
}

/// `dst = map`.
fn map(object: &Object, dst: u8, name: &str) -> [Instruction; 2] {
    let number = object.maps.iter().position(|map| map.name == name).expect("a map");
    [op(0x18, dst, 1, 0, number as i32), op(0, 0, 0, 0, 0)]
}

/// Ways to have a pointer in register 6; register 7 has a map's value, register 8 the context,
/// register 9 the frame.
fn pointers(object: &Object) -> Vec<(&'static str, Vec<Instruction>)> {
    let other = |name| map(object, 6, name).to_vec();
    let reserve = [
        map(object, 1, "ring").to_vec(),
        vec![
            op(0xb7, 2, 0, 0, 16),
            op(0xb7, 3, 0, 0, 0),
            op(CALL, 0, 0, 0, 131),
            op(0xbf, 6, 0, 0, 0),
        ],
    ];
    vec![
        ("context", vec![op(0xbf, 6, 8, 0, 0)]),
        ("stack", vec![op(0xbf, 6, 10, 0, 0), op(0x07, 6, 0, 0, -8)]),
        ("frame", vec![op(0xbf, 6, 9, 0, 0)]),
        ("end of the frame", vec![op(0x61, 6, 8, 4, 0)]),
        ("metadata", vec![op(0x61, 6, 8, 8, 0)]),
        ("map's value", vec![op(0xbf, 6, 7, 0, 0)]),
        ("record", reserve.concat()),
        ("map", other("array")),
    ]
}

/// The use of register 6, which must be a number.
fn misuses(object: &Object) -> Vec<(String, Vec<Instruction>)> {
    let mut all: Vec<(String, Vec<Instruction>)> = Vec::new();
    let mut add = |name: &str, code: Vec<Instruction>| all.push((name.to_owned(), code));
    for (name, operation) in [
        ("*", 0x20),
        ("/", 0x30),
        ("|", 0x40),
        ("&", 0x50),
        ("<<", 0x60),
        (">>", 0x70),
        ("%", 0x90),
        ("^", 0xa0),
        ("s>>", 0xc0),
    ] {
        add(&format!("{name} number"), vec![op(operation | 7, 6, 0, 0, 3)]);
        add(&format!("short {name} number"), vec![op(operation | 4, 6, 0, 0, 3)]);
        add(
            &format!("number {name} it"),
            vec![op(0xb7, 1, 0, 0, 9), op(operation | 0xf, 1, 6, 0, 0)],
        );
    }
    add("negation", vec![op(0x87, 6, 0, 0, 0)]);
    add("short addition", vec![op(0x04, 6, 0, 0, 1)]);
    add("short move", vec![op(0xbc, 1, 6, 0, 0), op(0x63, 7, 1, 0, 0)]);
    add("byte order", vec![op(0xdc, 6, 0, 0, 64)]);
    add("number minus it", vec![op(0xb7, 1, 0, 0, 9), op(0x1f, 1, 6, 0, 0)]);
    for (name, code) in [
        (">", 0x25),
        ("<=", 0xb5),
        ("== 1", 0x15),
        ("&", 0x45),
        ("s>", 0x65),
        ("short ==", 0x16),
        ("short <", 0xa6),
    ] {
        add(&format!("comparison {name}"), vec![op(code, 6, 0, 0, 1)]);
    }
    add("comparison with a number", vec![op(0x61, 1, 8, 12, 0), op(0x2d, 6, 1, 0, 0)]);
    add("comparison of a number with it", vec![op(0x61, 1, 8, 12, 0), op(0x1d, 1, 6, 0, 0)]);
    for (name, code) in [("8", 0x7b), ("4", 0x63), ("2", 0x6b), ("1", 0x73)] {
        add(&format!("store of {name} bytes in a map"), vec![op(code, 7, 6, 0, 0)]);
        add(&format!("store of {name} bytes in the frame"), vec![op(code, 9, 6, 0, 0)]);
    }
    for (name, code) in [("4", 0x63), ("2", 0x6b), ("1", 0x73)] {
        add(&format!("store of {name} bytes on the stack"), vec![op(code, 10, 6, -16, 0)]);
    }
    let spill = op(0x7b, 10, 6, -16, 0);
    for (name, code, at) in [
        ("4 bytes", 0x61, -16),
        ("the high 4 bytes", 0x61, -12),
        ("2 bytes", 0x69, -14),
        ("1 byte", 0x71, -9),
        ("8 bytes beside", 0x79, -12),
        ("4 bytes with a sign", 0x81, -16),
    ] {
        add(
            &format!("read of {name}"),
            vec![spill, op(0x7a, 10, 0, -8, 0), op(code, 1, 10, at, 0)],
        );
    }
    let smash = [spill, op(0x72, 10, 0, -16, 0)];
    add("read of what is left", [&smash[..], &[op(0x79, 1, 10, -16, 0)]].concat());
    add("read of a byte that is left", [&smash[..], &[op(0x71, 1, 10, -15, 0)]].concat());
    let atomic = |operation: i32| vec![op(0xdb, 7, 6, 0, operation)];
    for (name, operation) in
        [("addition", 0), ("and", 0x51), ("exchange", 0xe1), ("comparison", 0xf1)]
    {
        add(&format!("atomic {name}"), [vec![op(0xb7, 0, 0, 0, 0)], atomic(operation)].concat());
    }
    add("atomic addition on the stack", vec![spill, op(0xb7, 1, 0, 0, 1), op(0xdb, 10, 1, -16, 1)]);
    let on_stack = |dst: u8, at: i32| vec![op(0xbf, dst, 10, 0, 0), op(0x07, dst, 0, 0, at)];
    let key = || [vec![op(0x62, 10, 0, -4, 0)], on_stack(2, -4)].concat();
    let in_array = || map(object, 1, "array").to_vec();
    let update = op(CALL, 0, 0, 0, 2);
    let value = [vec![spill, op(0x7a, 10, 0, -8, 0)], on_stack(3, -16)].concat();
    // The key follows the value here.
    let key_behind = [vec![op(0x62, 10, 0, -20, 0)], on_stack(2, -20)].concat();
    add(
        "value of a map",
        [in_array(), key_behind, value, vec![op(0xb7, 4, 0, 0, 0), update]].concat(),
    );
    add(
        "key of a map",
        [in_array(), vec![spill], on_stack(2, -16), vec![op(CALL, 0, 0, 0, 1)]].concat(),
    );
    add(
        "flags of an update",
        [in_array(), key(), vec![op(0xbf, 3, 7, 0, 0), op(0xbf, 4, 6, 0, 0), update]].concat(),
    );
    let ring = map(object, 1, "ring").to_vec();
    let output = vec![op(0xb7, 3, 0, 0, 16), op(0xb7, 4, 0, 0, 0), op(CALL, 0, 0, 0, 130)];
    add(
        "bytes of a record",
        [ring, vec![spill, op(0x7a, 10, 0, -8, 0)], on_stack(2, -16), output].concat(),
    );
    let device = map(object, 1, "devices").to_vec();
    add(
        "key of a redirection",
        [device, vec![op(0xbf, 2, 6, 0, 0), op(0xb7, 3, 0, 0, 0), op(CALL, 0, 0, 0, 51)]].concat(),
    );
    add("device", vec![op(0xbf, 1, 6, 0, 0), op(0xb7, 2, 0, 0, 0), op(CALL, 0, 0, 0, 23)]);
    add(
        "distance of a move",
        vec![op(0xbf, 1, 8, 0, 0), op(0xbf, 2, 6, 0, 0), op(CALL, 0, 0, 0, 44)],
    );
    let stages = map(object, 2, "stages").to_vec();
    add(
        "index of a tail call",
        [vec![op(0xbf, 1, 8, 0, 0)], stages, vec![op(0xbf, 3, 6, 0, 0), op(CALL, 0, 0, 0, 12)]]
            .concat(),
    );
    let nothing = [1, 2, 3, 4].map(|dst| op(0xb7, dst, 0, 0, 0));
    add(
        "seed of a checksum",
        [&nothing[..], &[op(0xbf, 5, 6, 0, 0), op(CALL, 0, 0, 0, 28)]].concat(),
    );
    let format = [vec![op(0x7a, 10, 0, -24, 0x7025)], on_stack(1, -24), vec![op(0xb7, 2, 0, 0, 8)]];
    add(
        "number to print",
        [format.concat(), vec![op(0xbf, 3, 6, 0, 0), op(CALL, 0, 0, 0, 6)]].concat(),
    );
    let events = map(object, 2, "events").to_vec();
    let data = [vec![spill], on_stack(4, -16), vec![op(0xb7, 5, 0, 0, 8), op(CALL, 0, 0, 0, 25)]];
    add(
        "bytes of an event",
        [vec![op(0xbf, 1, 8, 0, 0)], events, vec![op(0xb7, 3, 0, 0, 0)], data.concat()].concat(),
    );
    add("verdict", vec![op(0xbf, 0, 6, 0, 0), op(EXIT, 0, 0, 0, 0)]);
    all
}

/// A whole program around these instructions.
fn program(
    object: &Object,
    linked: &Linked,
    pointer: &[Instruction],
    misuse: &[Instruction],
) -> Linked {
    let prologue = [
        vec![
            op(0xbf, 8, 1, 0, 0),
            op(0x62, 10, 0, -4, 0),
            op(0xbf, 2, 10, 0, 0),
            op(0x07, 2, 0, 0, -4),
        ],
        map(object, 1, "array").to_vec(),
        // A second path, for a missing value or a short frame.
        vec![
            op(CALL, 0, 0, 0, 1),
            op(0x55, 0, 0, 2, 0),
            op(0xb7, 0, 0, 0, 1),
            op(EXIT, 0, 0, 0, 0),
            op(0xbf, 7, 0, 0, 0),
            op(0x61, 9, 8, 0, 0),
            op(0x61, 1, 8, 4, 0),
            op(0xbf, 2, 9, 0, 0),
            op(0x07, 2, 0, 0, 14),
            op(0xbd, 2, 1, 2, 0),
            op(0xb7, 0, 0, 0, 1),
            op(EXIT, 0, 0, 0, 0),
        ],
    ];
    let end = [op(0xb7, 0, 0, 0, 2), op(EXIT, 0, 0, 0, 0)];
    let code = [&prologue.concat()[..], pointer, misuse, &end].concat();
    let functions =
        vec![LinkedFunction { function: linked.functions[0].function, start: 0, end: code.len() }];
    Linked { code, functions, used: linked.used.clone(), entries: vec![0] }
}

#[test]
fn hostile_programs_are_refused() {
    let object = Object::read(&common::compile_text(MAPS).expect("compiled")).expect("an object");
    let linked = link(&object, &[object.program(None).expect("one")]).expect("linked");
    let base = analyse(&object, &linked).problems;
    assert!(base.is_empty(), "{base:?}");
    let (mut refused, mut missed, mut wrong) = (0, Vec::new(), Vec::new());
    for (what, misuse) in misuses(&object) {
        // The same with a number is an ordinary program.
        let number = [op(0x61, 6, 8, 12, 0)];
        let found = analyse(&object, &program(&object, &linked, &number, &misuse)).problems;
        if !found.is_empty() {
            wrong.push(format!("{what} of a number: {}", found[0]));
        }
        for (name, pointer) in pointers(&object) {
            let found = analyse(&object, &program(&object, &linked, &pointer, &misuse)).problems;
            match found.is_empty() {
                true => missed.push(format!("{what} of {name}")),
                false => refused += 1,
            }
        }
    }
    println!("{refused} hostile programs refused");
    assert!(missed.is_empty(), "{} taken:\n{}", missed.len(), missed.join("\n"));
    assert!(wrong.is_empty(), "{} refused:\n{}", wrong.len(), wrong.join("\n"));
    assert!(refused >= 200, "only {refused}");
}

#[test]
fn ordinary_programs_are_not() {
    for source in ["parse", "rewrite", "stages", "numbers", "send", "legacy"] {
        let object = Object::read(&common::compile(source)).expect("an object");
        let programs: Vec<usize> = (0..object.functions.len())
            .filter(|number| object.functions[*number].program)
            .collect();
        let linked = link(&object, &programs).expect("linked");
        let findings = analyse(&object, &linked);
        let text: Vec<String> = findings.problems.iter().map(ToString::to_string).collect();
        println!("{source}: {} stacks to clear", findings.to_clear.len());
        assert!(text.is_empty(), "{source}: {}", text.join("\n"));
    }
}
