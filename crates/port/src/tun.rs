//! Devices whose other end is a descriptor: tun (IP packets) and tap (Ethernet frames).

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

/// Makes a tun or tap device in this thread's namespace. It is removed when the descriptor is
/// closed. The system chooses a name if none is given. Returns the descriptor, which does not
/// block, and the name.
///
/// # Errors
/// If the process has no right to do this, `/dev/net/tun` is missing, or the name is in use.
pub fn make_tun(name: Option<&str>, tap: bool) -> io::Result<(OwnedFd, String)> {
    let mut options = OpenOptions::new();
    let file =
        options.read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    let kind = if tap { libc::IFF_TAP } else { libc::IFF_TUN } | libc::IFF_NO_PI;
    // SAFETY: plain bytes, for which all zeros is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_ifru.ifru_flags = kind as libc::c_short;
    let name = name.unwrap_or_default().as_bytes();
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the name is too long"));
    }
    for (place, byte) in request.ifr_name.iter_mut().zip(name) {
        *place = *byte as libc::c_char;
    }
    // SAFETY: the kernel reads and writes the request, which lives as long as the call.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let bytes = request.ifr_name.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0);
    let name = String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned();
    Ok((file.into(), name))
}
