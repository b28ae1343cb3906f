//! The socket way: frames are copied into private memory, checked there, and handed
//! to the device in one system call. For small batches, for frames too long for live
//! ones, and for devices without them.

use std::io::IoSlice;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, sendmmsg};

use europa_pool::PoolView;
use europa_port::DropCounters;
use europa_substrate::cause;
use europa_substrate::layout::VXLAN;
use europa_substrate::tap::Record;

use crate::egress::{Policy, Refusal, before_frame, finish};
use crate::queue::Queued;
use crate::tables::{Shared, count};
use crate::tap::{Leaving, leaving};

/// Frames of one system call.
pub(crate) const BATCH: usize = 64;
/// Room for one frame and what goes before it.
const FRAME_BYTES: usize = 16384 + 128;

/// A packet socket bound to a port's device.
pub(crate) struct Socket {
    fd: OwnedFd,
    counters: DropCounters,
}

impl Socket {
    /// Takes the packet socket and one through which the device's losses are read.
    pub(crate) fn new(fd: OwnedFd, counters: OwnedFd, device: u32) -> std::io::Result<Self> {
        Ok(Self { fd, counters: DropCounters::new(counters, device)? })
    }

    /// Frames that the device has lost after they had been sent.
    pub(crate) fn drops(&mut self) -> u64 {
        // A device that has gone loses nothing more.
        self.counters.read().map_or(0, |drops| drops.live_frames)
    }
}

/// Frames that are copied and wait to be sent; one for all ports of a worker.
pub(crate) struct Outbox {
    memory: Box<[u8]>,
    frames: Vec<Copied>,
    headers: MultiHeaders<SockaddrStorage>,
}

struct Copied {
    length: usize,
    interface: u32,
    counted_bytes: u64,
    taps: u32,
    /// Bytes of outer headers, and whether there is a tag that the router does not see.
    outer: usize,
    tagged: bool,
}

impl Outbox {
    pub(crate) fn new() -> Self {
        Self {
            memory: vec![0; BATCH * FRAME_BYTES].into(),
            frames: Vec::with_capacity(BATCH),
            headers: MultiHeaders::preallocate(BATCH, None),
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.frames.len() >= BATCH
    }

    /// Copies a frame, checks the copy and keeps it to be sent; counts a refusal.
    /// The slot is not needed any more.
    pub(crate) fn add(
        &mut self,
        shared: &Shared,
        view: &PoolView,
        policy: &Policy,
        packet: Queued,
    ) {
        let interface = shared.interfaces.get(packet.interface);
        let encap = shared.encap.get(packet.interface);
        let before = before_frame(&interface, &encap);
        let length = usize::from(packet.word.length());
        let offset = view.slot_offset(packet.word.slot(), packet.word.offset().into());
        let slot_end =
            view.slot_offset(packet.word.slot(), 0) + view.layout().geometry.slot_bytes as usize;
        let start = self.frames.len() * FRAME_BYTES;
        let verdict = match self.memory.get_mut(start..start + before + length) {
            Some(copy) if offset + length <= slot_end => {
                view.mapping().copy_out(offset, &mut copy[before..]);
                let verdict = policy.check(&interface, &copy[before..]);
                if verdict.is_ok() {
                    finish(&interface, &encap, copy, before);
                }
                verdict
            }
            _ => Err(Refusal::Length),
        };
        let tunnel = interface.flags & VXLAN != 0;
        match verdict {
            Ok(()) => self.frames.push(Copied {
                length: before + length,
                interface: packet.interface,
                counted_bytes: length as u64,
                taps: interface.taps,
                outer: if tunnel { before } else { 0 },
                tagged: !tunnel && before > 0,
            }),
            Err(Refusal::Length) => count!(shared, packet.interface, tx_drop_length, 1),
            Err(Refusal::Source) => count!(shared, packet.interface, tx_drop_source, 1),
            Err(Refusal::Vlan) => count!(shared, packet.interface, tx_drop_vlan, 1),
            Err(Refusal::Address) => count!(shared, packet.interface, tx_drop_address, 1),
        }
        if let Err(refusal) = verdict
            && interface.taps != 0
        {
            let (cause, bytes) = match refusal {
                Refusal::Length => (cause!(tx_drop_length), &[][..]),
                Refusal::Source => (cause!(tx_drop_source), self.copy(start + before, length)),
                Refusal::Vlan => (cause!(tx_drop_vlan), self.copy(start + before, length)),
                Refusal::Address => (cause!(tx_drop_address), self.copy(start + before, length)),
            };
            let time_ns = Record::now_ns();
            let (taps, interface) = (interface.taps, packet.interface);
            let (outer, tagged) = (0, false);
            leaving(shared, &Leaving { taps, interface, bytes, outer, tagged, cause, time_ns });
        }
    }

    fn copy(&self, start: usize, length: usize) -> &[u8] {
        self.memory.get(start..start + length).unwrap_or_default()
    }

    /// Records a frame for whoever captures its interface.
    fn tap(&self, shared: &Shared, index: usize, cause: u8, time_ns: u64) {
        let Some(frame) = self.frames.get(index).filter(|frame| frame.taps != 0) else { return };
        let Copied { length, interface, taps, outer, tagged, .. } = *frame;
        let bytes = self.copy(index * FRAME_BYTES, length);
        leaving(shared, &Leaving { taps, interface, bytes, outer, tagged, cause, time_ns });
    }

    /// Sends all copies; how many the device took. The others are lost, and counted.
    pub(crate) fn send(&mut self, shared: &Shared, socket: &Socket) -> usize {
        let frames = &self.frames;
        let slices: [[IoSlice<'_>; 1]; BATCH] = std::array::from_fn(|index| {
            let length = frames.get(index).map_or(0, |frame| frame.length);
            [IoSlice::new(&self.memory[index * FRAME_BYTES..][..length])]
        });
        let addresses: [Option<SockaddrStorage>; BATCH] = [None; BATCH];
        let mut sent = 0;
        let mut refused = 0;
        // Before they leave: an answer may be here before the call returns.
        let tapped = frames.iter().any(|frame| frame.taps != 0).then(Record::now_ns);
        while sent + refused < frames.len() {
            let from = sent + refused;
            let result = sendmmsg(
                socket.fd.as_raw_fd(),
                &mut self.headers,
                &slices[from..frames.len()],
                &addresses[from..frames.len()],
                [],
                MsgFlags::MSG_DONTWAIT,
            );
            match result {
                Ok(results) => {
                    let taken = results.count().max(1);
                    for frame in frames.iter().skip(from).take(taken) {
                        count!(shared, frame.interface, tx_packets, 1);
                        count!(shared, frame.interface, tx_bytes, frame.counted_bytes);
                    }
                    if let Some(time_ns) = tapped {
                        (from..from + taken).for_each(|at| self.tap(shared, at, 0, time_ns));
                    }
                    sent += taken;
                }
                Err(Errno::EINTR) => {}
                // The first frame was refused: the rest may still go.
                Err(_) => {
                    count!(shared, frames[from].interface, tx_drop_device, 1);
                    if let Some(time_ns) = tapped {
                        self.tap(shared, from, cause!(tx_drop_device), time_ns);
                    }
                    refused += 1;
                }
            }
        }
        self.frames.clear();
        sent
    }
}
