//! Desired state on this host's disk, written by a separate thread: the loop never waits for it.

mod redb;

use std::sync::mpsc::{Sender, channel};

pub use europa_control::store::{NumberedRules, Snapshot, Store, StoreError, Stored, StoredToken};
pub use redb::RedbStore;

use crate::control::Control;
use crate::node::Node;
use crate::{Doing, NodeError};

type Writing = Box<dyn FnOnce(&mut dyn Store) + Send>;

/// Stores changes, one after the other.
pub(crate) struct StoreThread(Sender<Writing>);

impl StoreThread {
    /// Writes to this store from now on.
    pub(crate) fn start(mut store: Box<dyn Store>) -> Result<Self, NodeError> {
        let (orders, heard) = channel::<Writing>();
        let work = move || heard.into_iter().for_each(|writing| writing(&mut *store));
        let thread = std::thread::Builder::new().name("store".into());
        thread.spawn(work).doing("starting a thread for the store")?;
        Ok(Self(orders))
    }

    /// Changes the store by `write`, and passes the result to the loop.
    pub(crate) fn write(
        &self,
        control: &Control,
        write: impl FnOnce(&mut dyn Store) -> Result<(), StoreError> + Send + 'static,
        then: impl FnOnce(&mut Node, Result<(), StoreError>) + Send + 'static,
    ) {
        let control = control.clone();
        let writing: Writing = Box::new(move |store| {
            let written = write(store);
            control.tell(move |node| then(node, written));
        });
        // The thread ends with its sender alone.
        let _ = self.0.send(writing);
    }
}
