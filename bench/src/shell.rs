//! Runs the system's own tools (`ip`, `ethtool`, …) and keeps their error messages.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::error::{Context, Error, Result};

/// Runs a command line, split at blanks. Returns its standard output.
pub(crate) fn run(line: &str) -> Result<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    run_words(&words)
}

/// Runs a command given as words. Returns its standard output.
pub(crate) fn run_words(words: &[&str]) -> Result<String> {
    run_both(words).map(|(output, _)| output)
}

/// Runs a command given as words. Returns its standard output and standard error.
pub(crate) fn run_both(words: &[&str]) -> Result<(String, String)> {
    let command = || words.join(" ");
    let output = command_of(words)?.output().context(command())?;
    if output.status.success() {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        return Ok((text(&output.stdout), text(&output.stderr)));
    }
    let mut message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if message.is_empty() {
        message = output.status.to_string();
    }
    Err(Error::Command { command: command(), message })
}

/// Starts a command that runs until [`Background`] is dropped.
pub(crate) fn start(line: &str) -> Result<Background> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let child =
        command_of(&words)?.stdout(Stdio::null()).stderr(Stdio::null()).spawn().context(line)?;
    Ok(Background(child))
}

/// Whether a program can be found.
pub(crate) fn exists(program: &str) -> bool {
    find(program).is_some()
}

/// The path of a program.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
}

fn command_of(words: &[&str]) -> Result<Command> {
    let (program, arguments) =
        words.split_first().ok_or_else(|| Error::Other("an empty command".into()))?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    Ok(command)
}

/// A child that is killed when this is dropped.
pub(crate) struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        // The process may already have ended; for another failure there is no remedy here.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
