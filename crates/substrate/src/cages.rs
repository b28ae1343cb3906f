//! Programs of routers with `run: kernel`: they are entered into the tables, found again, and
//! removed.
#![allow(unsafe_code)] // bpf_prog_get_fd_by_id and bpf_obj_get_info_by_fd have no safe form.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::Ordering;

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::layout::{CAGE_DEVICES, CAGED, NONE};
use crate::substrate::{Doing, Error, Substrate, load_judge};
use crate::verify::{MapShape, create_map, short};

/// The object of `bpf/cage.bpf.c`, for Europa's own linker.
pub const CAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/cage.o"));

/// Most maps that are found of a program.
const MAX_MAPS: usize = 1024;

/// A map that a loaded program holds.
#[derive(Debug)]
pub struct HeldMap {
    /// Its name, of 15 letters at most.
    pub name: String,
    /// The kernel's number of its type.
    pub type_number: u32,
    /// Bytes of a key.
    pub key_bytes: u32,
    /// Bytes of a value.
    pub value_bytes: u32,
    /// Most entries.
    pub max_entries: u32,
    /// The map.
    pub map: OwnedFd,
}

/// The sources of the judge. A separate thread loads the judge, as the verifier is slow.
#[derive(Clone, Debug)]
pub struct JudgeSource {
    directory: PathBuf,
    counter_rows: u32,
}

/// The loaded program that judges the verdicts of programs in cages.
#[derive(Debug)]
pub struct Judge(OwnedFd);

impl JudgeSource {
    /// Loads the judge of this version.
    ///
    /// # Errors
    /// The verifier's error.
    pub fn load(&self) -> Result<Judge, Error> {
        load_judge(&self.directory, self.counter_rows).map(Judge)
    }
}

impl Substrate {
    /// The sources of the judge.
    pub fn judge(&self) -> JudgeSource {
        JudgeSource { directory: self.directory().to_owned(), counter_rows: self.counter_rows() }
    }

    /// Makes this the judge that follows every program in a cage.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn seat_judge(&self, judge: &Judge) -> Result<(), Error> {
        let number = judge.0.as_raw_fd().to_ne_bytes();
        let what = "seating the judge of kernel routers";
        self.map("judges").update(&0_u32.to_ne_bytes(), &number, MapFlags::ANY).doing(what)
    }

    /// A map of the node for programs in cages: `judges`, `caged` or `cage_zeros`.
    ///
    /// # Errors
    /// No map has this name, or this process has no free descriptor.
    pub fn cage_map(&self, name: &str) -> Result<OwnedFd, Error> {
        let known = ["judges", "caged", "cage_zeros"].into_iter().find(|known| *known == name);
        let name = known.ok_or(Error::Full("maps of a cage"))?;
        self.map(name).as_fd().try_clone_to_owned().doing("duplicating a descriptor")
    }

    /// A table of a router's devices: it maps the router's own numbers to interfaces of the node.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn new_targets() -> Result<HeldMap, Error> {
        let what = "making a table of devices";
        let shape = MapShape {
            name: "cage_targets",
            type_number: libbpf_sys::BPF_MAP_TYPE_ARRAY,
            key_bytes: 4,
            value_bytes: 4,
            max_entries: CAGE_DEVICES,
            flags: 0,
            data: None,
        };
        let targets = HeldMap::create(&shape).doing(what)?;
        for device in 0..CAGE_DEVICES {
            targets.update(&device.to_ne_bytes(), &NONE.to_ne_bytes()).doing(what)?;
        }
        Ok(targets)
    }

    /// Enters the interfaces of a router into its table of devices, from device 1 on.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set_targets(targets: &HeldMap, interfaces: &[u32]) -> Result<(), Error> {
        for (device, interface) in (1_u32..).zip(interfaces) {
            targets
                .update(&device.to_ne_bytes(), &interface.to_ne_bytes())
                .doing("entering a router's devices")?;
        }
        Ok(())
    }

    /// Sends the frames from an interface to a program, beginning with the next one.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set_cage(&self, interface: u32, program: BorrowedFd<'_>) -> Result<(), Error> {
        let number = program.as_raw_fd().to_ne_bytes();
        self.map("cages")
            .update(&interface.to_ne_bytes(), &number, MapFlags::ANY)
            .doing("entering a kernel router's program")?;
        // The program is in the table before a frame is sent to it.
        self.flags_of(interface).fetch_or(CAGED, Ordering::Release);
        Ok(())
    }

    /// The frames that a program sends by an interface go to its router's process, through another
    /// interface `relay`.
    pub fn set_relay(&self, interface: u32, relay: u32) {
        self.relay_of(interface).store(relay + 1, Ordering::Release);
    }

    /// Removes an interface's program: frames enter its router's pool again.
    pub fn open_cage(&self, interface: u32) {
        self.flags_of(interface).fetch_and(!CAGED, Ordering::Release);
        // Most interfaces have none.
        let _ = self.map("cages").delete(&interface.to_ne_bytes());
    }

    /// Lets frames from an interface enter its router's pool again. The program stays in the table:
    /// receive programs may be about to call it.
    pub fn pass_by_cage(&self, interface: u32) {
        self.flags_of(interface).fetch_and(!CAGED, Ordering::Release);
    }

    /// Whether a program gets the frames from an interface.
    pub fn is_caged(&self, interface: u32) -> bool {
        self.flags_of(interface).load(Ordering::Acquire) & CAGED != 0
    }

    /// The maps of an interface's program; empty without a program.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn maps_of_cage(&self, interface: u32) -> Result<Vec<HeldMap>, Error> {
        let what = "looking at a kernel router's program";
        let found = self.map("cages").lookup(&interface.to_ne_bytes(), MapFlags::ANY);
        let Some(number) = found.doing(what)?.and_then(|value| value.try_into().ok()) else {
            return Ok(Vec::new());
        };
        maps_of(u32::from_ne_bytes(number)).doing(what)
    }
}

impl HeldMap {
    /// Makes a map.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn create(shape: &MapShape<'_>) -> io::Result<HeldMap> {
        Ok(HeldMap {
            map: create_map(shape)?,
            name: short(shape.name),
            type_number: shape.type_number,
            key_bytes: shape.key_bytes,
            value_bytes: shape.value_bytes,
            max_entries: shape.max_entries,
        })
    }

    /// Whether the map has this shape and name.
    pub fn is(&self, shape: &MapShape<'_>) -> bool {
        self.name == short(shape.name)
            && (self.type_number, self.key_bytes, self.value_bytes, self.max_entries)
                == (shape.type_number, shape.key_bytes, shape.value_bytes, shape.max_entries)
    }

    /// Whether each CPU has separate values.
    pub fn is_per_cpu(&self) -> bool {
        PER_CPU.contains(&self.type_number)
    }

    /// Bytes of a value in the kernel's interface.
    fn whole_value(&self) -> io::Result<usize> {
        let bytes = self.value_bytes as usize;
        if !self.is_per_cpu() {
            return Ok(bytes);
        }
        let cpus = libbpf_rs::num_possible_cpus().map_err(io::Error::other)?;
        Ok(bytes.next_multiple_of(8) * cpus)
    }

    /// Sets an entry, for each CPU if each has its own.
    ///
    /// # Errors
    /// A key or value of another size, or the kernel's error.
    pub fn update(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let sizes = (self.key_bytes as usize, self.value_bytes as usize);
        if (key.len(), value.len()) != sizes {
            return Err(io::Error::other("a key or value of another size"));
        }
        let mut one = value.to_vec();
        if self.is_per_cpu() {
            one.resize(value.len().next_multiple_of(8), 0);
        }
        let whole = one.repeat(self.whole_value()? / one.len().max(1));
        // SAFETY: key and value have the map's sizes and live until the call returns.
        let result = unsafe {
            libbpf_sys::bpf_map_update_elem(
                self.map.as_raw_fd(),
                key.as_ptr().cast(),
                whole.as_ptr().cast(),
                u64::from(libbpf_sys::BPF_ANY),
            )
        };
        outcome(result)
    }

    /// The values of a key, one for each CPU if each has its own; `None` if the key is missing.
    ///
    /// # Errors
    /// A key of another size, or the kernel's error.
    pub fn get(&self, key: &[u8]) -> io::Result<Option<Vec<Vec<u8>>>> {
        if key.len() != self.key_bytes as usize {
            return Err(io::Error::other("a key of another size"));
        }
        let mut whole = vec![0_u8; self.whole_value()?];
        // SAFETY: key and value have the map's sizes and live until the call returns.
        let result = unsafe {
            libbpf_sys::bpf_map_lookup_elem(
                self.map.as_raw_fd(),
                key.as_ptr().cast(),
                whole.as_mut_ptr().cast(),
            )
        };
        match outcome(result) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(nix::libc::ENOENT) => return Ok(None),
            Err(error) => return Err(error),
        }
        let bytes = self.value_bytes as usize;
        let each = if self.is_per_cpu() { bytes.next_multiple_of(8) } else { bytes };
        let values =
            whole.chunks(each.max(1)).map(|value| value.get(..bytes).unwrap_or(value).to_vec());
        Ok(Some(values.collect()))
    }

    /// The first keys, `most` at most.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn keys(&self, most: usize) -> io::Result<Vec<Vec<u8>>> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        while keys.len() < most {
            let mut next = vec![0_u8; self.key_bytes as usize];
            let last = keys.last().map_or(ptr::null(), |key| key.as_ptr());
            // SAFETY: both keys have the map's size and live until the call returns.
            let result = unsafe {
                libbpf_sys::bpf_map_get_next_key(
                    self.map.as_raw_fd(),
                    last.cast(),
                    next.as_mut_ptr().cast(),
                )
            };
            match outcome(result) {
                Ok(()) => keys.push(next),
                Err(error) if error.raw_os_error() == Some(nix::libc::ENOENT) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(keys)
    }

    /// Removes a key. Returns whether it existed.
    ///
    /// # Errors
    /// A key of another size, or the kernel's error.
    pub fn remove(&self, key: &[u8]) -> io::Result<bool> {
        if key.len() != self.key_bytes as usize {
            return Err(io::Error::other("a key of another size"));
        }
        // SAFETY: the key has the map's size and lives until the call returns.
        let result =
            unsafe { libbpf_sys::bpf_map_delete_elem(self.map.as_raw_fd(), key.as_ptr().cast()) };
        match outcome(result) {
            Ok(()) => Ok(true),
            Err(error) if error.raw_os_error() == Some(nix::libc::ENOENT) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The kernel's numbers of maps with values for each CPU.
const PER_CPU: [u32; 3] = [5, 6, 10];

fn outcome(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
}

/// The maps of a program by its number.
fn maps_of(program: u32) -> io::Result<Vec<HeldMap>> {
    // SAFETY: takes a number.
    let descriptor = unsafe { libbpf_sys::bpf_prog_get_fd_by_id(program) };
    if descriptor < 0 {
        return Err(io::Error::from_raw_os_error(-descriptor));
    }
    // SAFETY: the kernel has just made this descriptor for us.
    let program = unsafe { OwnedFd::from_raw_fd(descriptor) };
    let mut numbers = vec![0_u32; MAX_MAPS];
    let mut info = libbpf_sys::bpf_prog_info {
        nr_map_ids: MAX_MAPS as u32,
        map_ids: numbers.as_mut_ptr() as u64,
        ..Default::default()
    };
    let mut bytes = size_of_val(&info) as u32;
    // SAFETY: the info has room for `bytes`, and the list has room for the stated number of map
    // numbers.
    let result = unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(
            program.as_raw_fd(),
            ptr::from_mut(&mut info).cast(),
            &raw mut bytes,
        )
    };
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-result));
    }
    numbers.truncate(info.nr_map_ids as usize);
    numbers.into_iter().map(held).collect()
}

fn held(number: u32) -> io::Result<HeldMap> {
    let map = MapHandle::from_map_id(number).map_err(io::Error::other)?;
    let info = map.info().map_err(io::Error::other)?.info;
    let name: Vec<u8> = info.name.iter().map(|letter| letter.cast_unsigned()).collect();
    let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
    Ok(HeldMap {
        name: name.to_string_lossy().into_owned(),
        type_number: info.type_,
        key_bytes: info.key_size,
        value_bytes: info.value_size,
        max_entries: info.max_entries,
        map: map.as_fd().try_clone_to_owned()?,
    })
}
