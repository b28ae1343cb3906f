//! `bench`: hands over to the harness, which is a program of its own.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::exit::Failure;

const PROGRAM: &str = "europa-bench";

/// Becomes the harness.
pub(crate) fn bench(arguments: &[String]) -> Result<ExitCode, Failure> {
    let Some(program) = find() else {
        return Err(format!(
            "there is no {PROGRAM} beside this program or on PATH: in the repository, `make bench` \
             builds and runs it, and `make install` then installs it too"
        )
        .into());
    };
    // Comes back only if it could not.
    let error = Command::new(&program).args(arguments).exec();
    Err(format!("{}: {error}", program.display()).into())
}

/// Beside this program, or on PATH.
fn find() -> Option<PathBuf> {
    let beside = std::env::current_exe().ok().map(|path| path.with_file_name(PROGRAM));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join(PROGRAM));
    beside.into_iter().chain(on_path).find(|path| path.is_file())
}
