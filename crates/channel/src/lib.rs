//! Messages and descriptors between the processes of one node.
//!
//! A [`Channel`] is a local socket that keeps message boundaries. Each message is one JSON document
//! and up to [`MAX_DESCRIPTORS`] descriptors. A peer may be hostile: its messages are bounded and
//! parsed, and invalid ones cause only an error.
//!
//! [`Served`] is the endpoint of a process that outlives its node.

mod served;

use std::io::{IoSlice, IoSliceMut};
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::Duration;

use nix::cmsg_space;
use nix::errno::Errno;
use nix::libc::{SCM_RIGHTS, SOL_SOCKET};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr,
    connect, recv, recvmsg, sendmsg, setsockopt, socket, socketpair, sockopt,
};
use serde::{Serialize, de::DeserializeOwned};

pub use served::Served;

/// Most descriptors of one message.
pub const MAX_DESCRIPTORS: usize = 48;
/// The kernel's own limit, see unix(7).
const SCM_MAX_FD: usize = 253;
/// Most bytes of one message: a large Click configuration fits.
pub const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// Size of a buffer that is kept between messages.
const LASTING_BUFFER_BYTES: usize = 16 << 10;

/// Time that a sender waits for a peer that reads nothing.
const SEND_PATIENCE: Duration = Duration::from_secs(2);

/// The reason why a message was not sent or received.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The peer has closed its end.
    #[error("the peer has gone")]
    Closed,
    /// The kernel.
    #[error("socket: {0}")]
    Socket(#[from] Errno),
    /// The message has an unexpected form.
    #[error("not a message: {0}")]
    Message(#[from] serde_json::Error),
    /// Longer than [`MAX_MESSAGE_BYTES`], or with too many descriptors.
    #[error("the message is too long or carries too many descriptors")]
    TooLong,
}

/// An endpoint that sends `Out` and receives `In`.
pub struct Channel<Out, In> {
    socket: OwnedFd,
    buffer: Vec<u8>,
    kinds: PhantomData<fn(Out) -> In>,
}

/// Makes two connected ends; the second one is the bare socket for another process.
///
/// # Errors
/// The error of socketpair(2).
pub fn pair<Out, In>() -> Result<(Channel<Out, In>, OwnedFd), ChannelError>
where
    Out: Serialize,
    In: DeserializeOwned,
{
    let (ours, theirs) =
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
    // The other process may lack the right to do this itself.
    prepare(&theirs);
    Ok((Channel::new(ours), theirs))
}

/// Connects to the listener at `path`, where a [`Served`] listens, and passes it one of two
/// connected sockets. A message over the first connection itself could not be long.
///
/// # Errors
/// The error of connect(2).
pub fn join<Out, In>(path: &Path) -> Result<Channel<Out, In>, ChannelError>
where
    Out: Serialize,
    In: DeserializeOwned,
{
    let ours = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)?;
    connect(ours.as_raw_fd(), &UnixAddr::new(path)?)?;
    let (channel, theirs) = pair()?;
    Channel::<(), ()>::new(ours).send(&(), &[theirs.as_fd()])?;
    Ok(channel)
}

impl<Out: Serialize, In: DeserializeOwned> Channel<Out, In> {
    /// Takes a connected socket of type `SOCK_SEQPACKET`.
    pub fn new(socket: OwnedFd) -> Self {
        prepare(&socket);
        Self { socket, buffer: Vec::new(), kinds: PhantomData }
    }

    /// Continues with another peer.
    fn replace(&mut self, socket: OwnedFd) {
        self.socket = socket;
    }

    /// Sends one message, waiting until there is room.
    ///
    /// # Errors
    /// A closed peer, or a message that is too long.
    pub fn send(&self, message: &Out, descriptors: &[BorrowedFd<'_>]) -> Result<(), ChannelError> {
        self.send_with(message, descriptors, MsgFlags::empty())
    }

    /// Sends one message if the socket has room. Returns whether it was sent.
    ///
    /// # Errors
    /// As [`Channel::send`].
    pub fn try_send(&self, message: &Out) -> Result<bool, ChannelError> {
        match self.send_with(message, &[], MsgFlags::MSG_DONTWAIT) {
            Ok(()) => Ok(true),
            Err(ChannelError::Socket(Errno::EAGAIN | Errno::ENOBUFS)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn send_with(
        &self,
        message: &Out,
        descriptors: &[BorrowedFd<'_>],
        flags: MsgFlags,
    ) -> Result<(), ChannelError> {
        let text = serde_json::to_vec(message)?;
        if text.len() > MAX_MESSAGE_BYTES || descriptors.len() > MAX_DESCRIPTORS {
            return Err(ChannelError::TooLong);
        }
        let raw: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&raw)];
        let control = if raw.is_empty() { &rights[..0] } else { &rights[..] };
        loop {
            let sent = sendmsg::<()>(
                self.socket.as_raw_fd(),
                &[IoSlice::new(&text)],
                control,
                MsgFlags::MSG_NOSIGNAL | flags,
                None,
            );
            match sent {
                Ok(_) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(Errno::EPIPE | Errno::ECONNRESET) => return Err(ChannelError::Closed),
                Err(Errno::EMSGSIZE) => return Err(ChannelError::TooLong),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits for one message.
    ///
    /// # Errors
    /// A closed peer, or an invalid message.
    pub fn receive(&mut self) -> Result<(In, Vec<OwnedFd>), ChannelError> {
        loop {
            if let Some(message) = self.receive_with(MsgFlags::empty())? {
                return Ok(message);
            }
        }
    }

    /// Waits for one message up to a time limit; `None` if none arrived.
    ///
    /// # Errors
    /// As [`Channel::receive`].
    pub fn receive_within(
        &mut self,
        time: Duration,
    ) -> Result<Option<(In, Vec<OwnedFd>)>, ChannelError> {
        let mut wait = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(time).unwrap_or(PollTimeout::MAX);
        match poll(&mut wait, timeout) {
            Ok(0) | Err(Errno::EINTR) => Ok(None),
            Ok(_) => self.try_receive(),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes a message if there is one.
    ///
    /// # Errors
    /// As [`Channel::receive`].
    pub fn try_receive(&mut self) -> Result<Option<(In, Vec<OwnedFd>)>, ChannelError> {
        self.receive_with(MsgFlags::MSG_DONTWAIT)
    }

    fn receive_with(
        &mut self,
        flags: MsgFlags,
    ) -> Result<Option<(In, Vec<OwnedFd>)>, ChannelError> {
        // A process may have a thousand channels, so a channel keeps no buffer for the longest
        // message.
        let look = flags | MsgFlags::MSG_PEEK | MsgFlags::MSG_TRUNC;
        match recv(self.socket.as_raw_fd(), &mut [], look) {
            Ok(0) => return Err(ChannelError::Closed),
            Ok(bytes) if bytes > MAX_MESSAGE_BYTES => self.buffer.resize(1, 0),
            Ok(bytes) => self.buffer.resize(bytes, 0),
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(None),
            Err(Errno::ECONNRESET) => return Err(ChannelError::Closed),
            Err(error) => return Err(error.into()),
        }
        // Room for all descriptors of a message: descriptors without room would stay open
        // unnoticed.
        let mut control = cmsg_space!([RawFd; SCM_MAX_FD]);
        let mut parts = [IoSliceMut::new(&mut self.buffer)];
        let received = recvmsg::<()>(
            self.socket.as_raw_fd(),
            &mut parts,
            Some(&mut control),
            flags | MsgFlags::MSG_CMSG_CLOEXEC,
        );
        let message = match received {
            Ok(message) => message,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(None),
            Err(Errno::ECONNRESET) => return Err(ChannelError::Closed),
            Err(error) => return Err(error.into()),
        };
        let mut raw = Vec::new();
        for part in message.cmsgs().into_iter().flatten() {
            if let ControlMessageOwned::ScmRights(brought) = part {
                raw.extend(brought);
            }
        }
        let (bytes, came) = (message.bytes, message.flags);
        if came.contains(MsgFlags::MSG_CTRUNC) {
            raw = cut_short(&control);
        }
        // SAFETY: the kernel has just made these descriptors for this process; no other code knows
        // their numbers.
        #[allow(unsafe_code)]
        let descriptors: Vec<OwnedFd> =
            raw.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }).collect();
        let truncated = came.intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC);
        if bytes == 0 {
            return Err(ChannelError::Closed);
        }
        if truncated || descriptors.len() > MAX_DESCRIPTORS {
            return Err(ChannelError::TooLong);
        }
        let read = serde_json::from_slice(self.buffer.get(..bytes).unwrap_or_default());
        if self.buffer.capacity() > LASTING_BUFFER_BYTES {
            self.buffer = Vec::new();
        }
        Ok(Some((read?, descriptors)))
    }
}

/// The descriptors of a message that brought more than this process may have open. nix does not
/// report them, so this walks `struct cmsghdr` of cmsg(3), and the caller closes them.
fn cut_short(control: &[u8]) -> Vec<RawFd> {
    let word = |at: usize| control.get(at..at + 4)?.try_into().ok().map(i32::from_ne_bytes);
    let Some(length) = control.first_chunk().map(|bytes| usize::from_ne_bytes(*bytes)) else {
        return Vec::new();
    };
    let (level, kind) = (size_of::<usize>(), size_of::<usize>() + 4);
    if (word(level), word(kind)) != (Some(SOL_SOCKET), Some(SCM_RIGHTS)) {
        return Vec::new();
    }
    (kind + 4..length.min(control.len())).step_by(4).filter_map(word).collect()
}

fn prepare(socket: &OwnedFd) {
    // Only large configurations need this. Without it, sending them fails.
    let _ = setsockopt(socket, sockopt::SndBufForce, &(MAX_MESSAGE_BYTES * 2));
    // A peer that reads nothing must not block the sender forever.
    let patience = nix::sys::time::TimeVal::new(SEND_PATIENCE.as_secs() as i64, 0);
    let _ = setsockopt(socket, sockopt::SendTimeout, &patience);
}

impl<Out, In> AsFd for Channel<Out, In> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};

    #[test]
    fn descriptors_of_a_message_that_was_cut_short_are_found() {
        let mut control = Vec::new();
        control.extend((size_of::<usize>() + 16).to_ne_bytes());
        for word in [SOL_SOCKET, SCM_RIGHTS, 7, 8, 9] {
            control.extend(word.to_ne_bytes());
        }
        assert_eq!(cut_short(&control), [7, 8], "the third one was not made");
        control[size_of::<usize>()] ^= 1;
        assert!(cut_short(&control).is_empty());
        for length in 0..control.len() {
            cut_short(&control[..length]);
        }
    }

    #[test]
    fn a_message_brings_its_descriptors() {
        let (here, there) = pair::<String, u32>().unwrap();
        let mut there: Channel<u32, String> = Channel::new(there);
        assert!(there.try_receive().unwrap().is_none());
        let mut file = tempfile();
        here.send(&"look".to_owned(), &[file.as_fd()]).unwrap();
        let (text, mut descriptors) = there.receive().unwrap();
        assert_eq!((text.as_str(), descriptors.len()), ("look", 1));
        let mut same = std::fs::File::from(descriptors.remove(0));
        same.write_all(b"here").unwrap();
        let mut read = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut read).unwrap();
        assert_eq!(read, "here");
    }

    #[test]
    fn a_peer_that_goes_or_babbles_is_an_error() {
        let (here, there) = pair::<String, u32>().unwrap();
        let mut babbled: Channel<(), u32> = Channel::new(there);
        here.send(&"no number".to_owned(), &[]).unwrap();
        assert!(matches!(babbled.receive(), Err(ChannelError::Message(_))));
        drop(here);
        assert!(matches!(babbled.receive(), Err(ChannelError::Closed)));
        assert!(matches!(babbled.send(&(), &[]), Err(ChannelError::Closed)));
    }

    #[test]
    fn a_large_configuration_fits_and_a_huge_one_is_refused() {
        let (here, there) = pair::<String, ()>().unwrap();
        let mut there: Channel<(), String> = Channel::new(there);
        let large = "x".repeat(150 << 10);
        here.send(&large, &[]).unwrap();
        assert_eq!(there.receive().unwrap().0, large);
        let huge = "x".repeat(MAX_MESSAGE_BYTES);
        assert!(matches!(here.send(&huge, &[]), Err(ChannelError::TooLong)));
    }

    #[test]
    fn descriptors_too_many_are_refused_and_closed() {
        let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let (here, there) = pair::<(), ()>().unwrap();
        let mut there: Channel<(), ()> = Channel::new(there);
        let file = tempfile();
        let raw = [file.as_raw_fd(); SCM_MAX_FD];
        // Other tests open and close descriptors at the same time, but not hundreds.
        let before = open();
        for count in [MAX_DESCRIPTORS + 1, SCM_MAX_FD] {
            let rights = [ControlMessage::ScmRights(&raw[..count])];
            let text = [IoSlice::new(b"null")];
            sendmsg::<()>(here.as_fd().as_raw_fd(), &text, &rights, MsgFlags::empty(), None)
                .unwrap();
            assert!(matches!(there.receive(), Err(ChannelError::TooLong)), "{count}");
            assert!(open() < before + MAX_DESCRIPTORS, "{count}: {before}, now {}", open());
        }
    }

    fn tempfile() -> std::fs::File {
        nix::sys::memfd::memfd_create(c"test", nix::sys::memfd::MFdFlags::empty()).unwrap().into()
    }
}
