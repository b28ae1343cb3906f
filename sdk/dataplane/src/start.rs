//! Numbers and descriptors that the node passes to a program in its environment.

use std::env;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};

use europa_pool::ViewError;
use nix::errno::Errno;

/// The reason why a program cannot use its pool.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No node started this program.
    #[error("{0} is not a number in the environment: a node starts this program, for a router")]
    Environment(&'static str),
    /// The pool is of another version, or cannot be mapped.
    #[error(transparent)]
    Pool(#[from] ViewError),
    /// A system call failed.
    #[error("{what}: {error}")]
    System {
        /// The attempted operation.
        what: &'static str,
        /// The system's reason.
        error: Errno,
    },
}

impl Error {
    pub(crate) fn system(what: &'static str) -> impl FnOnce(Errno) -> Error {
        move |error| Error::System { what, error }
    }
}

/// Reads a number from the environment.
pub(crate) fn number(name: &'static str) -> Result<u32, Error> {
    let text = env::var(name).ok().and_then(|text| text.parse().ok());
    text.ok_or(Error::Environment(name))
}

/// Takes a descriptor whose number is in the environment. Call it once for each variable: the
/// descriptor closes when it is dropped.
pub(crate) fn descriptor(name: &'static str) -> Result<OwnedFd, Error> {
    let number = RawFd::try_from(number(name)?).map_err(|_| Error::Environment(name))?;
    nix::fcntl::fcntl(
        // SAFETY: the descriptor is only asked for its flags; if it is not open, that fails.
        unsafe { std::os::fd::BorrowedFd::borrow_raw(number) },
        nix::fcntl::F_GETFD,
    )
    .map_err(Error::system(name))?;
    // SAFETY: the node has passed this open descriptor to the program for this use, and no other code
    // of the process knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}
