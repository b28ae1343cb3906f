//! Long work, in threads beside the loop. A step that needs the result is repeated when the result
//! is there.

use std::sync::Arc;
use std::thread::JoinHandle;

use europa_api::Documents;
use europa_control::Stop;

use super::Node;
use crate::{Doing, NodeError};

/// Work of one kind, whose result a step needs.
#[derive(Default)]
pub(super) enum Work<T> {
    /// There is no work.
    #[default]
    Idle,
    /// A thread does it.
    UnderWay(JoinHandle<()>),
    /// The work is done, for a step of a change to these documents.
    Done(Purpose, Result<T, NodeError>),
}

/// The purpose of work: the result for another purpose is of no use.
#[derive(Clone, Debug)]
pub(super) struct Purpose {
    documents: Arc<Documents>,
    object: String,
}

impl PartialEq for Purpose {
    fn eq(&self, other: &Purpose) -> bool {
        Arc::ptr_eq(&self.documents, &other.documents) && self.object == other.object
    }
}

impl<T> Work<T> {
    /// Whether a thread works.
    pub(super) fn is_under_way(&self) -> bool {
        matches!(self, Work::UnderWay(_))
    }

    /// The result for this purpose; `None` before it is done. `discard` gets a result for another
    /// purpose, from a failed change.
    pub(super) fn result(
        &mut self,
        purpose: &Purpose,
        discard: impl FnOnce(T),
    ) -> Result<Option<T>, Stop> {
        match std::mem::take(self) {
            Work::Idle => Ok(None),
            Work::Done(of, result) if of == *purpose => Ok(Some(result?)),
            Work::Done(_, result) => {
                if let Ok(unused) = result {
                    discard(unused);
                }
                Ok(None)
            }
            at_it @ Work::UnderWay(_) => {
                *self = at_it;
                Err(not_yet())
            }
        }
    }

    /// Waits until no thread works. The loop then gets the result.
    pub(super) fn wait(&mut self) {
        if let Work::UnderWay(thread) = std::mem::take(self) {
            let _ = thread.join();
        }
    }
}

impl Node {
    /// The object of work for the current change.
    pub(super) fn purpose(&self, object: impl Into<String>) -> Purpose {
        Purpose { documents: self.documents.clone(), object: object.into() }
    }

    /// Runs `work` in a thread, and passes its result to `then` in the loop. The current change
    /// continues after that.
    pub(super) fn beside<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
        then: impl FnOnce(&mut Node, T) + Send + 'static,
    ) -> Result<JoinHandle<()>, NodeError> {
        let control = self.control.clone();
        let thread = std::thread::Builder::new().name(name.to_owned());
        let work = move || {
            let result = work();
            control.tell(move |node| {
                then(node, result);
                node.more = true;
            });
        };
        thread.spawn(work).doing(format!("starting the thread `{name}`"))
    }

    /// Begins work of the kind of `place`; its step is repeated when the work is done.
    pub(super) fn begin_work<T: Send + 'static>(
        &mut self,
        place: impl Fn(&mut Node) -> &mut Work<T> + Send + Copy + 'static,
        purpose: Purpose,
        work: impl FnOnce() -> Result<T, NodeError> + Send + 'static,
    ) -> Stop {
        let begun = self.beside("work", work, move |node, result| {
            *place(node) = Work::Done(purpose, result);
        });
        match begun {
            Ok(thread) => {
                *place(self) = Work::UnderWay(thread);
                not_yet()
            }
            Err(error) => error.into(),
        }
    }
}

/// A step waits for work beside the loop.
pub(super) fn not_yet() -> Stop {
    Stop::NotNow(NodeError::Refused("what a step needs took too long".into()).into())
}
