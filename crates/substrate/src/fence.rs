//! The fence: until when ports of routers that another node may take over carry frames.
//!
//! Interfaces with [`layout::FENCED`] drop their frames after the deadline, in both directions: the
//! receive and transmit programs (`bpf/fence.h`), and the switch for frames that leave by a socket.
//! The deadline is in a pinned map, so it also holds while no node runs.

use std::mem::offset_of;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use europa_pool::Mapping;
use nix::time::{ClockId, clock_gettime};

use crate::layout::{self, FENCED};
use crate::substrate::Substrate;

/// Bytes of the map in memory: a page.
const BYTES: usize = 4096;

/// The present time of `CLOCK_BOOTTIME` in nanoseconds. It also runs while the machine is suspended.
#[must_use]
pub fn boot_ns() -> u64 {
    // Cannot fail for this clock.
    clock_gettime(ClockId::CLOCK_BOOTTIME)
        .map_or(u64::MAX, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

/// The deadline of fenced interfaces, for reading.
#[derive(Clone)]
pub struct Fence(Mapping);

impl Fence {
    /// Maps the table `fence`, for which a descriptor for reading suffices.
    ///
    /// # Errors
    /// The error of mmap(2).
    pub fn new(fd: impl AsFd) -> nix::Result<Fence> {
        Mapping::read_only(fd, 0, BYTES).map(Fence)
    }

    /// Whether an interface must drop its frames now.
    #[inline]
    pub fn holds(&self, interface: &layout::Interface) -> bool {
        interface.flags & FENCED != 0 && boot_ns() >= self.deadline_ns()
    }

    fn deadline_ns(&self) -> u64 {
        let word = self.0.words(offset_of!(layout::Fence, deadline_ns), 1);
        word.and_then(<[AtomicU64]>::first).map_or(0, |word| word.load(Ordering::Acquire))
    }
}

impl Substrate {
    /// Until when fenced interfaces carry frames, in nanoseconds of [`boot_ns`]; 0 without a lease.
    pub fn deadline_ns(&self) -> u64 {
        self.deadline().load(Ordering::Acquire)
    }

    /// Moves the deadline of fenced interfaces to a later time, in nanoseconds of [`boot_ns`]; 0 ends
    /// it. An earlier one has no effect: it comes from a message that another has overtaken.
    pub fn renew(&self, deadline_ns: u64) {
        if deadline_ns == 0 || deadline_ns > self.deadline_ns() {
            self.deadline().store(deadline_ns, Ordering::Release);
        }
    }

    fn deadline(&self) -> &AtomicU64 {
        self.fence.atomic_u64(0, offset_of!(layout::Fence, deadline_ns))
    }
}
