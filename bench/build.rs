//! Compiles the benchmark's eBPF programs; the objects are embedded in the binary. Also gives the
//! benchmark its own compiler settings.

use std::path::{Path, PathBuf};
use std::process::Command;

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets the architecture");
    for name in ["generator", "sink", "forward", "bare"] {
        let source = format!("bpf/{name}.bpf.c");
        println!("cargo::rerun-if-changed={source}");
        // Debian keeps <asm/types.h> in a folder of the host's architecture, which
        // clang does not search when it compiles for the bpf target.
        let include = format!("-I/usr/include/{arch}-linux-gnu");
        if let Err(error) = SkeletonBuilder::new()
            .source(Path::new(&source))
            .obj(out.join(format!("{name}.bpf.o")))
            .clang_args([include.as_str(), "-mcpu=v3", "-Wall", "-Werror", "-Ibpf"])
            .build()
        {
            panic!("compiling {source}: {error:#}");
        }
    }
    println!("cargo::rerun-if-changed=bpf/headers.h");

    let level = std::env::var("OPT_LEVEL").expect("cargo sets the level of optimisation");
    println!("cargo::rustc-env=EUROPA_BENCH_PROFILE={arch}, opt-level {level}");
    let compiler = std::env::var_os("RUSTC").expect("cargo sets the compiler");
    let version = Command::new(compiler).arg("--version").output().expect("the compiler runs");
    let version = String::from_utf8_lossy(&version.stdout);
    println!("cargo::rustc-env=EUROPA_BENCH_COMPILER={}", version.trim());
}
