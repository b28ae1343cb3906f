//! Wakes a peer by an eventfd that the peer has too.
//!
//! Each of two processes that share an open file can change its mode. So a hostile peer can make
//! its eventfd blocking and full, and a plain write(2) to it would hang. Only the kernel's own
//! signal to an eventfd, at the end of an asynchronous request, never blocks. So this module
//! signals by a request to read 0 bytes of an empty file.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::error::{Doing, MemifError};

/// Most finished requests whose results have not been collected.
const REQUESTS: usize = 64;
/// `IOCB_FLAG_RESFD`: signal an eventfd at the end.
const SIGNAL_WHEN_DONE: u32 = 1;

/// `struct iocb` of linux/aio_abi.h in its little-endian form.
#[repr(C)]
#[derive(Default)]
struct Request {
    data: u64,
    key: u32,
    rw_flags: u32,
    /// 0 is a read.
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    eventfd: u32,
}

/// `struct io_event`.
#[repr(C)]
#[derive(Default, Clone, Copy)]
struct Done {
    data: u64,
    request: u64,
    results: [i64; 2],
}

/// Wakes peers without waiting for them, even hostile ones. One signal serves all interfaces and
/// threads of a process. Dropping the last copy takes some milliseconds.
#[derive(Clone)]
pub struct Signal {
    shared: Arc<Shared>,
}

struct Shared {
    context: libc::c_ulong,
    empty: OwnedFd,
}

impl Signal {
    /// Prepares the signal. It needs the system calls `io_setup`, `io_submit` and `io_getevents`.
    ///
    /// # Errors
    /// If the kernel has no asynchronous I/O, or not for so many processes (`fs.aio-max-nr`).
    pub fn new() -> Result<Self, MemifError> {
        let doing = "prepare signals by asynchronous I/O (is fs.aio-nr at fs.aio-max-nr?)";
        let empty = memfd_create(c"empty", MFdFlags::MFD_CLOEXEC).doing(doing)?;
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes one word, the number of a new context.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, REQUESTS, &raw mut context) };
        Errno::result(made).doing(doing)?;
        Ok(Self { shared: Arc::new(Shared { context, empty }) })
    }

    /// Adds one to an eventfd, unless it has the highest value. Never blocks. One system call, and
    /// another one every [`REQUESTS`] times.
    ///
    /// # Errors
    /// `EINVAL` if it is no eventfd.
    pub(crate) fn send(&self, eventfd: &OwnedFd) -> nix::Result<()> {
        match self.submit(eventfd) {
            Err(Errno::EAGAIN) => {
                self.collect();
                self.submit(eventfd)
            }
            other => other,
        }
    }

    fn submit(&self, eventfd: &OwnedFd) -> nix::Result<()> {
        let request = Request {
            // Descriptors are not negative.
            file: self.shared.empty.as_raw_fd().cast_unsigned(),
            flags: SIGNAL_WHEN_DONE,
            eventfd: eventfd.as_raw_fd().cast_unsigned(),
            ..Request::default()
        };
        let requests = [&raw const request];
        // SAFETY: the kernel reads one pointer and the request that it points to. It no longer uses
        // them when it returns: a read of no bytes from memory ends within the call.
        let sent = unsafe {
            libc::syscall(libc::SYS_io_submit, self.shared.context, 1_usize, requests.as_ptr())
        };
        Errno::result(sent).map(|_| ())
    }

    fn collect(&self) {
        let mut done = [Done::default(); REQUESTS];
        // SAFETY: the kernel writes at most `REQUESTS` results; it does not wait, because no
        // minimum is given. The results are not used.
        let _ = unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.shared.context,
                0_usize,
                REQUESTS,
                done.as_mut_ptr(),
                std::ptr::null::<libc::timespec>(),
            )
        };
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the context belongs to this value, and no request is pending.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}

/// Reads an eventfd without blocking, in any mode that a peer has set.
pub(crate) fn drain(eventfd: impl AsFd) {
    let mut counter = [0_u8; 8];
    let part = libc::iovec { iov_base: counter.as_mut_ptr().cast(), iov_len: counter.len() };
    // SAFETY: the kernel writes at most eight bytes into `counter`. Nothing depends on them.
    let _ = unsafe {
        libc::preadv2(eventfd.as_fd().as_raw_fd(), &raw const part, 1, -1, libc::RWF_NOWAIT)
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use nix::sys::eventfd::{EfdFlags, EventFd};

    fn readable(fd: &OwnedFd) -> bool {
        let mut wait = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
        poll(&mut wait, PollTimeout::ZERO).unwrap() == 1
    }

    #[test]
    fn signals_arrive_more_often_than_they_are_collected() {
        let signal = Signal::new().unwrap();
        let eventfd = OwnedFd::from(EventFd::from_flags(EfdFlags::EFD_NONBLOCK).unwrap());
        for _ in 0..1000 {
            assert!(!readable(&eventfd));
            signal.send(&eventfd).unwrap();
            assert!(readable(&eventfd));
            drain(&eventfd);
        }
    }

    #[test]
    fn a_full_blocking_eventfd_blocks_nobody() {
        let signal = Signal::new().unwrap();
        let eventfd = EventFd::from_flags(EfdFlags::EFD_NONBLOCK).unwrap();
        eventfd.write(u64::MAX - 1).unwrap();
        let eventfd = OwnedFd::from(eventfd);
        fcntl(&eventfd, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
        for _ in 0..200 {
            signal.send(&eventfd).unwrap();
        }
        for _ in 0..3 {
            drain(&eventfd);
        }
        assert!(!readable(&eventfd));
    }

    #[test]
    fn only_eventfds_are_signalled() {
        let signal = Signal::new().unwrap();
        let (_, pipe) = nix::unistd::pipe().unwrap();
        assert_eq!(signal.send(&pipe), Err(Errno::EINVAL));
    }
}
