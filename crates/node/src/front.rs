//! A front: the interface to users, above the node, which it asks by [`Requests`].

use tokio::sync::mpsc;

use crate::doors::OpenedDoor;
use crate::events::Events;
use crate::instance::{Instance, Lifetime};
use crate::requests::Requests;
use crate::store::StoredToken;

/// The parts of a node that a front needs.
pub struct Behind {
    /// Asks the node's loop.
    pub requests: Requests,
    /// The node's events.
    pub events: Events,
    /// Its names and paths.
    pub instance: Instance,
    /// Whether it outlives this start of the machine.
    pub lifetime: Lifetime,
    /// Stored tokens of users.
    pub tokens: Vec<StoredToken>,
    /// The doors of slices, to be served.
    pub doors: mpsc::UnboundedReceiver<OpenedDoor>,
}
