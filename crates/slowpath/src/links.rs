//! The devices of a namespace: which are the router's interfaces, and which work.

use std::collections::HashMap;

use crate::message::Link;

/// What is known of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// Number of the router's interface; `None` for devices that the fast path does not have.
    pub(crate) output: Option<usize>,
    /// Set up, and with a carrier.
    pub(crate) running: bool,
    name: String,
}

/// The devices of a namespace by number.
#[derive(Debug, Default)]
pub(crate) struct Links {
    known: HashMap<u32, Known>,
    /// Names of the router's interfaces by number.
    names: Vec<String>,
}

impl Links {
    pub(crate) fn new(names: Vec<String>) -> Links {
        Links { known: HashMap::new(), names }
    }

    pub(crate) fn get(&self, index: u32) -> Option<&Known> {
        self.known.get(&index)
    }

    /// Takes in what the kernel says of a device. Returns whether routes may change by it.
    pub(crate) fn add(&mut self, link: Link) -> bool {
        let output = match self.known.get(&link.index) {
            // Whoever renames a device does not make it another.
            Some(known) => known.output,
            None => self.names.iter().position(|name| *name == link.name),
        };
        let known = Known { output, running: link.running, name: link.name };
        let old = self.known.insert(link.index, known.clone());
        old.is_none_or(|old| old.running != known.running)
    }

    pub(crate) fn remove(&mut self, index: u32) {
        self.known.remove(&index);
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.known.clear();
    }

    /// Every device that is an interface: device, interface.
    pub(crate) fn interfaces(&self) -> impl Iterator<Item = (u32, usize)> + '_ {
        self.known.iter().filter_map(|(index, known)| Some((*index, known.output?)))
    }
}
