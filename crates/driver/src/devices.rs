//! Linux interfaces by packet sockets: what `FromDevice` and `ToDevice` reach.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use europa_engine::{Arena, Batch, Devices, Graph, Interface, PacketType};
use europa_port::{Device, Namespace, open_listener, set_promiscuous};
use nix::sys::socket::{LinkAddr, MsgFlags, recvfrom, send};

/// Classes whose first argument is an interface.
const USERS: &[&str] = &["FromDevice", "ToDevice", "FromHost", "ToHost"];
/// What the kernel calls frames that this machine sends itself.
const OUTGOING: u8 = 4;

/// One interface and its socket.
struct Open {
    interface: Interface,
    socket: OwnedFd,
}

/// All interfaces that a configuration names.
pub(crate) struct PacketDevices {
    open: Vec<Open>,
    arena: Arena,
    frame: Vec<u8>,
    /// A device took less than there was to send.
    full: bool,
}

impl PacketDevices {
    pub(crate) fn new(arena: &Arena) -> PacketDevices {
        PacketDevices { open: Vec::new(), arena: arena.clone(), frame: vec![0; 65536], full: false }
    }

    /// Opens the interfaces that a graph names and that are not open yet. Those that cannot be
    /// opened are named; their elements will say that they miss them.
    pub(crate) fn open_for(&mut self, graph: &Graph) -> Vec<String> {
        let mut problems = Vec::new();
        for element in graph.elements.iter().filter(|e| USERS.contains(&e.class.as_str())) {
            let keyword = element.arguments.iter().find_map(|a| a.strip_prefix("DEVNAME "));
            let Some(name) = keyword.or(element.arguments.first().map(String::as_str)) else {
                continue;
            };
            let name = name.trim().trim_matches('"');
            if self.index(name).is_none() {
                problems.extend(self.open(name).err());
            }
        }
        problems
    }

    fn open(&mut self, name: &str) -> Result<(), String> {
        let namespace = Namespace::current().map_err(|error| error.to_string())?;
        let device = Device::open(&namespace, name).map_err(|error| error.to_string())?;
        let socket = open_listener(&device).map_err(|error| error.to_string())?;
        set_promiscuous(&socket, &device, true).map_err(|error| error.to_string())?;
        let interface =
            Interface { name: name.to_owned(), mac: device.mac, mtu: device.mtu, address: None };
        self.open.push(Open { interface, socket });
        Ok(())
    }

    /// Takes over the sockets of interfaces that are open there too: what they hold is neither
    /// lost nor received twice.
    pub(crate) fn take_sockets(&mut self, old: &mut PacketDevices) {
        for open in &mut self.open {
            let same = |other: &&mut Open| other.interface.name == open.interface.name;
            if let Some(other) = old.open.iter_mut().find(same) {
                std::mem::swap(&mut open.socket, &mut other.socket);
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
    fn rx(&mut self, interface: usize, batch: &mut Batch, max: usize) {
        let Some(open) = self.open.get(interface) else { return };
        let room = max.min(batch.room());
        // Frames that are skipped count too: a round must end.
        for _ in 0..room {
            let received = recvfrom::<LinkAddr>(open.socket.as_raw_fd(), &mut self.frame);
            let Ok((length, from)) = received else { return };
            if from.is_some_and(|from| from.pkttype() == OUTGOING) {
                continue;
            }
            let Some(frame) = self.frame.get(..length) else { return };
            let Some(mut packet) = self.arena.packet(frame) else { return };
            packet.set_interface(interface as u16);
            if let Some(destination) = frame.first_chunk() {
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

    fn index(&self, name: &str) -> Option<usize> {
        self.open.iter().position(|open| open.interface.name == name)
    }

    fn interface(&self, index: usize) -> Option<&Interface> {
        self.open.get(index).map(|open| &open.interface)
    }
}
