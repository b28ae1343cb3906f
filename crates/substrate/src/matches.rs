//! Decides which interface a frame belongs to: interfaces and their matches in the look-up tables.

use std::mem::offset_of;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use europa_pool::Layout;
use ipnet::IpNet;
use libbpf_rs::{MapCore, MapFlags};

use crate::layout::{self, HINTS, MAX_INTERFACES, NONE};
use crate::pool::PoolHandle;
use crate::ports::PortAttachment;
use crate::substrate::{Doing, Error, Substrate};

/// The property by which a frame of a port belongs to an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MatchKind {
    /// The destination MAC address of frames.
    Mac([u8; 6]),
    /// The UDP destination port of frames to the port's own MAC address.
    Udp(u16),
    /// The VXLAN network identifier; the router gets the inner frame.
    Vxlan(u32),
    /// The label on top of the MPLS stack.
    Mpls(u32),
    /// The IP destination of frames to the port's own MAC address.
    Prefix(IpNet),
    /// All frames without another match: those of the VLAN, or those of the port if no VLAN is
    /// given.
    All,
}

/// A match on one VLAN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// VLAN identifier; 0 for untagged frames.
    pub vlan: u16,
    /// The match to find.
    pub kind: MatchKind,
}

/// A router's interface in the substrate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceSpec {
    /// The router's own number for the interface.
    pub local: u32,
    /// The VLAN whose tag is removed from received frames and added to sent ones; 0 for none.
    pub vlan: u16,
    /// Source address of its packets.
    pub mac: [u8; 6],
    /// The longest frame that the interface may send, in bytes, with its Ethernet header.
    pub max_frame: u32,
    /// Flags of [`layout`], without those that follow from other fields.
    pub flags: u32,
    /// The matches of its frames.
    pub matches: Vec<Match>,
    /// Source addresses that the interface may use; empty means any.
    pub bound: Vec<IpNet>,
    /// Headers before each frame: 50 or 70 bytes, or none.
    pub encap: Vec<u8>,
}

/// How many of its matches and source addresses an interface has in the tables.
#[derive(Default)]
struct Entered {
    matches: usize,
    bound: usize,
}

impl Substrate {
    /// Adds an interface: from now on, its frames enter `pool`. Returns the interface's number.
    ///
    /// # Errors
    /// A table is full, or another interface has one of the matches; then nothing is added.
    pub fn add_interface(
        &self,
        spec: &InterfaceSpec,
        port: Option<&PortAttachment>,
        pool: &PoolHandle,
    ) -> Result<u32, Error> {
        let id = (0..MAX_INTERFACES)
            .find(|id| self.interfaces.get(*id).max_frame == 0)
            .ok_or(Error::Full("interface"))?;
        let mut entered = Entered::default();
        let done = self.enter_interface(id, spec, port, pool, &mut entered);
        if done.is_err() {
            self.withdraw(id, spec, port, &entered);
        }
        done.map(|()| id)
    }

    /// Adds an interface's part to every table. `entered` counts the entries that another interface
    /// could also have.
    fn enter_interface(
        &self,
        id: u32,
        spec: &InterfaceSpec,
        port: Option<&PortAttachment>,
        pool: &PoolHandle,
        entered: &mut Entered,
    ) -> Result<(), Error> {
        for prefix in &spec.bound {
            self.prefix_update(["bound4", "bound6"], id, *prefix, id)?;
            entered.bound += 1;
        }
        self.set_encap(id, &spec.encap);
        let mut flags = spec.flags;
        if spec.vlan != 0 {
            flags |= layout::STRIP_VLAN;
        }
        if !spec.bound.is_empty() {
            flags |= layout::BOUND;
        }
        if !spec.encap.is_empty() {
            flags |= layout::VXLAN;
        }
        self.write_interface(id, spec, flags, port.map_or(NONE, |p| p.id), pool);
        if let Some(port) = port {
            for one in &spec.matches {
                self.add_match(port, id, one)?;
                entered.matches += 1;
            }
            // An interface without matches only sends by the port. It gets no copies of multicast
            // frames either.
            if !spec.matches.is_empty() {
                self.join_group(port, spec.vlan, id)?;
            }
        }
        Ok(())
    }

    /// Removes an interface's entries, also after a failure: another interface may soon have its
    /// number, and another pool the number of its pool.
    fn withdraw(
        &self,
        id: u32,
        spec: &InterfaceSpec,
        port: Option<&PortAttachment>,
        entered: &Entered,
    ) {
        self.halt_interface(id);
        for one in spec.matches.iter().take(entered.matches) {
            let _ = port.map_or(Ok(()), |port| self.remove_match(port, id, one));
        }
        for prefix in spec.bound.iter().take(entered.bound) {
            let _ = self.prefix_delete(["bound4", "bound6"], id, *prefix);
        }
        self.clear_interface(id);
    }

    /// Moves an interface to another pool of the same geometry, because its router restarts: each
    /// frame enters one of the two pools. Receive programs may still use the former pool, but not
    /// an earlier one, so each cursor exists twice.
    pub fn hand_over(&self, id: u32, pool: &PoolHandle) {
        let odd = !self.interfaces.get(id).is_odd();
        for cursor in
            [offset_of!(layout::Interface, rx_tail), offset_of!(layout::Interface, tx_head)]
        {
            let own = cursor + usize::from(odd) * size_of::<u32>();
            self.interfaces.atomic_u32(id, own).store(0, Ordering::Relaxed);
        }
        let word = pool.id | if odd { layout::POOL_ODD } else { 0 };
        self.pool_of(id).store(word, Ordering::Release);
    }

    /// Moves an interface to another port, with its spec's matches there. If the interface takes a
    /// whole port, the present owner loses it: every frame enters one of the two, and none is lost.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn connect(
        &self,
        id: u32,
        spec: &InterfaceSpec,
        port: &PortAttachment,
    ) -> Result<(), Error> {
        self.port_of(id).store(port.id, Ordering::Release);
        spec.matches.iter().try_for_each(|one| self.add_match(port, id, one))?;
        if spec.matches.is_empty() { Ok(()) } else { self.join_group(port, spec.vlan, id) }
    }

    /// Removes an interface from a port that is removed.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn disconnect(
        &self,
        id: u32,
        spec: &InterfaceSpec,
        port: &PortAttachment,
    ) -> Result<(), Error> {
        self.leave(id, spec, port)?;
        spec.matches.iter().try_for_each(|one| self.remove_match(port, id, one))?;
        self.port_of(id).store(NONE, Ordering::Release);
        Ok(())
    }

    /// Removes an interface from the groups of a port; another interface has its match.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn leave(&self, id: u32, spec: &InterfaceSpec, port: &PortAttachment) -> Result<(), Error> {
        self.leave_group(port, spec.vlan, id)?;
        self.next_of(id).store(NONE, Ordering::Release);
        Ok(())
    }

    fn port_of(&self, id: u32) -> &AtomicU32 {
        self.interfaces.atomic_u32(id, offset_of!(layout::Interface, port))
    }

    pub(crate) fn relay_of(&self, id: u32) -> &AtomicU32 {
        self.interfaces.atomic_u32(id, offset_of!(layout::Interface, relay))
    }

    fn pool_of(&self, id: u32) -> &AtomicU32 {
        self.interfaces.atomic_u32(id, offset_of!(layout::Interface, pool))
    }

    /// Changes the headers before an interface's frames, because the next hop of its tunnel has
    /// another address.
    ///
    /// # Panics
    /// If the headers have more than 72 bytes.
    pub fn set_encap(&self, id: u32, header: &[u8]) {
        let mut entry = layout::Encap { bytes: header.len() as u32, ..Default::default() };
        entry.header[..header.len()].copy_from_slice(header);
        self.encap.set(id, entry);
    }

    /// Stops delivery to an interface that will be removed.
    pub fn halt_interface(&self, id: u32) {
        // Pool 0 is never made.
        self.pool_of(id).store(0, Ordering::Release);
    }

    /// Takes an interface and its matches out of the tables.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn remove_interface(
        &self,
        id: u32,
        spec: &InterfaceSpec,
        port: Option<&PortAttachment>,
    ) -> Result<(), Error> {
        if let Some(port) = port {
            self.leave_group(port, spec.vlan, id)?;
            for one in &spec.matches {
                self.remove_match(port, id, one)?;
            }
        }
        for prefix in &spec.bound {
            self.prefix_delete(["bound4", "bound6"], id, *prefix)?;
        }
        self.clear_interface(id);
        Ok(())
    }

    pub(crate) fn clear_interface(&self, id: u32) {
        self.open_cage(id);
        self.interfaces.set(id, layout::Interface::default());
        self.encap.set(id, layout::Encap::default());
        for row in 0..self.counter_rows() {
            self.counters.set(id * self.counter_rows() + row, layout::Counters::default());
        }
    }

    fn write_interface(
        &self,
        id: u32,
        spec: &InterfaceSpec,
        flags: u32,
        port: u32,
        pool: &PoolHandle,
    ) {
        let layout: &Layout = &pool.layout;
        let rx = layout.rx(spec.local);
        let old = self.interfaces.get(id);
        // Captures and rates continue after a restart of the router.
        let (next, taps, meter) =
            if old.max_frame == 0 { (NONE, 0, 0) } else { (old.next, old.taps, old.meter) };
        self.interfaces.set(
            id,
            layout::Interface {
                pool: 0,
                local: spec.local,
                port,
                flags,
                rx_first: rx.first_word,
                rx_mask: rx.words - 1,
                next,
                vlan: spec.vlan,
                mac: spec.mac,
                max_frame: spec.max_frame,
                taps,
                meter,
                ..Default::default()
            },
        );
        self.pool_of(id).store(pool.id, Ordering::Release);
    }

    fn add_match(&self, port: &PortAttachment, id: u32, one: &Match) -> Result<(), Error> {
        if let (MatchKind::All, 0) = (&one.kind, one.vlan) {
            self.change_port(port, |entry| {
                entry.all = id;
                entry.flags |= layout::PORT_HAS_ALL;
            });
            return Ok(());
        }
        if let MatchKind::Prefix(prefix) = one.kind {
            self.prefix_update(["prefix4", "prefix6"], scope(port, one.vlan), prefix, id)?;
        } else {
            let (key, _) = exact(port, one);
            match self.map("exact").update(&key, &id.to_ne_bytes(), MapFlags::NO_EXIST) {
                Err(error) if error.kind() == libbpf_rs::ErrorKind::AlreadyExists => {
                    return Err(Error::Taken(format!("{one:?}")));
                }
                other => other.doing("entering a match")?,
            }
        }
        let (_, flag) = exact(port, one);
        self.change_port(port, |entry| entry.flags |= flag);
        if let MatchKind::Mac(mac) = one.kind {
            self.hint(port, id, mac, one.vlan);
        }
        Ok(())
    }

    /// Lets the receive program find an interface without a look-up of its match; the match must be
    /// in the table.
    fn hint(&self, port: &PortAttachment, id: u32, mac: [u8; 6], vlan: u16) {
        let entry = self.interfaces.get(id);
        if (entry.mac, entry.vlan) == (mac, vlan) {
            self.hints
                .set(hint_place(port, mac, vlan), layout::Hint { interface: id, reserved: 0 });
            self.flags_of(id).fetch_or(layout::BY_MAC, Ordering::Release);
        }
    }

    pub(crate) fn flags_of(&self, id: u32) -> &AtomicU32 {
        self.interfaces.atomic_u32(id, offset_of!(layout::Interface, flags))
    }

    fn remove_match(&self, port: &PortAttachment, id: u32, one: &Match) -> Result<(), Error> {
        if let MatchKind::Mac(_) = one.kind {
            self.flags_of(id).fetch_and(!layout::BY_MAC, Ordering::Release);
        }
        match (&one.kind, one.vlan) {
            (MatchKind::All, 0) => self.change_port(port, |entry| entry.all = NONE),
            (MatchKind::Prefix(prefix), vlan) => {
                self.prefix_delete(["prefix4", "prefix6"], scope(port, vlan), *prefix)?;
            }
            _ => self.map("exact").delete(&exact(port, one).0).doing("taking a match out")?,
        }
        Ok(())
    }

    /// Adds the interface to the chain of those that share port and VLAN.
    fn join_group(&self, port: &PortAttachment, vlan: u16, id: u32) -> Result<(), Error> {
        let key = scope(port, vlan).to_ne_bytes();
        let first = self.group(&key)?;
        self.next_of(id).store(first, Ordering::Release);
        self.map("groups")
            .update(&key, &id.to_ne_bytes(), MapFlags::ANY)
            .doing("entering an interface into its group")
    }

    fn leave_group(&self, port: &PortAttachment, vlan: u16, id: u32) -> Result<(), Error> {
        let key = scope(port, vlan).to_ne_bytes();
        let after = self.next_of(id).load(Ordering::Acquire);
        let mut at = self.group(&key)?;
        if at == id {
            let groups = self.map("groups");
            let left = match after {
                // An empty group would occupy an entry.
                NONE => groups.delete(&key),
                after => groups.update(&key, &after.to_ne_bytes(), MapFlags::ANY),
            };
            return left.doing("taking an interface out of its group");
        }
        for _ in 0..MAX_INTERFACES {
            if at == NONE {
                break;
            }
            let next = self.next_of(at).load(Ordering::Acquire);
            if next == id {
                self.next_of(at).store(after, Ordering::Release);
                break;
            }
            at = next;
        }
        Ok(())
    }

    pub(crate) fn group(&self, key: &[u8]) -> Result<u32, Error> {
        let found = self.map("groups").lookup(key, MapFlags::ANY).doing("reading a group")?;
        Ok(found.and_then(|v| Some(u32::from_ne_bytes(v.try_into().ok()?))).unwrap_or(NONE))
    }

    pub(crate) fn next_of(&self, id: u32) -> &AtomicU32 {
        self.interfaces.atomic_u32(id, offset_of!(layout::Interface, next))
    }

    fn prefix_update(
        &self,
        tables: [&'static str; 2],
        scope: u32,
        prefix: IpNet,
        id: u32,
    ) -> Result<(), Error> {
        let (table, key) = prefix_key(tables, scope, prefix);
        match self.map(table).update(&key, &id.to_ne_bytes(), MapFlags::NO_EXIST) {
            Err(error) if error.kind() == libbpf_rs::ErrorKind::AlreadyExists => {
                Err(Error::Taken(format!("the prefix {prefix}")))
            }
            other => other.doing("entering a prefix"),
        }
    }

    fn prefix_delete(
        &self,
        tables: [&'static str; 2],
        scope: u32,
        prefix: IpNet,
    ) -> Result<(), Error> {
        let (table, key) = prefix_key(tables, scope, prefix);
        self.map(table).delete(&key).doing("taking a prefix out")
    }
}

/// Port and VLAN in one word, as in `bpf/classify.h`.
fn scope(port: &PortAttachment, vlan: u16) -> u32 {
    port.id << 16 | u32::from(vlan)
}

/// The position of the hint for a MAC address, as in `bpf/substrate.h`.
fn hint_place(port: &PortAttachment, mac: [u8; 6], vlan: u16) -> u32 {
    let (mut address, tag) = ([0; 8], vlan.to_le_bytes());
    address[..6].copy_from_slice(&mac);
    address[6..].copy_from_slice(&tag);
    let number = u64::from_le_bytes(address) ^ u64::from(port.id);
    // Every bit affects the upper half.
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32 % HINTS
}

/// The key of a longest-prefix table: bits, scope, address.
fn prefix_key(tables: [&'static str; 2], scope: u32, prefix: IpNet) -> (&'static str, Vec<u8>) {
    let bits = 32 + u32::from(prefix.prefix_len());
    let mut key = bits.to_ne_bytes().to_vec();
    key.extend(scope.to_ne_bytes());
    match prefix.network() {
        IpAddr::V4(address) => key.extend(address.octets()),
        IpAddr::V6(address) => key.extend(address.octets()),
    }
    (tables[usize::from(prefix.network().is_ipv6())], key)
}

/// The key in the table of exact matches, and the port's flag that such a match exists.
fn exact(port: &PortAttachment, one: &Match) -> ([u8; 12], u32) {
    let number = |value: u32| {
        let mut bytes = [0; 6];
        bytes[2..].copy_from_slice(&value.to_be_bytes());
        bytes
    };
    let (kind, value, flag, vlan) = match &one.kind {
        MatchKind::Mac(mac) => (layout::MATCH_MAC, *mac, 0, one.vlan),
        MatchKind::Udp(port) => {
            (layout::MATCH_UDP, number((*port).into()), layout::PORT_HAS_UDP, one.vlan)
        }
        MatchKind::Vxlan(vni) => {
            (layout::MATCH_VXLAN, number(*vni), layout::PORT_HAS_VXLAN, one.vlan)
        }
        MatchKind::Mpls(label) => {
            (layout::MATCH_MPLS, number(*label), layout::PORT_HAS_MPLS, one.vlan)
        }
        MatchKind::Prefix(_) => (0, [0; 6], layout::PORT_HAS_PREFIX, one.vlan),
        MatchKind::All => (layout::MATCH_VLAN, number(one.vlan.into()), layout::PORT_HAS_ALL, 0),
    };
    let mut key = [0; 12];
    key[..2].copy_from_slice(&(port.id as u16).to_ne_bytes());
    key[2..4].copy_from_slice(&vlan.to_ne_bytes());
    key[4] = kind;
    key[6..].copy_from_slice(&value);
    (key, flag)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use europa_pool::Geometry;
    use europa_port::{Namespace, in_namespace};

    use super::*;
    use crate::PortMode;

    const PASS: u32 = 2;
    const DROP: u32 = 1;

    /// The receive program's verdict on a frame of the loopback device to this MAC address.
    fn receive(program: i32, mac: [u8; 6]) -> u32 {
        let mut frame = [0_u8; 64];
        frame[..6].copy_from_slice(&mac);
        let mut context =
            libbpf_sys::xdp_md { data_end: 64, ingress_ifindex: 1, ..Default::default() };
        let mut options = libbpf_sys::bpf_test_run_opts {
            sz: size_of::<libbpf_sys::bpf_test_run_opts>() as u64,
            data_in: frame.as_ptr().cast(),
            data_size_in: 64,
            ctx_in: (&raw mut context).cast(),
            ctx_size_in: size_of::<libbpf_sys::xdp_md>() as u32,
            repeat: 1,
            ..Default::default()
        };
        // SAFETY: all pointers in `options` are to live values of the sizes stated.
        let result = unsafe { libbpf_sys::bpf_prog_test_run_opts(program, &mut options) };
        assert_eq!(result, 0);
        options.retval
    }

    /// Removes a match from the hash table, if it belongs to this interface.
    fn forget(substrate: &Substrate, port: &PortAttachment, one: &Match) {
        substrate.map("exact").delete(&exact(port, one).0).unwrap();
    }

    #[test]
    fn what_cannot_be_entered_whole_is_not_entered() {
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: needs root");
            return;
        }
        let directory = std::env::temp_dir().join(format!("europa-undo-{}", std::process::id()));
        let result = std::panic::catch_unwind(|| {
            let mut substrate = Substrate::open(&directory).unwrap();
            let here = Namespace::fresh().unwrap();
            let port = substrate.attach_port(5, &here, 1, [0; 6], PortMode::Generic, true).unwrap();
            let geometry = Geometry { slots: 64, slot_bytes: 2048, interfaces: 2 };
            let pool = substrate.create_pool(geometry).unwrap();
            let taken = Match { vlan: 7, kind: MatchKind::Udp(9) };
            let prefix: IpNet = "10.1.0.0/16".parse().unwrap();
            let spec = |bound: &[IpNet], matches: &[Match]| InterfaceSpec {
                local: 0,
                vlan: 7,
                mac: [2, 0, 0, 7, 0, 9],
                max_frame: 1514,
                flags: 0,
                matches: matches.to_vec(),
                bound: bound.to_vec(),
                encap: Vec::new(),
            };
            let free = Match { vlan: 7, kind: MatchKind::Udp(8) };
            let first = spec(&[], std::slice::from_ref(&taken));
            let one = substrate.add_interface(&first, Some(&port), &pool).unwrap();
            for refused in [
                spec(&[prefix, prefix], &[]),
                spec(&[prefix], &[free.clone(), taken.clone()]),
                spec(&[], &[free.clone(), free.clone()]),
            ] {
                let error = substrate.add_interface(&refused, Some(&port), &pool).unwrap_err();
                assert!(matches!(error, Error::Taken(_)), "{error}");
                let right = spec(&[prefix], std::slice::from_ref(&free));
                let two = substrate.add_interface(&right, Some(&port), &pool).unwrap();
                assert_eq!(two, one + 1, "its number is free");
                substrate.remove_interface(two, &right, Some(&port)).unwrap();
            }
            substrate.remove_interface(one, &first, Some(&port)).unwrap();
            assert_eq!(substrate.map("groups").keys().count(), 0, "nobody is left");
            substrate.detach_port(port).unwrap();
            substrate.retire_pool(&pool).unwrap();
            substrate.delete_pool(pool).unwrap();
        });
        Substrate::remove(&directory).unwrap();
        result.unwrap();
    }

    #[test]
    fn a_hint_finds_an_interface_as_long_as_its_match_is_there() {
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: needs root");
            return;
        }
        let directory = std::env::temp_dir().join(format!("europa-hint-{}", std::process::id()));
        let result = std::panic::catch_unwind(|| {
            let mut substrate = Substrate::open(&directory).unwrap();
            let here = Namespace::fresh().unwrap();
            let port = substrate.attach_port(5, &here, 1, [0; 6], PortMode::Generic, true).unwrap();
            let program = substrate.receive[&here.inode].xdp.as_raw_fd();
            let geometry = Geometry { slots: 64, slot_bytes: 2048, interfaces: 2 };
            let pool = substrate.create_pool(geometry).unwrap();
            let specs = [0, 1].map(|local| {
                let mac = [2, 0, 0, 7, local, 9];
                InterfaceSpec {
                    local: local.into(),
                    vlan: 0,
                    mac,
                    max_frame: 1514,
                    flags: 0,
                    matches: vec![Match { vlan: 0, kind: MatchKind::Mac(mac) }],
                    bound: Vec::new(),
                    encap: Vec::new(),
                }
            });
            let says =
                |spec: &InterfaceSpec| in_namespace(&here, || receive(program, spec.mac)).unwrap();
            let [one, two] = &specs;
            let entered: Vec<u32> = specs
                .iter()
                .map(|spec| substrate.add_interface(spec, Some(&port), &pool).unwrap())
                .collect();
            assert_eq!((says(one), says(two)), (DROP, DROP));
            // The hint finds the interface without the table.
            forget(&substrate, &port, &one.matches[0]);
            assert_eq!(says(one), DROP);
            // A hint to another interface is invalid.
            let place = hint_place(&port, two.mac, 0);
            let wrong = layout::Hint { interface: entered[0], reserved: 0 };
            substrate.hints.set(place, wrong);
            assert_eq!(says(two), DROP, "the table does it");
            forget(&substrate, &port, &two.matches[0]);
            assert_eq!(says(two), PASS);
            // A hint to an interface that has lost its match is invalid too.
            substrate.add_match(&port, entered[0], &one.matches[0]).unwrap();
            substrate.disconnect(entered[0], one, &port).unwrap();
            assert_eq!(says(one), PASS);
            substrate.connect(entered[0], one, &port).unwrap();
            assert_eq!(says(one), DROP);
            substrate.remove_interface(entered[0], one, Some(&port)).unwrap();
            assert_eq!(says(one), PASS);
            substrate.detach_port(port).unwrap();
        });
        Substrate::remove(&directory).unwrap();
        result.unwrap();
    }
}
