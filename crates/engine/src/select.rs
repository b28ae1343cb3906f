//! Descriptors that elements wait for.

use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;

/// The event to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Data to read.
    Read,
    /// Room to write.
    Write,
}

/// A descriptor that an element waits for.
pub struct Watched {
    /// The element.
    pub element: usize,
    /// Its token.
    pub token: u32,
    /// The events that it waits for.
    pub interest: Interest,
    descriptor: Rc<dyn AsFd>,
}

impl Watched {
    pub(crate) fn new(
        element: usize,
        token: u32,
        interest: Interest,
        descriptor: Rc<dyn AsFd>,
    ) -> Watched {
        Watched { element, token, interest, descriptor }
    }

    pub(crate) fn is(&self, element: usize, token: u32, interest: Interest) -> bool {
        (self.element, self.token, self.interest) == (element, token, interest)
    }
}

impl AsFd for Watched {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
