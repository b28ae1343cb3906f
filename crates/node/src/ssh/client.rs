//! The processes that sshd starts as the account: `europa ssh-keys` and `europa session`.

use std::env::VarError;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::time::Duration;

use europa_channel::{Channel, ChannelError};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::wire::{KeyLines, KeyQuestion, Outcome, SessionRequest};
use super::{keys_socket, session_socket};
use crate::Instance;

/// Time limit for the answer about a key.
const PATIENCE: Duration = Duration::from_secs(10);

fn join<Out, In>(path: &Path) -> Result<Channel<Out, In>, String>
where
    Out: Serialize,
    In: DeserializeOwned,
{
    let failed = |error: Errno| format!("the node does not take logins: {error}");
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).map_err(failed)?;
    let address = UnixAddr::new(path).map_err(failed)?;
    connect(socket.as_raw_fd(), &address).map_err(failed)?;
    Ok(Channel::new(socket))
}

/// The lines of `authorized_keys` for a key that sshd asks about.
///
/// # Errors
/// The node does not answer.
pub fn keys(instance: &Instance, kind: &str, key: &str) -> Result<Vec<String>, String> {
    let mut node: Channel<KeyQuestion, KeyLines> = join(&keys_socket(instance))?;
    let question = KeyQuestion { kind: kind.to_owned(), key: key.to_owned() };
    let failed = |error: ChannelError| format!("asking the node: {error}");
    node.send(&question, &[]).map_err(failed)?;
    match node.receive_within(PATIENCE).map_err(failed)? {
        Some((KeyLines(lines), _)) => Ok(lines),
        None => Err("the node does not answer".to_owned()),
    }
}

/// Runs a session of a user through the node on this process's standard descriptors. Returns the
/// code of its command.
///
/// # Errors
/// The reason why there is none, or why it has ended.
pub fn session(instance: &Instance, user: &str, key: &str) -> Result<u8, String> {
    let variable = |name: &str| match std::env::var(name) {
        Ok(text) => Ok(Some(text)),
        Err(VarError::NotPresent) => Ok(None),
        // Another text instead could be another command.
        Err(VarError::NotUnicode(_)) => Err(format!("{name} is not UTF-8")),
    };
    let request = SessionRequest {
        user: user.to_owned(),
        key: key.to_owned(),
        from: variable("SSH_CONNECTION")?.unwrap_or_default(),
        line: variable("SSH_ORIGINAL_COMMAND")?,
        router: variable("EUROPA_ROUTER")?,
        term: variable("TERM")?,
    };
    let mut node: Channel<SessionRequest, Outcome> = join(&session_socket(instance))?;
    let (input, output, errors) = (io::stdin(), io::stdout(), io::stderr());
    node.send(&request, &[input.as_fd(), output.as_fd(), errors.as_fd()])
        .map_err(|error| format!("asking the node: {error}"))?;
    loop {
        // A hang-up shows that the client has disconnected; sshd does not report it.
        let mut wait = [
            PollFd::new(node.as_fd(), PollFlags::POLLIN),
            PollFd::new(output.as_fd(), PollFlags::empty()),
        ];
        match poll(&mut wait, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.to_string()),
        }
        let [answer, hung_up] = wait.map(|one| one.any() == Some(true));
        if !answer && hung_up {
            return Err("the client has gone".to_owned());
        }
        match node.try_receive() {
            Ok(Some((Outcome::Ended(code), _))) => return Ok(code),
            Ok(Some((Outcome::Refused(why), _))) => return Err(why),
            Ok(None) => {}
            Err(_) => return Err("the session has ended".to_owned()),
        }
    }
}
