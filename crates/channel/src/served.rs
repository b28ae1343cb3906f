//! The control socket of a process that outlives its node.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{SockFlag, accept4};
use serde::{Serialize, de::DeserializeOwned};

use crate::{Channel, ChannelError};

/// Receives orders from successive nodes. After a node has ended, it receives from the next one
/// that connects to a listening socket. The folder of that socket's file decides which processes
/// may connect.
pub struct Served<Out, In> {
    channel: Channel<Out, In>,
    /// The node has ended.
    alone: bool,
    listener: OwnedFd,
    /// A peer that has connected, but has not passed the channel yet.
    door: Option<Channel<(), ()>>,
}

impl<Out: Serialize, In: DeserializeOwned> Served<Out, In> {
    /// Starts with `channel`, and continues with the peers of `listener`, which must be
    /// non-blocking.
    pub fn new(channel: Channel<Out, In>, listener: OwnedFd) -> Self {
        Self { channel, alone: false, listener, door: None }
    }

    /// Takes a message if there is one.
    ///
    /// # Errors
    /// Like [`Channel::try_receive`], but if the peer has closed, it waits for the next peer.
    pub fn try_receive(&mut self) -> Result<Option<(In, Vec<OwnedFd>)>, ChannelError> {
        if self.alone && !self.accept()? {
            return Ok(None);
        }
        // A peer that closes without reading everything causes one error before its remaining
        // messages.
        let closed = |result: &Result<_, _>| matches!(result, Err(ChannelError::Closed));
        let mut received = self.channel.try_receive();
        if closed(&received) {
            received = self.channel.try_receive();
        }
        self.alone = closed(&received);
        if self.alone { Ok(None) } else { received }
    }

    /// Sends one message; does nothing if the peer has closed.
    ///
    /// # Errors
    /// The same as for [`Channel::send`], except for a closed peer.
    pub fn send(
        &mut self,
        message: &Out,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        match self.channel.send(message, descriptors) {
            // The peer's last messages are still unread, so `alone` is set later.
            Err(ChannelError::Closed) => Ok(()),
            other => other,
        }
    }

    /// Accepts the next node. Returns whether one has connected.
    fn accept(&mut self) -> Result<bool, ChannelError> {
        if self.door.is_none() && !self.open()? {
            return Ok(false);
        }
        let Some(door) = &mut self.door else { return Ok(false) };
        match door.try_receive() {
            Ok(None) => return Ok(false),
            Ok(Some(((), descriptors))) => {
                if let Some(socket) = descriptors.into_iter().next() {
                    self.channel.replace(socket);
                    self.alone = false;
                }
            }
            // The peer has closed already.
            Err(_) => {}
        }
        self.door = None;
        Ok(!self.alone)
    }

    fn open(&mut self) -> Result<bool, ChannelError> {
        match accept4(self.listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC) {
            Ok(raw) => {
                // SAFETY: the kernel has just made this descriptor for this process; no other code
                // knows its number.
                #[allow(unsafe_code)]
                let socket = unsafe { OwnedFd::from_raw_fd(raw) };
                self.door = Some(Channel::new(socket));
                Ok(true)
            }
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNABORTED) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl<Out, In> AsFd for Served<Out, In> {
    /// Readable when a message has arrived, or when a node has closed or connected.
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.door {
            Some(door) if self.alone => door.as_fd(),
            _ if self.alone => self.listener.as_fd(),
            _ => self.channel.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::socket::{
        AddressFamily, Backlog, SockType, UnixAddr, bind, connect, listen, socket,
    };

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
        let (first, there) = pair::<u32, String>().unwrap();
        let mut there: Served<String, u32> = Served::new(Channel::new(there), listener);
        first.send(&1, &[]).unwrap();
        first.send(&2, &[]).unwrap();
        there.send(&"7".to_owned(), &[]).unwrap();
        drop(first);
        assert_eq!(there.try_receive().unwrap().unwrap().0, 1);
        there.send(&"10".to_owned(), &[]).unwrap();
        assert_eq!(there.try_receive().unwrap().unwrap().0, 2);
        assert!(there.try_receive().unwrap().is_none());
        assert!(there.try_receive().unwrap().is_none());
        for _ in 0..2 {
            // A peer that connects and closes is not a node.
            let nobody = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).unwrap();
            connect(nobody.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
            assert!(there.try_receive().unwrap().is_none());
            drop(nobody);
            assert!(there.try_receive().unwrap().is_none());
            let mut next = join::<u32, String>(&path).unwrap();
            next.send(&3, &[]).unwrap();
            assert_eq!(there.try_receive().unwrap().unwrap().0, 3);
            // Only root may make room for more.
            let root = nix::unistd::geteuid().is_root();
            let long = "x".repeat(if root { 1 << 20 } else { 100 << 10 });
            there.send(&long, &[]).unwrap();
            assert_eq!(next.receive().unwrap().0, long);
            drop(next);
            assert!(there.try_receive().unwrap().is_none());
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
