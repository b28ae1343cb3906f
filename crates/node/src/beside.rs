//! Long work, in threads beside the loop. A step that needs the result is repeated when the result
//! is there.

use std::sync::Arc;
use std::thread::JoinHandle;

use europa_api::Documents;
use europa_control::Stop;

use crate::context::Context;
use crate::node::Node;
use crate::{Doing, NodeError};

/// Work of one kind, whose result a step needs.
#[derive(Default)]
pub(crate) enum Work<T> {
    /// No work is under way.
    #[default]
    Idle,
    /// A thread does the work.
    UnderWay(JoinHandle<()>),
    /// The work is done, for a step of a change to these documents.
    Done(Purpose, Result<T, NodeError>),
}

/// The purpose of work: the result for another purpose is of no use.
#[derive(Clone, Debug)]
pub(crate) struct Purpose {
    documents: Arc<Documents>,
    object: String,
}

impl Purpose {
    /// Work on an object for a change to these documents.
    pub(crate) fn new(documents: &Arc<Documents>, object: &str) -> Self {
        Self { documents: documents.clone(), object: object.to_owned() }
    }

    /// The documents of the change.
    pub(crate) fn documents(&self) -> &Arc<Documents> {
        &self.documents
    }
}

impl PartialEq for Purpose {
    fn eq(&self, other: &Purpose) -> bool {
        Arc::ptr_eq(&self.documents, &other.documents) && self.object == other.object
    }
}

impl<T> Work<T> {
    /// Whether a thread works.
    pub(crate) fn is_under_way(&self) -> bool {
        matches!(self, Work::UnderWay(_))
    }

    /// The result for this purpose; none if it is yet to be done. A result for another purpose,
    /// which a change that failed has left, goes to `discard`.
    pub(crate) fn result(
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

    /// Waits until no thread works any more. The result then comes to the loop.
    pub(crate) fn wait(&mut self) {
        if let Work::UnderWay(thread) = std::mem::take(self) {
            let _ = thread.join();
        }
    }
}

impl<T: Send + 'static> Work<T> {
    /// Begins `work`; its step is taken again when it is done. `place`: where this is in the node.
    pub(crate) fn begin(
        &mut self,
        context: &Context,
        purpose: Purpose,
        place: fn(&mut Node) -> &mut Work<T>,
        work: impl FnOnce() -> Result<T, NodeError> + Send + 'static,
    ) -> Stop {
        let begun = context.beside("work", work, move |node, result| {
            *place(node) = Work::Done(purpose, result);
        });
        match begun {
            Ok(thread) => {
                *self = Work::UnderWay(thread);
                not_yet()
            }
            Err(error) => error.into(),
        }
    }
}

impl Context {
    /// Does `work` in a thread, and gives its result to `then` in the loop. The current change goes
    /// on after that.
    pub(crate) fn beside<T: Send + 'static>(
        &self,
        name: &'static str,
        work: impl FnOnce() -> T + Send + 'static,
        then: impl FnOnce(&mut Node, T) + Send + 'static,
    ) -> Result<JoinHandle<()>, NodeError> {
        let control = self.control.clone();
        let thread = std::thread::Builder::new().name(name.to_owned());
        let work = move || {
            let result = work();
            control.tell_as(name, move |node| {
                then(node, result);
                node.change.goes_on();
            });
        };
        thread.spawn(work).doing(format!("starting the thread `{name}`"))
    }
}

/// A step waits for work beside the loop.
pub(crate) fn not_yet() -> Stop {
    Stop::NotNow(NodeError::Refused("what a step needs took too long".into()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn purpose(documents: &Arc<Documents>) -> Purpose {
        Purpose::new(documents, "p")
    }

    #[test]
    fn a_result_is_for_its_purpose_alone() {
        let (now, before) = (Arc::new(Documents::default()), Arc::new(Documents::default()));
        let mut work = Work::Done(purpose(&before), Ok(1));
        let mut unused = Vec::new();
        let result = work.result(&purpose(&now), |one| unused.push(one));
        assert!(matches!(result, Ok(None)));
        assert_eq!(unused, [1]);
        work = Work::Done(purpose(&now), Ok(2));
        assert!(matches!(work.result(&purpose(&now), drop), Ok(Some(2))));
        // It is taken once.
        assert!(matches!(work.result(&purpose(&now), drop), Ok(None)));
        work = Work::Done(purpose(&now), Err(NodeError::Refused("no".into())));
        assert!(matches!(work.result(&purpose(&now), drop), Err(Stop::Failed(_))));
        let other = Purpose::new(&now, "another object");
        assert!(other != purpose(&now));
    }

    #[test]
    fn a_step_waits_as_long_as_a_thread_works() {
        let documents = Arc::new(Documents::default());
        let (go, goes) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let _ = goes.recv();
        });
        let mut work: Work<u8> = Work::UnderWay(thread);
        assert!(matches!(work.result(&purpose(&documents), drop), Err(Stop::NotNow(_))));
        assert!(work.is_under_way());
        drop(go);
        work.wait();
        assert!(!work.is_under_way());
    }
}
