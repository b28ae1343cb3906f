//! Adopts objects of an earlier process: finds them by their numbers, and removes unclaimed ones.

use std::collections::HashSet;
use std::fs;
use std::mem::offset_of;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering;

use europa_pool::{Geometry, Layout};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::layout::{self, MAX_INTERFACES, MAX_POOLS, MAX_PORTS, NONE};
use crate::pool::{Kind, PoolHandle};
use crate::ports::PortAttachment;
use crate::substrate::{Doing, Error, Substrate, device_of};

/// The numbers in use; all other objects are leftovers.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// Ports.
    pub ports: HashSet<u32>,
    /// Interfaces.
    pub interfaces: HashSet<u32>,
    /// Packet pools.
    pub pools: HashSet<u32>,
}

impl Substrate {
    /// The pool of this number, if it exists and has this geometry.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn adopt_pool(&self, id: u32, geometry: Geometry) -> Result<Option<PoolHandle>, Error> {
        if id == 0 || id >= MAX_POOLS {
            return Ok(None);
        }
        let layout = Layout::new(geometry).map_err(europa_pool::ViewError::from)?;
        let state = self.pool_state.get(id);
        let kind = Kind::of(&layout);
        if state.slots != geometry.slots
            || state.kind != kind as u32
            || state.done_first != layout.done.first_word
        {
            return Ok(None);
        }
        let (Some(map), Some(waker)) = (self.inner(kind.table(), id)?, self.inner("wakers", id)?)
        else {
            return Ok(None);
        };
        let info = map.info().doing("asking about a packet pool")?.info;
        let fits =
            info.value_size == geometry.slot_bytes && info.max_entries == kind.elements(&layout);
        Ok(fits.then(|| PoolHandle::new(id, layout, map, waker)))
    }

    /// The map in an entry of a table of maps.
    fn inner(&self, table: &'static str, id: u32) -> Result<Option<MapHandle>, Error> {
        let found = self.map(table).lookup(&id.to_ne_bytes(), MapFlags::ANY);
        let found = found.doing("looking for a packet pool")?;
        let Some(number) = found.and_then(|value| value.try_into().ok()) else { return Ok(None) };
        match u32::from_ne_bytes(number) {
            0 => Ok(None),
            number => MapHandle::from_map_id(number).doing("opening a packet pool").map(Some),
        }
    }

    /// Whether interface `id` has an entry and leads to pool `pool`.
    pub fn has_interface(&self, id: u32, pool: u32) -> bool {
        if id >= MAX_INTERFACES {
            return false;
        }
        let entry = self.interfaces.get(id);
        entry.max_frame != 0 && entry.pool_id() == pool
    }

    /// The headers before an interface's frames.
    pub fn encap(&self, id: u32) -> Vec<u8> {
        let entry = self.encap.get(id);
        entry.header.get(..entry.bytes as usize).unwrap_or_default().to_vec()
    }

    /// The port of this number, if the receive program is attached to device `ifindex` of
    /// the namespace with this inode.
    pub fn adopt_port(&self, id: u32, namespace: u64, ifindex: u32) -> Option<PortAttachment> {
        let place = (0..MAX_PORTS).find(|place| {
            let entry = self.ports.get(*place);
            entry.ifindex == ifindex && entry.id == id && entry.namespace == namespace as u32
        })?;
        let link = open_pin(&self.pin_of(id)).ok()?;
        // The link of a removed device leads to no device.
        (ifindex != 0 && device_of(&link) == Some(ifindex)).then(|| {
            let driver = open_pin(&self.driver_pin_of(id)).ok();
            PortAttachment::new(id, place, link, driver)
        })
    }

    /// Removes all unclaimed entries from the tables. No process except receive programs may use
    /// these entries any longer.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn sweep(&self, claims: &Claims) -> Result<(), Error> {
        let lost = |id: &u32| !claims.interfaces.contains(id);
        let all = 0..MAX_INTERFACES;
        let stray: Vec<u32> =
            all.filter(|id| lost(id) && self.interfaces.get(*id).max_frame != 0).collect();
        stray.iter().for_each(|id| self.halt_interface(*id));
        self.sweep_ports(claims)?;
        for table in ["exact", "prefix4", "prefix6", "bound4", "bound6"] {
            let map = self.map(table);
            let keys: Vec<Vec<u8>> = map.keys().collect();
            for key in keys {
                let value = map.lookup(&key, MapFlags::ANY).doing(format!("reading {table}"))?;
                let id = value.and_then(|value| Some(u32::from_ne_bytes(value.try_into().ok()?)));
                if id.as_ref().is_some_and(lost) {
                    map.delete(&key).doing(format!("cleaning {table}"))?;
                }
            }
        }
        self.sweep_groups(&lost)?;
        stray.iter().for_each(|id| self.clear_interface(*id));
        for id in (1..MAX_POOLS).filter(|id| !claims.pools.contains(id)) {
            let state = self.pool_state.get(id);
            if state.slots == 0 {
                continue;
            }
            for table in [Kind::from_state(state.kind).table(), "wakers"] {
                // It may never have been added.
                let _ = self.map(table).delete(&id.to_ne_bytes());
            }
            self.pool_state.set(id, layout::PoolState::default());
        }
        Ok(())
    }

    fn sweep_ports(&self, claims: &Claims) -> Result<(), Error> {
        let pins = fs::read_dir(self.directory()).doing("reading the pins")?;
        for pin in pins.flatten() {
            let name = pin.file_name();
            let id = name.to_str().and_then(|name| {
                name.strip_prefix("port_")?.trim_end_matches("_driver").parse().ok()
            });
            if id.is_some_and(|id: u32| !claims.ports.contains(&id)) {
                fs::remove_file(pin.path()).doing("unpinning a port")?;
            }
        }
        for place in 0..MAX_PORTS {
            let entry = self.ports.get(place);
            if entry.ifindex == 0 {
                continue;
            }
            if !claims.ports.contains(&entry.id) {
                for table in ["devices", "cage_devices"] {
                    let _ = self.map(table).delete(&entry.id.to_ne_bytes());
                }
                self.ports.set(place, layout::Port::default());
            } else if entry.all != NONE && !claims.interfaces.contains(&entry.all) {
                self.ports
                    .atomic_u32(place, offset_of!(layout::Port, all))
                    .store(NONE, Ordering::Release);
            }
        }
        Ok(())
    }

    /// Chains of interfaces that share port and VLAN skip lost interfaces.
    fn sweep_groups(&self, lost: &dyn Fn(&u32) -> bool) -> Result<(), Error> {
        let groups = self.map("groups");
        let keys: Vec<Vec<u8>> = groups.keys().collect();
        for key in keys {
            let next = |id: u32| self.next_of(id).load(Ordering::Acquire);
            let first_kept = |mut id: u32| {
                for _ in 0..MAX_INTERFACES {
                    if id >= MAX_INTERFACES {
                        return NONE;
                    }
                    if !lost(&id) {
                        return id;
                    }
                    id = next(id);
                }
                NONE
            };
            let old = self.group(&key)?;
            let first = first_kept(old);
            if first == NONE {
                groups.delete(&key).doing("cleaning a group")?;
                continue;
            }
            if first != old {
                groups
                    .update(&key, &first.to_ne_bytes(), MapFlags::ANY)
                    .doing("cleaning a group")?;
            }
            let mut at = first;
            for _ in 0..MAX_INTERFACES {
                let after = first_kept(next(at));
                self.next_of(at).store(after, Ordering::Release);
                if after == NONE {
                    break;
                }
                at = after;
            }
        }
        Ok(())
    }
}

fn open_pin(path: &Path) -> std::io::Result<OwnedFd> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: a terminated string.
    let fd = unsafe { libbpf_sys::bpf_obj_get(path.as_ptr()) };
    if fd < 0 {
        return Err(std::io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
