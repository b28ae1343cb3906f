//! Fast paths follow the Linux of their slow paths: one thread for each router mirrors it.

use std::os::fd::AsFd;
use std::sync::Arc;

use europa_channel::{Channel, pair};
use europa_router::orders::{Answer, Order};
use europa_slowpath::{MirrorError, Notice, Progress, Spec, mirror, resume};

use super::SlowPaths;
use crate::cages::Cages;
use crate::events::Events;
use crate::routers::Process;
use crate::{Doing, NodeError};

/// A function that follows a router's Linux.
type Follow = fn(Spec, Channel<Order, Answer>, Arc<Progress>, Notice) -> Result<(), MirrorError>;

impl SlowPaths {
    /// Lets a router's process with its configuration follow its Linux.
    pub(crate) fn follow(
        &self,
        router: &str,
        process: &mut Process,
        events: &Events,
    ) -> Result<(), NodeError> {
        self.follow_by(router, process, events, mirror)
    }

    /// The same for a process that another node has followed already.
    pub(crate) fn follow_on(
        &self,
        router: &str,
        process: &mut Process,
        events: &Events,
    ) -> Result<(), NodeError> {
        self.follow_by(router, process, events, resume)
    }

    fn follow_by(
        &self,
        router: &str,
        process: &mut Process,
        events: &Events,
        by: Follow,
    ) -> Result<(), NodeError> {
        if !self.all.contains_key(router) {
            return Ok(());
        }
        let (feed, theirs) = pair()
            .map_err(|error| NodeError::Channel { who: format!("router {router}"), error })?;
        process.admit(theirs.as_fd())?;
        self.mirror_to(router, feed, events, by)
    }

    /// Has the routes of a kernel router's program follow its Linux, if that asks for any.
    pub(crate) fn fill(
        &self,
        router: &str,
        cages: &mut Cages,
        events: &Events,
    ) -> Result<(), NodeError> {
        let Some(one) = self.all.get(router) else { return Ok(()) };
        match cages.fill(router, one.spec.namespace.inode)? {
            Some(feed) => self.mirror_to(router, feed, events, mirror),
            None => Ok(()),
        }
    }

    /// Starts the thread that mirrors a router's Linux.
    fn mirror_to(
        &self,
        router: &str,
        feed: Channel<Order, Answer>,
        events: &Events,
        by: Follow,
    ) -> Result<(), NodeError> {
        let Some(one) = self.all.get(router) else { return Ok(()) };
        let (spec, progress, name) =
            (one.spec.clone(), Arc::clone(&one.progress), router.to_owned());
        let (events, of) = (events.clone(), router.to_owned());
        let notice: Notice = Box::new(move |what| events.note("router", &of, "Forwards", what));
        // Ends with the router's process, which closes its end.
        let run = move || {
            if let Err(error) = by(spec, feed, progress, notice) {
                tracing::error!("router {name}: its routes are not followed any more: {error}");
            }
        };
        let thread = std::thread::Builder::new().name("mirror".into());
        thread.spawn(run).doing(format!("following the routes of {router}"))?;
        Ok(())
    }
}
