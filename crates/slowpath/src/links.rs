//! The devices of a namespace: those that are the router's interfaces, and their properties.

use std::collections::HashMap;

use crate::message::Link;

/// The facts about a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// Number of the router's interface; `None` for devices that the fast path does not use.
    pub(crate) output: Option<usize>,
    pub(crate) link: Link,
}

impl Known {
    /// Set up, and with a carrier.
    pub(crate) fn is_running(&self) -> bool {
        self.link.running
    }
}

/// The changes of a message about a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// Routes may have changed together with it.
    pub(crate) routes: bool,
    /// A property of the device has changed.
    pub(crate) device: bool,
}

/// The devices of a namespace by number.
#[derive(Debug, Default)]
pub(crate) struct Links {
    known: HashMap<u32, Known>,
    /// Names of the router's interfaces by number.
    names: Vec<String>,
    /// The device of each interface: a renamed device stays the same interface.
    devices: HashMap<u32, usize>,
}

impl Links {
    pub(crate) fn new(names: Vec<String>) -> Links {
        Links { names, ..Links::default() }
    }

    pub(crate) fn get(&self, index: u32) -> Option<&Known> {
        self.known.get(&index)
    }

    /// Takes in the kernel's message about a device.
    pub(crate) fn add(&mut self, link: Link) -> Change {
        let mut output = self.devices.get(&link.index).copied();
        if output.is_none() {
            output = self.names.iter().position(|name| *name == link.name);
            let is_taken = |output: &usize| self.devices.values().any(|other| other == output);
            output = output.filter(|output| !is_taken(output));
            self.devices.extend(output.map(|output| (link.index, output)));
        }
        let known = Known { output, link };
        let old = self.known.insert(known.link.index, known.clone());
        let routes = old.as_ref().is_none_or(|old| old.is_running() != known.is_running());
        Change { routes, device: old.as_ref() != Some(&known) }
    }

    pub(crate) fn remove(&mut self, index: u32) {
        self.known.remove(&index);
        self.devices.remove(&index);
    }

    /// Replaces the known ones. Returns whether something has changed.
    pub(crate) fn replace_all(&mut self, links: Vec<Link>) -> bool {
        let old = std::mem::take(&mut self.known);
        self.devices.retain(|index, _| links.iter().any(|link| link.index == *index));
        for link in links {
            self.add(link);
        }
        self.known != old
    }

    /// Every device that is an interface: device, interface.
    pub(crate) fn interfaces(&self) -> impl Iterator<Item = (u32, usize)> + '_ {
        self.known.iter().filter_map(|(index, known)| Some((*index, known.output?)))
    }

    /// The device that is an interface.
    pub(crate) fn interface(&self, number: usize) -> Option<&Link> {
        let found = self.known.values().find(|known| known.output == Some(number));
        found.map(|known| &known.link)
    }

    /// The name of an interface.
    pub(crate) fn name(&self, number: usize) -> &str {
        self.names.get(number).map_or("", String::as_str)
    }

    /// Number of interfaces, including those whose device is missing.
    pub(crate) fn count(&self) -> usize {
        self.names.len()
    }

    /// The devices on top of one.
    pub(crate) fn uppers(&self, index: u32) -> impl Iterator<Item = &Link> + '_ {
        let all = self.known.values().map(|known| &known.link);
        all.filter(move |link| link.lower == Some(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, name: &str) -> Link {
        Link { index, name: name.into(), ..Link::default() }
    }

    #[test]
    fn a_renamed_device_stays_the_interface() {
        let mut links = Links::new(vec!["eth0".into(), "eth1".into()]);
        assert_eq!(links.add(link(7, "eth0")), Change { routes: true, device: true });
        assert_eq!(links.add(link(7, "eth0")), Change::default());
        assert_eq!(links.add(link(7, "wan")), Change { routes: false, device: true });
        assert!(!links.replace_all(vec![link(7, "wan")]));
        assert_eq!(links.interface(0).map(|link| link.index), Some(7));
        // Another device takes the name, not the place.
        links.add(link(8, "eth0"));
        assert_eq!(links.get(8).and_then(|known| known.output), None);
        links.remove(7);
        assert!(links.replace_all(vec![link(9, "eth0")]));
        assert_eq!(links.interface(0).map(|link| link.index), Some(9));
    }
}
