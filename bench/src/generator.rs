//! The generator: a thread that sends UDP frames from inside the kernel.
//!
//! `bpf/generator.bpf.c` runs in live-frame mode, which sends over five million packets a second
//! from one core. The program itself paces the batches, so a given rate is even. The core is busy
//! at any rate.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use libbpf_rs::{MapCore, MapFlags, MapHandle, ObjectBuilder, ProgramInput, Xdp, XdpFlags};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::error::{Context, Error, Result};
use crate::testbed::{MAC, SENDER_CORE, Testbed};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/generator.bpf.o"));

/// `BPF_F_TEST_XDP_LIVE_FRAMES` of `<linux/bpf.h>`.
const LIVE_FRAMES: u32 = 1 << 1;
/// Frames of one system call, about 20 ms: after this time the thread notices a request to stop.
const FRAMES_PER_CALL: u32 = 1 << 17;
/// TTL of the frames sent.
pub(crate) const TTL: u8 = 64;

/// The frames to send.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// Bytes of a frame, without its check sequence: 60 to 1514.
    pub(crate) frame_bytes: u16,
    /// Packets per second; `None` means as fast as possible.
    pub(crate) packets_per_second: Option<u64>,
    /// Number of destinations: 1 means 10.0.1.2; a power of two up to 65536 means as many addresses
    /// in 10.1.0.0/16.
    pub(crate) destinations: u32,
    /// Number of routers, or 0. Frames go to each of them in random order: the last two bytes of
    /// the Ethernet destination and of the address in 10.1.0.0/16 are the router's number.
    pub(crate) routers: u32,
    /// Whether packets carry sequence number and time of sending.
    pub(crate) stamp: bool,
}

impl Load {
    /// The same load at another rate.
    pub(crate) fn at(self, packets_per_second: u64) -> Self {
        Self { packets_per_second: Some(packets_per_second), ..self }
    }

    /// The 42 bytes of headers, Ethernet to UDP, without a UDP checksum.
    pub(crate) fn header(&self, first_hop: [u8; 6]) -> [u8; 42] {
        let ip_bytes = self.frame_bytes.saturating_sub(14);
        let destination =
            if self.destinations > 1 || self.routers > 0 { [10, 1, 0, 0] } else { [10, 0, 1, 2] };
        let mut header = Vec::with_capacity(42);
        header.extend(first_hop);
        header.extend(MAC[0]);
        header.extend([0x08, 0x00, 0x45, 0]);
        header.extend(ip_bytes.to_be_bytes());
        header.extend([0, 0, 0, 0, TTL, 17, 0, 0, 10, 0, 0, 2]);
        header.extend(destination);
        header.extend(1000_u16.to_be_bytes());
        header.extend(9_u16.to_be_bytes());
        header.extend(ip_bytes.saturating_sub(20).to_be_bytes());
        header.extend([0, 0]);
        let mut bytes = [0; 42];
        bytes.copy_from_slice(&header);
        let checksum = internet_checksum(&bytes[14..34]);
        bytes[24..26].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    /// The bytes of the program's `config`.
    fn to_bytes(&self, ifindex: u32, first_hop: [u8; 6]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(72);
        bytes.extend(self.packets_per_second.unwrap_or(0).to_ne_bytes());
        bytes.extend(ifindex.to_ne_bytes());
        bytes.extend(self.destinations.to_ne_bytes());
        bytes.extend(u32::from(self.stamp).to_ne_bytes());
        bytes.extend(self.header(first_hop));
        bytes.extend([0; 2]);
        bytes.extend(self.routers.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes
    }
}

/// The Internet checksum (RFC 1071) of an even number of bytes.
pub(crate) fn internet_checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 =
        bytes.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or(0)
}

/// A running generator; stops when dropped.
pub(crate) struct Generator {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
    state: MapHandle,
}

impl Generator {
    /// Starts to send from `g0`.
    pub(crate) fn start(testbed: &Testbed, load: &Load) -> Result<Self> {
        let ifindex = testbed.generator.index("g0")?;
        let loopback = i32::try_from(testbed.generator.index("lo")?).unwrap_or(1);
        let config = load.to_bytes(ifindex, testbed.first_hop());

        let mut builder = ObjectBuilder::default();
        let mut open = builder.open_memory(OBJECT).context("opening the generator's program")?;
        let mut rodata = open
            .maps_mut()
            .find(|map| map.name().to_string_lossy().ends_with(".rodata"))
            .ok_or_else(|| Error::Other("the generator has no configuration".into()))?;
        rodata.set_initial_value(&config).context("configuring the generator")?;
        let object = open.load().context("loading the generator's program")?;
        let state = object
            .maps()
            .find(|map| map.name().to_string_lossy().ends_with(".bss"))
            .ok_or_else(|| Error::Other("the generator has no state".into()))?;
        let state = MapHandle::try_from(&state).context("the generator's state")?;

        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let namespace = testbed.generator.name().to_owned();
        let frame = vec![0; usize::from(load.frame_bytes)];
        let enter = testbed.generator.handle()?;
        let thread = std::thread::Builder::new()
            .name("generator".into())
            .spawn(move || {
                enter.enter()?;
                pin(SENDER_CORE)?;
                let program = object
                    .progs_mut()
                    .next()
                    .ok_or_else(|| Error::Other("the generator has no program".into()))?;
                // A live run of an unattached program waits 24 ms for RCU. So the program is
                // attached to this namespace's loopback device, which is down and never calls it.
                Xdp::new(program.as_fd())
                    .attach(loopback, XdpFlags::SKB_MODE)
                    .context(format!("attaching the generator to lo of {namespace}"))?;
                // `struct xdp_md`: data, data_end, data_meta, two indices, egress.
                let mut context = [0_u8; 24];
                let end = u32::try_from(frame.len()).unwrap_or(0);
                context[4..8].copy_from_slice(&end.to_ne_bytes());
                while !stopped.load(Ordering::Relaxed) {
                    let mut context = context;
                    let input = ProgramInput {
                        context_in: Some(&mut context),
                        data_in: Some(&frame),
                        flags: LIVE_FRAMES,
                        repeat: FRAMES_PER_CALL,
                        ..Default::default()
                    };
                    match program.test_run(input) {
                        Ok(_) => {}
                        Err(error) if error.kind() == libbpf_rs::ErrorKind::Interrupted => {}
                        Err(error) => {
                            return Err(Error::Bpf {
                                what: "sending frames".into(),
                                source: error,
                            });
                        }
                    }
                }
                Ok(())
            })
            .context("starting the generator")?;
        Ok(Self { stop, thread: Some(thread), state })
    }

    /// Packets sent so far.
    pub(crate) fn sent(&self) -> Result<u64> {
        let value = self
            .state
            .lookup(&0_u32.to_ne_bytes(), MapFlags::ANY)
            .context("reading the generator's counter")?;
        let bytes = value.as_deref().and_then(|value| value.first_chunk()).copied();
        bytes.map(u64::from_ne_bytes).ok_or_else(|| Error::Other("no generator counter".into()))
    }

    /// Stops the thread. Returns the number of sent packets, or the reason why the thread ended
    /// early.
    pub(crate) fn stop(mut self) -> Result<u64> {
        self.end()?;
        self.sent()
    }

    fn end(&mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(Error::Other("the generator panicked".into())),
        }
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Binds the calling thread to a core.
pub(crate) fn pin(core: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(core).and_then(|()| sched_setaffinity(Pid::from_raw(0), &set)).context("pinning")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load() -> Load {
        Load {
            frame_bytes: 64,
            packets_per_second: None,
            destinations: 1,
            routers: 0,
            stamp: false,
        }
    }

    #[test]
    fn headers_carry_lengths_and_a_right_checksum() {
        for (frame_bytes, destinations) in [(64, 1), (60, 256), (1514, 1)] {
            let load = Load { frame_bytes, destinations, ..load() };
            let header = load.header(MAC[1]);
            assert_eq!(internet_checksum(&header[14..34]), 0, "{load:?}");
            assert_eq!(u16::from_be_bytes([header[16], header[17]]), frame_bytes - 14);
            assert_eq!(u16::from_be_bytes([header[38], header[39]]), frame_bytes - 34);
            assert_eq!(header[30..32], if destinations > 1 { [10, 1] } else { [10, 0] });
        }
    }

    #[test]
    fn config_has_the_size_of_the_programs() {
        assert_eq!(load().to_bytes(1, MAC[1]).len(), 72);
    }
}
