//! Runs commands with a time limit, and keeps their output.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

/// Errors of the laboratory.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A command could not be started.
    #[error("cannot start `{command}`")]
    Start {
        /// The command line.
        command: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A command failed.
    #[error("`{command}` failed: {status}\n{output}")]
    Failed {
        /// The command line.
        command: String,
        /// The command's exit status.
        status: ExitStatus,
        /// The command's output.
        output: String,
    },
    /// A command did not end in time and was killed.
    #[error("`{command}` did not end within {limit:?}\n{output}")]
    Late {
        /// The command line.
        command: String,
        /// The time limit.
        limit: Duration,
        /// The output until the time limit.
        output: String,
    },
    /// A command's output has another form than expected.
    #[error("cannot read what `{command}` wrote: {what}\n{output}")]
    Unreadable {
        /// The command line.
        command: String,
        /// The missing part.
        what: String,
        /// The command's output.
        output: String,
    },
    /// A namespace, file or socket could not be used.
    #[error("{what}")]
    Io {
        /// The attempted operation.
        what: String,
        /// The system's reason.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        move |source| Error::Io { what: format!("{what}: {source}"), source }
    }
}

/// The result of an ended command.
#[derive(Clone, Debug)]
pub struct Output {
    /// The exit status.
    pub status: ExitStatus,
    /// The standard output.
    pub stdout: String,
    /// The standard error.
    pub stderr: String,
}

/// A running command; killed with all its children when dropped.
#[derive(Debug)]
pub struct Process {
    line: String,
    child: Child,
    stdout: Reader,
    stderr: Reader,
}

/// Reads a pipe's text while the command runs, so that the command never waits for the test.
#[derive(Debug)]
struct Reader(Arc<Taken>);

#[derive(Debug)]
struct Taken {
    /// The pipe. A read does not block.
    pipe: File,
    text: Mutex<Vec<u8>>,
}

impl Taken {
    /// The output so far. The reading thread may be behind, so this function also reads the pipe.
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.take().0).into_owned()
    }

    /// Reads the present output; returns whether more may come.
    fn take(&self) -> (MutexGuard<'_, Vec<u8>>, bool) {
        let mut text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = match (&self.pipe).read_to_end(&mut text) {
            Ok(_) => true,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        };
        (text, !ended)
    }
}

impl Reader {
    fn new(pipe: impl Into<OwnedFd>) -> io::Result<Reader> {
        let pipe = File::from(pipe.into());
        fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let taken = Arc::new(Taken { pipe, text: Mutex::default() });
        let shared = Arc::clone(&taken);
        thread::spawn(move || {
            while shared.take().1 {
                // An interrupted call has no consequence: the next read decides.
                let _ = poll(
                    &mut [PollFd::new(shared.pipe.as_fd(), PollFlags::POLLIN)],
                    PollTimeout::NONE,
                );
            }
        });
        Ok(Reader(taken))
    }

    fn text(&self) -> String {
        self.0.text()
    }
}

impl Process {
    /// Starts a command without input, in a process group of its own.
    ///
    /// # Errors
    /// The program is missing.
    pub fn start<S: AsRef<OsStr>>(argv: &[S]) -> Result<Process, Error> {
        let words: Vec<_> = argv.iter().map(|word| word.as_ref().to_string_lossy()).collect();
        let line = words.join(" ");
        let fail = |source| Error::Start { command: line.clone(), source };
        let (program, arguments) =
            argv.split_first().ok_or_else(|| fail(io::ErrorKind::InvalidInput.into()))?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(fail)?;
        let missing = || fail(io::ErrorKind::BrokenPipe.into());
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let stderr = child.stderr.take().ok_or_else(missing)?;
        let (stdout, stderr) =
            (Reader::new(stdout).map_err(fail)?, Reader::new(stderr).map_err(fail)?);
        Ok(Process { line, child, stdout, stderr })
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The standard output so far.
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// The standard error so far.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Whether the process still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a signal to the process and its children.
    pub fn signal(&self, signal: Signal) {
        // The process may have ended just now; then there is no process to signal.
        let _ = killpg(self.group(), signal);
    }

    /// Waits until the process has written `text` to standard output or standard error.
    ///
    /// # Errors
    /// The process ended, or `limit` passed, before that.
    pub fn wait_for(&mut self, text: &str, limit: Duration) -> Result<(), Error> {
        let start = Instant::now();
        loop {
            let running = self.is_running();
            let output = self.stdout() + &self.stderr();
            if output.contains(text) {
                return Ok(());
            }
            let command = self.line.clone();
            if !running {
                let what = format!("it ended without {text:?}");
                return Err(Error::Unreadable { command, what, output });
            }
            if start.elapsed() > limit {
                return Err(Error::Late { command, limit, output });
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits for the end of the process.
    ///
    /// # Errors
    /// `limit` passed, and the process was killed.
    pub fn wait(mut self, limit: Duration) -> Result<Output, Error> {
        let start = Instant::now();
        loop {
            let fail = |source| Error::Start { command: self.line.clone(), source };
            if let Some(status) = self.child.try_wait().map_err(fail)? {
                let (stdout, stderr) = (self.stdout(), self.stderr());
                return Ok(Output { status, stdout, stderr });
            }
            if start.elapsed() > limit {
                let output = self.stdout() + &self.stderr();
                return Err(Error::Late { command: self.line.clone(), limit, output });
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn group(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(i32::MAX))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // No other process gets the child's number before the child is reaped.
        if self.is_running() {
            let _ = killpg(self.group(), Signal::SIGKILL);
            let _ = self.child.wait();
        }
    }
}

/// Stops a process, and waits until all its threads have stopped. When `kill` returns, threads may
/// still run: a thread that waits for a disk stops later, and so do the threads beside it.
pub fn stop(process: Pid) {
    kill(process, Signal::SIGSTOP).expect("a process to stop");
    let start = Instant::now();
    let stopped = |task: fs::DirEntry| {
        // The state follows the name, which is in brackets. A thread may end meanwhile.
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(')').is_none_or(|(_, rest)| rest.starts_with(" T"))
    };
    while !fs::read_dir(format!("/proc/{process}/task"))
        .into_iter()
        .flatten()
        .flatten()
        .all(stopped)
    {
        assert!(start.elapsed() < Duration::from_secs(60), "process {process} does not stop");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Runs a command that must succeed within half a minute.
///
/// # Errors
/// The command failed, was late, or is missing.
pub fn run<S: AsRef<OsStr>>(argv: &[S]) -> Result<Output, Error> {
    checked(Process::start(argv)?, Duration::from_secs(30))
}

/// Waits for a command, which must succeed.
pub(crate) fn checked(process: Process, limit: Duration) -> Result<Output, Error> {
    let command = process.line.clone();
    let output = process.wait(limit)?;
    if output.status.success() {
        Ok(output)
    } else {
        let text = output.stdout + &output.stderr;
        Err(Error::Failed { command, status: output.status, output: text })
    }
}

/// The path of a program, if it is installed.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_failure() {
        let output = run(&["sh", "-c", "echo out; echo err >&2"]).expect("success");
        assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("out\n", "err\n"));
        assert!(matches!(run(&["false"]), Err(Error::Failed { .. })));
        assert!(matches!(run(&["no-such-program"]), Err(Error::Start { .. })));
    }

    #[test]
    fn more_than_a_pipe_holds_comes_whole() {
        let output = run(&["sh", "-c", "seq 200000; sleep 2 & echo last"]).expect("success");
        assert!(output.stdout.ends_with("200000\nlast\n"));
        assert_eq!(output.stdout.lines().count(), 200_001);
    }

    #[test]
    fn a_late_command_is_killed_with_its_children() {
        let process = Process::start(&["sh", "-c", "sleep 1234.5 & sleep 1234.5"]).expect("sh");
        let group = process.id();
        let start = Instant::now();
        let result = process.wait(Duration::from_millis(50));
        assert!(matches!(result, Err(Error::Late { .. })));
        assert!(start.elapsed() < Duration::from_secs(5));
        let gone = || killpg(Pid::from_raw(group as i32), None).is_err();
        while !gone() {
            assert!(start.elapsed() < Duration::from_secs(5), "children survive");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn waiting_for_a_word() {
        let mut process = Process::start(&["sh", "-c", "echo ready; sleep 60"]).expect("sh");
        process.wait_for("ready", Duration::from_secs(5)).expect("ready");
        let mut process = Process::start(&["true"]).expect("true");
        let result = process.wait_for("ready", Duration::from_secs(5));
        assert!(matches!(result, Err(Error::Unreadable { .. })));
    }
}
