//! The requests that a node's loop answers: all operations of an interface to users.
//!
//! Each is a message to the loop, whose answer the caller awaits. All fail with status 503 if the
//! node ends.

use std::collections::HashSet;
use std::sync::Arc;

use europa_api::User;
use europa_api::rest::{FilterChanged, FilterList, NodeInfo, Object, ProblemDetails, Said, Status};
use europa_api::stats::NodeStats;
use europa_control::{Accepted, Outcome, Submission};
use europa_router::orders::Order;
use europa_signaller::orders::Shown;

use crate::control::Control;
use crate::filters::OwnChanges;
use crate::hosts;
use crate::instance::Instance;
use crate::node::Node;
use crate::store::{Stored, StoredToken};

/// Number of objects that the loop describes in one turn.
const AT_ONCE: usize = 32;

/// Sends requests to a node's loop; clones go to the same one.
#[derive(Clone)]
pub struct Requests(Control);

impl Requests {
    pub(crate) fn new(control: Control) -> Requests {
        Requests(control)
    }

    /// About the node itself.
    ///
    /// # Errors
    /// The node ends.
    pub async fn info(&self) -> Result<NodeInfo, ProblemDetails> {
        self.0.ask(|node| node.info()).await
    }

    /// Moves the deadline of fenced interfaces, in nanoseconds of `CLOCK_BOOTTIME`; 0 ends it.
    ///
    /// # Errors
    /// The maps of the data path cannot be made, or the node ends.
    pub async fn renew(&self, deadline_ns: u64) -> Result<(), ProblemDetails> {
        self.0.ask(move |node| node.renew(deadline_ns)).await?
    }

    /// The accepted state.
    ///
    /// # Errors
    /// The node ends.
    pub async fn accepted(&self) -> Result<Accepted, ProblemDetails> {
        self.0.ask(|node| node.change.accepted().clone()).await
    }

    /// Carries a change out. Answers when it is done, refused or undone.
    ///
    /// # Errors
    /// The node ends.
    pub async fn submit(&self, submission: Submission) -> Result<Outcome, ProblemDetails> {
        self.0.ask_later(|node, reply| node.submit(submission, reply)).await
    }

    /// Compares hosts with their documents; the next change repairs what differs.
    ///
    /// # Errors
    /// The node ends.
    pub async fn look_at_hosts(&self, instance: &Instance) -> Result<(), ProblemDetails> {
        let made = self.0.ask(|node| node.hosts.made().clone()).await?;
        let instance = instance.clone();
        let (found, made) = beside(move || (hosts::look(&instance, &made), made)).await?;
        self.0.ask(move |node| node.note_drift(&made, found)).await
    }

    /// All objects of a kind.
    ///
    /// # Errors
    /// The node ends.
    pub async fn objects(&self, kind: &'static str) -> Result<Vec<Object>, ProblemDetails> {
        let accepted = self.accepted().await?;
        let of_kind = accepted.stored.iter().filter(|stored| stored.key.kind == kind);
        let names: Vec<String> = of_kind.map(|stored| stored.key.name.clone()).collect();
        let mut states = Vec::with_capacity(names.len());
        for some in names.chunks(AT_ONCE) {
            let some = some.to_vec();
            states.extend(self.0.ask(move |node| node.states(kind, &some)).await?);
        }
        let read = move || {
            let of_kind = accepted.stored.iter().filter(|stored| stored.key.kind == kind);
            of_kind.zip(states).map(|(stored, status)| object(stored, status)).collect()
        };
        beside(read).await
    }

    /// Counters of everything.
    ///
    /// # Errors
    /// The node ends.
    pub async fn stats(&self) -> Result<NodeStats, ProblemDetails> {
        let mut all = self.0.ask(|node| node.stats_begun()).await?;
        let switch = Arc::new(std::mem::take(&mut all.switch));
        for some in std::mem::take(&mut all.routers).chunks(AT_ONCE) {
            let (some, switch): (HashSet<_>, _) = (some.iter().cloned().collect(), switch.clone());
            let ask = move |node: &mut Node| node.stats_of_routers(&some, &switch);
            all.of_routers.extend(self.0.ask(ask).await?);
        }
        for some in std::mem::take(&mut all.ports).chunks(AT_ONCE) {
            let (some, switch): (HashSet<_>, _) = (some.iter().cloned().collect(), switch.clone());
            let ask = move |node: &mut Node| node.stats_of_ports(&some, &switch);
            all.of_ports.extend(self.0.ask(ask).await?);
        }
        beside(move || all.told(&switch)).await
    }

    /// A user, with the generation of its document.
    ///
    /// # Errors
    /// The node ends.
    pub async fn user(&self, name: &str) -> Result<Option<(User, u64)>, ProblemDetails> {
        let name = name.to_owned();
        self.0.ask(move |node| node.user(&name)).await
    }

    /// Writes tokens to the store, and removes those with the numbers `gone`.
    ///
    /// # Errors
    /// The store refuses, or the node ends.
    pub async fn write_tokens(
        &self,
        put: Vec<StoredToken>,
        gone: Vec<String>,
    ) -> Result<(), ProblemDetails> {
        self.0.ask_later(move |node, reply| node.write_tokens(put, gone, reply)).await?
    }

    /// The rules of a slice, with their counters.
    ///
    /// # Errors
    /// There is no such slice, the switch does not answer, or the node ends.
    pub async fn filters(&self, slice: &str) -> Result<FilterList, ProblemDetails> {
        let slice = slice.to_owned();
        self.0.ask_later(move |node, reply| node.filters.list(slice, reply)).await?
    }

    /// Changes the rules with numbers of a slice. Answers when they are written down.
    ///
    /// # Errors
    /// A rule is refused, or the node ends.
    pub async fn change_filters(
        &self,
        changes: OwnChanges,
    ) -> Result<FilterChanged, ProblemDetails> {
        self.0.ask_later(|node, reply| node.filters.change_own(changes, reply)).await?
    }

    /// Replaces a router's process, SLICE/ROUTER. Answers when the new one forwards.
    ///
    /// # Errors
    /// There is no such router, it does not start, or the node ends.
    pub async fn restart(&self, router: &str) -> Result<(), ProblemDetails> {
        let router = router.to_owned();
        let restart = move |node: &mut Node, reply| {
            let (routers, mut around) = node.with_routers();
            routers.restart(&mut around, &router, reply);
        };
        self.0.ask_later(restart).await?
    }

    /// Succeeds if the router SLICE/ROUTER exists.
    ///
    /// # Errors
    /// There is none, or the node ends.
    pub async fn known_router(&self, router: &str) -> Result<(), ProblemDetails> {
        let router = router.to_owned();
        self.0.ask(move |node| node.routers.known(&router)).await?
    }

    /// Sends a router's process an order and awaits its answer.
    ///
    /// # Errors
    /// The node ends. The inner error: the router refuses, in its own words, or does not run.
    pub async fn ask_router(
        &self,
        router: &str,
        order: Order,
    ) -> Result<Result<String, String>, ProblemDetails> {
        let router = router.to_owned();
        let ask = move |node: &mut Node, reply| {
            node.routers.ask(&node.cages, &router, &order, reply);
        };
        self.0.ask_later(ask).await
    }

    /// The routers that can account for their packets.
    ///
    /// # Errors
    /// The node ends.
    pub async fn accountable(&self) -> Result<Vec<String>, ProblemDetails> {
        self.0.ask(|node| node.routers.accountable()).await
    }

    /// Whether there is a host of this name.
    ///
    /// # Errors
    /// The node ends.
    pub async fn has_host(&self, name: &str) -> Result<bool, ProblemDetails> {
        let name = name.to_owned();
        self.0.ask(move |node| node.hosts.has(&name)).await
    }

    /// Succeeds if `of` is a router, SLICE/ROUTER, or a program of its slow path,
    /// SLICE/ROUTER.PROGRAM.
    ///
    /// # Errors
    /// It is neither, or the node ends.
    pub async fn known_log(&self, of: &str) -> Result<(), ProblemDetails> {
        let of = of.to_owned();
        self.0.ask(move |node| node.known_log(&of)).await?
    }

    /// The slices that have a signaller.
    ///
    /// # Errors
    /// The node ends.
    pub async fn signallers(&self) -> Result<Vec<String>, ProblemDetails> {
        self.0.ask(|node| node.signallers.names()).await
    }

    /// The flows and paths of a slice, as its signaller shows them.
    ///
    /// # Errors
    /// The node ends. The inner error: the signaller does not answer.
    pub async fn signalled(&self, slice: &str) -> Result<Result<Shown, String>, ProblemDetails> {
        let slice = slice.to_owned();
        self.0.ask_later(move |node, reply| node.signallers.show(&slice, reply)).await
    }

    /// Ends everything. Answers when it is done.
    ///
    /// # Errors
    /// The objects that could not be removed, or the node ends already.
    pub async fn end(&self) -> Result<Said, ProblemDetails> {
        self.0.ask_later(|node, reply| node.end(reply)).await?
    }
}

/// An object with its document.
fn object(stored: &Stored, status: Status) -> Object {
    Object {
        kind: stored.key.kind.clone(),
        name: stored.key.name.clone(),
        generation: stored.generation,
        changed: stored.changed.clone(),
        document: serde_json::from_str(&stored.document).unwrap_or_default(),
        status,
    }
}

/// Does long work in a separate thread.
async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ProblemDetails> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| ProblemDetails::failed(error.to_string()))
}
