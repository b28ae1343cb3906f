//! Ports of the machine that programs of slow paths take by binding a port in their namespace.
//!
//! The programs are attached to the root of the control groups of version 2. Maps and attachments
//! are pinned, so binds are noticed while no node runs. `bpf/binds.bpf.c` has the other half.

use std::fs::{self, File};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle, MapMut, OpenObject, ProgramMut, RingBuffer,
    RingBufferBuilder,
};
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::programs::BindsSkelBuilder;
use crate::substrate::{Doing, Error, is_bpffs, mount_bpffs, unmount_bpffs};

/// Slices with reservations. `bpf/binds.bpf.c` has the same numbers.
pub const BIND_SLICES: u32 = 256;
/// Reservations of a slice.
pub const BIND_ROWS: u32 = 64;

const ROW_ANY: u8 = 1;
const ROW_FIXED: u8 = 2;
const MAPS: [&str; 3] = ["rows", "places", "changes"];

/// The holder of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindHolder {
    /// The number of the router.
    pub router: u16,
    /// The port in its slow path.
    pub inside: u16,
}

/// A reservation of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindRow {
    /// The number of the protocol in IP headers.
    pub protocol: u8,
    /// The port of the machine.
    pub port: u16,
    /// It serves any port inside.
    pub any: bool,
    /// Its holder was said by a document or a request: programs do not change it.
    pub fixed: bool,
    /// Its holder.
    pub holder: Option<BindHolder>,
    /// Number of sockets of the holder.
    pub sockets: u32,
}

impl BindRow {
    fn bytes(self) -> [u8; 16] {
        let holder = self
            .holder
            .map_or(0, |holder| (u64::from(holder.router) << 16 | u64::from(holder.inside)) << 32);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&(holder | u64::from(self.sockets)).to_ne_bytes());
        bytes[8..10].copy_from_slice(&self.port.to_ne_bytes());
        bytes[10] = self.protocol;
        bytes[11] = if self.any { ROW_ANY } else { 0 } | if self.fixed { ROW_FIXED } else { 0 };
        bytes
    }

    fn read(bytes: &[u8]) -> Option<BindRow> {
        let (word, rest) = bytes.split_first_chunk::<8>()?;
        let word = u64::from_ne_bytes(*word);
        let (port, rest) = rest.split_first_chunk::<2>()?;
        let &[protocol, flags, ..] = rest else { return None };
        if protocol == 0 {
            return None;
        }
        let holder = BindHolder { router: (word >> 48) as u16, inside: (word >> 32) as u16 };
        Some(BindRow {
            protocol,
            port: u16::from_ne_bytes(*port),
            any: flags & ROW_ANY != 0,
            fixed: flags & ROW_FIXED != 0,
            holder: (word != 0).then_some(holder),
            sockets: word as u32,
        })
    }
}

/// The network namespace of a slow path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindPlace {
    /// The number of the slice, less than [`BIND_SLICES`].
    pub slice: u32,
    /// The number of the router.
    pub router: u16,
    /// The IPv4 address of its uplink.
    pub v4: std::net::Ipv4Addr,
    /// The IPv6 address of its uplink.
    pub v6: std::net::Ipv6Addr,
}

impl BindPlace {
    fn bytes(self) -> [u8; 28] {
        let mut bytes = [0; 28];
        bytes[..4].copy_from_slice(&self.slice.to_ne_bytes());
        bytes[4..8].copy_from_slice(&u32::from(self.router).to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.v4.octets());
        bytes[12..].copy_from_slice(&self.v6.octets());
        bytes
    }
}

/// The tables of the programs, attached until [`Binds::remove`].
#[derive(Debug)]
pub struct Binds {
    rows: MapHandle,
    places: MapHandle,
    pins: PathBuf,
}

/// The root of the control groups of version 2, wherever it is mounted.
fn unified_root() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let root = |line: &str| {
        let (head, tail) = line.split_once(" - ")?;
        let path = head.split(' ').nth(4)?;
        tail.starts_with("cgroup2 ").then(|| PathBuf::from(path.replace("\\040", " ")))
    };
    mounts.lines().find_map(root)
}

/// Opens that root. Where it is not mounted, for example inside `ip netns exec`, it is mounted for
/// this moment.
fn open_root() -> io::Result<File> {
    if let Some(root) = unified_root() {
        return File::open(root);
    }
    let folder = std::env::temp_dir().join(format!("europa-cgroup2-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let none = None::<&str>;
    let opened = mount(Some("cgroup2"), &folder, Some("cgroup2"), MsFlags::empty(), none)
        .map_err(io::Error::from)
        .and_then(|()| {
            let opened = File::open(&folder);
            umount2(&folder, MntFlags::MNT_DETACH)?;
            opened
        });
    let _ = fs::remove_dir(&folder);
    opened
}

impl Binds {
    /// Finds the programs whose pins are in `directory`, or loads and attaches them.
    ///
    /// # Errors
    /// The machine has no control groups of version 2, or the kernel refuses the programs.
    pub fn open(directory: &Path) -> Result<Binds, Error> {
        fs::create_dir_all(directory).doing(format!("making {}", directory.display()))?;
        mount_bpffs(directory)?;
        // The last pin is made last.
        if !directory.join("released").exists() {
            attach(directory)?;
        }
        let map = |name: &str| {
            MapHandle::from_pinned_path(directory.join(name))
                .doing(format!("opening the map {name}"))
        };
        Ok(Binds { rows: map("rows")?, places: map("places")?, pins: directory.to_owned() })
    }

    /// Loads and attaches the programs, and detaches them at once.
    ///
    /// # Errors
    /// As [`Binds::open`].
    pub fn test() -> Result<(), Error> {
        with_programs(|_, _| Ok(()))
    }

    /// Detaches the programs with pins in `directory`. Does nothing if there are none.
    ///
    /// # Errors
    /// When the file system cannot be unmounted.
    pub fn remove(directory: &Path) -> Result<(), Error> {
        if is_bpffs(directory) {
            for entry in fs::read_dir(directory).doing("reading the pins")?.flatten() {
                let _ = fs::remove_file(entry.path());
            }
        }
        unmount_bpffs(directory)
    }

    fn key(slice: u32, row: u32) -> [u8; 4] {
        (slice % BIND_SLICES * BIND_ROWS + row % BIND_ROWS).to_ne_bytes()
    }

    /// A reservation of a slice; `None` for an unused row.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn row(&self, slice: u32, row: u32) -> Result<Option<BindRow>, Error> {
        let value = self.rows.lookup(&Self::key(slice, row), MapFlags::ANY);
        let value = value.doing("reading a reserved port")?;
        Ok(value.and_then(|bytes| BindRow::read(&bytes)))
    }

    /// Sets a reservation of a slice; programs lose it if they have it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_row(&self, slice: u32, row: u32, to: Option<BindRow>) -> Result<(), Error> {
        let bytes = to.map_or([0; 16], BindRow::bytes);
        let updated = self.rows.update(&Self::key(slice, row), &bytes, MapFlags::ANY);
        updated.doing("writing a reserved port")
    }

    /// Makes these the only namespaces in which binds count, by their cookies.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_places(&self, places: &[(u64, BindPlace)]) -> Result<(), Error> {
        for (cookie, place) in places {
            let key = cookie.to_ne_bytes();
            let updated = self.places.update(&key, &place.bytes(), MapFlags::ANY);
            updated.doing("writing the namespace of a slow path")?;
        }
        let is_wanted = |key: &[u8]| places.iter().any(|(cookie, _)| cookie.to_ne_bytes() == key);
        let gone: Vec<Vec<u8>> = self.places.keys().filter(|key| !is_wanted(key)).collect();
        for key in gone {
            self.places.delete(&key).doing("forgetting the namespace of a slow path")?;
        }
        Ok(())
    }

    /// Calls `noticed` after each change of rows by programs, and at least once in `every`, until it
    /// returns false. Blocks the thread.
    ///
    /// # Errors
    /// The ring of changes cannot be read.
    pub fn follow(
        pins: &Path,
        every: Duration,
        mut noticed: impl FnMut() -> bool,
    ) -> Result<(), Error> {
        let map = MapHandle::from_pinned_path(pins.join("changes")).doing("opening the changes")?;
        let mut builder = RingBufferBuilder::new();
        builder.add(&map, |_| 0).doing("reading changes")?;
        let ring: RingBuffer<'_> = builder.build().doing("reading changes")?;
        while noticed() {
            match ring.poll(every) {
                Err(error) if error.kind() != libbpf_rs::ErrorKind::Interrupted => {
                    return Err(error).doing("waiting for changes");
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The folder of its pins.
    pub fn pins(&self) -> &Path {
        &self.pins
    }
}

/// Loads the programs, attaches them, and calls `then` with maps and links, by name.
fn with_programs(
    then: impl FnOnce(&mut [(&str, &mut MapMut<'_>)], &mut [(&str, Link)]) -> Result<(), Error>,
) -> Result<(), Error> {
    let group = open_root().doing("opening the control groups of version 2")?;
    let mut object = MaybeUninit::<OpenObject>::uninit();
    let open = BindsSkelBuilder::default().open(&mut object).doing("opening 'binds'")?;
    let mut loaded = open.load().doing("loading 'binds'")?;
    let programs = &loaded.progs;
    let attach = |program: &ProgramMut<'_>| {
        program.attach_cgroup(group.as_raw_fd()).doing("attaching to the root of control groups")
    };
    let mut links = [
        ("bind4", attach(&programs.europa_bind4)?),
        ("bind6", attach(&programs.europa_bind6)?),
        ("bound4", attach(&programs.europa_bound4)?),
        ("bound6", attach(&programs.europa_bound6)?),
        ("released", attach(&programs.europa_released)?),
    ];
    let maps = &mut loaded.maps;
    let [rows, places, changes] = MAPS;
    let mut maps =
        [(rows, &mut maps.rows), (places, &mut maps.places), (changes, &mut maps.changes)];
    then(&mut maps, &mut links)
}

fn attach(directory: &Path) -> Result<(), Error> {
    // Remains of a node that was killed here.
    for entry in fs::read_dir(directory).doing("reading the pins")?.flatten() {
        let _ = fs::remove_file(entry.path());
    }
    with_programs(|maps, links| {
        for (name, map) in maps {
            map.pin(directory.join(&*name)).doing(format!("pinning the map {name}"))?;
        }
        for (name, link) in links {
            link.pin(directory.join(&*name)).doing(format!("pinning {name}"))?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_written_as_they_are_read() {
        let holder = Some(BindHolder { router: 4095, inside: 65_535 });
        for row in [
            BindRow { protocol: 6, port: 8080, any: false, fixed: false, holder: None, sockets: 0 },
            BindRow { protocol: 17, port: 1, any: true, fixed: false, holder, sockets: 7 },
            BindRow { protocol: 6, port: 65_535, any: true, fixed: true, holder, sockets: 0 },
        ] {
            assert_eq!(BindRow::read(&row.bytes()), Some(row));
        }
        assert_eq!(BindRow::read(&[0; 16]), None);
    }
}
