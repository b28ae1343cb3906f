//! Linux interfaces by packet sockets, for `FromDevice`, `ToDevice` and similar elements.
//!
//! | file      | concern                                                             |
//! |-----------|---------------------------------------------------------------------|
//! | `names`   | the interface of an element, and its mode                           |
//! | `open`    | one interface: receiving, sending, giving frames to Linux           |
//! | `segment` | partial checksums and merged segments of senders on this machine    |

mod names;
mod open;
mod segment;

use std::cell::RefCell;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use europa_engine::{Arena, Batch, Devices, Graph, Interface, Names, Refused, Registry};
use europa_port::{Device, Namespace};
use europa_resource::{Access, Resource};

use names::{Wanted, all_interfaces, gateways, given, resolve, users};
use open::{Open, Sent};

/// Sockets in the file system, which are removed at the end.
#[derive(Clone, Default)]
pub(crate) struct Listeners(Rc<Opened>);

#[derive(Default)]
struct Opened {
    names: RefCell<Vec<Resource>>,
    /// Sockets of memifs. They exist as long as the process: a configuration that replaces another
    /// one cannot open devices that the old one still uses.
    memifs: RefCell<Vec<(Resource, OwnedFd)>>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.memifs.get_mut().clear();
        for name in self.names.get_mut() {
            // If the file cannot be removed, the next listener replaces it.
            let _ = name.clear();
        }
    }
}

/// All interfaces that a configuration names.
pub(crate) struct PacketDevices {
    open: Vec<Open>,
    listeners: Listeners,
    arena: Arena,
    /// For each port of DPDK, the interface from the command line.
    ports: Vec<(String, String)>,
    /// Whether a device has accepted only a part of the packets.
    full: bool,
}

impl PacketDevices {
    pub(crate) fn new(
        arena: &Arena,
        listeners: &Listeners,
        ports: &[(String, String)],
    ) -> PacketDevices {
        let (arena, listeners) = (arena.clone(), listeners.clone());
        PacketDevices { open: Vec::new(), listeners, arena, ports: ports.to_vec(), full: false }
    }

    /// Opens the interfaces that a graph names and that are not open yet. Returns the names of
    /// interfaces that cannot be opened; their elements will report this.
    pub(crate) fn open_for(&mut self, graph: &Graph, registry: &Registry) -> Vec<String> {
        let known: Vec<Interface> = all_interfaces().into_iter().map(|(known, _)| known).collect();
        let names = given(graph, registry, &known);
        let mut problems = Vec::new();
        let mut plans: Vec<(String, Vec<String>, Wanted)> = Vec::new();
        for (name, wanted) in users(graph) {
            let device = resolve(name, &self.ports, &known, &names);
            let device = device.unwrap_or_else(|| name.to_owned());
            match plans.iter_mut().find(|(planned, ..)| *planned == device) {
                Some((_, names, all)) => {
                    names.push(name.to_owned());
                    *all = all.or(wanted);
                }
                None => plans.push((device, vec![name.to_owned()], wanted)),
            }
        }
        for (device, names, wanted) in plans {
            match open(&device, names, wanted) {
                Ok(open) => self.open.push(open),
                Err(problem) => problems.push(problem),
            }
        }
        problems
    }

    /// Takes over the sockets of interfaces that both configurations use: no frame is lost or
    /// received twice.
    pub(crate) fn take_sockets(&mut self, old: &mut PacketDevices) {
        for open in &mut self.open {
            let same = |other: &&mut Open| other.interface.name == open.interface.name;
            if let Some(other) = old.open.iter_mut().find(same) {
                open.take_socket(other);
            }
        }
    }

    /// Whether a device has accepted only a part of the packets since the last call.
    pub(crate) fn was_full(&mut self) -> bool {
        std::mem::take(&mut self.full)
    }

    /// The events to wait for.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.open.iter().filter(|open| open.receives()).map(|open| open.socket.as_fd())
    }

    /// Whether a part of a received frame has not been taken yet.
    pub(crate) fn is_waiting(&self) -> bool {
        self.open.iter().any(Open::is_waiting)
    }

    /// A line for each interface that received frames longer than any buffer.
    pub(crate) fn losses(&self) -> impl Iterator<Item = String> {
        self.open.iter().filter(|open| open.too_long > 0).map(|open| {
            let (name, count) = (&open.interface.name, open.too_long);
            format!("{name}: {count} received frames found no buffer that they fit into\n")
        })
    }
}

/// Opens an interface that the configuration uses under these names.
fn open(device: &str, names: Vec<String>, wanted: Wanted) -> Result<Open, String> {
    if device.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "port {device} has no interface; name it by `--port-map {device}=INTERFACE`"
        ));
    }
    let namespace = Namespace::current().map_err(|error| error.to_string())?;
    let device = Device::open(&namespace, device).map_err(|error| error.to_string())?;
    Open::new(device, names, wanted)
}

/// Adds addresses and gateways of the machine's interfaces.
fn add_machine(names: &mut Names) {
    for (interface, prefix) in all_interfaces() {
        let entry = names.entry(&interface.name);
        entry.mac.get_or_insert(interface.mac);
        if let Some(address) = interface.address {
            entry.ipv4.get_or_insert(address);
            entry.ipv4_prefix = entry.ipv4_prefix.or(prefix.map(|length| (address, length)));
        }
    }
    for (name, gateway) in gateways() {
        names.entry(&name).gateway.get_or_insert(gateway);
    }
}

/// The machine's names for addresses, without interfaces, for checks. Devices that a configuration
/// names need not exist, but their names still denote addresses.
pub(crate) struct Unopened(Vec<String>);

impl Unopened {
    /// For this graph.
    pub(crate) fn of(graph: &Graph) -> Unopened {
        Unopened(names::mentioned(graph))
    }
}

impl Devices for Unopened {
    fn rx(&mut self, _: usize, _: &mut Batch, _: usize) {}

    fn tx(&mut self, _: usize, batch: &mut Batch) {
        batch.clear();
    }

    fn name_addresses(&self, names: &mut Names) {
        add_machine(names);
        for name in &self.0 {
            let entry = names.entry(name);
            entry.mac.get_or_insert([2, 0, 0, 0, 0, 0]);
            entry.ipv4.get_or_insert(Ipv4Addr::LOCALHOST);
            entry.ipv4_prefix.get_or_insert((Ipv4Addr::LOCALHOST, 8));
        }
    }

    fn index(&self, _: &str) -> Option<usize> {
        None
    }

    fn interface(&self, _: usize) -> Option<&Interface> {
        None
    }
}

impl Devices for PacketDevices {
    fn open(&self, resource: &Resource) -> io::Result<OwnedFd> {
        let mut names = self.listeners.0.names.borrow_mut();
        if !names.contains(resource) {
            names.push(resource.clone());
        }
        if resource.access() != Access::Listen || !resource.shares_memory() {
            return resource.open();
        }
        let mut listeners = self.listeners.0.memifs.borrow_mut();
        if let Some((_, listener)) = listeners.iter().find(|(known, _)| known == resource) {
            return listener.try_clone();
        }
        let listener = resource.open()?;
        listeners.push((resource.clone(), listener.try_clone()?));
        Ok(listener)
    }

    fn name_addresses(&self, names: &mut Names) {
        add_machine(names);
    }

    fn rx(&mut self, interface: usize, batch: &mut Batch, max: usize) {
        if let Some(open) = self.open.get_mut(interface) {
            open.receive(interface as u16, batch, max, &self.arena);
        }
    }

    fn tx(&mut self, interface: usize, batch: &mut Batch) {
        let Some(open) = self.open.get_mut(interface) else { return batch.clear() };
        self.full |= open.send(batch) == Sent::Full;
    }

    fn to_host(&mut self, interface: usize, batch: &mut Batch, _: u32) {
        let Some(open) = self.open.get_mut(interface) else { return batch.clear() };
        open.give(batch, false);
    }

    fn to_sniffers(&mut self, interface: usize, batch: &mut Batch) {
        let Some(open) = self.open.get_mut(interface) else { return batch.clear() };
        open.give(batch, true);
    }

    fn take_refused(&mut self, interface: usize) -> Refused {
        self.open.get_mut(interface).map(Open::take_refused).unwrap_or_default()
    }

    fn selects(&self) -> bool {
        true
    }

    fn index(&self, name: &str) -> Option<usize> {
        let named =
            |open: &Open| open.interface.name == name || open.names.iter().any(|n| n == name);
        self.open.iter().position(named)
    }

    fn interface(&self, index: usize) -> Option<&Interface> {
        self.open.get(index).map(|open| &open.interface)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_that_replaces_another_listens_at_the_same_socket() {
        let path = std::env::temp_dir().join(format!("europa-{}.sock", std::process::id()));
        let name = format!("listen: memif {}", path.display());
        let resource: Resource = name.parse().unwrap();
        let (arena, listeners) = (Arena::heap(16, 2048), Listeners::default());
        let old = PacketDevices::new(&arena, &listeners, &[]);
        let _first = old.open(&resource).unwrap();
        assert!(PacketDevices::new(&arena, &Listeners::default(), &[]).open(&resource).is_err());
        let new = PacketDevices::new(&arena, &listeners, &[]);
        new.open(&resource).unwrap();
        drop((_first, old, new));
        assert!(path.exists());
        drop(listeners);
        assert!(!path.exists());
    }
}
