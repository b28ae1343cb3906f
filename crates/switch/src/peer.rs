//! A worker as seen by the others: its doorbell, and its orders.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use nix::unistd::write;

/// A worker's shared state. Only the worker itself writes it, except `ordered`.
pub(crate) struct Peer {
    /// Rings its doorbell.
    rope: OwnedFd,
    asleep: AtomicBool,
    /// Whether it sleeps with waiting packets for which another worker has no room.
    blocked: AtomicBool,
    /// There is an order for it.
    ordered: AtomicBool,
    /// Numbers of its active routers (high half) and busy ones (low half).
    routers: AtomicU64,
}

impl Peer {
    pub(crate) fn new(rope: OwnedFd) -> Self {
        Self {
            rope,
            asleep: AtomicBool::new(false),
            blocked: AtomicBool::new(false),
            ordered: AtomicBool::new(false),
            routers: AtomicU64::new(0),
        }
    }

    fn ring(&self) {
        // If the doorbell is already ringing, the write has no effect.
        let _ = write(&self.rope, &[1]);
    }

    /// Wakes it if it sleeps, after new work for it.
    pub(crate) fn wake(&self) {
        // Ordered after the published word, as its sleep is.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) {
            self.ring();
        }
    }

    /// Wakes it if it sleeps for lack of room, after room was made.
    pub(crate) fn has_room(&self) {
        fence(Ordering::SeqCst);
        if self.blocked.load(Ordering::Relaxed) {
            self.ring();
        }
    }

    /// Announces an order to it.
    pub(crate) fn order(&self) {
        self.ordered.store(true, Ordering::Release);
        self.wake();
    }

    /// Whether there may be an order since the last call.
    #[inline]
    pub(crate) fn is_ordered(&self) -> bool {
        self.ordered.load(Ordering::Relaxed) && self.ordered.swap(false, Ordering::Acquire)
    }

    /// Sets whether it sleeps. Checks of all wake-up sources must follow.
    pub(crate) fn set_asleep(&self, asleep: bool, blocked: bool) {
        self.blocked.store(blocked, Ordering::Relaxed);
        self.asleep.store(asleep, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Sets the numbers of its active and busy routers.
    pub(crate) fn count(&self, active: u32, busy: u32) {
        self.routers.store(u64::from(active) << 32 | u64::from(busy), Ordering::Relaxed);
    }

    /// The numbers of its active and busy routers.
    pub(crate) fn routers(&self) -> (u32, u32) {
        let both = self.routers.load(Ordering::Relaxed);
        ((both >> 32) as u32, both as u32)
    }
}
