//! The part of netlink that ports need: requests with attributes, and answers.
//!
//! Netlink is synchronous: the kernel answers a request before `send` returns. The timeout only
//! prevents a hang. Numbers are from `linux/netlink.h`, `rtnetlink.h`, `if_link.h`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, setsockopt, sockopt,
};
use nix::sys::time::TimeVal;

use crate::namespace::Namespace;

const HEADER_BYTES: usize = 16;
/// More bytes than the kernel puts into one answer (it fills at most 32 KiB).
const BUFFER_BYTES: usize = 65536;

const REQUEST: u16 = 1;
const ACK: u16 = 4;
/// Flag of a request that lists everything.
pub const DUMP: u16 = 0x300;
/// Flags of a request that creates missing objects.
pub const CREATE: u16 = 0x600;
/// Flag of a list during which an object changed.
const INTERRUPTED: u16 = 0x10;
/// Flags of a request that creates or replaces.
pub const REPLACE: u16 = 0x500;

const ERROR: u16 = 2;
const DONE: u16 = 3;

/// A message under construction.
pub struct Request(Vec<u8>);

impl Request {
    /// A request of type `kind` with the fixed `body` of that type.
    pub fn new(kind: u16, flags: u16, body: &[u8]) -> Self {
        // A dump ends with DONE, other answers with the acknowledgement.
        let end = if flags & DUMP == DUMP { 0 } else { ACK };
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(REQUEST | flags | end).to_ne_bytes());
        bytes.extend_from_slice(body);
        Self(bytes).aligned()
    }

    /// Adds an attribute.
    pub fn with(mut self, kind: u16, value: &[u8]) -> Self {
        // Values are names, addresses and numbers of at most a few bytes.
        let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
        self.0.extend_from_slice(&length.to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.aligned()
    }

    fn aligned(mut self) -> Self {
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// Completes the header.
    pub(crate) fn finish(&mut self, sequence: u32) -> &[u8] {
        let length = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0[0..4].copy_from_slice(&length.to_ne_bytes());
        self.0[8..12].copy_from_slice(&sequence.to_ne_bytes());
        &self.0
    }
}

/// A netlink socket of one namespace and its buffer.
pub struct Netlink {
    socket: OwnedFd,
    buffer: Vec<u8>,
    sequence: u32,
    /// An object changed while the kernel was listing, so the list may lack an entry.
    pub interrupted: bool,
}

impl Netlink {
    /// Routes, devices, neighbours.
    ///
    /// # Errors
    /// If the namespace cannot be entered.
    pub fn route(namespace: &Namespace) -> io::Result<Self> {
        Ok(Self::over(open(namespace, SockProtocol::NetlinkRoute)?))
    }

    /// A protocol of netlink.
    ///
    /// # Errors
    /// If the namespace cannot be entered, or the kernel does not support this protocol.
    pub fn of(namespace: &Namespace, protocol: SockProtocol) -> io::Result<Self> {
        Ok(Self::over(open(namespace, protocol)?))
    }

    /// Families by name.
    pub(crate) fn generic(namespace: &Namespace) -> io::Result<Self> {
        Ok(Self::over(open(namespace, SockProtocol::NetlinkGeneric)?))
    }

    /// Uses a socket that [`open`] made, possibly in another process.
    pub(crate) fn over(socket: OwnedFd) -> Self {
        Self { socket, buffer: vec![0; BUFFER_BYTES], sequence: 0, interrupted: false }
    }

    /// Sends a request and passes every answer's type and payload to `each`. Allocates nothing.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn talk(
        &mut self,
        request: &mut Request,
        mut each: impl FnMut(u16, &[u8]),
    ) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let socket = self.socket.as_raw_fd();
        send(socket, request.finish(self.sequence), MsgFlags::empty())?;
        loop {
            let length = recv(socket, &mut self.buffer, MsgFlags::MSG_TRUNC)?;
            let mut rest = self
                .buffer
                .get(..length)
                .ok_or_else(|| io::Error::other("a netlink answer is longer than its buffer"))?;
            while let Some(length) = number(rest, 0).map(|length| length as usize) {
                let Some(message) = rest.get(HEADER_BYTES..length) else { break };
                let kind = u16::from_ne_bytes([rest[4], rest[5]]);
                let flags = u16::from_ne_bytes([rest[6], rest[7]]);
                self.interrupted |= flags & INTERRUPTED != 0;
                // This is a late answer to a request that timed out.
                if number(rest, 8) == Some(self.sequence) {
                    match kind {
                        DONE => return Ok(()),
                        ERROR => return status(message),
                        _ => each(kind, message),
                    }
                }
                rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            }
        }
    }

    /// The first answer to a request.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn ask(&mut self, mut request: Request) -> io::Result<Vec<u8>> {
        let mut answer = None;
        self.talk(&mut request, |_, payload| {
            answer.get_or_insert_with(|| payload.to_vec());
        })?;
        answer.ok_or_else(|| io::Error::other("the kernel acknowledged without an answer"))
    }
}

impl AsFd for Netlink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A netlink socket of a namespace.
///
/// # Errors
/// If the namespace cannot be entered.
pub fn open(namespace: &Namespace, protocol: SockProtocol) -> io::Result<OwnedFd> {
    let socket = namespace.socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::empty(),
        Some(protocol),
    )?;
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::new(2, 0))?;
    Ok(socket)
}

/// The result in an ERROR message: zero means success.
fn status(message: &[u8]) -> io::Result<()> {
    match number(message, 0).map(u32::cast_signed) {
        Some(0) => Ok(()),
        Some(error) => Err(io::Error::from_raw_os_error(error.saturating_neg())),
        None => Err(io::Error::other("a netlink answer is cut short")),
    }
}

/// The attributes of a message after its fixed part of `skip` bytes.
pub fn attributes(message: &[u8], skip: usize) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = message.get(skip..).unwrap_or_default();
    std::iter::from_fn(move || {
        let head: [u8; 4] = rest.get(..4)?.try_into().ok()?;
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        // The two upper bits mean "nested" and "network byte order".
        let kind = u16::from_ne_bytes([head[2], head[3]]) & 0x3fff;
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The value of one attribute.
pub fn attribute(message: &[u8], skip: usize, wanted: u16) -> Option<&[u8]> {
    attributes(message, skip).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

/// A 32-bit number of the machine's byte order.
pub fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// A 64-bit number of the machine's byte order.
pub(crate) fn long_number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// A string up to its terminating zero.
pub fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_come_back_as_they_were_put() {
        let mut request = Request::new(16, 0, &[1, 2, 3, 4]).with(3, b"eth0\0").with(5, &[]);
        let bytes = request.finish(7).to_vec();
        assert_eq!(number(&bytes, 0), u32::try_from(bytes.len()).ok());
        assert_eq!(number(&bytes, 8), Some(7));
        let found: Vec<_> = attributes(&bytes, HEADER_BYTES + 4).collect();
        assert_eq!(found, [(3, &b"eth0\0"[..]), (5, &[][..])]);
        assert_eq!(attribute(&bytes, HEADER_BYTES + 4, 3).map(text).as_deref(), Some("eth0"));
    }

    #[test]
    fn damaged_attributes_end_the_list() {
        for (bytes, wanted) in [
            (&[][..], 0),
            (&[8, 0, 1][..], 0),          // no room for a header
            (&[3, 0, 1, 0, 0, 0][..], 0), // shorter than its header
            (&[9, 0, 1, 0, 1, 1][..], 0), // longer than the message
            (&[5, 0, 1, 0, 1][..], 1),    // the last one may lack its padding
        ] {
            assert_eq!(attributes(bytes, 0).count(), wanted, "{bytes:?}");
        }
        assert_eq!(attributes(&[1], 5).count(), 0);
    }

    #[test]
    fn the_kernel_answers_and_refuses() {
        let here = Namespace::current().expect("our namespace");
        let mut netlink = Netlink::route(&here).expect("a socket");
        let mut loopback = [0; 16];
        loopback[4] = 1;
        let answer = netlink.ask(Request::new(18, 0, &loopback)).expect("device 1 is lo");
        assert_eq!(attribute(&answer, 16, 3).map(text).as_deref(), Some("lo"));
        loopback[4..8].copy_from_slice(&i32::MAX.to_ne_bytes());
        let error = netlink.ask(Request::new(18, 0, &loopback)).expect_err("no such device");
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    }
}
