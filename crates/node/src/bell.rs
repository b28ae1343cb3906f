//! How processes wake each other: a pipe whose contents have no meaning.
//!
//! Not an eventfd: each process with one can also clear it by reading, and can make it block for
//! all, because all share one open file. A router that does either would keep the switch asleep, or
//! hang it. With a pipe each side has its own end, and each writer opens it separately. It has a
//! name, so that the next node finds it.

use std::fs::OpenOptions;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::{Doing, NodeError};

/// A bell. Ringing never blocks: a full pipe rings already.
pub(crate) struct Bell {
    /// For the process that is woken.
    pub(crate) heard: OwnedFd,
    /// For a trusted ringer.
    pub(crate) rung: OwnedFd,
}

impl Bell {
    /// The bell of this name; makes it if it does not exist.
    pub(crate) fn at(path: &Path) -> Result<Self, NodeError> {
        match mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(error) => return Err(error).doing("making a pipe to wake by"),
        }
        let flags = OFlag::O_NONBLOCK.bits();
        let open = |options: &mut OpenOptions| {
            options.custom_flags(flags).open(path).doing("opening a pipe to wake by")
        };
        // The listener holds a write end too: a pipe without writers counts as ended, and would
        // wake the listener for ever.
        let heard = open(OpenOptions::new().read(true).write(true))?.into();
        let rung = open(OpenOptions::new().write(true))?.into();
        Ok(Self { heard, rung })
    }

    /// An end for one more writer, which cannot affect the other ends.
    pub(crate) fn rope(&self) -> Result<OwnedFd, NodeError> {
        let path = format!("/proc/self/fd/{}", self.rung.as_raw_fd());
        let mut options = OpenOptions::new();
        let file = options.write(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path);
        Ok(file.doing("opening a pipe to wake by")?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::errno::Errno;
    use nix::fcntl::{FcntlArg, fcntl};
    use nix::unistd::{read, write};

    #[test]
    fn who_rings_can_neither_silence_nor_block() {
        let folder = tempfile::tempdir().unwrap();
        let bell = Bell::at(&folder.path().join("bell")).unwrap();
        let (mine, other) = (bell.rope().unwrap(), bell.rope().unwrap());
        fcntl(&mine, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
        while write(&other, &[0; 4096]).is_ok() {}
        assert_eq!(write(&other, &[0; 8]), Err(Errno::EAGAIN), "full, and does not block");
        assert_eq!(read(&mine, &mut [0; 8]), Err(Errno::EBADF));
        while read(&bell.heard, &mut [0; 4096]).is_ok() {}
        assert_eq!(read(&bell.heard, &mut [0; 8]), Err(Errno::EAGAIN), "empty, and does not block");
    }
}
