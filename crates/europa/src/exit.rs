//! Errors and exit codes, the same for every command.

use std::process::ExitCode;

use europa_capture::CaptureError;
use europa_client::ClientError;
use europa_sandbox::descriptors_hint;
use nix::errno::Errno;

/// The reason why a command failed, and its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
}

/// The exit code of `diff --exit-code` if something would change.
pub(crate) const DIFFERS: u8 = 6;

/// The exit codes, as `--help` explains them.
pub(crate) const CODES: &str = "\
Exit codes:
  0  success
  1  the command failed
  2  the command line is wrong
  3  no node runs
  4  the configuration has mistakes; nothing was changed
  5  there is no such object
  6  `diff --exit-code`: something would change";

impl Failure {
    /// Mistakes in a configuration.
    pub(crate) fn configuration(message: impl Into<String>) -> Failure {
        Failure { code: 4, message: message.into() }
    }

    /// A wrong command line.
    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure { code: 2, message: message.into() }
    }

    /// An object that does not exist.
    pub(crate) fn missing(message: impl Into<String>) -> Failure {
        Failure { code: 5, message: message.into() }
    }

    /// A command that could not be executed, with a shell's exit codes.
    pub(crate) fn execution(program: &str, error: &std::io::Error) -> Failure {
        match error.kind() {
            std::io::ErrorKind::NotFound => {
                Failure { code: 127, message: format!("{program}: not found") }
            }
            _ => Failure { code: 126, message: format!("{program}: {error}") },
        }
    }

    /// The same failure with a further sentence, unless that is empty.
    pub(crate) fn with(mut self, sentence: &str) -> Failure {
        if !sentence.is_empty() {
            self.message = format!("{}; {sentence}", self.message);
        }
        self
    }

    /// Adds the remedy if file descriptors ran out.
    fn with_descriptors_hint(mut self) -> Failure {
        for errno in [Errno::EMFILE, Errno::ENFILE] {
            let hint = descriptors_hint(errno as i32);
            let is_it = self.message.contains(&format!("(os error {})", errno as i32))
                || self.message.contains(errno.desc());
            if is_it && !self.message.contains(hint) {
                self.message += hint;
            }
        }
        self
    }

    /// Prints the message to standard error.
    pub(crate) fn report(&self) -> ExitCode {
        let message = self.message.trim_end();
        // A report of mistakes begins on its own line.
        let gap = if message.contains('\n') { "\n" } else { "" };
        eprintln!("europa: {gap}{message}");
        ExitCode::from(self.code)
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure { code: 1, message }
    }
}

impl From<&str> for Failure {
    fn from(message: &str) -> Failure {
        message.to_owned().into()
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        error.to_string().into()
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Failure {
        error.to_string().into()
    }
}

impl From<europa_node::NodeError> for Failure {
    fn from(error: europa_node::NodeError) -> Failure {
        error.to_string().into()
    }
}

impl From<CaptureError> for Failure {
    fn from(error: CaptureError) -> Failure {
        let message = error.to_string();
        match error {
            CaptureError::NoNode(_) => Failure { code: 3, message },
            // Captures report no status codes, only this text.
            CaptureError::Refused(_) if message.starts_with("there is no") => {
                Failure::missing(message)
            }
            _ => message.into(),
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        let code = match &error {
            ClientError::Absent(_) => 3,
            ClientError::Problem(problem) => match problem.status {
                422 => 4,
                404 => 5,
                _ => 1,
            },
            _ => 1,
        };
        let message = match error {
            ClientError::Absent(_) => {
                "no node runs; start one with `europa up FILE` or `europa node`".to_owned()
            }
            other => other.to_string(),
        };
        Failure { code, message }.with_descriptors_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use europa_api::rest::ProblemDetails;
    use std::io::{Error, ErrorKind};

    #[test]
    fn too_few_descriptors_are_explained_once() {
        let failed = |text: &str| -> Failure {
            ClientError::Problem(Box::new(ProblemDetails::failed(text))).into()
        };
        let bare = failed("port left: loading the program: Too many open files (os error 24)");
        assert!(bare.message.contains("`ulimit -n`"), "{bare:?}");
        let again = failed(&bare.message);
        assert_eq!(again.message.matches("`ulimit -n`").count(), 1, "{again:?}");
        assert!(!failed("port left: no such device").message.contains("ulimit"));
    }

    #[test]
    fn exit_codes() {
        let refused = |why: &str| CaptureError::Refused(why.to_owned());
        let problem = |problem| ClientError::Problem(Box::new(problem));
        for (failure, code) in [
            (Failure::from("it failed"), 1),
            (Failure::usage("what?"), 2),
            (CaptureError::NoNode("default".into()).into(), 3),
            (refused("there is no router `red/x`").into(), 5),
            (refused("64 captures run already").into(), 1),
            (ClientError::Absent("/run/europa/x".into()).into(), 3),
            (problem(ProblemDetails::not_found("no")).into(), 5),
            (problem(ProblemDetails::configuration("no")).into(), 4),
            (problem(ProblemDetails::conflict("no")).into(), 1),
            (Failure::execution("x", &Error::from(ErrorKind::NotFound)), 127),
            (Failure::execution("x", &Error::from(ErrorKind::PermissionDenied)), 126),
        ] {
            assert_eq!(failure.code, code, "{failure:?}");
        }
    }
}
