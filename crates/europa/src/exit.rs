//! Errors and exit codes, the same for every command.

use std::process::ExitCode;

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
