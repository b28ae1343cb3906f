//! The router's interfaces as elements see them.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;

use europa_pool::{Arena, Batch, PacketType};
use europa_resource::Resource;

use crate::names::Names;

/// The facts about an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Name, as in the configuration.
    pub name: String,
    /// Its own Ethernet address.
    pub mac: [u8; 6],
    /// Largest payload of a frame, in bytes, without the Ethernet header.
    pub mtu: u32,
    /// Its first IPv4 address, if it has one.
    pub address: Option<Ipv4Addr>,
}

/// Frames that an interface can never send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Number of frames.
    pub frames: u64,
    /// The system's error number of the last one.
    pub errno: i32,
}

/// Packet input and output, which the engine gets for each round.
pub trait Devices {
    /// Adds up to `max` received packets to `batch`, type and interface set.
    fn rx(&mut self, interface: usize, batch: &mut Batch, max: usize);

    /// Sends packets in order from the front of `batch`, and leaves those that do not fit.
    fn tx(&mut self, interface: usize, batch: &mut Batch);

    /// Gives packets to the router's own Linux, as if received from `interface`. It drops packets
    /// if fewer than `keep` free places would remain.
    fn to_host(&mut self, interface: usize, batch: &mut Batch, keep: u32) {
        let _ = (interface, keep);
        batch.clear();
    }

    /// Shows packets to programs that listen to the system's interface, as if received from it.
    /// Other receivers do not get them.
    fn to_sniffers(&mut self, interface: usize, batch: &mut Batch) {
        let _ = interface;
        batch.clear();
    }

    /// Frames that [`Devices::tx`] removed from the batch since the last call, but that the
    /// interface refused permanently.
    fn take_refused(&mut self, interface: usize) -> Refused {
        let _ = interface;
        Refused::default()
    }

    /// Opens a file or socket that an element asks for. By default, any that the process may open.
    ///
    /// # Errors
    /// The system's error, or [`io::ErrorKind::PermissionDenied`] if this router has no grant for
    /// it.
    fn open(&self, resource: &Resource) -> io::Result<OwnedFd> {
        resource.open()
    }

    /// Whether an interface delivers frames for other hosts only on request: then such frames are
    /// wanted.
    fn selects(&self) -> bool {
        false
    }

    /// Further interfaces, which elements cannot use, but whose names denote addresses in a
    /// configuration.
    fn others(&self) -> Vec<Interface> {
        Vec::new()
    }

    /// Adds names for addresses that the interfaces alone do not have.
    fn name_addresses(&self, names: &mut Names) {
        let _ = names;
    }

    /// Number of the interface of this name.
    fn index(&self, name: &str) -> Option<usize>;

    /// The interface of this number.
    fn interface(&self, index: usize) -> Option<&Interface>;
}

/// No interfaces at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDevices;

impl Devices for NoDevices {
    fn rx(&mut self, _: usize, _: &mut Batch, _: usize) {}

    fn tx(&mut self, _: usize, batch: &mut Batch) {
        batch.clear();
    }

    fn index(&self, _: &str) -> Option<usize> {
        None
    }

    fn interface(&self, _: usize) -> Option<&Interface> {
        None
    }
}

/// Interfaces in memory, for tests and simulations: packets in `received` arrive; packets that the
/// router sends are in `sent`.
#[derive(Debug, Default)]
pub struct MemoryDevices {
    /// The interfaces.
    pub interfaces: Vec<Interface>,
    /// By interface: frames to be received.
    pub received: Vec<Vec<Vec<u8>>>,
    /// By interface: frames sent.
    pub sent: Vec<Vec<Vec<u8>>>,
    /// By interface: frames given to the host.
    pub host: Vec<Vec<Vec<u8>>>,
    /// Most frames that one call of `tx` takes; 0 means any number.
    pub tx_limit: usize,
    /// The arena of received packets.
    pub arena: Option<Arena>,
}

impl MemoryDevices {
    /// Interfaces of these names, with addresses `02:00:00:00:00:0n` and an MTU of 1500.
    pub fn new(names: &[&str], arena: &Arena) -> MemoryDevices {
        let interface = |(n, name): (usize, &&str)| Interface {
            name: (*name).to_owned(),
            mac: [2, 0, 0, 0, 0, n as u8],
            mtu: 1500,
            address: None,
        };
        let none = || vec![Vec::new(); names.len()];
        MemoryDevices {
            interfaces: names.iter().enumerate().map(interface).collect(),
            received: none(),
            sent: none(),
            host: none(),
            tx_limit: 0,
            arena: Some(arena.clone()),
        }
    }
}

impl Devices for MemoryDevices {
    fn rx(&mut self, interface: usize, batch: &mut Batch, max: usize) {
        let (Some(frames), Some(arena)) = (self.received.get_mut(interface), &self.arena) else {
            return;
        };
        let count = max.min(frames.len()).min(batch.room()).min(arena.free());
        for frame in frames.drain(..count) {
            if let Some(mut packet) = arena.packet(&frame) {
                packet.set_interface(interface as u16);
                let own = self.interfaces.get(interface).map(|i| i.mac).unwrap_or_default();
                if let Some(destination) = frame.first_chunk() {
                    packet.set_packet_type(PacketType::of(*destination, own));
                }
                let _ = batch.push(packet);
            }
        }
    }

    fn tx(&mut self, interface: usize, batch: &mut Batch) {
        let limit = if self.tx_limit == 0 { batch.len() } else { self.tx_limit };
        if let Some(sent) = self.sent.get_mut(interface) {
            sent.extend(batch.drain_front(limit).map(|packet| packet.data().to_vec()));
        }
    }

    fn to_host(&mut self, interface: usize, batch: &mut Batch, _: u32) {
        if let Some(host) = self.host.get_mut(interface) {
            host.extend(batch.drain().map(|packet| packet.data().to_vec()));
        }
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.interfaces.iter().position(|interface| interface.name == name)
    }

    fn interface(&self, index: usize) -> Option<&Interface> {
        self.interfaces.get(index)
    }
}
