//! Descriptors and terminals that a process gets from the node.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use crate::error::{SandboxError, Step};

/// The number of the first descriptor of [`spawn`](crate::spawn).
const FIRST: RawFd = 3;

/// The descriptors 3, 4, ... that [`spawn`](crate::spawn) has passed to this process. From now on
/// exec closes them. A second call is an error, as the descriptors then have an owner.
///
/// # Errors
/// One of them is not open.
pub fn inherited<const N: usize>() -> Result<[OwnedFd; N], SandboxError> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Err(SandboxError::Refused("the descriptors are taken already".into()));
    }
    let numbers: [RawFd; N] = std::array::from_fn(|at| FIRST + RawFd::try_from(at).unwrap_or(0));
    for number in numbers {
        // SAFETY: borrowed for this call only, which fails if the number is not open.
        let open = unsafe { BorrowedFd::borrow_raw(number) };
        fcntl(open, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).step("taking a descriptor")?;
    }
    // SAFETY: all are open. They have been open since the start of this process, so no other code
    // of it has got their numbers, and `TAKEN` lets no other call own them.
    Ok(numbers.map(|number| unsafe { OwnedFd::from_raw_fd(number) }))
}

/// Makes `terminal` the controlling terminal of the calling process, which must lead a session
/// without a terminal. Another session that has this terminal loses it. This needs the rights of
/// the host's root.
///
/// # Errors
/// It is no terminal.
pub fn take_terminal(terminal: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: TIOCSCTTY takes an integer: 1 takes the terminal away from another session
    // (ioctl_tty(2)).
    let result = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSCTTY, 1) };
    Errno::result(result).map(drop).map_err(io::Error::from)
}
