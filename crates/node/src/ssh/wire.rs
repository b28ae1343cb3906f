//! Messages between the node and the processes of a login.

use serde::{Deserialize, Serialize};

/// From `europa ssh-keys`: a key that an SSH client offers.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct KeyQuestion {
    /// The key's type, such as `ssh-ed25519`.
    pub(super) kind: String,
    /// The key in base64.
    pub(super) key: String,
}

/// The answer: lines of an `authorized_keys` file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct KeyLines(pub(super) Vec<String>);

/// From `europa session`, with its standard input, output and error.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SessionRequest {
    /// The user, from the forced command.
    pub(super) user: String,
    /// The fingerprint of its key.
    pub(super) key: String,
    /// The other end, as sshd has it in `SSH_CONNECTION`.
    pub(super) from: String,
    /// The words of the user, `SSH_ORIGINAL_COMMAND`.
    pub(super) line: Option<String>,
    /// `EUROPA_ROUTER` of the client.
    pub(super) router: Option<String>,
    /// The kind of its terminal.
    pub(super) term: Option<String>,
}

/// The outcome of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Outcome {
    /// The command has ended with this code.
    Ended(u8),
    /// The session was refused, or ended before its command; with the reason.
    Refused(String),
}

/// The node's first message to `europa ssh-attend`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Begin {
    /// SLICE/ROUTER.
    pub(super) router: String,
    /// Whether the descriptors are a terminal.
    pub(super) terminal: bool,
    /// The kind of that terminal.
    pub(super) term: Option<String>,
    pub(super) what: What,
}

/// The node's messages to `europa ssh-attend`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Order {
    Begin(Begin),
    /// End all processes of the session, for this reason.
    End(String),
}

/// The program of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum What {
    /// A shell for a person.
    Shell,
    /// A command, which a shell reads.
    Command(String),
    /// An sshd inside the router, for a user with these keys.
    Sshd(Vec<String>),
}
