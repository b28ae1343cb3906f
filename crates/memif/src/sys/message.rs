//! Descriptors that the kernel makes: for a client, and with a message.

use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockFlag, accept4, recvmsg};

use crate::wire::MESSAGE_BYTES;

/// The kernel sends at most this many with one message. With room for all of them none is lost, and
/// all received descriptors are finally closed.
const MOST_DESCRIPTORS: usize = 253;

/// Takes a message without waiting: its bytes, its whole length, its descriptors. A length of zero
/// means that the peer has closed the connection.
///
/// # Errors
/// The error of recvmsg(2); `EAGAIN` when there is none.
pub(crate) fn receive(socket: &OwnedFd) -> nix::Result<([u8; MESSAGE_BYTES], usize, Vec<OwnedFd>)> {
    // One byte more than a message has, so that a longer message is detected.
    let mut bytes = [0; MESSAGE_BYTES + 1];
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let mut control = cmsg_space!([RawFd; MOST_DESCRIPTORS]);
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
    let message = match recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut control), flags) {
        Err(Errno::ECONNRESET) => return Ok(([0; MESSAGE_BYTES], 0, Vec::new())),
        other => other?,
    };
    let length = message.bytes;
    let mut descriptors = Vec::new();
    for part in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(raw) = part {
            // SAFETY: the kernel has just made these descriptors for this process; no other code
            // knows their numbers.
            descriptors.extend(raw.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
        }
    }
    let mut whole = [0; MESSAGE_BYTES];
    whole.copy_from_slice(&bytes[..MESSAGE_BYTES]);
    Ok((whole, length, descriptors))
}

/// Accepts a client of a listening socket.
///
/// # Errors
/// The error of accept4(2); `EAGAIN` if there is none.
pub(crate) fn accept(listener: &OwnedFd) -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let raw = accept4(listener.as_raw_fd(), flags)?;
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}
