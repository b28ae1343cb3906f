//! The ring that a sleeping router polls: a BPF ring buffer. The receive program puts an empty
//! record into it when the sleep flag is set.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Mapping;

const PAGE: usize = 4096;

/// The reading end of a waker.
pub struct Waker {
    fd: OwnedFd,
    /// The kernel's ring buffer has the reader's position in its first page ...
    consumer: Mapping,
    /// ... and the writer's in its second.
    producer: Mapping,
}

impl Waker {
    /// Takes the descriptor of a BPF ring buffer.
    ///
    /// # Errors
    /// The error of mmap(2).
    pub fn new(fd: OwnedFd) -> nix::Result<Self> {
        let consumer = Mapping::new(&fd, PAGE)?;
        let producer = Mapping::read_only(&fd, PAGE, PAGE)?;
        Ok(Self { fd, consumer, producer })
    }

    fn position(page: &Mapping) -> Option<&AtomicU64> {
        page.words(0, 1)?.first()
    }

    /// Removes all records, so that the descriptor is no longer readable.
    pub fn clear(&self) {
        if let (Some(consumer), Some(producer)) =
            (Self::position(&self.consumer), Self::position(&self.producer))
        {
            consumer.store(producer.load(Ordering::Acquire), Ordering::Release);
        }
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
