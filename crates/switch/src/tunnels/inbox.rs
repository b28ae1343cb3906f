//! Receiving: up to a batch of packets by one system call, into private memory.

use std::io::IoSliceMut;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg};

/// Packets of one system call.
pub(super) const BATCH: usize = 32;
/// Room for one packet. A longer one is truncated, and no packet of a link is that long.
pub(super) const PACKET_BYTES: usize = 16 << 10;

#[derive(Default)]
pub(super) struct Inbox(Option<Memory>);

struct Memory {
    bytes: Box<[u8]>,
    headers: MultiHeaders<SockaddrStorage>,
}

impl Inbox {
    /// Passes the packets that wait in a socket on, at most a batch, with their source addresses.
    /// Returns their number.
    pub(super) fn receive(
        &mut self,
        socket: &OwnedFd,
        mut each: impl FnMut(IpAddr, &[u8]),
    ) -> usize {
        let Memory { bytes, headers } = self.0.get_or_insert_with(|| Memory {
            bytes: vec![0; BATCH * PACKET_BYTES].into(),
            headers: MultiHeaders::preallocate(BATCH, None),
        });
        let mut found = [(None, 0); BATCH];
        let count = {
            let mut parts = bytes.chunks_mut(PACKET_BYTES);
            let mut slices: [[IoSliceMut<'_>; 1]; BATCH] =
                std::array::from_fn(|_| [IoSliceMut::new(parts.next().unwrap_or_default())]);
            let flags = MsgFlags::MSG_DONTWAIT;
            let received = recvmmsg(socket.as_raw_fd(), headers, &mut slices, flags, None);
            // No packet waits, or the kernel reports an error of a sent packet.
            let Ok(received) = received else { return 0 };
            let mut count = 0;
            for (found, message) in found.iter_mut().zip(received) {
                *found = (message.address.as_ref().and_then(ip), message.bytes);
                count += 1;
            }
            count
        };
        for ((from, length), packet) in found.iter().zip(bytes.chunks(PACKET_BYTES)).take(count) {
            if let (Some(from), Some(packet)) = (from, packet.get(..*length)) {
                each(*from, packet);
            }
        }
        count
    }
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
}
