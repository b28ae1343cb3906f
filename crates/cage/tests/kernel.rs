//! The same program in the kernel (`BPF_PROG_TEST_RUN`) and in user mode: verdict, bytes and maps
//! are equal for random frames.
//!
//! `EUROPA_XDP_FRAMES` is the total number of frames; default 100,000.

mod common;

use std::collections::BTreeMap;

use common::Random;
use europa_cage::user::{Closed, Frame, Input, Machine, Setup, Target, Verdict};
use europa_cage::{MapKind, Object, link};
use libbpf_rs::{MapCore, MapFlags, MapType, ObjectBuilder, ProgramInput};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// The kernel's room before a frame, and behind it, in a page.
const HEADROOM: usize = 256 - 40;
const ROOM: usize = 4096 - 320 - 40;

/// A program in both.
struct Pair {
    kernel: libbpf_rs::Object,
    machine: Machine,
    object: Object,
    name: String,
    buffer: Vec<u8>,
}

fn is_root() -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        println!("skipped: loading programs takes root");
    }
    root
}

fn frames() -> usize {
    let wanted = std::env::var("EUROPA_XDP_FRAMES").ok();
    wanted.map_or(100_000, |frames| frames.parse().expect("EUROPA_XDP_FRAMES is a number"))
}

impl Pair {
    /// `source` in `tests/programs`, and its program of this name.
    fn new(source: &str, name: &str) -> Pair {
        Pair::of(&common::compile(source), name)
    }

    fn of(file: &[u8], name: &str) -> Pair {
        // Values for each CPU are compared on the first CPU.
        let mut cpu = CpuSet::new();
        cpu.set(0).expect("a CPU");
        sched_setaffinity(Pid::from_raw(0), &cpu).expect("the first CPU");
        let kernel = ObjectBuilder::default().open_memory(file).expect("libbpf reads it");
        let kernel = kernel.load().expect("the kernel takes it");
        let object = Object::read(file).expect("an object");
        let entry = object.program(Some(name)).expect("the program");
        let others = (0..object.functions.len())
            .filter(|number| *number != entry && object.functions[*number].program);
        let all: Vec<usize> = [entry].into_iter().chain(others).collect();
        let linked = link(&object, &all).expect("linked");
        let machine = Machine::new(&object, &linked, &Setup::default()).expect("a machine");
        Pair { kernel, machine, object, name: name.to_owned(), buffer: vec![0; ROOM] }
    }

    /// Sets an entry in both.
    fn set(&mut self, map: &str, key: &[u8], value: &[u8]) {
        let kernel = self.kernel.maps_mut().find(|found| found.name() == map).expect("a map");
        kernel.update(key, value, MapFlags::ANY).expect("an update");
        self.set_user(map, key, value);
    }

    /// Sets an entry in user mode.
    fn set_user(&mut self, map: &str, key: &[u8], value: &[u8]) {
        let user = self.machine.maps_mut().iter_mut().find(|found| found.name() == map);
        assert_eq!(user.expect("a map").update(key, value, 0), 0);
    }

    /// Verdict and bytes in the kernel.
    fn in_kernel(&self, frame: &[u8]) -> (u32, Vec<u8>) {
        let program = self.kernel.progs_mut().find(|of| of.name() == self.name.as_str());
        let mut out = vec![0; 4096];
        let input = ProgramInput {
            data_in: Some(frame),
            data_out: Some(&mut out),
            ..ProgramInput::default()
        };
        let output = program.expect("a program").test_run(input).expect("it runs");
        let bytes = output.data.map(|data| data.to_vec()).unwrap_or_default();
        (output.return_value, bytes)
    }

    /// Verdict and bytes in user mode.
    fn in_user_mode(&mut self, frame: &[u8]) -> (u32, Vec<u8>, Target) {
        self.buffer.fill(0xa5);
        self.buffer[HEADROOM..HEADROOM + frame.len()].copy_from_slice(frame);
        let mut at = Frame {
            buffer: &mut self.buffer,
            meta: HEADROOM,
            start: HEADROOM,
            end: HEADROOM + frame.len(),
        };
        let input = Input { device: 1, queue: 0 };
        let verdict = self.machine.run(&mut at, input, &mut Closed::default());
        let (number, target) = match verdict.expect("no fault") {
            Verdict::Aborted => (0, Target::Nowhere),
            Verdict::Drop => (1, Target::Nowhere),
            Verdict::Pass => (2, Target::Nowhere),
            Verdict::Transmit => (3, Target::Nowhere),
            Verdict::Redirect(target) => (4, target),
        };
        (number, at.buffer[at.meta..at.end].to_vec(), target)
    }

    /// Runs random frames in both.
    fn compare(&mut self, count: usize, random: &mut Random) {
        let mut verdicts = BTreeMap::new();
        for number in 0..count {
            let frame = common::frame(random);
            let (verdict, bytes) = self.in_kernel(&frame);
            let (own, own_bytes, _) = self.in_user_mode(&frame);
            let name = &self.name;
            assert_eq!(own, verdict, "{name}: frame {number}: {frame:02x?}");
            assert!(
                own_bytes == bytes,
                "{name}: frame {number}: {frame:02x?}\nkernel {bytes:02x?}\nuser   {own_bytes:02x?}"
            );
            *verdicts.entry(verdict).or_insert(0_usize) += 1;
            if number.is_power_of_two() {
                self.compare_maps();
            }
        }
        self.compare_maps();
        println!("{}: {count} frames, verdicts {verdicts:?}", self.name);
        assert!(verdicts.len() >= 2, "{}: only {verdicts:?}", self.name);
    }

    fn compare_maps(&self) {
        for map in self.machine.maps() {
            let readable = !matches!(
                map.kind(),
                MapKind::ProgArray
                    | MapKind::Ringbuf
                    | MapKind::PerfEventArray
                    | MapKind::Devmap
                    | MapKind::Cpumap
                    | MapKind::Xskmap
                    | MapKind::DevmapHash
            );
            if map.max_entries() == 0 || !readable {
                continue;
            }
            let name = map.name();
            // libbpf puts the object's name before that of a section.
            let found = self.kernel.maps().find(|found| {
                let found = found.name().to_string_lossy();
                found == name || (name.starts_with('.') && found.ends_with(name))
            });
            let found = found.unwrap_or_else(|| panic!("map {name}"));
            let of_cpu = matches!(
                found.map_type(),
                MapType::PercpuArray | MapType::PercpuHash | MapType::LruPercpuHash
            );
            let mut kernel = BTreeMap::new();
            for key in found.keys() {
                let value = match of_cpu {
                    true => found
                        .lookup_percpu(&key, MapFlags::ANY)
                        .expect("a look-up")
                        .and_then(|values| values.into_iter().next()),
                    false => found.lookup(&key, MapFlags::ANY).expect("a look-up"),
                };
                if let Some(mut value) = value {
                    value.truncate(map.value_bytes());
                    kernel.insert(key, value);
                }
            }
            let user: BTreeMap<_, _> = map.entries().into_iter().collect();
            assert!(
                user == kernel,
                "{}: map {name}\nkernel {kernel:02x?}\nuser   {user:02x?}",
                self.name
            );
        }
    }
}

#[test]
fn parsers_and_counters() {
    if !is_root() {
        return;
    }
    let mut pair = Pair::new("parse", "parse");
    for (length, address, action) in [
        (8_u32, [10, 0, 0, 0], 100_u32),
        (16, [10, 1, 0, 0], 1),
        (32, [10, 1, 0, 3], 2),
        (24, [10, 2, 0, 9], 200),
    ] {
        pair.set("prefixes", &[length.to_le_bytes(), address].concat(), &action.to_le_bytes());
    }
    pair.compare(frames() * 3 / 10, &mut Random(1));
    assert!(pair.object.btf.variables(".bss").any(|(name, _)| name == "seen"));
}

#[test]
fn rewriters() {
    if !is_root() {
        return;
    }
    Pair::new("rewrite", "rewrite").compare(frames() * 3 / 10, &mut Random(2));
}

#[test]
fn stages_with_metadata() {
    if !is_root() {
        return;
    }
    Pair::new("stages", "entry").compare(frames() * 2 / 10, &mut Random(3));
}

#[test]
fn numbers_loops_and_atomics() {
    if !is_root() {
        return;
    }
    Pair::new("numbers", "calculate").compare(frames() / 10, &mut Random(4));
}

#[test]
fn redirections_and_records() {
    if !is_root() {
        return;
    }
    let mut pair = Pair::new("send", "send");
    for key in [0_u32, 3, 7] {
        for map in ["devices", "hashed"] {
            pair.set(map, &key.to_le_bytes(), &1_u32.to_le_bytes());
        }
    }
    pair.set("cpus", &0_u32.to_le_bytes(), &192_u32.to_le_bytes());
    pair.compare(frames() / 10, &mut Random(5));

    // Targets are reported in user mode only.
    let devices = pair.object.maps.iter().position(|map| map.name == "devices").expect("a map");
    let frame = |kind: u8, key: u8| [&[kind, key][..], &[0; 30]].concat();
    pair.set_user("sockets", &2_u32.to_le_bytes(), &5_u32.to_le_bytes());
    for (kind, key, verdict, target) in [
        (0, 9, 4, Target::Device(9)),
        (1, 9, 0, Target::Nowhere),
        (2, 3, 4, Target::Device(1)),
        (2, 4, 2, Target::Nowhere),
        (3, 7, 4, Target::Device(1)),
        (4, 0, 4, Target::Cpu(0)),
        (4, 1, 1, Target::Nowhere),
        (5, 2, 4, Target::Socket(5)),
        (6, 0, 4, Target::Devices { map: devices, but_ingress: true }),
    ] {
        let (found, _, found_target) = pair.in_user_mode(&frame(kind, key));
        assert_eq!((found, found_target), (verdict, target), "{kind} {key}");
    }
    let ring = pair.machine.maps_mut().iter_mut().find(|map| map.name() == "records").unwrap();
    ring.take_records(usize::MAX);
    let events = pair.machine.maps_mut().iter_mut().find(|map| map.name() == "events").unwrap();
    events.take_records(usize::MAX);
    pair.in_user_mode(&frame(7, 0));
    pair.in_user_mode(&frame(9, 6));
    let mut taken = |name: &str| {
        let map = pair.machine.maps_mut().iter_mut().find(|map| map.name() == name);
        map.unwrap().take_records(9)
    };
    assert_eq!(taken("records"), [[&[32, 0, 0, 0][..], &[0; 8]].concat()]);
    assert_eq!(taken("events"), [[&[6, 0, 0, 0, 9, 6][..], &[0; 14]].concat()]);
}
