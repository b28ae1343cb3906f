//! `europa compile`: compiles C to an eBPF object, with clang in a sandbox.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use europa_compile::{CompileError, become_compiler, compile as run_compiler};

use crate::check;
use crate::exit::Failure;

/// Arguments of `compile`.
#[derive(Args, Debug)]
pub(crate) struct CompileArgs {
    /// The source, in C.
    file: PathBuf,
    /// The object to write. Default: in the source's folder, with the ending `.o`.
    #[arg(short, long)]
    output: Option<PathBuf>,
    #[command(flatten)]
    flags: Flags,
}

/// Flags for clang.
#[derive(Args, Debug, Default)]
pub(crate) struct Flags {
    /// Define a macro.
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    define: Vec<String>,
    /// A further folder with headers.
    #[arg(short = 'I', value_name = "FOLDER")]
    include: Vec<PathBuf>,
}

/// Compiles a source, checks the object, and writes it.
pub(crate) fn compile(args: &CompileArgs) -> Result<ExitCode, Failure> {
    let object = object_of(&args.file, &args.flags)?;
    check::check_object(&object, &args.file, None, false)?;
    let output = args.output.clone().unwrap_or_else(|| args.file.with_extension("o"));
    let failed = |error: io::Error| format!("{}: {error}", output.display());
    fs::write(&output, object).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}

/// The object of a source.
pub(crate) fn object_of(source: &Path, flags: &Flags) -> Result<Vec<u8>, Failure> {
    let flags =
        europa_compile::Flags { define: flags.define.clone(), include: flags.include.clone() };
    let compiled = run_compiler(source, &flags).map_err(|error| match error {
        CompileError::Source(messages) => Failure::configuration(messages),
        CompileError::Failed(why) => why.into(),
    })?;
    eprint!("{}", compiled.warnings);
    Ok(compiled.object)
}

/// The object of a source that a document names, or an error message.
pub(crate) fn object_for_document(source: &Path) -> Result<Vec<u8>, String> {
    let compiled = run_compiler(source, &europa_compile::Flags::default());
    let compiled = compiled.map_err(|error| error.to_string())?;
    eprint!("{}", compiled.warnings);
    Ok(compiled.object)
}

/// The process that becomes clang.
pub(crate) fn compiler(readable: &[PathBuf], command: &[String]) -> Result<ExitCode, Failure> {
    Err(become_compiler(readable, command).into())
}
