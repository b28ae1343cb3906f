//! Access to the node's loop: work from other threads, done between two rounds.
//!
//! The loop alone owns the node's state. Other threads send closures; the loop runs them and
//! answers. A closure must be short: long work becomes a job, whose reply is kept until it is done.

use std::any::type_name;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::time::Duration;

use europa_api::rest::ProblemDetails;
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::unistd::{read, write};
use tokio::sync::oneshot;

use crate::node::Node;
use crate::{Doing, NodeError};

/// Work for the loop.
pub(crate) struct Work {
    /// The code that sends it.
    pub(crate) name: &'static str,
    run: Box<dyn FnOnce(&mut Node) + Send>,
}

impl Work {
    fn new<W: FnOnce(&mut Node) + Send + 'static>(name: &'static str, run: W) -> Self {
        Self { name, run: Box::new(run) }
    }

    /// Does it.
    pub(crate) fn run(self, node: &mut Node) {
        (self.run)(node);
    }
}

/// The waiting request.
pub(crate) type Reply<T> = oneshot::Sender<T>;

/// Sends work to the loop.
#[derive(Clone)]
pub(crate) struct Control {
    work: Sender<Work>,
    wake: Arc<OwnedFd>,
}

/// Work that has arrived.
pub(crate) struct Inbox {
    work: Receiver<Work>,
    wake: Arc<OwnedFd>,
}

/// Two ends of one queue.
pub(crate) fn queue() -> Result<(Control, Inbox), NodeError> {
    let (sender, receiver) = channel();
    let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
    let wake = EventFd::from_value_and_flags(0, flags).doing("making an eventfd")?;
    let wake: Arc<OwnedFd> = Arc::new(wake.into());
    Ok((Control { work: sender, wake: wake.clone() }, Inbox { work: receiver, wake }))
}

fn gone() -> ProblemDetails {
    ProblemDetails::new("gone", "The node is going down", 503, "the node is going down")
}

impl Control {
    /// Has the loop run a closure without an answer.
    pub(crate) fn tell<W: FnOnce(&mut Node) + Send + 'static>(&self, work: W) {
        self.tell_as(type_name::<W>(), work);
    }

    /// The same, under a name for the log.
    pub(crate) fn tell_as(
        &self,
        name: &'static str,
        work: impl FnOnce(&mut Node) + Send + 'static,
    ) {
        // A loop that has ended does nothing any more.
        let _ = self.send(Work::new(name, work));
    }

    fn send(&self, work: Work) -> Result<(), ProblemDetails> {
        self.work.send(work).map_err(|_| gone())?;
        // A counter that is full wakes as well.
        let _ = write(&*self.wake, &1u64.to_ne_bytes());
        Ok(())
    }

    /// Has the loop answer a question.
    pub(crate) async fn ask<T: Send + 'static, Q: FnOnce(&mut Node) -> T + Send + 'static>(
        &self,
        question: Q,
    ) -> Result<T, ProblemDetails> {
        let (reply, answer) = oneshot::channel();
        self.send(Work::new(type_name::<Q>(), |node| {
            // The caller may have ended.
            let _ = reply.send(question(node));
        }))?;
        answer.await.map_err(|_| gone())
    }

    /// Makes the loop answer a question of a thread, which waits for `time` at most.
    pub(crate) fn wait<T: Send + 'static, Q: FnOnce(&mut Node) -> T + Send + 'static>(
        &self,
        time: Duration,
        question: Q,
    ) -> Result<T, ProblemDetails> {
        let (reply, answer) = sync_channel(1);
        self.send(Work::new(type_name::<Q>(), move |node| {
            // The caller may have ended.
            let _ = reply.send(question(node));
        }))?;
        answer.recv_timeout(time).map_err(|_| gone())
    }

    /// Has the loop begin something that is answered when it is done.
    pub(crate) async fn ask_later<T, Q>(&self, question: Q) -> Result<T, ProblemDetails>
    where
        T: Send + 'static,
        Q: FnOnce(&mut Node, Reply<T>) + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        self.send(Work::new(type_name::<Q>(), move |node| question(node, reply)))?;
        answer.await.map_err(|_| gone())
    }
}

impl Inbox {
    /// The work that has come is about to be taken.
    pub(crate) fn open(&self) {
        // Not blocking: it is an eventfd opened so.
        let _ = read(&*self.wake, &mut [0; 8]);
    }

    /// The next work that has come.
    pub(crate) fn next(&self) -> Option<Work> {
        self.work.try_recv().ok()
    }

    /// Some work is left for the next turn, which follows at once.
    pub(crate) fn leave(&self) {
        let _ = write(&*self.wake, &1u64.to_ne_bytes());
    }
}

impl AsFd for Inbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
