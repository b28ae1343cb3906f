//! The state that all handlers share.

use std::sync::Arc;

use europa_node::{Events, Instance, Requests};
use tokio::sync::Mutex;

use crate::settings::Settings;
use crate::tokens::Tokens;

/// The state of every handler; clones share it.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) requests: Requests,
    pub(crate) events: Events,
    pub(crate) instance: Instance,
    pub(crate) settings: Arc<Settings>,
    /// Held while desired state changes, so that other changes wait.
    pub(crate) turn: Arc<Mutex<()>>,
    pub(crate) tokens: Tokens,
}
