//! The control socket: it transfers whole messages, and no call waits.

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};

use crate::error::{Doing, MemifError, Violation};
use crate::sys;
use crate::wire::{MESSAGE_BYTES, Message};

/// A connected socket of type `SOCK_SEQPACKET`.
pub(crate) struct Control {
    socket: OwnedFd,
}

impl Control {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self { socket }
    }

    /// Sends a message. Each side waits for the other's answer before it sends another message, so
    /// the socket has room, unless the peer does not read.
    pub(crate) fn send(
        &self,
        message: &Message,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Result<(), MemifError> {
        let raw: Vec<_> = descriptor.iter().map(AsRawFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&raw)];
        let control = if raw.is_empty() { &rights[..0] } else { &rights[..] };
        let bytes = message.encode();
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        let parts = [IoSlice::new(&bytes)];
        match sendmsg::<()>(self.socket.as_raw_fd(), &parts, control, flags, None) {
            Ok(_) => Ok(()),
            Err(Errno::EAGAIN) => Err(Violation::Deaf.into()),
            Err(Errno::EPIPE | Errno::ECONNRESET) => Err(MemifError::Gone),
            Err(source) => Err(MemifError::Kernel { doing: "send a message", source }),
        }
    }

    /// Takes the next message with its descriptor; `None` if there is none yet. All other received
    /// descriptors are closed.
    pub(crate) fn receive(&self) -> Result<Option<(Message, Option<OwnedFd>)>, MemifError> {
        let (bytes, length, mut descriptors) = match sys::receive(&self.socket) {
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(None),
            other => other.doing("receive a message")?,
        };
        match length {
            0 => return Err(MemifError::Gone),
            MESSAGE_BYTES => {}
            other => return Err(Violation::MessageBytes(other).into()),
        }
        let message = Message::decode(&bytes)?;
        let (found, wanted) = (descriptors.len(), message.descriptors());
        if found != wanted {
            return Err(Violation::Descriptors { message: message.name(), found, wanted }.into());
        }
        if let Message::Disconnect { code, reason } = message {
            return Err(MemifError::Disconnected { code, reason });
        }
        Ok(Some((message, descriptors.pop())))
    }

    /// Sends a disconnect with the reason, if the peer still reads.
    pub(crate) fn refuse(&self, why: &MemifError) {
        let known = matches!(why, MemifError::Gone | MemifError::Disconnected { .. });
        if !known {
            self.goodbye(&why.to_string());
        }
    }

    /// Sends a disconnect, if the peer still reads.
    pub(crate) fn goodbye(&self, reason: &str) {
        let _ = self.send(&Message::Disconnect { code: 0, reason: reason.to_owned() }, None);
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
