//! One node's maps and programs: makes them, finds them after a restart, removes them.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use europa_port::{Namespace, device_index, make_quiet_veth};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapHandle, OpenObject, PrintLevel, num_possible_cpus};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::utsname::uname;

use crate::layout::{self, HINTS, MAX_INTERFACES, MAX_METERS, MAX_POOLS, MAX_PORTS};
use crate::programs::{
    DrainedSkelBuilder, OpenTransmitSkel, ReceiveSkelBuilder, ReceiveTcSkelBuilder,
    TransmitSkelBuilder,
};
use crate::table::Table;

/// Errors in the work with the kernel's eBPF.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file, mount or descriptor.
    #[error("{what}: {error}")]
    Io {
        /// The attempted operation.
        what: String,
        /// The kernel's error.
        error: io::Error,
    },
    /// libbpf or the verifier.
    #[error("{what}: {error}")]
    Bpf {
        /// The attempted operation.
        what: String,
        /// libbpf's error.
        error: libbpf_rs::Error,
    },
    /// Another XDP program is attached to the device.
    #[error("another XDP program is attached")]
    Busy,
    /// A kernel that is too old.
    #[error("this kernel takes no receive program of tc")]
    NoTc,
    /// A table has no room.
    #[error("no room for another {0}")]
    Full(&'static str),
    /// Another interface has the match.
    #[error("{0} is taken by another interface")]
    Taken(String),
    /// A pool that cannot be.
    #[error(transparent)]
    Pool(#[from] europa_pool::ViewError),
    /// The pins belong to a version of Europa with other tables.
    #[error("{} was made by another version of Europa: it has no table {table}", directory.display())]
    AnotherVersion {
        /// The folder of the pins.
        directory: PathBuf,
        /// The missing table.
        table: &'static str,
    },
}

pub(crate) trait Doing<T> {
    fn doing(self, what: impl Into<String>) -> Result<T, Error>;
}

impl<T> Doing<T> for libbpf_rs::Result<T> {
    fn doing(self, what: impl Into<String>) -> Result<T, Error> {
        self.map_err(|error| Error::Bpf { what: what.into(), error })
    }
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, what: impl Into<String>) -> Result<T, Error> {
        self.map_err(|error| Error::Io { what: what.into(), error })
    }
}

impl<T> Doing<T> for nix::Result<T> {
    fn doing(self, what: impl Into<String>) -> Result<T, Error> {
        self.map_err(|error| Error::Io { what: what.into(), error: error.into() })
    }
}

/// The maps and programs of one node.
///
/// Maps and attachments are pinned in the node's BPF file system, which only root can enter. They
/// outlive every process, so that frames are received and queued while the node or the switch
/// restarts.
pub struct Substrate {
    directory: PathBuf,
    pub(crate) maps: HashMap<&'static str, MapHandle>,
    /// Receive programs of each namespace, by the namespace's inode.
    pub(crate) receive: HashMap<u64, Receive>,
    pub(crate) ports: Table<layout::Port>,
    pub(crate) interfaces: Table<layout::Interface>,
    pub(crate) hints: Table<layout::Hint>,
    pub(crate) meters: Table<layout::Meter>,
    pub(crate) fence: Table<layout::Fence>,
    pub(crate) encap: Table<layout::Encap>,
    pub(crate) pool_state: Table<layout::PoolState>,
    pub(crate) counters: Table<layout::Counters>,
    counter_rows: u32,
    /// Transmit programs that were loaded before they are needed, by worker.
    pub(crate) transmit: HashMap<u32, OwnedFd>,
    pub(crate) drained: OnceCell<OwnedFd>,
}

/// The receive programs of a namespace.
pub(crate) struct Receive {
    /// The namespace's number in the table of ports.
    pub(crate) number: u32,
    /// For the driver.
    pub(crate) xdp: OwnedFd,
    /// The receive program for the network stack, if the kernel accepts it.
    pub(crate) tc: Option<OwnedFd>,
}

/// The first Linux whose verifier accepts the receive program of tc. Kernels before 6.13 add up the
/// stacks of all calls.
const TC_SINCE: (u32, u32) = (6, 18);

/// Whether ports can receive by tc on this kernel.
pub fn has_tc() -> bool {
    let version = uname().ok().and_then(|name| {
        let release = name.release().to_str()?.to_owned();
        let mut numbers = release.split(|c: char| !c.is_ascii_digit());
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    });
    version.is_some_and(|version: (u32, u32)| version >= TC_SINCE)
}

const MAPS: [&str; 29] = [
    "exact",
    "usual_pools",
    "small_pools",
    "large_pools",
    "wakers",
    "ports",
    "interfaces",
    "hints",
    "meters",
    "fence",
    "encap",
    "pool_state",
    "counters",
    "receivers",
    "transmit_list",
    "workers",
    "tap_state",
    "tap_rings",
    "groups",
    "prefix4",
    "prefix6",
    "bound4",
    "bound6",
    "cages",
    "judges",
    "caged",
    "cage_frames",
    "cage_zeros",
    "cage_devices",
];

impl Substrate {
    /// Opens the substrate whose pins are in `directory`. If there is none, makes it.
    ///
    /// # Errors
    /// The refused operation.
    pub fn open(directory: &Path) -> Result<Self, Error> {
        libbpf_rs::set_print(Some((PrintLevel::Warn, |_, text| {
            tracing::warn!(target: "libbpf", "{}", text.trim_end());
        })));
        fs::create_dir_all(directory).doing(format!("making {}", directory.display()))?;
        if !is_bpffs(directory) {
            mount(Some("bpf"), directory, Some("bpf"), MsFlags::empty(), Some("mode=0700"))
                .doing(format!("mounting a BPF file system on {}", directory.display()))?;
        }
        let counter_rows = num_possible_cpus().doing("counting CPUs")? as u32 + 1;
        make_maps(directory, counter_rows)?;
        let mut maps = HashMap::new();
        for name in MAPS.into_iter().chain(["devices"]) {
            let map = MapHandle::from_pinned_path(directory.join(name))
                .doing(format!("opening the map {name}"))?;
            maps.insert(name, map);
        }
        let mapped = "mapping a table";
        Ok(Self {
            ports: Table::new(&maps["ports"], MAX_PORTS).doing(mapped)?,
            interfaces: Table::new(&maps["interfaces"], MAX_INTERFACES).doing(mapped)?,
            hints: Table::new(&maps["hints"], HINTS).doing(mapped)?,
            meters: Table::new(&maps["meters"], MAX_METERS).doing(mapped)?,
            fence: Table::new(&maps["fence"], 1).doing(mapped)?,
            encap: Table::new(&maps["encap"], MAX_INTERFACES).doing(mapped)?,
            pool_state: Table::new(&maps["pool_state"], MAX_POOLS).doing(mapped)?,
            counters: Table::new(&maps["counters"], MAX_INTERFACES * counter_rows).doing(mapped)?,
            maps,
            receive: HashMap::new(),
            transmit: HashMap::new(),
            counter_rows,
            drained: OnceCell::new(),
            directory: directory.to_owned(),
        })
    }

    /// Detaches all programs and removes all pins below `directory`. Does nothing if there are
    /// none.
    ///
    /// # Errors
    /// When the file system cannot be unmounted.
    pub fn remove(directory: &Path) -> Result<(), Error> {
        if is_bpffs(directory) {
            for entry in fs::read_dir(directory).doing("reading the pins")?.flatten() {
                // bpffs has read-only entries of its own, which are removed with the mount.
                let _ = fs::remove_file(entry.path());
            }
            umount2(directory, MntFlags::MNT_DETACH)
                .doing(format!("unmounting {}", directory.display()))?;
        }
        match fs::remove_dir(directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).doing(format!("removing {}", directory.display()))
            }
            _ => Ok(()),
        }
    }

    /// The folder of the pins.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Number of rows of a counter: one for each CPU, and one for the switch.
    pub fn counter_rows(&self) -> u32 {
        self.counter_rows
    }

    pub(crate) fn map(&self, name: &'static str) -> &MapHandle {
        &self.maps[name]
    }

    /// A descriptor of a map for a switch: `workers`, `transmit_list`, `interfaces`,
    /// `encap`, `pool_state`, `counters`, `tap_state` or `fence`. That of `fence` is for reading only.
    ///
    /// # Errors
    /// When this process has no descriptor left.
    pub fn share(&self, map: &'static str) -> Result<OwnedFd, Error> {
        if map == "fence" {
            return open_read_only(&self.directory.join(map)).doing("opening the map fence");
        }
        self.map(map).as_fd().try_clone_to_owned().doing("duplicating a descriptor")
    }

    /// Worker `worker`'s instance of the transmit program; loaded at first use.
    ///
    /// # Errors
    /// The verifier's message.
    pub fn transmit_program(&self, worker: u32) -> Result<OwnedFd, Error> {
        if let Some(program) = self.transmit.get(&worker) {
            return program.try_clone().doing("duplicating a descriptor");
        }
        load_transmit(&self.directory, worker, self.counter_rows)
    }

    /// The program that [`Drained`](crate::Drained) runs; loaded at first use.
    ///
    /// # Errors
    /// The verifier's message. If the kernel does not describe its types (BTF) or has no veth,
    /// libbpf's message.
    pub fn drained_program(&self) -> Result<&OwnedFd, Error> {
        if let Some(program) = self.drained.get() {
            return Ok(program);
        }
        let program = load_drained(&self.directory)?;
        Ok(self.drained.get_or_init(|| program))
    }

    /// Attaches transmit programs where they never receive a frame; any thread can.
    pub fn parking(&self) -> Parking {
        Parking { directory: self.directory.clone() }
    }

    /// The receive programs of `namespace`; loaded at first use.
    pub(crate) fn receive_programs(&mut self, namespace: &Namespace) -> Result<&Receive, Error> {
        Ok(match self.receive.entry(namespace.inode) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(free) => {
                free.insert(load_receive(&self.directory, namespace.inode, self.counter_rows)?)
            }
        })
    }

    /// Sum over all CPUs of the counters of interface `interface`.
    pub fn counters(&self, interface: u32) -> layout::Counters {
        sum_counters(&self.counters, self.counter_rows, interface)
    }

    /// Counts of received frames for each CPU, for a thread that reads them at intervals.
    ///
    /// # Errors
    /// The error of mmap(2).
    pub fn receivers(&self) -> Result<Table<layout::Receiver>, Error> {
        Table::new(self.map("receivers"), self.counter_rows).doing("mapping a table")
    }

    /// The port table's entry of port `id`.
    pub fn port_entry(&self, id: u32) -> Option<layout::Port> {
        (0..MAX_PORTS).map(|place| self.ports.get(place)).find(|p| p.ifindex != 0 && p.id == id)
    }

    /// The state of pool `id`, for statistics.
    pub fn pool_state(&self, id: u32) -> layout::PoolState {
        self.pool_state.get(id)
    }
}

/// Attaches transmit programs where they never receive a frame.
#[derive(Debug)]
pub struct Parking {
    directory: PathBuf,
}

impl Parking {
    /// Attaches worker `worker`'s transmit program where it never receives a frame: to a separate
    /// device in `namespace`, the loopback device for the first worker, one half of a veth pair for
    /// each other worker. None of them is up: for a received frame the program would run beside the
    /// worker that kicks, and both would take entries of one list. A live run of an unattached
    /// program waits 24 ms for RCU each time. The attachment is pinned, as the node may end while
    /// the switch continues. Each worker has at most one.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn park(&self, worker: u32, program: &OwnedFd, namespace: &Namespace) -> Result<(), Error> {
        let what = "parking the transmit program";
        let device = match worker {
            0 => 1,
            _ => {
                let (name, peer) = (format!("parked{worker}"), format!("unused{worker}"));
                let end = |name| europa_port::End { namespace, name, mac: None };
                make_quiet_veth(end(&name), end(&peer), 1500).doing(what)?;
                device_index(namespace, &name).doing(what)?.ok_or(Error::Full("devices"))?
            }
        };
        let hook = Hook::Xdp(libbpf_sys::XDP_FLAGS_SKB_MODE);
        let link = europa_port::in_namespace(namespace, || attach(program.as_fd(), device, hook))
            .doing("entering the transmit program's namespace")?
            .doing(what)?;
        let place = self.directory.join(format!("parked-{worker}"));
        // The program of a switch that has ended.
        let _ = fs::remove_file(&place);
        pin(&link, &place).doing("pinning the parked transmit program")
    }
}

fn sum_counters(table: &Table<layout::Counters>, rows: u32, interface: u32) -> layout::Counters {
    let mut sum = layout::Counters::default();
    for row in 0..rows {
        let c = table.get(interface * rows + row);
        sum.rx_packets += c.rx_packets;
        sum.rx_bytes += c.rx_bytes;
        sum.rx_drop_ring += c.rx_drop_ring;
        sum.rx_drop_slots += c.rx_drop_slots;
        sum.rx_drop_long += c.rx_drop_long;
        sum.rx_checksums += c.rx_checksums;
        sum.tx_packets += c.tx_packets;
        sum.tx_bytes += c.tx_bytes;
        sum.tx_drop_source += c.tx_drop_source;
        sum.tx_drop_address += c.tx_drop_address;
        sum.tx_drop_vlan += c.tx_drop_vlan;
        sum.tx_drop_length += c.tx_drop_length;
        sum.tx_drop_pool += c.tx_drop_pool;
        sum.tx_drop_queue += c.tx_drop_queue;
        sum.tx_drop_device += c.tx_drop_device;
        sum.tx_drop_link += c.tx_drop_link;
        sum.tx_drop_filter += c.tx_drop_filter;
        sum.rx_drop_rate += c.rx_drop_rate;
        sum.rx_kernel_ns += c.rx_kernel_ns;
        sum.rx_drop_program += c.rx_drop_program;
        sum.rx_drop_aborted += c.rx_drop_aborted;
        sum.rx_drop_target += c.rx_drop_target;
        sum.tx_drop_hops += c.tx_drop_hops;
        sum.tx_drop_live += c.tx_drop_live;
        sum.tx_offered += c.tx_offered;
        sum.tx_elsewhere += c.tx_elsewhere;
        sum.tx_drop_line += c.tx_drop_line;
        sum.tx_drop_switch += c.tx_drop_switch;
        sum.rx_drop_fenced += c.rx_drop_fenced;
        sum.tx_drop_fenced += c.tx_drop_fenced;
    }
    sum
}

fn is_bpffs(path: &Path) -> bool {
    nix::sys::statfs::statfs(path)
        .is_ok_and(|s| s.filesystem_type() == nix::sys::statfs::BPF_FS_MAGIC)
}

/// Makes and pins the maps, or checks that the pinned maps are equal. This loads no program: the
/// verifier takes 40 ms, in which a node that adopts objects would keep other processes from a
/// core.
fn make_maps(directory: &Path, counter_rows: u32) -> Result<(), Error> {
    let is_pinned = |table: &str| directory.join(table).exists();
    let missing = MAPS.into_iter().find(|table| !is_pinned(table));
    if let (Some(table), true) = (missing, MAPS.into_iter().any(is_pinned)) {
        return Err(Error::AnotherVersion { directory: directory.to_owned(), table });
    }
    let mut object = MaybeUninit::uninit();
    let mut open = open_transmit(directory, &mut object, 0, counter_rows)?;
    open.progs.europa_transmit.set_autoload(false);
    open.load().doing("making maps").map(drop)
}

pub(crate) fn load_drained(directory: &Path) -> Result<OwnedFd, Error> {
    let what = "loading the program that looks into veths";
    let mut builder = DrainedSkelBuilder::default();
    builder.obj_builder.pin_root_path(directory).doing(what)?;
    let mut object = MaybeUninit::uninit();
    let loaded = builder.open(&mut object).doing(what)?.load().doing(what)?;
    loaded.progs.europa_drained.as_fd().try_clone_to_owned().doing(what)
}

pub(crate) fn load_transmit(
    directory: &Path,
    worker: u32,
    counter_rows: u32,
) -> Result<OwnedFd, Error> {
    let what = "loading the transmit program";
    let mut object = MaybeUninit::uninit();
    let loaded = open_transmit(directory, &mut object, worker, counter_rows)?.load().doing(what)?;
    loaded.progs.europa_transmit.as_fd().try_clone_to_owned().doing(what)
}

fn open_transmit<'o>(
    directory: &Path,
    object: &'o mut MaybeUninit<OpenObject>,
    worker: u32,
    counter_rows: u32,
) -> Result<OpenTransmitSkel<'o>, Error> {
    let what = "reading the transmit program";
    let mut builder = TransmitSkelBuilder::default();
    builder.obj_builder.pin_root_path(directory).doing(what)?;
    let mut open = builder.open(object).doing(what)?;
    let rodata = open.maps.rodata_data.as_mut().ok_or(Error::Full("constants"))?;
    rodata.worker = worker;
    rodata.counter_rows = counter_rows;
    open.maps.counters.set_max_entries(MAX_INTERFACES * counter_rows).doing(what)?;
    open.maps.receivers.set_max_entries(counter_rows).doing(what)?;
    Ok(open)
}

/// Opens a receive program, sets its constants, and loads it.
macro_rules! load_receive {
    (
        $builder:ty, $program:ident but $($other:ident)?,
        $directory:expr, $number:expr, $counter_rows:expr
    ) => {{
        let what = "loading the receive program";
        let mut builder = <$builder>::default();
        builder.obj_builder.pin_root_path($directory).doing(what)?;
        let mut object = MaybeUninit::uninit();
        let mut open = builder.open(&mut object).doing(what)?;
        let rodata = open.maps.rodata_data.as_mut().ok_or(Error::Full("constants"))?;
        rodata.namespace = $number;
        rodata.counter_rows = $counter_rows;
        open.maps.counters.set_max_entries(MAX_INTERFACES * $counter_rows).doing(what)?;
        open.maps.receivers.set_max_entries($counter_rows).doing(what)?;
        $(open.progs.$other.set_autoload(false);)?
        let loaded = open.load().doing(what)?;
        loaded.progs.$program.as_fd().try_clone_to_owned().doing(what)?
    }};
}

pub(crate) fn load_receive(
    directory: &Path,
    inode: u64,
    counter_rows: u32,
) -> Result<Receive, Error> {
    // Inode numbers of namespaces fit into 32 bits and are unique while the namespaces exist.
    let number = inode as u32;
    let rows = counter_rows;
    let xdp =
        load_receive!(ReceiveSkelBuilder, europa_receive but europa_judge, directory, number, rows);
    let tc = if has_tc() {
        Some(load_receive!(ReceiveTcSkelBuilder, europa_receive_tc but, directory, number, rows))
    } else {
        None
    };
    Ok(Receive { number, xdp, tc })
}

/// The program that judges the verdicts of routers' programs.
pub(crate) fn load_judge(directory: &Path, rows: u32) -> Result<OwnedFd, Error> {
    Ok(load_receive!(ReceiveSkelBuilder, europa_judge but europa_receive, directory, 0, rows))
}

/// The place on a device to which a program is attached.
#[derive(Clone, Copy)]
pub(crate) enum Hook {
    /// XDP, with the kernel's `XDP_FLAGS_`.
    Xdp(u32),
    /// Received frames, by tc (tcx, Linux 6.6).
    Ingress,
}

/// Attaches `program` to device `ifindex` of this thread's namespace by a BPF link.
pub(crate) fn attach(program: BorrowedFd<'_>, ifindex: u32, hook: Hook) -> io::Result<OwnedFd> {
    let (flags, place) = match hook {
        Hook::Xdp(flags) => (flags, libbpf_sys::BPF_XDP),
        Hook::Ingress => (0, libbpf_sys::BPF_TCX_INGRESS),
    };
    let options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as u64,
        flags,
        ..Default::default()
    };
    // SAFETY: `options` lives through the call; the other arguments are numbers.
    let link = unsafe {
        libbpf_sys::bpf_link_create(program.as_raw_fd(), ifindex as i32, place, &options)
    };
    if link < 0 {
        return Err(io::Error::from_raw_os_error(-link));
    }
    // SAFETY: a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(link) })
}

/// Whether device `ifindex` of this thread's namespace has an XDP program, or the tc receive
/// program of another node.
pub(crate) fn is_taken(ifindex: u32) -> bool {
    const MOST: usize = 64;
    let mut xdp = 0;
    // SAFETY: `xdp` is where the kernel's answer goes.
    unsafe { libbpf_sys::bpf_xdp_query_id(ifindex.cast_signed(), 0, &raw mut xdp) };
    let mut numbers = [0_u32; MOST];
    let mut options = libbpf_sys::bpf_prog_query_opts {
        sz: size_of::<libbpf_sys::bpf_prog_query_opts>() as u64,
        prog_ids: numbers.as_mut_ptr(),
        ..Default::default()
    };
    options.__bindgen_anon_1.prog_cnt = MOST as u32;
    let place = libbpf_sys::BPF_TCX_INGRESS;
    // SAFETY: `numbers` has room for the requested number of entries, and lives through the call.
    let result =
        unsafe { libbpf_sys::bpf_prog_query_opts(ifindex.cast_signed(), place, &raw mut options) };
    let is_ours =
        |number: &u32| name_of(*number).is_some_and(|name| name.starts_with("europa_receive"));
    xdp != 0 || result == 0 && numbers.iter().take_while(|number| **number != 0).any(is_ours)
}

/// The name of an eBPF program.
fn name_of(number: u32) -> Option<String> {
    // SAFETY: no memory is passed; a returned descriptor has no other owner.
    let program = unsafe {
        let program = libbpf_sys::bpf_prog_get_fd_by_id(number);
        (program >= 0).then(|| OwnedFd::from_raw_fd(program))?
    };
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut length = size_of::<libbpf_sys::bpf_prog_info>() as u32;
    // SAFETY: the kernel writes at most `length` bytes into `info`, which has this size.
    let result = unsafe {
        libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut info, &raw mut length)
    };
    let name = info.name.iter().map(|byte| byte.cast_unsigned()).take_while(|byte| *byte != 0);
    (result == 0).then(|| String::from_utf8_lossy(&name.collect::<Vec<u8>>()).into_owned())
}

/// Opens a pinned map without the right to write it.
fn open_read_only(path: &Path) -> io::Result<OwnedFd> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    let options = libbpf_sys::bpf_obj_get_opts {
        sz: size_of::<libbpf_sys::bpf_obj_get_opts>() as u64,
        file_flags: libbpf_sys::BPF_F_RDONLY,
        ..Default::default()
    };
    // SAFETY: a terminated string and options that live through the call.
    let map = unsafe { libbpf_sys::bpf_obj_get_opts(path.as_ptr(), &raw const options) };
    if map < 0 {
        return Err(io::Error::from_raw_os_error(-map));
    }
    // SAFETY: a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(map) })
}

/// Pins a BPF descriptor.
pub(crate) fn pin(fd: &OwnedFd, path: &Path) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: a valid descriptor and a terminated string.
    let result = unsafe { libbpf_sys::bpf_obj_pin(fd.as_raw_fd(), path.as_ptr()) };
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
}

/// The number of the device to which the link of a receive program belongs.
pub(crate) fn device_of(link: &OwnedFd) -> Option<u32> {
    let mut info = libbpf_sys::bpf_link_info::default();
    let mut length = size_of::<libbpf_sys::bpf_link_info>() as u32;
    // SAFETY: the kernel writes at most `length` bytes into `info`, which has this size.
    let result = unsafe {
        libbpf_sys::bpf_link_get_info_by_fd(link.as_raw_fd(), &raw mut info, &raw mut length)
    };
    if result < 0 {
        return None;
    }
    let kinds = info.__bindgen_anon_1;
    match info.type_ {
        // SAFETY: the fields are integers, and the link's type tells which of them is valid.
        libbpf_sys::BPF_LINK_TYPE_XDP => Some(unsafe { kinds.xdp.ifindex }),
        // SAFETY: as above.
        libbpf_sys::BPF_LINK_TYPE_TCX => Some(unsafe { kinds.tcx.ifindex }),
        _ => None,
    }
}
