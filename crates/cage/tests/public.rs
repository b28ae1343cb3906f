//! Third-party programs: reads and runs the objects in the folder `EUROPA_XDP_PROGRAMS`. If the
//! kernel accepts a program, user mode gives the same results with random frames.

mod common;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use europa_cage::instruction::{CALL, call};
use europa_cage::user::{Closed, Frame, Input, Machine, Setup, Verdict};
use europa_cage::{Object, link};
use libbpf_rs::{ObjectBuilder, ProgramInput};

/// Helpers whose answers are not the same in both: clocks, numbers, routes, CPUs, events.
const DIFFERENT: [i32; 10] = [5, 7, 8, 25, 42, 69, 118, 125, 160, 208];

fn objects(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("EUROPA_XDP_PROGRAMS names a folder").flatten();
    let mut found: Vec<PathBuf> = entries
        .flat_map(|entry| match entry.path() {
            path if path.is_dir() => objects(&path),
            path if path.extension().is_some_and(|ending| ending == "o") => vec![path],
            _ => Vec::new(),
        })
        .collect();
    found.sort();
    found
}

/// The kernel's program of this name, if the kernel takes the object with it alone.
fn in_kernel(file: &[u8], name: &str) -> Option<libbpf_rs::Object> {
    let mut open = ObjectBuilder::default().open_memory(file).ok()?;
    for mut program in open.progs_mut() {
        let wanted = program.name() == name;
        program.set_autoload(wanted);
    }
    open.load().ok()
}

/// Compares a program with the kernel's; returns how many frames were equal, or the difference.
fn compare(
    object: &Object,
    machine: &mut Machine,
    kernel: &libbpf_rs::Object,
    name: &str,
) -> Result<usize, String> {
    let program = kernel.progs_mut().find(|program| program.name() == name).ok_or("no program")?;
    let mut random = common::Random(11);
    let count = 500;
    let _ = object;
    for _ in 0..count {
        let frame = common::frame(&mut random);
        let mut out = vec![0; 4096];
        let input = ProgramInput {
            data_in: Some(&frame),
            data_out: Some(&mut out),
            ..ProgramInput::default()
        };
        let output = program.test_run(input).map_err(|error| error.to_string())?;
        let bytes = output.data.map(|data| data.to_vec()).unwrap_or_default();
        let mut buffer = vec![0; 4096 - 360];
        buffer[216..216 + frame.len()].copy_from_slice(&frame);
        let mut at = Frame { buffer: &mut buffer, meta: 216, start: 216, end: 216 + frame.len() };
        let own = machine.run(&mut at, Input { device: 1, queue: 0 }, &mut Closed::default());
        let own = match own.map_err(|fault| format!("{fault} where the kernel answers"))? {
            Verdict::Aborted => 0,
            Verdict::Drop => 1,
            Verdict::Pass => 2,
            Verdict::Transmit => 3,
            Verdict::Redirect(_) => 4,
        };
        let known = output.return_value.min(5) % 5;
        if own != known || at.buffer[at.meta..at.end] != bytes[..] {
            return Err(format!(
                "{own} where the kernel answers {}: {frame:02x?}",
                output.return_value
            ));
        }
    }
    Ok(count)
}

#[test]
fn public_programs_run_as_in_the_kernel() {
    let Some(folder) = std::env::var_os("EUROPA_XDP_PROGRAMS") else {
        eprintln!(
            "skipped: public_programs_run_as_in_the_kernel: EUROPA_XDP_PROGRAMS names no folder"
        );
        return;
    };
    libbpf_rs::set_print(None);
    let (mut ran, mut equal, mut refused, mut wrong) = (0, 0, Vec::new(), Vec::new());
    for path in objects(Path::new(&folder)) {
        let file = fs::read(&path).expect("an object");
        let short = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let Ok(object) = Object::read(&file) else {
            refused.push(format!("{short}: not read"));
            continue;
        };
        let xdp: Vec<usize> = (0..object.functions.len())
            .filter(|number| {
                let function = &object.functions[*number];
                let section = object.section_of(function);
                function.program && (section.starts_with("xdp") || section == "prog")
            })
            .collect();
        for number in xdp {
            let name = object.functions[number].name.clone();
            let tried = catch_unwind(AssertUnwindSafe(|| {
                let linked = link(&object, &[number])?;
                let machine = Machine::new(&object, &linked, &Setup::default())?;
                Ok::<_, europa_cage::Problems>((linked, machine))
            }));
            let (linked, mut machine) = match tried {
                Ok(Ok(ready)) => ready,
                Ok(Err(problems)) => {
                    let first = problems.0.first().map(|of| of.what.clone()).unwrap_or_default();
                    refused.push(format!("{short}: {name}: {first}"));
                    continue;
                }
                Err(_) => panic!("{short}: {name}: a panic"),
            };
            ran += 1;
            let different = linked.code.iter().any(|of| {
                of.code == CALL && of.src == call::HELPER && DIFFERENT.contains(&of.immediate)
            });
            let Some(kernel) = in_kernel(&file, &name).filter(|_| !different) else { continue };
            match compare(&object, &mut machine, &kernel, &name) {
                Ok(_) => equal += 1,
                Err(what) => wrong.push(format!("{short}: {name}: {what}")),
            }
        }
    }
    println!("{ran} programs run, {equal} compared with the kernel, {} refused:", refused.len());
    for line in &refused {
        println!("  {line}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(ran > 0, "the folder has no program");
}
