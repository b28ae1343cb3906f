//! The events that wake a sleeping switch: the doorbell, the node, the wake-ups of routers, and
//! packets from other machines.
//!
//! A router that the receive program wakes will usually send a packet. A halted core takes longer
//! to resume than a router needs for a packet. So the switch wakes up together with the router, and
//! both cores resume at the same time.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::Result;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::TimeSpec;
use nix::unistd::read;

pub(crate) struct Sleeper {
    doorbell: OwnedFd,
    /// Ready when a router was woken since it was last asked.
    wakes: Epoll,
    /// Ready as long as a packet waits in a socket.
    sockets: Epoll,
}

impl Sleeper {
    pub(crate) fn new(doorbell: OwnedFd) -> Result<Self> {
        let epoll = || Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC);
        Ok(Self { doorbell, wakes: epoll()?, sockets: epoll()? })
    }

    /// Wakes up with the router that waits on `waker`. Only when it is woken, not as long as the
    /// waker is set: its owner clears it.
    pub(crate) fn watch(&self, waker: impl AsFd) -> Result<()> {
        self.wakes.add(waker, EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, 0))
    }

    /// Stops watching a waker. Closing the descriptor would not suffice: other processes have it as
    /// well.
    pub(crate) fn leave(&self, waker: impl AsFd) {
        // It was watched.
        let _ = self.wakes.delete(waker);
    }

    /// Wakes up as long as a packet waits in a socket.
    pub(crate) fn listen(&self, socket: impl AsFd) -> Result<()> {
        match self.sockets.add(socket, EpollEvent::new(EpollFlags::EPOLLIN, 0)) {
            Err(nix::Error::EEXIST) => Ok(()),
            added => added,
        }
    }

    /// Stops watching a socket.
    pub(crate) fn ignore(&self, socket: impl AsFd) {
        // It may not be watched.
        let _ = self.sockets.delete(socket);
    }

    /// Clears the routers that were woken while the switch was awake.
    pub(crate) fn forget_wakes(&self) {
        let mut events = [EpollEvent::empty(); 16];
        // A leftover wakes the switch once too often.
        let _ = self.wakes.wait(&mut events, EpollTimeout::ZERO);
    }

    /// Sleeps until an event, or until `time` has passed. Returns whether there is an order: from
    /// the node for this switch, or for a router inside it.
    ///
    /// # Errors
    /// The error of ppoll(2).
    pub(crate) fn sleep(
        &self,
        [node, guests]: [BorrowedFd<'_>; 2],
        time: Option<Duration>,
    ) -> Result<bool> {
        let mut wait = [
            PollFd::new(node, PollFlags::POLLIN),
            PollFd::new(guests, PollFlags::POLLIN),
            PollFd::new(self.doorbell.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.wakes.0.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.sockets.0.as_fd(), PollFlags::POLLIN),
        ];
        match ppoll(&mut wait, time.map(TimeSpec::from_duration), None) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(error) => return Err(error),
        }
        if wait[2].any() == Some(true) {
            // The doorbell is a non-blocking pipe. Events that it does not take at once ring again.
            let _ = read(&self.doorbell, &mut [0; 4096]);
        }
        Ok(wait[0].any() == Some(true) || wait[1].any() == Some(true))
    }
}
