//! The requests that a node's loop answers: all operations that an interface to users needs.
//!
//! Each request is a message to the loop; the caller awaits the answer. If the node ends, all
//! requests fail with status 503.

use std::collections::HashSet;
use std::sync::Arc;

use europa_api::rest::{FilterChanged, FilterList, NodeInfo, Object, ProblemDetails, Said, Status};
use europa_api::stats::NodeStats;
use europa_api::{MachinePortList, MachinePortRequest, MachinePortState, PortProtocol, User};
use europa_control::{Accepted, Outcome, Submission};
use europa_router::orders::Order;
use europa_signaller::orders::Shown;

use crate::control::Control;
use crate::filters::OwnChanges;
use crate::hosts;
use crate::instance::Instance;
use crate::machine_ports::MachinePorts;
use crate::node::Node;
use crate::store::{Stored, StoredToken};

/// Number of objects that the loop describes in one turn.
const AT_ONCE: usize = 32;

/// Sends requests to a node's loop; clones use the same loop.
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

    /// The accepted state.
    ///
    /// # Errors
    /// The node ends.
    pub async fn accepted(&self) -> Result<Accepted, ProblemDetails> {
        self.0.ask(|node| node.change.accepted().clone()).await
    }

    /// Carries out a change. Answers when the change is done, refused or undone.
    ///
    /// # Errors
    /// The node ends.
    pub async fn submit(&self, submission: Submission) -> Result<Outcome, ProblemDetails> {
        self.0.ask_later(|node, reply| node.submit(submission, reply)).await
    }

    /// Compares hosts with their documents; the next change repairs differences.
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

    /// A user, with the generation of the user's document.
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
    /// The slice does not exist, the switch does not answer, or the node ends.
    pub async fn filters(&self, slice: &str) -> Result<FilterList, ProblemDetails> {
        let slice = slice.to_owned();
        self.0.ask_later(move |node, reply| node.filters.list(slice, reply)).await?
    }

    /// Changes the rules with numbers of a slice. Answers when they are stored.
    ///
    /// # Errors
    /// A rule is refused, or the node ends.
    pub async fn change_filters(
        &self,
        changes: OwnChanges,
    ) -> Result<FilterChanged, ProblemDetails> {
        self.0.ask_later(|node, reply| node.filters.change_own(changes, reply)).await?
    }

    /// The ports of the machine that a slice reserves.
    ///
    /// # Errors
    /// The node ends.
    pub async fn machine_ports(&self, slice: &str) -> Result<MachinePortList, ProblemDetails> {
        let slice = slice.to_owned();
        let uplinks = self.0.ask(|node| node.slow_paths.uplinks().clone()).await?;
        beside(move || uplinks.ports().list(&slice)).await
    }

    /// Leads a port of the machine to a slow path of the slice. Answers when the rules are made.
    ///
    /// # Errors
    /// The slice has no such reservation, the router no uplink, the rules cannot be made, or the
    /// node ends.
    pub async fn map_machine_port(
        &self,
        slice: &str,
        request: MachinePortRequest,
    ) -> Result<MachinePortState, ProblemDetails> {
        let slice = slice.to_owned();
        self.change_ports(move |ports| ports.map(&slice, &request)).await
    }

    /// Ends what [`Requests::map_machine_port`] has begun.
    ///
    /// # Errors
    /// No request has this port, the rules cannot be made, or the node ends.
    pub async fn unmap_machine_port(
        &self,
        slice: &str,
        protocol: PortProtocol,
        port: u16,
    ) -> Result<(), ProblemDetails> {
        let slice = slice.to_owned();
        self.change_ports(move |ports| ports.unmap(&slice, protocol, port)).await
    }

    /// Changes where ports of the machine lead, and then the rules.
    async fn change_ports<T: Send + 'static>(
        &self,
        change: impl FnOnce(&MachinePorts) -> Result<T, ProblemDetails> + Send + 'static,
    ) -> Result<T, ProblemDetails> {
        let of =
            |node: &mut Node| (node.slow_paths.uplinks().clone(), node.context.instance.clone());
        let (uplinks, instance) = self.0.ask(of).await?;
        let work = move || {
            let done = change(uplinks.ports())?;
            let made = uplinks.lead_ports(&instance);
            made.map_err(|error| ProblemDetails::failed(error.to_string()))?;
            Ok(done)
        };
        beside(work).await?
    }

    /// Replaces a router's process, SLICE/ROUTER. Answers when the new one forwards.
    ///
    /// # Errors
    /// The router does not exist or does not start, or the node ends.
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
    /// The router does not exist, or the node ends.
    pub async fn known_router(&self, router: &str) -> Result<(), ProblemDetails> {
        let router = router.to_owned();
        self.0.ask(move |node| node.routers.known(&router)).await?
    }

    /// Sends a router's process an order and awaits its answer.
    ///
    /// # Errors
    /// The node ends. The inner error: the router does not run, or refuses with this text.
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
    /// It is neither of them, or the node ends.
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

    /// Ends everything. Answers when this is done.
    ///
    /// # Errors
    /// The objects that could not be removed, or the node is already ending.
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

/// Runs long work in a separate thread.
async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ProblemDetails> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| ProblemDetails::failed(error.to_string()))
}
