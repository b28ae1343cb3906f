//! Europa's receive and transmit programs, with port, pools and transmit list but without node,
//! switch and routers. The minimal programs of `bpf/bare.bpf.c` are there for comparison.

use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering;

use europa_pool::layout::rx_offset;
use europa_pool::ring::{Consumer, put_unbounded, take_shared};
use europa_pool::{Geometry, PoolView, Word};
use europa_substrate::{
    InterfaceSpec, Kicker, Match, MatchKind, PoolHandle, PortAttachment, PortMode, Substrate,
    Table, layout,
};
use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder, Program, Xdp, XdpFlags};
use nix::errno::Errno;

use crate::error::{Context, Error, Result};
use crate::sink::{index_of, program_of};
use crate::testbed::{MAC, Testbed};

static BARE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bare.bpf.o"));

/// Where Europa's maps are pinned.
const DIRECTORY: &str = "/run/europa-bench-substrate";
/// The port's number in Europa's tables.
const PORT: u32 = 1;
/// `XDP_DROP` of `<linux/bpf.h>`.
const DROP: u32 = 1;
/// Frames of a live run between two flushes, as in [`Kicker::kick`].
const LIVE_BATCH: u32 = 64;

fn wrong(message: impl Into<String>) -> Error {
    Error::System { system: "europa's programs", message: message.into() }
}

/// Makes the kernel run a program over a frame of device `device`.
fn test_run(
    program: BorrowedFd<'_>,
    frame: &[u8],
    device: u32,
    options: libbpf_sys::bpf_test_run_opts,
) -> Result<libbpf_sys::bpf_test_run_opts> {
    let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
    let mut context =
        libbpf_sys::xdp_md { data_end: length, ingress_ifindex: device, ..Default::default() };
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as u64,
        data_in: frame.as_ptr().cast(),
        data_size_in: length,
        ctx_in: (&raw mut context).cast(),
        ctx_size_in: size_of::<libbpf_sys::xdp_md>() as u32,
        ..options
    };
    // SAFETY: all pointers in `options` are to live values of the sizes stated.
    let result = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &mut options) };
    match result {
        0 => Ok(options),
        error => Err(Errno::from_raw(-error)).context("running a program over a frame"),
    }
}

/// Mean nanoseconds of a program that drops a frame of device `device`, over `frames` runs.
fn drop_time(program: &OwnedFd, frames: u32, frame: &[u8], device: u32) -> Result<f64> {
    let options = libbpf_sys::bpf_test_run_opts { repeat: frames as i32, ..Default::default() };
    match test_run(program.as_fd(), frame, device, options)? {
        done if done.retval == DROP => Ok(done.duration.into()),
        done => Err(wrong(format!("what drops frames said {}", done.retval))),
    }
}

/// The minimal programs.
pub(crate) struct Bare {
    drop: OwnedFd,
    device: u32,
    redirect: OwnedFd,
    _attached: Vec<Link>,
    _object: Object,
}

impl Bare {
    /// Loads the programs. Frames leave by `g0`; this thread is in the namespace of `g0`.
    pub(crate) fn load(testbed: &Testbed) -> Result<Self> {
        let what = "loading the bare programs";
        let mut builder = ObjectBuilder::default();
        let object =
            builder.open_memory(BARE).and_then(libbpf_rs::OpenObject::load).context(what)?;
        let way_out = object.maps().find(|map| map.name() == "way_out");
        let way_out = way_out.ok_or_else(|| wrong("no map of the way out"))?;
        let device = testbed.generator.index("g0")?;
        let (key, value) = (0_u32.to_ne_bytes(), device.to_ne_bytes());
        way_out.update(&key, &value, MapFlags::ANY).context(what)?;
        let program =
            |name| program_of(&object, name)?.as_fd().try_clone_to_owned().context("a descriptor");
        let (drop, redirect) = (program("bare_drop")?, program("bare_redirect")?);
        // The programs are attached where they never run; see `Substrate::park`.
        let attach = |name| {
            let here = index_of("lo")?;
            program_of(&object, name)?.attach_xdp(here).context("attaching a bare program")
        };
        let attached = vec![
            testbed.router.within(|| attach("bare_drop"))?,
            testbed.sink.within(|| attach("bare_redirect"))?,
        ];
        Ok(Self { drop, device, redirect, _attached: attached, _object: object })
    }

    /// Drops a frame `frames` times. Returns the mean nanoseconds.
    pub(crate) fn receive(&self, frames: u32, frame: &[u8]) -> Result<f64> {
        drop_time(&self.drop, frames, frame, self.device)
    }

    /// Does the work of [`Kicker::kick`], but the frames already have their contents.
    pub(crate) fn kick(&self, frames: u32, frame: &[u8]) -> Result<()> {
        let options = libbpf_sys::bpf_test_run_opts {
            repeat: frames as i32,
            flags: libbpf_sys::BPF_F_TEST_XDP_LIVE_FRAMES,
            batch_size: LIVE_BATCH,
            ..Default::default()
        };
        test_run(self.redirect.as_fd(), frame, 0, options).map(drop)
    }
}

/// Removes pinned objects of a killed benchmark.
pub(crate) fn remove_leftovers() {
    // The next run reports a leftover that cannot be removed.
    let _ = Substrate::remove(Path::new(DIRECTORY));
}

/// Removes Europa's pinned maps and programs when dropped.
pub(crate) struct Pins;

impl Drop for Pins {
    fn drop(&mut self) {
        remove_leftovers();
    }
}

fn europa(error: europa_substrate::Error) -> Error {
    wrong(error.to_string())
}

/// Europa's maps and programs, with a port, pools for its packets, and a worker.
pub(crate) struct Europa {
    _port: PortAttachment,
    device: u32,
    receive: OwnedFd,
    pools: Vec<Pool>,
    ports: Table<layout::Port>,
    pool_state: Table<layout::PoolState>,
    kicker: Kicker,
    list: Table<layout::Transmit>,
    workers: Table<layout::Worker>,
    tail: u32,
}

impl Europa {
    /// Sets up Europa at `g0`, with a pool for each given number of slots. This thread is in the
    /// namespace of `g0`.
    pub(crate) fn new(testbed: &Testbed, slots: &[u32]) -> Result<Self> {
        let mut substrate = Substrate::open(Path::new(DIRECTORY)).map_err(europa)?;
        let here =
            europa_port::Namespace::named(testbed.generator.name()).context("a namespace")?;
        let device = testbed.generator.index("g0")?;
        let port = substrate
            .attach_port(PORT, &here, device, MAC[0], PortMode::Native, true)
            .map_err(europa)?;
        let transmit = substrate.transmit_program(0).map_err(europa)?;
        substrate.parking().park(0, &transmit, &here).map_err(europa)?;
        let what = "the receive program";
        let receive = Xdp::new(transmit.as_fd())
            .query_id(index_of("g0")?, XdpFlags::DRV_MODE)
            .and_then(Program::fd_from_id)
            .context(what)?;
        let pools = slots
            .iter()
            .zip(1..)
            .map(|(slots, number)| Pool::new(&substrate, &port, *slots, [2, 0, 0, 0, 1, number]));
        let pools = pools.collect::<Result<_>>()?;
        let map = |name| substrate.share(name).map_err(europa);
        let what = "mapping a table";
        let ports = Table::new(map("ports")?, layout::MAX_PORTS).context(what)?;
        let pool_state = Table::new(map("pool_state")?, layout::MAX_POOLS).context(what)?;
        let entries = layout::TRANSMIT_LIST * layout::MAX_WORKERS;
        let list = Table::new(map("transmit_list")?, entries).context(what)?;
        let workers = Table::new(map("workers")?, layout::MAX_WORKERS).context(what)?;
        Ok(Self {
            _port: port,
            device,
            receive,
            pools,
            ports,
            pool_state,
            kicker: Kicker::new(transmit),
            list,
            workers,
            tail: 0,
        })
    }

    /// The address of the interface whose frames go into pool number `pool`.
    pub(crate) fn mac(&self, pool: usize) -> [u8; 6] {
        self.pools[pool].mac
    }

    /// Sets whether received checksums may be partial, as from a veth.
    pub(crate) fn set_partial(&self, partial: bool) {
        let flags = if partial { layout::PORT_LOCAL_SENDER } else { 0 };
        let own = (0..layout::MAX_PORTS).filter(|place| self.ports.get(*place).id == PORT);
        for place in own {
            let at = offset_of!(layout::Port, flags);
            self.ports.atomic_u32(place, at).store(flags, Ordering::Release);
        }
    }

    /// Receives a frame `frames` times into pool number `pool`. Returns the mean nanoseconds.
    pub(crate) fn receive(&mut self, pool: usize, frames: u32, frame: &[u8]) -> Result<f64> {
        let pool = &mut self.pools[pool];
        let time = drop_time(&self.receive, frames, frame, self.device)?;
        match pool.give_back(&self.pool_state) {
            taken if taken == frames => Ok(time),
            taken => Err(wrong(format!("of {frames} frames {taken} are in the pool"))),
        }
    }

    /// Puts `frames` frames of the first pool into the transmit list.
    pub(crate) fn list(&mut self, frames: u32, frame: &[u8]) -> Result<()> {
        let pool = &self.pools[0];
        let head = offset_of!(layout::PoolState, recycle_head);
        let head = self.pool_state.atomic_u32(pool.handle.id, head);
        for _ in 0..frames {
            let free = take_shared(pool.view.recycle(), head);
            let slot = free.ok_or_else(|| wrong("no slot is free"))?.slot();
            let offset = rx_offset(slot);
            pool.view.mapping().copy_in(pool.view.slot_offset(slot, offset), frame);
            let word = Word::frame(slot, offset as u16, frame.len() as u16, 0).bits();
            let (interface, pool) = (pool.interface, pool.handle.id);
            let entry = layout::Transmit { word, interface, pool };
            self.list.set(self.tail % layout::TRANSMIT_LIST, entry);
            self.tail = self.tail.wrapping_add(1);
        }
        let tail = self.workers.atomic_u32(0, offset_of!(layout::Worker, tail));
        tail.store(self.tail, Ordering::Release);
        Ok(())
    }

    /// Sends the entries of the list.
    pub(crate) fn kick(&mut self, frames: u32, frame_bytes: u16) -> Result<()> {
        self.kicker.kick(frames, frame_bytes.into()).map_err(|error| wrong(error.to_string()))
    }
}

/// A pool with the router's end of it, which takes the packets and returns the slots.
struct Pool {
    slots: u32,
    mac: [u8; 6],
    interface: u32,
    handle: PoolHandle,
    view: PoolView,
    rx_head: u32,
}

impl Pool {
    fn new(substrate: &Substrate, port: &PortAttachment, slots: u32, mac: [u8; 6]) -> Result<Self> {
        let geometry = Geometry { slots, slot_bytes: 2048, interfaces: 1 };
        let handle = substrate.create_pool(geometry).map_err(europa)?;
        let view = PoolView::open(&handle, geometry).map_err(|error| wrong(error.to_string()))?;
        let spec = InterfaceSpec {
            local: 0,
            vlan: 0,
            mac,
            max_frame: 1514,
            flags: 0,
            matches: vec![Match { vlan: 0, kind: MatchKind::Mac(mac) }],
            bound: vec![],
            encap: vec![],
        };
        let interface = substrate.add_interface(&spec, Some(port), &handle).map_err(europa)?;
        Ok(Self { slots, mac, interface, handle, view, rx_head: 0 })
    }

    /// Takes all frames out of the receive ring, and returns their slots as after sending. Returns
    /// the number of frames.
    fn give_back(&mut self, pool_state: &Table<layout::PoolState>) -> u32 {
        let tail = offset_of!(layout::PoolState, recycle_tail);
        let tail = pool_state.atomic_u32(self.handle.id, tail);
        let mut received = Consumer::new(self.view.rx(0), self.rx_head);
        while let Some(word) = received.take() {
            let slot = word.slot() & (self.slots - 1);
            put_unbounded(self.view.recycle(), tail, Word::free(slot));
        }
        let taken = received.head().wrapping_sub(self.rx_head);
        self.rx_head = received.head();
        taken
    }
}
