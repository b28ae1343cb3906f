//! Ports: the receive program and the output of a device.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use europa_port::{Namespace, in_namespace};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::layout::{self, MAX_PORTS, NONE, PORT_PROBES, PORT_STRIDE};
use crate::substrate::{Doing, Error, Hook, Substrate, attach, device_of, is_taken, pin};
use crate::table::Table;

/// How the receive program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortMode {
    /// In the driver.
    Native,
    /// In the network stack, for drivers without XDP: this is slower, and frames leave by a socket.
    Generic,
    /// In the network stack, by tc: senders on this machine pass unsegmented packets.
    Tc,
}

/// A port with its receive program attached.
pub struct PortAttachment {
    /// Number of the port in the tables.
    pub id: u32,
    place: u32,
    /// Detaches the program when dropped, unless the pin holds it.
    link: OwnedFd,
    /// The receive program in the driver, in addition to the one of tc.
    driver: Option<OwnedFd>,
}

impl PortAttachment {
    pub(crate) fn new(id: u32, place: u32, link: OwnedFd, driver: Option<OwnedFd>) -> Self {
        Self { id, place, link, driver }
    }

    /// Whether the receive program is still attached to the device.
    pub fn is_attached(&self) -> bool {
        device_of(&self.link).is_some_and(|device| device != 0)
    }

    /// Whether a port that is attached by tc receives in the driver now.
    pub fn is_in_driver(&self) -> bool {
        self.driver.is_some()
    }
}

/// Attaches the receive program to devices of one namespace. Any thread can use this: for a veth,
/// the kernel takes 20 ms.
pub struct Attacher {
    /// The namespace's inode.
    inode: u64,
    /// The namespace's number in the table of ports.
    number: u32,
    xdp: OwnedFd,
    tc: Option<OwnedFd>,
    ways_out: Vec<MapHandle>,
    ports: Table<layout::Port>,
    directory: PathBuf,
}

impl Attacher {
    /// Attaches the receive program to device `ifindex` of `namespace` as port `id`, and lets
    /// frames be sent by the device.
    ///
    /// # Errors
    /// Another namespace, a full table, a program that is already attached, or the driver's error.
    pub fn attach(
        &self,
        id: u32,
        namespace: &Namespace,
        ifindex: u32,
        mac: [u8; 6],
        mode: PortMode,
        local_sender: bool,
    ) -> Result<PortAttachment, Error> {
        if namespace.inode != self.inode {
            return Err(std::io::Error::from(std::io::ErrorKind::NotFound))
                .doing("entering the port's namespace, which is another one now");
        }
        let number = self.number;
        let place = places(ifindex, number)
            .find(|place| self.ports.get(*place).ifindex == 0)
            .ok_or(Error::Full("port"))?;
        self.ports.set(
            place,
            layout::Port {
                ifindex,
                namespace: number,
                id,
                flags: if local_sender { layout::PORT_LOCAL_SENDER } else { 0 },
                mac,
                all: NONE,
                ..Default::default()
            },
        );
        let attached = in_namespace(namespace, || self.attach_here(id, ifindex, mode))
            .doing("entering the port's namespace")
            .flatten();
        let pinned = attached.and_then(|link| {
            pin(&link, &pin_of(&self.directory, id))
                .doing("pinning the receive program's attachment")?;
            Ok(PortAttachment::new(id, place, link, None))
        });
        if pinned.is_err() {
            for table in &self.ways_out {
                let _ = table.delete(&id.to_ne_bytes());
            }
            self.ports.set(place, layout::Port::default());
        }
        pinned
    }

    /// Takes the receive program off a port that it has attached.
    ///
    /// # Errors
    /// When the pin cannot be removed.
    pub fn detach(&self, port: PortAttachment) -> Result<(), Error> {
        std::fs::remove_file(pin_of(&self.directory, port.id)).doing("unpinning a port")?;
        for table in &self.ways_out {
            // A generic port is no way out.
            let _ = table.delete(&port.id.to_ne_bytes());
        }
        self.ports.set(port.place, layout::Port::default());
        Ok(())
    }

    /// The same, in the namespace of the device.
    fn attach_here(&self, id: u32, ifindex: u32, mode: PortMode) -> Result<OwnedFd, Error> {
        if mode != PortMode::Generic {
            // The kernel finds the device in the namespace of the thread that writes the entry.
            for table in &self.ways_out {
                table
                    .update(&id.to_ne_bytes(), &ifindex.to_ne_bytes(), MapFlags::ANY)
                    .doing("entering a port into the table of ways out")?;
            }
        }
        let (program, hook) = match (mode, &self.tc) {
            (PortMode::Native, _) => (&self.xdp, Hook::Xdp(libbpf_sys::XDP_FLAGS_DRV_MODE)),
            (PortMode::Generic, _) => (&self.xdp, Hook::Xdp(libbpf_sys::XDP_FLAGS_SKB_MODE)),
            (PortMode::Tc, Some(tc)) => (tc, Hook::Ingress),
            (PortMode::Tc, None) => return Err(Error::NoTc),
        };
        if mode == PortMode::Tc && is_taken(ifindex) {
            return Err(Error::Busy);
        }
        match attach(program.as_fd(), ifindex, hook) {
            Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => Err(Error::Busy),
            other => other.doing("attaching the receive program"),
        }
    }
}

impl Substrate {
    /// Prepares attaching ports in a namespace; the namespace's receive program is loaded at first
    /// use.
    ///
    /// # Errors
    /// The kernel's error, or no free descriptor.
    pub fn attacher(&mut self, namespace: &Namespace) -> Result<Attacher, Error> {
        let what = "duplicating a descriptor";
        let ways_out = [self.map("devices"), self.map("cage_devices")].map(MapHandle::try_from);
        let ways_out = ways_out.into_iter().collect::<Result<_, _>>().doing(what)?;
        let (ports, directory) = (self.ports.clone(), self.directory().to_path_buf());
        let programs = self.receive_programs(namespace)?;
        Ok(Attacher {
            inode: namespace.inode,
            number: programs.number,
            xdp: programs.xdp.try_clone().doing(what)?,
            tc: programs.tc.as_ref().map(OwnedFd::try_clone).transpose().doing(what)?,
            ways_out,
            ports,
            directory,
        })
    }

    /// Attaches the receive program to device `ifindex` of `namespace` as port `id`, and lets
    /// frames be sent by the device.
    ///
    /// # Errors
    /// A full table, a program that is already attached, or the driver's error.
    pub fn attach_port(
        &mut self,
        id: u32,
        namespace: &Namespace,
        ifindex: u32,
        mac: [u8; 6],
        mode: PortMode,
        local_sender: bool,
    ) -> Result<PortAttachment, Error> {
        let attacher = self.attacher(namespace)?;
        attacher.attach(id, namespace, ifindex, mac, mode, local_sender)
    }

    /// Detaches the receive program from a port.
    ///
    /// # Errors
    /// When the pin cannot be removed.
    pub fn detach_port(&self, port: PortAttachment) -> Result<(), Error> {
        if port.driver.is_some() {
            std::fs::remove_file(self.driver_pin_of(port.id)).doing("unpinning a port")?;
        }
        std::fs::remove_file(self.pin_of(port.id)).doing("unpinning a port")?;
        self.forget_port(port.id, port.place);
        Ok(())
    }

    /// Lets a port that is attached by tc receive in the driver, or by tc again. The program of tc
    /// stays, for frames that the driver does not handle.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn receive_in_driver(
        &mut self,
        port: &mut PortAttachment,
        namespace: &Namespace,
        ifindex: u32,
        on: bool,
    ) -> Result<(), Error> {
        let pinned = self.driver_pin_of(port.id);
        if !on {
            // The kernel detaches the program when neither pin nor descriptor refers to it.
            std::fs::remove_file(&pinned).doing("unpinning a port")?;
            port.driver = None;
        } else if port.driver.is_none() {
            let program = self.receive_programs(namespace)?.xdp.as_fd();
            let hook = Hook::Xdp(libbpf_sys::XDP_FLAGS_DRV_MODE);
            let what = "attaching the receive program";
            let link = in_namespace(namespace, || attach(program, ifindex, hook))
                .doing("entering the port's namespace")?
                .doing(what)?;
            pin(&link, &pinned).doing("pinning the receive program's attachment")?;
            port.driver = Some(link);
        }
        Ok(())
    }

    /// Whether live frames can be sent by a port. The kernel forgets a device that leaves its
    /// namespace, even if the device returns.
    pub fn has_way_out(&self, port: u32) -> bool {
        let found = self.map("devices").lookup(&port.to_ne_bytes(), MapFlags::ANY);
        found.is_ok_and(|device| device.is_some())
    }

    /// The port table's entry of a port.
    pub fn entry_of(&self, port: &PortAttachment) -> layout::Port {
        self.ports.get(port.place)
    }

    fn forget_port(&self, id: u32, place: u32) {
        // Generic ports have no output for live frames.
        for table in ["devices", "cage_devices"] {
            let _ = self.map(table).delete(&id.to_ne_bytes());
        }
        self.ports.set(place, layout::Port::default());
    }

    pub(crate) fn pin_of(&self, port: u32) -> PathBuf {
        pin_of(self.directory(), port)
    }

    pub(crate) fn driver_pin_of(&self, port: u32) -> PathBuf {
        self.directory().join(format!("port_{port}_driver"))
    }

    /// Changes the port table's entry of `port`.
    pub(crate) fn change_port(
        &self,
        port: &PortAttachment,
        change: impl FnOnce(&mut layout::Port),
    ) {
        let mut entry = self.ports.get(port.place);
        change(&mut entry);
        // Only the fields that the node writes: programs change the counters in the others.
        self.ports
            .atomic_u32(port.place, std::mem::offset_of!(layout::Port, flags))
            .store(entry.flags, std::sync::atomic::Ordering::Release);
        self.ports
            .atomic_u32(port.place, std::mem::offset_of!(layout::Port, all))
            .store(entry.all, std::sync::atomic::Ordering::Release);
    }
}

/// Where the attachment of a port is pinned.
fn pin_of(directory: &Path, port: u32) -> PathBuf {
    directory.join(format!("port_{port}"))
}

/// The entries of the port table in which device `ifindex` of a namespace may be, as `port_of` in
/// bpf/classify.h searches them.
fn places(ifindex: u32, namespace: u32) -> impl Iterator<Item = u32> {
    let first = ifindex.wrapping_add(namespace.wrapping_mul(61));
    (0..PORT_PROBES).map(move |probe| first.wrapping_add(probe * PORT_STRIDE) % MAX_PORTS)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Namespaces whose devices have consecutive numbers, and overlapping entries.
    #[test]
    fn devices_of_several_namespaces_find_places() {
        let mut taken = HashSet::new();
        for (namespace, first) in [(0, 100), (1, 39), (2, 2), (3, 1), (4, 1)] {
            for ifindex in first..first + 60 {
                let place = places(ifindex, namespace).find(|place| !taken.contains(place));
                let place = place.unwrap_or_else(|| panic!("device {ifindex} of {namespace}"));
                taken.insert(place);
            }
        }
        assert_eq!(taken.len(), 300);
    }
}
