//! Errors and exit codes, the same for every command.

use std::process::ExitCode;

use europa_capture::CaptureError;
use europa_client::ClientError;

/// What went wrong, and how a script can tell.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
}

/// As `--help` says it.
pub(crate) const CODES: &str = "\
Exit codes:
  0  done
  1  it was tried and failed
  2  the command line makes no sense
  3  no node runs
  4  the configuration has mistakes; nothing was changed
  5  there is no such object";

impl Failure {
    /// Mistakes in a configuration.
    pub(crate) fn configuration(message: impl Into<String>) -> Failure {
        Failure { code: 4, message: message.into() }
    }

    /// A command line that makes no sense.
    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure { code: 2, message: message.into() }
    }

    /// Something that is not there.
    pub(crate) fn missing(message: impl Into<String>) -> Failure {
        Failure { code: 5, message: message.into() }
    }

    /// A command that could not be executed, with the codes that shells have for that.
    pub(crate) fn execution(program: &str, error: &std::io::Error) -> Failure {
        match error.kind() {
            std::io::ErrorKind::NotFound => {
                Failure { code: 127, message: format!("{program}: not found") }
            }
            _ => Failure { code: 126, message: format!("{program}: {error}") },
        }
    }

    /// Prints it.
    pub(crate) fn tell(&self) -> ExitCode {
        let message = self.message.trim_end();
        // A report with places begins on a line of its own.
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
            // The node has no other answer than a text.
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
        Failure { code, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use europa_api::rest::ProblemDetails;
    use std::io::{Error, ErrorKind};

    #[test]
    fn codes_tell_what_went_wrong() {
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
