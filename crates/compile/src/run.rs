//! Runs a command to its end, within limits.

use std::io::{self, Read};
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use crate::CompileError;

/// Longest that clang may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest object, and longest output of messages.
const MAX_OUTPUT: u64 = 16 << 20;
const MAX_MESSAGES: u64 = 1 << 18;

/// The outputs of a command.
pub(crate) struct Output {
    /// Its standard output.
    pub(crate) bytes: Vec<u8>,
    /// Its standard error.
    pub(crate) messages: String,
    pub(crate) ended_well: bool,
}

/// Runs a command to its end.
pub(crate) fn run(mut command: Command) -> Result<Output, CompileError> {
    command.env_clear().env("PATH", "/usr/bin:/bin:/usr/local/bin").env("LC_ALL", "C.UTF-8");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let output = collect(child.stdout.take(), MAX_OUTPUT);
    let messages = collect(child.stderr.take(), MAX_MESSAGES);
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if begun.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            let why = format!("clang did not end within {PATIENCE:?}");
            return Err(CompileError::Failed(why));
        }
        sleep(Duration::from_millis(5));
    };
    let (bytes, messages) = (ended(output)?, ended(messages)?);
    let mut messages = String::from_utf8_lossy(&messages).into_owned();
    if !status.success() && messages.trim().is_empty() {
        messages = format!("clang ended without a message: {status}");
    }
    Ok(Output { bytes, messages, ended_well: status.success() })
}

/// Reads a pipe in a thread, up to `most` bytes.
fn collect(pipe: Option<impl Read + Send + 'static>, most: u64) -> JoinHandle<io::Result<Vec<u8>>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            pipe.take(most).read_to_end(&mut bytes)?;
        }
        Ok(bytes)
    })
}

fn ended(thread: JoinHandle<io::Result<Vec<u8>>>) -> Result<Vec<u8>, CompileError> {
    let failed = |_| CompileError::Failed("reading what clang wrote failed".into());
    Ok(thread.join().map_err(failed)??)
}
