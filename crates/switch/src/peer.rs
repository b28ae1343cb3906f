//! A worker as the others see it: its doorbell, and its orders.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use nix::unistd::write;

/// See the file. Everything in it is written by the worker itself, but for `ordered`.
pub(crate) struct Peer {
    /// Rings its doorbell.
    rope: OwnedFd,
    asleep: AtomicBool,
    /// It sleeps with packets before it that another worker has no room for.
    blocked: AtomicBool,
    /// There is an order for it.
    ordered: AtomicBool,
    /// How many of its routers are active (high half) and busy (low half).
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
        // A doorbell that rings already rings.
        let _ = write(&self.rope, &[1]);
    }

    /// Wakes it if it sleeps, after something was put where it will look.
    pub(crate) fn wake(&self) {
        // Ordered after the published word, as its sleep is.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) {
            self.ring();
        }
    }

    /// Wakes it if it sleeps because there was no room, after something was taken.
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

    /// Whether there may be an order since this was asked last.
    #[inline]
    pub(crate) fn is_ordered(&self) -> bool {
        self.ordered.load(Ordering::Relaxed) && self.ordered.swap(false, Ordering::Acquire)
    }

    /// Its next action. Checks of all wake-up sources come after this.
    pub(crate) fn set_asleep(&self, asleep: bool, blocked: bool) {
        self.blocked.store(blocked, Ordering::Relaxed);
        self.asleep.store(asleep, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Tells how many of its routers are active and busy.
    pub(crate) fn count(&self, active: u32, busy: u32) {
        self.routers.store(u64::from(active) << 32 | u64::from(busy), Ordering::Relaxed);
    }

    /// How many of its routers are active and busy.
    pub(crate) fn routers(&self) -> (u32, u32) {
        let both = self.routers.load(Ordering::Relaxed);
        ((both >> 32) as u32, both as u32)
    }
}
