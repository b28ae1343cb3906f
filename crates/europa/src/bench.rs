//! `bench`: starts the benchmark, which is a separate program.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::exit::Failure;

const PROGRAM: &str = "europa-bench";

/// Replaces this process by the benchmark.
pub(crate) fn bench(arguments: &[String]) -> Result<ExitCode, Failure> {
    let Some(program) = find() else {
        return Err(format!(
            "{PROGRAM} is neither beside this program nor on PATH: `make bench` in the repository \
             builds and runs it, and `make install` then installs it too"
        )
        .into());
    };
    // Returns only on failure.
    let error = Command::new(&program).args(arguments).exec();
    Err(format!("{}: {error}", program.display()).into())
}

/// Looks beside this program, then on PATH.
fn find() -> Option<PathBuf> {
    let beside = std::env::current_exe().ok().map(|path| path.with_file_name(PROGRAM));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join(PROGRAM));
    beside.into_iter().chain(on_path).find(|path| path.is_file())
}
