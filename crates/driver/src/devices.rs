//! Linux interfaces by packet sockets: what `FromDevice` and `ToDevice` reach.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use europa_engine::{Arena, Batch, Devices, Graph, GraphElement, Interface, PacketType};
use europa_port::{Device, Namespace, open_listener, set_promiscuous};
use europa_resource::{Access, Resource};
use nix::sys::socket::{LinkAddr, MsgFlags, recvfrom, send, setsockopt, sockopt};

/// Classes whose first argument is an interface.
const USERS: &[&str] = &["FromDevice", "ToDevice"];
/// What the kernel calls frames that this machine sends itself.
const OUTGOING: u8 = 4;

/// Bytes of frames that wait while the router does something else, such as to be replaced: the
/// system's default has room for 270 short ones.
const WAITING_BYTES: usize = 4 << 20;

/// What a configuration wants to receive beside what is for the interface.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Wanted {
    /// Frames for other hosts.
    promiscuous: bool,
    /// Frames that this machine sends.
    outbound: bool,
}

/// One interface and its socket.
struct Open {
    interface: Interface,
    device: Device,
    socket: OwnedFd,
    wanted: Wanted,
}

/// The interface that an element uses.
fn name_of(element: &GraphElement) -> Option<&str> {
    let keyword = element.arguments.iter().find_map(|a| a.strip_prefix("DEVNAME "));
    let name = keyword.or(element.arguments.first().map(String::as_str))?;
    Some(name.trim().trim_matches('"'))
}

/// What an element wants. Whether its arguments are right it will say itself.
fn wanted_by(element: &GraphElement) -> Wanted {
    let is = |name: &str, at: Option<usize>| {
        let by_name = element.arguments.iter().find_map(|text| text.strip_prefix(name));
        let given = by_name.or_else(|| element.arguments.get(at?).map(String::as_str));
        given.is_some_and(|value| matches!(value.trim(), "true" | "yes" | "1"))
    };
    match element.class.as_str() {
        "FromDevice" => {
            Wanted { promiscuous: is("PROMISC ", Some(1)), outbound: is("OUTBOUND ", None) }
        }
        _ => Wanted::default(),
    }
}

/// All interfaces of the machine, for configurations that say an interface's name in the place of
/// its addresses.
fn all_interfaces() -> Vec<Interface> {
    let mut found: Vec<Interface> = Vec::new();
    // Who may not see them has no names for addresses.
    for seen in nix::ifaddrs::getifaddrs().into_iter().flatten() {
        let at = found.iter().position(|known| known.name == seen.interface_name);
        let at = at.unwrap_or_else(|| {
            let name = seen.interface_name.clone();
            found.push(Interface { name, mac: [0; 6], mtu: 0, address: None });
            found.len() - 1
        });
        if let (Some(known), Some(address)) = (found.get_mut(at), seen.address) {
            if let Some(mac) = address.as_link_addr().and_then(LinkAddr::addr) {
                known.mac = mac;
            } else if let Some(address) = address.as_sockaddr_in() {
                // The first is what the system calls the interface's own.
                known.address.get_or_insert(address.ip());
            }
        }
    }
    found
}

/// Sockets that are found in the file system, which are taken away at the end.
#[derive(Clone, Default)]
pub(crate) struct Listeners(Rc<Opened>);

#[derive(Default)]
struct Opened {
    names: RefCell<Vec<Resource>>,
    /// Those of memifs. They stay as long as the process: a configuration that replaces another
    /// one cannot open what that still has.
    memifs: RefCell<Vec<(Resource, OwnedFd)>>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.memifs.get_mut().clear();
        for name in self.names.get_mut() {
            // One that cannot be removed is replaced by whoever listens there next.
            let _ = name.clear();
        }
    }
}

/// All interfaces that a configuration names.
pub(crate) struct PacketDevices {
    open: Vec<Open>,
    listeners: Listeners,
    arena: Arena,
    frame: Vec<u8>,
    /// A device took less than there was to send.
    full: bool,
}

impl PacketDevices {
    pub(crate) fn new(arena: &Arena, listeners: &Listeners) -> PacketDevices {
        let (arena, listeners) = (arena.clone(), listeners.clone());
        PacketDevices { open: Vec::new(), listeners, arena, frame: vec![0; 65536], full: false }
    }

    /// Opens the interfaces that a graph names and that are not open yet. Those that cannot be
    /// opened are named; their elements will say that they miss them.
    pub(crate) fn open_for(&mut self, graph: &Graph) -> Vec<String> {
        let mut problems = Vec::new();
        let users = || graph.elements.iter().filter(|e| USERS.contains(&e.class.as_str()));
        for name in users().filter_map(name_of) {
            if self.index(name).is_some() {
                continue;
            }
            let mut all = Wanted::default();
            for wanted in users().filter(|user| name_of(user) == Some(name)).map(wanted_by) {
                all.promiscuous |= wanted.promiscuous;
                all.outbound |= wanted.outbound;
            }
            problems.extend(self.open(name, all).err());
        }
        problems
    }

    fn open(&mut self, name: &str, wanted: Wanted) -> Result<(), String> {
        let namespace = Namespace::current().map_err(|error| error.to_string())?;
        let device = Device::open(&namespace, name).map_err(|error| error.to_string())?;
        let socket = open_listener(&device).map_err(|error| error.to_string())?;
        if wanted.promiscuous {
            set_promiscuous(&socket, &device, true).map_err(|error| error.to_string())?;
        }
        // Refused to whoever may not, who then has the default.
        let _ = setsockopt(&socket, sockopt::RcvBufForce, &WAITING_BYTES);
        let interface =
            Interface { name: name.to_owned(), mac: device.mac, mtu: device.mtu, address: None };
        self.open.push(Open { interface, device, socket, wanted });
        Ok(())
    }

    /// Takes over the sockets of interfaces that are open there too: what they hold is neither
    /// lost nor received twice.
    pub(crate) fn take_sockets(&mut self, old: &mut PacketDevices) {
        for open in &mut self.open {
            let same = |other: &&mut Open| other.interface.name == open.interface.name;
            if let Some(other) = old.open.iter_mut().find(same) {
                std::mem::swap(&mut open.socket, &mut other.socket);
                let wanted = open.wanted.promiscuous;
                if wanted != other.wanted.promiscuous {
                    // A device that is gone gives nothing anyway.
                    let _ = set_promiscuous(&open.socket, &open.device, wanted);
                }
            }
        }
    }

    /// Whether a device took less than there was to send since the last call.
    pub(crate) fn was_full(&mut self) -> bool {
        std::mem::take(&mut self.full)
    }

    /// What to wait for.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.open.iter().map(|open| open.socket.as_fd())
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

    fn others(&self) -> Vec<Interface> {
        all_interfaces()
    }

    fn rx(&mut self, interface: usize, batch: &mut Batch, max: usize) {
        let Some(open) = self.open.get(interface) else { return };
        let room = max.min(batch.room());
        // Frames that are skipped count too: a round must end.
        for _ in 0..room {
            let received = recvfrom::<LinkAddr>(open.socket.as_raw_fd(), &mut self.frame);
            let Ok((length, from)) = received else { return };
            let kind = from.map_or(0, |from| from.pkttype());
            if kind == OUTGOING && !open.wanted.outbound {
                continue;
            }
            let Some(frame) = self.frame.get(..length) else { return };
            let Some(mut packet) = self.arena.packet(frame) else { return };
            packet.set_interface(interface as u16);
            if kind == OUTGOING {
                packet.set_packet_type(PacketType::Outgoing);
            } else if let Some(destination) = frame.first_chunk() {
                packet.set_packet_type(PacketType::of(*destination, open.interface.mac));
            }
            let _ = batch.push(packet);
        }
    }

    fn tx(&mut self, interface: usize, batch: &mut Batch) {
        let Some(open) = self.open.get(interface) else { return batch.clear() };
        let mut sent = 0;
        for packet in batch.iter() {
            match send(open.socket.as_raw_fd(), packet.data(), MsgFlags::MSG_DONTWAIT) {
                Err(nix::Error::EAGAIN | nix::Error::ENOBUFS) => {
                    self.full = true;
                    break;
                }
                // What the device refuses it will never take.
                _ => sent += 1,
            }
        }
        batch.drain_front(sent);
    }

    fn selects(&self) -> bool {
        true
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.open.iter().position(|open| open.interface.name == name)
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
        let old = PacketDevices::new(&arena, &listeners);
        let _first = old.open(&resource).unwrap();
        assert!(PacketDevices::new(&arena, &Listeners::default()).open(&resource).is_err());
        let new = PacketDevices::new(&arena, &listeners);
        new.open(&resource).unwrap();
        drop((_first, old, new));
        assert!(path.exists());
        drop(listeners);
        assert!(!path.exists());
    }
}
