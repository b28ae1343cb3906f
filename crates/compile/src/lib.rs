//! Compiles C to an eBPF object, with clang in a sandbox.
//!
//! The source may come from any user. clang runs in a separate process, `europa compiler`. It can
//! read the system's headers, generated headers for eBPF, and the folders that the caller names:
//! `#include "/etc/shadow"` and `.incbin` find no other file. It writes to a pipe, reaches no
//! network, and has limited time and memory.
//!
//! | module  | what it does                                             |
//! |---------|----------------------------------------------------------|
//! | `role`  | the process that locks itself in and becomes clang       |
//! | `run`   | starts that process and collects what it writes          |
//!
//! An object contains no path of a temporary folder: equal sources give equal objects.

mod role;
mod run;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

pub use role::become_compiler;

use run::run;

/// Settings that are passed on to clang.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// Macros to define, each `NAME` or `NAME=VALUE`.
    pub define: Vec<String>,
    /// Folders with headers, in addition to the source's folder.
    pub include: Vec<PathBuf>,
}

/// The results of clang for a source.
#[derive(Debug)]
pub struct Compiled {
    /// The object.
    pub object: Vec<u8>,
    /// clang's warnings; usually empty.
    pub warnings: String,
}

/// The reason why there is no object.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The source has mistakes: clang's messages.
    #[error("{0}")]
    Source(String),
    /// clang could not work.
    #[error("{0}")]
    Failed(String),
}

impl From<io::Error> for CompileError {
    fn from(error: io::Error) -> CompileError {
        CompileError::Failed(error.to_string())
    }
}

/// Compiles a file. Headers in the file's own folder are found. Messages name the file by the given
/// path.
///
/// # Errors
/// The source's mistakes, or a failure of clang.
pub fn compile(source: &Path, flags: &Flags) -> Result<Compiled, CompileError> {
    let place = |path: &Path| {
        let failed = |error| CompileError::Failed(format!("{}: {error}", path.display()));
        fs::canonicalize(path).map_err(failed)
    };
    let own = place(source)?;
    let folder = own
        .parent()
        .ok_or_else(|| CompileError::Failed(format!("{} lies in no folder", source.display())))?;
    let mut readable = vec![folder.to_owned()];
    for folder in &flags.include {
        readable.push(place(folder)?);
    }
    clang(source, None, &readable, flags)
}

/// Compiles a text that belongs to a file of this name. It finds only the system's headers.
///
/// # Errors
/// The text's mistakes, or a failure of clang.
pub fn compile_text(name: &Path, text: &str) -> Result<Compiled, CompileError> {
    let folder = tempfile::tempdir()?;
    let name = name.file_name().unwrap_or("program.c".as_ref());
    fs::write(folder.path().join(name), text)?;
    let place = folder.path();
    clang(Path::new(name), Some(place), &[place.to_owned()], &Flags::default())
}

/// Runs clang on `source`, in the folder `within` if there is one. `readable` are the source's
/// folder and other folders with headers.
fn clang(
    source: &Path,
    within: Option<&Path>,
    readable: &[PathBuf],
    flags: &Flags,
) -> Result<Compiled, CompileError> {
    let headers = headers()?;
    let mut command = Command::new("/proc/self/exe");
    command.arg("compiler");
    for folder in readable.iter().map(PathBuf::as_path).chain([headers.path()]) {
        command.arg("--read").arg(folder);
    }
    command.args(["--", "clang", "-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall"]);
    // Messages contain the paths that the user typed.
    command.args(["-fno-color-diagnostics", "-c", "-o", "-"]);
    // Debugging information names files. Without temporary folders it is the same each time.
    for (folder, name) in
        within.map(|folder| (folder, ".")).into_iter().chain([(headers.path(), "")])
    {
        command.arg(format!("-ffile-prefix-map={}={name}", folder.display()));
    }
    // Debian's folder for headers of the machine's architecture, which clang does not search when
    // it compiles for eBPF.
    command.arg(format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH));
    command.arg("-I").arg(headers.path());
    let target = if cfg!(target_arch = "x86_64") { "x86" } else { "arm64" };
    command.arg(format!("-D__TARGET_ARCH_{target}"));
    for folder in readable.iter().skip(1) {
        command.arg("-I").arg(folder);
    }
    command.args(flags.define.iter().map(|define| format!("-D{define}")));
    command.arg(source);
    if let Some(folder) = within {
        command.current_dir(folder);
    }
    let output = run(command)?;
    match output.ended_well {
        true => Ok(Compiled { object: output.bytes, warnings: output.messages }),
        false => Err(CompileError::Source(output.messages)),
    }
}

/// The headers that programs include as `<bpf/...>`.
fn headers() -> io::Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    fs::create_dir(folder.path().join("bpf"))?;
    for (name, text) in libbpf_sys::API_HEADERS {
        fs::write(folder.path().join("bpf").join(name), text)?;
    }
    // The C library's headers include this file if the target is not the machine's architecture.
    // Debian has it only in the package of 32-bit libraries.
    fs::create_dir(folder.path().join("gnu"))?;
    fs::write(folder.path().join("gnu/stubs-32.h"), "")?;
    Ok(folder)
}
