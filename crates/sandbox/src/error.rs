//! Errors of the sandbox. Each names the failed step. An incomplete sandbox must not run, so every
//! error is fatal for the process that gets it.

use std::io;
use std::path::PathBuf;

use nix::errno::Errno;

/// The reason why a process could not be sandboxed, started or put into a control group.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// A system call of the named step failed.
    #[error("sandbox: {step}: {source}{}", descriptors_hint(*source as i32))]
    Step {
        /// The operation, in words.
        step: &'static str,
        /// The kernel's answer.
        source: Errno,
    },
    /// A read-only path for a user's program could not be mounted.
    #[error("sandbox: mounting {path} read-only: {source}")]
    Mount {
        /// The path on the host.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The capability sets could not be changed.
    #[error("sandbox: {step}: {source}")]
    Capabilities {
        /// The operation, in words.
        step: &'static str,
        /// The library's error.
        source: caps::errors::CapsError,
    },
    /// The landlock rules could not be built or applied.
    #[error("sandbox: landlock: {0}")]
    Landlock(#[from] landlock::RulesetError),
    /// The system call filter could not be compiled or applied.
    #[error("sandbox: seccomp: {0}")]
    Seccomp(#[from] seccompiler::Error),
    /// The profile or the spawn specification is invalid.
    #[error("sandbox: {0}")]
    Refused(String),
    /// A file of a control group could not be read or written.
    #[error("cgroup: {path}: {source}{}", descriptors_hint(source.raw_os_error().unwrap_or(0)))]
    Cgroup {
        /// The file or folder.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// The remedy if no file descriptor is free; empty for other errors.
pub fn descriptors_hint(errno: i32) -> &'static str {
    match Errno::from_raw(errno) {
        Errno::EMFILE => {
            ": this process may not open more files; raise the limit, which `ulimit -n` shows, or \
             LimitNOFILE= of the systemd unit, and start the node again"
        }
        Errno::ENFILE => ": the machine may not open more files; raise `sysctl fs.file-max`",
        _ => "",
    }
}

impl From<seccompiler::BackendError> for SandboxError {
    fn from(error: seccompiler::BackendError) -> Self {
        Self::Seccomp(error.into())
    }
}

/// Attaches the step to the error of a system call.
pub(crate) trait Step<T> {
    fn step(self, step: &'static str) -> Result<T, SandboxError>;
}

impl<T> Step<T> for Result<T, Errno> {
    fn step(self, step: &'static str) -> Result<T, SandboxError> {
        self.map_err(|source| SandboxError::Step { step, source })
    }
}

impl<T> Step<T> for Result<T, caps::errors::CapsError> {
    fn step(self, step: &'static str) -> Result<T, SandboxError> {
        self.map_err(|source| SandboxError::Capabilities { step, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_descriptors_are_named_with_the_remedy() {
        let failed = |source: Errno| SandboxError::Step { step: "handing over", source };
        for (error, hint) in [
            (Errno::EMFILE, Some("`ulimit -n`")),
            (Errno::ENFILE, Some("fs.file-max")),
            (Errno::EPERM, None),
        ] {
            let text = failed(error).to_string();
            assert!(text.starts_with("sandbox: handing over: E"), "{text}");
            assert_eq!(
                text.contains(": raise") || text.contains("; raise"),
                hint.is_some(),
                "{text}"
            );
            assert!(hint.is_none_or(|hint| text.contains(hint)), "{text}");
        }
    }
}
