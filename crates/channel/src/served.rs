//! The control socket of a process that outlives its node.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{SockFlag, accept4};
use serde::{Serialize, de::DeserializeOwned};

use crate::{Channel, ChannelError};

/// Takes orders from one node after the other: when one has gone, from whoever connects next
/// to a listening socket. Who may connect is said by where that socket's file is.
pub struct Served<Out, In> {
    channel: Channel<Out, In>,
    /// The node has gone.
    alone: bool,
    listener: OwnedFd,
}

impl<Out: Serialize, In: DeserializeOwned> Served<Out, In> {
    /// Goes on with `channel`, and after it with those who connect to `listener`, which must
    /// not block.
    pub fn new(channel: Channel<Out, In>, listener: OwnedFd) -> Self {
        Self { channel, alone: false, listener }
    }

    /// Takes a message if there is one.
    ///
    /// # Errors
    /// As [`Channel::receive`], but for a peer that has gone: the next one is awaited.
    pub fn try_receive(&mut self) -> Result<Option<(In, Vec<OwnedFd>)>, ChannelError> {
        if self.alone && !self.accept()? {
            return Ok(None);
        }
        // A peer that went without reading everything is an error once, before what it has
        // still said.
        let closed = |result: &Result<_, _>| matches!(result, Err(ChannelError::Closed));
        let mut received = self.channel.try_receive();
        if closed(&received) {
            received = self.channel.try_receive();
        }
        self.alone = closed(&received);
        if self.alone { Ok(None) } else { received }
    }

    /// Sends one message; nothing happens if the peer has gone.
    ///
    /// # Errors
    /// As [`Channel::send`], but for a peer that has gone.
    pub fn send(
        &mut self,
        message: &Out,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        match self.channel.send(message, descriptors) {
            // What it has said before it went is still to be read: `alone` is for later.
            Err(ChannelError::Closed) => Ok(()),
            other => other,
        }
    }

    fn accept(&mut self) -> Result<bool, ChannelError> {
        match accept4(self.listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC) {
            Ok(raw) => {
                // SAFETY: the kernel has just made this descriptor for this process; nobody
                // else knows its number.
                #[allow(unsafe_code)]
                self.channel.replace(unsafe { OwnedFd::from_raw_fd(raw) });
                self.alone = false;
                Ok(true)
            }
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNABORTED) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl<Out, In> AsFd for Served<Out, In> {
    /// Readable when there is a message, or when the node has gone or come.
    fn as_fd(&self) -> BorrowedFd<'_> {
        if self.alone { self.listener.as_fd() } else { self.channel.as_fd() }
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::socket::{AddressFamily, Backlog, SockType, UnixAddr, bind, listen, socket};

    use super::*;
    use crate::{join, pair};

    #[test]
    fn one_node_after_the_other_is_heard_to_its_end() {
        let folder = std::env::temp_dir().join(format!("europa-served-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("socket");
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let listener = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).unwrap();
        bind(listener.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        listen(&listener, Backlog::new(1).unwrap()).unwrap();
        let (first, there) = pair::<u32, u32>().unwrap();
        let mut there: Served<u32, u32> = Served::new(Channel::new(there), listener);
        first.send(&1, &[]).unwrap();
        first.send(&2, &[]).unwrap();
        there.send(&7, &[]).unwrap();
        drop(first);
        assert_eq!(there.try_receive().unwrap().unwrap().0, 1);
        there.send(&10, &[]).unwrap();
        assert_eq!(there.try_receive().unwrap().unwrap().0, 2);
        assert!(there.try_receive().unwrap().is_none());
        assert!(there.try_receive().unwrap().is_none());
        let mut second = join::<u32, u32>(&path).unwrap();
        second.send(&3, &[]).unwrap();
        assert_eq!(there.try_receive().unwrap().unwrap().0, 3);
        there.send(&30, &[]).unwrap();
        assert_eq!(second.receive().unwrap().0, 30);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
