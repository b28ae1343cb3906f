//! Programs of Europa's own linker load, and behave in the kernel as in user mode.

mod common;

use std::collections::HashMap;
use std::ffi::CString;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use europa_cage::user::{Closed, Frame, Input, Machine, Setup, Verdict};
use europa_cage::verifier::explain;
use europa_cage::{Image, Linked, Object, link};
use europa_substrate::verify::{Candidate, MapShape, Refused, create_map, load, try_run};

/// Loads a program with its maps.
fn loaded(object: &Object, linked: &Linked) -> Result<(OwnedFd, Vec<OwnedFd>), Refused> {
    let image = Image::new(object, linked);
    let mut maps = HashMap::new();
    for number in image.maps() {
        let map = &object.maps[number];
        let shape = MapShape {
            name: &map.name,
            type_number: map.type_number,
            key_bytes: map.key_bytes,
            value_bytes: map.value_bytes,
            max_entries: map.max_entries,
            flags: map.flags,
            data: map.data.as_ref().map(|(bytes, constant)| (bytes.as_slice(), *constant)),
        };
        maps.insert(number, create_map(&shape).expect("a map"));
    }
    let instructions = image.with_maps(|number| maps[&number].as_raw_fd());
    let license = CString::new(object.license()).expect("a licence");
    let candidate = Candidate {
        instructions: &instructions,
        btf: &image.btf,
        functions: &image.functions,
        lines: &image.lines,
        license: &license,
        frags: false,
    };
    load(&candidate).map(|program| (program, maps.into_values().collect()))
}

#[test]
fn linked_programs_are_loaded_and_do_the_same() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: loading programs takes root");
        return;
    }
    for (source, name) in [
        ("parse", "parse"),
        ("rewrite", "rewrite"),
        ("numbers", "calculate"),
        ("send", "send"),
        ("legacy", "count"),
    ] {
        let object = Object::read(&common::compile(source)).expect("an object");
        let program = object.program(Some(name)).expect("a program");
        let linked = link(&object, &[program]).expect("linked");
        let mut machine = Machine::new(&object, &linked, &Setup::default()).expect("a machine");
        let (program, _maps) =
            loaded(&object, &linked).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut random = common::Random(9);
        for _ in 0..2000 {
            let frame = common::frame(&mut random);
            let (verdict, bytes) = try_run(program.as_fd(), &frame).expect("it runs");
            let mut buffer = vec![0; 4096 - 360];
            buffer[216..216 + frame.len()].copy_from_slice(&frame);
            let mut at =
                Frame { buffer: &mut buffer, meta: 216, start: 216, end: 216 + frame.len() };
            let input = Input { device: 1, queue: 0 };
            let own = machine.run(&mut at, input, &mut Closed::default()).expect("no fault");
            let own = match own {
                Verdict::Aborted => 0,
                Verdict::Drop => 1,
                Verdict::Pass => 2,
                Verdict::Transmit => 3,
                Verdict::Redirect(_) => 4,
            };
            assert_eq!(
                (own, &at.buffer[at.meta..at.end]),
                (verdict, &bytes[..]),
                "{name} {frame:02x?}"
            );
        }
    }
}

#[test]
fn the_verifiers_answer_is_at_the_authors_line() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: loading programs takes root");
        return;
    }
    let text = "#include <linux/bpf.h>\n#include <bpf/bpf_helpers.h>\n\
        static __noinline int first(struct xdp_md *ctx)\n{\n\
        \t__u8 *data = (void *)(long)ctx->data;\n\
        \treturn data[0];\n}\n\
        SEC(\"xdp\")\nint program(struct xdp_md *ctx)\n{\n\treturn first(ctx) + 1;\n}\n";
    let object = Object::read(&common::compile_text(text).expect("compiled")).expect("an object");
    let linked = link(&object, &[object.program(None).expect("one")]).expect("linked");
    let Err(Refused::Verifier(log)) = loaded(&object, &linked) else { panic!("it is refused") };
    let problem = explain(&log, |at| linked.place(&object, at));
    let place = problem.place.as_ref().unwrap_or_else(|| panic!("{problem}\n{log}"));
    assert_eq!((place.line, place.text.trim()), (6, "return data[0];"), "{problem}\n{log}");
    assert!(problem.what.contains("compared with `data_end`"), "{problem}");
}
