//! Compiles the eBPF programs in `bpf/` and generates typed loaders for them.

use std::env;
use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let sources = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"))
        .join("../../bpf")
        .canonicalize()
        .expect("the repository has a folder bpf/");
    // Debian keeps asm/types.h in a folder for the machine's architecture. clang does not search
    // this folder when it compiles for eBPF.
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");
    let headers = format!("-I/usr/include/{arch}-linux-gnu");
    let target = if arch == "x86_64" { "-D__TARGET_ARCH_x86" } else { "-D__TARGET_ARCH_other" };
    // Europa's own linker links the cage, so the cage's object is embedded unchanged.
    SkeletonBuilder::new()
        .source(sources.join("cage.bpf.c"))
        .clang_args(["-mcpu=v3", "-Wall", "-Werror", target, &headers])
        .obj(out.join("cage.o"))
        .build()
        .unwrap_or_else(|error| panic!("compiling bpf/cage.bpf.c: {error:#}"));
    for program in ["receive", "receive_tc", "transmit", "drained", "keep"] {
        SkeletonBuilder::new()
            .source(sources.join(format!("{program}.bpf.c")))
            .clang_args(["-mcpu=v3", "-Wall", "-Werror", target, &headers])
            .build_and_generate(out.join(format!("{program}.skel.rs")))
            .unwrap_or_else(|error| panic!("compiling bpf/{program}.bpf.c: {error:#}"));
    }
    for folder in [&sources, &sources.join("../sdk/c")] {
        println!("cargo:rerun-if-changed={}", folder.display());
    }
}
