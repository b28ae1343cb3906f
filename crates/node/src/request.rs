//! What the command line asks of a node, and the answers. The REST API will stand
//! here, with the same requests.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use europa_channel::{Channel, ChannelError};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use serde::{Deserialize, Serialize};

use crate::stats::NodeStats;
use crate::{Instance, NodeError};

/// A request. Each connection carries one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Bring up what these files describe.
    Up {
        /// Absolute paths.
        files: Vec<PathBuf>,
        /// Draw errors with colours.
        colour: bool,
    },
    /// Take everything down and end.
    Down,
    /// Tell how everything goes.
    Stats,
    /// Read a handler of a router.
    Read {
        /// `slice/router`.
        router: String,
        /// `element.handler`.
        path: String,
    },
    /// Write a handler of a router.
    Write {
        /// `slice/router`.
        router: String,
        /// `element.handler`.
        path: String,
        /// What to write.
        value: String,
    },
}

/// An answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Response {
    /// It is done; what there is to say about it, a line each.
    Done(Vec<String>),
    /// How everything goes.
    Stats(Box<NodeStats>),
    /// It was not done: why, with place and remedy.
    Failed(String),
}

/// Asks the node of `instance`.
///
/// # Errors
/// No node runs, or it went away.
pub fn ask(instance: &Instance, request: &Request) -> Result<Response, NodeError> {
    let who = || format!("the node `{}`", instance.name());
    let refused = |errno: nix::Error| match errno {
        nix::Error::ENOENT | nix::Error::ECONNREFUSED => {
            NodeError::Refused(format!("{} does not run; start it with `europa up FILE`", who()))
        }
        other => NodeError::Io { what: format!("connecting to {}", who()), error: other.into() },
    };
    let client: OwnedFd =
        socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)
            .map_err(refused)?;
    let address = UnixAddr::new(&instance.socket()).map_err(refused)?;
    connect(std::os::fd::AsRawFd::as_raw_fd(&client), &address).map_err(refused)?;
    let mut channel: Channel<Request, Response> = Channel::new(client);
    let failed = |error: ChannelError| NodeError::Channel { who: who(), error };
    channel.send(request, &[]).map_err(failed)?;
    Ok(channel.receive().map_err(failed)?.0)
}
