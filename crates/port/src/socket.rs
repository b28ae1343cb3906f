//! Packet sockets, which send frames that live frames cannot carry.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, sockopt};

use crate::device::Device;
use crate::error::PortError;

/// `PACKET_VNET_HDR` of `linux/if_packet.h`, which libc does not define.
pub(crate) const PACKET_VNET_HDR: libc::c_int = 15;
/// Bytes that may wait for a device: some packets of merged segments, with the kernel's overhead.
const SEND_BYTES: usize = 4 << 20;

/// Opens a socket that sends frames by a device; each begins with the Ethernet header.
///
/// The socket receives nothing (protocol 0: no hook in the receive path), skips the queueing
/// discipline, does not block, and is closed by `execve`. Its owner needs no privilege. Ten bytes
/// precede each frame, `struct virtio_net_hdr`: zeros, or work for the device.
///
/// # Errors
/// If the namespace cannot be entered or the device no longer exists.
pub fn open_socket(device: &Device) -> Result<OwnedFd, PortError> {
    let socket = open(device, 0)?;
    let prepare = || {
        set(&socket, PACKET_VNET_HDR, &1_i32)?;
        setsockopt(&socket, sockopt::SndBufForce, &SEND_BYTES).map_err(io::Error::from)
    };
    prepare().map_err(|source| device.refused("prepare a packet socket", source))?;
    Ok(socket)
}

mod kernel {
    use nix::libc;

    nix::ioctl_read_bad!(outq, libc::TIOCOUTQ, libc::c_int);
}

/// Whether all frames of a socket have left it: a device has sent them, or the receiver behind a
/// software device has taken them.
#[must_use]
pub fn is_out(socket: &OwnedFd) -> bool {
    let mut bytes = 0;
    // SAFETY: the kernel writes an `int`, which is what `bytes` is.
    let asked = unsafe { kernel::outq(socket.as_raw_fd(), &raw mut bytes) };
    asked.is_ok() && bytes == 0
}

/// Opens a socket like [`open_socket`], which also receives all incoming and outgoing frames.
///
/// # Errors
/// The namespace cannot be entered or the device no longer exists.
pub fn open_listener(device: &Device) -> Result<OwnedFd, PortError> {
    open(device, (libc::ETH_P_ALL as u16).to_be())
}

/// Opens a socket that sends frames as Linux does: through the queueing discipline and the device's
/// egress programs. It receives nothing and does not block.
///
/// # Errors
/// If the namespace cannot be entered or the device no longer exists.
pub fn open_queued(device: &Device) -> Result<OwnedFd, PortError> {
    open_raw(device, 0, false)
}

fn open(device: &Device, protocol: u16) -> Result<OwnedFd, PortError> {
    open_raw(device, protocol, true)
}

fn open_raw(device: &Device, protocol: u16, bypass: bool) -> Result<OwnedFd, PortError> {
    let open = || {
        let socket = device.namespace.socket(
            AddressFamily::Packet,
            SockType::Raw,
            SockFlag::SOCK_NONBLOCK,
            None,
        )?;
        if bypass {
            set(&socket, libc::PACKET_QDISC_BYPASS, &1_i32)?;
        }
        bind(&socket, device.index, protocol)?;
        Ok(socket)
    };
    open().map_err(|source| device.refused("open a packet socket", source))
}

/// Makes a device accept frames for any address, or ends that. The setting lasts as long as a
/// socket in any process requests it.
///
/// # Errors
/// When the device is gone.
pub fn set_promiscuous(socket: &OwnedFd, device: &Device, on: bool) -> Result<(), PortError> {
    let change = || {
        let membership = libc::packet_mreq {
            mr_ifindex: device.index.cast_signed(),
            mr_type: libc::PACKET_MR_PROMISC.try_into().map_err(io::Error::other)?,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        let option = if on { libc::PACKET_ADD_MEMBERSHIP } else { libc::PACKET_DROP_MEMBERSHIP };
        set(socket, option, &membership)
    };
    change().map_err(|source| device.refused("take frames for any address", source))
}

/// Sets a packet option. `T` must be the option's plain C type.
pub(crate) fn set<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    set_level(socket, libc::SOL_PACKET, option, value)
}

/// Sets an option of this level. `T` must be the option's plain C type.
pub(crate) fn set_level<T>(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let length = size_of::<T>().try_into().map_err(io::Error::other)?;
    // SAFETY: the kernel reads `length` bytes of `value`, which is that long.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            length,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn bind(socket: &OwnedFd, index: u32, protocol: u16) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET.try_into().map_err(io::Error::other)?,
        sll_protocol: protocol,
        sll_ifindex: index.cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let length = size_of::<libc::sockaddr_ll>().try_into().map_err(io::Error::other)?;
    // SAFETY: the kernel reads `length` bytes of `address`, which is that long.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
