//! Packet sockets that receive all frames of a device, as they were on the link.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, OwnedFd};

use crate::device::Device;
use crate::error::PortError;
use crate::socket::{PACKET_VNET_HDR, set, set_level};

/// Bytes of `struct virtio_net_hdr`.
const HEADER_BYTES: usize = 10;
/// Flag of that header: the checksum is partial.
const NEEDS_CHECKSUM: u8 = 1;
/// Flags of `struct tpacket_auxdata`: the frame has a VLAN tag, and the tag's protocol is valid.
const VLAN_VALID: u32 = 1 << 4;
const TPID_VALID: u32 = 1 << 6;
/// The usual kind of VLAN tag.
const TPID: u16 = 0x8100;
/// `PACKET_AUXDATA` of `linux/if_packet.h`, which libc does not define.
const PACKET_AUXDATA: libc::c_int = 8;

/// `struct tpacket_auxdata` of `linux/if_packet.h`.
#[repr(C)]
struct AuxiliaryData {
    status: u32,
    _length: u32,
    _captured: u32,
    _link_header: u16,
    _network_header: u16,
    tag: u16,
    tag_kind: u16,
}

/// Room for the one requested control message, with the kernel's alignment.
const CONTROL_WORDS: usize = 8;

/// A partial checksum: the field holds the sum of the pseudo header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partial {
    /// Start of the summed bytes, counted from the start of the frame.
    pub start: u16,
    /// Where the field is, from there.
    pub offset: u16,
}

/// Segments that were merged into one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The kernel's number of the segments' type.
    pub kind: u8,
    /// Bytes of payload of each segment but the last.
    pub size: u16,
}

impl Merged {
    /// Segments of TCP over IPv4.
    pub const TCP4: u8 = 1;
    /// Segments of TCP over IPv6.
    pub const TCP6: u8 = 4;
    /// Datagrams of UDP.
    pub const UDP: u8 = 5;
}

/// A frame that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The frame's length in bytes, which may be larger than the buffer.
    pub length: usize,
    /// The packet type: `PACKET_HOST` and others.
    pub kind: u8,
    /// The VLAN tag that the kernel has removed: its kind and its value.
    pub tag: Option<[u16; 2]>,
    /// The checksum that must still be completed.
    pub partial: Option<Partial>,
    /// The frame's segments, if it has more than one.
    pub merged: Option<Merged>,
}

/// Makes a socket report each frame's VLAN tag and the work that offloads have left. It skips
/// frames whose mark is `value` in the bits of `mask`.
///
/// # Errors
/// When the kernel refuses.
pub fn prepare_listener(
    socket: &OwnedFd,
    device: &Device,
    (mask, value): (u32, u32),
) -> Result<(), PortError> {
    let instruction = |code: u32, jump_if: u8, jump_else: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt: jump_if,
        jf: jump_else,
        k,
    };
    let mark = (libc::SKF_AD_OFF + libc::SKF_AD_MARK).cast_unsigned();
    let mut program = [
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, mark),
        instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, mask),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, value),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let prepare = || {
        set_level(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)?;
        set(socket, PACKET_AUXDATA, &1_i32)?;
        set(socket, PACKET_VNET_HDR, &1_i32)
    };
    prepare().map_err(|source| device.refused("prepare a packet socket", source))
}

/// Receives a frame from a socket that [`prepare_listener`] has prepared.
///
/// # Errors
/// The kernel's error; [`io::ErrorKind::WouldBlock`] if no frame is waiting.
pub fn receive(socket: &OwnedFd, frame: &mut [u8]) -> io::Result<Frame> {
    let mut header = [0u8; HEADER_BYTES];
    let mut parts = [
        libc::iovec { iov_base: header.as_mut_ptr().cast(), iov_len: HEADER_BYTES },
        libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() },
    ];
    let mut from = MaybeUninit::<libc::sockaddr_ll>::zeroed();
    let mut control = [0u64; CONTROL_WORDS];
    let mut message = MaybeUninit::<libc::msghdr>::zeroed();
    // SAFETY: zeroes are a valid `msghdr`: no address, no parts, no control data.
    let mut message = unsafe {
        let place = message.assume_init_mut();
        place.msg_name = from.as_mut_ptr().cast();
        place.msg_namelen = size_of::<libc::sockaddr_ll>() as u32;
        place.msg_iov = parts.as_mut_ptr();
        place.msg_iovlen = parts.len();
        place.msg_control = control.as_mut_ptr().cast();
        place.msg_controllen = size_of_val(&control) as _;
        *place
    };
    // SAFETY: the message names memory of the stated sizes, which exists during the call.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_TRUNC) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the structure was zeroed, and any bytes are valid for it.
    let from = unsafe { from.assume_init() };
    let word = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
    let partial = Partial { start: word(6), offset: word(8) };
    Ok(Frame {
        length: length.saturating_sub(HEADER_BYTES),
        kind: from.sll_pkttype,
        tag: tag(&message),
        partial: (header[0] & NEEDS_CHECKSUM != 0).then_some(partial),
        merged: (header[1] & 0x7f != 0).then_some(Merged { kind: header[1] & 0x7f, size: word(4) }),
    })
}

/// The VLAN tag of a frame, from the control message.
fn tag(message: &libc::msghdr) -> Option<[u16; 2]> {
    // SAFETY: the kernel has filled in the control data, whose length is in the message.
    let first = unsafe { libc::CMSG_FIRSTHDR(message).as_ref()? };
    if (first.cmsg_level, first.cmsg_type) != (libc::SOL_PACKET, PACKET_AUXDATA) {
        return None;
    }
    // SAFETY: a message of this type contains this struct, whatever its alignment.
    let data = unsafe { libc::CMSG_DATA(first).cast::<AuxiliaryData>().read_unaligned() };
    if data.status & VLAN_VALID == 0 {
        return None;
    }
    let kind = if data.status & TPID_VALID != 0 { data.tag_kind } else { TPID };
    Some([kind, data.tag])
}
