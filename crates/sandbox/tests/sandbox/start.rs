//! Starting a sandboxed copy of this binary.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use europa_sandbox::cgroup::Group;
use europa_sandbox::{Child, Exit, SpawnSpec, spawn};

/// A running process, its control socket and its log.
pub(crate) struct Started {
    pub child: Child,
    pub control: UnixStream,
    log: File,
}

/// Spawns `--act ROLE ACT`; descriptor 3 is the control socket, the others follow.
pub(crate) fn start(
    role: &str,
    act: &str,
    group: Option<&Group>,
    further: &[BorrowedFd<'_>],
) -> Started {
    let log = tempfile::tempfile().expect("a log");
    let (control, theirs) = UnixStream::pair().expect("a socket pair");
    control.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out");
    let mut descriptors = vec![theirs.as_fd()];
    descriptors.extend_from_slice(further);
    let child = spawn(&SpawnSpec {
        arguments: ["sandbox", "--act", role, act].map(OsStr::new).to_vec(),
        environment: vec![OsStr::new("RUST_BACKTRACE=1")],
        descriptors,
        log: log.as_fd(),
        group,
        pid_namespace: true,
    })
    .expect("spawned");
    Started { child, control, log }
}

impl Started {
    /// Waits until the process reports that it is in the sandbox.
    pub(crate) fn ready(&mut self) {
        let mut byte = [0];
        if self.control.read_exact(&mut byte).is_err() {
            panic!("not ready: {:?}: {}", self.child.try_wait(), self.log());
        }
    }

    /// Lets a ready process act, and waits for its end.
    pub(crate) fn go(&mut self) -> Exit {
        self.ready();
        self.control.write_all(b"!").expect("it listens");
        self.child.wait().expect("it ends")
    }

    pub(crate) fn log(&mut self) -> String {
        let mut text = String::new();
        self.log.rewind().expect("a file");
        self.log.read_to_string(&mut text).expect("text");
        text
    }
}
