//! Shared code of the tests: compiling programs, making frames.

#![allow(dead_code, reason = "each test uses a part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles one of `tests/programs`.
pub(crate) fn compile(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    compile_file(&folder.join(format!("{name}.bpf.c")), &[])
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Compiles a text.
pub(crate) fn compile_text(text: &str) -> Result<Vec<u8>, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("program.bpf.c");
    fs::write(&source, text).expect("a file");
    compile_file(&source, &[])
}

/// Compiles a file.
pub(crate) fn compile_file(source: &Path, more: &[&str]) -> Result<Vec<u8>, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let headers = headers(folder.path());
    let object = folder.path().join("program.o");
    let arch = format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let include = format!("-I{}", headers.display());
    let output = Command::new("clang")
        .args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Wno-unused", "-c"])
        .args([&arch, &include])
        .args(more)
        .arg(source)
        .arg("-o")
        .arg(&object)
        .output()
        .expect("clang runs");
    match output.status.success() {
        true => Ok(fs::read(object).expect("an object")),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// Writes the headers that programs include as `<bpf/...>`.
fn headers(folder: &Path) -> PathBuf {
    fs::create_dir_all(folder.join("include/bpf")).expect("a folder");
    for (name, text) in libbpf_sys::API_HEADERS {
        fs::write(folder.join("include/bpf").join(name), text).expect("a header");
    }
    folder.join("include")
}

/// Numbers that are the same in each run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// A frame that is valid for parsers, with some random bytes.
pub(crate) fn frame(random: &mut Random) -> Vec<u8> {
    let mut frame = Vec::new();
    for _ in 0..2 {
        frame.extend([2, 0, 0, 0, random.below(3) as u8, random.below(16) as u8]);
    }
    for _ in 0..[0, 0, 0, 1, 2, 3][random.below(6) as usize] {
        frame.extend([0x81, 0, 0, random.below(9) as u8]);
    }
    let protocol = [6, 17, 17, 4, 1, 50, 89][random.below(7) as usize];
    let most = if random.below(8) == 0 { 1200 } else { 64 };
    let payload = random.below(most) as usize;
    let address = |random: &mut Random| [10, random.below(4) as u8, 0, random.below(6) as u8];
    match random.below(5) {
        0 => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, payload as u8, protocol, 64]);
            for _ in 0..2 {
                frame.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0]);
                frame.extend(address(random));
            }
        }
        1 => frame.extend([8, 6]),
        _ => {
            let words = if random.below(6) == 0 { random.below(8) as u8 + 4 } else { 5 };
            frame.extend([8, 0, 0x40 | words, random.below(8) as u8]);
            frame.extend([0, 20 + payload as u8, random.next() as u8, random.next() as u8, 0, 0]);
            frame.extend([
                random.below(4) as u8,
                protocol,
                random.next() as u8,
                random.next() as u8,
            ]);
            frame.extend(address(random));
            frame.extend(address(random));
            frame.extend(vec![1; (usize::from(words) * 4).saturating_sub(20)]);
        }
    }
    frame.extend([0, [53, 80][random.below(2) as usize], 0, [53, 80, 7][random.below(3) as usize]]);
    frame.extend((0..payload).map(|_| random.next() as u8));
    if random.below(4) == 0 {
        frame.truncate(14 + random.below(60) as usize);
    }
    if random.below(4) == 0 {
        let at = random.below(frame.len() as u64) as usize;
        frame[at] ^= 1 << random.below(8);
    }
    frame.resize(frame.len().max(14), 0);
    frame
}
