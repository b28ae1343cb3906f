//! `pool`: packets pass from a source over a packet pool to an isolated router and back to a sink,
//! without devices, on two cores. Two of DPDK's testpmd over memif are measured for comparison.
//!
//! This program is source and sink. Like the receive program, it takes a free slot, copies a frame
//! into it and puts it into the receive ring. Like the transmit program, it takes slots out of the
//! transmit ring. The router is `europa router` in its usual sandbox.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use europa_channel::{Channel, pair};
use europa_pool::ring::Consumer;
use europa_pool::{Geometry, Layout, PoolView, Word, stock};
use europa_router::orders::{Answer, Interface, Order, Start};
use nix::sys::memfd::{MFdFlags, memfd_create};
use serde::Serialize;
use serde_json::json;

use crate::cli::Options;
use crate::cpu::Sample;
use crate::error::{Context, Error, Result};
use crate::generator::pin;
use crate::interrupt;
use crate::measure::MAY_BE_STOLEN;
use crate::progress::Progress;
use crate::report::{Align, Bar, Bars, Chart, Outcome, Table, thousands};
use crate::statistics::Spread;
use crate::testbed::{OTHER_CORE, SENDER_CORE};
use crate::testpmd;

const GEOMETRY: Geometry = Geometry { slots: 2048, slot_bytes: 2048, interfaces: 2 };
const FRAME_BYTES: usize = 64;
const BATCH: u32 = 256;
/// Offset of frames in their slots.
const OFFSET: u16 = 256;
/// Largest valid difference between the halves of a run.
const HALVES_MAY_DIFFER: f64 = 0.10;
const TRIES: u32 = 4;

/// The router's work on packets.
const CONFIGURATIONS: [(&str, &str); 2] = [
    ("europa, forwards", "FromDevice(in) -> Queue(1024) -> ToDevice(out);\n"),
    (
        "europa, 10 elements of an IPv4 router",
        "FromDevice(in) -> Classifier(12/0800) -> Strip(14) -> CheckIPHeader -> GetIPAddress(16)\n\
         -> StaticIPLookup(10.1.0.0/16 0) -> DropBroadcasts -> DecIPTTL\n\
         -> EtherEncap(0x0800, 2:0:0:0:0:2, 2:0:0:0:0:9) -> Queue(1024) -> ToDevice(out);\n",
    ),
];
const REST: &str = "FromDevice(out) -> Discard; Idle -> ToDevice(in);\n";
const TESTPMD: &str = "two testpmd over memif";

/// The result of one system: million packets a second, and the fraction of the time that the
/// hypervisor took.
#[derive(Serialize)]
struct Measured {
    system: &'static str,
    pps: Vec<f64>,
    stolen: Vec<f64>,
    repeated: u32,
}

/// Runs the case.
pub(super) fn run(options: &Options, progress: &Progress) -> Result<Outcome> {
    let mut notes = vec![
        "64-byte frames from a source on one core, over shared memory to a router on the other one, \
         and back to a sink beside the source. Europa: a packet pool of 2,048 slots, `europa router` in \
         its sandbox, which never sleeps here; each frame is copied into its slot once. testpmd: \
         `flowgen` and `io`, DPDK's memif, each frame copied twice. Both cores are busy all \
         the time: two divided by the rate is the CPU time of a packet, source and sink included."
            .to_owned(),
    ];
    let seconds = if options.quick { 1.0 } else { 2.0 };
    let time = Duration::from_secs_f64(seconds);
    let names = CONFIGURATIONS.iter().map(|(name, _)| *name).chain([TESTPMD]);
    let mut measured: Vec<Measured> =
        names.map(|system| Measured { system, pps: vec![], stolen: vec![], repeated: 0 }).collect();
    let europa = program(options);
    if europa.is_none() {
        notes.push("europa: not available, no `europa` beside this program.".into());
    }
    let testpmd = testpmd::available();
    if let Err(reason) = &testpmd {
        notes.push(format!("testpmd: not available, {reason}."));
    }
    let repeat = options.repeat();
    for round in 1..=repeat {
        for (at, one) in measured.iter_mut().enumerate() {
            progress.show(&format!("pool: {} {round}/{repeat}", one.system));
            interrupt::check()?;
            let once: Box<dyn Fn() -> Result<(f64, bool)>> = match CONFIGURATIONS.get(at) {
                Some((_, text)) => {
                    let Some(program) = &europa else { continue };
                    Box::new(move || forward(program, text, time))
                }
                None if testpmd.is_ok() => {
                    Box::new(move || testpmd::echo(time).map(|rate| (rate, true)))
                }
                None => continue,
            };
            for attempt in 0..TRIES {
                let before = Sample::take()?;
                let (pps, steady) = once()?;
                let stolen = Sample::take()?.since(&before)?.stolen();
                if (steady && stolen <= MAY_BE_STOLEN) || attempt + 1 == TRIES {
                    one.pps.push(pps);
                    one.stolen.push(stolen);
                    break;
                }
                one.repeated += 1;
            }
        }
    }
    let repeated: u32 = measured.iter().map(|one| one.repeated).sum();
    if repeated > 0 {
        notes.push(format!(
            "{repeated} runs were made again, because their halves differed by more than 10 % or the \
             hypervisor took away more than {:.0} % of the time.",
            MAY_BE_STOLEN * 100.0
        ));
    }
    Ok(report(&measured, notes))
}

fn report(measured: &[Measured], notes: Vec<String>) -> Outcome {
    let columns = [
        ("system", Align::Left),
        ("thousand packets/s", Align::Right),
        ("smallest–largest", Align::Right),
        ("of testpmd", Align::Right),
        ("CPU ns/packet", Align::Right),
    ];
    let mut table = Table::new("Over shared memory to a process and back", &columns);
    let rate = |one: &Measured| Spread::of(&one.pps);
    let reference = measured.iter().find(|one| one.system == TESTPMD).and_then(rate);
    let mut bars = Vec::new();
    for one in measured {
        let Some(pps) = rate(one) else {
            let mut row = vec!["–".to_owned(); columns.len()];
            row[0] = one.system.to_owned();
            table.push(row);
            continue;
        };
        table.push([
            one.system.to_owned(),
            thousands(pps.median),
            format!("{}–{}", thousands(pps.min), thousands(pps.max)),
            reference.map_or("–".into(), |other| format!("{:.2}", pps.median / other.median)),
            format!("{:.0}", 2e9 / pps.median.max(1.0)),
        ]);
        bars.push(Bar {
            label: one.system.to_owned(),
            detail: String::new(),
            value: pps.median / 1e6,
            range: Some((pps.min / 1e6, pps.max / 1e6)),
            note: format!("{:.1}", pps.median / 1e6),
            series: 0,
        });
    }
    let chart = Chart::Bars(Bars {
        title: "Over shared memory to an isolated process and back, two cores".into(),
        unit: "million packets per second".into(),
        series: vec![],
        bars,
    });
    Outcome {
        name: "pool",
        title: "A packet pool without devices".into(),
        tables: vec![table],
        charts: vec![("pool".into(), chart)],
        notes,
        data: json!({ "systems": measured }),
    }
}

/// The given program, or the one built together with this program.
fn program(options: &Options) -> Option<PathBuf> {
    let beside = || {
        let path = std::env::current_exe().ok()?.with_file_name("europa");
        path.is_file().then_some(path)
    };
    options.europa.clone().or_else(beside)
}

/// Measures packets a second through a router with this configuration. Also returns whether both
/// halves of the run agree.
fn forward(program: &Path, configuration: &str, time: Duration) -> Result<(f64, bool)> {
    // A separate thread measures, because it pins itself to a core.
    let ends = std::thread::scope(|scope| {
        scope.spawn(|| source_and_sink(program, configuration, time)).join()
    });
    ends.unwrap_or_else(|_| Err(Error::Other("source and sink panicked".into())))
}

fn source_and_sink(program: &Path, configuration: &str, time: Duration) -> Result<(f64, bool)> {
    pin(SENDER_CORE)?;
    let mut pool = Pool::new()?;
    let _router = Router::start(program, configuration, &pool)?;
    let half = time / 2;
    pool.pass(Duration::from_millis(300))?;
    let rates = [pool.pass(half)?, pool.pass(half)?];
    let larger = rates[0].max(rates[1]);
    let steady = (rates[0] - rates[1]).abs() <= HALVES_MAY_DIFFER * larger;
    Ok(((rates[0] + rates[1]) / 2.0, steady))
}

/// A packet pool, and this program's positions in its rings.
struct Pool {
    memory: OwnedFd,
    view: PoolView,
    recycle_head: u32,
    recycle_tail: u32,
    rx_tail: u32,
    tx_head: u32,
    done_tail: u32,
    frame: [u8; FRAME_BYTES],
}

impl Pool {
    fn new() -> Result<Self> {
        let wrong = |error: &dyn std::fmt::Display| Error::Other(format!("the pool: {error}"));
        let layout = Layout::new(GEOMETRY).map_err(|error| wrong(&error))?;
        let memory = memory(c"pool", layout.memory_bytes().next_multiple_of(4096))?;
        let view = PoolView::open(&memory, GEOMETRY).map_err(|error| wrong(&error))?;
        view.format(&[]);
        let own = stock(GEOMETRY.slots);
        Ok(Self {
            memory,
            view,
            recycle_head: 0,
            recycle_tail: GEOMETRY.slots - own,
            rx_tail: 0,
            tx_head: 0,
            done_tail: own,
            frame: frame(),
        })
    }

    /// Sends and receives for this time. Returns the received packets a second.
    fn pass(&mut self, time: Duration) -> Result<f64> {
        let start = Instant::now();
        let mut received = 0;
        loop {
            for _ in 0..64 {
                self.send();
                received += self.receive();
            }
            let elapsed = start.elapsed();
            if elapsed >= time {
                if received == 0 {
                    return Err(Error::Other("the router passes nothing on".into()));
                }
                return Ok(received as f64 / elapsed.as_secs_f64());
            }
            interrupt::check()?;
        }
    }

    /// Does the work of the receive program.
    fn send(&mut self) {
        let rx = self.view.rx(0);
        let mut free = Consumer::new(self.view.recycle(), self.recycle_head);
        for _ in 0..BATCH {
            if rx.peek(self.rx_tail).is_some() {
                break;
            }
            let Some(word) = free.take() else { break };
            let slot = word.slot() & (GEOMETRY.slots - 1);
            self.view.mapping().copy_in(self.view.slot_offset(slot, OFFSET.into()), &self.frame);
            rx.fill(self.rx_tail, Word::frame(slot, OFFSET, FRAME_BYTES as u16, 0));
            self.rx_tail = self.rx_tail.wrapping_add(1);
        }
        self.recycle_head = free.head();
    }

    /// Empties the ring of sent slots. Returns the number of slots.
    fn receive(&mut self) -> u64 {
        let mut tx = Consumer::new(self.view.tx(1), self.tx_head);
        let mut received = 0;
        while received < u64::from(BATCH) {
            let Some(word) = tx.take() else { break };
            let slot = Word::free(word.slot() & (GEOMETRY.slots - 1));
            let (ring, tail) = match word.flags() & Word::RETURN != 0 {
                true => (self.view.done(), &mut self.done_tail),
                false => (self.view.recycle(), &mut self.recycle_tail),
            };
            ring.fill(*tail, slot);
            *tail = tail.wrapping_add(1);
            received += 1;
        }
        self.tx_head = tx.head();
        received
    }
}

/// A router's process, which ends when this is dropped.
struct Router {
    child: Child,
    _orders: Channel<Order, Answer>,
    _pipes: [OwnedFd; 2],
}

impl Router {
    fn start(program: &Path, configuration: &str, pool: &Pool) -> Result<Self> {
        let wrong = |error: &dyn std::fmt::Display| Error::Other(format!("the router: {error}"));
        let (mut orders, theirs) = pair::<Order, Answer>().map_err(|error| wrong(&error))?;
        let control = theirs.as_raw_fd();
        let mut command = Command::new(program);
        command
            .args(["router", "--number", "4000", "--name", "bench/pool"])
            .arg(format!("--cpus={OTHER_CORE}"))
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        // SAFETY: dup2 is one system call, allocates nothing and takes no lock.
        unsafe {
            command.pre_exec(move || match libc::dup2(control, 3) {
                // Descriptor 3 stays open in the new program only without the close-on-exec flag.
                3 if libc::fcntl(3, libc::F_SETFD, 0) == 0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        let child = command.spawn().context(program.display().to_string())?;
        drop(theirs);
        let interface = |(number, name): (u8, &str)| Interface {
            name: name.to_owned(),
            mac: [2, 0, 0, 0, 0, number],
            mtu: 1500,
            address: None,
        };
        let start = Order::Start(Box::new(Start {
            slots: GEOMETRY.slots,
            slot_bytes: GEOMETRY.slot_bytes,
            interfaces: [(1, "in"), (2, "out")].map(interface).into(),
            worker: 0,
            busy: true,
            configuration: format!("{configuration}{REST}"),
            file: "pool.click".into(),
            grants: Vec::new(),
            inline: None,
        }));
        // This router never sleeps, so it needs no doorbell, and no other node adopts it.
        let waker = memory(c"waker", 2 * 4096)?;
        let status = memory(c"status", 4096)?;
        let (wake, wake_end) = nix::unistd::pipe().context("a pipe")?;
        let (doorbell_end, doorbell) = nix::unistd::pipe().context("a pipe")?;
        let nobody: OwnedFd = File::open("/dev/null").context("/dev/null")?.into();
        let handed = [&pool.memory, &waker, &wake, &doorbell, &status, &nobody];
        let handed = handed.map(|descriptor| descriptor.as_fd());
        let answer = orders.send(&start, &handed).and_then(|()| orders.receive());
        let mut router = Self { child, _orders: orders, _pipes: [wake_end, doorbell_end] };
        match answer {
            Ok((Answer::Done(_), _)) => Ok(router),
            Ok((other, _)) => Err(wrong(&format!("{other:?}"))),
            Err(error) => Err(wrong(&format!("{error}: {}", router.said()))),
        }
    }

    /// The router's output so far.
    fn said(&mut self) -> String {
        let _ = self.child.kill();
        let mut text = String::new();
        if let Some(mut log) = self.child.stderr.take() {
            let _ = std::io::Read::read_to_string(&mut log, &mut text);
        }
        text
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        // The router may already have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn memory(name: &std::ffi::CStr, bytes: usize) -> Result<OwnedFd> {
    let memory = memfd_create(name, MFdFlags::MFD_CLOEXEC).context("making memory")?;
    nix::unistd::ftruncate(&memory, bytes as i64).context("making memory")?;
    Ok(memory)
}

/// A UDP frame to 10.1.2.3.
fn frame() -> [u8; FRAME_BYTES] {
    let mut frame = [0; FRAME_BYTES];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0]);
    let ip = [0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 8, 7, 10, 1, 2, 3];
    frame[14..34].copy_from_slice(&ip);
    let checksum = crate::generator::internet_checksum(&ip);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame
}
